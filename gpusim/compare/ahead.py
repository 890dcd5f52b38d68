"""Compiling ahead: both jitted halves of gpusim at once, each in a process of its own.

Mental model: on a machine that has never run gpusim, the emulator and the engine each take half a
minute to compile, and the result is cached on disk. Neither needs the other, so two processes do it
side by side. Each runs the smallest thing that reaches all of its half: a one-block capture, and the
simulation of a hand-made trace of one load and one exit.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.gpu import simulate
from gpusim.gpus.spec import GpuSpec
from gpusim.suite import capture_case, make_case
from gpusim.trace.record import (
    ACCESS,
    INSTRUCTION,
    NO_BARRIER,
    RUN,
    WARP,
    Chunk,
    Flag,
    Launch,
    MemoryKind,
    PipeClass,
    Program,
    Space,
    Trace,
)

ADDRESS = 0x7F0000000000


def compile_emulator(gpu: GpuSpec) -> None:
    """Make sure that the emulator's compiled code is in the cache."""
    capture_case(make_case("saxpy", {}, gpu, small=True), gpu)


def compile_engine(gpu: GpuSpec) -> None:
    """Make sure that the compiled code of engine, model and functional warming is in the cache."""
    trace = tiny_trace(gpu)
    simulate(trace, gpu, warm=[trace], threads=1)


def tiny_trace(gpu: GpuSpec) -> Trace:
    """One block of one warp for ``gpu``: a load of 32 words, then the exit."""
    code = np.zeros(2, INSTRUCTION)
    code["address"] = 0, 16
    code["write_barrier"] = 0, NO_BARRIER
    code["read_barrier"] = NO_BARRIER
    code["stall_cycles"] = 4
    code["wait_mask"] = 0, 1
    code["destination"] = -1
    code["sources"] = -1
    code["file"] = -1
    code["pipe"] = PipeClass.LSU, PipeClass.BRANCH
    code["flags"] = 0, Flag.EXIT
    code["memory_kind"][0], code["space"][0] = MemoryKind.LOAD, Space.GLOBAL
    code["access_bytes"][0], code["records"][0] = 4, 1
    launch = Launch(
        kernel="tiny",
        capability=gpu.capability,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        registers_per_thread=16,
        shared_bytes=0,
        local_bytes=0,
        cubin_sha256="",
        allocations=((ADDRESS, 128),),
    )
    lanes = 2**32 - 1
    chunk = Chunk(
        first_block=0,
        blocks=1,
        warps=np.array([(0, 1, 0)], WARP),
        runs=np.array([(0, 2, lanes)], RUN),
        path_start=np.array([0, 1], np.int64),
        accesses=np.array([(ADDRESS, 4, lanes)], ACCESS),
        scattered=np.zeros((0, 32), np.uint64),
    )
    return Trace(Program(code, ("LDG.E R0, [R2.64]", "EXIT")), launch, [chunk])
