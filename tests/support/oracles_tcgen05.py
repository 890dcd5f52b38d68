"""What a product into tensor memory must give, in NumPy: matrices as bytes in shared memory, formats, and the rule of
the sums.

Mental model: an oracle of gpusim's own code: floats are split by frexp, aligned and cut in FP64, where all that occurs
is exact.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

#: format -> (NumPy type, exponent of the smallest normal number, bits)
FORMATS = {
    "f16": (np.float16, -14, 16),
    "bf16": (ml_dtypes.bfloat16, -126, 16),
    "tf32": (np.float32, -126, 32),
    "e4m3": (ml_dtypes.float8_e4m3fn, -6, 8),
    "e5m2": (ml_dtypes.float8_e5m2, -14, 8),
    "e2m3": (ml_dtypes.float6_e2m3fn, 0, 6),
    "e3m2": (ml_dtypes.float6_e3m2fn, -2, 6),
    "e2m1": (ml_dtypes.float4_e2m1fn, 0, 4),
}


def codes(values, name):
    """The patterns of numbers in a format, one in each element of an array of bytes, halves or words."""
    kind, _, bits = FORMATS[name]
    raw = np.asarray(values).astype(kind)
    return raw.view({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))


def numbers(patterns, name):
    """float64 of patterns."""
    kind = FORMATS[name][0]
    if name == "tf32":
        patterns = patterns & np.uint32(0xFFFFE000)
    return patterns.view(kind).astype(np.float64)


def packed_rows(patterns, name, alone=True):
    """uint8[rows, bytes]: rows of elements as they stand in shared memory; ``alone``: 4-bit floats stand 16 in 16
    bytes, as where other formats may be multiplied with them, else 32."""
    bits = FORMATS[name][2]
    if bits >= 8:
        return np.ascontiguousarray(patterns).view(np.uint8).reshape(len(patterns), -1)
    rows, depth = patterns.shape
    flags = np.unpackbits(np.ascontiguousarray(patterns)[..., None], axis=2, bitorder="little")[..., :bits]
    group = 16 if alone else 32
    flags = flags.reshape(rows, depth // group, group * bits)
    flags = np.concatenate([flags, np.zeros((rows, depth // group, 128 - group * bits), np.uint8)], axis=2)
    return np.packbits(flags, axis=2, bitorder="little").reshape(rows, -1)


# ---- layouts in shared memory -----------------------------------------------------------------------

SWIZZLES = {0: 16, 6: 32, 4: 64, 2: 128}  # layout code -> bytes of a row of the pattern


def k_major(rows, layout=0):
    """(image, leading offset, stride offset) of uint8[rows, bytes] with what is along k side by side."""
    count, width = rows.shape
    if layout == 0:
        image = rows.reshape(count // 8, 8, width // 16, 16).transpose(0, 2, 1, 3).reshape(-1)
        return image, 128, 8 * width
    across = SWIZZLES[layout]
    padded = np.zeros((count, across), np.uint8)
    padded[:, :width] = rows
    return swizzled(padded.reshape(-1), layout), 16, 8 * across


def turned(columns, layout, size):
    """The same of [k, rows] with the rows (or columns of B) side by side: ``size``: bytes of an element; uint8[k, rows
    * size]."""
    depth, width = columns.shape
    if layout == 0:
        image = columns.reshape(depth // 8, 8, width // 16, 16).transpose(0, 2, 1, 3).reshape(-1)
        return image, 8 * width, 128
    if layout == 1:
        image = columns.reshape(depth // 4, 4, width // 128, 128).transpose(2, 0, 1, 3)
        return swizzled(image.reshape(-1), layout), depth * 128, 512
    across = SWIZZLES[layout]
    image = columns.reshape(depth // 8, 8, width // across, across).transpose(2, 0, 1, 3)
    return swizzled(image.reshape(-1), layout), depth * across, 8 * across


def swizzled(image, layout):
    """Bytes of an image that begins at a multiple of the pattern's period, where the hardware looks for them."""
    place = np.arange(len(image))
    if layout == 1:
        place = place ^ (place >> 7 & 3) << 5
    else:
        place = place ^ (place >> 7 & SWIZZLES[layout] // 16 - 1) << 4
    out = np.zeros_like(image)
    out[place] = image
    return out


class Image:
    """Shared memory that is being filled: each part begins at a multiple of 1024 bytes."""

    def __init__(self):
        self.parts, self.size = [], 0

    def add(self, part):
        """Where ``part`` begins."""
        at = self.size
        padded = np.zeros(-(-len(part) // 1024) * 1024, np.uint8)
        padded[: len(part)] = part
        self.parts.append(padded)
        self.size += len(padded)
        return at

    @property
    def bytes(self):
        return np.concatenate(self.parts)


# ---- sums -------------------------------------------------------------------------------------------


def split(values, smallest):
    """(significand, exponent) in FP64 and int64; denormals have the exponent ``smallest``."""
    _, exponent = np.frexp(values)
    exponent = np.where(values == 0, smallest, np.maximum(exponent - 1, smallest)).astype(np.int64)
    with np.errstate(over="ignore"):
        return np.ldexp(values, -exponent), exponent


def cut_to_fp32(values):
    """FP64 to FP32, towards zero."""
    with np.errstate(over="ignore"):
        down = np.abs(values).astype(np.float32)
    down = np.where(down.astype(np.float64) > np.abs(values), np.nextafter(down, np.float32(0)), down)
    return np.copysign(down, values).astype(np.float32)


def aligned_sum(significands, exponents, fraction_bits):
    """The sum along the last axis of numbers aligned to the largest exponent and cut to so many fraction bits, in
    FP64."""
    exponents = np.where(significands == 0, -126, exponents)
    top = exponents.max(axis=-1, keepdims=True)
    units = np.trunc(np.ldexp(significands, exponents - top + fraction_bits))
    return np.ldexp(units.sum(axis=-1), top[..., 0] - fraction_bits)


def multiply(a, b, c, a_smallest, b_smallest, block, half=False, a_scale=None, b_scale=None, divide=0):
    """float32[rows, columns] (float16 with ``half``): c + a x b.T, ``block`` products at a time; ``a_scale``,
    ``b_scale``: powers of two of each row."""
    sa, ea = split(a, a_smallest)
    sb, eb = split(b, b_smallest)
    if a_scale is not None:
        ea, eb = ea + a_scale[:, None], eb + b_scale[:, None]
    for first in range(0, a.shape[1], block):
        part = slice(first, first + block)
        sc, ec = split(c.astype(np.float64), -14 if half else -126)
        ec = np.where(sc == 0, -126, ec - (divide if first == 0 else 0))
        s = np.concatenate([sa[:, None, part] * sb[None, :, part], sc[..., None]], axis=2)
        e = np.concatenate([ea[:, None, part] + eb[None, :, part], ec[..., None]], axis=2)
        total = aligned_sum(s, e, 25)
        c = total.astype(np.float16) if half else cut_to_fp32(total)
    return c


def multiply_groups(a, b, c, a_scales, b_scales, group=16):
    """The same of 4-bit floats: groups of 16 (of a sparse A: 32, half of them zeros) add exactly, are
    multiplied by scales (float64[rows, groups]) and cut at 35 bits."""
    rows = len(a)
    groups = np.einsum("igk,jgk->ijg", a.reshape(rows, -1, group), b.reshape(len(b), -1, group))
    spread = groups.shape[2] // a_scales.shape[1]
    (ma, pa), (mb, pb) = split(np.repeat(a_scales, spread, 1), -127), split(np.repeat(b_scales, spread, 1), -127)
    sc, ec = split(c.astype(np.float64), -126)
    s = np.concatenate([groups * ma[:, None] * mb[None], sc[..., None]], axis=2)
    e = np.concatenate([pa[:, None] + pb[None], ec[..., None]], axis=2)
    return cut_to_fp32(aligned_sum(s, e, 35))
