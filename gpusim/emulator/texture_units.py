"""What a texture unit does for one lane: an element fetched, a neighbourhood filtered, a surface's bytes moved.

Mental model: the unit reads a descriptor (:mod:`gpusim.launch.texture`), turns coordinates into places of elements by
the address modes, and returns one element, a weighted mean of two, four or eight, or one channel of four. Weights have
8 bits of fraction, as the CUDA Programming Guide says of linear filtering; that they are rounded to the nearest is a
guess. On a cube the largest of the three coordinates names the face (Programming Guide, "Cubemap Textures"); among
equals z goes before y before x, a guess.

The unit is called by address, as runs of arithmetic are: it is compiled apart from the interpreter, when a kernel first
needs it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.emulator.pointers import load8, load16, load32, load64, store8, store16, store32
from gpusim.isa import warp as at
from gpusim.isa.bodies.scalar import bits_of, float_of
from gpusim.isa.dispatch import record_at
from gpusim.isa.forms.texture import CLAMPED, CUBE, FETCH, GATHER, IGNORED, SURFACE_LOAD
from gpusim.isa.jit import entry, inner
from gpusim.isa.lane_masks import signed32
from gpusim.launch import texture as t

_FAR = 2.0**30  # further outside than any texture is large
_GATHER_I, _GATHER_J = (0, 1, 1, 0), (1, 1, 0, 0)  # which of the four elements each result is (PTX ISA, tld4)


@inner
def _placed(i, n, mode):
    """The element that stands for number ``i`` of ``n``; -1 for the border's colour."""
    if 0 <= i < n:
        return i
    if mode == t.CLAMP:
        return np.int64(0) if i < 0 else n - 1
    if mode == t.BORDER_COLOUR:
        return np.int64(-1)
    if mode == t.WRAP:
        return i - i // n * n
    m = i - i // (2 * n) * (2 * n)
    return m if m < n else 2 * n - 1 - m


@inner
def _half(word):
    """The number that 16 bits of a half stand for."""
    exponent, mantissa = (word >> 10) & 31, np.float64(word & 1023)
    if exponent == 31:
        value = np.float64(np.inf) if mantissa == 0 else np.float64(np.nan)
    elif exponent == 0:
        value = mantissa * 2.0**-24
    else:
        value = (1.0 + mantissa / 1024.0) * 2.0 ** np.float64(exponent - 15)
    return -value if word & 0x8000 else value


@inner
def _word(descriptor, place, channel):
    """Channel of the element at host address ``place``, as an integer of 32 bits or the bits of a float."""
    form = load32(descriptor + t.FORMAT)
    if form == t.UINT8:
        return np.int64(load8(place + channel))
    if form == t.INT8:
        value = np.int64(load8(place + channel))
        return value - ((value & 0x80) << 1)
    if form == t.UINT16 or form == t.HALF:
        return np.int64(load16(place + 2 * channel))
    if form == t.INT16:
        value = np.int64(load16(place + 2 * channel))
        return value - ((value & 0x8000) << 1)
    return np.int64(load32(place + 4 * channel))


@inner
def _number(descriptor, place, channel):
    """Channel of an element as a number: integers as fractions of their largest value."""
    form, word = load32(descriptor + t.FORMAT), _word(descriptor, place, channel)
    if form == t.FLOAT:
        return np.float64(float_of(np.int32(word)))
    if form == t.HALF:
        return _half(word)
    if form == t.UINT8:
        return np.float64(word) / 255.0
    if form == t.UINT16:
        return np.float64(word) / 65535.0
    return max(np.float64(word) / (127.0 if form == t.INT8 else 32767.0), -1.0)


@inner
def _place(descriptor, data, i, j, k):
    """Host address of element ``i`` of row ``j`` of slice ``k``; 0 where one of them lies on the border."""
    if i < 0 or j < 0 or k < 0:
        return np.int64(0)
    offset = i * load32(descriptor + t.ELEMENT) + j * load64(descriptor + t.ROW) + k * load64(descriptor + t.SLICE)
    return data + offset


