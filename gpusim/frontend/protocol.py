"""What a front end is: it turns what a user calls a kernel into machine code, and arguments into bytes.

Mental model: a kernel may be a ``@cuda.jit`` function, CUDA C++ source, a Triton function or a cubin; each kind has one
front end that accepts it. A front end gives a :class:`~gpusim.launch.binary.KernelBinary` and, for a launch, the bytes
of the parameter bank; nothing behind it knows which one did. It is found by the entry point group ``gpusim.frontends``
(:mod:`gpusim.frontend.registry`), so one that gpusim has never heard of works everywhere: in ``capture``, in cases of a
user's file, ``sass``, ``measure`` and ``explore``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary

#: Is given a launch in place of a GPU: kernel, grid, block, arguments, dynamic shared bytes.
TakeLaunch = Callable[[Any, Any, Any, tuple, int], None]


@dataclass(frozen=True)
class Choice:
    """Variants of a kernel of which a launch takes the fastest: ``variants``, each a kernel of the same front end, by a
    name that tells them apart, of what the user calls ``name``. ``key``: launches with an equal one take the same
    variant on the same GPU."""

    name: str
    key: Hashable
    variants: Mapping[str, Any]


class FrontEnd(Protocol):
    """One language or file format of kernels. Derive from it: what has a body here need not be written.

    ``name``: as its entry point; ``takes``: what it accepts, in words that finish "give ..." in an error.
    """

    name: str
    takes: str

    def accepts(self, kernel: object) -> bool:
        """Whether ``kernel`` is this front end's, well-formed or not. Cheap; raises nothing."""
        ...

    def is_device_function(self, kernel: Any) -> bool:
        """Whether ``kernel``, which this front end accepts, is a function that only kernels can call."""
        return False

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        """The machine code that a launch of ``kernel`` with ``args`` runs on a GPU of ``capability``: the same object
        for the same code, so that what is made of it is made once. Without ``lines`` source lines may be left out, to
        save time.

        Raises UsageError for a kernel or argument that cannot be taken, CompileError (one line, first cause) and
        ToolchainError (with the command that installs what is missing).
        """
        ...

    def compile_signature(
        self, kernel: Any, signature: str | None, capability: tuple[int, int], *, lines: bool = True
    ) -> KernelBinary:
        """As :meth:`compile`, where there are no arguments but at most their types as text in the language's own
        way."""
        if signature is not None:
            raise UsageError(f"a kernel of front end {self.name} is compiled without a signature: leave it out")
        return self.compile(kernel, (), capability, lines=lines)

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        """The parameter bank for ``args`` (see :meth:`KernelBinary.place_parameters`); host arrays among them go
        through ``arrays``, which gives their device addresses. ``binary``: this front end's, or the same code from a
        file.

        Raises UsageError for arguments that the kernel does not take.
        """
        ...

    def grid_arguments(self, kernel: Any, binary: KernelBinary, args: tuple) -> Mapping[str, Any]:
        """What a grid that is a function is called with, by name: first of all the compile-time parameters."""
        return binary.constants

    def choice(self, kernel: Any, args: tuple) -> Choice | None:
        """The variants among which a launch of ``kernel`` with ``args`` chooses by time; None where there is one
        only."""
        return None

    def raise_pending(self, binary: KernelBinary, module_globals: np.ndarray) -> None:
        """Raise what threads of the launch that has just ended left to be raised in the module's variables
        (uint8[global_bytes]), if this language does such a thing."""

    def launching(self, take: TakeLaunch) -> AbstractContextManager[None]:
        """While it is entered, launches that are written in the language's own way, such as ``kernel[grid,
        block](*args)``, go to ``take``. A language whose launches are not written in Python has nothing to do."""
        return nullcontext()
