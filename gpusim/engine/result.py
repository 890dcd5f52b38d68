"""What a simulation says: cycles, counters by Nsight's names, and where the warp-cycles went.

Mental model: a :class:`Result` is the whole run; ``launches`` has one :class:`LaunchResult` each. The stall
reasons of a launch add up to its resident warp-cycles exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

import numpy as np

from gpusim.engine.bound import Bound, bound_of
from gpusim.engine.sampling import Sampling
from gpusim.gpus.spec import GpuSpec
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.layout import MatrixType
from gpusim.trace.record import Launch, Program
from gpusim.uncertainty.interval import Interval, interval_of


@dataclass(frozen=True)
class LaunchResult:
    """One launch: ``cycles`` from its start to its end; ``stalls`` reason -> warp-cycles;
    ``stalls_by_instruction`` int64[instructions, reasons] in the order of ``stalls``;
    ``work_by_instruction`` int64[instructions, columns] of :mod:`gpusim.model.counters`, whose column sums are
    the counters of those names; ``program`` and ``launch`` are the trace's;
    ``block_times`` int64[blocks, 4]: start and end since the launch's start, SM, slot; occupancy as launched;
    ``samples`` int64[rows, columns] of :mod:`gpusim.engine.samples`, None unless asked for;
    ``sampling`` says what part of a sampled launch was simulated (its cycles and counters are then extrapolated, but
    for the issues; ``block_times`` of the blocks left out are -1), None unless asked for; ``device``: the number of the
    GPU in the machine that it ran on; ``clock_hz``: its SM clock; ``spec``: its description, None in a result made by
    hand;
    ``overlap_cycles``: of a launch in a chain of programmatic dependent launches (:mod:`gpusim.engine.chain`) those
    that it ran before the launch before it had completed, which are not among ``cycles``; None elsewhere."""

    kernel: str
    cycles: int
    counters: dict[str, float]
    stalls: dict[str, int]
    stalls_by_instruction: np.ndarray
    work_by_instruction: np.ndarray
    block_times: np.ndarray
    blocks_per_sm: int
    occupancy_limits: dict[str, int]
    occupancy_limiter: str
    program: Program = field(repr=False)
    launch: Launch = field(repr=False)
    samples: np.ndarray | None = field(default=None, repr=False)
    sampling: Sampling | None = None
    device: int = 0
    clock_hz: float = math.nan
    spec: GpuSpec | None = field(default=None, repr=False)
    overlap_cycles: int | None = None

    @property
    def time_us(self) -> float:
        """Microseconds at the described SM clock."""
        return self.cycles / self.clock_hz * 1e6

    @cached_property
    def interval(self) -> Interval | None:
        """Between which microseconds a measurement would lie (:mod:`gpusim.uncertainty`); None without a
        description."""
        if self.spec is None:
            return None
        return _interval(self.time_us, self.spec, bound_of((self,), self.spec), (self,))

    def __str__(self) -> str:
        """The kernel and its time, with the interval: ``saxpy: 12.9 us (11.6 to 14.4)``."""
        return f"{self.kernel}: {time_text(self.time_us, self.interval)}"

    @property
    def block_end_cycles(self) -> np.ndarray:
        """Completion times of the blocks, int64[blocks], cycles since the launch's start."""
        return self.block_times[:, 1]


