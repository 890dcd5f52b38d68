"""Tensor-core products and matrix moves, bit by bit, against exact fractions in every generation."""

import numpy as np
import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_arith import BF16, E4M3, E5M2, F16, F32, F64, INTEGER_EDGES, M32, TF32, edges, fused, signed
from oracles_tensor import GENERATIONS, product, result_place, unpack, unpack_result

from gpusim.trace.record import MatrixType

few = settings(max_examples=4, deadline=None)
#: form -> (format of A, of B, accumulator, bits of an element, depth)
FLOATS = {
    "HMMA.1688.F32": (F16, F16, F32, 16, 8),
    "HMMA.16816.F32": (F16, F16, F32, 16, 16),
    "HMMA.1688.F16": (F16, F16, F16, 16, 8),
    "HMMA.16816.F16": (F16, F16, F16, 16, 16),
    "HMMA.1688.F32.BF16": (BF16, BF16, F32, 16, 8),
    "HMMA.16816.F32.BF16": (BF16, BF16, F32, 16, 16),
    "HMMA.1684.F32.TF32": (TF32, TF32, F32, 32, 4),
    "HMMA.1688.F32.TF32": (TF32, TF32, F32, 32, 8),
    "QMMA.16832.F32.E4M3.E5M2": (E4M3, E5M2, F32, 8, 32),
    "QMMA.16816.F32.E5M2.E4M3": (E5M2, E4M3, F32, 8, 16),
    "QMMA.16832.F16.E4M3.E4M3": (E4M3, E4M3, F16, 8, 32),
}


def random_codes(f, rng, special):
    """Codes that meet: of like size, and with ``special`` also zeros, denormals, infinities and NaN."""
    if special == "edges":
        return rng.choice(np.array(edges(f)))
    if special == "any":
        return rng.integers(0, 2 * f.sign)
    one = f.bias << f.mantissa_bits
    near = one + int(rng.integers(-3, 4) << f.mantissa_bits) + int(rng.integers(0, 1 << f.mantissa_bits))
    return 0 if rng.random() < 0.1 else near | (f.sign if rng.random() < 0.5 else 0)


