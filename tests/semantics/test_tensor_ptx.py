"""mma, ldmatrix, stmatrix and movmatrix as the PTX assembler compiles them, in every generation.

What one generation does with one tensor-core instruction, NVIDIA's assembler makes of shuffles and FMAs, of wider
elements or of other shapes in another: products of small whole numbers, exact on all of them, must agree.
"""

import numpy as np
import pytest

from gpusim.isa.architectures import ARCHITECTURES

ptx_harness = pytest.importorskip("ptx_harness", reason="needs the CUDA wheels")


#: One of each encoding, and Ada, whose tensor cores have rules of their own.
GENERATIONS = tuple(row.capability for row in ARCHITECTURES if row.generation or row.capability == (8, 9))
LANES = 32
#: The registers of an operand: PTX type and count.
WORD = "b32"


def mma(shape, kinds, d, a, b, c, order="row.col", option=""):
    """(text, results, operands) of one mma; d, a, b, c are (register type, count)."""
    lists = [f"{{{','.join(f'%{name}{i}' for i in range(count))}}}" for name, (_, count) in zip("dabc", (d, a, b, c))]
    text = f"mma.sync.aligned.{shape}.{order}{option}.{kinds} {', '.join(lists)};"
    return text, [("d", *d)], [("a", *a), ("b", *b), ("c", *c)]


F32X4, F16X2 = ("f32", 4), (WORD, 2)
#: operation -> what its operands hold (format of A, of B, of C), and the first capability that has it
OPERATIONS = {
    "half k8 into FP32": (mma("m16n8k8", "f32.f16.f16.f32", F32X4, (WORD, 2), (WORD, 1), F32X4), "hhs", (7, 5)),
    "half k8 into half": (mma("m16n8k8", "f16.f16.f16.f16", F16X2, (WORD, 2), (WORD, 1), F16X2), "hhh", (7, 5)),
    "half k16 into FP32": (mma("m16n8k16", "f32.f16.f16.f32", F32X4, (WORD, 4), (WORD, 2), F32X4), "hhs", (8, 0)),
    "half k16 into half": (mma("m16n8k16", "f16.f16.f16.f16", F16X2, (WORD, 4), (WORD, 2), F16X2), "hhh", (8, 0)),
    "bfloat16 k16": (mma("m16n8k16", "f32.bf16.bf16.f32", F32X4, (WORD, 4), (WORD, 2), F32X4), "bbs", (8, 0)),
    "TF32 k8": (mma("m16n8k8", "f32.tf32.tf32.f32", F32X4, (WORD, 4), (WORD, 2), F32X4), "sss", (8, 0)),
    "FP64 k4": (mma("m8n8k4", "f64.f64.f64.f64", ("f64", 2), ("f64", 1), ("f64", 1), ("f64", 2)), "ddd", (8, 0)),
    "bytes k16": (mma("m8n8k16", "s32.s8.u8.s32", (WORD, 2), (WORD, 1), (WORD, 1), (WORD, 2)), "iii", (7, 5)),
    "bytes k32": (mma("m16n8k32", "s32.u8.s8.s32", (WORD, 4), (WORD, 4), (WORD, 2), (WORD, 4)), "iii", (8, 0)),
    "nibbles k32": (mma("m8n8k32", "s32.s4.u4.s32", (WORD, 2), (WORD, 1), (WORD, 1), (WORD, 2)), "iii", (7, 5)),
    "nibbles k64": (mma("m16n8k64", "s32.s4.s4.s32", (WORD, 4), (WORD, 4), (WORD, 2), (WORD, 4)), "iii", (8, 0)),
    "bits k128": (
        mma("m8n8k128", "s32.b1.b1.s32.xor.popc", (WORD, 2), (WORD, 1), (WORD, 1), (WORD, 2)), "iii", (7, 5),
    ),
    "bits k256": (
        mma("m16n8k256", "s32.b1.b1.s32.and.popc", (WORD, 4), (WORD, 4), (WORD, 2), (WORD, 4)), "iii", (8, 0),
    ),
    "E4M3 x E5M2 k32": (mma("m16n8k32", "f32.e4m3.e5m2.f32", F32X4, (WORD, 4), (WORD, 2), F32X4), "eos", (8, 9)),
    "saturated nibbles": (
        mma("m8n8k32", "s32.s4.s4.s32", (WORD, 2), (WORD, 1), (WORD, 1), (WORD, 2), option=".satfinite"), "iit", (7, 5),
    ),
    **{
        f"quarter {order} into {result}": (
            mma(
                "m8n8k4", f"{result}.f16.f16.{addend}", ("f32", 8) if result == "f32" else (WORD, 4), (WORD, 2),
                (WORD, 2), ("f32", 8) if addend == "f32" else (WORD, 4), order,
            ),
            "hh" + ("s" if addend == "f32" else "h"),
            (7, 5),
        )
        for order in ("row.col", "row.row", "col.col", "col.row")
        for result, addend in (("f32", "f32"), ("f16", "f16"), ("f32", "f16"))
    },
    "movmatrix": (("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", [("d", WORD, 1)], [("a", WORD, 1)]), "i", (7, 5)),
}  # fmt: skip


