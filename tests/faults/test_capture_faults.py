"""What a user reads when a launch cannot be: each fault its own class, one line, the arrays untouched."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32

import gpusim
from gpusim.capturing import capture
from gpusim.errors import (
    AddressError,
    CompileError,
    DeadlockError,
    InstructionLimitError,
    LaunchError,
    UnknownGpuError,
    UnsupportedOpcodeError,
    UsageError,
)
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.table import lower


@cuda.jit
def shifted(values, out):
    i = cuda.grid(1)
    out[i] = 2 * values[i + 100]  # the faulting line


@cuda.jit
def doubled(values):
    i = cuda.grid(1)
    values[i] *= 2


@cuda.jit(device=True)
def named_barrier(out):
    out[cuda.threadIdx.x] = 1


@cuda.jit
def endless(flag):
    while flag[0] == 0:
        cuda.threadfence()
    flag[1] = 1


@cuda.jit
def counting(flag):
    while flag[0] >= 0:
        cuda.atomic.add(flag, 1, 1)


@cuda.jit
def shared_overrun(out, n):
    room = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    room[t + n] = t
    cuda.syncthreads()
    out[t] = room[31 - t]


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_an_address_outside_every_allocation_is_named_with_thread_block_and_line(gpu):
    values = np.arange(64, dtype=np.float32)
    out = np.full(64, 7, np.float32)
    with pytest.raises(AddressError) as caught:
        capture(shifted, 2, 32, (values, out), gpu=gpu)
    message = str(caught.value)
    assert "shifted" in message and "block (0, 0, 0), thread (0, 0, 0)" in message
    assert "LDG" in message and "behind the end of argument 0" in message
    line = shifted.py_func.__code__.co_firstlineno + 3
    assert f"test_capture_faults.py:{line}" in message
    assert "\n" not in message
    assert (out == 7).all(), "a launch that fails copies nothing back"


def test_arrays_are_as_before_after_a_fault_in_a_later_block():
    values = np.ones(40, np.float32)
    with pytest.raises(AddressError, match=r"block \(1, 0, 0\), thread \(8, 0, 0\)"):
        capture(doubled, 2, 32, (values,), gpu="sm_90")
    assert (values == 1).all()


def test_shared_memory_has_bounds():
    out = np.zeros(32, np.float32)
    capture(shared_overrun, 1, 32, (out, 0), gpu="sm_90")
    assert (out == np.arange(31, -1, -1)).all()
    with pytest.raises(AddressError, match="shared address 128 .*128 bytes of shared memory"):
        capture(shared_overrun, 1, 32, (out, 1), gpu="sm_90")


@cuda.jit
def crossed(out, n):
    t = cuda.threadIdx.x
    if t < n:
        cuda.syncthreads()  # half of the warp waits here ...
        for k in range(t):
            out[t] += out[k]
    out[t] += 1  # ... for the other half, which waits for it here
    cuda.syncthreads()
    out[t] += out[31 - t % 32]


def test_a_deadlock_says_which_warps_wait_where():
    out = np.zeros(64, np.int32)
    with pytest.raises(DeadlockError) as caught:
        capture(crossed, 1, 64, (out, 16), gpu="sm_90")
    message = str(caught.value)
    assert "crossed" in message and "block (0, 0, 0)" in message and "\n" not in message
    assert "warp 0 lanes 0xffff0000 waits at" in message and "BSYNC" in message
    assert "warp 0 lanes 0x0000ffff waits at" in message
    assert "warp 1 waits at" in message and "BAR.SYNC" in message
    assert f"test_capture_faults.py:{crossed.py_func.__code__.co_firstlineno + 8}" in message
    assert (out == 0).all()


def test_a_deadlock_names_the_warps_that_have_exited():
    @cuda.jit
    def exited(out, n):
        t = cuda.threadIdx.x
        if t >= 32:
            return
        if t < n:
            cuda.syncthreads()
            for k in range(t):
                out[t] += out[k]
        out[t] += 1
        cuda.syncthreads()
        out[t] += out[31 - t]

    with pytest.raises(DeadlockError, match="warps 1, 2 have exited"):
        capture(exited, 1, 96, (np.zeros(32, np.int32), 16), gpu="sm_90")


def test_warps_that_exit_count_as_arrived():
    @cuda.jit
    def some_leave(out):
        t = cuda.threadIdx.x
        if t >= 64:
            return
        cuda.syncthreads()
        out[t] = t

    out = np.zeros(64, np.int32)
    capture(some_leave, 1, 128, (out,), gpu="sm_90")
    assert (out == np.arange(64)).all()


def test_a_kernel_that_never_ends_meets_its_limit():
    flag = np.zeros(2, np.int32)
    with pytest.raises(InstructionLimitError, match="counting.*20000.*instruction_limit"):
        capture(counting, 1, 64, (flag,), gpu="sm_90", instruction_limit=20_000)
    assert (flag == 0).all()


def test_a_kernel_that_waits_for_what_nobody_writes_is_a_deadlock_at_once():
    flag = np.zeros(2, np.int32)
    with pytest.raises(DeadlockError, match="endless: livelock: all 1 resident blocks only repeat themselves"):
        capture(endless, 1, 64, (flag,), gpu="sm_90", instruction_limit=20_000)
    assert flag[1] == 0


@pytest.mark.parametrize(
    ("grid", "block", "shared", "words"),
    [
        (1, 2048, 0, ["2048", "1024"]),
        (1, (32, 33), 0, ["1056", "1024"]),
        (1, (1, 1, 65), 0, ["65", "64"]),
        ((1, 70000), 32, 0, ["70000", "65535"]),
        (1, 32, 1 << 20, [str(1 << 20), "232448"]),
        (0, 32, 0, ["0"]),
        (1, -1, 0, ["-1"]),
        (1, (1, 1, 1, 1), 0, ["4"]),
        (1, 3.5, 0, ["3.5"]),
    ],
)
def test_launches_that_the_gpu_would_refuse_name_both_numbers(grid, block, shared, words):
    values = np.ones(64, np.float32)
    with pytest.raises(LaunchError) as caught:
        capture(doubled, grid, block, (values,), gpu="sm_90", shared_bytes=shared)
    assert all(word in str(caught.value) for word in words)
    assert (values == 1).all()


def test_what_a_kernel_is_compiled_for_bounds_its_launches():
    x = np.ones(1024, np.float32)
    source = """
    extern "C" __global__ void __launch_bounds__(128) small(float *x) { x[threadIdx.x] = 2; }
    extern "C" __global__ void large(float *x) {
        __shared__ float s[BYTES / 4]; s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1]; }
    """
    built = gpusim.cuda_cpp(source, "small", options=["-DBYTES=49152"])
    with pytest.raises(LaunchError, match="small: a block of 256 threads, its launch bounds allow 128"):
        capture(built, 1, (16, 16), (x,), gpu="sm_90")
    capture(built, 1, 128, (x[:128],), gpu="sm_90")
    capture(gpusim.cuda_cpp(source, "large", options=["-DBYTES=49152"]), 1, 32, (x,), gpu="sm_90")
    with pytest.raises(LaunchError, match="large: 49156 bytes of static shared memory, a kernel may declare 49152"):
        capture(gpusim.cuda_cpp(source, "large", options=["-DBYTES=49156"]), 1, 32, (x,), gpu="sm_90")


def test_an_unknown_gpu_is_refused():
    with pytest.raises(UnknownGpuError):
        capture(doubled, 1, 32, (np.ones(32, np.float32),), gpu="sm_13")
    with pytest.raises(UnknownGpuError):
        capture(doubled, 1, 32, (np.ones(32, np.float32),), gpu="voodoo2")


def test_what_is_no_kernel_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match="cuda.jit"):
        capture(lambda x: x, 1, 32, (np.ones(32),), gpu="sm_90")
    with pytest.raises(UsageError, match="device function"):
        capture(named_barrier, 1, 32, (np.ones(32),), gpu="sm_90")


def test_a_kernel_that_does_not_compile_is_a_one_line_error():
    @cuda.jit
    def wrong(values):
        values[0] = no_such_name  # noqa: F821 - that is the case

    with pytest.raises(CompileError) as caught:
        capture(wrong, 1, 32, (np.ones(32),), gpu="sm_90")
    assert "wrong" in str(caught.value) and "\n" not in str(caught.value)


def test_an_argument_that_numba_cannot_type_is_refused():
    with pytest.raises(UsageError, match="argument 0"):
        capture(doubled, 1, 32, (object(),), gpu="sm_90")


def test_an_unknown_instruction_is_refused_by_name():
    instruction = parse_instruction(0x40, "@P0", "FROBNICATE.X", "R0,R1", 0)
    with pytest.raises(UnsupportedOpcodeError, match=r"kernel k, address 0x40: @P0 FROBNICATE\.X R0, R1"):
        lower(instruction, "k")


def test_an_unknown_modifier_makes_a_form_unknown():
    known = parse_instruction(0, "", "LDG.E", "R0,desc[UR4][R2.64]", 0)
    lower(known, "k")
    with pytest.raises(UnsupportedOpcodeError):
        lower(parse_instruction(0, "", "LDG.E.WOBBLY", "R0,desc[UR4][R2.64]", 0), "k")


def test_misaligned_accesses_are_refused():
    @cuda.jit
    def second(values, out):
        out[0] = values[1]

    buffer = np.zeros(64, np.uint8)
    overlapping = np.ndarray((2,), np.float64, buffer.data, strides=(12,))
    with pytest.raises(AddressError, match="0x7f000000000c is not a multiple of 8"):
        capture(second, 1, 1, (overlapping, np.zeros(1)), gpu="sm_90")


def test_a_failed_launch_can_be_repeated():
    values = np.ones(64, np.float32)
    with pytest.raises(AddressError):
        capture(doubled, 3, 32, (values,), gpu="sm_90")
    capture(doubled, 2, 32, (values,), gpu="sm_90")
    assert (values == 2).all()
