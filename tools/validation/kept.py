"""Predictions that were made before, by the hash of all that they depend on.

Mental model: a prediction depends on gpusim's own source, the installed compilers, the kernel's source and options, the
machine's description, the row's identity and how the launch was made smaller. Their hash names a file; a run that was
broken off finds what it had made, and a change of the model makes all anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

from gpusim.frontend.toolchain_versions import installed, toolchain
from gpusim.io.cache_folder import cache_folder
from gpusim.io.kept_files import keep, read_kept

from .predict import Prediction

ROOT = Path(__file__).parents[2]
#: Folders whose source decides what is predicted.
_DECIDING = ("emulator", "engine", "frontend", "isa", "launch", "model", "trace")
_EXTERNAL = ROOT / "workloads" / "external"
#: What makes another machine of a description, which alone is part of a prediction's name.
_CUT_DOWN = "gpusim/gpus/cut_down.py"
#: What a kept prediction took, beside its values.
CPU_S = "cpu_s"
#: Packages that make machine code, beside those of Numba's kernels.
_COMPILERS = ("nvidia-cuda-nvrtc", "triton")
#: What is said of cycles once they are known.
_TELLING = ("result.py", "bound.py", "utilisation.py")


@cache
def source_digest() -> str:
    """Of gpusim's source that every prediction depends on, and of what makes launches smaller. What makes a family's
    launches (workloads.external.families.file_of) is not here: it is a source of that family's rows."""
    digest = hashlib.sha256(", ".join((toolchain(), *installed(_COMPILERS))).encode())
    files = [
        path
        for room in _DECIDING
        for path in sorted((ROOT / "gpusim" / room).rglob("*.py"))
        if path.name not in _TELLING
    ]
    for path in (
        *files,
        ROOT / _CUT_DOWN,
        *(
            Path(__file__).with_name(name)
            for name in ("predict.py", "suite_launch.py", "own_compiler.py", "held_clock.py")
        ),
        _EXTERNAL / "launches.py",
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(facts: Iterable[object], sources: Iterable[Path]) -> str:
    """The name of a prediction's file."""
    digest = hashlib.sha256(source_digest().encode())
    for fact in facts:
        digest.update(f"{fact!r}\0".encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_values(key: str) -> dict[str, Any] | None:
    """The values kept under ``key``, if there are any."""
    folder = cache_folder()
    data = folder and read_kept(folder / "validation" / key)
    try:
        found = json.loads(data) if data else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def write_values(key: str, values: dict[str, Any]) -> None:
    """Keep them, where there is a folder for such."""
    folder = cache_folder()
    if folder is not None:
        keep(folder / "validation" / key, json.dumps(values).encode())


def read(key: str) -> tuple[Prediction, float] | None:
    """The prediction kept under ``key``, if there is one, and the processor seconds that it took."""
    values = read_values(key)
    if values is None:
        return None
    try:
        made = Prediction(**{each.name: values[each.name] for each in fields(Prediction)})
        return made, float(values[CPU_S])
    except (KeyError, TypeError):
        return None


def write(key: str, prediction: Prediction, cpu_s: float) -> None:
    """Keep it."""
    write_values(key, asdict(prediction) | {CPU_S: cpu_s})
