"""A chunk as a few columns of small numbers, and back.

Mental model: everything that the reader can work out is left out (how many accesses a path consumes, where a
warp's accesses begin), everything that it can guess is stored as the error of the guess
(:mod:`gpusim.trace.predict`), lane addresses without a stride as a base and a pattern
(:mod:`gpusim.trace.patterns`). What is left is mostly zeros; each column is packed
(:mod:`gpusim.trace.varint`) and left to a general compressor.

The payload: int64[counts] in the order of :data:`COUNTS`, int64[columns] the bytes of each column, then the
columns in the order of :data:`COLUMNS`. A column of n numbers has n bytes or more, so that a payload bounds what
it unpacks to; counts are checked against :data:`MAX_ARRAY_BYTES` before anything is allocated. Raises
TraceFormatError for a payload that is inconsistent in itself; whether the chunk fits its launch is
:func:`gpusim.trace.validate.check_chunk`'s business.
"""

from __future__ import annotations

import numpy as np

from gpusim.trace.layout import (
    ACCESS,
    BULK,
    POLL,
    RUN,
    SCATTERED,
    SIGNAL,
    TRACE_VERSION,
    WARP,
    WARP_LANES,
    Chunk,
    Program,
)
from gpusim.trace.patterns import OFF, join_rows, split_rows
from gpusim.trace.predict import FINE, empty_memory, walk
from gpusim.trace.validate import records_by_path, refuse
from gpusim.trace.varint import LONGEST_BYTES, pack, unpack

#: Ceilings on each array of a chunk and on all that a chunk unpacks to; a captured one has some tens of megabytes.
MAX_ARRAY_BYTES = 256 << 20
MAX_UNPACKED_BYTES = 512 << 20
COUNTS = (
    "first_block",
    "blocks",
    "open_blocks",
    "warps",
    "paths",
    "runs",
    "accesses",
    "scattered_accesses",  # accesses whose lanes have no stride
    "rows",  # of Chunk.scattered
    "late_rows",  # those of them that no access names in order
    "patterns",
    "pattern_lanes",  # lanes that are on, over all patterns
    "polls",
    "signals",
    "bulks",
)
#: Fields of BULK records other than their accesses, those of several values by number.
_BULK_FIELDS = (
    "address", "descriptor", *(f"stride{i}" for i in range(4)), *(f"count{i}" for i in range(4)), "row_bytes", "bytes",
    "shared", "blocks", "kind", "swizzle",
)  # fmt: skip
#: Column -> the count of its numbers.
COLUMNS = {
    "path_length": "paths",
    "run_first": "runs",
    "run_count": "runs",
    "run_mask": "runs",
    "warp_path": "warps",
    "mask": "accesses",
    "stride": "accesses",
    "place": "accesses",
    "row": "scattered_accesses",
    "pattern": "scattered_accesses",
    "late_base": "late_rows",
    "late_pattern": "late_rows",
    "pattern_mask": "patterns",
    "pattern_offset": "pattern_lanes",
    "poll_run": "polls",
    "poll_runs": "polls",
    "signal_access": "signals",
    "signal_address": "signals",
    "signal_word": "signals",
    "signal_count": "signals",
    "signal_block": "signals",
    "signal_warp": "signals",
    "signal_polls": "signals",
    "bulk_access": "bulks",
    **{f"bulk_{name}": "bulks" for name in _BULK_FIELDS},
}
#: The first versions of trace files that record polling and bulk copies, and the counts that they brought.
_SINCE = {"polls": 5, "signals": 5, "bulks": 7}
_BYTES_OF = {
    "warps": WARP.itemsize,
    "paths": 8,
    "runs": RUN.itemsize,
    "accesses": ACCESS.itemsize,
    "rows": 8 * WARP_LANES,
    "patterns": 8 * WARP_LANES,
    "polls": POLL.itemsize,
    "signals": SIGNAL.itemsize,
    "bulks": BULK.itemsize,
}
#: Counts that others bound: (the smaller, times what, the larger).
_SIGNAL_FIELDS = ("address", "word", "count", "block", "warp", "polls")
_WITHIN = (
    ("scattered_accesses", 1, "accesses"),
    ("late_rows", 1, "rows"),
    ("pattern_lanes", WARP_LANES, "patterns"),
)
_LANES = np.arange(WARP_LANES, dtype=np.int64)


