"""The first run on a machine: say that gpusim is compiling, and compile its halves side by side.

Mental model: the emulator and the engine each take ten to twenty seconds to compile once. A command that needs
both captures first, so the engine can be compiled meanwhile by a process of its own, through Numba's
cache on disk. Where that cache lies elsewhere (NUMBA_CACHE_DIR, a read-only installation), nothing is
done: the run is right, only later.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

try:
    from numba import config
except ImportError:  # nothing will be compiled; `gpusim doctor` says why
    config = None

PACKAGE = Path(__file__).parents[1]
PRECOMPILE = "gpusim.engine.precompile"


def is_cold(half: str) -> bool:
    """Whether ``half`` ("emulator" or "engine") has certainly not been compiled yet."""
    cache = PACKAGE / half / "__pycache__"
    if (
        config is None
        or config.DISABLE_JIT
        or config.CACHE_DIR
        or not os.access(cache if cache.exists() else PACKAGE, os.W_OK)
    ):
        return False
    return not any(cache.glob("*.nbi"))


def start_compiling_engine() -> subprocess.Popen | None:
    """Announce what is compiled for the first time; if both halves are, start on the engine's and return
    the process to wait for."""
    if not (is_cold("emulator") or is_cold("engine")):
        return None
    click.echo("compiling gpusim for this machine, once: about half a minute", err=True)
    if not (is_cold("emulator") and is_cold("engine")):
        return None
    return subprocess.Popen(
        [sys.executable, "-m", PRECOMPILE, "--first"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
