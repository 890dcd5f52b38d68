"""Tensor memory: loads, stores, copies, the shift, allocation, and what an instruction may not ask for."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from oracles_tcgen05 import Image, k_major, packed_rows
from tcgen05_programs import descriptor, mma, run

import gpusim
from gpusim.errors import AddressError, ExecutionError

THREAD = np.arange(32)


def cell(shape, register, split=0):
    """(lane, column) of each thread's register (CUTLASS, cute/atom/copy_traits_sm100.hpp)."""
    t, r = THREAD, register
    if shape == "32x32b":
        return t, np.full(32, r)
    if shape == "16x64b":
        return t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2
    if shape == "16x128b":
        return t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4
    if shape == "16x256b":
        return t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2
    return t % 16, r + np.where(t < 16, 0, split)


SHAPES = [
    ("32x32b", 1, 1, 0), ("32x32b", 4, 4, 0), ("16x64b", 1, 1, 16), ("16x64b", 4, 4, 0), ("16x128b", 2, 4, 16),
    ("16x256b", 1, 4, 0), ("16x256b", 4, 16, 16), ("16x32bx2", 2, 2, 0),
]  # fmt: skip
SPLIT = 9


def moves(packed):
    """(PTX, what it must leave) of loads from columns 0 to 63 to columns 128 and on, a register a column, and of stores
    from columns 64 to 127 to columns 256 and on."""
    rng = np.random.default_rng(11)
    memory = rng.integers(-(2**31), 2**31, (128, 512), dtype=np.int64).astype(np.int32)
    want, text, place, to = memory.copy(), [], 128, 256
    pack, unpack = (".pack::16b", ".unpack::16b") if packed else ("", "")
    for shape, repeats, registers, lane in SHAPES:
        names = "{" + ", ".join(f"r{i}" for i in range(registers)) + "}"
        split = f", {SPLIT}" if shape == "16x32bx2" else ""
        plain = f"tcgen05.st.sync.aligned.32x32b.x{registers}.b32 [x], {names};"
        text.append(
            f"add.u32 x, ta, {lane << 16}; tcgen05.ld.sync.aligned.{shape}.x{repeats}{pack}.b32 {names}, [x]{split};"
        )
        text.append(f"tcgen05.wait::ld.sync.aligned; add.u32 x, ta, {place}; {plain}")
        text.append(f"add.u32 x, ta, 64; {plain.replace('.st.', '.ld.').replace(f'[x], {names}', f'{names}, [x]')}")
        text.append(f"tcgen05.wait::ld.sync.aligned; add.u32 x, ta, {(lane << 16) + to};")
        text.append(f"tcgen05.st.sync.aligned.{shape}.x{repeats}{unpack}.b32 [x]{split}, {names};")
        for warp in range(4):
            for r in range(registers):
                lanes, columns = cell(shape, r, SPLIT)
                lanes = lanes + 32 * warp + lane
                own = 32 * warp + THREAD
                if packed:
                    first = 2 * columns if shape != "16x32bx2" else 2 * r + np.where(THREAD < 16, 0, SPLIT)
                    want[own, place + r] = memory[lanes, first] & 0xFFFF | memory[lanes, first + 1] << 16
                    want[lanes, to + first] = memory[own, 64 + r] & 0xFFFF
                    want[lanes, to + first + 1] = memory[own, 64 + r] >> 16 & 0xFFFF
                else:
                    want[own, place + r] = memory[lanes, columns]
                    want[lanes, to + columns] = memory[own, 64 + r]
        place += registers
        to += 64 if registers > 4 else 16
    return "\n".join(text) + "\ntcgen05.wait::st.sync.aligned;", memory, want


@pytest.mark.parametrize("packed", [False, True])
def test_threads_load_and_store_in_every_shape(packed):
    text, memory, want = moves(packed)
    out = run("", memory=memory, columns=512, all_threads=text)
    np.testing.assert_array_equal(out, want)