def encode_chunk(chunk: Chunk, program: Program) -> bytes:
    """The payload of ``chunk``, which must be consistent (:func:`check_chunk`)."""
    accesses = in_order(chunk)
    if accesses is not chunk.accesses and len(chunk.signals) + len(chunk.bulks):
        raise refuse(
            f"chunk at block {chunk.first_block}: its accesses do not lie warp after warp, but have signals or bulk copies"
        )
    base, pattern, patterns = split_rows(chunk.scattered)
    fields = [accesses[name].astype(np.int64) for name in ("address", "stride", "mask")]
    n = len(accesses)
    scattered_accesses = int((accesses["stride"] == SCATTERED).sum())
    d_mask, d_stride, d_place = (np.empty(n, np.int64) for _ in range(3))
    d_row, d_pattern = (np.empty(scattered_accesses, np.int64) for _ in range(2))
    paths = chunk.warps["path"].astype(np.int64)
    _, in_order_rows = _walk(
        False, program, paths, chunk.path_start, chunk.runs, fields, base, pattern,
        (d_mask, d_stride, d_place, d_row, d_pattern),
    )  # fmt: skip
    first, count = chunk.runs["first"].astype(np.int64), chunk.runs["count"].astype(np.int64)
    on = patterns != OFF
    columns = {
        "path_length": np.diff(chunk.path_start),
        "run_first": first - np.concatenate(([0], (first + count)[:-1])),
        "run_count": count,
        "run_mask": _xor_previous(chunk.runs["mask"].astype(np.int64)),
        "warp_path": np.diff(paths, prepend=0),
        "mask": d_mask,
        "stride": d_stride,
        "place": d_place,
        "row": d_row,
        "pattern": d_pattern,
        "late_base": np.diff(base[in_order_rows:], prepend=0),
        "late_pattern": pattern[in_order_rows:],
        "pattern_mask": (on << _LANES).sum(axis=1, dtype=np.int64),
        "pattern_offset": _lane_steps(patterns, on),
    }
    columns |= {
        "poll_run": np.diff(chunk.polls["run"].astype(np.int64), prepend=0),
        "poll_runs": chunk.polls["runs"].astype(np.int64),
        "signal_access": np.diff(chunk.signals["access"].astype(np.int64), prepend=0),
        **{f"signal_{name}": np.diff(chunk.signals[name].astype(np.int64), prepend=0) for name in _SIGNAL_FIELDS},
        "bulk_access": np.diff(chunk.bulks["access"].astype(np.int64), prepend=0),
        **{
            f"bulk_{name}": np.diff(_bulk_field(chunk.bulks, name).astype(np.int64), prepend=0) for name in _BULK_FIELDS
        },
    }
    counts = {
        "first_block": chunk.first_block,
        "blocks": chunk.blocks,
        "open_blocks": chunk.open_blocks,
        "warps": len(chunk.warps),
        "paths": len(chunk.path_start) - 1,
        "runs": len(chunk.runs),
        "accesses": n,
        "scattered_accesses": scattered_accesses,
        "rows": len(base),
        "late_rows": len(base) - in_order_rows,
        "patterns": len(patterns),
        "pattern_lanes": int(on.sum()),
        "polls": len(chunk.polls),
        "signals": len(chunk.signals),
        "bulks": len(chunk.bulks),
    }
    _check_sizes(counts)
    packed = [pack(columns[name]) for name in COLUMNS]
    prefix = [counts[name] for name in COUNTS] + [len(column) for column in packed]
    return b"".join([np.array(prefix, "<i8").tobytes(), *packed])


