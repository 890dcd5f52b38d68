"""Do floating-point adds on one word of L2 wait for each other, and integers and adds on words of their own not?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpusim import capture, simulate
from gpusim.gpus.load import load_gpu

pytestmark = pytest.mark.usefixtures("without_source_lines")

_ADD = """
extern "C" __global__ void add(KIND *out, unsigned words) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("red.relaxed.gpu.global.add.PTX [%0], %1;" ::"l"(out + thread % words), "CONSTRAINT"((KIND)1) : "memory");
}
"""
_BLOCKS, _THREADS = 64, 256


@pytest.fixture
def cycles(tmp_path: Path):
    def of(kind: str, words: int, spec) -> float:
        ptx, constraint, array = {"float": ("f32", "f", np.float32), "unsigned": ("u32", "r", np.uint32)}[kind]
        source = tmp_path / f"{kind}.cu"
        source.write_text(_ADD.replace("KIND", kind).replace("PTX", ptx).replace("CONSTRAINT", constraint))

        class Kernel:
            __name__ = "add"

            def __cuda_cpp__(self) -> dict:
                return {"source": str(source), "entry": "add", "options": (), "cooperative": False}

        out = np.zeros(_BLOCKS * _THREADS, array)
        trace = capture(Kernel(), (_BLOCKS,), (_THREADS,), (out, np.uint32(words)), gpu=spec)
        return simulate([trace, trace], gpu=spec).launches[1].cycles

    return of


def test_floats_on_one_word_take_three_cycles_each_and_integers_one(cycles) -> None:
    spec = load_gpu("a10")
    floats, integers = (cycles(kind, 1, spec) / (_BLOCKS * _THREADS) for kind in ("float", "unsigned"))
    assert floats == pytest.approx(spec.l2.atomic_float_cycles, rel=0.1)
    assert integers == pytest.approx(spec.cycles(spec.l2.atomic_interval_ns), rel=0.15)


def test_floats_on_words_of_their_own_take_what_integers_take(cycles) -> None:
    spec = load_gpu("a10")
    of_each = [cycles(kind, _BLOCKS * _THREADS, spec) for kind in ("float", "unsigned")]
    assert of_each[0] == pytest.approx(of_each[1], rel=0.02)
    slow = replace(spec, l2=replace(spec.l2, atomic_float_cycles=30.0))
    assert cycles("float", 1, slow) > 5 * cycles("float", 1, spec)
