"""Kernels of the CuTe DSL: what a user writes to name one.

Mental model: in the DSL a host function (``@cute.jit``) launches kernels (``@cute.kernel``): grid, block, shared memory
and cluster stand in it. So a kernel is named by the host function that launches it, and its launch needs no grid and no
block. Nothing is compiled here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusim.errors import UsageError


@dataclass(frozen=True)
class CuteKernel:
    """Host function ``function``; ``options`` go to ``cute.compile``; ``launch`` is the place of the launch meant,
    where there are several;
    ``memory``: arrays that arguments of the DSL's pointers point into."""

    function: Callable[..., Any]
    options: str = ""
    launch: int | None = None
    memory: tuple[np.ndarray, ...] = field(default=(), compare=False)

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


def cute(
    function: Callable[..., Any], options: str = "", *, launch: int | None = None, memory: Sequence[np.ndarray] = ()
) -> CuteKernel:
    """The kernel that the CuTe DSL's ``@cute.jit`` function ``function`` launches, with the launch's grid, block and
    shared memory: captured as ``gpusim.capture(gpusim.cute(function), None, None, args)``, where ``args`` are those of
    ``function``: NumPy arrays, or the DSL's own tensors of memory on the host
    (``from_dlpack(array).mark_layout_dynamic()``), and numbers. Needs ``gpusim[cute]``.

    ``options``: of ``cute.compile``. ``launch``: which launch is meant, counted from 0, where the function makes
    several. ``memory``: arrays that pointers among ``args`` point into (``make_ptr(cutlass.Float16, array.ctypes.data,
    cute.AddressSpace.gmem)``), since a pointer does not say how much memory is there; arrays that are arguments
    themselves need not be named. Raises UsageError for what is no function.
    """
    if not callable(function):
        raise UsageError(
            f"cute() takes the @cute.jit function that launches the kernel, not a {type(function).__name__}"
        )
    return CuteKernel(function, options, launch, tuple(memory))