def test_loads_find_the_smallest_or_largest_of_what_they_load():
    rng = np.random.default_rng(14)
    memory = rng.integers(-(2**31), 2**31, (128, 64), dtype=np.int64).astype(np.int32)
    floats = memory.view(np.float32)
    floats[:, 8:16] = rng.normal(size=(128, 8))
    floats[3, 9] = floats[4, 8:12] = np.nan
    cases = [(8, "min.f32"), (8, "max.f32"), (8, "max.abs.f32"), (8, "max.NaN.f32"), (0, "min.s32"), (0, "max.u32")]
    text = []
    for i, (column, operation) in enumerate(cases):
        text.append(
            f"add.u32 x, ta, {column}; tcgen05.ld.red.sync.aligned.32x32b.x4.{operation} {{r0, r1, r2, r3}}, r4, [x];"
        )
        text.append(
            f"tcgen05.wait::ld.sync.aligned; add.u32 x, ta, {32 + i}; tcgen05.st.sync.aligned.32x32b.x1.b32 [x], {{r4}};"
        )
    unused = "add.u32 x, ta, 8; tcgen05.ld.red.sync.aligned.32x32b.x4.max.f32 {r0, r1, r2, r3}, r4, [x];"  # what is found goes to RZ
    unused += (
        "tcgen05.wait::ld.sync.aligned; add.u32 x, ta, 40; tcgen05.st.sync.aligned.32x32b.x4.b32 [x], {r0, r1, r2, r3};"
    )
    text = "\n".join([unused, *text])
    left = run("", memory=memory, gpu="b300", all_threads=text + "\ntcgen05.wait::st.sync.aligned;")
    np.testing.assert_array_equal(left[:, 40:44], memory[:, 8:12])
    out = left[:, 32:38]
    some, words = floats[:, 8:12], memory[:, :4]
    with np.errstate(all="ignore"):
        wanted = [
            np.fmin.reduce(some, 1),
            np.fmax.reduce(some, 1),
            np.fmax.reduce(np.abs(some), 1),
            np.maximum.reduce(some, 1),
        ]
    for i, want in enumerate(wanted):
        np.testing.assert_array_equal(out[:, i], np.where(np.isnan(want), 0x7FFFFFFF, want.view(np.int32)))
    np.testing.assert_array_equal(out[:, 4], words.min(1))
    np.testing.assert_array_equal(out[:, 5].view(np.uint32), words.view(np.uint32).max(1))


