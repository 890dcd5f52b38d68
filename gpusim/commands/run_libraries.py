"""The libraries of ``gpusim run``: written where they are not yet, and opened before anybody else opens NVIDIA's.

Mental model: the dynamic loader looks for a library by its SONAME among those that are loaded, then in the folders that
the asking file names (DT_RPATH), then in LD_LIBRARY_PATH. PyTorch's files name the folders of NVIDIA's wheels, and
Numba opens the runtime among them as soon as it is imported. So a Python that runs a program opens the runtimes first
of all.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from pathlib import Path

from gpusim.driver.library_folder import RUNTIMES, are_written, libraries_folder


def libraries() -> Path:
    """The folder of the libraries. Writing them takes all of the simulator; this process does without it where it
    can."""
    if are_written():
        return libraries_folder()
    return importlib.import_module("gpusim.cudart.libraries").write_libraries()


def open_runtimes() -> None:
    """Open the runtimes in this process, which has not imported Numba yet. What writes them imports it, so a fork
    does."""
    folder = libraries_folder()
    if not are_written():
        child = os.fork()
        if not child:
            try:
                libraries()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    for soname in RUNTIMES:
        if (folder / soname).exists():  # else there is an error, which comes again where they are wanted
            ctypes.CDLL(str(folder / soname), mode=ctypes.RTLD_LOCAL)