@dataclass(frozen=True)
class Result:
    """A run of one or more launches on one machine; ``cycles`` sums the launches' cycles."""

    gpu: str
    kernel: str
    cycles: int
    clock_hz: float
    counters: dict[str, float]
    stalls: dict[str, int]
    launches: tuple[LaunchResult, ...]
    spec: GpuSpec = field(repr=False)
    windows: int = 0

    @property
    def error_cycles(self) -> float | None:
        """95 % half-width of the cycles of sampled launches; None unless sampling was asked for."""
        sampled = [launch.sampling for launch in self.launches if launch.sampling is not None]
        return sum(sampling.error_cycles for sampling in sampled) if sampled else None

    @property
    def simulated_percent(self) -> float:
        """Share of the warp instructions that was simulated: 100 unless sampling left blocks out."""
        weights = [float(launch.counters["smsp__inst_executed.sum"]) for launch in self.launches]
        shares = [launch.sampling.simulated_percent if launch.sampling else 100.0 for launch in self.launches]
        return sum(w * s for w, s in zip(weights, shares, strict=True)) / max(1.0, sum(weights))

    @property
    def time_us(self) -> float:
        """Microseconds at the described SM clock."""
        return self.cycles / self.clock_hz * 1e6

    @cached_property
    def bound(self) -> Bound:
        """What bounds the run."""
        return bound_of(self.launches, self.spec)

    @cached_property
    def interval(self) -> Interval:
        """Between which microseconds a measurement of the run would lie (:mod:`gpusim.uncertainty`)."""
        return _interval(self.time_us, self.spec, self.bound, self.launches)

    def __str__(self) -> str:
        """The time with its interval, and one line a launch where there are several."""
        whole = f"{self.kernel} on {self.gpu}: {time_text(self.time_us, self.interval)}"
        return "\n  ".join([whole, *map(str, self.launches)]) if len(self.launches) > 1 else whole

    @property
    def block_end_cycles(self) -> np.ndarray:
        """Completion times of the last launch's blocks, cycles since its start."""
        return self.launches[-1].block_end_cycles

    @property
    def blocks_per_sm(self) -> int:
        """Resident blocks an SM of the last launch."""
        return self.launches[-1].blocks_per_sm

    @property
    def occupancy_limiter(self) -> str:
        """What limits the last launch's occupancy."""
        return self.launches[-1].occupancy_limiter

    def _repr_html_(self) -> str:
        """The launches as a table, as notebooks show a value."""
        rows = (
            (
                launch.kernel,
                "x".join(map(str, launch.launch.grid)),
                "x".join(map(str, launch.launch.block)),
                f"{launch.cycles:,}",
                f"{launch.time_us:.3g}",
                _most_waited(launch.stalls),
            )
            for launch in self.launches
        )
        head = "".join(
            f"<th>{name}</th>" for name in ("kernel", "grid", "block", "cycles", "time (us)", "most stalled on")
        )
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        whole = f"{escape(self.gpu)}: {self.cycles:,} cycles, {time_text(self.time_us, self.interval)}"
        return f"<table><caption>{whole}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def time_text(time_us: float, interval: Interval | None) -> str:
    """A time with its interval, as all text shows it: ``12.9 us (11.6 to 14.4)``."""
    between = "" if interval is None else f" ({_figure(interval.low_us)} to {_figure(interval.high_us)})"
    return f"{_figure(time_us)} us{between}"


def _figure(value: float) -> str:
    """Three digits, all those before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _interval(time_us: float, spec: GpuSpec, bound: Bound, launches: Sequence[LaunchResult]) -> Interval:
    sampled = [launch.sampling.error_cycles for launch in launches if launch.sampling is not None]
    return interval_of(
        time_us,
        spec,
        bound.limiter,
        error_us=1e6 * sum(sampled) / spec.clock_hz,
        formats={name for launch in launches for name in tensor_formats(launch)},
        devices=len({launch.device for launch in launches}),
        chained=any(launch.overlap_cycles for launch in launches),
    )


def tensor_formats(launch: LaunchResult) -> set[str]:
    """Names of :class:`gpusim.trace.layout.MatrixType` of what a launch multiplied on tensor cores."""
    instructions = launch.program.instructions
    ran = (instructions["matrix_macs"] > 0) & (launch.stalls_by_instruction[:, SELECTED] > 0)
    return {MatrixType(kind).name for kind in np.unique(instructions["matrix_type"][ran])}


def _most_waited(stalls: dict[str, int]) -> str:
    """The stall reason with the most warp-cycles, and its share of them all."""
    waits = {name: cycles for name, cycles in stalls.items() if name != "selected"}
    name = max(waits, key=waits.__getitem__)
    return f"{name} ({100 * waits[name] / max(1, sum(stalls.values())):.0f} %)"
