"""Kernels whose blocks wait for each other finish, with NumPy's result, in whatever order blocks run."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from gpusim.capturing import capture
from gpusim.cases.suite import find_kernel
from gpusim.emulator import emulation
from gpusim.emulator.block_scheduler import BlockScheduler
from gpusim.emulator.slots import LoggedBlocks, release_grid
from gpusim.isa import warp as at
from gpusim.launch.memory import DeviceMemory

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: Warp instructions of a turn: few enough that every block is interrupted many times.
TURN = 150


def shuffled(seed):
    """A BlockScheduler whose blocks are all resident and take short turns in random order."""
    rng = np.random.default_rng(seed)

    class Shuffled(BlockScheduler):
        def run(self, blocks, chunk_blocks, first=0):
            slots = [self.first, *(self._open() for _ in range(blocks - 1))]
            for slot, block in zip(slots, rng.permutation(blocks), strict=True):
                slot.block, slot.states[0].slice = int(block), TURN
            waiting = []
            while slots or waiting:
                if not slots:
                    for slot in waiting:
                        release_grid(slot.states[0])
                    slots, waiting = waiting, []
                slot = slots[rng.integers(len(slots))]
                status, _ = self._step(slot, slot.block, slot.block + 1)
                if status == at.PREEMPTED:
                    continue
                slots.remove(slot)
                if status == at.GRID_WAIT:
                    waiting.append(slot)
                elif status != at.DONE:
                    self._fail(slot, status)
                    return
            yield LoggedBlocks(0, blocks)

    return Shuffled


def run(case, gpu="sm_90"):
    memory = DeviceMemory()
    for launch in case.launches:
        capture(
            launch.kernel,
            launch.grid,
            launch.block,
            launch.args,
            gpu=gpu,
            shared_bytes=launch.shared_bytes,
            memory=memory,
            instruction_limit=2_000_000,
        )
    case.check()


SHAPES = [
    ("scan_lookback", {"n": 5000, "block_threads": 32}),  # 40 tiles: the look-back leaves its first window
    ("scan_lookback", {"n": 1300, "block_threads": 64}),
    ("reduce_last_block", {"n": 2001, "block_threads": 64, "blocks": 9}),
    ("jacobi_grid_sync", {"rows": 9, "columns": 35, "sweeps": 3, "block_threads": 32, "blocks": 5}),
]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.nightly) for s in range(2, 20))])
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_blocks_that_wait_for_each_other_finish_in_any_order(name, shape, seed, monkeypatch):
    monkeypatch.setattr(emulation, "BlockScheduler", shuffled(seed))
    run(find_kernel(name).make(**shape))


@cuda.jit
def take_numbers(ticket, order):
    if cuda.threadIdx.x == 0:
        order[cuda.atomic.add(ticket, 0, 1)] = cuda.blockIdx.x


def test_the_orders_are_not_the_usual_one(monkeypatch):
    orders = []
    for seed in (0, 1):
        monkeypatch.setattr(emulation, "BlockScheduler", shuffled(seed))
        order = np.zeros(12, np.int32)
        capture(take_numbers, 12, 32, (np.zeros(1, np.int32), order), gpu="sm_90")
        assert sorted(order) == list(range(12)) and list(order) != sorted(order)
        orders.append(list(order))
    assert orders[0] != orders[1]


@cuda.jit
def last_numbered_block_finishes(values, finished, total):
    """Wrong on purpose: counts on the block of the highest number being the last to run."""
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(finished, 0, values[cuda.blockIdx.x])
        if cuda.blockIdx.x == cuda.gridDim.x - 1:
            total[0] = finished[0]


def test_a_kernel_that_counts_on_the_order_is_caught(monkeypatch):
    def total(scheduler):
        monkeypatch.setattr(emulation, "BlockScheduler", scheduler)
        values, result = np.ones(12, np.int32), np.zeros(1, np.int32)
        capture(last_numbered_block_finishes, 12, 32, (values, np.zeros(1, np.int32), result), gpu="sm_90")
        return result[0]

    assert total(BlockScheduler) == 12
    assert {total(shuffled(seed)) for seed in range(4)} != {12}
