"""Does each row that is no plain arithmetic (lanes, predicates, control, memory) do what plain Python says?

One short SASS program a row runs in the interpreter (:mod:`sass_harness`), forms that no compiler emits included; each
leaves rows of words that the oracle beside it computes. And: no row of the table is without such a test.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from lane_values import SEEDS, values
from oracles_arith import INTEGER_EDGES, M32

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")

import row_cases_control  # noqa: F401 - adds its programs
import row_cases_memory  # noqa: F401 - adds its programs
from ptx_harness import run as run_ptx
from row_cases_arithmetic import ARITHMETIC
from row_cases_programs import PROGRAMS, Program
from sass_harness import run

from gpusim.errors import ExecutionError
from gpusim.isa.architectures import GENERATIONS
from gpusim.isa.table import TABLE

#: Rows with whole test files of their own, by compiled code -> the file.
ELSEWHERE = {
    **dict.fromkeys(("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "MOVM"), "test_tensor_cores.py"),
    "LDSM": "test_tensor_ptx.py",
    "STSM": "test_tensor_ptx.py",
    "SYNCS": "test_asynchronous_copies.py",
    "ARRIVES": "test_ptx_isa.py",
    "OMMA": "test_ptx_isa.py",
    **dict.fromkeys(("HGMMA", "QGMMA", "IGMMA", "BGMMA"), "test_warpgroup_products.py"),
    **dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA"), "test_tcgen05_products.py"),
    **dict.fromkeys(("LDTM", "STTM", "UTCCP", "UTCSHIFT", "UTCATOMSWS"), "test_tcgen05_memory.py"),
    **dict.fromkeys(("UTCBAR", "UVIRTCOUNT"), "../kernels/test_tcgen05_gemm.py"),
    **dict.fromkeys(
        ("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UBLKCP", "UBLKRED", "UBLKPF", "UTMACMDFLUSH"),
        "../support/bulk_kernels.py",
    ),
    "UTMACCTL": "../support/bulk_kernels.py",
    "UREDGR": "test_memory_instructions.py",
    **dict.fromkeys(("TEX", "TXD", "TLD", "TLD4", "SULD", "SUST"), "../kernels/test_textures.py"),
    **dict.fromkeys(
        ("UCGABAR_ARV", "UCGABAR_WAIT", "STAS", "REDAS", "USETMAXREG", "UGETNEXTWORKID"),
        "../support/cluster_kernels.cu",
    ),
}
#: What compiled code calls them there.
PTX_NAMES = {
    **dict.fromkeys(("TEX", "TXD", "TLD", "TLD4"), "cudaTextureObject_t"),
    **dict.fromkeys(("SULD", "SUST"), "cudaSurfaceObject_t"),
    "LDSM": "ldmatrix",
    "STSM": "stmatrix",
    "SYNCS": "mbarrier",
    "ARRIVES": "mbarrier",
    "OMMA": "mxf4",
    "UCGABAR_ARV": "cluster.arrive",
    "UCGABAR_WAIT": "cluster.wait",
    "STAS": "st.async",
    **dict.fromkeys(("REDAS", "UREDGR"), "red.async"),
    "USETMAXREG": "setmaxnreg",
    "UGETNEXTWORKID": "try_cancel",
    **dict.fromkeys(("HGMMA", "QGMMA", "IGMMA", "BGMMA"), "wgmma"),
    **dict.fromkeys(("UTMALDG", "UTMASTG"), "cp.async.bulk.tensor"),
    "UTMAREDG": "cp.reduce.async.bulk.tensor",
    **dict.fromkeys(("UTMAPF", "UBLKPF"), "cp.async.bulk.prefetch"),
    "UTMACCTL": "fence.proxy.tensormap",
    **{
        "UBLKCP": "cp.async.bulk.shared",
        "UBLKRED": "cp.reduce.async.bulk",
        "UTMACMDFLUSH": "cp.async.bulk.commit_group",
    },
    **{"UTCHMMA": "f16", "UTCQMMA": "f8f6f4", "UTCIMMA": "i8", "UTCOMMA": "mxf4nvf4", "UTCBAR": "commit"},
    **{"LDTM": "ld", "STTM": "st", "UTCCP": "cp", "UTCSHIFT": "shift", "UVIRTCOUNT": "relinquish_alloc_permit"},
}
HERE = {"BPT"}


def check(program: Program, x: list[list[int]]) -> None:
    ran = run(
        program.lines, np.array(x, np.uint32), program.outputs, program.capability,
        local_bytes=program.local_bytes, shared_bytes=program.shared_bytes,
    )  # fmt: skip
    assert set(program.covers) <= ran.executed
    for register, mine, expected in zip(program.outputs, ran.words, program.oracle(x), strict=True):
        assert mine.tolist() == expected, register


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: "-".join(program.covers))
@example(None)
@given(seed=SEEDS)
@settings(max_examples=6)
def test_the_program_leaves_what_python_says(program, seed):
    if seed is None:
        for turn in range(4):
            every = range(program.threads)
            pool = [INTEGER_EDGES[(i * (5, 1, 0, 7)[turn] + turn) % len(INTEGER_EDGES)] for i in every]
            check(
                program,
                [
                    pool,
                    *(
                        [INTEGER_EDGES[(i * 3 + k) % len(INTEGER_EDGES)] for i in every]
                        for k in range(1, program.inputs)
                    ),
                ],
            )
        return
    random = Random(seed)
    check(program, [values(random, INTEGER_EDGES, M32, program.threads) for _ in range(program.inputs)])


def test_a_trap_ends_the_launch():
    with pytest.raises(ExecutionError, match="trap"):
        run(["BPT.TRAP 0x1"], np.zeros((1, 32), np.uint32), ["R8"])


SWITCH = """.reg .b32 %i; and.b32 %i, {a}, 3; t: .branchtargets L0, L1, L2, L3; brx.idx %i, t;
L0: add.u32 {d}, {a}, 5; bra.uni E; L1: mul.lo.u32 {d}, {a}, 7; bra.uni E; L2: xor.b32 {d}, {a}, 99; bra.uni E; L3: not.b32 {d}, {a};
E: add.u32 {d}, {d}, 1"""


@pytest.mark.parametrize("capability", [row.capability for row in GENERATIONS])
def test_a_compiled_switch_goes_where_its_table_says(monkeypatch, capability):
    operands = np.random.default_rng(5).integers(0, 2**32, (1, 64), dtype=np.uint64)
    out = run_ptx(monkeypatch, [(SWITCH, "b32", ("b32",))], operands, capability)[0] & M32
    expected = [((v + 5, v * 7, v ^ 99, ~v)[v & 3] + 1) & M32 for v in operands[0].tolist()]
    assert out.tolist() == expected


def test_no_row_of_the_table_is_without_a_test():
    covered = {mnemonic for program in PROGRAMS for mnemonic in program.covers} | HERE | set(ELSEWHERE)
    for case in ARITHMETIC:
        covered.add(case.mnemonic)
        if case.text.startswith("{u}"):
            covered.add(f"U{case.mnemonic}")
    assert covered == {name for name, opcode in TABLE.items() if not opcode.refused}


def test_the_files_that_test_rows_elsewhere_do_so():
    for mnemonic, file in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text()
        assert re.search(rf"\b{PTX_NAMES.get(mnemonic, mnemonic)}\b", text), f"{file} does not name {mnemonic}"