@inner
def _result(descriptor, place, channel):
    """Register of a fetch without a filter."""
    channels = load32(descriptor + t.CHANNELS)
    integer, form = load32(descriptor + t.INTEGER), load32(descriptor + t.FORMAT)
    exact = integer != 0 and form != t.HALF
    if channel >= channels:
        one = np.int32(1) if exact and form != t.FLOAT else bits_of(np.float32(1.0))
        return one if channel == 3 else np.int32(0)
    if place == 0:
        return load32(descriptor + t.BORDER + 4 * channel)
    if exact or form == t.FLOAT:
        return signed32(_word(descriptor, place, channel))
    return bits_of(np.float32(_number(descriptor, place, channel)))


@inner
def _tap(descriptor, place, channel):
    """A channel of one element that is filtered."""
    if place == 0:
        return np.float64(float_of(load32(descriptor + t.BORDER + 4 * channel)))
    return _number(descriptor, place, channel)


@inner
def _coordinate(word, n, normalized):
    """A texture coordinate in elements."""
    value = np.float64(float_of(word))
    if value != value:
        return np.float64(0.0)
    if normalized:
        value *= n
    return min(max(value, -_FAR), _FAR)


@inner
def _direction(word):
    """A coordinate of a cube."""
    value = np.float64(float_of(word))
    return np.float64(0.0) if value != value else min(max(value, -_FAR), _FAR)


@inner
def _face(x, y, z):
    """(face of the cube that a direction hits, where on it: 0 to 1 across and down)."""
    far = max(abs(x), abs(y), abs(z))
    if abs(z) == far:
        face, s, t = np.int64(4) if z >= 0 else np.int64(5), x if z >= 0 else -x, -y
    elif abs(y) == far:
        face, s, t = np.int64(2) if y >= 0 else np.int64(3), x, z if y >= 0 else -z
    else:
        face, s, t = np.int64(0) if x >= 0 else np.int64(1), -z if x >= 0 else z, -y
    if far == 0.0:
        return face, np.float64(0.5), np.float64(0.5)
    return face, (s / far + 1.0) / 2.0, (t / far + 1.0) / 2.0


@inner
def _over_edge(face, i, j, n):
    """(face, column, row) of the element next to ``face`` at column ``i``, row ``j`` of which one lies outside 0 to ``n
    - 1``."""
    s, t, m = (2.0 * i + 1.0) / n - 1.0, (2.0 * j + 1.0) / n - 1.0, np.float64(1.0)
    # What reaches over the edge is folded down along the next face.
    if abs(s) > 1.0:
        m, s = 2.0 - abs(s), np.float64(1.0) if s > 0 else np.float64(-1.0)
    else:
        m, t = 2.0 - abs(t), np.float64(1.0) if t > 0 else np.float64(-1.0)
    sign = np.float64(-1.0) if face & 1 else np.float64(1.0)
    if face < 2:
        found, s, t = _face(sign * m, -t, -sign * s)
    elif face < 4:
        found, s, t = _face(s, sign * m, sign * t)
    else:
        found, s, t = _face(sign * s, -t, sign * m)
    return found, min(np.int64(s * n), n - 1), min(np.int64(t * n), n - 1)


@inner
def _cube_tap(descriptor, data, i, j, first, face, n, channel):
    """A channel of the element at column ``i``, row ``j`` of ``face`` or beside it, and its host address; the slice of
    face 0 is ``first``."""
    i_out, j_out = i < 0 or i >= n, j < 0 or j >= n
    i_in, j_in = min(max(i, np.int64(0)), n - 1), min(max(j, np.int64(0)), n - 1)
    if i_out and j_out:  # three faces meet there, and no fourth element
        place = _place(descriptor, data, i_in, j_in, first + face)
        across, column, row = _over_edge(face, i, j_in, n)
        down, other_column, other_row = _over_edge(face, i_in, j, n)
        total = _tap(descriptor, place, channel)
        total += _tap(descriptor, _place(descriptor, data, column, row, first + across), channel)
        total += _tap(descriptor, _place(descriptor, data, other_column, other_row, first + down), channel)
        return total / 3.0, place
    if i_out or j_out:
        face, i_in, j_in = _over_edge(face, i, j, n)
    place = _place(descriptor, data, i_in, j_in, first + face)
    return _tap(descriptor, place, channel), place


