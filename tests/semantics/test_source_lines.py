"""Are source lines carried over from the build that has them, and only as far as the two builds agree?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.isa.binary.lines import carry_over


def code(*opcodes: int, registers: int = 0) -> bytes:
    """Instruction words with these opcodes; ``registers`` fills the operand fields."""
    return b"".join((opcode | registers << 16).to_bytes(8, "little") + bytes(8) for opcode in opcodes)


def lines(count: int) -> dict[int, int]:
    """Instruction i lies on line 10 + i."""
    return {16 * i: 10 + i for i in range(count)}


def test_the_same_code_has_the_same_lines():
    assert carry_over(code(1, 2), code(1, 2), lines(2)) == lines(2)


def test_other_registers_do_not_matter():
    kernel, twin = code(1, 2, 3, 4, 5), code(1, 2, 3, 4, 5, registers=7)
    assert carry_over(kernel, twin, lines(5)) == lines(5)


def test_what_only_one_build_has_gets_no_line_and_shifts_the_rest():
    kernel, twin = code(1, 2, 3, 4, 99, 5, 6, 7, 8), code(1, 2, 3, 4, 5, 6, 7, 8)
    carried = carry_over(kernel, twin, lines(8))
    assert carried == {0: 10, 16: 11, 32: 12, 48: 13, 80: 14, 96: 15, 112: 16, 128: 17}


def test_short_runs_are_chance():
    kernel, twin = code(1, 2, 3, 4, 50, 5, 51), code(1, 2, 3, 4, 60, 5, 61)
    assert carry_over(kernel, twin, lines(7)) == {0: 10, 16: 11, 32: 12, 48: 13}


@pytest.mark.parametrize("name", ["l ü/k.cu", "t ü.cu", "größe/数据.cu", "ü274.cu", "plain.cu"])
def test_a_name_that_is_not_ascii_is_the_files(name: str, tmp_path: Path) -> None:
    """Escaped in PTX's .file, where ptxas also takes the last backslash for the end of a folder."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('extern "C" __global__ void k(int *x) { x[threadIdx.x] *= 2; }')
    trace = gpusim.capture(gpusim.cuda_cpp(path, "k"), 1, 32, (np.ones(32, np.int32),), gpu="h200")
    assert trace.program.files == (str(path),)


def test_codes_that_are_unlike_share_nothing():
    assert carry_over(code(1, 2, 3, 4, 5, 6, 7, 8, 9), code(1, 2, 3, 4, 11, 12, 13, 14, 15), lines(9)) == {}


INLINED = """#include <cuda_fp16.h>
__device__ __half2 mine(__half2 v) { return __hmul2(v, v); }
extern "C" __global__ void squared(__half2 *x) {
  __half2 v = x[threadIdx.x];
  x[threadIdx.x] = __hadd2(v, mine(v));
}
"""


def test_code_of_a_header_of_the_toolkit_counts_for_the_line_that_called_it():
    x = np.ones(64, np.float16)
    trace = gpusim.capture(gpusim.cuda_cpp(INLINED, "squared"), 1, 32, (x,), gpu="h200")
    program = trace.program
    assert {program.files[row["file"]].rsplit("/", 1)[-1] for row in program.instructions if row["file"] >= 0} == {
        "source.cu"
    }
    lines = {int(row["line"]) for row, text in zip(program.instructions, program.texts, strict=True) if "HFMA2" in text}
    assert lines and lines <= {2, 5}  # a function of the file's own is where it stands
    assert (x == 2).all()
