"""What makes a trace consistent: every index inside its array, every code one that exists.

Mental model: the engine's jitted loops index without asking, so whatever comes from outside passes
here once: on the way into a file and on the way out of it. Each check returns nothing or raises
:class:`TraceFormatError` with a sentence that names the array, the row and both numbers. The caller
puts the file's name in front. Shapes and dtypes as in :mod:`gpusim.trace.layout`.
"""

from __future__ import annotations

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.trace.layout import (
    ACCESS,
    BULK,
    BULK_KINDS,
    CLOCK_SLOTS,
    INSTRUCTION,
    MAX_SLEEP_NS,
    NO_BARRIER,
    POLL,
    RUN,
    SCATTERED,
    SIGNAL,
    TENSOR_KINDS,
    WARP,
    WARP_LANES,
    Chunk,
    Flag,
    Launch,
    MatrixType,
    MemoryKind,
    PipeClass,
    Program,
    Space,
)

#: Bytes that one lane can move: nothing, scalar and vector accesses, and the 256-bit loads of Blackwell.
ACCESS_BYTES = (0, 1, 2, 4, 8, 16, 32, 64)
#: Largest grid (x, y, z) and block (x, y, z; threads) of CUDA's compute capabilities 7.5 to 12.x
#: (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_BLOCK_THREADS = 1024
MAX_CLUSTER_BLOCKS = 16
MAX_REGISTERS = 255
#: Registers that one operand of a tensor-core instruction takes at most.
MAX_OPERAND_WORDS = 32
MAX_CONSTANT_BYTES = 1 << 16
#: Far above every GPU's limits; only absurd values are to be refused here.
MAX_SHARED_BYTES = 1 << 20
MAX_LOCAL_BYTES = 1 << 24
#: Rows of a box beyond any: five dimensions of 256 elements that all fit into shared memory, of 16 bytes or more a row;
#: and a stride beyond any: 2^40 bytes, times an element stride of 8 and as far as a box reaches.
MAX_BULK_ROWS, MAX_BULK_STRIDE = 1 << 24, 1 << 52
MAX_SWIZZLE = 6
#: dtype, number of dimensions and inner size of each array of a chunk, in the order of the fields.
CHUNK_ARRAYS = {
    "warps": (WARP, None),
    "runs": (RUN, None),
    "path_start": (np.dtype("<i8"), None),
    "accesses": (ACCESS, None),
    "scattered": (np.dtype("<u8"), WARP_LANES),
    "polls": (POLL, None),
    "signals": (SIGNAL, None),
    "bulks": (BULK, None),
}


def refuse(message: str) -> TraceFormatError:
    """The error to raise for an inconsistency that ``message`` describes."""
    return TraceFormatError(message)


def check_array(name: str, array: np.ndarray, dtype: np.dtype, inner: int | None) -> None:
    """``array`` has exactly ``dtype`` and is [n] or, with ``inner``, [n, inner]."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise refuse(f"{name} has dtype {getattr(array, 'dtype', type(array).__name__)}, not {dtype}")
    wanted = 1 if inner is None else 2
    if array.ndim != wanted or (inner is not None and array.shape[1] != inner):
        raise refuse(f"{name} has shape {array.shape}, not {'[n]' if inner is None else f'[n, {inner}]'}")


def check_launch(launch: Launch) -> None:
    """The launch's numbers are ones that some CUDA device could have."""
    for name, value, limits in (("grid", launch.grid, MAX_GRID), ("block", launch.block, MAX_BLOCK)):
        if any(not 1 <= v <= limit for v, limit in zip(value, limits, strict=True)):
            raise refuse(f"launch {name} {value} is outside 1..{limits}")
    if launch.block_threads > MAX_BLOCK_THREADS:
        raise refuse(f"launch block has {launch.block_threads} threads, more than {MAX_BLOCK_THREADS}")
    if any(part < 1 or whole % part for whole, part in zip(launch.grid, launch.cluster, strict=True)):
        raise refuse(f"launch grid {launch.grid} does not divide into clusters of {launch.cluster}")
    if launch.cluster_blocks > MAX_CLUSTER_BLOCKS:
        raise refuse(f"launch cluster has {launch.cluster_blocks} blocks, more than {MAX_CLUSTER_BLOCKS}")
    for name, limit in (
        ("registers_per_thread", MAX_REGISTERS + 1),
        ("shared_bytes", MAX_SHARED_BYTES),
        ("local_bytes", MAX_LOCAL_BYTES),
    ):
        if not 0 <= getattr(launch, name) <= limit:
            raise refuse(f"launch {name} is {getattr(launch, name)}, outside 0..{limit}")
    if any(base < 0 or size < 0 or base + size > 2**64 for base, size in launch.allocations):
        raise refuse("launch allocations leave the 64-bit address space")