def patterns(rng, kind: str, count: int) -> np.ndarray:
    """uint64[count, 32] registers: small whole numbers of a format, or any bits."""
    small = rng.integers(-3, 4, (count, 2, LANES))
    if kind == "h":
        halves = small.astype(np.float16).view(np.uint16).astype(np.uint64)
        return halves[:, 0] | halves[:, 1] << np.uint64(16)
    if kind == "b":
        words = (small.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
        return words[:, 0] | words[:, 1] << np.uint64(16)
    if kind == "s":
        return small[:, 0].astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind == "d":
        return small[:, 0].astype(np.float64).view(np.uint64)
    if kind in "eo":
        codes = {"e": [0, 0x38, 0x40, 0x44, 0xB8, 0xC0], "o": [0, 0x3C, 0x40, 0x42, 0xBC, 0xC0]}[kind]
        bytes_ = rng.choice(np.array(codes, np.uint8), (count, LANES, 4))
        return bytes_.view(np.uint32)[..., 0].astype(np.uint64)
    if kind == "t":
        return rng.choice(np.array([0x7FFFFFF0, 0x80000010, 5], np.uint64), (count, LANES))
    return rng.integers(0, 2**32, (count, LANES), dtype=np.uint64)


def run(monkeypatch, names, capability):
    """name -> uint64[registers, 32] of each operation on the same operands, whatever the generation."""
    chosen, values = [], []
    for name in names:
        (text, results, operands), kinds, _ = OPERATIONS[name]
        chosen.append((text, results, operands))
        rng = np.random.default_rng(len(name) * 1000 + sum(map(ord, name)))
        values += [patterns(rng, kind, count) for (_, _, count), kind in zip(operands, kinds, strict=True)]
    counts = [sum(count for _, _, count in results) for _, results, _ in chosen]
    text = ptx_harness.grouped_text(chosen, ptx_harness.architecture_of(capability))
    out = ptx_harness.run_text(monkeypatch, text, sum(counts), np.vstack(values), capability)
    return dict(zip(names, np.split(out, np.cumsum(counts)[:-1]), strict=True))


def test_every_generation_gives_the_same_products(monkeypatch):
    first: dict[str, tuple] = {}
    for capability in GENERATIONS:
        names = [name for name, (_, _, since) in OPERATIONS.items() if since <= capability]
        with monkeypatch.context() as patch:
            results = run(patch, names, capability)
        for name, got in results.items():
            reference, where = first.setdefault(name, (got, capability))
            assert (got == reference).all(), f"sm_{capability} and sm_{where} differ in {name}"
            assert len(np.unique(got)) > 2, name
    assert len(first) == len(OPERATIONS)


MOVES = """
.shared .align 16 .b8 tile[512];
{{ .reg .b32 %row, %d<4>, %e<4>, %f, %g0, %g1;
mov.u32 %row, tile; mad.lo.u32 %row, %thread, 16, %row;
.reg .b32 %v<4>;
{loads}
st.shared.v4.b32 [%row], {{%v0, %v1, %v2, %v3}}; bar.sync 0;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%d0, %d1, %d2, %d3}}, [%row];
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%e0, %e1, %e2, %e3}}, [%row];
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%f}}, [%row];
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{%g0, %g1}}, [%row];
{stores}
{back}
}}
"""
BACK = """bar.sync 0;
stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%row], {%d0, %d1, %d2, %d3}; bar.sync 0;
ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%row];
st.global.b32 [%out+2816], %v0; st.global.b32 [%out+3072], %v1;
st.global.b32 [%out+3328], %v2; st.global.b32 [%out+3584], %v3;
bar.sync 0;
stmatrix.sync.aligned.m8n8.x2.shared.b16 [%row], {%e2, %e3}; bar.sync 0;
ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%row];
st.global.b32 [%out+3840], %v0;
"""


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_matrices_move_between_shared_memory_and_registers(monkeypatch, capability):
    names = ["d0", "d1", "d2", "d3", "e0", "e1", "e2", "e3", "f", "g0", "g1"]
    body = MOVES.format(
        loads=" ".join(f"ld.global.b32 %v{i}, [%in+{256 * i}];" for i in range(4)),
        stores=" ".join(f"st.global.b32 [%out+{256 * i}], %{name};" for i, name in enumerate(names)),
        back=BACK if capability >= (9, 0) else "",
    )
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), body)
    words = np.random.default_rng(5).integers(0, 2**32, (4, LANES), dtype=np.uint64)
    out = ptx_harness.run_text(monkeypatch, text, 16, words, capability).astype(np.uint32)
    # lane 8 i + r wrote row r of matrix i: four words of two halves
    matrices = np.ascontiguousarray(words.T.astype(np.uint32)).view(np.uint16).reshape(4, 8, 8)
    plain = np.ascontiguousarray(matrices).view(np.uint32).reshape(4, LANES)
    turned = np.ascontiguousarray(matrices.transpose(0, 2, 1)).view(np.uint32).reshape(4, LANES)
    assert (out[:4] == plain).all()
    assert (out[4:8] == turned).all()
    assert (out[8] == plain[0]).all()
    assert (out[9:11] == turned[:2]).all()
    if capability >= (9, 0):
        stored = np.ascontiguousarray(out[11:15].T).view(np.uint16).reshape(4, 8, 8)
        assert (stored == matrices.transpose(0, 2, 1)).all()
        first_words = turned[2:4].reshape(2, 8, 4)[:, :, 0].reshape(-1)
        assert (out[15, :16] == first_words).all()
        assert (out[15, 16:] == out[11, 16:]).all()


