"""Tensor maps as the driver API encodes them (:mod:`gpusim.launch.tensor_map` has limits and layout)."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_uint, c_uint32, c_uint64
from dataclasses import replace

from gpusim.driver.abi import HOST, INT_OUT, INVALID_VALUE, NOT_SUPPORTED, DriverError, entry
from gpusim.driver.device import Device
from gpusim.errors import UsageError
from gpusim.launch.tensor_map import IM2COL, IM2COL_WIDE, MAP_BYTES, TILED, TensorMap, check, decode, encode

_ALIGNMENT, _MOST_RANK, _SMALL = 64, 5, 1
_TENSOR = (HOST, c_int, c_uint, HOST, POINTER(c_uint64), POINTER(c_uint64))


class TensorMaps:
    """Entry points cuTensorMap*."""

    def __init__(self, device: Device):
        self._device = device

    def _write(self, place: int, **fields: object) -> None:
        if self._device.spec.capability < (9, 0):
            raise DriverError(NOT_SUPPORTED, "tensor maps need compute capability 9.0")
        if not place or place % _ALIGNMENT:
            raise DriverError(
                INVALID_VALUE, f"a tensor map at 0x{place or 0:x}: it must lie at a multiple of {_ALIGNMENT}"
            )
        try:
            data = encode(check(TensorMap(**fields)))  # type: ignore[arg-type]
        except UsageError as error:
            raise DriverError(INVALID_VALUE, str(error)) from None
        ctypes.memmove(place, data, MAP_BYTES)

    @staticmethod
    def _tensor(rank: int, kind: int, address: int, dimensions, strides, steps) -> dict[str, object]:
        if not 0 < rank <= _MOST_RANK:
            raise DriverError(INVALID_VALUE, f"a tensor map's rank is {rank}, it must be 1 to {_MOST_RANK}")
        if not dimensions or not steps or (rank > 1 and not strides):
            raise DriverError(INVALID_VALUE, "an array of the tensor map's sizes is null")
        return {
            "data_type": kind,
            "address": address,
            "dimensions": tuple(dimensions[:rank]),
            "strides_bytes": tuple(strides[: rank - 1]) if rank > 1 else (),
            "element_strides": tuple(steps[:rank]),
        }

    @entry(
        "cuTensorMapEncodeTiled",
        arguments=(*_TENSOR, POINTER(c_uint32), POINTER(c_uint32), c_int, c_int, c_int, c_int),
    )
    def tiled(
        self, place, kind, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill
    ) -> None:
        tensor = self._tensor(rank, kind, address, dims, strides, steps)
        if not box:
            raise DriverError(INVALID_VALUE, "the tensor map's box is null")
        layout = {"interleave": interleave, "swizzle": swizzle, "promotion": promotion, "fill": fill}
        self._write(place, kind=TILED, box=tuple(box[:rank]), **tensor, **layout)

    @entry(
        "cuTensorMapEncodeIm2col",
        arguments=(*_TENSOR, INT_OUT, INT_OUT, c_uint32, c_uint32, POINTER(c_uint32), c_int, c_int, c_int, c_int),
    )
    def columns(
        self, place, kind, rank, address, dims, strides, lower, upper, channels, pixels, steps, interleave, swizzle, promotion,
        fill,
    ) -> None:  # fmt: skip
        tensor = self._tensor(rank, kind, address, dims, strides, steps)
        if rank < 3 or not lower or not upper:
            raise DriverError(INVALID_VALUE, "an im2col tensor map has a rank of 3 or more, and two corners")
        corners = {"lower": tuple(lower[: rank - 2]), "upper": tuple(upper[: rank - 2])}
        layout = {"interleave": interleave, "swizzle": swizzle, "promotion": promotion, "fill": fill}
        self._write(place, kind=IM2COL, channels=channels, pixels=pixels, **corners, **tensor, **layout)

    @entry(
        "cuTensorMapEncodeIm2colWide",
        arguments=(
            *_TENSOR, c_int, c_int, c_uint32, c_uint32, POINTER(c_uint32), c_int, c_int, c_int, c_int, c_int,
        ),
    )  # fmt: skip
    def wide_columns(
        self, place, kind, rank, address, dims, strides, lower, upper, channels, pixels, steps, interleave, mode, swizzle,
        promotion, fill,
    ) -> None:  # fmt: skip
        if self._device.spec.capability < (10, 0):
            raise DriverError(NOT_SUPPORTED, "wide im2col tensor maps need compute capability 10.0")
        tensor = self._tensor(rank, kind, address, dims, strides, steps)
        box = {"lower": (lower,), "upper": (upper,), "channels": channels, "pixels": pixels, "mode": mode}
        layout = {"interleave": interleave, "swizzle": swizzle, "promotion": promotion, "fill": fill}
        self._write(place, kind=IM2COL_WIDE, **box, **tensor, **layout)

    def _read(self, place: int) -> TensorMap:
        if not place or place % _ALIGNMENT:
            raise DriverError(
                INVALID_VALUE, f"a tensor map at 0x{place or 0:x}: it must lie at a multiple of {_ALIGNMENT}"
            )
        try:
            return decode(ctypes.string_at(place, MAP_BYTES))
        except UsageError as error:
            raise DriverError(INVALID_VALUE, str(error)) from None

    @entry("cuTensorMapReplaceAddress", arguments=(HOST, HOST))
    def replace_address(self, place: int, address: int) -> None:
        found = self._read(place)
        try:
            data = encode(check(replace(found, address=address)))
        except UsageError as error:
            raise DriverError(INVALID_VALUE, str(error)) from None
        ctypes.memmove(place, data, MAP_BYTES)

    @entry("cuTensorMapSetAllocationClass", arguments=(HOST, c_int, INT_OUT))
    def set_allocation_class(self, place: int, wanted: int, out) -> None:
        if out:
            out[0] = _SMALL
        if wanted not in (0, 1, 2):
            raise DriverError(INVALID_VALUE, f"allocation class {wanted} is none of 0 to 2")
        self._read(place)