def decode_chunk(payload: bytes | bytearray | memoryview, program: Program, version: int = TRACE_VERSION) -> Chunk:
    """The chunk of a payload as trace files of ``version`` hold it; its indices into its own arrays are checked, its
    place in a launch is not."""
    data = np.frombuffer(payload, np.uint8)
    held_counts = [name for name in COUNTS if version >= _SINCE.get(name, 0)]
    held = {name: count for name, count in COLUMNS.items() if count in held_counts}
    before = 8 * (len(held_counts) + len(held))
    if len(data) < before:
        raise refuse(f"a chunk of {len(data)} bytes is too short for its {before} bytes of counts")
    prefix = data[:before].view("<i8")
    counts = dict.fromkeys(COUNTS, 0) | {name: int(value) for name, value in zip(held_counts, prefix, strict=False)}
    lengths = [int(value) for value in prefix[len(held_counts) :]]
    if min(*counts.values(), *lengths) < 0 or sum(lengths) != len(data) - before:
        raise refuse("the columns of a chunk do not make up its bytes")
    _check_sizes(counts)
    _check_columns(held, counts, lengths)
    columns, place = dict.fromkeys(COLUMNS, np.zeros(0, np.int64)), before
    for (name, count), length in zip(held.items(), lengths, strict=True):
        columns[name] = unpack(data[place : place + length], counts[count], name)
        place += length
    path_start = np.concatenate(([0], np.cumsum(columns["path_length"])))
    runs = _runs(columns)
    paths = np.cumsum(columns["warp_path"])
    _check_paths(counts, columns, path_start, runs, paths, len(program.instructions))
    warps = np.empty(len(paths), WARP)
    wanted = records_by_path(runs, path_start, program.instructions)[paths]
    if int(wanted.sum()) != counts["accesses"] or (wanted > 0xFFFFFFFF).any():
        raise refuse(f"a chunk holds {counts['accesses']} accesses, its paths need {int(wanted.sum())}")
    warps["path"], warps["access_count"] = paths, wanted
    warps["access_start"] = np.cumsum(wanted) - wanted
    accesses, scattered = _accesses(counts, columns, program, paths, path_start, runs)
    return Chunk(
        first_block=counts["first_block"],
        blocks=counts["blocks"],
        warps=warps,
        runs=runs,
        path_start=path_start,
        accesses=accesses,
        scattered=scattered,
        open_blocks=counts["open_blocks"],
        polls=_records(POLL, run=np.cumsum(columns["poll_run"]), runs=columns["poll_runs"]),
        signals=_records(
            SIGNAL,
            access=np.cumsum(columns["signal_access"]),
            **{name: np.cumsum(columns[f"signal_{name}"]) for name in _SIGNAL_FIELDS},
        ),
        bulks=_bulks(columns),
    )


def _bulk_field(bulks: np.ndarray, name: str) -> np.ndarray:
    """The values of one of :data:`_BULK_FIELDS`, as a view."""
    return bulks[name] if name in bulks.dtype.fields else bulks[name[:-1]][:, int(name[-1])]


def _bulks(columns: dict[str, np.ndarray]) -> np.ndarray:
    made = np.zeros(len(columns["bulk_access"]), BULK)
    for name in ("access", *_BULK_FIELDS):
        _fill(_bulk_field(made, name), np.cumsum(columns[f"bulk_{name}"]), name)
    return made


def _records(dtype: np.dtype, **columns: np.ndarray) -> np.ndarray:
    """An array of ``dtype`` from its fields int64[n], each of which must hold what is there."""
    made = np.empty(len(next(iter(columns.values()))), dtype)
    for name, values in columns.items():
        _fill(made[name], values, name)
    return made


