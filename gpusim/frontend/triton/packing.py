"""The bytes of a Triton kernel's parameters, as Triton's own launcher lays them out.

Mental model: what is a constant in the compiled signature is no parameter; a tensor is its address; a number has the type of the
signature; a tuple is its items in order; a ``TensorDescriptor`` is what it describes, in pieces. Behind them stand the addresses of
the scratch memory that the kernel asks for, one share a block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.frontend.triton.tensors import HostTensor, as_tensor
from gpusim.launch.arrays import HostArrays
from gpusim.launch.memory import extent

_ADDRESS = "<Q"
_FORMATS = {
    "fp64": "<d", "fp32": "<f", "f32": "<f", "fp16": "<e",
    "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "u64": "<Q", "u32": "<I", "u16": "<H", "u8": "<B",
}  # fmt: skip
_DESCRIPTOR = "tensordesc"


def parameter_values(signature: Sequence[Any], values: Sequence[Any], arrays: HostArrays) -> list[bytes]:
    """The bytes of each parameter: ``values`` by the types of Triton's ``signature``, tuples in it for tuples."""
    kernel = arrays.kernel
    placed: dict[int, int] = {}
    return [
        _bytes(kind, value, f"argument {label} of {kernel}", label, arrays, placed)
        for kind, value, label in _flat(signature, values)
    ]


def _flat(signature: Sequence[Any], values: Sequence[Any], within: str = "") -> Iterator[tuple[str, Any, str]]:
    """(type, value, place) of all that is passed, with what tuples hold."""
    for place, (kind, value) in enumerate(zip(signature, values, strict=True)):
        label = f"{within}{place}"
        if isinstance(kind, (tuple, list)):
            yield from _flat(kind, value, f"{label}.")
        elif kind.startswith(_DESCRIPTOR):
            yield from _flat(*_pieces(value), within=f"{label}.")
        elif kind != "constexpr":
            yield kind, value, label


def _pieces(descriptor: Any) -> tuple[list[str], list[Any]]:
    """Types and values of a descriptor that the kernel has as plain numbers: Triton's ``decompose_descriptor``."""
    rank = len(descriptor.shape)
    types = ["*i8", *["i64"] * (2 * rank), "i1", "i1", *["i32"] * rank, *["i64"] * rank]
    sizes = [*descriptor.shape, *descriptor.strides]
    flags = [descriptor.padding == "nan", getattr(descriptor, "round_f32_to_tf32", False)]
    return types, [descriptor.base, *sizes, *flags, *sizes]


def _bytes(kind: str, value: Any, where: str, label: str, arrays: HostArrays, placed: dict[int, int]) -> bytes:
    if kind.startswith("*"):
        tensor = as_tensor(value, where)
        if tensor is None and value is not None and not isinstance(value, int):
            raise UsageError(
                f"{where} is a {type(value).__name__}, but the parameter is a pointer ({kind}): give an array"
            )
        return struct.pack(_ADDRESS, _address(tensor, label, arrays, placed) if tensor is not None else value or 0)
    if isinstance(value, np.generic):
        value = value.item()
    if kind in ("i1", "u1"):
        return bytes([bool(value)])
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]  # as Triton's launcher: the upper half of a float
    try:
        return struct.pack(_FORMATS[kind], value)
    except KeyError:
        raise UsageError(f"{where}: type {kind} cannot be passed to an emulated kernel") from None
    except (struct.error, OverflowError):
        raise UsageError(f"{where} is {value!r}, which {kind} cannot hold") from None


def _address(tensor: HostTensor, label: str, arrays: HostArrays, placed: dict[int, int]) -> int:
    """Where ``tensor`` lies on the device; its buffer is mapped once a launch, whoever else lies in it."""
    buffer = tensor.buffer
    if not buffer.size:
        return 0
    low = extent(buffer)[0]
    if low not in placed:
        if arrays.private and not buffer.flags.writeable:
            placed[low] = arrays.map_copy(buffer.copy(order="K"), f"argument {label}")
        else:
            placed[low] = arrays.map(buffer, f"argument {label}") - (buffer.ctypes.data - low)
    return placed[low] + tensor.offset
