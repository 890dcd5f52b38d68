"""What a saved run holds: the types of the document of :mod:`gpusim.report.saved`.

Mental model: the document is plain JSON; these types say which keys it has at least and what stands under them. They
are what a document from outside is held against, and what a type checker and a reader may rely on.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from gpusim.io.records import Finite, Positive, PositiveFinite
from gpusim.model.stall_reasons import STALL_NAMES


class Share(TypedDict):
    """A source line's part of the run."""

    launch: int
    file: str
    line: int
    code: str
    issues: int
    warp_cycles: int


class InstructionShare(Share):
    """An instruction's."""

    address: int


class Unit(TypedDict):
    """A unit of the GPU and how busy it was."""

    unit: str
    busy_percent: Finite
    metric: str


class Freed(TypedDict):
    """What would be gained if something cost nothing."""

    made_free: str
    how: str
    cycles: int
    saves_cycles: int
    saves_percent: Finite


class Part(TypedDict):
    """Ramp, steady state or tail."""

    part: str
    cycles: int
    percent: Finite
    limiter: str
    saves_percent_of_part: Finite


class Remedy(TypedDict):
    """What a developer could change, and what that was simulated to save."""

    problem: str
    place: str
    remedy: str
    simulated_as: str
    cycles: int
    saves_percent: Finite
    bound: str


class Why(TypedDict):
    """Why the run took so long."""

    sentence: str
    made_free: list[Freed]
    parts: NotRequired[list[Part]]
    remedies: NotRequired[list[Remedy]]


class RoofPoint(TypedDict):
    """The run in a roofline."""

    level: str
    operations_per_byte: Finite
    g_operations_per_s: Finite


class Roofline(TypedDict):
    """The roofs and the run below them."""

    operations: dict[str, int]
    roofs: dict[str, Finite]
    slopes: dict[str, Finite]
    points: list[RoofPoint]


#: Curves of one length: where each stretch begins, and rates in it.
OverTime = TypedDict(
    "OverTime",
    {
        # The names of stall reasons are no identifiers, so this table cannot be a class.
        **dict.fromkeys(("cycle", "dram_read_gb_per_s", "dram_write_gb_per_s", "l2_gb_per_s"), list[Finite]),  # pyright: ignore
        **{f"warps.{name}": list[Finite] for name in STALL_NAMES},  # pyright: ignore
    },
)


class Launch(TypedDict):
    """One launch of the run."""

    kernel: str
    cycles: int
    grid: list[int]
    block: list[int]
    registers_per_thread: int
    shared_bytes: int
    blocks_per_sm: int
    occupancy_limiter: str
    over_time: NotRequired[OverTime]


class Document(TypedDict):
    """What a saved run holds at least."""

    gpusim_result: int
    gpusim_version: str
    gpu: str
    gpu_title: str
    kernel: str
    cycles: Positive
    time_us: Finite
    time_us_low: NotRequired[Finite]
    time_us_high: NotRequired[Finite]
    interval_level_percent: NotRequired[Finite]
    interval_basis: NotRequired[str]
    interval_outside: NotRequired[str]
    clock_hz: PositiveFinite
    warp_instructions: int
    stalls: dict[str, int]
    counters: dict[str, Finite]
    units: list[Unit]
    traffic: dict[str, Any]
    least_cycles: dict[str, Finite]
    by_line: list[Share]
    by_instruction: list[InstructionShare]
    why: NotRequired[Why]
    roofline: Roofline
    launches: list[Launch]