BYTE_MOVES = """
.shared .align 16 .b8 tile[512];
{ .reg .b32 %row, %d<4>, %e<4>, %f<4>, %g<2>, %h<4>, %v<4>;
mov.u32 %row, tile; mad.lo.u32 %row, %thread, 16, %row;
ld.global.b32 %v0, [%in]; ld.global.b32 %v1, [%in+256]; ld.global.b32 %v2, [%in+512]; ld.global.b32 %v3, [%in+768];
st.shared.v4.b32 [%row], {%v0, %v1, %v2, %v3}; bar.sync 0;
ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%d0, %d1, %d2, %d3}, [%row];
ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32 {%e0, %e1, %e2, %e3}, [%row];
ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%f0, %f1, %f2, %f3}, [%row];
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64 {%g0, %g1}, [%row];
bar.sync 0;
stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%row], {%v0, %v1, %v2, %v3}; bar.sync 0;
ld.shared.v4.b32 {%h0, %h1, %h2, %h3}, [%row];
STORES
}
"""


@pytest.mark.parametrize("capability", [(10, 0), (12, 0)])
def test_matrices_of_bytes_move_as_mma_wants_them(monkeypatch, capability):
    """Fragments of ldmatrix.m16n16 as CUTLASS reads them (copy_sm100.hpp): four rows of one column a register; of
    stmatrix.m16n8, two rows of two."""
    names = [f"{letter}{i}" for letter, count in zip("defgh", (4, 4, 4, 2, 4), strict=True) for i in range(count)]
    stores = " ".join(f"st.global.b32 [%out+{256 * i}], %{name};" for i, name in enumerate(names))
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), BYTE_MOVES.replace("STORES", stores))
    words = np.random.default_rng(6).integers(0, 2**32, (4, LANES), dtype=np.uint64)
    out = ptx_harness.run_text(monkeypatch, text, len(names), words, capability).astype(np.uint32)
    got = np.ascontiguousarray(out).view(np.uint8).reshape(len(names), 8, 4, 4)  # register, g, t, byte
    rows = np.ascontiguousarray(words.T.astype(np.uint32)).view(np.uint8).reshape(32, 16)
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    six = (bits[:, :96].reshape(32, 16, 6) << np.arange(6, dtype=np.uint8)).sum(2)
    four = (bits[:, :64].reshape(32, 16, 4) << np.arange(4, dtype=np.uint8)).sum(2)
    for g in range(8):
        for t in range(4):
            for i in range(4):
                turned = (slice(16 * (i >> 1) + 4 * t, 16 * (i >> 1) + 4 * t + 4), g + 8 * (i & 1))
                assert (got[i, g, t] == rows[turned]).all()
                assert (got[4 + i, g, t] == six[turned]).all()
                assert (got[8 + i, g, t] == four[8 * i + g, 4 * t : 4 * t + 4]).all()
                if i < 2:
                    assert (got[12 + i, g, t] == four[turned]).all()
    # Lane 8 i + r gave the address of row r of matrix i, whose registers are the words of lane 4 g + t.
    held = np.ascontiguousarray(words.astype(np.uint32)).view(np.uint8).reshape(4, 8, 4, 2, 2)  # i, g, t, column, row
    stored = held.transpose(0, 2, 4, 3, 1).reshape(32, 16)
    assert (np.ascontiguousarray(out[14:18].T).view(np.uint8) == stored).all()


