"""How production's time is spread over sizes: of durations, grids, blocks, shared memory, registers.

Mental model: values are sorted into steps of a power of two (from the lower bound, which is part of the step, to the
upper, which is not), and each step has its launches and its time. Durations come from the sketches of rows: a launch is
known to 1 %, and the time of a step is its launches times their sketch's values, scaled so that all steps add up to the
time of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.errors import NoDataError
from gpusim.production.columns import NamedTotal, columns_of, key_of
from gpusim.record.sketch import LOG_GAMMA


@dataclass
class _Step:
    launches: float = 0.0
    time_ns: float = 0.0


def _product(extent: Sequence[int] | None) -> int | None:
    return math.prod(extent) if extent else None


def _threads(row: NamedTotal) -> int | None:
    what = row.total.what
    return math.prod(what.grid) * math.prod(what.block) if what.grid and what.block else None


#: What a histogram can be of, beside the duration: a whole number of the launch, None where it is not known.
SIZES: dict[str, Callable[[NamedTotal], int | None]] = {
    "blocks": lambda row: _product(row.total.what.grid),
    "block_threads": lambda row: _product(row.total.what.block),
    "threads": _threads,
    "shared_bytes": lambda row: row.total.what.shared_bytes,
    "registers": lambda row: row.total.what.registers,
    "moved_bytes": lambda row: round(row.total.moved_bytes / row.total.launches) if row.total.moved_bytes else None,
}
DURATION = "duration_ns"


def histogram_records(rows: Sequence[NamedTotal], of: str, by: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A row a step (and a group of ``by``) that has launches; shares are of all time, what is not known is a step
    without bounds."""
    columns = columns_of(by)
    steps: dict[tuple[tuple[str, ...], int | None], _Step] = {}
    for row in rows:
        key = key_of(row, columns)
        for exponent, launches, time_ns in _durations(row) if of == DURATION else _sizes(row, SIZES[of]):
            step = steps.setdefault((key, exponent), _Step())
            step.launches += launches
            step.time_ns += time_ns
    if all(exponent is None for _, exponent in steps):
        raise NoDataError(f"no launch here tells its {of}")
    time_ns = sum(step.time_ns for step in steps.values())
    launches = sum(step.launches for step in steps.values())
    records = []
    for (key, exponent), step in sorted(steps.items(), key=lambda each: (each[0][0], _order(each[0][1]))):
        share = step.time_ns / time_ns if time_ns else step.launches / launches
        records.append(
            dict(zip(columns, key))
            | {
                f"{of}_from": "" if exponent is None else _bound(exponent),
                f"{of}_to": "" if exponent is None else _bound(exponent + 1),
                "launches": round(step.launches),
                "launches_percent": 100.0 * step.launches / launches if launches else 0.0,
                "time_ms": step.time_ns / 1e6,
                "share_percent": 100.0 * share,
            }
        )
    return records


def _order(exponent: int | None) -> float:
    return -math.inf if exponent is None else exponent


def _bound(exponent: int) -> int:
    """Of the step of 0, which is the first: -1."""
    return 0 if exponent < 0 else 1 << exponent


def _sizes(row: NamedTotal, size: Callable[[NamedTotal], int | None]) -> Iterator[tuple[int | None, float, float]]:
    value = size(row)
    exponent = None if value is None else value.bit_length() - 1
    yield exponent, row.total.weighted_launches, row.total.weighted_ns


def _durations(row: NamedTotal) -> Iterator[tuple[int | None, float, float]]:
    total = row.total
    weight = total.weighted_launches / total.launches if total.launches else 0.0
    values = {index: math.exp(LOG_GAMMA * (index - 0.5)) if index else 1.0 for index in total.bins}
    estimate = sum(values[index] * count for index, count in total.bins.items())
    scale = total.weighted_ns / estimate if estimate else 0.0
    for index, count in total.bins.items():
        yield max(0, math.floor(math.log2(values[index]))), weight * count, scale * values[index] * count
    if total.timed < total.launches:
        yield None, weight * (total.launches - total.timed), 0.0
