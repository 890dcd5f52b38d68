"""The bytes of a Triton kernel's parameters, as Triton's own launcher lays them out.

Mental model: what is a constant in the compiled signature is no parameter; a tensor is its address; a number has the
type of the signature; a tuple is its items in order; a list of arrays is an array of their addresses; a
``TensorDescriptor`` is a tensor map and its sizes or, before Hopper, what it describes in pieces. Behind them stand the
addresses of the scratch memory that the kernel asks for, one share a block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.frontend.triton.tensors import HostTensor, as_tensor
from gpusim.launch.arrays import HostArrays
from gpusim.launch.memory import extent
from gpusim.launch.tensor_map import IM2COL, TILED, TensorMap, check, encode

_ADDRESS = "<Q"
_FORMATS = {
    "fp64": "<d", "fp32": "<f", "f32": "<f", "fp16": "<e",
    "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "u64": "<Q", "u32": "<I", "u16": "<H", "u8": "<B",
}  # fmt: skip
_DESCRIPTOR, _MAP = "tensordesc", "tensor map"
TF32 = 11
#: Element types as PTX numbers them on the device, where cuda.h has other numbers.
_OF_DEVICE = {8: 10, 9: 8, 10: 9}


def parameter_values(
    signature: Sequence[Any], values: Sequence[Any], arrays: HostArrays, maps: Sequence[Mapping[str, Any]] = ()
) -> list[bytes]:
    """The bytes of each parameter: ``values`` by the types of Triton's ``signature``, tuples in it for tuples.
    ``maps``: what Triton says of the tensor maps of descriptors, in order; none where they are passed in pieces."""
    kernel = arrays.kernel
    placed: dict[int, int] = {}
    return [
        _bytes(kind, value, f"argument {label} of {kernel}", label, arrays, placed)
        for kind, value, label in _flat(signature, values, iter(maps))
    ]


def _flat(
    signature: Sequence[Any], values: Sequence[Any], maps: Iterator[Mapping[str, Any]], within: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """(type, value, place) of all that is passed, with what tuples hold."""
    for place, (kind, value) in enumerate(zip(signature, values, strict=True)):
        label = f"{within}{place}"
        if isinstance(kind, (tuple, list)):
            yield from _flat(kind, value, maps, f"{label}.")
        elif kind.startswith(_DESCRIPTOR):
            about = next(maps, None)
            types, pieces = _pieces(value) if about is None else _mapped(value, about)
            yield from _flat(types, pieces, maps, f"{label}.")
        elif kind != "constexpr":
            yield kind, value, label


def _pieces(descriptor: Any) -> tuple[list[str], list[Any]]:
    """Types and values of a descriptor that the kernel has as plain numbers: Triton's ``decompose_descriptor``."""
    rank = len(descriptor.shape)
    types = ["*i8", *["i64"] * (2 * rank), "i1", "i1", *["i32"] * rank, *["i64"] * rank]
    sizes = [*descriptor.shape, *descriptor.strides]
    flags = [descriptor.padding == "nan", getattr(descriptor, "round_f32_to_tf32", False)]
    return types, [descriptor.base, *sizes, *flags, *sizes]


def _mapped(descriptor: Any, about: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Types and values of a descriptor that the kernel has as a tensor map: Triton's ``make_tensordesc_arg``."""
    rank = len(descriptor.shape)
    sizes = [*descriptor.shape, *descriptor.strides]
    return [_MAP, *["i32"] * rank, *["i64"] * rank], [(descriptor, about), *sizes]


def _map(descriptor: Any, about: Mapping[str, Any], address: int) -> bytes:
    """The tensor map of a descriptor. Raises UsageError for one that CUDA does not encode."""
    shape, size = list(descriptor.shape), about["elem_size"]
    if about["fp4_padded"]:
        shape[-1] *= 2  # two elements a byte
    kind = (
        TF32
        if getattr(descriptor, "round_f32_to_tf32", False)
        else _OF_DEVICE.get(about["elem_type"], about["elem_type"])
    )
    block = tuple(about["block_size"])
    common = {
        "data_type": kind,
        "address": address,
        "dimensions": tuple(reversed(shape)),
        "strides_bytes": tuple(size * stride for stride in reversed(descriptor.strides[:-1])),
        "swizzle": about["swizzle"],
        "promotion": 2,
        "fill": int(descriptor.padding == "nan"),
    }
    if not about.get("is_im2col", False):
        steps = (1,) * len(shape)
        return encode(check(TensorMap(kind=TILED, element_strides=steps, box=tuple(reversed(block)), **common)))
    steps = tuple(reversed(descriptor.element_strides or [1] * len(shape)))
    lower, upper = tuple(descriptor.pixel_box_lower_corner), tuple(descriptor.pixel_box_upper_corner)
    return encode(
        check(
            TensorMap(
                kind=IM2COL, element_strides=steps, lower=lower[::-1], upper=upper[::-1], pixels=block[0], channels=block[1],
                **common,
            )
        )
    )  # fmt: skip


def _bytes(kind: str, value: Any, where: str, label: str, arrays: HostArrays, placed: dict[int, int]) -> bytes:
    if kind == _MAP:
        descriptor, about = value
        tensor = as_tensor(descriptor.base, where)
        if tensor is None:
            raise UsageError(f"{where}: a TensorDescriptor of a {type(descriptor.base).__name__}: give it an array")
        try:
            return _map(descriptor, about, _address(tensor, label, arrays, placed))
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    if kind.startswith("*") and isinstance(value, list):
        addresses = np.array(
            [_pointer(each, where, f"{label}[{i}]", arrays, placed) for i, each in enumerate(value)], np.uint64
        )
        return struct.pack(_ADDRESS, arrays.map_copy(addresses, f"argument {label} ({len(value)} pointers)"))
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


def _pointer(value: Any, where: str, label: str, arrays: HostArrays, placed: dict[int, int]) -> int:
    """Where an array of a list lies, 0 for None."""
    tensor = as_tensor(value, where)
    if tensor is None and value is not None:
        raise UsageError(f"{where}: a list holds arrays, or None, not a {type(value).__name__}")
    return 0 if tensor is None else _address(tensor, label, arrays, placed)


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