WMMA = """
{{ .reg .b64 %first, %last; .reg .b32 %a<8>, %b<8>, %stride; .reg .f32 %c<8>;
mul.wide.u32 %step, %thread, 8; sub.u64 %first, %in, %step; sub.u64 %last, %out, %step; mov.u32 %stride, 16;
wmma.load.a.sync.aligned.{a}.m16n16k16.global.f16 {{{eight_a}}}, [%first], %stride;
wmma.load.b.sync.aligned.{b}.m16n16k16.global.f16 {{{eight_b}}}, [%first+512], %stride;
wmma.load.c.sync.aligned.col.m16n16k16.global.f32 {{{eight_c}}}, [%first+1024], %stride;
wmma.mma.sync.aligned.{a}.{b}.m16n16k16.f32.f32 {{{eight_c}}}, {{{eight_a}}}, {{{eight_b}}}, {{{eight_c}}};
wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%last+{at}], {{{eight_c}}}, %stride;
}}
"""


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_whole_warp_matrices_of_every_layout(monkeypatch, capability):
    lists = {f"eight_{n}": ", ".join(f"%{n}{i}" for i in range(8)) for n in "abc"}
    layouts = [(a, b) for a in ("row", "col") for b in ("row", "col")]
    body = "".join(WMMA.format(a=a, b=b, at=1024 * i, **lists) for i, (a, b) in enumerate(layouts))
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), body)
    rng = np.random.default_rng(9)
    a, b = rng.integers(-4, 5, (2, 16, 16)).astype(np.float16)
    c = rng.integers(-99, 99, (16, 16)).astype(np.float32)
    memory = np.frombuffer(a.tobytes() + b.tobytes() + c.tobytes(), np.uint64).reshape(8, LANES)
    out = ptx_harness.run_text(monkeypatch, text, 16, memory, capability)
    got = out.reshape(-1).view(np.float32).reshape(4, 16, 16)
    for result, (a_layout, b_layout) in zip(got, layouts, strict=True):
        left, right = (m if way == "row" else m.T for m, way in ((a, a_layout), (b, b_layout)))
        assert (result == left.astype(float) @ right.astype(float) + c.T).all(), (a_layout, b_layout)
