"""Keeps Numba's on-disk cache honest when a source file changes.

Mental model: Numba stamps a cached function with the state of the file that defines it and looks at that
file alone; a function compiled together with a callee from another file keeps the callee's old code. So the
stamp here covers all sources that a package's compiled code may contain: a cache written from other
sources, even by a process that still runs them, is never loaded, wherever Numba keeps it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher

from gpusim.io.jit_kept import KeptFunctions, cache_of


def stamp_of(sources: Iterable[Path]) -> str:
    """A digest of the contents of ``sources``."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamped(function: Any, stamp: str) -> Any:
    """Keep a Numba dispatcher's or C callback's compiled code on disk, under ``stamp``: it stands for contents alone,
    so that files that were only touched or copied cost nothing. The stamp stands beside Numba's version, which is read
    first: what was compiled from other sources may name classes that are gone, and must not even be unpickled. What is
    compiled must end in a :class:`gpusim.io.jit_kept.KeptLibrary`."""
    if isinstance(function, (Dispatcher, CFunc)):  # not under NUMBA_DISABLE_JIT
        function._cache = cache_of(function._pyfunc if isinstance(function, CFunc) else function.py_func, KeptFunctions)
        if isinstance(function._cache, KeptFunctions):
            cache_file = function._cache._cache_file
            cache_file._source_stamp = (stamp,)
            cache_file._version = f"{cache_file._version} {stamp}"
    return function


def kept(function: Callable[..., Any]) -> Any:
    """Compile ``function``, which calls compiled code of its own file alone, and keep that where there is a place for
    it: ``numba.njit(cache=True)``, which refuses where there is none."""
    made = njit(function)
    if isinstance(made, Dispatcher):
        made._cache = cache_of(function)
    return made