def _fill(field: np.ndarray, values: np.ndarray, name: str) -> None:
    """Set a view of a field to int64[n], which must hold what is there."""
    limits = np.iinfo(field.dtype)
    if len(values) and not limits.min <= values.min() <= values.max() <= limits.max:
        raise refuse(f"a chunk has a number in {name} that does not fit there")
    field[...] = values


def in_order(chunk: Chunk) -> np.ndarray:
    """The chunk's accesses, warp after warp: as captured, or gathered where a chunk holds them otherwise."""
    count = chunk.warps["access_count"].astype(np.int64)
    start = chunk.warps["access_start"].astype(np.int64)
    expected = np.cumsum(count) - count
    if int(count.sum()) == len(chunk.accesses) and (start[count > 0] == expected[count > 0]).all():
        return chunk.accesses
    return chunk.accesses[np.repeat(start - expected, count) + np.arange(int(count.sum()))]


def _runs(columns: dict[str, np.ndarray]) -> np.ndarray:
    count = columns["run_count"]
    step = columns["run_first"] + np.concatenate(([0], count[:-1]))[: len(count)]
    first, mask = np.cumsum(step), np.bitwise_xor.accumulate(columns["run_mask"])
    if ((count < 1) | (first < 0) | (first >= 2**32) | (count >= 2**32) | (mask < 0) | (mask >= 2**32)).any():
        raise refuse("a chunk has a run outside the code")
    runs = np.empty(len(count), RUN)
    runs["first"], runs["count"], runs["mask"] = first, count, mask
    return runs


def _check_paths(
    counts: dict, columns: dict, path_start: np.ndarray, runs: np.ndarray, paths: np.ndarray, instructions: int
) -> None:
    """What the walk indexes with is within the arrays."""
    if (columns["path_length"] < 0).any() or path_start[-1] != len(runs):
        raise refuse(f"the paths of a chunk do not divide its {len(runs)} runs")
    if (runs["first"].astype(np.int64) + runs["count"] > instructions).any():
        raise refuse(f"a run leaves the {instructions} instructions")
    if len(paths) and (paths.min() < 0 or paths.max() >= counts["paths"]):
        raise refuse(f"a warp names a path outside the {counts['paths']} of its chunk")
    if counts["late_rows"] > counts["rows"]:
        raise refuse(f"{counts['late_rows']} late rows of {counts['rows']}")


