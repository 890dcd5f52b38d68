"""Numba's launches as a program writes them, ``kernel[grid, block](*args)``, taken over in this process.

Mental model: Numba makes a configured kernel of ``kernel[grid, block, stream, shared_bytes]`` and asks the driver for a
stream right then. While :func:`launching` is entered, what it makes instead hands the call on; streams are not looked
at, since launches are taken one after another. Everything else of Numba stays as it is: a program that copies arrays to
a device itself needs a driver, emulated by ``gpusim run``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.errors import normalize_kernel_dimensions

from gpusim.errors import UsageError
from gpusim.frontend.protocol import TakeLaunch


@contextmanager
def launching(take: TakeLaunch) -> Iterator[None]:
    """Give launches of ``@cuda.jit`` kernels to ``take``. ``kernel.forall(n)`` must say its block (``tpb=``): the block
    of highest occupancy, which Numba would choose, is the driver's to tell. Raises UsageError where it does not."""

    def configure(kernel: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        grid, block = normalize_kernel_dimensions(griddim, blockdim)
        return lambda *args: take(kernel, grid, block, args, sharedmem)

    def forall(kernel: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        if tpb < 1:
            raise UsageError("forall() without a driver: say the threads of a block, forall(n, tpb=128)")
        return configure(kernel, -(-ntasks // tpb), tpb, stream, sharedmem) if ntasks else lambda *args: None

    kernels: Any = CUDADispatcher
    before = kernels.configure, kernels.forall
    kernels.configure, kernels.forall = configure, forall
    try:
        yield
    finally:
        kernels.configure, kernels.forall = before