def check_program(program: Program) -> None:
    """Every field of every instruction has a value that the engine knows."""
    code = program.instructions
    check_array("instructions", code, INSTRUCTION, None)
    if not len(code):
        raise refuse("the program has no instruction")
    if len(program.texts) != len(code):
        raise refuse(f"{len(program.texts)} SASS texts for {len(code)} instructions")
    flags = np.bitwise_or.reduce([int(flag) for flag in Flag])
    allowed = {
        "pipe": [int(p) for p in PipeClass],
        "memory_kind": [int(k) for k in MemoryKind],
        "matrix_type": [int(t) for t in MatrixType],
        "space": [int(s) for s in Space],
        "access_bytes": list(ACCESS_BYTES),
        "records": [0, 1, 2],
        "yield_hint": [0, 1],
        "write_barrier": [0, 1, 2, 3, 4, 5, NO_BARRIER],
        "read_barrier": [0, 1, 2, 3, 4, 5, NO_BARRIER],
    }
    for name, values in allowed.items():
        _check_rows(name, code[name], np.isin(code[name], values))
    ranges = {
        "stall_cycles": (0, 255),
        "wait_mask": (0, 63),
        "depbar_index": (0, 7),
        "depbar_level": (0, 63),
        "barrier_id": (0, 255),
        "barrier_threads": (0, MAX_BLOCK_THREADS),
        "constant_bytes": (0, 16),
        "destination": (-1, MAX_REGISTERS),
        "file": (-1, len(program.files) - 1),
        "line": (0, 2**31 - 1),
        "matrix_macs": (0, 2**24),
    }
    for name, (low, high) in ranges.items():
        values = code[name].astype(np.int64)
        _check_rows(name, values, (values >= low) & (values <= high))
    offsets: np.ndarray = code["constant_offset"].astype(np.int64)
    most: np.ndarray = np.where(code["flags"] & int(Flag.SLEEP), MAX_SLEEP_NS, MAX_CONSTANT_BYTES)
    most[(code["flags"] & int(Flag.CLOCK)) != 0] = (1 << CLOCK_SLOTS) - 1
    waits: np.ndarray = (code["flags"] & int(Flag.CLOCK_WAIT)) != 0
    most[waits] = 2 * CLOCK_SLOTS - 1
    _check_rows("constant_offset", offsets, offsets <= most)
    _check_rows("records", code["records"], ~waits | (code["records"] == 1))
    _check_rows("flags", code["flags"], (code["flags"].astype(np.int64) & ~int(flags)) == 0)
    sources = code["sources"]
    _check_rows("sources", sources, ((sources >= -1) & (sources <= MAX_REGISTERS)).all(axis=1))
    _check_rows("source_words", code["source_words"], (code["source_words"] <= MAX_OPERAND_WORDS).all(axis=1))
    loads = (code["records"] > 0) & (code["access_bytes"] == 0)
    _check_rows("access_bytes", code["access_bytes"], ~loads)


def check_chunk(chunk: Chunk, launch: Launch, program: Program, expected_block: int, open_before: int = 0) -> None:
    """The chunk starts at ``expected_block``, has the ``open_before`` blocks that the one before left open,
    stays inside the grid, and all its indices are valid."""
    where = f"chunk at block {chunk.first_block}"
    for name, (dtype, inner) in CHUNK_ARRAYS.items():
        check_array(f"{where}: {name}", getattr(chunk, name), dtype, inner)
    if chunk.first_block != expected_block:
        raise refuse(f"{where} follows where block {expected_block} should")
    if chunk.blocks < 1 or chunk.first_block + chunk.blocks > launch.blocks:
        raise refuse(f"{where} has {chunk.blocks} blocks of a grid of {launch.blocks}")
    if chunk.blocks < open_before:
        raise refuse(f"{where} has {chunk.blocks} of the {open_before} blocks that the chunk before left open")
    if not 0 <= chunk.open_blocks <= chunk.blocks:
        raise refuse(f"{where} leaves {chunk.open_blocks} of its {chunk.blocks} blocks open")
    warps, runs, start = chunk.warps, chunk.runs, chunk.path_start
    if len(warps) != chunk.blocks * launch.warps_per_block:
        raise refuse(f"{where} has {len(warps)} warps, not {chunk.blocks} x {launch.warps_per_block}")
    if len(start) < 2 or start[0] != 0 or start[-1] != len(runs) or (np.diff(start) < 0).any():
        raise refuse(f"{where}: path_start does not divide the {len(runs)} runs")
    code = program.instructions
    first, count = runs["first"].astype(np.int64), runs["count"].astype(np.int64)
    if ((count < 1) | (first + count > len(code))).any():
        raise refuse(f"{where}: a run leaves the {len(code)} instructions")
    paths = warps["path"].astype(np.int64)
    if (paths >= len(start) - 1).any():
        raise refuse(f"{where}: a warp names path {paths.max()} of {len(start) - 1}")
    _check_accesses(chunk, where, records_by_path(runs, start, code)[paths])
    _check_polls(chunk, where)
    _check_signals(chunk, where, launch)
    _check_bulks(chunk, where)


