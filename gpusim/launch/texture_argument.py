"""Textures and surfaces as arguments of a kernel that is captured on its own.

Mental model: where a kernel takes a ``cudaTextureObject_t`` or ``cudaSurfaceObject_t``, pass one of these, made of a
NumPy array, in place of what a program makes with ``cudaCreateTextureObject``. The array's last axis is x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch import texture as t

_FORMATS = {
    "uint8": t.UINT8, "uint16": t.UINT16, "uint32": t.UINT32, "int8": t.INT8, "int16": t.INT16, "int32": t.INT32,
    "float16": t.HALF, "float32": t.FLOAT,
}  # fmt: skip
_ADDRESSES = {"wrap": t.WRAP, "clamp": t.CLAMP, "mirror": t.MIRROR, "border": t.BORDER_COLOUR}
_FILTERS = {"point": t.POINT, "linear": t.FILTERED}
_READS = ("element", "normalized_float")


@dataclass(frozen=True, eq=False)
class Texture:
    """A texture object over ``data`` (C-contiguous; integers of 8 to 32 bits, float16 or float32): x, y, z from the
    last axis on, with ``channels`` more than 1 an axis of channels behind them, with ``layered`` the layers as first
    axis.

    ``filter``: "point" or "linear"; ``address``: "clamp", "border", and with ``normalized`` coordinates "wrap" or
    "mirror";
    ``read``: "element", or "normalized_float" for integers of 8 and 16 bits; ``border``: the colour outside;
    ``linear_memory``: for ``tex1Dfetch``. Raises UsageError for what a texture cannot be.
    """

    data: np.ndarray
    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False
    read: str = "element"
    channels: int = 1
    layered: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    linear_memory: bool = False

    writes = False

    def __post_init__(self) -> None:
        for what, value, known in (
            ("filter", self.filter, _FILTERS), ("address", self.address, _ADDRESSES), ("read", self.read, _READS)
        ):  # fmt: skip
            if value not in known:
                raise UsageError(f"a texture's {what} is {value!r}, it must be one of {', '.join(known)}")
        self.descriptor(0)

    def descriptor(self, address: int) -> t.Descriptor:
        """The descriptor with the data at that device address."""
        integer = self.read == "element" or self.data.dtype.itemsize == 4 and self.data.dtype.kind in "iu"
        if self.filter == "linear" and integer and self.data.dtype.kind != "f":
            raise UsageError('integers are not filtered: read="normalized_float", or filter="point"')
        mode = _ADDRESSES[self.address]
        return replace(
            _place(self.data, self.channels, self.layered, address),
            linear=self.linear_memory,
            modes=(mode, mode, mode),
            filter=_FILTERS[self.filter],
            normalized=self.normalized,
            integer=integer,
            border=self.border,
        )


@dataclass(frozen=True, eq=False)
class Surface:
    """A surface object over ``data``, which a kernel may write; axes as of a :class:`Texture`."""

    data: np.ndarray
    channels: int = 1
    layered: bool = False

    writes = True

    def __post_init__(self) -> None:
        self.descriptor(0)

    def descriptor(self, address: int) -> t.Descriptor:
        """The descriptor with the data at that device address."""
        return _place(self.data, self.channels, self.layered, address)


def _place(data: np.ndarray, channels: int, layered: bool, address: int) -> t.Descriptor:
    """A descriptor of the elements of an array at a device address; raises UsageError for one that is no texture."""
    if not isinstance(data, np.ndarray) or data.dtype.name not in _FORMATS:
        raise UsageError(
            f"a texture's elements are {', '.join(_FORMATS)}, not {getattr(data, 'dtype', type(data).__name__)}"
        )
    if channels not in (1, 2, 4) or (channels > 1 and data.shape[-1:] != (channels,)):
        raise UsageError(f"{channels} channels of an array of {data.shape}: 1, 2 or 4, which are the last axis")
    shape = data.shape[:-1] if channels > 1 else data.shape
    if not data.flags.c_contiguous or not data.size or not 1 <= len(shape) - layered <= (2 if layered else 3):
        raise UsageError(
            f"a texture of an array of {data.shape}: one to three axes (and layers), C-contiguous, not empty"
        )
    layers, sizes = (shape[0], shape[1:]) if layered else (0, shape)
    depth, height, width = (*(1,) * (3 - len(sizes)), *sizes)
    row = width * channels * data.dtype.itemsize
    return t.Descriptor(_FORMATS[data.dtype.name], channels, width, height, layers or depth, address, row, row * height)
