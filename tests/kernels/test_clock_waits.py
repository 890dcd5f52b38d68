"""Loops that wait for a time: the clock is put forward to where they end, and a trace says how long that is."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.emulator.clock_loops import SHORTEST_WAIT
from gpusim.emulator.emulation import Emulation
from gpusim.frontend.registry import front_end_of
from gpusim.isa import warp as at
from gpusim.isa.target import make_target
from gpusim.launch.arrays import HostArrays
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.launch.memory import DeviceMemory

SOURCE = r"""
__device__ long long timer() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
extern "C" __global__ void cycles(long long *out, long long n) {
  unsigned start = (unsigned)clock();
  long long passed = 0;
  while (passed < n) passed = (unsigned)clock() - start;
  out[threadIdx.x] = passed;
}
// Each lane waits for a time of its own, its neighbours' first.
extern "C" __global__ void sleepers(long long *out, long long n) {
  long long start = timer(), now;
  do { __nanosleep(100); now = timer(); } while (now - start < n * (threadIdx.x & 3));
  out[threadIdx.x] = now - start;
}
// What has been done by then is not to be found out by going back in time.
extern "C" __global__ void worker(long long *out, long long n) {
  long long start = clock64(), done = 0;
  while (clock64() - start < n) out[32 + threadIdx.x] = ++done;
  out[threadIdx.x] = clock64() - start;
}
// Warps and lanes that wait for times of their own, in turns, between barriers: nobody sees the clock go back.
extern "C" __global__ void in_turns(long long *out, long long n) {
  __shared__ long long latest;
  long long last = clock64(), back = 0;
  if (threadIdx.x == 0) latest = last;
  __syncthreads();
  for (int turn = 0; turn < 4; turn++) {
    long long start = clock64(), wanted = n * ((threadIdx.x * 7 + turn) % 5), now;
    back += start < last || start < latest;
    do now = clock64(); while (now - start < wanted);
    back += now - start < wanted;
    last = clock64();
    back += last < now;
    __syncthreads();
    if (threadIdx.x == turn * 8) latest = last;
    __syncthreads();
  }
  out[threadIdx.x] = back;
  out[64 + threadIdx.x] = last;
}
"""
WAIT = 3_000_000


def launch_of(name: str, wait: int, target: str = "sm_90") -> tuple[Emulation, np.ndarray, HostArrays]:
    kernel, made_for, memory = gpusim.cuda_cpp(SOURCE, name), make_target(target), DeviceMemory()
    front_end, out = front_end_of(kernel), np.zeros(128, np.int64)
    arguments = (out, np.int64(wait))
    binary = front_end.compile(kernel, arguments, made_for.capability)
    arrays = HostArrays(memory, True, binary.name)
    parameters = front_end.pack(kernel, binary, arguments, arrays)
    launch = KernelLaunch(binary, made_for, (1, 1, 1), (64, 1, 1), parameters=parameters)
    return Emulation(launch, memory), out, arrays


@pytest.mark.parametrize("name", ["cycles", "sleepers"])
def test_a_wait_is_as_long_as_asked_for_in_few_rounds(name: str) -> None:
    emulation, out, _ = launch_of(name, WAIT)
    assert emulation.run_untraced() < 5000
    asked = WAIT * (np.arange(64) % 4 if name == "sleepers" else np.ones(64))
    assert (out[:64] >= asked).all() and (out[:64] <= asked + 4 * SHORTEST_WAIT).all()


def test_nobody_sees_the_clock_go_back() -> None:
    emulation, out, _ = launch_of("in_turns", 1_000_000)
    assert emulation.run_untraced() < 50_000
    assert not out[:64].any() and (out[64:] >= 4_000_000).all()


def test_a_loop_that_does_something_goes_round_until_the_time_has_come() -> None:
    emulation, out, _ = launch_of("worker", 3000)
    assert not (emulation.prepared.encoded.matrix[:, at.ORDERED] & at.AWAITS_TIME).any()
    assert emulation.run_untraced() >= 3000 and (out[32:64] > 20).all()


@pytest.mark.parametrize("name", ["cycles", "sleepers"])
def test_a_trace_has_one_round_and_the_time(name: str) -> None:
    emulation, out, _ = launch_of(name, WAIT)
    assert sum(chunk.warp_instructions for chunk in emulation.run()) < 300
    asked = WAIT * (np.arange(64) % 4 if name == "sleepers" else np.ones(64))
    assert (out[:64] >= asked).all() and (out[:64] <= asked + 4 * SHORTEST_WAIT).all()


def test_nobody_sees_the_clock_go_back_where_there_is_a_trace() -> None:
    emulation, out, _ = launch_of("in_turns", 1_000_000)
    assert sum(chunk.warp_instructions for chunk in emulation.run()) < 5000
    assert not out[:64].any() and (out[64:] >= 4_000_000).all()


def test_rounds_that_do_something_are_in_the_trace_as_they_were_made() -> None:
    emulation, out, _ = launch_of("worker", 3000)
    assert sum(chunk.warp_instructions for chunk in emulation.run()) >= 3000 and (out[:64] >= 3000).all()