def test_copies_from_shared_memory():
    rng, image, body = np.random.default_rng(12), Image(), []
    want = np.zeros((128, 64), np.int32)
    shapes = [
        ("128x256b", 128, 32), ("128x128b", 128, 16), ("4x256b", 4, 32), ("64x128b.warpx2::02_13", 64, 16),
        ("64x128b.warpx2::01_23", 64, 16), ("32x128b.warpx4", 32, 16),
    ]  # fmt: skip
    for i, (shape, rows, width) in enumerate(shapes):
        bytes_ = rng.integers(0, 256, (rows, width)).astype(np.uint8)
        part, leading, stride = k_major(np.concatenate([bytes_, np.zeros((-rows % 8, width), np.uint8)]), 0)
        lane = 31 if rows == 4 else 0
        text = f"add.u64 da, sd, {descriptor(image.add(part), leading, stride)}; add.u32 x, t, {(lane << 16) + 8 * i};"
        body.append(f"{text} tcgen05.cp.cta_group::1.{shape} [x], da;")
        words = bytes_.view(np.int32)
        where = slice(8 * i, 8 * i + width // 4)
        if rows == 4:
            want[31::32, where] = words
        elif "01_23" in shape:
            want[:, where] = words.reshape(2, 1, 32, -1).repeat(2, 1).reshape(128, -1)
        else:
            want[:, where] = np.tile(words, (128 // rows, 1))
    codes4, codes6 = rng.integers(0, 16, (128, 16)).astype(np.uint8), rng.integers(0, 64, (32, 16)).astype(np.uint8)
    for column, shape, codes, name, form in (
        (48, "128x128b", codes4, "e2m1", "b4x16_p64"), (52, "32x128b.warpx4", codes6, "e3m2", "b6x16_p32"),
    ):  # fmt: skip
        part, leading, stride = k_major(packed_rows(codes, name), 0)
        text = f"add.u64 da, sd, {descriptor(image.add(part), leading, stride)}; add.u32 x, t, {column};"
        body.append(f"{text} tcgen05.cp.cta_group::1.{shape}.b8x16.{form} [x], da;")
        values = codes << 2 if name == "e2m1" else codes
        want[:, column : column + 4] = np.tile(values.view(np.int32), (128 // len(codes), 1))
    np.testing.assert_array_equal(run("\n".join(body), image.bytes), want)


def test_the_shift_moves_32_bytes_of_31_lanes():
    memory = np.random.default_rng(13).integers(-99, 99, (128, 32)).astype(np.int32)
    out = run(f"add.u32 x, t, {(32 << 16) + 8}; tcgen05.shift.cta_group::1.down [x];", memory=memory, columns=32)
    want = memory.copy()
    want[32:63, 8:16] = memory[33:64, 8:16]
    np.testing.assert_array_equal(out, want)


A_GOOD = descriptor(0, 128, 256)
IDESC = 1 << 4 | 2 << 17 | 8 << 24  # 128 x 16, FP32


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (mma("f16", IDESC, A_GOOD, A_GOOD, d=56), "lane 0, column 56 (0x00000038): the instruction reaches columns"),
        (mma("f16", IDESC, A_GOOD, A_GOOD, d=16 << 16), "lane 16, column 0 (0x00100000): not a lane"),
        (mma("f16", 1 << 4 | 2 << 17 | 6 << 24, A_GOOD, A_GOOD), "no shape of 96 rows and 16 columns"),
        (mma("f16", IDESC | 5 << 7, A_GOOD, A_GOOD), "(A is format 5, B 0, D 1)"),
        (mma("f16", IDESC, A_GOOD | 3 << 61, A_GOOD), "its layout (bits 61 to 63)"),
        (
            "add.u32 x, t, 60; add.u64 da, sd, 1; tcgen05.cp.cta_group::1.128x256b [x], da;",
            "the instruction reaches columns",
        ),
    ],
)
def test_what_a_product_or_copy_may_not_ask_for_is_said(body, said):
    with pytest.raises(ExecutionError) as error:
        run(body, np.zeros(16384, np.uint8))
    assert said in str(error.value) and "UTC" in str(error.value)


def test_an_operand_outside_shared_memory_is_said():
    with pytest.raises(AddressError, match="shared address .* is out of bounds"):
        run(mma("f16", IDESC, descriptor(100000, 128, 256), A_GOOD), np.zeros(16384, np.uint8))


def test_a_warp_may_not_load_the_lanes_of_another():
    with pytest.raises(ExecutionError, match="lane 0, column 0 .*: not a lane"):
        run("", all_threads="tcgen05.st.sync.aligned.32x32b.x1.b32 [t], {tid};")


def test_more_than_there_is_cannot_be_allocated():
    again = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 512;"
    with pytest.raises(ExecutionError, match="tensor memory exhausted: 512 columns are asked for"):
        run("", all_threads=f"setp.ne.u32 p, warp, 0; @p bra ON; {again} ON:")


def test_what_is_not_given_back_is_a_finding():
    (finding,) = run("", release=False, check=("leak",))
    assert finding.what == "Leaked 64 columns of tensor memory" and "UTCATOMSWS" in finding.where
    assert run("", check=("leak",)) == ()


PAIR = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry pair(.param .u64 out)
.explicitcluster
.reqnctapercluster 2, 1, 1
{
    .shared .align 16 .b8 kept[16];
    .reg .b32 at, first, rank;
    .reg .b64 place, offset;
    mov.u32 at, kept;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [at], 64;
    bar.sync 0;
    ld.shared.u32 first, [at];
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 first, 64;
    mov.u32 rank, %ctaid.x;
    ld.param.u64 place, [out];
    mul.wide.u32 offset, rank, 4;
    add.u64 place, place, offset;
    st.global.u32 [place], first;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
"""


def test_two_blocks_allocate_together_in_code_of_an_older_assembler(tmp_path: Path) -> None:
    """CUDA 12.9's keeps the mbarrier of such allocations elsewhere than later ones: the CuTe DSL and Triton bring it
    along."""
    nvidia = pytest.importorskip(
        "triton.backends.nvidia", reason="Triton is not installed: pip install 'gpusim[triton]'"
    )
    assembler = Path(nvidia.__path__[0]) / "bin" / "ptxas"
    (tmp_path / "pair.ptx").write_text(PAIR)
    subprocess.run(
        [assembler, "-arch=sm_100a", tmp_path / "pair.ptx", "-o", tmp_path / "pair.cubin"], check=True, timeout=60
    )
    for kernel in (gpusim.cubin(tmp_path / "pair.cubin", "pair"), gpusim.ptx(PAIR, "pair")):
        out = np.full(4, -1, np.int32)
        gpusim.capture(kernel, 4, 32, (out,), gpu="b200")
        assert out[0] == out[1] and out[2] == out[3] and (out >= 0).all()
