"""A launch whose log overflows in the middle of blocks is the same launch: results, paths, accesses, cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32

from gpusim.capturing import capture
from gpusim.emulator import block_scheduler, chunks, emulation, log_limits
from gpusim.engine.gpu import simulate
from gpusim.errors import AddressError, UsageError
from gpusim.trace.record import SCATTERED, Trace

pytestmark = pytest.mark.usefixtures("without_source_lines")


@cuda.jit
def gathered(values, index, out, turns):
    """Long blocks that run one by one; loops of different lengths, loads without a stride."""
    i = cuda.grid(1)
    total = float32(0)
    for k in range(turns + i // 32 % 5):
        total += values[index[(i * 13 + k * 5) % index.size]]
        out[i] = total


@cuda.jit
def swept(values, turns):
    """All blocks meet at a grid-wide barrier, many times."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(turns):
        left = values[i - 1] if i > 0 else float32(1)
        grid.sync()
        values[i] += left
        grid.sync()


@cuda.jit
def handed_on(values, flags, turns):
    """Every block waits for the one behind it, which a GPU runs beside it."""
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0 and b + 1 < cuda.gridDim.x:
        while cuda.atomic.add(flags, b + 1, 0) == 0:
            pass
    cuda.syncthreads()
    for _ in range(turns):
        values[i] += values[(i + 32) % values.size]
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(flags, b, 1)


def run_gathered(turns=60, **options):
    rng = np.random.default_rng(3)
    index = rng.permutation(4096).astype(np.int32)
    out = np.zeros(6 * 128, np.float32)
    return capture(gathered, 6, 128, (np.arange(4096, dtype=np.float32), index, out, turns), gpu="h200", **options), out


def run_swept(**options):
    values = np.ones(4 * 64, np.float32)
    return capture(swept, 4, 64, (values, 80), gpu="h200", **options), values


def run_handed_on(turns=200, **options):
    values, flags = np.ones(3 * 64, np.float32), np.zeros(3, np.int32)
    return capture(handed_on, 3, 64, (values, flags, turns), gpu="h200", **options), values


def by_warp(trace: Trace) -> list[tuple]:
    """Runs, joined where one goes on with the next, and lane addresses of each warp of the launch."""
    out = []
    for chunk in trace.chunks():
        for path, count, start in chunk.warps.tolist():
            runs: list[tuple] = []
            for first, length, mask in chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]].tolist():
                if runs and (runs[-1][0] + runs[-1][1], runs[-1][2]) == (first, mask):
                    first, length = runs[-1][0], runs.pop()[1] + length
                runs.append((first, length, mask))
            accesses = []
            for address, stride, mask in chunk.accesses[start : start + count].tolist():
                where = chunk.scattered[address].tolist() if stride == SCATTERED else (address, stride)
                accesses.append((where, mask))
            out.append((runs, accesses))
    return out


def same_launch(left: Trace, right: Trace) -> bool:
    """Equal warp by warp (a bare bool: pytest would compare the lists in words, at length)."""
    return by_warp(left) == by_warp(right) and left.warp_instructions == right.warp_instructions


@pytest.fixture
def small_log(monkeypatch):
    """A log of a few hundred records, little more than one instruction and one decision of a polling loop may need, and
    blocks that take short turns."""
    real = emulation.new_log
    monkeypatch.setattr(block_scheduler, "LOG_LIMITS", (600, 600, 600))
    monkeypatch.setattr(block_scheduler, "_SLICE_TOGETHER", 500)
    monkeypatch.setattr(emulation, "new_log", lambda runs, accesses, rows: real(500, 500, 500))


@pytest.mark.parametrize("run", [run_gathered, run_swept, run_handed_on])
def test_parts_make_the_same_launch(run, small_log, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpusim.emulator.state.BLOCK_SLICE", 3000)
    path = tmp_path / "t.trace"
    streamed, out_streamed = run(to=path)
    parts, out = run()
    count = len(list(parts.chunk_list))
    assert count > 1 and any(chunk.open_blocks for chunk in parts.chunk_list)
    assert len(list(streamed.chunk_list)) == count
    np.testing.assert_array_equal(out_streamed, out)
    assert same_launch(streamed, parts)
    assert simulate(streamed, "h200").cycles == simulate(parts, "h200").cycles
    if run is run_handed_on:  # how often a block asks for its neighbour depends on the length of its turns
        return
    monkeypatch.undo()
    whole, expected = run()
    assert len(list(whole.chunk_list)) == 1
    np.testing.assert_array_equal(out, expected)
    assert same_launch(parts, whole)
    assert simulate(parts, "h200").cycles == simulate(whole, "h200").cycles


def test_a_log_without_room_for_one_instruction_is_refused(small_log, monkeypatch) -> None:
    """It would be full when it is empty, and no block ever go on; the least that is taken is enough."""
    least = log_limits.LEAST_LOG
    monkeypatch.setattr(emulation, "new_log", lambda *sizes: chunks.new_log(*least))
    for place in range(3):
        limits = tuple(most - (place == index) for index, most in enumerate(least))
        monkeypatch.setattr(block_scheduler, "LOG_LIMITS", limits)
        with pytest.raises(UsageError, match="not even one instruction"):
            run_handed_on(turns=9)
    monkeypatch.setattr(block_scheduler, "LOG_LIMITS", least)
    assert len(list(run_handed_on(turns=9)[0].chunk_list)) > 1  # it polls
    trace, out = run_gathered(turns=4)
    monkeypatch.undo()
    assert len(list(trace.chunk_list)) > 1 and (out == run_gathered(turns=4)[1]).all()


def test_chunks_close_between_blocks_when_the_log_fills(small_log) -> None:
    @cuda.jit
    def once(values):
        values[cuda.grid(1)] += 1

    values = np.zeros(800 * 32, np.float32)
    trace = capture(once, 800, 32, (values,), gpu="h200")
    chunks = list(trace.chunk_list)
    assert len(chunks) > 2 and not any(chunk.open_blocks for chunk in chunks)
    assert sum(chunk.blocks for chunk in chunks) == 800
    assert (values == 1).all()


def test_a_launch_that_fails_while_it_is_written_leaves_no_file(small_log, tmp_path: Path) -> None:
    index = np.zeros(4096, np.int32)
    index[-1] = 1 << 20
    values, out = np.ones(4096, np.float32), np.zeros(6 * 128, np.float32)
    with pytest.raises(AddressError):
        capture(gathered, 6, 128, (values, index, out, 900), gpu="h200", to=tmp_path / "t.trace")
    assert not list(tmp_path.iterdir()) and (out == 0).all()


def test_a_disk_that_fills_up_leaves_no_file_and_the_arrays(small_log, tmp_path: Path, monkeypatch) -> None:
    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpusim.trace.file._put", no_space)
    values, index, out = np.ones(4096, np.float32), np.zeros(4096, np.int32), np.zeros(128, np.float32)
    with pytest.raises(OSError, match="No space left"):
        capture(gathered, 1, 128, (values, index, out, 9), gpu="h200", to=tmp_path / "t.trace")
    assert not list(tmp_path.iterdir()) and (out == 0).all()
