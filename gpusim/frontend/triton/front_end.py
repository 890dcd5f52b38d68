"""Triton's front end: ``triton.jit`` functions, compiled by Triton as its launch would compile them.

Mental model: the parts stand beside this file; here they meet the protocol. Layers of ``autotune`` and ``heuristics``
come off (:mod:`~gpusim.frontend.triton.configurations`), Triton compiles the launch
(:mod:`~gpusim.frontend.triton.compiling`), and the arguments are laid out as its launcher does it
(:mod:`~gpusim.frontend.triton.packing`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.frontend.protocol import Choice, FrontEnd, TakeLaunch
from gpusim.frontend.triton.compiling import compile_launch
from gpusim.frontend.triton.configurations import choice_of, inner_function, unwrap
from gpusim.frontend.triton.installed import is_triton_kernel
from gpusim.frontend.triton.kernels import TritonKernel, as_kernel
from gpusim.frontend.triton.launching import launching
from gpusim.frontend.triton.packing import parameter_values
from gpusim.frontend.triton.signatures import stand_ins
from gpusim.frontend.triton.tensors import as_tensor, pointers_of
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary

_WARP_THREADS = 32


@dataclass(frozen=True, eq=False)
class TritonBinary(KernelBinary):
    """A kernel that Triton compiled: ``signature``, the type of each parameter as Triton writes it, "constexpr" for
    what is compiled in; ``scratch_bytes`` of a block that the launch must provide, for the kernel and for a profiler;
    ``maps``: what Triton says of the tensor map of each ``TensorDescriptor`` of the signature, in order; none where
    descriptors are passed in pieces."""

    signature: tuple[Any, ...] = ()
    scratch_bytes: tuple[int, int] = (0, 0)
    maps: tuple[Mapping[str, Any], ...] = ()


_binaries: dict[tuple[str, tuple[int, int]], TritonBinary] = {}


class TritonFrontEnd(FrontEnd):
    """``triton.jit`` functions; a signature is a text such as Triton's ahead-of-time compiler takes, ``"*fp32:16, i32,
    BLOCK=1024"``."""

    name = "triton"
    takes = "gpusim.triton(function, BLOCK=...) of a @triton.jit function"

    def accepts(self, kernel: object) -> bool:
        return isinstance(kernel, TritonKernel) or is_triton_kernel(kernel)

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> TritonBinary:
        function, given = unwrap(as_kernel(kernel), tuple(args))
        where = f"argument {{}} of {function.__name__}"
        seen = tuple(_as_triton_sees(value, where.format(place)) for place, value in enumerate(args))
        given = {name: _as_triton_sees(value, where.format(name)) for name, value in given.items()}
        compiled = compile_launch(function, seen, given, capability)
        key = compiled.hash, capability
        if key not in _binaries:
            _binaries[key] = _binary(compiled, function, capability)
        return _binaries[key]

    def compile_signature(
        self, kernel: Any, signature: str | None, capability: tuple[int, int], *, lines: bool = True
    ) -> TritonBinary:
        kernel = as_kernel(kernel)
        args, given = stand_ins(inner_function(kernel), signature, kernel)
        return self.compile(TritonKernel(kernel.function, {**kernel.given, **given}, kernel.config), args, capability)

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        own = binary if isinstance(binary, TritonBinary) else self.compile(kernel, args, binary.capability)
        values = list(self.grid_arguments(kernel, binary, args).values())
        packed = parameter_values(own.signature, values, arrays, own.maps)
        missing = len(binary.image.parameters) - len(packed)
        for size in own.scratch_bytes[: max(missing, 0)]:
            scratch = np.zeros(size * arrays.blocks, np.uint8)
            address = arrays.map_copy(scratch, "scratch memory of the kernel") if size else 0
            packed.append(address.to_bytes(8, "little"))
        return binary.place_parameters(packed)

    def grid_arguments(self, kernel: Any, binary: KernelBinary, args: tuple) -> Mapping[str, Any]:
        function, given = unwrap(as_kernel(kernel), tuple(args))
        own = {name: value for name, value in given.items() if name in function.signature.parameters}
        try:
            bound = function.signature.bind(*args, **own)
        except TypeError as error:
            raise UsageError(f"{function.__name__}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def launching(self, take: TakeLaunch) -> AbstractContextManager[None]:
        return launching(take)

    def choice(self, kernel: Any, args: tuple) -> Choice | None:
        return choice_of(as_kernel(kernel), tuple(args))


def _as_triton_sees(value: Any, where: str) -> Any:
    """An argument as Triton's binder takes it: a tensor by its type and alignment, a number of NumPy's as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    tensor = as_tensor(value, where)
    if tensor is not None:
        return tensor
    if isinstance(value, tuple):
        items = [_as_triton_sees(item, where) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value).__name__ == "TensorDescriptor" and hasattr(value, "base"):
        seen = copy.copy(
            value
        )  # without the checks of a new one, which ask the base for more than Triton's binder does
        seen.base = as_tensor(value.base, where)
        return seen
    return pointers_of(value) if isinstance(value, list) and value else value


def _binary(compiled: Any, function: Any, capability: tuple[int, int]) -> TritonBinary:
    metadata, name = compiled.metadata, function.__name__
    ctas = getattr(metadata, "num_ctas", 1)
    return TritonBinary(
        cubin=compiled.asm["cubin"],
        entry_name=metadata.name,
        name=name,
        capability=capability,
        cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
        toolchain=f"triton {metadata.triton_version}",
        block=(_WARP_THREADS * metadata.num_warps, 1, 1),
        dynamic_shared_bytes=metadata.shared,
        cluster=(ctas, 1, 1) if ctas > 1 else None,
        grid_of_clusters=True,  # as Triton's own launcher has it: a program is a cluster
        signature=tuple(compiled.src.signature.values()),
        scratch_bytes=(getattr(metadata, "global_scratch_size", 0), getattr(metadata, "profile_scratch_size", 0)),
        maps=tuple(getattr(metadata, "tensordesc_meta", None) or ()),
    )


TRITON = TritonFrontEnd()
