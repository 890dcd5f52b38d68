"""A run as a Chrome trace: blocks on SMs, what warps wait for, bandwidth, for ui.perfetto.dev.

Mental model: the trace-event format is a list of dated events; a block is a bar on the row of its SM and
slot, a sample is a point of a counter. The file has a budget: when there are more blocks than
:data:`MOST_BLOCKS`, only the first SMs' are drawn (all of theirs, so that rows have no holes) and the file
says so; samples are bounded by the engine. Times are microseconds at the described clock, launches one
after the other.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.energy.figures import knows_energy
from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.samples import COLUMNS
from gpusim.io.whole_file import write_whole
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.report.energy import power_over_time

#: Bars drawn at most: about 100 bytes each before compression.
MOST_BLOCKS = 40_000
_LAUNCHES, _SMS, _COUNTERS = 1, 2, 3


def timeline_events(result: Result, most_blocks: int = MOST_BLOCKS) -> Iterator[dict[str, Any]]:
    """The events of a run; its launches must have been simulated with ``samples=True`` for the counters."""
    names = {_LAUNCHES: "launches", _SMS: f"blocks on the SMs of {result.gpu}", _COUNTERS: "machine"}
    for process, name in names.items():
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    start_cycle = 0
    budget = most_blocks // max(1, len(result.launches))
    for launch in result.launches:
        clock = _Clock(result.clock_hz, start_cycle)
        yield {
            "ph": "X", "pid": _LAUNCHES, "tid": 0, "name": launch.kernel, "ts": clock.us(0),
            "dur": clock.length_us(launch.cycles), "args": {"cycles": launch.cycles},
        }  # fmt: skip
        yield from _blocks(launch, clock, budget)
        if launch.samples is not None and len(launch.samples) > 1:
            yield from _counters(launch, clock)
        start_cycle += launch.cycles


def write_timeline(result: Result, path: Path) -> None:
    """Write the run's trace to ``path``, compressed if it ends in ``.gz``; whole or not at all."""
    text = json.dumps({"traceEvents": list(timeline_events(result)), "displayTimeUnit": "ns"}, separators=(",", ":"))
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    write_whole(path, data)


class _Clock:
    """Microseconds of a launch's cycles, in the run's time."""

    def __init__(self, hz: float, start_cycle: int) -> None:
        self._us_per_cycle, self._start = 1e6 / hz, start_cycle

    def us(self, cycle: int) -> float:
        return round((self._start + cycle) * self._us_per_cycle, 4)

    def length_us(self, cycles: int) -> float:
        return round(cycles * self._us_per_cycle, 4)


def _blocks(launch: LaunchResult, clock: _Clock, budget: int) -> Iterator[dict[str, Any]]:
    times = launch.block_times
    simulated = times[:, 2] >= 0  # a sampled launch leaves blocks out
    sms = np.unique(times[simulated, 2])
    drawn = sms
    if len(times) > budget:
        per_sm = np.cumsum([int((times[:, 2] == sm).sum()) for sm in sms])
        drawn = sms[: max(1, int(np.searchsorted(per_sm, budget, side="right")))]
        text = f"only the blocks of {len(drawn)} of {len(sms)} SMs are drawn: {len(times)} blocks are too many"
        yield {"ph": "M", "pid": _SMS, "name": "process_labels", "args": {"labels": text}}
    slots = launch.blocks_per_sm
    for row in range(len(drawn)):
        for slot in range(slots):
            label = {"name": f"SM {drawn[row]} slot {slot}"}
            yield {"ph": "M", "pid": _SMS, "tid": int(drawn[row]) * slots + slot, "name": "thread_name", "args": label}
    for block in np.flatnonzero(np.isin(times[:, 2], drawn)).tolist():
        start, end, sm, slot = times[block].tolist()
        yield {
            "ph": "X", "pid": _SMS, "tid": sm * slots + slot, "name": f"block {block}", "ts": clock.us(start),
            "dur": clock.length_us(end - start),
        }  # fmt: skip


def _counters(launch: LaunchResult, clock: _Clock) -> Iterator[dict[str, Any]]:
    rates = sample_rates(launch, clock.length_us(1) * 1e3)
    for i, cycle in enumerate(rates["cycle"].tolist()):
        at = {"ph": "C", "pid": _COUNTERS, "ts": clock.us(int(cycle))}
        dram = {way: round(float(rates[f"dram_{way}_gb_per_s"][i]), 2) for way in ("read", "write")}
        yield {**at, "name": "DRAM GB/s", "args": dram}
        yield {**at, "name": "L2 GB/s", "args": {"all": round(float(rates["l2_gb_per_s"][i]), 2)}}
        warps = {name: round(float(rates[f"warps.{name}"][i]), 2) for name in STALL_NAMES}
        yield {**at, "name": "warps by state", "args": warps}
    if launch.spec is not None and knows_energy(launch.spec):
        power = power_over_time(launch, launch.spec)
        for cycle, watts in zip(power["cycle"].tolist(), power["watts"].tolist(), strict=True):
            yield {
                "ph": "C",
                "pid": _COUNTERS,
                "ts": clock.us(int(cycle)),
                "name": "power W",
                "args": {"all": round(watts, 1)},
            }


def sample_rates(launch: LaunchResult, ns_per_cycle: float) -> dict[str, np.ndarray]:
    """Rates between neighbouring samples of a launch: ``cycle`` (start of each stretch), GB/s at DRAM and L2,
    and ``warps.<reason>``: warps, on the average of the stretch, in each state (all SMs together)."""
    table = launch.samples.astype(np.float64)
    steps = np.diff(table, axis=0)
    keep = steps[:, 0] > 0
    steps, starts = steps[keep], table[:-1, 0][keep]
    column = {name: steps[:, i] for i, name in enumerate(COLUMNS)}
    time_ns = column["cycle"] * ns_per_cycle
    rates = {
        "cycle": starts,
        "dram_read_gb_per_s": column["dram_read_bytes"] / time_ns,
        "dram_write_gb_per_s": column["dram_write_bytes"] / time_ns,
        "l2_gb_per_s": 32 * column["l2_sectors"] / time_ns,
    }
    return rates | {f"warps.{name}": column[f"stall.{name}"] / column["cycle"] for name in STALL_NAMES}
