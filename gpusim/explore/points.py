"""The coverage model: cover points with their bins, and crosses of points, as in hardware verification.

Mental model: a cover point is a question about a launch ("how many sectors does a load touch?") whose answers are
sorted into a closed list of bins, in order where there is one. A cross asks two questions of the same launch. What
stands in no run's answers is a hole. The definitions are data; :mod:`gpusim.explore.observe` answers the questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

from gpusim.explore.opcode_classes import CLASSES
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.trace.record import MatrixType, PipeClass

#: A bin of a cover point: (point, bin).
Bin = tuple[str, str]
NONE = "none"
CROSS = " x "


@dataclass(frozen=True)
class Point:
    """A cover point. ``bins`` in order (``ordered``: neighbours are alike); ``single``: every launch falls into
    exactly one bin."""

    name: str
    asks: str
    bins: tuple[str, ...]
    ordered: bool = True
    single: bool = True


_SHARES = ("0 %", "1-25 %", "26-50 %", "51-75 %", "76-99 %", "100 %")
_DEGREES = ("1", "2", "3-4", "5-8", "9-16", "17-32")
_STALLS = tuple(name for name in STALL_NAMES if name != "selected")
_PIPES = tuple(pipe.name.lower() for pipe in PipeClass if pipe != PipeClass.NONE)
_MATRIX = tuple(f"tensor.{kind.name.lower()}" for kind in MatrixType if kind != MatrixType.NONE)
_ACCESSES = (
    "global.load",
    "global.store",
    "global.atomic",
    "global.reduction",
    "shared.load",
    "shared.store",
    "shared.atomic",
    "shared.matrix_load",
    "local.load",
    "local.store",
    "async_copy",
    "constant.load",
)

POINTS: dict[str, Point] = {
    point.name: point
    for point in (
        Point("pipe", "which kinds of unit execute an instruction?", _PIPES, False, False),
        Point("opcode", "which classes of instruction are executed?", tuple(CLASSES), False, False),
        Point(
            "dtype",
            "which types does it compute with?",
            ("integer", "float16", "float32", "float64", *_MATRIX),
            False,
            False,
        ),
        Point("access", "which kinds of memory access are there?", _ACCESSES, False, False),
        Point(
            "access_bytes",
            "how many bytes does a lane move in an access of global or shared memory?",
            ("1", "2", "4", "8", "16"),
            True,
            False,
        ),
        Point(
            "limiter",
            "which unit's lower bound comes within 60 % of the cycles, or else: latency?",
            ("latency", "issue", "pipe", "l1.tags", "l2", "l2.atomics", "dram", "warp"),
            False,
            True,
        ),
        Point("stall", "what do resident warps wait for most?", _STALLS, False, True),
        Point(
            "occupancy",
            "which share of an SM's warps fits?",
            ("1-12 %", "13-25 %", "26-50 %", "51-75 %", "76-99 %", "100 %"),
            True,
            True,
        ),
        Point(
            "occupancy_limiter",
            "what keeps more blocks from an SM?",
            ("warps", "blocks", "registers", "shared_mem"),
            False,
            True,
        ),
        Point(
            "sectors_per_load",
            "how many sectors does a warp's global load touch?",
            (NONE, *_DEGREES),
            True,
            False,
        ),
        Point(
            "sectors_per_store",
            "how many sectors does a warp's global store touch?",
            (NONE, *_DEGREES),
            True,
            False,
        ),
        Point(
            "alignment",
            "where does a warp's contiguous global access begin?",
            (NONE, "line", "sector", "within a sector"),
            True,
            False,
        ),
        Point(
            "bank_conflicts",
            "how many times longer do bank conflicts make a shared access?",
            (NONE, *_DEGREES),
            True,
            False,
        ),
        Point("l1_hits", "which share of the sectors loaded is in L1?", (NONE, *_SHARES), True, True),
        Point("l2_hits", "which share of the sectors asked of L2 is there?", (NONE, *_SHARES), True, True),
        Point(
            "footprint",
            "where do the sectors touched fit?",
            (NONE, "one L1", "half L2", "L2", "beyond L2"),
            True,
            True,
        ),
        Point(
            "reuse",
            "how many line accesses lie between two of the same line, in the order of blocks?",
            (NONE, "1-63", "64-1023", "1024-16383", "16384 or more"),
            True,
            False,
        ),
        Point(
            "divergence",
            "how many lanes of a warp execute an instruction, on average?",
            ("1-8", "9-16", "17-24", "25-31", "32"),
            True,
            True,
        ),
        Point(
            "barriers",
            "how many block barriers are there in a thousand instructions?",
            (NONE, "below 1", "1-10", "11-50", "above 50"),
            True,
            True,
        ),
        Point(
            "waves",
            "how often do the launch's blocks fill the machine?",
            ("below one block an SM", "below one", "one", "1-2", "2-8", "above 8"),
            True,
            True,
        ),
        Point(
            "tail",
            "how full is the last wave?",
            ("full", "76-99 %", "26-75 %", "1-25 %"),
            True,
            True,
        ),
        Point(
            "atomic_lanes",
            "how many lanes of a warp meet on one address of an atomic, at most?",
            (NONE, *_DEGREES),
            True,
            False,
        ),
        Point(
            "atomic_addresses",
            "how many atomic operations are there an address?",
            (NONE, "1", "2-31", "32-1023", "1024 or more"),
            True,
            False,
        ),
        Point(
            "block_threads",
            "how large is a block?",
            ("1-31", "32", "33-127", "128", "129-255", "256", "257-511", "512", "513-1023", "1024"),
            True,
            True,
        ),
        Point("block_tail", "is the last warp of a block full?", ("full", "partial"), False, True),
        Point(
            "grid_blocks",
            "how many blocks has the grid?",
            ("1", "2-31", "32-255", "256-4095", "4096 or more"),
            True,
            True,
        ),
        Point("dimensions", "how many dimensions have grid and block?", ("1", "2", "3"), True, True),
        Point(
            "registers",
            "how many registers has a thread?",
            ("1-32", "33-64", "65-128", "129-255"),
            True,
            True,
        ),
        Point(
            "shared_bytes",
            "how much shared memory has a block?",
            (NONE, "below 16 KiB", "16-48 KiB", "above 48 KiB"),
            True,
            True,
        ),
    )
}

#: Pairs of points that a launch answers together; of a point with several answers each is crossed.
CROSSES: tuple[tuple[str, str], ...] = (
    ("occupancy", "limiter"),
    ("waves", "tail"),
    ("footprint", "sectors_per_load"),
    ("l1_hits", "l2_hits"),
    ("divergence", "stall"),
    ("bank_conflicts", "access_bytes"),
    ("limiter", "dtype"),
)


def impossible(first: Bin, second: Bin) -> bool:
    """Whether no launch can answer both ways: such a pair is no hole."""
    pair = {first[0]: first[1], second[0]: second[1]}
    if set(pair) == {"waves", "tail"}:
        part = pair["waves"].startswith("below")
        return (pair["waves"] == "one" and pair["tail"] != "full") or (part and pair["tail"] == "full")
    if set(pair) == {"footprint", "sectors_per_load"}:
        return pair["footprint"] == NONE and pair["sectors_per_load"] != NONE
    if set(pair) == {"l1_hits", "l2_hits"}:
        return pair["l1_hits"] == "100 %" and pair["l2_hits"] not in (NONE, "100 %", "0 %")
    if set(pair) == {"bank_conflicts", "access_bytes"}:
        return pair["bank_conflicts"] == "17-32" and pair["access_bytes"] in ("8", "16")
    return False


def cross_name(pair: tuple[str, str]) -> str:
    """The name that a cross goes by in reports: ``occupancy x limiter``."""
    return CROSS.join(pair)


@cache
def all_bins() -> tuple[Bin, ...]:
    """Every bin of every point and cross that can be reached, in the order of definition."""
    bins = [(point.name, name) for point in POINTS.values() for name in point.bins]
    for pair in CROSSES:
        firsts, seconds = ([(name, label) for label in POINTS[name].bins] for name in pair)
        bins += [
            (cross_name(pair), CROSS.join((first[1], second[1])))
            for first, second in product(firsts, seconds)
            if not impossible(first, second)
        ]
    return tuple(bins)
