"""Packages that gpusim reaches by name only: the kernel suite and the workloads.

Mental model: installed, they are ``gpusim.kernels`` and ``gpusim.workloads``; in a source tree they lie at the top. No
module of gpusim imports them, so that what they hold stays data to it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType

from gpusim.errors import ToolchainError


def load_sibling(name: str, what: str) -> ModuleType:
    """The package ``gpusim.<name>``. Raises ToolchainError, naming ``what`` it is, when there is none."""
    full = f"gpusim.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    start = Path(__file__).parents[2] / name / "__init__.py"
    spec = importlib.util.spec_from_file_location(full, start, submodule_search_locations=[str(start.parent)])
    if not start.exists() or spec is None or spec.loader is None:
        raise ToolchainError(f"{what} ({full}) is not installed: pip install gpusim")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module


def traces_folder(name: str) -> Traversable:
    """The folder ``name`` of the data that ships with gpusim: inside the installed package, or at the top of a
    source tree."""
    try:
        return files("gpusim.traces") / name
    except ModuleNotFoundError:  # not installed: running from the source tree
        return Path(__file__).parents[2] / "traces" / name
