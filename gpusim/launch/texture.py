"""Descriptors of textures and surfaces: what a kernel's handle stands for.

Mental model: a texture or surface object is 128 bytes in a table of the device, at :data:`TEXTURES_ADDRESS`; its handle
is the offset of these bytes, never 0. NVIDIA does not publish what stands in them; this layout is gpusim's own. Limits
and meanings: CUDA Programming Guide, "Texture Fetching" and "Texture and Surface Memory".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: Device address of the table, out of reach of allocations.
TEXTURES_ADDRESS = 0x7E98_0000_0000
DESCRIPTOR_BYTES = 128
MOST_DESCRIPTORS = 1 << 13
#: Byte offsets of the fields.
(
    VALID, LINEAR, FORMAT, CHANNELS, WIDTH, HEIGHT, DEPTH, MODES, FILTER, NORMALIZED, INTEGER, BORDER, ELEMENT, ROW, SLICE,
    DATA, BYTES, SEAMLESS,
) = (0, 4, 8, 12, 16, 20, 24, 28, 40, 44, 48, 52, 68, 72, 80, 88, 96, 104)  # fmt: skip
_LAYOUT = struct.Struct("<7I3I3I4fI3QQI")
WRAP, CLAMP, MIRROR, BORDER_COLOUR = range(4)  # CUaddress_mode
POINT, FILTERED = range(2)  # CUfilter_mode
UINT8, UINT16, UINT32, INT8, INT16, INT32, HALF, FLOAT = 1, 2, 3, 8, 9, 10, 16, 32  # CUarray_format
_BYTES = {UINT8: 1, UINT16: 2, UINT32: 4, INT8: 1, INT16: 2, INT32: 4, HALF: 2, FLOAT: 4}


@dataclass(frozen=True)
class Descriptor:
    """Elements of ``channels`` channels of ``format``: ``width`` a row, ``height`` rows ``row_bytes`` apart, ``depth``
    slices or layers ``slice_bytes`` apart, from device address ``data`` on. ``linear``: fetched by index alone.
    ``integer``: elements are returned as they are, else integers of 8 and 16 bits as fractions of their largest value.
    ``seamless``: on a cube, filtering goes on over the edges of its faces."""

    format: int
    channels: int
    width: int
    height: int
    depth: int
    data: int
    row_bytes: int
    slice_bytes: int
    linear: bool = False
    modes: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    filter: int = POINT
    normalized: bool = False
    integer: bool = True
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    seamless: bool = False

    @property
    def element_bytes(self) -> int:
        return _BYTES[self.format] * self.channels

    def pack(self) -> bytes:
        """The 128 bytes."""
        # Wrapping and mirroring need coordinates from 0 to 1; without, the unit clamps (Programming Guide, "Texture
        # Fetching").
        modes = [mode if self.normalized or mode in (CLAMP, BORDER_COLOUR) else CLAMP for mode in self.modes]
        size = (
            self.slice_bytes * (self.depth - 1) + self.row_bytes * (self.height - 1) + self.width * self.element_bytes
        )
        data = _LAYOUT.pack(
            *(1, int(self.linear), self.format, self.channels, self.width, self.height, self.depth),
            *modes,
            *(self.filter, int(self.normalized), int(self.integer)),
            *self.border,
            *(self.element_bytes, self.row_bytes, self.slice_bytes, self.data, size, int(self.seamless)),
        )
        return data.ljust(DESCRIPTOR_BYTES, b"\0")