def _check_polls(chunk: Chunk, where: str) -> None:
    """Each round of polling lies inside one path, behind a run of it, and they do not overlap."""
    first = chunk.polls["run"].astype(np.int64)
    end = first + chunk.polls["runs"]
    if not len(first):
        return
    if (end <= first).any() or (first[1:] < end[:-1]).any() or end[-1] > len(chunk.runs):
        raise refuse(f"{where}: the {len(first)} rounds of polling are no stretches of its {len(chunk.runs)} runs")
    path = np.searchsorted(chunk.path_start, first, side="right") - 1
    if (end > chunk.path_start[path + 1]).any():
        raise refuse(f"{where}: a round of polling leaves its path")


def _check_signals(chunk: Chunk, where: str, launch: Launch) -> None:
    """Signals are of accesses of the chunk, in their order, and name warps of the launch."""
    signals = chunk.signals
    if not len(signals):
        return
    access = signals["access"].astype(np.int64)
    if (np.diff(access) < 0).any() or access[-1] >= len(chunk.accesses):
        raise refuse(f"{where}: signals are not in the order of its {len(chunk.accesses)} accesses")
    if (signals["polls"] > 1).any() or (signals["count"] < 1).any():
        raise refuse(f"{where}: a signal neither writes nor polls a word")
    if (signals["block"] >= launch.blocks).any() or (signals["warp"] >= launch.warps_per_block).any():
        raise refuse(f"{where}: a signal names a warp outside the grid of {launch.blocks} blocks")


def _check_bulks(chunk: Chunk, where: str) -> None:
    """Boxes are of accesses of the chunk, in their order, and lie in the address space and in a block's shared
    memory."""
    bulks = chunk.bulks
    if not len(bulks):
        return
    access = bulks["access"].astype(np.int64)
    if (np.diff(access) < 0).any() or access[-1] >= len(chunk.accesses):
        raise refuse(f"{where}: bulk copies are not in the order of its {len(chunk.accesses)} accesses")
    if not np.isin(bulks["kind"], [int(kind) for kind in BULK_KINDS]).all() or (bulks["swizzle"] > MAX_SWIZZLE).any():
        raise refuse(f"{where}: a bulk copy is of a kind that does not exist")
    counts, strides = bulks["count"].astype(np.float64), bulks["stride"].astype(np.float64)
    some = counts.any(axis=1)
    rows = counts.prod(axis=1)
    if (some != (rows > 0)).any() or (rows > MAX_BULK_ROWS).any() or (np.abs(strides) > MAX_BULK_STRIDE).any():
        raise refuse(f"{where}: a bulk copy has {bulks['count'].tolist()} rows, more than fit or of no extent")
    moved = bulks["bytes"].astype(np.int64)
    prefetches = bulks["kind"] == MemoryKind.BULK_PREFETCH
    products = np.isin(bulks["kind"], [int(kind) for kind in TENSOR_KINDS])
    filled = np.where(products, 0, rows.astype(np.int64) * bulks["row_bytes"])
    within = bulks["shared"].astype(np.int64) + np.maximum(moved, filled)
    if (some != (bulks["row_bytes"] > 0)).any() or (within[~prefetches] > MAX_SHARED_BYTES).any():
        raise refuse(f"{where}: a bulk copy leaves {MAX_SHARED_BYTES} bytes of shared memory")
    reach = np.maximum(counts - 1, 0) * strides
    first = bulks["address"].astype(np.float64)
    low, high = first + np.minimum(reach, 0).sum(axis=1), first + np.maximum(reach, 0).sum(axis=1)
    if (low < 0).any() or (high + bulks["row_bytes"] >= 2.0**62).any():
        raise refuse(f"{where}: a bulk copy leaves the address space")


def records_by_path(runs: np.ndarray, path_start: np.ndarray, code: np.ndarray) -> np.ndarray:
    """ACCESS records that one warp consumes on each path: int64[paths]."""
    before = np.concatenate(([0], np.cumsum(code["records"], dtype=np.int64)))
    first = runs["first"].astype(np.int64)
    by_run = before[first + runs["count"]] - before[first]
    total = np.concatenate(([0], np.cumsum(by_run)))
    return total[path_start[1:]] - total[path_start[:-1]]


def _check_accesses(chunk: Chunk, where: str, wanted: np.ndarray) -> None:
    warps, accesses = chunk.warps, chunk.accesses
    have = warps["access_count"].astype(np.int64)
    if (have != wanted).any():
        warp = int(np.flatnonzero(have != wanted)[0])
        raise refuse(f"{where}: warp {warp} has {have[warp]} accesses, its path needs {wanted[warp]}")
    # An unsigned start near 2**64 must not wrap into range when the count is added.
    start = warps["access_start"]
    if ((start > len(accesses)) | (start.astype(np.int64) + have > len(accesses))).any():
        raise refuse(f"{where}: a warp's accesses leave the {len(accesses)} recorded ones")
    scattered = accesses["stride"] == SCATTERED
    if (accesses["address"][scattered] >= len(chunk.scattered)).any():
        raise refuse(f"{where}: an access names a row beyond the {len(chunk.scattered)} scattered ones")


def _check_rows(name: str, values: np.ndarray, valid: np.ndarray) -> None:
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        raise refuse(f"instruction {row} has {name} = {values[row]}, which does not exist")
