"""Rows of which a late host makes a part that counts, told from the measurements alone.

Mental model: a launch that is timed by two events takes as long as the GPU needs, or as the host needs to send it,
where the first event is over before the launch has come. The GPU never needs longer for a part of a launch's work than
for all of it, so by as much as a launch took longer than a larger one of the same kernel, on the same host, the host
was late at least once. How late it comes elsewhere in that table is not known, only that it can be so much: rows of
which that is more than SHARE are left out. Where the table says how its repeats scatter, a row that scatters to either
side by half of SHARE is left out too: repeats of a launch that the host feeds in time are alike to a few percent. No
prediction takes part in it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: The share of a row's time that may be the host's.
SHARE = 0.1

Values = Mapping[str, str]


@dataclass(frozen=True)
class Ladder:
    """How a table's rows are laid beside one another: rows with the same ``host`` come from one program on one host,
    and so have one lateness; of these, rows that are the same in ``alike`` differ in size alone, which is the product
    of the columns ``size``. ``column`` says of a row whether it counts: ``late`` is what it says of those that do
    not."""

    host: tuple[str, ...]
    alike: tuple[str, ...]
    size: tuple[str, ...]
    column: str
    late: str = "no"


#: The tables that are measured cold, a launch at a time between two events.
LADDERS = {
    "tutorial_sums": Ladder(("gpu",), (), ("size",), "settled"),
    "gems_h20": Ladder(("kernel",), ("dtype",), ("rows", "columns"), "settled"),
    "liger_forward_a100": Ladder(("kernel",), ("dtype", "rows", "vocabulary"), ("columns",), "settled"),
    "transforms_cold": Ladder(
        ("board", "pull"), ("algorithm", "operation", "dtype"), ("elements",), "state", "late host"
    ),
}


def lateness_us(rows: Sequence[Values], ladder: Ladder) -> float:
    """By how much a launch of one host's rows took longer than a larger one, at the most; 0 where none did."""
    runs: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        runs[tuple(row[column] for column in ladder.alike)].append((_size(row, ladder), float(row["measured_us"])))
    later = [time - more for run in runs.values() for size, time in run for larger, more in run if larger > size]
    return max(0.0, *later) if later else 0.0


def late_rows(rows: Iterable[Values], ladder: Ladder) -> list[bool]:
    """Of each row whether more than SHARE of it may be the host's."""
    every = list(rows)
    hosts: dict[tuple[str, ...], list[Values]] = defaultdict(list)
    for row in every:
        hosts[tuple(row[column] for column in ladder.host)].append(row)
    late_us = {host: lateness_us(own, ladder) for host, own in hosts.items()}
    return [
        late_us[tuple(row[column] for column in ladder.host)] > SHARE * float(row["measured_us"])
        or 2 * float(row["noise_percent"] or 0) > 100 * SHARE
        for row in every
    ]


def _size(row: Values, ladder: Ladder) -> float:
    return math.prod(float(row[column]) for column in ladder.size)
