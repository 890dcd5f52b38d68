"""Tensor maps as arguments of a kernel that is captured on its own.

Mental model: where a kernel takes a ``CUtensorMap`` (by value or ``__grid_constant__``), pass one of these, made of a
NumPy array, in place of what a program makes with ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``. Sizes go
as in NumPy, the last axis is the innermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch import tensor_map as t

_TYPES = {
    "uint8": 0, "int8": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9,
}  # fmt: skip
#: Name of an element's type that no NumPy dtype has -> CUtensorMapDataType.
_OTHER_TYPES = {
    "bfloat16": 9, "float32_ftz": 10, "tfloat32": 11, "tfloat32_ftz": 12, "packed_4_in_8": t.PACKED_4_IN_8,
    "packed_4_in_16": t.PACKED_4_IN_16, "packed_6_in_16": t.PACKED_6_IN_16,
}  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_INTERLEAVES = ("none", "16B", "32B")
#: How a wide map is said to be, by CUtensorMapIm2ColWideMode behind none.
_WIDE_MODES = ("", "w", "w128")


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor map over ``data``, whose innermost axis must be contiguous.

    Tiled: ``box``, elements along each axis. Im2col: ``lower`` and ``upper`` corner (of depth, height, width as the
    axes go), ``channels`` a pixel and ``pixels``; ``wide``: "w" or "w128" for a map along the width alone (im2col::w,
    im2col::w::128), whose corners are of the width. ``element_strides`` along each axis; ``swizzle``: "none", "32B",
    "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"; ``interleave``: "none", "16B", "32B";
    ``fill_nan``: NaN in place of zeros out of bounds;
    ``element_type``: "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz", "packed_4_in_8", "packed_4_in_16" or
    "packed_6_in_16" for elements that the array's dtype does not tell; ``shape``: of the tensor where it is not the
    array's. Raises UsageError for a map that CUDA does not encode.
    """

    data: np.ndarray
    box: Sequence[int] = ()
    element_strides: Sequence[int] = ()
    swizzle: str = "none"
    interleave: str = "none"
    fill_nan: bool = False
    element_type: str = ""
    lower: Sequence[int] = ()
    upper: Sequence[int] = ()
    channels: int = 0
    pixels: int = 0
    shape: Sequence[int] = ()
    wide: str = ""

    def __post_init__(self) -> None:
        self.map(0)

    def map(self, address: int) -> t.TensorMap:
        """The map with the data at that device address, checked."""
        data, kind = self.data, self._element_type()
        if not isinstance(data, np.ndarray) or not 1 <= data.ndim <= 5:
            raise UsageError("a tensor map is of a NumPy array of one to five dimensions")
        if data.size and data.strides[-1] != data.dtype.itemsize:
            raise UsageError(f"a tensor map's innermost dimension is contiguous, not {data.strides[-1]} bytes apart")
        for what, value, known in (("swizzle", self.swizzle, _SWIZZLES), ("interleave", self.interleave, _INTERLEAVES)):
            if value not in known:
                raise UsageError(f"a tensor map's {what} is {value!r}, it must be one of {', '.join(known)}")
        if self.wide not in _WIDE_MODES:
            raise UsageError(f"a wide tensor map's mode is {self.wide!r}, it must be one of w, w128")
        shape = tuple(self.shape) or data.shape
        steps = tuple(self.element_strides) or (1,) * data.ndim
        if len(shape) != data.ndim or len(steps) != data.ndim or (not self.channels and len(self.box) != data.ndim):
            raise UsageError(f"a tensor map of {data.ndim} dimensions has a box, shape and strides of as many")
        return t.check(
            t.TensorMap(
                kind=t.IM2COL_WIDE if self.wide else t.IM2COL if self.channels else t.TILED,
                data_type=kind,
                address=address,
                dimensions=tuple(reversed(shape)),
                strides_bytes=tuple(reversed(data.strides[:-1])),
                element_strides=tuple(reversed(steps)),
                interleave=_INTERLEAVES.index(self.interleave),
                swizzle=_SWIZZLES.index(self.swizzle),
                fill=int(self.fill_nan),
                box=tuple(reversed(self.box)),
                lower=tuple(reversed(self.lower)),
                upper=tuple(reversed(self.upper)),
                channels=self.channels,
                pixels=self.pixels,
                mode=max(_WIDE_MODES.index(self.wide) - 1, 0),
            )
        )

    def _element_type(self) -> int:
        name = self.element_type or getattr(getattr(self.data, "dtype", None), "name", "")
        known = _OTHER_TYPES if self.element_type else _TYPES
        if name not in known:
            raise UsageError(f"a tensor map's elements are {', '.join(known)}, not {name or type(self.data).__name__}")
        return known[name]