def registers(f, bits, count, rng, special):
    """``count`` registers of 32 words, each full of elements."""
    drop = 13 if f is TF32 else 0
    return [
        [sum((int(random_codes(f, rng, special)) << drop) << bits * i for i in range(32 // bits)) for _ in range(32)]
        for _ in range(count)
    ]


def run(text, groups, capability):
    """Execute ``text R12, R0, R4, R8`` on register groups; the result's words."""
    state = {f"R{4 * n + i}": words for n, group in enumerate(groups) for i, words in enumerate(group)}
    return [[int(v) for v in row] for row in execute(text, state, capability).words]


def exists(form, capability):
    """Whether the generation's compiler emits the form."""
    if form.startswith("QMMA"):
        return capability in ((8, 9), (12, 0))
    return capability >= (8, 0) or form in ("HMMA.1688.F32", "HMMA.1688.F16")


@pytest.mark.by_day(16)
@pytest.mark.parametrize(("form", "capability"), [(f, g) for f in FLOATS for g in GENERATIONS if exists(f, g)])
@given(seed=st.integers(0, 2**32), special=st.sampled_from(["no", "edges", "any"]))
@few
def test_floating_products(form, capability, seed, special):
    f_a, f_b, acc, bits, depth = FLOATS[form]
    rng = np.random.default_rng(seed)
    steps = depth * bits // 128
    a, b = registers(f_a, bits, 2 * steps, rng, special), registers(f_b, bits, steps, rng, special)
    c = registers(acc, acc.bits, 4 if acc is F32 else 2, rng, special)
    layout = (".ROW", ".COL") if form.startswith("QMMA") and capability < (10, 0) else ("", "")
    got = run(f"{form} R12, R0{layout[0]}, R4{layout[1]}, R8", (a, b, c), capability)
    drop = 13 if f_a is TF32 else 0
    left, right = unpack(a, 16, bits), unpack(b, 8, bits)
    left, right = ({place: code >> drop for place, code in m.items()} for m in (left, right))
    expected = product(f_a, f_b, acc, bits, depth, left, right, unpack_result(c, acc.bits), GENERATIONS[capability])
    assert unpack_result(got, acc.bits) == expected


@pytest.mark.parametrize("capability", GENERATIONS)
def test_half_products_are_numpys_within_the_accumulators_precision(capability):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((16, 16)).astype(np.float16)
    b = rng.standard_normal((16, 8)).astype(np.float16)
    c = rng.standard_normal((16, 8)).astype(np.float32)

    def words(matrix, rows, count):
        whole = np.zeros((count, 32), np.uint32)
        places = unpack([list(range(i * 64, i * 64 + 64, 2)) for i in range(count)], rows, 32)
        assert len(places) == 32 * count
        for lane in range(32):
            for i in range(2 * count):
                row, k = (lane >> 2) + 8 * (i // 2 % 2 if rows == 16 else 0), 2 * (lane & 3) + i % 2
                k += 8 * (i // 4 if rows == 16 else i // 2)
                whole[i // 2, lane] |= np.uint32(matrix[row, k].view(np.uint16)) << np.uint32(16 * (i % 2))
        return whole

    accumulators = np.zeros((4, 32), np.uint32)
    for lane in range(32):
        for i in range(4):
            accumulators[i, lane] = c[result_place(lane, i)].view(np.uint32)
    groups = (words(a, 16, 4), words(np.ascontiguousarray(b.T), 8, 2), accumulators)
    got = unpack_result(run("HMMA.16816.F32 R12, R0, R4, R8", groups, capability), 32)
    values = np.array([[np.uint32(got[i, j]).view(np.float32) for j in range(8)] for i in range(16)])
    np.testing.assert_allclose(values, a.astype(float) @ b.astype(float) + c, atol=2e-6)


INTEGER_FORMS = [
    (shape, rows, depth, bits, a, b)
    for shape, rows, depth, bits in (
        ("8816", 8, 16, 8),
        ("16816", 16, 16, 8),
        ("16832", 16, 32, 8),
        ("8832", 8, 32, 4),
        ("16832", 16, 32, 4),
        ("16864", 16, 64, 4),
    )
    for a in "SU"
    for b in "SU"
]


@pytest.mark.by_day(12)
@pytest.mark.parametrize(("shape", "rows", "depth", "bits", "a_sign", "b_sign"), INTEGER_FORMS)
@given(seed=st.integers(0, 2**32), saturate=st.booleans())
@few
def test_integer_products(shape, rows, depth, bits, a_sign, b_sign, seed, saturate):
    rng = np.random.default_rng(seed)
    steps = depth * bits // 128
    counts = (rows // 8 * steps, steps)
    a, b = (rng.choice([*INTEGER_EDGES, *rng.integers(0, 2**32, 99)], (n, 32)).tolist() for n in counts)
    c = rng.choice([*INTEGER_EDGES, *rng.integers(0, 2**32, 9)], (rows // 4, 32)).tolist()
    option = ".SAT" if saturate else ""
    got = run(f"IMMA.{shape}.{a_sign}{bits}.{b_sign}{bits}{option} R12, R0.ROW, R4.COL, R8", (a, b, c), (9, 0))
    left, right = unpack(a, rows, bits), unpack(b, 8, bits)
    for (row, column), code in unpack_result(c, 32).items():
        total = signed(code)
        for k in range(depth):
            x, y = left[row, k], right[column, k]
            total += (signed(x, bits) if a_sign == "S" else x) * (signed(y, bits) if b_sign == "S" else y)
        if saturate:
            total = max(-(2**31), min(total, 2**31 - 1))
        assert unpack_result(got, 32)[row, column] == total & M32


@pytest.mark.parametrize("operation", ["AND", "XOR"])
@pytest.mark.parametrize(("shape", "rows", "depth"), [("88128", 8, 128), ("168128", 16, 128), ("168256", 16, 256)])
@given(seed=st.integers(0, 2**32))
@few
def test_bit_products(shape, rows, depth, operation, seed):
    rng = np.random.default_rng(seed)
    steps = depth // 128
    counts = (rows // 8 * steps, steps, rows // 4)
    a, b, c = (rng.choice([*INTEGER_EDGES, *rng.integers(0, 2**32, 99)], (n, 32)).tolist() for n in counts)
    got = unpack_result(run(f"BMMA.{shape}.{operation}.POPC R12, R0.ROW, R4.COL, R8", (a, b, c), (8, 0)), 32)
    left, right = unpack(a, rows, 1), unpack(b, 8, 1)
    for (row, column), code in unpack_result(c, 32).items():
        pairs = ((left[row, k], right[column, k]) for k in range(depth))
        count = sum((x & y) if operation == "AND" else (x ^ y) for x, y in pairs)
        assert got[row, column] == (code + count) & M32


@pytest.mark.parametrize(("option", "mode"), [("", "RN"), (".RZ", "RZ"), (".RM", "RM"), (".RP", "RP")])
@pytest.mark.parametrize("form", ["DMMA.884", "DMMA.8x8x4"])
@given(seed=st.integers(0, 2**32), special=st.sampled_from(["no", "edges"]))
@few
def test_double_products(form, option, mode, seed, special):
    rng = np.random.default_rng(seed)

    def pair():
        codes = [int(random_codes(F64, rng, special)) for _ in range(32)]
        return codes, ([v & M32 for v in codes], [v >> 32 for v in codes])

    (a, a_words), (b, b_words), (c, c_words), (d, d_words) = (pair() for _ in range(4))
    got = run(f"{form}{option} R12, R0, R4, R8", (a_words, b_words, (*c_words, *d_words)), (9, 0))
    for lane in range(32):
        for i in range(2):
            row, column = result_place(lane, i)
            total = (c, d)[i][lane]
            for k in range(4):
                total = fused(F64, a[4 * row + k], b[4 * column + k], total, mode)
            code = got[2 * i + 1][lane] << 32 | got[2 * i][lane]
            assert code == total or F64.is_nan(code) and F64.is_nan(total)


def test_a_matrix_is_transposed_within_the_warp():
    words = [(16 * i + 1) << 16 | 16 * i for i in range(32)]
    (got,) = run("MOVM.16.MT88 R12, R0", (([*words],),), (9, 0))
    element = {(lane >> 2, 2 * (lane & 3) + h): words[lane] >> 16 * h & 0xFFFF for lane in range(32) for h in range(2)}
    for lane in range(32):
        for h in range(2):
            assert got[lane] >> 16 * h & 0xFFFF == element[2 * (lane & 3) + h, lane >> 2]


def test_four_bit_elements_are_widened_within_the_row():
    rng = np.random.default_rng(3)
    words = [int(v) for v in rng.integers(0, 2**32, 32)]
    got = run("MOVM.U4TO8.M832 R12, R0", ((words,),), (10, 0))
    for row in range(8):
        nibbles = [words[4 * row + t] >> 4 * i & 15 for t in range(4) for i in range(8)]
        wide = [got[r][4 * row + t] >> 8 * i & 255 for r in range(2) for t in range(4) for i in range(4)]
        assert wide == nibbles


def test_what_no_row_understands_is_refused():
    for text in (
        "HMMA.16816.F32 R12, R0, R4, -R8",
        "HMMA.SP.16832.F32 R12, R0, R4, R8, R3, 0x2",
        "HMMA.16832.F32 R12, R0, R4, R8",
        "HMMA.16816.F16.BF16 R12, R0, R4, R8",
        "DMMA.16x8x8 R12, RZ, R4, R8",
        "IMMA.16832.S8.S4 R12, R0.ROW, R4.COL, R8",
        "IMMA.16832.S8.S8 R12, R0.COL, R4.COL, R8",
        "QMMA.SF.16832.F32.E4M3.E4M3.UE4M3 R12, R0, R4, R8, R20, R21, UR4",
        "LDSM.8.MT1616.4 R4, [R0]",
        "MOVM.16.M832 R4, R0",
    ):
        assert lower(text) is None, text


@pytest.mark.parametrize(
    ("text", "matrix"),
    [
        ("QMMA.16832.F32.E4M3.E5M2 R12, R0, R4, R8", MatrixType.FP8),
        ("QMMA.SF.16832.F32.E4M3.E5M2.E8 R12, R0, R4, R8, R20, R21, UR4", MatrixType.SCALED_FP8),
        ("QMMA.SF.16832.F32.E3M2.E4M3.E8 R12, R0, R4, R8, R20, R21, UR4", MatrixType.FP8),
        ("OMMA.SF.16864.F32.E2M1.E2M1.E8 R12, R0, R4, R8, R20, R21, UR4", MatrixType.FP4),
    ],
)
def test_scales_decide_the_rate_of_small_floats(text, matrix):
    """Of bytes as of their own; with 6 bits in bytes they run as without scales."""
    assert lower(text).extra["matrix"] == (matrix, 16 * 8 * (64 if matrix == MatrixType.FP4 else 32))
