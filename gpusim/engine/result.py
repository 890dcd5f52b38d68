"""What a simulation says: cycles, counters by Nsight's names, and where the warp-cycles went.

Mental model: a :class:`Result` is the whole run; ``launches`` has one :class:`LaunchResult` each. The stall
reasons of a launch add up to its resident warp-cycles exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

import numpy as np

from gpusim.engine.sampling import Sampling
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Launch, Program


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
    GPU in the machine that it ran on; ``clock_hz``: its SM clock."""

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

    @property
    def time_us(self) -> float:
        """Microseconds at the described SM clock."""
        return self.cycles / self.clock_hz * 1e6

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
        whole = f"{escape(self.gpu)}: {self.cycles:,} cycles, {self.time_us:.3g} us"
        return f"<table><caption>{whole}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _most_waited(stalls: dict[str, int]) -> str:
    """The stall reason with the most warp-cycles, and its share of them all."""
    waits = {name: cycles for name, cycles in stalls.items() if name != "selected"}
    name = max(waits, key=waits.__getitem__)
    return f"{name} ({100 * waits[name] / max(1, sum(stalls.values())):.0f} %)"
