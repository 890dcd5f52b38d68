"""Divergence, convergence, calls, loops and barriers: does every lane run exactly its own program?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda, int32

from gpusim.capturing import capture
from gpusim.isa.architectures import GENERATIONS
from gpusim.isa.binary.control import decode_control
from gpusim.isa.binary.decode import parse_instruction
from gpusim.trace.record import Flag

pytestmark = pytest.mark.usefixtures("without_source_lines")


@cuda.jit
def collatz(values, out):
    i = cuda.grid(1)
    if i >= values.size:
        return
    n = values[i]
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps > 500:
            break
    out[i] = steps


@given(st.lists(st.integers(1, 300), min_size=1, max_size=70))
def test_divergent_loops(values):
    values = np.array(values, np.int64)
    out = np.zeros(len(values), np.int64)
    capture(collatz, 3, 32, (values, out), gpu="sm_90")
    for n, steps in zip(values.tolist(), out.tolist(), strict=True):
        expected = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            expected += 1
        assert steps == expected


@cuda.jit
def ladder(keys, out):
    i = cuda.grid(1)
    key = keys[i]
    total = 0
    for k in range(key % 7):
        if key & 1:
            for j in range(k):
                total += j
                if total > 20:
                    break
        elif key & 2:
            total -= k
            continue
        else:
            total += 100
        total += 1
    out[i] = total


@pytest.mark.parametrize("gpu", [row.name for row in GENERATIONS])
def test_nested_branches_breaks_and_continues(gpu):
    keys = np.arange(96, dtype=np.int32)
    out = np.zeros(96, np.int64)
    capture(ladder, 3, 32, (keys, out), gpu=gpu)
    for key, got in zip(keys.tolist(), out.tolist(), strict=True):
        total = 0
        for k in range(key % 7):
            if key & 1:
                for j in range(k):
                    total += j
                    if total > 20:
                        break
            elif key & 2:
                total -= k
                continue
            else:
                total += 100
            total += 1
        assert got == total


@cuda.jit
def lock_between_lanes(lock, counter):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            counter[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_lanes_that_spin_for_each_other_make_progress(gpu):
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int64)
    capture(lock_between_lanes, 2, 64, (lock, counter), gpu=gpu, instruction_limit=2_000_000)
    assert counter[0] == 128


@cuda.jit
def handed_on(flags, out):
    """Warps of a block pass a token by spinning on shared memory."""
    turn = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    warp = t // 32
    if t == 0:
        turn[0] = 0
    cuda.syncthreads()
    if t % 32 == 0:
        while cuda.atomic.add(turn, 0, 0) != cuda.blockDim.x // 32 - 1 - warp:
            cuda.threadfence_block()
        out[warp] = flags[0]
        flags[0] += 1
        cuda.atomic.add(turn, 0, 1)


def test_warps_that_spin_for_each_other_make_progress():
    flags, out = np.zeros(1, np.int64), np.zeros(8, np.int64)
    capture(handed_on, 1, 256, (flags, out), gpu="sm_90", instruction_limit=5_000_000)
    assert out.tolist() == list(range(7, -1, -1))


@cuda.jit
def block_sum(values, out):
    room = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    room[t] = values[cuda.grid(1)]
    half = cuda.blockDim.x // 2
    while half > 0:
        cuda.syncthreads()
        if t < half:
            room[t] += room[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]
    count = cuda.syncthreads_count(int32(values[cuda.grid(1)] > 0))
    both = cuda.syncthreads_and(int32(values[cuda.grid(1)] >= 0))
    either = cuda.syncthreads_or(int32(values[cuda.grid(1)] < 0))
    if t == 1:
        out[cuda.gridDim.x + 3 * cuda.blockIdx.x] = count
        out[cuda.gridDim.x + 3 * cuda.blockIdx.x + 1] = both != 0
        out[cuda.gridDim.x + 3 * cuda.blockIdx.x + 2] = either != 0


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_barriers_and_their_reductions(threads):
    values = np.random.default_rng(2).integers(-3, 9, 3 * threads).astype(np.int32)
    values[threads : 2 * threads] = 1
    out = np.zeros(3 + 9, np.int64)
    capture(block_sum, 3, threads, (values, out), gpu="sm_90")
    blocks = values.reshape(3, threads)
    assert out[:3].tolist() == blocks.sum(1).tolist()
    for b in range(3):
        expected = [(blocks[b] > 0).sum(), (blocks[b] >= 0).all(), (blocks[b] < 0).any()]
        assert out[3 + 3 * b : 6 + 3 * b].tolist() == [int(e) for e in expected]


def test_instructions_executed_follow_from_the_paths():
    values = np.arange(1, 33, dtype=np.int64)
    out = np.zeros(32, np.int64)
    trace = capture(collatz, 1, 32, (values, out), gpu="sm_90")
    (chunk,) = trace.chunk_list
    exits = [i for i, r in enumerate(trace.program.instructions) if int(r["flags"]) & Flag.EXIT]
    assert trace.warp_instructions == int(chunk.runs["count"].sum())
    last = chunk.runs[-1]
    assert int(last["first"]) + int(last["count"]) - 1 in exits
    # every lane's loop turns are seen: the longest lane needs the most backward jumps
    assert len(chunk.runs) >= out.max()


def test_equal_warps_share_one_path():
    values = np.full(320, 27, np.int64)
    trace = capture(collatz, 10, 32, (values, np.zeros(320, np.int64)), gpu="sm_90")
    (chunk,) = trace.chunk_list
    assert len(chunk.warps) == 10 and len(chunk.path_start) == 2
    assert set(chunk.warps["path"].tolist()) == {0}


@given(
    st.integers(0, 15), st.integers(0, 1), st.integers(0, 7), st.integers(0, 7), st.integers(0, 63), st.integers(0, 15)
)
def test_control_fields_are_where_the_encoding_has_them(stall, stay, write, read, wait, reuse):
    word = stall << 105 | stay << 109 | write << 110 | read << 113 | wait << 116 | reuse << 122
    control = decode_control(word | (2**105 - 1))
    assert (control.stall_cycles, control.yield_hint) == (stall, 1 - stay)
    assert (control.write_barrier, control.read_barrier) == (write, read)
    assert (control.wait_mask, control.reuse_mask) == (wait, reuse)


def test_decimal_immediates_come_from_the_word():
    word = int(np.float32(0.1).view(np.uint32)) << 32
    instruction = parse_instruction(0, "", "FADD", "R0,R1,0.10000000149011611938", word)
    assert instruction.operands[2].value == int(np.float32(0.1).view(np.uint32))


def test_operands_are_split_with_their_signs_and_modifiers():
    instruction = parse_instruction(16, "@!P3", "LDG.E.64", "R4,desc[UR6][R2.64+-0x10]", 0)
    assert instruction.guard.inverted and instruction.guard.index == 3
    memory = instruction.operands[1]
    assert (memory.index, memory.value, memory.descriptor, memory.modifiers) == (2, -16, 6, ("64",))
    minus, bars = parse_instruction(0, "", "FADD", "-R1.reuse,|R2|", 0).operands
    assert minus.negated and minus.index == 1 and minus.modifiers == ()
    assert bars.absolute and bars.index == 2
