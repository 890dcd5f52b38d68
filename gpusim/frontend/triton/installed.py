"""Triton, if it is installed: imported when a kernel of it is compiled and not before.

Mental model: whether an object is Triton's can be told without importing Triton, since whoever made it has. Everything
else asks for a module by name here, and hears which extra to install where there is none.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from types import ModuleType
from typing import Any

from gpusim.errors import ToolchainError

INSTALL_HINT = "pip install 'gpusim[triton]'"
_JIT, _AUTOTUNER, _INTERPRETER = "triton.runtime.jit", "triton.runtime.autotuner", "triton.runtime.interpreter"


def load(module: str) -> ModuleType:
    """Module ``triton`` or one of its own. Raises ToolchainError, naming the extra, where Triton is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ToolchainError(f"a Triton kernel needs Triton ({error}): {INSTALL_HINT}") from None


def is_triton_kernel(value: object) -> bool:
    """Whether ``value`` is a ``triton.jit`` function, wrapped or not, perhaps with keywords bound by
    ``functools.partial``. Imports nothing."""
    if isinstance(value, partial):
        return not value.args and is_triton_kernel(value.func)
    return is_jit(value) or is_autotuner(value) or is_heuristics(value) or is_interpreted(value)


def is_jit(value: object) -> bool:
    """Whether it is a function that Triton compiles."""
    return _is(value, _JIT, "JITFunction")


def is_autotuner(value: object) -> bool:
    """Whether ``triton.autotune`` wraps it."""
    return _is(value, _AUTOTUNER, "Autotuner")


def is_heuristics(value: object) -> bool:
    """Whether ``triton.heuristics`` wraps it."""
    return _is(value, _AUTOTUNER, "Heuristics")


def is_interpreted(value: object) -> bool:
    """Whether Triton's own interpreter runs it (``TRITON_INTERPRET=1``): there is no machine code then."""
    return _is(value, _INTERPRETER, "InterpretedFunction")


def _is(value: object, module: str, name: str) -> bool:
    kind: Any = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)
