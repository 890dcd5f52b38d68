"""Small consistent traces, drawn by Hypothesis or fixed; what they mean does not matter, only that the
trace contract holds. Imports the contract alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from gpusim.trace.record import (
    ACCESS,
    INSTRUCTION,
    NO_BARRIER,
    RUN,
    SCATTERED,
    WARP,
    Chunk,
    Launch,
    MemoryKind,
    PipeClass,
    Program,
    Space,
    Trace,
)


def example_trace(
    blocks: int = 5,
    block_threads: int = 64,
    instructions: int = 6,
    blocks_per_chunk: int = 2,
    loads: Sequence[int] = (1, 3),
    paths: int = 2,
    seed: int = 0,
) -> Trace:
    """A trace of random paths; ``loads`` are the indices of instructions that access memory."""
    rng = np.random.default_rng(seed)
    code = np.zeros(instructions, INSTRUCTION)
    code["address"] = np.arange(instructions) * 16
    code["pipe"] = PipeClass.ALU
    code["write_barrier"] = code["read_barrier"] = NO_BARRIER
    code["destination"] = -1
    code["sources"] = -1
    code["file"] = -1
    code["stall_cycles"] = rng.integers(1, 15, instructions)
    for index in loads:
        row = index % instructions
        code[row]["pipe"], code[row]["memory_kind"] = PipeClass.LSU, MemoryKind.LOAD
        code[row]["space"], code[row]["access_bytes"], code[row]["records"] = Space.GLOBAL, 4, 1
    program = Program(code, tuple(f"OP{i} R{i}" for i in range(instructions)), ("kernel.py",))
    launch = Launch(
        kernel="example",
        capability=(9, 0),
        grid=(blocks, 1, 1),
        block=(block_threads, 1, 1),
        registers_per_thread=32,
        shared_bytes=0,
        local_bytes=0,
        cubin_sha256="0" * 64,
        gpu="h200",
        allocations=((0x7F0000000000, 4096),),
    )
    chunks = [
        _chunk(rng, code, launch, first, min(blocks_per_chunk, blocks - first), paths)
        for first in range(0, blocks, blocks_per_chunk)
    ]
    return Trace(program, launch, chunks)


def _chunk(rng, code, launch: Launch, first: int, blocks: int, paths: int) -> Chunk:
    runs, starts, records = [], [0], []
    for _ in range(paths):
        needed = 0
        for _ in range(rng.integers(1, 4)):
            start = int(rng.integers(0, len(code)))
            count = int(rng.integers(1, len(code) - start + 1))
            runs.append((start, count, int(rng.integers(1, 2**32))))
            needed += int(code["records"][start : start + count].sum())
        starts.append(len(runs))
        records.append(needed)
    warps = np.zeros(blocks * launch.warps_per_block, WARP)
    warps["path"] = rng.integers(0, paths, len(warps))
    warps["access_count"] = np.array(records)[warps["path"]]
    warps["access_start"] = np.concatenate(([0], np.cumsum(warps["access_count"])[:-1]))
    accesses = np.zeros(int(warps["access_count"].sum()), ACCESS)
    accesses["address"] = 0x7F0000000000 + rng.integers(0, 1024, len(accesses)) * 4
    accesses["stride"] = rng.integers(-8, 9, len(accesses))
    accesses["mask"] = rng.integers(0, 2**32, len(accesses), dtype=np.uint32)
    scattered = rng.integers(0, 2**40, (2, 32)).astype("<u8")
    if len(accesses):
        accesses["stride"][0], accesses["address"][0] = SCATTERED, 1
    return Chunk(first, blocks, warps, np.array(runs, RUN), np.array(starts, "<i8"), accesses, scattered)


def traces() -> st.SearchStrategy[Trace]:
    """Consistent traces of up to a few dozen warps."""
    return st.builds(
        example_trace,
        blocks=st.integers(1, 9),
        block_threads=st.sampled_from([1, 32, 33, 96]),
        instructions=st.integers(1, 12),
        blocks_per_chunk=st.integers(1, 4),
        loads=st.lists(st.integers(0, 11), max_size=3).map(tuple),
        paths=st.integers(1, 3),
        seed=st.integers(0, 2**16),
    )


def assert_same_trace(left: Trace, right: Trace) -> None:
    """Both hold the same program, launch and chunks."""
    np.testing.assert_array_equal(left.program.instructions, right.program.instructions)
    assert (left.program.texts, left.program.files) == (right.program.texts, right.program.files)
    assert left.launch == right.launch
    ours, theirs = list(left.chunks()), list(right.chunks())
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.first_block, a.blocks) == (b.first_block, b.blocks)
        for name in ("warps", "runs", "path_start", "accesses", "scattered", "bulks"):
            one, other = getattr(a, name), getattr(b, name)
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_array_equal(one, other)
            assert other.flags.writeable


def in_parts(trace: Trace, seed: int) -> list[Chunk]:
    """The chunks of a trace, each cut into parts at random runs: every block but those that ended goes on."""
    rng = np.random.default_rng(seed)
    records = trace.program.instructions["records"].astype(int)
    out = []
    for chunk in trace.chunk_list:
        per_block = trace.launch.warps_per_block
        paths = [chunk.runs[a:b] for a, b in zip(chunk.path_start, chunk.path_start[1:], strict=False)]
        position = np.zeros(len(chunk.warps), int)
        start = chunk.warps["access_start"].astype(int)
        ended = 0
        while ended < chunk.blocks:
            last = rng.integers(0, 3) == 0
            warps, runs, path_start, accesses = [], [], [0], []
            for warp in range(ended * per_block, len(chunk.warps)):
                mine = paths[chunk.warps["path"][warp]]
                end = len(mine) if last else rng.integers(position[warp], len(mine) + 1)
                taken = mine[position[warp] : end]
                count = sum(int(records[run["first"] : run["first"] + run["count"]].sum()) for run in taken)
                warps.append((len(path_start) - 1, count, sum(map(len, accesses))))
                runs.append(taken)
                path_start.append(path_start[-1] + len(taken))
                accesses.append(chunk.accesses[start[warp] : start[warp] + count])
                position[warp] = end
                start[warp] += count
            done = ended
            left = np.array([position[w] < len(paths[chunk.warps["path"][w]]) for w in range(len(position))])
            while done < chunk.blocks and not left[done * per_block : (done + 1) * per_block].any():
                done += 1
            if done < chunk.blocks and rng.integers(0, 2):
                done = max(ended, done - 1)  # a block may also end with an empty part
            out.append(
                Chunk(
                    chunk.first_block + ended,
                    chunk.blocks - ended,
                    np.array(warps, WARP),
                    np.concatenate(runs),
                    np.array(path_start, "<i8"),
                    np.concatenate(accesses),
                    chunk.scattered,
                    chunk.blocks - done,
                )
            )
            ended = done
    return out
