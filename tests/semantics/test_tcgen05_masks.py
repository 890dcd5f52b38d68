"""Products into tensor memory that look at operands askew: columns of zeros, columns and rows further on, rows of 96
elements."""

import numpy as np
import pytest
from oracles_tcgen05 import Image, k_major, multiply, multiply_groups, numbers, packed_rows, swizzled, turned
from tcgen05_operands import accumulators, draw, instruction, same, scale_columns, scaled_instruction
from tcgen05_programs import IMAGE, descriptor, mma, run

from gpusim.errors import ExecutionError


def pattern(first, start, counted, zeros, size):
    """bool[size]: which columns of a sub-mask are zeros (PTX ISA, "Zero-Column Mask Descriptor")."""
    spans = [[True] * zeros, [False] * counted] if first else [[False] * counted, [True] * zeros]
    whole = (spans[0] + spans[1]) * (2 * (size + start) // (counted + zeros) + 2)
    start = min(start, len(spans[0]) - 1)
    return np.array(whole[start : start + size])


def column_mask(starts, firsts, counted, zeros, shift=0):
    """A zero-column mask descriptor: "skip span" says how many columns are zeros, "use span" how many count, each less
    one."""
    return (
        sum(start << 8 * i for i, start in enumerate(starts))
        | firsts << 32
        | 1 << 39
        | zeros - 1 << 40
        | counted - 1 << 48
        | shift << 56
    )


def test_the_patterns_are_those_of_the_examples_in_the_ptx_isa():
    """Its examples 2 to 4, columns from the right: skip span 2, use span 3."""
    for first, start, want in (
        (0, 0, "1110000"),
        (1, 0, "0000111"),
        (1, 1, "000011"),
        (0, 2, "11100"),
        (0, 1, "111000"),
    ):
        assert pattern(first, start, 4, 3, len(want)).tolist() == [c == "1" for c in reversed(want)]


def bits_of(product):
    """Patterns of FP32, all NaN alike."""
    return np.where(np.isnan(product), np.int32(0x7FFFFFFF), product.view(np.int32))


def test_a_mask_makes_columns_of_a_weight_stationary_product_zeros():
    rng, image, body = np.random.default_rng(17), Image(), []
    a, b = draw(rng, (128, 16), "f16"), draw(rng, (64, 16), "f16")
    b[5, 3] = 0x7C00  # infinity: where its column is zeros it does not count
    place_a, place_b = (
        descriptor(image.add(part), leading, stride, 2)
        for part, leading, stride in (k_major(packed_rows(m, "f16"), 2) for m in (a, b))
    )
    want = np.zeros((128, 512), np.int32)
    asked = [(32, (0, 3, 1, 20), 0b0101, 3, 5), (64, (7, 0, 0, 0), 0b10, 6, 2), (128, (2, 0, 0, 0), 0, 1, 9)]
    for column, (rows, starts, firsts, counted, zeros) in zip((0, 128, 256), asked, strict=True):
        mask = column_mask(starts, firsts, counted, zeros)
        each = 64 * rows // 128
        off = np.concatenate([pattern(firsts >> i & 1, starts[i], counted, zeros, each) for i in range(128 // rows)])
        masked = np.where(off[:, None], 0, b.astype(np.int64)).astype(b.dtype)
        body.append(
            mma("f16", instruction(rows, 64), place_a, place_b, d=column, accumulate=False, stationary=True, zeros=mask)
        )
        product = multiply(
            numbers(a, "f16")[:rows], numbers(masked, "f16"), np.zeros((rows, 64), np.float32), -14, -14, 16
        )
        dealt = product.reshape(rows, -1, each).transpose(1, 0, 2).reshape(128, each)
        want[:, column : column + each] = bits_of(dealt)
    body.append(mma("f16", instruction(128, 64), place_a, place_b, d=384, accumulate=False, stationary=True, zeros=0))
    product = multiply(numbers(a, "f16"), numbers(b, "f16"), np.zeros((128, 64), np.float32), -14, -14, 16)
    want[:, 384:448] = bits_of(product)
    np.testing.assert_array_equal(run("\n".join(body), image.bytes, columns=512), want)
    shifted = mma("f16", instruction(128, 64) | 1 << 30, place_a, place_b, stationary=True, zeros=1 << 39 | 9 << 56)
    with pytest.raises(ExecutionError, match="a column shift of 9: the instruction descriptor allows 8 at most"):
        run(shifted, image.bytes, columns=512)


def test_a_column_shift_begins_further_into_b():
    rng, image, body = np.random.default_rng(21), Image(), []
    a, b = draw(rng, (128, 16), "f16"), draw(rng, (96, 16), "f16")
    b[2, 1] = 0x7C00  # infinity, in a column that is skipped
    part, leading, stride = k_major(packed_rows(a, "f16"), 2)
    place_a = descriptor(image.add(part), leading, stride, 2)
    want = np.zeros((128, 512), np.int32)
    b_turned = np.concatenate([b, np.zeros((32, 16), b.dtype)])  # the pattern of 128 bytes has 64 columns
    images = k_major(packed_rows(b, "f16"), 2), turned(packed_rows(b_turned.T.copy(), "f16"), 2, 2)
    for i, (rows, shift, (part, leading, stride)) in enumerate(
        ((64, 5, images[0]), (128, 19, images[1]), (32, 16, images[0]))
    ):
        place_b, each = descriptor(image.add(part), leading, stride, 2), 64 * rows // 128
        off = np.concatenate([pattern(0, 1, 6, 2, each)] * (128 // rows))
        idesc = instruction(rows, 64, turn_b=int(rows == 128)) | (3 if rows == 128 else 2) << 30
        mask = column_mask((1, 1, 1, 1), 0, 6, 2, shift)
        body.append(mma("f16", idesc, place_a, place_b, d=128 * i, accumulate=False, stationary=True, zeros=mask))
        masked = np.where(off[:, None], 0, b[shift : shift + 64].astype(np.int64)).astype(b.dtype)
        product = multiply(
            numbers(a, "f16")[:rows], numbers(masked, "f16"), np.zeros((rows, 64), np.float32), -14, -14, 16
        )
        want[:, 128 * i : 128 * i + each] = bits_of(
            product.reshape(rows, -1, each).transpose(1, 0, 2).reshape(128, each)
        )
    np.testing.assert_array_equal(run("\n".join(body), image.bytes, columns=512), want)


def test_a_in_tensor_memory_is_shifted_by_a_row_but_the_last():
    rng, image = np.random.default_rng(18), Image()
    a, b = draw(rng, (128, 16), "f16"), draw(rng, (16, 16), "f16")
    part, leading, stride = k_major(packed_rows(b, "f16"), 2)
    words = np.zeros((128, 64), np.int32)
    words[:, 32:40] = packed_rows(a, "f16").view(np.int32)
    place = descriptor(image.add(part), leading, stride, 2)
    body = mma("f16", instruction(128, 16), ("t", 32), place, accumulate=False, option=".ashift")
    rows = np.minimum(np.arange(128) + 1, 127)
    want = multiply(numbers(a, "f16")[rows], numbers(b, "f16"), np.zeros((128, 16), np.float32), -14, -14, 16)
    np.testing.assert_array_equal(run(body, image.bytes, words)[:, :16], want.view(np.int32))


def in_two_patterns(image, rows):
    """A descriptor of rows of 48 bytes of which the first 32 end a pattern of 128 bytes and the others begin another
    one."""
    halves = np.zeros((2, len(rows), 128), np.uint8)
    halves[0, :, 96:], halves[1, :, :16] = rows[:, :32], rows[:, 32:]
    first, second = (image.add(swizzled(half.reshape(-1), 2)) for half in halves)
    return descriptor(first + 96, IMAGE + second, 1024, 2) | 1 << 52


@pytest.mark.parametrize(
    ("form", "a_id", "b_id", "columns", "layout"),
    [
        ("mxf4", 2, 0, 40, 2),
        ("mxf4nvf4.block16", 0, 2, 136, 0),
        pytest.param("mxf4", 1, 3, 136, 0, marks=pytest.mark.nightly),
        pytest.param("mxf4nvf4.block16", 2, 0, 40, 2, marks=pytest.mark.nightly),
    ],
)
def test_rows_of_96_small_floats(form, a_id, b_id, columns, layout):
    rng, image, count = np.random.default_rng(22), Image(), 6 if "16" in form else 3
    memory = np.zeros((128, 256), np.int32)
    start = accumulators(rng, 128, columns)
    memory[:, :columns] = start.view(np.int32)
    a, b = draw(rng, (128, 96), "e2m1"), draw(rng, (columns, 96), "e2m1")
    powers, scales = count == 3, []
    for lines, first, at in ((128, a_id, 160), (columns, b_id, 176)):
        drawn = rng.integers(*((120, 135) if powers else (0, 0x7F)), (lines, count)).astype(np.uint8)
        words = np.hstack([np.full((lines, first), 77, np.uint8), drawn])
        scale_columns(memory, at, words[:, :4])
        scale_columns(memory, at + -(-lines // 128) * 4, words[:, 4:])
        scales.append(np.exp2(drawn.astype(np.float64) - 127) if powers else numbers(drawn, "e4m3"))
    places = []
    for matrix in (a, b):
        rows = packed_rows(matrix, "e2m1", False)
        part, leading, stride = k_major(rows, 0)
        places.append(in_two_patterns(image, rows) if layout else descriptor(image.add(part), leading, stride, 0))
    idesc = scaled_instruction(128, columns, 1, 1, a_id, b_id, int(powers)) | 1 << 31
    kind, _, option = form.partition(".")
    body = mma(kind, idesc, *places, option=f".block_scale{'.' + option if option else ''}", scales=(160, 176))
    out = run(body, image.bytes, memory, columns=256, gpu="b300")
    same(out[:, :columns], multiply_groups(numbers(a, "e2m1"), numbers(b, "e2m1"), start, *scales))
    with pytest.raises(ExecutionError, match=r"products of depth 96 \(bit 31\) are there on sm_103 alone"):
        run(body, image.bytes, memory, columns=256)
