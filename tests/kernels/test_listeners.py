"""Does the emulator tell its listeners what happens, each event once, and go on without a thread only if one says
so?"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from gpusim.emulator.emulation import Emulation
from gpusim.emulator.listeners import Listener
from gpusim.errors import AddressError, DeadlockError
from gpusim.frontend.registry import front_end_of
from gpusim.isa.target import make_target
from gpusim.launch.arrays import HostArrays
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.launch.memory import FIRST_ADDRESS, DeviceMemory

LAST_ADDRESS = FIRST_ADDRESS + 320 * 4


class Notes(Listener):
    """Writes every event down; ``takes`` faults or leaves them."""

    def __init__(self, takes: bool = False):
        self.takes, self.faults, self.ended, self.chunks = takes, [], [], []

    def warp_faulted(self, fault) -> int:
        self.faults.append((int(fault.state.linear), int(fault.state.fault_warp)))
        assert fault.mask >> int(fault.state.fault_lane) & 1
        return sum(1 << lane for lane in range(32) if fault.address[lane] > LAST_ADDRESS) if self.takes else 0

    def blocks_ended(self, first_block: int, blocks: int) -> None:
        self.ended.extend(range(first_block, first_block + blocks))

    def chunk_closed(self, chunk) -> None:
        self.chunks.append((chunk.first_block, chunk.blocks, chunk.open_blocks))


class Pauses(Listener):
    """Notes how far the launch is each time it is told; raises at the end of patience, told ``most`` times."""

    def __init__(self, most: int = 1 << 30):
        self.most, self.told = most, []

    def emulating(self, blocks: int, warp_instructions: int) -> None:
        self.told.append((blocks, warp_instructions))
        if len(self.told) == self.most:
            raise KeyboardInterrupt


@cuda.jit
def counts(out, n):
    a = out[0]
    for _ in range(n):
        a = a * 3 + 1
    out[cuda.blockIdx.x] = a


@cuda.jit
def reaches_out(out, odd):
    i = cuda.grid(1)
    out[i + (1 << 20 if cuda.blockIdx.x == odd and cuda.threadIdx.x >= 40 else 0)] = i


@cuda.jit
def meet(values):
    values[cuda.grid(1)] += 1
    if cuda.blockIdx.x < cuda.gridDim.x - 1:
        cuda.cg.this_grid().sync()


def emulate(kernel, grid, args, *listeners):
    front_end, target, memory = front_end_of(kernel), make_target("sm_90"), DeviceMemory()
    binary = front_end.compile(kernel, args, target.capability)
    arrays = HostArrays(memory, True, binary.name)
    parameters = front_end.pack(kernel, binary, args, arrays)
    launch = KernelLaunch(binary, target, (grid, 1, 1), (64, 1, 1), parameters=parameters)
    return list(Emulation(launch, memory).run(listeners))


def test_every_block_and_chunk_is_told_once_in_order() -> None:
    notes, others = Notes(), Notes()
    chunks = emulate(reaches_out, 5, (np.zeros(320, np.int32), -1), notes, others)
    assert notes.ended == others.ended == list(range(5)) and not notes.faults
    assert notes.chunks == [(chunk.first_block, chunk.blocks, chunk.open_blocks) for chunk in chunks]


def test_a_fault_that_nobody_takes_ends_the_launch() -> None:
    notes, others = Notes(), Notes()
    with pytest.raises(AddressError, match=r"block \(2, 0, 0\), thread \(40, 0, 0\)"):
        emulate(reaches_out, 5, (np.zeros(320, np.int32), 2), notes, others)
    assert notes.faults == others.faults == [(2, 1)] and notes.ended == [0, 1]


def test_a_fault_that_one_takes_costs_its_lanes_alone() -> None:
    notes, others = Notes(takes=True), Notes()
    out = np.zeros(320, np.int32)
    chunks = emulate(reaches_out, 5, (out, 2), notes, others)
    assert notes.ended == [0, 1, 2, 3, 4] and notes.faults == others.faults == [(2, 1)]
    assert [len(chunk.warps) for chunk in chunks] == [10]
    stored = np.arange(320)
    stored[2 * 64 + 40 : 3 * 64] = 0
    assert (out == stored).all()
    (chunk,) = chunks
    path = chunk.warps["path"][
        2 * 2 + 1
    ]  # of the warp: all lanes up to the store, the good ones at it, the bad ones end
    runs = chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]]
    assert sorted(runs["mask"].tolist()) == [0xFF, 0xFFFFFF00, 0xFFFFFFFF]


def test_blocks_that_wait_for_one_that_has_ended_are_a_deadlock_whoever_listens() -> None:
    with pytest.raises(DeadlockError, match="grid-wide barrier"):
        emulate(meet, 3, (np.zeros(192, np.int32),), Notes(takes=False))


@pytest.mark.parametrize(("blocks", "n"), [(600, 400), (2, 130_000)], ids=["between-blocks", "within-blocks"])
def test_a_launch_tells_how_far_it_is_and_can_be_ended_there(monkeypatch, blocks, n) -> None:
    monkeypatch.setattr("gpusim.emulator.block_scheduler.PAUSE_INSTRUCTIONS", 1 << 16)
    out = np.zeros(blocks, np.int64)
    whole = Pauses()
    chunks = emulate(counts, blocks, (out, n), whole)
    executed = sum(chunk.warp_instructions for chunk in chunks)
    told = [instructions for _, instructions in whole.told]
    assert len(told) >= executed // (1 << 17) > 2 and told == sorted(told) and told[-1] <= executed
    assert all(0 <= done <= blocks for done, _ in whole.told) and whole.told[0][0] < whole.told[-1][0]
    with pytest.raises(KeyboardInterrupt):
        emulate(counts, blocks, (out, n), Pauses(most=2))
