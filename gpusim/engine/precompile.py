"""Compile the engine ahead of its first use, for instance beside a capture on another core.

Mental model: jitted functions are compiled for types, not for values, so one warp that touches memory
once makes Numba compile, and cache on disk, all that any simulation needs::

    python -m gpusim.engine.precompile [--first]

``--first`` leaves out what only a simulation with warm caches, or of launches that overlap, needs: somebody waits for a
first result.
"""

from __future__ import annotations

import sys

import numpy as np

from gpusim.engine.gpu import simulate
from gpusim.engine.graph import gpu_graph
from gpusim.engine.machine import Machine
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import (
    ACCESS,
    INSTRUCTION,
    NO_BARRIER,
    RUN,
    WARP,
    WARP_LANES,
    Chunk,
    Flag,
    Launch,
    MemoryKind,
    PipeClass,
    Program,
    Space,
    Trace,
)


def one_load(capability: tuple[int, int]) -> Trace:
    """A launch of one warp: a load, and an EXIT that waits for it."""
    code = np.zeros(2, INSTRUCTION)
    code["write_barrier"] = code["read_barrier"] = NO_BARRIER
    code["stall_cycles"] = 2
    code[0]["pipe"], code[0]["memory_kind"], code[0]["space"] = PipeClass.LSU, MemoryKind.LOAD, Space.GLOBAL
    code[0]["access_bytes"], code[0]["records"], code[0]["write_barrier"] = 4, 1, 0
    code[1]["pipe"], code[1]["wait_mask"], code[1]["flags"] = PipeClass.BRANCH, 1, Flag.EXIT
    lanes = (1 << WARP_LANES) - 1
    chunk = Chunk(
        first_block=0,
        blocks=1,
        warps=np.zeros(1, WARP),
        runs=np.array([(0, 2, lanes)], RUN),
        path_start=np.array([0, 1], np.int64),
        accesses=np.array([(1 << 30, 4, lanes)], ACCESS),
        scattered=np.zeros((0, WARP_LANES), np.uint64),
    )
    chunk.warps["access_count"] = 1
    launch = Launch(
        kernel="one_load", capability=capability, grid=(1, 1, 1), block=(WARP_LANES, 1, 1), registers_per_thread=8,
        shared_bytes=0, local_bytes=0, cubin_sha256="",
    )  # fmt: skip
    return Trace(Program(code, ("LDG", "EXIT")), launch, [chunk])


def precompile(gpu: str = "h200", warm: bool = True) -> None:
    """Run :func:`one_load` from cold caches, so that it goes all the way to DRAM; ``warm`` an L2 with it too, and run a
    chain of two."""
    spec = load_gpu(gpu)
    trace = one_load(spec.capability)
    simulate(trace, spec)
    if warm:
        simulate(trace, spec, warm=trace)
        with Machine(gpu_graph(spec)) as machine:
            machine.launch_chain([trace, trace])


if __name__ == "__main__":
    precompile(warm="--first" not in sys.argv[1:])
