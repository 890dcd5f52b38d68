"""Products into tensor memory: formats, layouts of operands and of D, and sums, against NumPy."""

import numpy as np
import pytest
from oracles_tcgen05 import FORMATS, Image, k_major, multiply, multiply_groups, numbers, packed_rows, turned
from tcgen05_operands import (
    F16_RESULT,
    FORMAT_CODES,
    S32_RESULT,
    accumulators,
    draw,
    instruction,
    same,
    scale_columns,
    scaled_instruction,
)
from tcgen05_programs import descriptor, mma, run

K_MAJOR = [(name, layout) for name in ("f16", "bf16", "tf32") for layout in (0, 6, 4, 2)]


def test_halves_and_tf32_in_every_layout_of_k():
    rng, image, body, wanted = np.random.default_rng(1), Image(), [], []
    columns, start = 16, accumulators(np.random.default_rng(2), 128, 16 * len(K_MAJOR))
    for i, (name, layout) in enumerate(K_MAJOR):
        depth = 8 if name == "tf32" else 16
        a, b = draw(rng, (128, depth), name), draw(rng, (columns, depth), name)
        places = []
        for matrix in (a, b):
            part, leading, stride = k_major(packed_rows(matrix, name), layout)
            places.append(descriptor(image.add(part), leading, stride, layout))
        code, kind = FORMAT_CODES[name], "tf32" if name == "tf32" else "f16"
        body.append(mma(kind, instruction(128, columns, code, code), *places, d=columns * i))
        smallest = FORMATS[name][1]
        c = start[:, columns * i : columns * (i + 1)]
        wanted.append(multiply(numbers(a, name), numbers(b, name), c, smallest, smallest, depth))
    out = run("\n".join(body), image.bytes, start.view(np.int32), columns=256)
    same(out[:, : start.shape[1]], np.hstack(wanted))


def test_operands_with_rows_side_by_side():
    rng, image, body, wanted, columns = np.random.default_rng(3), Image(), [], [], 64
    cases = [("f16", 0), ("f16", 6), ("bf16", 4), ("f16", 2), ("e4m3", 2), ("e5m2", 0), ("tf32", 1)]
    for i, (name, layout) in enumerate(cases):
        bits = FORMATS[name][2]
        depth, size = {32: 8, 16: 16, 8: 32}[bits], bits // 8
        rows, n = 128, 128 if size == 1 else columns
        a, b = draw(rng, (rows, depth), name, 3), draw(rng, (n, depth), name, 3)
        places = []
        for matrix in (a, b):
            part, leading, stride = turned(packed_rows(np.ascontiguousarray(matrix.T), name), layout, size)
            places.append(descriptor(image.add(part), leading, stride, layout))
        kind = {32: "tf32", 16: "f16", 8: "f8f6f4"}[bits]
        code = FORMAT_CODES[name]
        body.append(
            mma(kind, instruction(rows, n, code, code, turn_a=1, turn_b=1), *places, d=columns * i, accumulate=False)
        )
        smallest = FORMATS[name][1]
        wanted.append(
            multiply(numbers(a, name), numbers(b, name), np.zeros((rows, n), np.float32), smallest, smallest, depth)[
                :, :columns
            ]
        )
    out = run("\n".join(body), image.bytes, columns=512)
    for i, want in enumerate(wanted):
        if FORMATS[cases[i][0]][2] != 8:
            same(out[:, columns * i : columns * (i + 1)], want)
    same(out[:, columns * 4 : columns * 5], wanted[4])


