"""Kernels of CUDA C++ whose warps wait with a growing back-off, for others of their block, or for a time.

Mental model: the second half of the translation unit of :mod:`polling_kernels`, which runs them and knows their
results.
"""

from __future__ import annotations

WAITING_SOURCE = r"""
// One slot that two warps pass to and fro: each works while the other waits.
extern "C" __global__ void handoff(int *unused, int *data, int work) {
  __shared__ volatile int full, slot;
  if (threadIdx.x == 0) full = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; i++) {
      while (full) ;
      slot = i + (busy(1, work) == 5);
      __threadfence_block();
      full = 1;
    }
  } else if (threadIdx.x == 32) {
    int sum = 0;
    for (int i = 0; i < 4; i++) {
      while (!full) ;
      __threadfence_block();
      sum += slot + (busy(1, work) == 5);
      __threadfence_block();
      full = 0;
    }
    data[0] = sum == 6;
  }
}
// The mutex of the CUDA C++ Programming Guide ("Nanosleep function"), which sleeps longer from try to try.
extern "C" __global__ void mutex(unsigned *lock, int *data, int work) {
  if (threadIdx.x == 0) {
    unsigned ns = 8;
    while (atomicCAS(lock, 0, 1) == 1) { __nanosleep(ns); if (ns < 256) ns *= 2; }
    __threadfence();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence();
    atomicExch(lock, 0u);
  }
}
// The flag of ``flags`` the other way round: the emulator never finds it unset, and never sleeps.
extern "C" __global__ void late_flags(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) {
      unsigned ns = 8;
      while (*(volatile int*)flag == 0) { __nanosleep(ns); if (ns < 256) ns *= 2; }
      atomicAdd(data, *(volatile int*)(data + 1));
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)(data + 1) = 1 + (busy(1, work) == 5);
    __threadfence();
    *(volatile int*)flag = 1;
  }
}
// Locks of a block, in shared and in global memory: its warps take them in turns.
extern "C" __global__ void block_cas(int *unused, int *data, int work) {
  __shared__ int lock;
  if (threadIdx.x == 0) lock = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS_block(&lock, 0, 1) != 0) ;
    __threadfence_block();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence_block();
    atomicExch_block(&lock, 0);
  }
}
extern "C" __global__ void block_exchange(int *lock, int *data, int work) {
  if (threadIdx.x % 32 == 0) {
    while (atomicExch_block(lock, 1)) ;
    __threadfence_block();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence_block();
    atomicExch_block(lock, 0);
  }
}
// A whole warp waits for a flag in shared memory; warp 2 sets it.
extern "C" __global__ void block_flag(int *unused, int *data, int work) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) { while (flag == 0) ; if (threadIdx.x == 0) data[0] += 1; }
  if (threadIdx.x == 64) { int x = 1 + (busy(1, work) == 5); flag = x; }
}
// Two flags in shared memory, looked at in one round.
extern "C" __global__ void block_both(int *unused, int *data, int work) {
  __shared__ volatile int flags[2];
  if (threadIdx.x < 2) flags[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x == 0) { int a, b; do { a = flags[0]; b = flags[1]; } while (a + b < 2); data[0] += 1; }
  if (threadIdx.x == 32) flags[0] = 1;
  if (threadIdx.x == 64) { int x = 1 + (busy(1, work) == 5); flags[1] = x; }
}
// A ring of four slots in shared memory: warp 0 fills them, warp 1 takes them out, eight times.
extern "C" __global__ void ring(int *unused, int *data, int work) {
  __shared__ int slots[4][32];
  __shared__ volatile int head, tail;
  if (threadIdx.x == 0) head = tail = 0;
  __syncthreads();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    for (int i = 0; i < 8; i++) {
      while (i - tail >= 4) ;
      slots[i & 3][lane] = i + (busy(lane, work) == 5);
      __threadfence_block();
      __syncwarp();
      if (lane == 0) head = i + 1;
      __syncwarp();
    }
  } else if (warp == 1) {
    int sum = 0;
    for (int i = 0; i < 8; i++) {
      while (head <= i) ;
      __threadfence_block();
      sum += slots[i & 3][lane];
      __threadfence_block();
      __syncwarp();
      if (lane == 0) tail = i + 1;
      __syncwarp();
    }
    if (lane == 0) data[0] = sum == 28;
  }
}
__device__ unsigned long long nanoseconds() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
// Loops that wait for so many cycles, or ns.
extern "C" __global__ void cycles(int *unused, int *data, int wait) {
  long long begin = clock64();
  while (clock64() - begin < wait) ;
  data[0] = 1;
}
extern "C" __global__ void short_cycles(int *unused, int *data, int wait) {
  unsigned begin = clock();
  long long passed = 0;
  while (passed < wait) { unsigned now = clock(); passed = (long long)(now - begin); }
  data[0] = passed >= wait;
}
extern "C" __global__ void timer(int *unused, int *data, int wait) {
  unsigned long long begin = nanoseconds();
  while (nanoseconds() - begin < wait) ;
  data[0] = 1;
}
extern "C" __global__ void sleeping_timer(int *unused, int *data, int wait) {
  unsigned long long end = nanoseconds() + wait;
  while (nanoseconds() < end) __nanosleep(100);
  data[0] = 1;
}
// What was done before belongs to the time; so does what others did before a barrier.
extern "C" __global__ void works_first(int *unused, int *data, int wait) {
  long long begin = clock64();
  int x = busy(1, 1000);
  __syncthreads();
  while (clock64() - begin < wait) ;
  data[0] = 1 + (x == 5);
}
// Lanes wait for times of their own, the last for all of it.
extern "C" __global__ void by_lane(int *unused, int *data, int wait) {
  long long begin = clock64(), mine = (long long)wait * (threadIdx.x & 3) / 3;
  while (clock64() - begin < mine) ;
  data[0] = 1;
}
// A time in four parts, each counted from where the one before ended.
extern "C" __global__ void in_parts(int *unused, int *data, int wait) {
  long long begin = clock64();
  int parts = 0;
  #pragma unroll 1
  do { long long part = clock64(); while (clock64() - part < wait / 4) ; parts++; } while (clock64() - begin < wait);
  data[0] = parts == 4;
}
// Rounds that are counted are no waiting: how many there are is asked for.
extern "C" __global__ void counted(int *unused, int *data, int wait) {
  long long begin = clock64();
  int rounds = 0;
  while (clock64() - begin < wait) rounds++;
  data[0] = rounds > 3;
}
"""
#: Kernels in which warps of one block wait for each other, three of them.
WITHIN_A_BLOCK = ("inside", "block_cas", "block_exchange", "block_flag", "block_both", "ring", "handoff")
#: Kernels that wait for a time, given in cycles or in ns.
IN_CYCLES = ("cycles", "short_cycles", "works_first", "by_lane", "in_parts")
IN_NS = ("timer", "sleeping_timer")