def _accesses(
    counts: dict, columns: dict, program: Program, paths: np.ndarray, path_start: np.ndarray, runs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """ACCESS[a] and uint64[s, 32] from the errors of their guesses."""
    n, rows, late = counts["accesses"], counts["rows"], counts["late_rows"]
    fields = [np.empty(n, np.int64) for _ in range(3)]
    base, pattern = np.empty(rows, np.int64), np.empty(rows, np.int64)
    errors = tuple(columns[name] for name in ("mask", "stride", "place", "row", "pattern"))
    # Only rows named in order may be filled by the walk: it must not reach the late ones.
    early = slice(0, rows - late)
    status, in_order_rows = _walk(True, program, paths, path_start, runs, fields, base[early], pattern[early], errors)
    if status != FINE or in_order_rows != rows - late:
        raise refuse("the scattered accesses of a chunk do not match its rows")
    base[rows - late :], pattern[rows - late :] = np.cumsum(columns["late_base"]), columns["late_pattern"]
    patterns = _patterns(columns, counts["patterns"])
    if rows and (pattern.min() < 0 or pattern.max() >= len(patterns)):
        raise refuse(f"a row names a pattern outside the {len(patterns)} of its chunk")
    address, stride, mask = fields
    if n and (stride.min() < SCATTERED or stride.max() >= 2**31 or mask.min() < 0 or mask.max() >= 2**32):
        raise refuse("an access has a stride or a lane mask that does not exist")
    accesses = np.empty(n, ACCESS)
    accesses["address"], accesses["stride"], accesses["mask"] = address.view(np.uint64), stride, mask
    return accesses, join_rows(base, pattern, patterns)


def _walk(
    decoding: bool, program: Program, paths: np.ndarray, path_start: np.ndarray, runs: np.ndarray,
    fields: list[np.ndarray], base: np.ndarray, pattern: np.ndarray, errors: tuple[np.ndarray, ...],
) -> tuple[int, int]:  # fmt: skip
    """Run :func:`gpusim.trace.predict.walk`; returns (its answer, rows named in order)."""
    slots = np.concatenate(([0], np.cumsum(program.instructions["records"], dtype=np.int64)))
    first = runs["first"].astype(np.int64)
    run_slots = np.stack((slots[first], slots[first + runs["count"]]), axis=1)
    followed = np.full(len(path_start), -1, np.int64)
    scratch = [np.empty(len(fields[0]), np.int64) for _ in range(2)]
    counts = np.zeros(2, np.int64)
    status = walk(
        decoding, paths, path_start, run_slots, empty_memory(int(slots[-1])), followed, *fields, *scratch, base,
        pattern, *errors, counts,
    )  # fmt: skip
    return status, int(counts[1])


def _patterns(columns: dict[str, np.ndarray], count: int) -> np.ndarray:
    """int64[patterns, 32] from their lane masks and the steps from lane to lane."""
    masks, steps = columns["pattern_mask"], columns["pattern_offset"]
    if count and (masks.min() < 0 or masks.max() >= 2**32):
        raise refuse("a pattern has a lane mask that does not exist")
    on = (masks[:, None] >> _LANES) & 1 == 1
    lanes = on.sum(axis=1)
    if int(lanes.sum()) != len(steps):
        raise refuse(f"patterns of {int(lanes.sum())} lanes have {len(steps)} offsets")
    total = np.concatenate(([0], np.cumsum(steps)))
    start = np.cumsum(lanes) - lanes
    patterns = np.full((count, WARP_LANES), OFF, np.int64)
    patterns[on] = total[1:] - np.repeat(total[start], lanes)
    return patterns


def _lane_steps(patterns: np.ndarray, on: np.ndarray) -> np.ndarray:
    """Offsets of the lanes that are on, each less the one before in its pattern."""
    flat = patterns[on]
    steps = np.diff(flat, prepend=0)
    lanes = on.sum(axis=1)
    starts = (np.cumsum(lanes) - lanes)[lanes > 0]
    steps[starts] = flat[starts]
    return steps


def _xor_previous(values: np.ndarray) -> np.ndarray:
    return values ^ np.concatenate(([0], values[:-1]))[: len(values)]


def _check_columns(held: dict[str, str], counts: dict[str, int], lengths: list[int]) -> None:
    """Before anything is unpacked: no count is more than those that bound it, no column longer than its numbers can
    be."""
    for name, times, bound in _WITHIN:
        if counts[name] > times * counts[bound]:
            raise refuse(f"a chunk names {counts[name]} {name} of {counts[bound]} {bound}")
    for (name, count), length in zip(held.items(), lengths, strict=True):
        if not counts[count] <= length <= LONGEST_BYTES * counts[count]:
            raise refuse(f"column {name} has {length} bytes for {counts[count]} numbers")


def _check_sizes(counts: dict[str, int]) -> None:
    """No array of the chunk is too large, nor all of them with their columns (int64 while they are put together)."""
    for name, size in _BYTES_OF.items():
        if counts[name] * size > MAX_ARRAY_BYTES:
            raise refuse(
                f"{counts[name]} {name} need {counts[name] * size} bytes; a chunk may hold {MAX_ARRAY_BYTES}:"
                " use smaller chunks"
            )
    unpacked = sum(counts[name] * size for name, size in _BYTES_OF.items())
    unpacked += 8 * sum(counts[count] for count in COLUMNS.values())
    if unpacked > MAX_UNPACKED_BYTES:
        raise refuse(f"a chunk unpacks to {unpacked} bytes; {MAX_UNPACKED_BYTES} are allowed: use smaller chunks")
