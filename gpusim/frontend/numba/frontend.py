"""Numba's front end: ``@cuda.jit`` functions, compiled as a launch by Numba's dispatcher would compile them.

Mental model: the parts stand beside this file; here they meet the protocol. :mod:`gpusim.frontend.numba.build` makes
the machine code, :mod:`gpusim.frontend.numba.arguments` flattens the arguments, and
:mod:`gpusim.frontend.numba.exceptions` raises what threads of a debug build have raised.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numba.cuda.dispatcher import CUDADispatcher

from gpusim.errors import UsageError
from gpusim.frontend.numba.arguments import flatten
from gpusim.frontend.numba.build import (
    NumbaBinary,
    argument_types,
    build,
    check_kernel,
    is_simulated,
    signature_types,
)
from gpusim.frontend.numba.exceptions import raise_pending
from gpusim.frontend.numba.launching import launching
from gpusim.frontend.protocol import FrontEnd, TakeLaunch
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary


class NumbaFrontEnd(FrontEnd):
    """``@numba.cuda.jit`` functions; a signature is a text of Numba types, ``"float32, float32[:]"``."""

    name = "numba"
    takes = "a function decorated with @numba.cuda.jit"

    def accepts(self, kernel: object) -> bool:
        return isinstance(kernel, CUDADispatcher) or is_simulated(kernel)

    def is_device_function(self, kernel: Any) -> bool:
        return isinstance(kernel, CUDADispatcher) and bool(kernel.targetoptions.get("device"))

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> NumbaBinary:
        dispatcher = check_kernel(kernel)
        return build(dispatcher, argument_types(dispatcher, args), capability, lines)

    def compile_signature(
        self, kernel: Any, signature: str | None, capability: tuple[int, int], *, lines: bool = True
    ) -> NumbaBinary:
        dispatcher = check_kernel(kernel)
        if signature is None:
            raise UsageError(
                f"{dispatcher.py_func.__name__} is a kernel: say its argument types, such as"
                ' --signature "float32, float32[:]"'
            )
        return build(dispatcher, signature_types(signature), capability, lines)

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        own = isinstance(binary, NumbaBinary)
        types = binary.argument_types if own else argument_types(check_kernel(kernel), args)
        extensions = binary.extensions if own else tuple(kernel.extensions)
        return binary.place_parameters(flatten(types, args, arrays, extensions))

    def raise_pending(self, binary: KernelBinary, module_globals: np.ndarray) -> None:
        if isinstance(binary, NumbaBinary):
            raise_pending(binary, module_globals)

    def launching(self, take: TakeLaunch) -> AbstractContextManager[None]:
        return launching(take)


FRONT_END = NumbaFrontEnd()
