"""Do the kernels that an SM's own pipes bound compute what NumPy and the generator's definition say, and does a part of
a launch lie all over it?"""

from __future__ import annotations

import numpy as np
import pytest
from validation.predict import predict

import gpusim
from gpusim.gpus.load import load_gpu
from workloads.external import instruction_families as families

_LANES, _READS = 32, 256


def begins(pattern: str) -> np.ndarray:
    """Where each lane of a warp begins to read."""
    lane = np.arange(_LANES)
    kind, _, number = pattern.rpartition("_")
    if kind == "conflict":
        return lane % int(number) * 32 + lane // int(number)
    return lane // (int(number) if kind == "together" else 1)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("word", ["float", "float2", "float4"])
@pytest.mark.parametrize("pattern", ["each_its_own", "together_8", "conflict_4"])
def test_one_round_of_reads(word: str, pattern: str) -> None:
    timed = families.shared_reads({"word": word, "pattern": pattern})
    args = timed.arguments(families._PARTS)
    args[0][:_LANES] = np.arange(_LANES) % 3
    expected = [args[0][(begin + np.arange(_READS)) % _LANES].sum() for begin in begins(pattern)]
    gpusim.capture(timed.kernel, (1,), (_LANES,), args, gpu="a100_40gb")
    np.testing.assert_array_equal(args[0][:_LANES], np.array(expected) ** int(word.removeprefix("float") or 1))


def drawn(count: int) -> list[float]:
    """The first numbers of the sequence between 10 and 100, one step after another."""
    state, numbers = families._SEED, []
    for _ in range(count):
        turns, mixed = state >> 59, (state >> 18 ^ state) >> 27 & 2**32 - 1
        numbers.append(10 + 90 * (mixed >> turns | mixed << (-turns & 31) & 2**32 - 1) / (2**32 - 1))
        state = (state * 6364136223846793005 + families._ADDEND) % 2**64
    return numbers


@pytest.mark.by_day(1)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_numbers_by_jumps_are_the_sequences(dtype: str) -> None:
    timed = families.random_numbers({"dtype": dtype, "count": 1024})
    args = timed.arguments(None)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_40gb")
    np.testing.assert_allclose(args[0], drawn(1024), rtol=1e-6)


def test_a_part_of_the_numbers_lies_all_over_the_sequence() -> None:
    timed = families.random_numbers({"dtype": "double", "count": 4096})
    args = timed.arguments(1024)
    assert timed.grid_of is not None
    gpusim.capture(timed.kernel, timed.grid_of(1024), timed.block, args, gpu="a100_40gb")
    blocks = np.flatnonzero(args[0].reshape(16, 256).any(axis=1))
    assert len(blocks) == 4 and np.diff(blocks).max() <= 6
    np.testing.assert_allclose(args[0][args[0] > 0], np.array(drawn(4096))[args[0] > 0], rtol=1e-6)


def test_few_sms_say_what_all_do() -> None:
    """Two waves of reads, of which the launch has almost three, and a last one of four blocks an SM of six; a read of
    two words in one bank takes two cycles."""
    spec = load_gpu("v100")
    made = predict("shared_reads", {"word": "float", "pattern": "conflict_2"}, spec, "depth", 4e6, None, "warm")
    assert made.scaled.startswith("2 waves on 2 of 80 SMs")
    reads = 16 * 4 * families._ROUNDS * (2 * _READS + 1)
    assert made.time_us == pytest.approx(1e6 * reads / spec.clock_hz, rel=0.02)