def test_eight_six_and_four_bit_floats_of_different_formats():
    rng, image, body, wanted, columns = np.random.default_rng(4), Image(), [], [], 16
    pairs = [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m3", "e5m2"), ("e4m3", "e3m2"), ("e2m1", "e2m1"), ("e3m2", "e2m1")]
    start = accumulators(rng, 128, columns * len(pairs))
    for i, (of_a, of_b) in enumerate(pairs):
        a, b = draw(rng, (128, 32), of_a), draw(rng, (columns, 32), of_b)
        places = []
        for matrix, name in ((a, of_a), (b, of_b)):
            part, leading, stride = k_major(packed_rows(matrix, name), 6)
            places.append(descriptor(image.add(part), leading, stride, 6))
        body.append(
            mma("f8f6f4", instruction(128, columns, FORMAT_CODES[of_a], FORMAT_CODES[of_b]), *places, d=columns * i)
        )
        c = start[:, columns * i : columns * (i + 1)]
        wanted.append(multiply(numbers(a, of_a), numbers(b, of_b), c, FORMATS[of_a][1], FORMATS[of_b][1], 32))
    out = run("\n".join(body), image.bytes, start.view(np.int32), columns=128)
    same(out[:, : start.shape[1]], np.hstack(wanted))


def test_integers_exactly_wrapped_and_saturated():
    rng, image, body, wanted = np.random.default_rng(5), Image(), [], []
    start = rng.integers(-(2**31), 2**31, (128, 64), dtype=np.int64).astype(np.int32)
    start[:, 32:] = np.where(start[:, 32:] < 0, -(2**31) + 5, 2**31 - 5)
    for i, (of_a, of_b, saturate) in enumerate([(1, 1, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1)]):
        kinds = [np.int8 if signed else np.uint8 for signed in (of_a, of_b)]
        a, b = rng.integers(0, 256, (128, 32)).astype(np.uint8), rng.integers(0, 256, (16, 32)).astype(np.uint8)
        places = []
        for matrix in (a, b):
            part, leading, stride = k_major(matrix, 2)
            places.append(descriptor(image.add(part), leading, stride, 2))
        body.append(mma("i8", instruction(128, 16, of_a, of_b, S32_RESULT, saturate=saturate), *places, d=16 * i))
        total = a.view(kinds[0]).astype(np.int64) @ b.view(kinds[1]).astype(np.int64).T + start[:, 16 * i : 16 * i + 16]
        wanted.append(np.clip(total, -(2**31), 2**31 - 1) if saturate else total)
    out = run("\n".join(body), image.bytes, start)
    np.testing.assert_array_equal(out, np.hstack(wanted).astype(np.int32))


def test_where_rows_and_columns_of_d_lie_and_what_else_an_instruction_can_ask():
    rng, image, body = np.random.default_rng(6), Image(), []
    a, b = draw(rng, (128, 16), "f16"), draw(rng, (64, 16), "f16")
    values_a, values_b = numbers(a, "f16"), numbers(b, "f16")
    place_a, place_b = (
        descriptor(image.add(part), leading, stride, 2)
        for part, leading, stride in (k_major(packed_rows(m, "f16"), 2) for m in (a, b))
    )
    start = accumulators(rng, 128, 512)
    halves = rng.normal(size=(128, 16)).astype(np.float16)
    words = start.view(np.int32).copy()
    words[:, 200:216] = halves.view(np.uint16)
    words[:, 480:488] = packed_rows(a, "f16").view(np.int32)
    out_of = lambda rows, columns, c, **kw: multiply(values_a[:rows], values_b[:columns], c, -14, -14, 16, **kw)  # noqa: E731
    want = words.copy()

    def expect(lanes, column, values):
        want[lanes, column : column + values.shape[1]] = (
            values.view(np.int32) if values.itemsize == 4 else values.view(np.uint16)
        )

    upper = np.arange(64) % 16 + 32 * (np.arange(64) // 16)
    body.append(mma("f16", instruction(64, 8), place_a, place_b, d=0))  # 64 rows: 16 lanes of each warp's
    expect(upper, 0, out_of(64, 8, start[upper, :8]))
    body.append(mma("f16", instruction(64, 8), place_a, place_b, d=16 << 16 | 8))
    expect(upper + 16, 8, out_of(64, 8, start[upper + 16, 8:16]))
    body.append(mma("f16", instruction(128, 16), place_a, place_b, d=16, off=(1, 0, 0xFFFFFFFF, 1 << 31)))
    kept = np.array([1] + [0] * 63 + [1] * 32 + [0] * 31 + [1]) == 0
    expect(kept, 16, out_of(128, 16, start[:, 16:32])[kept])
    body.append(mma("f16", instruction(128, 16, negate_a=1), place_a, place_b, d=32, scale_input=3))
    expect(slice(None), 32, multiply(-values_a, values_b[:16], start[:, 32:48], -14, -14, 16, divide=3))
    body.append(mma("f16", instruction(128, 16, result=F16_RESULT, negate_b=1), place_a, place_b, d=200))
    expect(slice(None), 200, multiply(values_a, -values_b[:16], halves, -14, -14, 16, half=True))
    body.append(mma("f16", instruction(128, 16), ("t", 480), place_b, d=64))  # A in tensor memory
    expect(slice(None), 64, out_of(128, 16, start[:, 64:80]))
    for d, rows in ((80, 32), (128, 64), (256, 128)):  # weight-stationary: columns are dealt to groups of lanes
        body.append(mma("f16", instruction(rows, 64), place_a, place_b, d=d, accumulate=False, stationary=True))
        product = out_of(rows, 64, np.zeros((rows, 64), np.float32))
        each = 64 * rows // 128
        expect(slice(None), d, product.reshape(rows, -1, each).transpose(1, 0, 2).reshape(128, each))
    out = run("\n".join(body), image.bytes, words, columns=512)
    np.testing.assert_array_equal(out, want)


def metadata(rng, rows, depth, name):
    """(which two of each four elements are there: int64[rows, depth // 4, 2], one of two for TF32), int32[128,
    columns]."""
    fours = depth // 4 if name != "tf32" else depth // 2
    if name == "e2m1":
        fours = depth // 8
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    chosen = (
        pairs[rng.integers(0, 6, (rows, fours))]
        if name != "tf32"
        else np.array([(0, 1), (2, 3)])[rng.integers(0, 2, (rows, fours))]
    )
    fields = chosen[..., 0] | chosen[..., 1] << 2
    out = np.zeros((128, 4), np.int64)
    for row in range(rows):
        for g in range(fours):
            if name in ("tf32", "f16", "bf16"):
                out[row // 16 * 16 + row % 8 + 8 * (g // 4), 0] |= fields[row, g] << (16 * (row // 8 % 2) + 4 * (g % 4))
            else:
                out[row, g // 8] |= fields[row, g] << 4 * (g % 8)
    return chosen, out.astype(np.uint32).view(np.int32)


def spread_out(stored, chosen, name):
    """A sparse A with its zeros, float64[rows, depth]."""
    rows, count = stored.shape
    whole = np.zeros((rows, 2 * count))
    for row in range(rows):
        for j in range(count):
            if name == "tf32":
                place = 2 * j + chosen[row, j, 0] // 2
            elif name == "e2m1":
                place = 8 * (j // 4) + 2 * chosen[row, j // 4, j // 2 % 2] + j % 2
            else:
                place = 4 * (j // 2) + chosen[row, j // 2, j % 2]
            whole[row, place] = stored[row, j]
    return whole


def test_sparse_rows_of_a():
    rng, image, body, wanted, columns = np.random.default_rng(7), Image(), [], [], 16
    memory = np.zeros((128, 128), np.int32)
    cases = [("f16", 0), ("tf32", 1), ("e4m3", 0)]
    start = accumulators(rng, 128, columns * len(cases))
    memory[:, : start.shape[1]] = start.view(np.int32)
    for i, (name, select) in enumerate(cases):
        stored = {"tf32": 8, "f16": 16}.get(name, 32)
        a, b = draw(rng, (128, stored), name), draw(rng, (columns, 2 * stored), name)
        chosen, words = metadata(rng, 128, 2 * stored, name)
        memory[:, 64 + 8 * i + select : 64 + 8 * i + select + 4] = words
        places = []
        for matrix in (a, b):
            part, leading, stride = k_major(packed_rows(matrix, name), 4)
            places.append(descriptor(image.add(part), leading, stride, 4))
        kind = {"f16": "f16", "tf32": "tf32"}.get(name, "f8f6f4")
        code = FORMAT_CODES[name]
        body.append(
            mma(
                kind,
                instruction(128, columns, code, code, sparse=1, select=select),
                *places,
                d=columns * i,
                meta=64 + 8 * i,
            )
        )
        smallest = FORMATS[name][1]
        whole = spread_out(numbers(a, name), chosen, name)
        c = start[:, columns * i : columns * (i + 1)]
        wanted.append(multiply(whole, numbers(b, name), c, smallest, smallest, 2 * stored))
    out = run("\n".join(body), image.bytes, memory, columns=128)
    same(out[:, : start.shape[1]], np.hstack(wanted))


@pytest.mark.parametrize(
    ("form", "gpu"),
    [
        ("mxf8f6f4", "b200"),
        ("mxf4nvf4.block16", "b200"),
        pytest.param("mxf4nvf4.block16", "b300", marks=pytest.mark.nightly),
        pytest.param("mxf4", "b200", marks=pytest.mark.nightly),
        pytest.param("mxf4nvf4.block32", "b200", marks=pytest.mark.nightly),
    ],
)
def test_scales_of_blocks(form, gpu):
    rng, image, columns = np.random.default_rng(8), Image(), 40
    memory = np.zeros((128, 128), np.int32)
    start = accumulators(rng, 128, columns)
    memory[:, :columns] = start.view(np.int32)
    four = form != "mxf8f6f4"
    of_a, of_b, depth, count = ("e2m1", "e2m1", 64, 4 if "16" in form else 2) if four else ("e4m3", "e3m2", 32, 1)
    a, b = draw(rng, (128, depth), of_a), draw(rng, (columns, depth), of_b)
    powers = "16" not in form
    draw_scales = (
        (lambda rows: rng.integers(120, 135, (rows, count)))
        if powers
        else (lambda rows: rng.integers(0, 0x7F, (rows, count)))
    )
    sa, sb = (draw_scales(rows).astype(np.uint8) for rows in (128, columns))
    sa[5, -1] = 0xFF if powers else 0x7F  # no number
    a_id, b_id = (2, 0) if count == 2 else (1, 3) if count == 1 else (0, 0)
    scale_columns(memory, 64, np.hstack([np.full((128, a_id), 77, np.uint8), sa]))
    scale_columns(memory, 72, np.hstack([np.full((columns, b_id), 77, np.uint8), sb]))
    places = []
    for matrix, name in ((a, of_a), (b, of_b)):
        part, leading, stride = k_major(packed_rows(matrix, name, not four), 6)
        places.append(descriptor(image.add(part), leading, stride, 6))
    code_a, code_b = (1, 1) if four else (FORMAT_CODES[of_a], FORMAT_CODES[of_b])
    idesc = scaled_instruction(128, columns, code_a, code_b, a_id, b_id, int(powers))
    kind, _, option = form.partition(".")
    body = mma(kind, idesc, *places, option=f".block_scale{'.' + option if option else ''}", scales=(64, 72))
    out = run(body, image.bytes, memory, columns=128, gpu=gpu)
    if four:
        sa[5, -1] = 1
        values = [np.exp2(s.astype(np.float64) - 127) if powers else numbers(s, "e4m3") for s in (sa, sb)]
        want = multiply_groups(numbers(a, of_a), numbers(b, of_b), start, *values)
    else:
        exponents = [s[:, 0].astype(np.int64) - 127 for s in (sa, sb)]
        want = multiply(
            numbers(a, of_a), numbers(b, of_b), start, FORMATS[of_a][1], FORMATS[of_b][1], 32, a_scale=exponents[0], b_scale=exponents[1],
        )  # fmt: skip
    assert (out[5, :columns] == 0x7FFFFFFF).all()
    same(np.delete(out[:, :columns], 5, 0), np.delete(want, 5, 0))


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["mxf8f6f4", "mxf4nvf4.block16"])
def test_sparse_rows_of_a_with_scales(form):
    rng, image, columns, four = np.random.default_rng(15), Image(), 32, form != "mxf8f6f4"
    name, stored, count = ("e2m1", 64, 4) if four else ("e5m2", 32, 1)
    memory = np.zeros((128, 128), np.int32)
    a, b = draw(rng, (128, stored), name), draw(rng, (columns, 2 * stored), name)
    chosen, words = metadata(rng, 128, 2 * stored, name)
    memory[:, 64:68] = words
    sa, sb = (
        rng.integers(*((0x20, 0x60) if four else (120, 135)), (rows, count)).astype(np.uint8) for rows in (128, columns)
    )
    scale_columns(memory, 72, sa)
    scale_columns(memory, 80, sb)
    places = []
    for matrix in (a, b):
        part, leading, stride = k_major(packed_rows(matrix, name, not four), 4)
        places.append(descriptor(image.add(part), leading, stride, 4))
    code = 1
    idesc = scaled_instruction(128, columns, code, code, powers=not four) | 1 << 2
    kind, _, option = form.partition(".")
    option = f".block_scale{'.' + option if option else ''}"
    body = mma(kind, idesc, *places, option=option, scales=(72, 80), meta=64, accumulate=False)
    out = run(body, image.bytes, memory, columns=128)
    whole, zeros = spread_out(numbers(a, name), chosen, name), np.zeros((128, columns), np.float32)
    if four:
        want = multiply_groups(whole, numbers(b, name), zeros, numbers(sa, "e4m3"), numbers(sb, "e4m3"), 32)
    else:
        powers = [s[:, 0].astype(np.int64) - 127 for s in (sa, sb)]
        want = multiply(whole, numbers(b, name), zeros, -14, -14, 64, a_scale=powers[0], b_scale=powers[1])
    same(out[:, :columns], want)


def test_infinities_and_what_is_no_number():
    image = Image()
    a, b = np.zeros((128, 16), np.float16), np.ones((16, 16), np.float16)
    a[0, 0], a[1, 3], a[2, 0], a[2, 1], a[3, 5] = np.inf, np.nan, np.inf, -np.inf, 1
    b[1, 0] = 0
    b[2] = np.inf
    places = []
    for matrix in (a, b):
        part, leading, stride = k_major(packed_rows(matrix.view(np.uint16), "f16"), 0)
        places.append(descriptor(image.add(part), leading, stride))
    start = np.zeros((128, 32), np.float32)
    start[3, 4], start[4, 5], start[5, 6] = np.inf, np.nan, -np.inf
    body = mma("f16", instruction(128, 16), *places)
    out = run(body, image.bytes, start.view(np.int32), columns=32)[:, :16]
    with np.errstate(invalid="ignore"):
        want = (a.astype(np.float32)[:, None] * b.astype(np.float32)[None]).sum(2) + start[:, :16]
    words = np.where(np.isnan(want), 0x7FFFFFFF, want.view(np.int32))
    np.testing.assert_array_equal(out, words)
    assert np.isnan(want).sum() > 120 and np.isinf(want).sum() > 10


def dealt(product, rows):
    """D as it lies in the lanes of a block that has ``rows`` rows of it: with 64 the columns are dealt to two halves of
    the lanes."""
    each = product.shape[1] * rows // 128
    return product.reshape(rows, -1, each).transpose(1, 0, 2).reshape(128, each)


@pytest.mark.parametrize("rows", [256, pytest.param(128, marks=pytest.mark.nightly)])
def test_two_blocks_multiply_together(rows):
    rng, columns = np.random.default_rng(9), 32
    images, own = [Image(), Image()], rows // 2
    a, b = draw(rng, (rows, 16), "f16"), draw(rng, (columns, 16), "f16")
    for i, image in enumerate(images):
        places = []
        for matrix, each in ((a, own), (b, columns // 2)):
            part, leading, stride = k_major(packed_rows(matrix[each * i : each * (i + 1)], "f16"), 6)
            places.append(descriptor(image.add(part), leading, stride, 6))
    start = accumulators(rng, 256, 64).reshape(2, 128, 64)
    idesc, off = instruction(rows, columns), (0, 0, 0, 0, 0xFFFFFFFF, 0, 0, 0)
    body = [mma("f16", idesc, *places, d=0, pair=True), mma("f16", idesc, *places, d=32, pair=True, off=off)]
    out = run("\n".join(body), np.concatenate([image.bytes for image in images]), start.view(np.int32), pair=True)
    want = start.copy()
    each = columns * own // 128
    for i in range(2):
        part = slice(own * i, own * (i + 1))
        for d in (0, 32):
            c = start[i, :, d : d + each].reshape(-1, own, each).transpose(1, 0, 2).reshape(own, columns)
            result = dealt(multiply(numbers(a[part], "f16"), numbers(b, "f16"), c, -14, -14, 16), own)
            kept = np.arange(128) >= (32 if i and d else 0)
            want[i, kept, d : d + each] = result[kept]
    same(out, want)


def test_two_blocks_copy_and_multiply_with_scales_together():
    rng, columns = np.random.default_rng(10), 64
    images = [Image(), Image()]
    a, b = draw(rng, (256, 32), "e4m3"), draw(rng, (columns, 32), "e5m2")
    sa, sb = (rng.integers(120, 135, (rows, 4)).astype(np.uint8) for rows in (256, columns))
    places = {}
    for i, image in enumerate(images):
        parts = {
            "a": k_major(a[128 * i : 128 * i + 128], 6), "b": k_major(b[32 * i : 32 * i + 32], 6),
            "sa": k_major(sa[128 * i : 128 * i + 128].reshape(4, 32, 4).transpose(1, 0, 2).reshape(32, 16), 0),
            "sb": k_major(np.pad(sb.reshape(2, 32, 4).transpose(1, 0, 2).reshape(32, 8), ((0, 0), (0, 8))), 0),
        }  # fmt: skip
        for name, (part, leading, stride) in parts.items():
            places[name] = descriptor(image.add(part), leading, stride, 6 if len(name) == 1 else 0)
    copies = "\n".join(
        f"add.u64 da, sd, {places[name]}; add.u32 x, t, {column}; tcgen05.cp.cta_group::2.32x128b.warpx4 [x], da;"
        for name, column in (("sa", 64), ("sb", 68))
    )
    idesc = scaled_instruction(256, columns, 0, 1, 2, 1)
    product = mma(
        "mxf8f6f4", idesc, places["a"], places["b"], pair=True, option=".block_scale", scales=(64, 68), accumulate=False
    )
    out = run(f"{copies}\n{product}", np.concatenate([image.bytes for image in images]), columns=128, pair=True)
    want = multiply(
        numbers(a, "e4m3"), numbers(b, "e5m2"), np.zeros((256, columns), np.float32), -6, -14, 32,
        a_scale=sa[:, 2].astype(np.int64) - 127, b_scale=sb[:, 1].astype(np.int64) - 127,
    )  # fmt: skip
    same(out[:, :, :columns].reshape(256, columns), want)
