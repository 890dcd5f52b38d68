"""Kernels of CUDA C++ whose warps wait for each other by polling, with what their results must be.

Mental model: one translation unit, compiled once; :func:`capture_polling` runs one of its kernels, checks what it left
and returns its trace.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from waiting_kernels import IN_CYCLES, IN_NS, WAITING_SOURCE, WITHIN_A_BLOCK

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.isa.target import make_target
from gpusim.trace.record import Trace

SOURCE = r"""
__device__ int busy(int x, int n) { for (int i = 0; i < n; i++) x = x * x + i; return x; }
// One lane a block takes a lock, by compare-and-swap, counts and gives it back.
extern "C" __global__ void spin(int *lock, int *data, int work) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) ;
    __threadfence();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence();
    atomicExch(lock, 0);
  }
}
extern "C" __global__ void exchange(int *lock, int *data, int work) {
  if (threadIdx.x == 0) {
    while (atomicExch(lock, 1)) __nanosleep(20);
    __threadfence();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence();
    atomicExch(lock, 0);
  }
}
extern "C" __global__ void ticket(int *lock, int *data, int work) {
  if (threadIdx.x == 0) {
    int mine = atomicAdd(lock, 1);
    while (atomicAdd(lock + 1, 0) != mine) ;
    __threadfence();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence();
    atomicAdd(lock + 1, 1);
  }
}
// The last block produces, after some work; the others wait for its flag, backing off.
extern "C" __global__ void flags(int *flag, int *data, int work) {
  if (blockIdx.x + 1 < gridDim.x) {
    if (threadIdx.x == 0) {
      unsigned ns = 8;
      while (*(volatile int*)flag == 0) { __nanosleep(ns); if (ns < 256) ns *= 2; }
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(data, *(volatile int*)(data + 1));
  } else if (threadIdx.x == 0) {
    *(volatile int*)(data + 1) = 1 + (busy(1, work) == 5);
    __threadfence();
    *(volatile int*)flag = 1;
  }
}
// The same the other way round: the first block produces, so that the emulator never finds a flag that is not set.
extern "C" __global__ void late(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) {
      while (*(volatile int*)flag == 0) ;
      __threadfence();
      atomicAdd(data, *(volatile int*)(data + 1));
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)(data + 1) = 1 + (busy(1, work) == 5);
    __threadfence();
    *(volatile int*)flag = 1;
  }
}
// Each of 32 lanes waits for the flag of another block, all of them together.
extern "C" __global__ void votes(int *flag, int *data, int work) {
  if (threadIdx.x == 0) {
    if (busy(blockIdx.x, work) == 5) data[7] = 1;
    __threadfence();
    *(volatile int*)(flag + blockIdx.x) = 1;
  }
  __syncwarp();
  int mine = threadIdx.x < gridDim.x ? threadIdx.x : 0;
  if (threadIdx.x < 32) {
    while (__any_sync(~0u, *(volatile int*)(flag + mine) == 0)) ;
    if (threadIdx.x == 0) atomicAdd(data, 1);
  }
}
// A counter to which all blocks add, and that all wait for: a barrier of the grid, twice.
extern "C" __global__ void barrier(int *count, int *data, int work) {
  for (int round = 1; round <= 2; round++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      if (busy(1, blockIdx.x == 0 ? work : 0) == 5) data[7] = 1;
      __threadfence();
      atomicAdd(count, 1);
      while (*(volatile int*)count < round * (int)gridDim.x) ;
      __threadfence();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(data, 1);
}
// Stream-K: the last block of a tile adds up what the others left, when they say that it is there.
extern "C" __global__ void fixup(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) data[blockIdx.x + 1] = 1 + (busy(1, work) == 5);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(flag, 1);
  } else {
    if (threadIdx.x == 0) while (atomicOr(flag, 0) < (int)gridDim.x - 1) ;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 1; i < gridDim.x; i++) data[0] += *(volatile int*)(data + i + 1);
  }
}
// Warp 0 waits for warp 2 of its own block.
extern "C" __global__ void inside(int *unused, int *data, int work) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 64) { int x = 1 + (busy(1, work) == 5); flag = x; }
  if (threadIdx.x == 0) { while (flag == 0) ; atomicAdd(data, 1); }
}
// Gives up after so many tries, which are enough.
extern "C" __global__ void tries(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) {
      int left = 1 << 20;
      while (*(volatile int*)flag == 0 && --left) ;
      __threadfence();
      atomicAdd(data, left ? *(volatile int*)(data + 1) : 1000);
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)(data + 1) = 1 + (busy(1, work) == 5);
    __threadfence();
    *(volatile int*)flag = 1;
  }
}
// Gives up after ten tries, for nobody ever writes.
extern "C" __global__ void gives_up(int *flag, int *data, int tries) {
  if (threadIdx.x == 0) {
    int left = tries;
    while (*(volatile int*)flag == 0 && --left) ;
    if (left == 0) atomicAdd(data, 1);
  }
}
// Two words that are set one after the other, read in one round and added.
extern "C" __global__ void both(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) {
      int a, b;
      do { a = *(volatile int*)flag; b = *(volatile int*)(flag + 32); } while (a + b < 2);
      __threadfence();
      atomicAdd(data, 1);
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)flag = 1;
    __threadfence();
    *(volatile int*)(flag + 32) = 1 + (busy(1, work) == 5);
  }
}
// A state with two values that end the waiting, at different places.
extern "C" __global__ void states(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) {
      while (true) {
        int s = *(volatile int*)flag;
        if (s == 1) { atomicAdd(data, 1); break; }
        if (s == 2) { atomicAdd(data + 1, 1); break; }
      }
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)flag = 1 + (busy(1, work) == 5);
  }
}
// All flags of a bag, in a loop inside the loop.
extern "C" __global__ void bag(int *flag, int *data, int work) {
  if (blockIdx.x) {
    if (threadIdx.x == 0) { int x = 1 + (busy(1, work) == 5); __threadfence(); *(volatile int*)(flag + blockIdx.x) = x; }
  } else if (threadIdx.x == 0) {
    int got;
    do { got = 0; for (int i = 1; i < gridDim.x; i++) got += *(volatile int*)(flag + i); } while (got < gridDim.x - 1);
    data[0] = got;
  }
}
// Every lane takes the lock, and holds it inside the loop that tries.
extern "C" __global__ void inner(int *lock, int *data, int work) {
  bool done = threadIdx.x >= 4;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
// Every thread takes the lock by itself, as tutorials have it, and works behind the loop that tries.
extern "C" __global__ void lanes(int *lock, int *data, int work) {
  while (atomicCAS(lock, 0, 1) != 0) ;
  __threadfence();
  *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
  __threadfence();
  atomicExch(lock, 0);
}
// The same, sleeping longer and longer between two tries: the code gives way, but what it holds changes for some rounds.
extern "C" __global__ void lanes_sleep(int *lock, int *data, int work) {
  unsigned ns = 8;
  while (atomicExch(lock, 1) != 0) { __nanosleep(ns); if (ns < 256) ns *= 2; }
  __threadfence();
  *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
  __threadfence();
  atomicExch(lock, 0);
}
// Twice, so that lanes of a warp try in two loops while one that holds the lock waits to converge with them.
extern "C" __global__ void lanes_twice(int *lock, int *data, int work) {
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    while (atomicCAS(lock, 0, 1) != 0) ;
    __threadfence();
    *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
    __threadfence();
    atomicExch(lock, 0);
  }
}
// A lock in shared memory, whose address is formed anew in each round.
extern "C" __global__ void lanes_shared(int *unused, int *data, int work) {
  __shared__ int lock;
  if (threadIdx.x == 0) lock = 0;
  __syncthreads();
  while (atomicCAS(&lock, 0, 1) != 0) ;
  __threadfence_block();
  atomicAdd(data, 1);
  __threadfence_block();
  atomicExch(&lock, 0);
}
// Each lane waits until it has the token, and hands it to the lane before it.
extern "C" __global__ void lanes_token(int *token, int *data, int work) {
  int mine = gridDim.x * blockDim.x - 1 - (blockIdx.x * blockDim.x + threadIdx.x);
  while (*(volatile int*)token != mine) ;
  __threadfence();
  *(volatile int*)data = *(volatile int*)data + 1 + (busy(1, work) == 5);
  __threadfence();
  *(volatile int*)token = mine + 1;
}
// A queue of work: whoever takes the next piece waits for nobody.
extern "C" __global__ void queue(int *next, int *data, int work) {
  if (threadIdx.x == 0) {
    int mine;
    while ((mine = atomicAdd(next, 1)) < 24) { if (busy(mine, work) == 5) data[7] = 1; atomicAdd(data, 1); }
  }
}
// Sleeps for a microsecond, so many times.
extern "C" __global__ void sleeps(int *unused, int *data, int times) {
  for (int i = 0; i < times; i++) __nanosleep(1000);
  data[0] = 1;
}
// So many fences, one behind the other.
extern "C" __global__ void fences(int *unused, int *data, int times) {
  for (int i = 0; i < times; i++) __threadfence();
  data[0] = 1;
}
extern "C" __global__ void block_fences(int *unused, int *data, int times) {
  for (int i = 0; i < times; i++) __threadfence_block();
  data[0] = 1;
}
// As long, as a register says.
extern "C" __global__ void asked_sleeps(int *unused, int *data, int times) {
  for (int i = 0; i < times; i++) __nanosleep(data[8] + 1000);
  data[0] = 1;
}
// Looks eight times before it goes into a loop, as the waits of libcu++ do; one of the last blocks writes.
extern "C" __global__ void unrolled(int *flag, int *data, int work) {
  if (blockIdx.x + 1 < gridDim.x) {
    if (threadIdx.x == 0) {
      volatile int *at = (volatile int*)flag;
      bool seen = false;
      #pragma unroll
      for (int i = 0; i < 8 && !seen; i++) { __threadfence(); seen = *at != 0; }
      if (!seen) while (*at == 0) ;
      atomicAdd(data, 1);
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)flag = 1 + (busy(1, work) == 5);
  }
}
// Sleeps from one look to the next once it has waited for long.
extern "C" __global__ void clocked(int *flag, int *data, int work) {
  if (blockIdx.x + 1 < gridDim.x) {
    if (threadIdx.x == 0) {
      long long begin = clock64();
      while (*(volatile int*)flag == 0) { long long passed = clock64() - begin; if (passed > 20000) __nanosleep(passed); }
      atomicAdd(data, 1);
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)flag = 1 + (busy(1, work) == 5);
  }
}
// The way out lies in the midst of the loop.
extern "C" __global__ void midst(int *flag, int *data, int work) {
  if (blockIdx.x + 1 < gridDim.x) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; i++) {
        while (true) {
          int seen = *(volatile int*)flag;
          if (seen > i) break;
          __nanosleep(data[8]);
        }
        atomicAdd(data, 1 - i);
      }
    }
  } else if (threadIdx.x == 0) {
    *(volatile int*)flag = 1 + (busy(1, work) == 5);
    __threadfence();
    *(volatile int*)flag = 2;
  }
}
// Reads a word often; what other SMs have written meanwhile is to be seen behind each fence, or not.
extern "C" __global__ void acquires(int *place, int *data, int times) {
  int sum = 0;
  for (int i = 0; i < times; i++) { sum += place[threadIdx.x & 1]; __threadfence(); }
  data[0] = sum + 1;
}
extern "C" __global__ void block_acquires(int *place, int *data, int times) {
  int sum = 0;
  for (int i = 0; i < times; i++) { sum += place[threadIdx.x & 1]; __threadfence_block(); }
  data[0] = sum + 1;
}
// Nobody writes: the second block waits for ever.
extern "C" __global__ void forgotten(int *flag, int *data, int work) {
  if (blockIdx.x && threadIdx.x == 0) while (*(volatile int*)flag == 0) ;
}
// Reads the same again and again, and counts: nobody waits here.
extern "C" __global__ void reads(int *place, int *data, int times) {
  int sum = 0;
  for (int i = 0; i < times; i++) sum += *(volatile int*)place;
  data[0] = sum + gridDim.x - 1;
}
"""
#: What ``data[0]`` holds in the end, by the blocks of the launch.
EXPECTED = {
    "spin": lambda blocks: blocks,
    "exchange": lambda blocks: blocks,
    "ticket": lambda blocks: blocks,
    "flags": lambda blocks: blocks - 1,
    "late": lambda blocks: blocks - 1,
    "votes": lambda blocks: blocks,
    "barrier": lambda blocks: blocks,
    "fixup": lambda blocks: blocks - 1,
    "inside": lambda blocks: blocks,
    "tries": lambda blocks: blocks - 1,
    "both": lambda blocks: blocks - 1,
    "states": lambda blocks: blocks - 1,
    "bag": lambda blocks: blocks - 1,
    "inner": lambda blocks: 4 * blocks,
    "unrolled": lambda blocks: blocks - 1,
    "clocked": lambda blocks: blocks - 1,
    "midst": lambda blocks: blocks - 1,
    "mutex": lambda blocks: blocks,
    "late_flags": lambda blocks: blocks - 1,
    **dict.fromkeys(("block_cas", "block_exchange"), lambda blocks: 3 * blocks),
    **dict.fromkeys(("block_flag", "block_both"), lambda blocks: blocks),
    **dict.fromkeys(("ring", "handoff"), lambda blocks: 1),
}
#: Kernels in which nobody waits.
NOT_WAITING = {
    "reads": lambda blocks: blocks - 1,
    "gives_up": lambda blocks: blocks,
    "queue": lambda blocks: 24,
    "sleeps": lambda blocks: 1,
    "asked_sleeps": lambda blocks: 1,
    "acquires": lambda blocks: 1,
    "block_acquires": lambda blocks: 1,
    "fences": lambda blocks: 1,
    "block_fences": lambda blocks: 1,
    "counted": lambda blocks: 1,
}

#: Kernels in which the threads of a block, 40, take turns one by one, and how often each has its turn.
BETWEEN_LANES = {"lanes": 1, "lanes_sleep": 1, "lanes_twice": 2, "lanes_shared": 1, "lanes_token": 1}


@cache
def _built(gpu: str) -> bytes:
    """The cubin of all of them."""
    kernel, word = gpusim.cuda_cpp(SOURCE + WAITING_SOURCE, "spin"), np.zeros(1, np.int32)
    return front_end_of(kernel).compile(kernel, (word, word, np.int32(0)), make_target(gpu).capability).cubin


def capture_polling(name: str, blocks: int = 6, work: int = 10, gpu: str = "sm_90", cooperative: bool = False) -> Trace:
    """A trace of kernel ``name``; raises AssertionError if its result is wrong."""
    words, data = np.zeros(64, np.int32), np.zeros(64, np.int32)
    turns = BETWEEN_LANES.get(name)
    threads = 96 if name in WITHIN_A_BLOCK else 40 if turns else 64
    kernel = gpusim.cubin(_built(gpu), name, cooperative=cooperative)
    trace = gpusim.capture(kernel, blocks, threads, (words, data, np.int32(work)), gpu=gpu)
    others = EXPECTED | NOT_WAITING | dict.fromkeys((*IN_CYCLES, *IN_NS), lambda blocks: 1)
    expected = turns * threads * blocks if turns else others[name](blocks)
    assert data[0] == expected, f"{name}: {data[0]}"
    return trace
