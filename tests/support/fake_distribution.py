"""Packages of strangers, as pip would have installed them: metadata with entry points, in a folder on ``sys.path``."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def on_path(site: Path) -> Iterator[Path]:
    """``site`` is the first folder that Python looks into for packages; what it imported from there is forgotten
    behind."""
    before = set(sys.modules)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
                del sys.modules[name]


def install(site: Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write the metadata of distribution ``name`` into ``site``; ``groups`` maps group -> entry point -> target."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{entry} = {target}" for entry, target in entries.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines))
