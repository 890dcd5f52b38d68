"""Operands of products into tensor memory, for tests: descriptors of instructions, drawn matrices, scales where the
hardware looks for them."""

import numpy as np
from oracles_tcgen05 import FORMATS, codes

F16_RESULT, F32_RESULT, S32_RESULT = range(3)
FORMAT_CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}


def instruction(
    rows,
    columns,
    a=0,
    b=0,
    result=F32_RESULT,
    turn_a=0,
    turn_b=0,
    negate_a=0,
    negate_b=0,
    sparse=0,
    select=0,
    saturate=0,
):
    """An instruction descriptor (PTX ISA, "Instruction descriptor")."""
    return (
        select | sparse << 2 | saturate << 3 | result << 4 | a << 7 | b << 10 | negate_a << 13 | negate_b << 14 | turn_a << 15
        | turn_b << 16 | columns >> 3 << 17 | rows >> 4 << 24
    )  # fmt: skip


def scaled_instruction(rows, columns, a, b, a_id=0, b_id=0, powers=1):
    return b_id << 4 | a << 7 | b << 10 | columns >> 3 << 17 | powers << 23 | rows >> 4 << 24 | a_id << 29


def draw(rng, shape, name, spread=6):
    """Patterns of a format over some powers of two, with zeros and denormals among them."""
    values = rng.normal(size=shape) * np.exp2(rng.integers(-spread, spread, shape))
    values[rng.random(shape) < 0.1] = 0
    if name in ("e2m3", "e3m2", "e2m1"):
        return rng.integers(0, 1 << FORMATS[name][2], shape).astype(np.uint8)
    if name == "f16":
        values[rng.random(shape) < 0.1] *= 2.0**-16
    limit = {"e4m3": 448, "e5m2": 57344}.get(name, 1e30)
    return codes(np.clip(values, -limit, limit), name)


def same(got, want):
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def accumulators(rng, rows, columns):
    return (rng.normal(size=(rows, columns)) * np.exp2(rng.integers(-20, 9, (rows, columns)))).astype(np.float32)


def scale_columns(memory, column, scales):
    """Put uint8[rows, count] scales where the hardware looks for them: byte i of column row / 32, lane row mod 32 of
    each warp's."""
    rows, count = scales.shape
    words = np.zeros(rows, np.int64)
    for i in range(count):
        words |= scales[:, i].astype(np.int64) << 8 * i
    for row in range(rows):
        memory[row % 32 :: 32, column + row // 32] |= np.int64(words[row]).astype(np.uint32).view(np.int32)
