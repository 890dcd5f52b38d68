"""Triton kernels: what a user writes to name one.

Mental model: :func:`triton` binds a ``@triton.jit`` function to its meta-parameters, as ``fn[grid](..., num_warps=4,
BLOCK=1024)`` would give them at a launch. Nothing is compiled here: wherever the kernel is taken (``capture``, a case,
``sass``, ``measure``), Triton itself compiles it for the GPU asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpusim.errors import UsageError
from gpusim.frontend.triton.installed import is_triton_kernel, load


@dataclass(frozen=True, eq=False)
class TritonKernel:
    """``function``, a ``triton.jit`` function, perhaps wrapped by ``autotune`` and ``heuristics``, with the keywords
    ``given`` for its launches. ``config``: which of its configurations to take, None for the fastest."""

    function: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    config: Any = None

    @property
    def __name__(self) -> str:
        return name_of(self.function)


def triton(function: Any, *, config: Any = None, **given: Any) -> TritonKernel:
    """A Triton kernel with its meta-parameters: ``gpusim.triton(add, BLOCK=1024, num_warps=4)``.

    ``function``: decorated with ``@triton.jit``, also with ``@triton.autotune`` and ``@triton.heuristics``. ``given``:
    what a launch gives by keyword, that is ``tl.constexpr`` parameters, any other parameter, and Triton's options
    (``num_warps``, ``num_stages``, ``maxnreg``, ``enable_fp_fusion`` ...). Of an autotuned function each configuration
    is simulated on the GPU asked for and the one of fewest cycles is taken; ``config`` names one instead: its number in
    the list, a ``triton.Config``, or a mapping of values that one configuration alone has (``{"BLOCK_M": 64}``).

    It is launched with a grid as Triton takes it, a tuple or a function of the kernel's parameters, and with block
    None: ``gpusim.capture(gpusim.triton(add, BLOCK=1024), grid, None, (x, y, out, n), gpu="h200")``. Arguments are
    arrays or tensors in host memory, numbers, tuples and ``TensorDescriptor``.

    Raises UsageError for what is no Triton kernel, and ToolchainError where Triton is not installed (``pip install
    'gpusim[triton]'``).
    """
    load("triton")
    if isinstance(function, (TritonKernel, partial)) and (
        is_triton_kernel(function) or isinstance(function, TritonKernel)
    ):
        inner = as_kernel(function)
        return TritonKernel(inner.function, {**inner.given, **given}, inner.config if config is None else config)
    if not is_triton_kernel(function):
        what = getattr(function, "__name__", None) or type(function).__name__
        advice = "decorate it with @triton.jit" if inspect.isfunction(function) else "give a @triton.jit function"
        raise UsageError(f"{what} is not a Triton kernel: {advice}")
    return TritonKernel(function, dict(given), config)


def name_of(function: Any) -> str:
    """What the user calls the function, whatever it is wrapped in."""
    while not hasattr(function, "__name__") and hasattr(function, "fn"):
        function = function.fn
    return getattr(function, "__name__", type(function).__name__)


def as_kernel(kernel: Any) -> TritonKernel:
    """``kernel`` with what is given for its launches, of a bare ``triton.jit`` function nothing."""
    if isinstance(kernel, partial):
        inner = as_kernel(kernel.func)
        return TritonKernel(inner.function, {**inner.given, **kernel.keywords}, inner.config)
    return kernel if isinstance(kernel, TritonKernel) else TritonKernel(kernel)
