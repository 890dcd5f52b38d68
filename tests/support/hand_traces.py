"""Traces written by hand: a few instructions, the addresses one wants, no compiler in between.

Mental model: :class:`Asm` collects instructions and, for memory instructions, a function from (block, warp)
to the addresses; :func:`build` repeats that one straight path for every warp of a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpusim.engine.result import Result
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import (
    ACCESS,
    INSTRUCTION,
    RUN,
    SCATTERED,
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

FULL = 0xFFFFFFFF
#: (block, warp) -> lane 0's address and the lane stride, or 32 addresses
Addresses = Callable[[int, int], "tuple[int, int] | np.ndarray"]


class Asm:
    """A straight-line program in the making."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.addresses: list[tuple[int, Addresses, int]] = []

    def op(self, pipe: PipeClass, stall: int = 1, **fields: int | tuple[int, ...]) -> Asm:
        """Append an instruction; ``fields`` are INSTRUCTION's."""
        row = {"pipe": pipe, "stall_cycles": stall, "write_barrier": 7, "read_barrier": 7, "line": len(self.rows) + 1}
        self.rows.append(row | fields)
        return self

    def memory(
        self, kind: MemoryKind, space: Space, width: int, addresses: Addresses, mask: int = FULL, stall: int = 1,
        **fields: Any,
    ) -> Asm:  # fmt: skip
        """Append a memory instruction with one access record."""
        self.addresses.append((len(self.rows), addresses, mask))
        return self.op(PipeClass.LSU, stall, memory_kind=kind, space=space, access_bytes=width, records=1, **fields)

    def load(self, addresses: Addresses, width: int = 4, barrier: int = 0, **fields: int | tuple[int, ...]) -> Asm:
        """Append a global load."""
        return self.memory(MemoryKind.LOAD, Space.GLOBAL, width, addresses, write_barrier=barrier, **fields)

    def store(self, addresses: Addresses, width: int = 4, **fields: int | tuple[int, ...]) -> Asm:
        """Append a global store."""
        return self.memory(MemoryKind.STORE, Space.GLOBAL, width, addresses, **fields)

    def exit(self, **fields: int | tuple[int, ...]) -> Asm:
        """Append EXIT."""
        return self.op(PipeClass.BRANCH, 5, flags=int(Flag.EXIT), **fields)


def build(
    asm: Asm,
    blocks: int = 1,
    threads: int = 32,
    capability: tuple[int, int] = (9, 0),
    shared_bytes: int = 0,
    blocks_per_chunk: int = 64,
    registers: int = 32,
    mask: int = FULL,
    name: str = "by_hand",
) -> Trace:
    """Every warp of the grid runs the whole program once, with active lanes ``mask``."""
    instructions = np.zeros(len(asm.rows), INSTRUCTION)
    instructions["destination"] = -1
    instructions["sources"] = -1
    for i, row in enumerate(asm.rows):
        instructions[i]["address"] = 16 * i
        for name_, value in row.items():
            instructions[i][name_] = value if isinstance(value, tuple) else int(value)
    program = Program(instructions, tuple(f"instruction {i}" for i in range(len(asm.rows))))
    launch = Launch(
        kernel=name, capability=capability, grid=(blocks, 1, 1), block=(threads, 1, 1), registers_per_thread=registers,
        shared_bytes=shared_bytes, local_bytes=0, cubin_sha256="0" * 64,
    )  # fmt: skip
    chunks = []
    per_block = launch.warps_per_block
    for first in range(0, blocks, blocks_per_chunk):
        n = min(blocks_per_chunk, blocks - first)
        accesses, scattered = [], []
        warps = np.zeros(n * per_block, WARP)
        for b in range(n):
            for w in range(per_block):
                row = warps[b * per_block + w]
                row["access_start"] = len(accesses)
                row["access_count"] = len(asm.addresses)
                for _, where, lanes in asm.addresses:
                    value = where(first + b, w)
                    if isinstance(value, tuple):
                        accesses.append((value[0], value[1], lanes))
                    else:
                        accesses.append((len(scattered), SCATTERED, lanes))
                        scattered.append(np.asarray(value, np.uint64))
        runs = np.array([(0, len(asm.rows), mask)], RUN)
        chunks.append(
            Chunk(
                first,
                n,
                warps,
                runs,
                np.array([0, 1], np.int64),
                np.array(accesses, ACCESS),
                np.array(scattered, np.uint64).reshape(-1, 32),
            )
        )
    return Trace(program, launch, chunks)


def small_gpu(sm_count: int = 3, **changes: object) -> GpuSpec:
    """An H200 with few SMs, no launch overhead, no TLB misses, and caches that never lack code or constants.
    ``changes`` are sections' fields as ``l1__ways=2``, or a pipe's as ``fma__interval_cycles=2``."""
    spec = load_gpu("h200")
    sections: dict[str, dict] = {
        "launch": {"start_cycles": 200, "end_cycles": 0},
        "instruction_cache": {"l0_miss_cycles": 0, "l15_hit_cycles": 0, "l1_miss_cycles": 0, "l1_interval_cycles": 0},
        "constant_cache": {"miss_cycles": 0},
        "tlb": {"miss_ns": 0.0},
    }
    pipes = dict(spec.pipes)
    for name, value in changes.items():
        section, key = name.split("__", 1)
        if section in pipes:
            pipes[section] = replace(pipes[section], **{key: value})
        else:
            sections.setdefault(section, {})[key] = value
    parts = {section: replace(getattr(spec, section), **values) for section, values in sections.items()}
    return replace(spec, name="small", sm_count=sm_count, pipes=pipes, **parts)


def run_cycles(result: Result) -> int:
    """Cycles from the first block's start to the end, on a :func:`small_gpu`."""
    return result.cycles - result.spec.launch.start_cycles
