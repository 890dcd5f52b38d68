"""Source lines for kernels that were compiled without them, made only when somebody asks.

Mental model: a program's kernels are compiled as the program says, mostly with no line information. When a
launch fails, or its trace is kept, the same kernel is compiled once more with lines; the reader of both
builds uses the lines only if the code is the same. To be able to do so, what each kernel was compiled from
is remembered under its symbol.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from numba.cuda.dispatcher import _Kernel

from gpusim.driver.kernel_source import KernelSource


class LineSource(KernelSource):
    """While installed, remembers how each of Numba's kernels was compiled."""

    def __init__(self) -> None:
        self._recipes: dict[str, tuple[Callable, tuple, dict[str, Any]]] = {}
        self._original: Callable | None = None
        self._asking = False

    def install(self) -> None:
        """Look on from now on as Numba compiles kernels."""
        self._original = original = _Kernel.__init__

        @functools.wraps(original)
        def remembering(kernel: _Kernel, py_func: Callable, argtypes: tuple, **options: Any) -> None:
            given = dict(options, link=list(options.get("link") or ()))
            original(kernel, py_func, argtypes, **options)
            if not self._asking:
                self._recipes[kernel.entry_name] = py_func, argtypes, given

        _Kernel.__init__ = remembering

    def remove(self) -> None:
        """Leave Numba as it was."""
        if self._original is not None:
            _Kernel.__init__ = self._original
            self._original = None

    def name_of(self, symbol: str) -> str | None:
        """The kernel's name in the program's source; None for a symbol that Numba did not make here."""
        recipe = self._recipes.get(symbol)
        return getattr(recipe[0], "__name__", None) if recipe else None

    def build(self, symbol: str) -> bytes:
        """The kernel's cubin with line information, or nothing where it cannot be had."""
        recipe = self._recipes.get(symbol)
        if recipe is None or recipe[2].get("lineinfo") or recipe[2].get("debug"):
            return b""
        py_func, argtypes, options = recipe
        self._asking = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = dict(options, lineinfo=True, link=list(options["link"]))
                return bytes(_Kernel(py_func, argtypes, **options)._codelibrary.get_cubin().code)
        except Exception:  # lines are a convenience; the kernel itself did compile
            return b""
        finally:
            self._asking = False
