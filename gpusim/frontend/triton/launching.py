"""Triton's launches as a program writes them, ``kernel[grid](*args, BLOCK=1024)``, taken over in this process.

Mental model: ``kernel[grid]`` is a call that runs the kernel on the active driver's device. While :func:`launching` is
entered, that call is handed on with its keywords, and no driver is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpusim.frontend.protocol import TakeLaunch
from gpusim.frontend.triton.installed import is_triton_kernel
from gpusim.frontend.triton.kernels import TritonKernel


@contextmanager
def launching(take: TakeLaunch) -> Iterator[None]:
    """Give launches of ``triton.jit`` functions to ``take``; nothing to do where nobody has imported Triton."""
    module: Any = sys.modules.get("triton.runtime.jit")
    if module is None:
        yield
        return
    kinds, before = module.KernelInterface, module.KernelInterface.__getitem__

    def with_grid(function: Any, grid: Any) -> Callable[..., None]:
        if not is_triton_kernel(function):
            return before(function, grid)
        return lambda *args, **given: take(TritonKernel(function, given), grid, None, args, 0)

    kinds.__getitem__ = with_grid
    try:
        yield
    finally:
        kinds.__getitem__ = before
