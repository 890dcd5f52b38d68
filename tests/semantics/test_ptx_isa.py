"""The PTX ISA statement by statement: the same bits on every architecture that has a statement, and matrices as NumPy
has them.

What one architecture does with one instruction another does with five, so agreement is an oracle for both. Products of
matrices are checked with whole numbers, exact whatever a generation cuts.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="needs the CUDA wheels")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import ptx_forms
import ptx_isa

import gpusim
from gpusim.errors import UnsupportedOpcodeError
from gpusim.isa.architectures import GENERATIONS, architecture

LANES, WORDS = 32, ptx_isa.STATEMENT_BYTES // 4
#: Statements of a kernel.
GROUP = 24
#: What is different by design: clocks, places, numbers that only the machine knows, states that are opaque.
OPAQUE = (
    "%clock", "globaltimer", "%smid", "%nsmid", "%gridid", "%envreg", "smem_size", "smem_offset", "%total", "%aggr", "%warpid",
    "%nwarpid", "%pm", "%current", "pending_count", "test_wait.parity.shared.b64 %done, [M], 1", "setmaxnreg", "cluster",
    "alloca",  # memory below a thread's frame, which the emulator does not give it
    ".rs.",  # the layout of the random bits is not public: refused
    ".oob",  # as little is which of the not-a-numbers stands for an element out of bounds: refused
    "barrier.cta.arrive",  # of a warp that is already there: what it counts for is not public
)  # fmt: skip
#: Statements that the day's run takes; the night takes all of these sections.
DAILY = (
    "f32x2", ".global.v4", ".global.v2", ".v8", "v4.b64", "cp.async", "mbarrier", "createpolicy", "pack.sat",
    ".satfinite.e2m1", ".bf16x2.e", "tf32.f32", "match", "redux", "brx", "call",
)  # fmt: skip
SECTIONS = (
    "integer",
    "float",
    "half",
    "convert",
    "logic",
    "video",
    "warp",
    "memory",
    "atomic",
    "async",
    "mbarrier",
    "control",
)
#: Differs by generation for a reason that is not the form's: -> why.
DIFFERS = {
    "fns.b32": "PTX leaves a base beyond the word open",
}
#: Where the assembler makes of a statement what its own disassembler has no name for: refused.
NAMELESS = {(7, 5): ("cvt.rn.satfinite.f16.f32", "cvt.rz.satfinite.f16.f32")}


def run_groups(groups, capability, values, memory):
    """Statement -> uint32[WORDS] that it leaves (results, then a thread's memory), for what the assembler takes."""
    cubin, groups, _ = ptx_forms.assemble(groups, architecture(capability).target)
    found = {}
    for i, group in enumerate(groups):
        if group:
            left = run_kernel(cubin, i, len(group), capability, values, memory)
            found |= dict(zip(group, left, strict=True))
    return found


def run_kernel(cubin, number, statements, capability, values, memory):
    """uint32[statements, WORDS] that kernel ``number`` of a cubin leaves."""
    out = np.tile(memory, statements)
    arguments = [0] * 14
    arguments[4], arguments[11] = out, values
    gpusim.capture(gpusim.cubin(cubin, f"form_{number}"), 1, LANES, tuple(arguments), gpu=capability)
    return out.reshape(statements, WORDS)


@cache
def operands():
    """uint64[40, 32]: any bits, small numbers of FP32, and edges."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, (40, LANES), dtype=np.uint64)
    small = rng.integers(-3, 4, (40, LANES)).astype(np.float32).view(np.uint32)
    edges = np.array(
        [0, 1, 0x80000000, 0x7F800000, 0x7FC00000, 0xFFFFFFFF, 0x7FFFFFFF, 0x3F800000, 2**63, 2**64 - 1], np.uint64
    )
    kind = rng.integers(0, 3, (40, LANES))
    return np.where(kind == 0, values, np.where(kind == 1, small, rng.choice(edges, (40, LANES))))


def test_what_the_disassembler_has_no_name_for_is_refused_by_its_word():
    with pytest.raises(
        UnsupportedOpcodeError, match="address 0x[0-9a-f]+: 0x[0-9a-f]{20,}: nvdisasm has no name for it"
    ):
        run_groups([[f"{NAMELESS[7, 5][0]} <b16 d>, <f32 a>;"]], (7, 5), operands(), np.zeros(WORDS, np.uint32))


def agree(lines, capabilities):
    """Assert that all capabilities that have a statement leave the same; how many statements two or more have."""
    memory = np.random.default_rng(2).integers(0, 2**32, WORDS, dtype=np.uint64).astype(np.uint32)
    groups = [lines[i : i + GROUP] for i in range(0, len(lines), GROUP)]
    first, compared = {}, 0
    for capability in capabilities:
        named = [[line for line in group if not line.startswith(NAMELESS.get(capability, ()))] for group in groups]
        for line, left in run_groups(named, capability, operands(), memory).items():
            if line not in first:
                first[line] = left, capability
            elif not any(line.startswith(start) for start in DIFFERS):
                compared += 1
                assert (left == first[line][0]).all(), f"sm_{capability} and sm_{first[line][1]} differ in {line}"
    return compared


def lines_of(*sections):
    every = [line for section in sections for line in ptx_isa.lines(section)]
    return [line for line in every if not any(name in line for name in OPAQUE)]


def test_the_newer_statements_give_the_same_bits_on_every_generation_that_has_them():
    lines = [line for line in lines_of(*SECTIONS) if any(name in line for name in DAILY)]
    assert agree(lines, [(8, 0), (9, 0), (10, 0), (12, 0)]) > 300


@pytest.mark.nightly
@pytest.mark.parametrize("section", SECTIONS)
def test_every_statement_gives_the_same_bits_on_every_generation_that_has_it(section):
    assert agree(lines_of(section), [row.capability for row in GENERATIONS]) > 20


# ---- matrices
# -----------------------------------------------------------------------------------------------------------

FORMATS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn, "tf32": np.float32,
    "s8": np.int8, "u8": np.uint8, "s4": np.int8, "u4": np.uint8, "f64": np.float64,
}  # fmt: skip


def draw(rng, style, shape):
    """Small whole numbers that ``style`` has, and their codes (uint64)."""
    low = 0 if style[0] == "u" else -3
    numbers = rng.integers(low, 4, shape).astype(np.float64)
    coded = numbers.astype(FORMATS[style])
    codes = coded.view({8: np.uint64, 4: np.uint32, 2: np.uint16, 1: np.uint8}[coded.dtype.itemsize]).astype(np.uint64)
    return numbers, codes & np.uint64(0xF) if style in ("s4", "u4") else codes


def fragments(codes, bits, rows=8):
    """uint64[registers, 32] of codes [rows x n, depth]: of PTX's row-major A, or of B by columns; ``bits`` an
    element."""
    each = 32 // bits
    count, depth = codes.shape
    words = (codes.reshape(count, depth // each, each) << np.arange(each, dtype=np.uint64) * np.uint64(bits)).sum(
        2, dtype=np.uint64
    )
    steps = words.shape[1] // 4  # lane 4 g + t holds word 4 step + t of row g
    return words.reshape(count // rows, rows, steps, 4).transpose(2, 0, 1, 3).reshape(-1, LANES)


def accumulator(matrix):
    """[4, 32] of a 16 x 8 matrix: rows g and g + 8, columns 2 t and 2 t + 1."""
    return matrix.reshape(2, 8, 4, 2).transpose(0, 3, 1, 2).reshape(4, LANES)


@cache
def assembled(capability):
    """(the cubin of all products that are checked on an architecture, statement -> its kernel's number)."""
    lines = PRODUCTS[capability]()
    cubin, groups, refused = ptx_forms.assemble([[line] for line in lines], architecture(capability).target)
    assert not refused
    return cubin, {line: number for number, (line,) in enumerate(groups)}


def matrix_results(line, values, capability, kind=np.float32):
    """The 16 x 8 result of one statement given its operands' registers."""
    padded = np.zeros((40, LANES), np.uint64)
    padded[: len(values)] = values
    cubin, numbers = assembled(capability)
    (out,) = run_kernel(cubin, numbers[line], 1, capability, padded, np.zeros(WORDS, np.uint32))
    registers = out[: 4 * 2 * LANES].view(np.uint64).reshape(4, LANES)
    registers = registers.view(kind) if kind is np.float64 else registers.astype(np.uint32).view(kind)
    return registers.reshape(2, 2, 8, 4).transpose(0, 2, 3, 1).reshape(16, 8)


def metadata(chosen, bits):
    """uint64[lanes of a quad, 8] from [16, compressed depth] of two-bit indices in groups of four."""
    count = chosen.shape[1]
    if bits == 16:  # 16 bits for a row and 16 columns: rows g and g + 8 in one word
        packed = (chosen.reshape(16, count // 8, 8) << 2 * np.arange(8)).sum(2)
        return np.stack([packed[:8, c] | packed[8:, c] << 16 for c in range(count // 8)])
    packed = (chosen.reshape(16, count // 16, 16) << 2 * np.arange(16)).sum(2)
    return np.stack([packed[8 * half : 8 * half + 8, c] for c in range(count // 16) for half in range(2)])


SPARSE = [
    ("m16n8k16", "f16", 16, 16, 4), ("m16n8k32", "bf16", 32, 16, 2), ("m16n8k32", "s8", 32, 8, 2), ("m16n8k64", "u8", 64, 8, 1),
    ("m16n8k64", "e4m3", 64, 8, 1), ("m16n8k8", "tf32", 8, 32, 4), ("m16n8k16", "tf32", 16, 32, 2), ("m16n8k64", "s4", 64, 4, 2),
]  # fmt: skip


def sparse(shape, style, depth, bits, selector):
    """The statement of a sparse product."""
    ordered = "" if style in ("s4", "u4") else "::ordered_metadata"
    result, register = ("s32", "b32") if style[0] in "su" else ("f32", "f32")
    return (
        f"mma.sp{ordered}.sync.aligned.{shape}.row.col.{result}.{style}.{style}.{result}"
        f" <4{register} d>, <{depth // 2 * bits // 64}b32 a>, <{depth // 2 * bits // 64}b32 b>,"
        f" <4{register} c>, <b32 c9>, {selector};"
    )


@pytest.mark.parametrize(("shape", "style", "depth", "bits", "selectors"), SPARSE)
def test_a_sparse_product_is_that_of_the_whole_matrix(shape, style, depth, bits, selectors):
    rng = np.random.default_rng(depth + bits)
    integers = style[0] in "su"
    width = {4: 8, 32: 32}.get(bits, bits)  # pairs of nibbles, and TF32, are chosen as one
    groups = depth * bits // width // (4 if bits < 32 else 2)
    if bits == 32:
        pick = rng.integers(0, 2, (16, groups, 1))
        indices = np.concatenate([2 * pick, 2 * pick + 1], 2).reshape(16, -1)
    else:
        pick = np.sort(np.argsort(rng.random((16, groups, 4)), 2)[:, :, :2], 2)
        indices = pick.reshape(16, -1)
    numbers, codes = draw(rng, style, (16, depth // 2))
    b, b_codes = draw(rng, style, (8, depth))
    c = rng.integers(-9, 9, (16, 8))
    per = depth // 2 // groups // (1 if bits == 32 else 2)  # elements that one index chooses
    columns = (np.arange(groups)[:, None] * (2 if bits == 32 else 4) + pick).reshape(16, -1)
    columns = (columns[:, :, None] * per + np.arange(per)).reshape(16, -1)
    whole = np.zeros((16, depth))
    np.put_along_axis(whole, columns, numbers, 1)
    for selector in range(selectors):
        lanes = np.zeros((8, 4), np.uint64)
        meta = metadata(indices, 16 if bits >= 16 else 8)
        first = selector * (1 if len(meta) == 1 else 2)
        lanes[:, first : first + len(meta)] = meta.T
        line = sparse(shape, style, depth, bits, selector)
        c_words = accumulator(c.astype(np.int32 if integers else np.float32)).view(np.uint32)
        values = np.vstack([fragments(codes, bits), fragments(b_codes, bits), c_words, lanes.reshape(1, LANES)])
        got = matrix_results(line, values, (8, 9), np.int32 if integers else np.float32)
        assert (got == whole @ b.T + c).all(), (shape, style, selector)


NARROW = [("e3m2", "e2m1"), ("e2m1", "e2m3"), ("e4m3", "e2m1"), ("e2m3", "e5m2")]


def narrow(a_style, b_style, scaled):
    """The statement of a product of floats of fewer bits."""
    if scaled:
        return (
            f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{a_style}.{b_style}.f32.ue8m0"
            " <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>, <b32 c8>, {1, 1}, <b32 c9>, {3, 2};"
        )
    return f"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.{a_style}.{b_style}.f32 <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>;"


@pytest.mark.parametrize(("a_style", "b_style"), NARROW)
@pytest.mark.parametrize("scaled", [False, True])
def test_floats_of_fewer_bits_multiply_exactly(a_style, b_style, scaled):
    rng = np.random.default_rng(len(a_style + b_style) + scaled)
    (a, a_codes), (b, b_codes) = draw(rng, a_style, (16, 32)), draw(rng, b_style, (8, 32))
    c = rng.integers(-9, 9, (16, 8))
    shifts = {"e2m1": 2}
    values = [
        fragments(a_codes << np.uint64(shifts.get(a_style, 0)), 8), fragments(b_codes << np.uint64(shifts.get(b_style, 0)), 8),
        accumulator(c.astype(np.float32)).view(np.uint32),
    ]  # fmt: skip
    expected = a @ b.T
    if scaled:
        # byte 1 of lanes 2 and 3 of a quad holds the scales of rows g and g + 8; byte 3 of lane 2 those of columns
        rows, columns = rng.integers(120, 135, 16), rng.integers(120, 135, 8)
        words = np.zeros((2, 8, 4), np.uint64)
        words[0, :, 2], words[0, :, 3], words[1, :, 2] = rows[:8] << 8, rows[8:] << 8, columns << 24
        values.append(words.reshape(2, LANES))
        expected = expected * 2.0 ** (rows[:, None] - 127) * 2.0 ** (columns - 127)
    got = matrix_results(narrow(a_style, b_style, scaled), np.vstack(values), (12, 0))
    assert (got == expected + c).all()


FOUR_BITS = [("mxf4", 2, "ue8m0"), ("mxf4nvf4", 4, "ue4m3"), ("mxf4nvf4", 4, "ue8m0")]


def four_bits(kind, along, scale):
    """The statement of a product of four-bit floats with scales."""
    return (
        f"mma.sync.aligned.m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{along}X.f32.e2m1.e2m1.f32.{scale}"
        " <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>, <b32 c8>, {0, 1}, <b32 c9>, {0, 3};"
    )


@pytest.mark.parametrize(("kind", "along", "scale"), FOUR_BITS)
def test_four_bit_floats_multiply_with_a_scale_for_each_block(kind, along, scale):
    rng = np.random.default_rng(along)
    (a, a_codes), (b, b_codes) = draw(rng, "e2m1", (16, 64)), draw(rng, "e2m1", (8, 64))
    c = rng.integers(-9, 9, (16, 8))
    if scale == "ue8m0":
        codes = rng.integers(124, 131, (24, along)).astype(np.uint64)
        factors = 2.0 ** (codes.astype(float) - 127)
    else:
        factors = rng.integers(1, 8, (24, along)) / 2.0
        codes = factors.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint64)
    words = (codes << 8 * np.arange(along, dtype=np.uint64)).sum(1, dtype=np.uint64)
    lanes = np.zeros((2, 8, 4), np.uint64)
    lanes[0, :, 2], lanes[0, :, 3], lanes[1, :, 3] = words[:8], words[8:16], words[16:]
    values = [
        fragments(a_codes, 4),
        fragments(b_codes, 4),
        accumulator(c.astype(np.float32)).view(np.uint32),
        lanes.reshape(2, LANES),
    ]
    each = np.repeat(factors, 64 // along, 1)
    expected = (a * each[:16]) @ (b * each[16:]).T + c
    assert (matrix_results(four_bits(kind, along, scale), np.vstack(values), (12, 0)) == expected).all()


SPARSE_AND_SCALED = [
    ("mxf8f6f4", "e4m3", 64, 1, "ue8m0"),
    ("mxf4", "e2m1", 128, 2, "ue8m0"),
    ("mxf4nvf4", "e2m1", 128, 4, "ue4m3"),
]


def sparse_and_scaled(kind, style, depth, along, scale):
    """The statement of a sparse product with scales."""
    return (
        f"mma.sp::ordered_metadata.sync.aligned.m16n8k{depth}.row.col.kind::{kind}.block_scale.scale_vec::{along}X"
        f".f32.{style}.{style}.f32.{scale} <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c7>, 0x0, <b32 c8>, {{0, 0}}, <b32 c9>, {{0, 0}};"
    )


@pytest.mark.parametrize(("kind", "style", "depth", "along", "scale"), SPARSE_AND_SCALED)
def test_a_sparse_product_with_scales_is_that_of_the_whole_scaled_matrix(kind, style, depth, along, scale):
    rng = np.random.default_rng(depth + along)
    bits = 4 if style == "e2m1" else 8
    each = 8 // bits  # elements that one index chooses
    groups = depth // each // 4
    pick = np.sort(np.argsort(rng.random((16, groups, 4)), 2)[:, :, :2], 2)
    columns = (4 * np.arange(groups)[:, None] + pick).reshape(16, -1)
    columns = (columns[:, :, None] * each + np.arange(each)).reshape(16, -1)
    (numbers, codes), (b, b_codes) = draw(rng, style, (16, depth // 2)), draw(rng, style, (8, depth))
    whole = np.zeros((16, depth))
    np.put_along_axis(whole, columns, numbers, 1)
    c = rng.integers(-9, 9, (16, 8))
    if scale == "ue8m0":
        patterns = rng.integers(124, 131, (24, along)).astype(np.uint64)
        factors = 2.0 ** (patterns.astype(float) - 127)
    else:
        factors = rng.integers(1, 8, (24, along)) / 2.0
        patterns = factors.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint64)
    words = (patterns << 8 * np.arange(along, dtype=np.uint64)).sum(1, dtype=np.uint64)
    lanes = np.zeros((3, 8, 4), np.uint64)
    lanes[0] = metadata(pick.reshape(16, -1), 8).T
    lanes[1, :, 0], lanes[1, :, 1], lanes[2, :, 0] = words[:8], words[8:16], words[16:]
    values = [
        fragments(codes, bits), fragments(b_codes, bits), accumulator(c.astype(np.float32)).view(np.uint32),
        lanes.reshape(3, LANES),
    ]  # fmt: skip
    line = sparse_and_scaled(kind, style, depth, along, scale)
    long = np.repeat(factors, depth // along, 1)
    expected = (whole * long[:16]) @ (b * long[16:]).T + c
    assert (matrix_results(line, np.vstack(values), (12, 0)) == expected).all()


DEPTHS = [4, 8, 16]


def of_doubles(depth):
    """The statement of a product of doubles."""
    return f"mma.sync.aligned.m16n8k{depth}.row.col.f64.f64.f64.f64 <4f64 d>, <{depth // 2}f64 a>, <{depth // 4}f64 b>, <4f64 c>;"


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_larger_products_of_doubles(depth):
    rng = np.random.default_rng(depth)
    a, b, c = rng.integers(-9, 9, (16, depth)), rng.integers(-9, 9, (8, depth)), rng.integers(-9, 9, (16, 8))
    # element i of A: row g + 8 (i mod 2), column t + 4 (i / 2)
    a_words = a.reshape(2, 8, depth // 4, 4).transpose(2, 0, 1, 3).reshape(-1, LANES).astype(np.float64).view(np.uint64)
    b_words = b.reshape(8, depth // 4, 4).transpose(1, 0, 2).reshape(-1, LANES).astype(np.float64).view(np.uint64)
    values = np.vstack([a_words, b_words, accumulator(c.astype(np.float64)).view(np.uint64)])
    assert (matrix_results(of_doubles(depth), values, (9, 0), np.float64) == a @ b.T + c).all()


#: Capability -> the statements that are checked there.
PRODUCTS = {
    (8, 9): lambda: [sparse(*row[:4], selector) for row in SPARSE for selector in range(row[4])],
    (9, 0): lambda: [of_doubles(depth) for depth in DEPTHS],
    (12, 0): lambda: [
        *(narrow(*row, scaled) for row in NARROW for scaled in (False, True)),
        *(four_bits(*row) for row in FOUR_BITS),
        *(sparse_and_scaled(*row) for row in SPARSE_AND_SCALED),
    ],
}


# ---- asynchronous units
# -------------------------------------------------------------------------------------------------


_UNITS = [(name, section) for name in ("sm_90", "sm_100", "sm_103", "sm_120") for section in ("bulk", "cluster")]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "section"), [*_UNITS, ("sm_90", "wgmma"), ("sm_100", "tensor_memory"), ("sm_103", "tensor_memory")]
)
def test_every_form_of_the_asynchronous_units_is_emulated(name, section):
    found = ptx_forms.survey(name, [section])
    assert found.statements > 50 and not found.examples


def test_a_function_that_is_called_by_any_name_is_no_form_of_its_own() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 out) _Z7squaredf(.param .b32 in) {
  .reg .f32 %f<2>; ld.param.f32 %f0, [in]; mul.f32 %f1, %f0, %f0; st.param.f32 [out], %f1; ret;
}
.visible .entry k(.param .u64 x) {
  .reg .u64 %p; .reg .f32 %f<2>; ld.param.u64 %p, [x]; ld.f32 %f0, [%p];
  { .param .b32 a; .param .b32 b; st.param.f32 [a], %f0; call (b), _Z7squaredf, (a); ld.param.f32 %f1, [b]; }
  st.f32 [%p], %f1; ret;
}
"""
    cubin, said = ptx_forms.link(text, "sm_90")
    assert cubin, said
    found = ptx_forms.Found()
    for function, instruction in ptx_forms.instructions(cubin):
        found.take(instruction, function)
    assert any(form.startswith("CALL") for form in found.forms) and not found.examples
