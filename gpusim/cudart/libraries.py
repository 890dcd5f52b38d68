"""Writes the libraries that programs load: the driver's and, beside it, the runtime's of CUDA 12 and 13."""

from __future__ import annotations

from pathlib import Path

from gpusim.cudart.names import names_of
from gpusim.cudart.runtime import FORKED_TEXTS
from gpusim.driver.device import make_device
from gpusim.driver.driver import LINKS, SONAME, Driver
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.ledger import Ledger
from gpusim.driver.library_files import libraries_folder, library_file
from gpusim.driver.session import DEFAULT_GPU

#: CUDA version -> other names of its runtime's file; linkers look for the first without a number.
RUNTIMES = {12: (), 13: ("libcudart.so",)}


def write_libraries() -> Path:
    """The folder with all of them. Raises ToolchainError where they cannot be written."""
    folder, runtimes = libraries_folder(), {f"libcudart.so.{major}": major for major in RUNTIMES}
    if all((folder / name).exists() for name in (SONAME, *LINKS, *runtimes)):
        return folder
    driver = Driver(make_device(DEFAULT_GPU), Ledger(), Interrupts(lambda: None))
    library_file(SONAME, list(driver.functions()), links=LINKS)
    for soname, major in runtimes.items():
        library_file(soname, names_of(major), soname, FORKED_TEXTS, RUNTIMES[major])
    return folder
