"""Machine code of gpusim's own compiled functions, kept from one checkout for the next, as that of kernels is.

Mental model: Numba keeps it beside the sources, so that every fresh clone and every worktree compiles all of it, a
quarter of the processor time of the tests. What a function was compiled from is a digest in its index
(:func:`gpusim.io.jit_cache.stamped`), which stands for contents alone: files of the same digest are put in place before
the workers start, and what a run has compiled is kept when it ends. Per digest, processor and version of Numba there is
a folder; whoever comes first fills a function's place in it, and the folders that were used last stay.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import llvmlite.binding as llvm
import numba

from gpusim.io.cache_folder import cache_folder
from gpusim.isa import jit
from gpusim.model import compiled as model
from gpusim.sanitizer import async_jit
from gpusim.trace import compiled as trace

ROOT = Path(__file__).parents[2]
#: Four of them are one state of the sources, some ten megabytes.
MOST_FOLDERS = 16


def kept_folder() -> Path | None:
    """Where it is kept; None where nothing is to be kept, or Numba is told to compile otherwise."""
    base = cache_folder()
    return None if base is None or any(name.startswith("NUMBA_") for name in os.environ) else base / "compiled"


def versions() -> list[str]:
    """What the indexes of functions that these sources make say of themselves."""
    stamps = (jit.SOURCES, model.SOURCES, trace.SOURCES, async_jit._STAMP)
    return [f"{numba.__version__} {stamp}" for stamp in stamps]


def keep(root: Path, store: Path, known: Sequence[str]) -> int:
    """Keep what ``root`` has compiled from sources of the ``known`` versions and ``store`` does not hold; how many
    functions."""
    count = 0
    with _alone(store):
        for index in sorted((root / "gpusim").rglob("*.nbi")):
            version = _version(index)
            kept = store / _name(version) / index.relative_to(root)
            if version in known and not kept.exists():
                _copy(index, kept)
                count += 1
        folders = sorted((path for path in store.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
        for folder in folders[:-MOST_FOLDERS]:
            shutil.rmtree(folder)
    return count


def restore(root: Path, store: Path, known: Sequence[str]) -> int:
    """Put in place what ``store`` holds of the ``known`` versions and ``root`` has not compiled itself; how many
    functions."""
    count = 0
    with _alone(store):
        for version in known:
            folder = store / _name(version)
            for kept in sorted(folder.rglob("*.nbi")):
                index = root / kept.relative_to(folder)
                if not index.exists() or _version(index) != version:
                    _copy(kept, index)
                    count += 1
            if folder.is_dir():
                os.utime(folder)
    return count


def _name(version: str) -> str:
    about = f"{version} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return hashlib.sha256(about.encode()).hexdigest()[:16]


def _version(index: Path) -> str:
    """What Numba looks at before anything else of an index."""
    try:
        with index.open("rb") as file:
            return str(pickle.load(file))
    except (OSError, EOFError, pickle.UnpicklingError):
        return ""


def _copy(index: Path, to: Path) -> None:
    """An index and the code that it names, the index last: code without one is not looked at."""
    to.parent.mkdir(parents=True, exist_ok=True)
    for path in (*index.parent.glob(f"{index.stem}.*.nbc"), index):
        beside = to.with_name(f"{path.name}.{os.getpid()}")
        shutil.copyfile(path, beside)
        beside.replace(to.with_name(path.name))


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """One process at a time: an index and its code belong together."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