@inner
def texture_lane(descriptor, data, base, state, row, registers, x, y, d, second, lane):
    """Do what instruction ``row`` asks of a texture or surface for one lane, whose coordinates begin at ``x`` (and
    ``y``) among the registers; results go to ``d`` and behind two channels to ``second``. ``data`` is the host's,
    ``base`` the device's address of the elements; state.address gets where the lane looked. Returns whether it may."""
    kind, dims, layered = row[at.F0] & 15, np.int64((row[at.F0] >> 4) & 15), (row[at.F0] >> 8) & 1
    first_words = np.int64((row[at.F0] >> 12) & 15)
    mask, gathered = row[at.F1] & 15, np.int64((row[at.F1] >> 4) & 3)
    width, height = np.int64(load32(descriptor + t.WIDTH)), np.int64(load32(descriptor + t.HEIGHT))
    depth, linear = np.int64(load32(descriptor + t.DEPTH)), load32(descriptor + t.LINEAR)
    element = np.int64(load32(descriptor + t.ELEMENT))
    c0, c1, c2, c3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    cube = dims == CUBE
    if cube:
        dims = np.int64(2)
    for k in range(dims + cube + layered):
        word = registers[x + k * at.ROW] if k < first_words else registers[y + (k - first_words) * at.ROW]
        if k == 0:
            c0 = word
        elif k == 1:
            c1 = word
        elif k == 2:
            c2 = word
        else:
            c3 = word
    state.address[lane] = base
    if kind >= SURFACE_LOAD:
        size, boundary = np.int64(row[at.F2]), (row[at.F0] >> 16) & 15
        i, j, k = np.int64(c0), np.int64(0), np.int64(0)
        if dims >= 2:
            j = np.int64(c1)
        if dims == 3 or layered:
            k = np.int64(c2) if dims >= 2 else np.int64(c1)
        most = width * element - size
        if i < 0 or i > most or j < 0 or j >= height or k < 0 or k >= depth:
            if boundary == IGNORED:
                for w in range((size + 3) >> 2 if kind == SURFACE_LOAD else 0):
                    registers[d + w * at.ROW] = 0
                return True
            if boundary != CLAMPED:
                return False
            i, j, k = (
                min(max(i, np.int64(0)), most),
                min(max(j, np.int64(0)), height - 1),
                min(max(k, np.int64(0)), depth - 1),
            )
        if i & (size - 1):
            return False
        offset = i + j * load64(descriptor + t.ROW) + k * load64(descriptor + t.SLICE)
        state.address[lane] = base + offset
        place = data + offset
        for w in range((size + 3) >> 2):
            if kind == SURFACE_LOAD:
                value = load8(place) if size == 1 else load16(place) if size == 2 else load32(place + 4 * w)
                registers[d + w * at.ROW] = value
            else:
                value = registers[y + w * at.ROW]
                if size == 1:
                    store8(place, value)
                elif size == 2:
                    store16(place, value)
                else:
                    store32(place + 4 * w, value)
        return True

    layer = np.int64(0)
    if layered:
        layer = min(np.int64(c0) & at.FULL, (depth // 6 if cube else depth) - 1)
        c0, c1, c2 = c1, c2, c3
    m0, m1, m2 = load32(descriptor + t.MODES), load32(descriptor + t.MODES + 4), load32(descriptor + t.MODES + 8)
    if kind == FETCH:
        i, j, k = np.int64(c0), np.int64(0), layer
        if dims >= 2:
            j = np.int64(c1)
        if dims == 3:
            k = np.int64(c2)
        inside = 0 <= i < width and 0 <= j < height and 0 <= k < depth
        place = _place(descriptor, data, i, j, k) if inside else np.int64(0)
        if inside:
            state.address[lane] = base + place - data
        out = np.int64(0)
        for channel in range(4):
            if (mask >> channel) & 1:
                value = np.int32(0)
                if inside or channel >= load32(descriptor + t.CHANNELS):
                    value = _result(descriptor, place, channel)
                if out < 2:
                    registers[d + out * at.ROW] = value
                else:
                    registers[second + (out - 2) * at.ROW] = value
                out += 1
        return True
    if linear:
        return False
    normalized = load32(descriptor + t.NORMALIZED) != 0
    face, seamless = np.int64(0), False
    if cube:
        face, u, v = _face(_direction(c0), _direction(c1), _direction(c2))
        u, v, layer = u * width, v * height, 6 * layer + face
        seamless = load32(descriptor + t.SEAMLESS) != 0
    else:
        u = _coordinate(c0, width, normalized)
        v = _coordinate(c1, height, normalized) if dims >= 2 else np.float64(0.0)
    w = _coordinate(c2, depth, normalized) if dims == 3 else np.float64(0.0)
    filtered = load32(descriptor + t.FILTER) == t.FILTERED or kind == GATHER
    if not filtered:
        i, j = _placed(np.int64(np.floor(u)), width, m0), _placed(np.int64(np.floor(v)), height, m1)
        k = _placed(np.int64(np.floor(w)), depth, m2) if dims == 3 else layer
        place = _place(descriptor, data, i, j, k)
        if place:
            state.address[lane] = base + place - data
        out = np.int64(0)
        for channel in range(4):
            if (mask >> channel) & 1:
                value = _result(descriptor, place, channel)
                if out < 2:
                    registers[d + out * at.ROW] = value
                else:
                    registers[second + (out - 2) * at.ROW] = value
                out += 1
        return True
    i0, j0, k0 = np.floor(u - 0.5), np.floor(v - 0.5), np.floor(w - 0.5)
    a = np.floor((u - 0.5 - i0) * 256.0 + 0.5) / 256.0
    b = np.floor((v - 0.5 - j0) * 256.0 + 0.5) / 256.0 if dims >= 2 else np.float64(0.0)
    g = np.floor((w - 0.5 - k0) * 256.0 + 0.5) / 256.0 if dims == 3 else np.float64(0.0)
    out = np.int64(0)
    for channel in range(4):
        if not (mask >> channel) & 1:
            continue
        value = np.int32(0)
        if kind == GATHER:
            i = _placed(np.int64(i0) + _GATHER_I[channel], width, m0)
            j = _placed(np.int64(j0) + _GATHER_J[channel], height, m1)
            place = _place(descriptor, data, i, j, layer)
            value = _result(descriptor, place, gathered)
            if place:
                state.address[lane] = base + place - data
        elif channel >= load32(descriptor + t.CHANNELS):
            value = bits_of(np.float32(1.0)) if channel == 3 else np.int32(0)
        else:
            total = np.float64(0.0)
            for corner in range(1 << dims):
                di, dj, dk = corner & 1, (corner >> 1) & 1, (corner >> 2) & 1
                weight = (a if di else 1.0 - a) * (b if dj else 1.0 - b) * (g if dk else 1.0 - g)
                if weight == 0.0:
                    continue
                if seamless:
                    tap, place = _cube_tap(
                        descriptor, data, np.int64(i0) + di, np.int64(j0) + dj, layer - face, face, width, channel
                    )
                    state.address[lane] = base + place - data
                    total += weight * tap
                    continue
                i = _placed(np.int64(i0) + di, width, m0)
                j = _placed(np.int64(j0) + dj, height, m1) if dims >= 2 else np.int64(0)
                k = _placed(np.int64(k0) + dk, depth, m2) if dims == 3 else layer
                place = _place(descriptor, data, i, j, k)
                if place:
                    state.address[lane] = base + place - data
                total += weight * _tap(descriptor, place, channel)
            value = bits_of(np.float32(total))
        if out < 2:
            registers[d + out * at.ROW] = value
        else:
            registers[second + (out - 2) * at.ROW] = value
        out += 1
    return True


if config.DISABLE_JIT:
    at_texture_unit = texture_lane

    def texture_entry_address() -> int:
        """No entry point: the interpreter calls the function itself."""
        return 0

else:
    _state_at = record_at(from_dtype(at.STATE))
    _row_at = record_at(from_dtype(np.dtype([("columns", "<i4", (at.COLUMNS,))])))
    _file_at = record_at(from_dtype(np.dtype([("words", "<i4", (1 << 26,))])))

    def _one_lane(descriptor, data, base, state_host, index, x, y, d, second, lane):
        state = _state_at(state_host)
        row = _row_at(state.matrix_host + index * (4 * at.COLUMNS)).columns
        registers = _file_at(state.registers_host).words
        return np.int64(texture_lane(descriptor, data, base, state, row, registers, x, y, d, second, lane))

    _ENTRY = types.int64(*[types.int64] * 10)

    def texture_entry_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_one_lane, _ENTRY).address

    @intrinsic
    def call_texture_unit(typing_context, address, descriptor, data, base, state_host, index, x, y, d, second, lane):
        """:func:`texture_lane` by address."""

        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 10)
            return builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])

        return types.int64(*[types.int64] * 11), generate
