"""Writes the libraries that programs load: the driver's and, beside it, the runtime's of CUDA 12 and 13."""

from __future__ import annotations

from pathlib import Path

from gpusim.cudart.constants import constants
from gpusim.cudart.names import names_of
from gpusim.cudart.runtime import FORKED_TEXTS
from gpusim.driver.device import make_device
from gpusim.driver.driver import Driver
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.ledger import Ledger
from gpusim.driver.library_files import library_file
from gpusim.driver.library_folder import LINKS, RUNTIMES, SONAME, are_written, libraries_folder
from gpusim.driver.session import DEFAULT_GPU


def write_libraries() -> Path:
    """The folder with all of them, written if they are not there. Raises ToolchainError where they cannot be."""
    if not are_written():
        driver = Driver(make_device(DEFAULT_GPU), Ledger(), Interrupts(lambda: None))
        library_file(SONAME, list(driver.functions()), links=LINKS)
        for soname, links in RUNTIMES.items():
            major = int(soname.rpartition(".")[2])
            library_file(soname, names_of(major), soname, FORKED_TEXTS, constants(major), links)
    return libraries_folder()
