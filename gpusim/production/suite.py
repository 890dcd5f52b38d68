"""A suite made of what production launches, each workload with its share of production's time.

Mental model: rows of production whose case has a shape are workloads; rows with one request are one workload, and the
ones that take most time come first, until they are as many as asked for. Cases of which only the kernel is known are
not made up into a shape: where they are wanted, the kernel's default shape stands for them, and is said to.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.cases.names import refuse_unknown_request
from gpusim.errors import GpusimError, NoDataError
from gpusim.explore.choose import Choice
from gpusim.io.whole_file import write_whole
from gpusim.production.amounts import Amount, amount_of, share_percent
from gpusim.production.coverage_holes import Standing
from gpusim.production.suite_cases import SuiteCase


@dataclass(frozen=True)
class WeightedWorkload:
    """``share_percent``: of all of production's time; ``basis``: how its shape is known."""

    workload: str
    basis: str
    amount: Amount
    share_percent: float


def workloads_of(found: Sequence[Standing], most: int, *, by_kernel: bool = False) -> list[WeightedWorkload]:
    """At most ``most``, those with most time first. ``by_kernel``: also kernels whose shape is not known. Raises
    NoDataError where no row has a case; a shape that the suite's kernel refuses is left out."""
    whole = amount_of(each.row for each in found)
    groups: dict[tuple[str, str], Amount] = {}
    for each in found:
        case = each.case
        if isinstance(case, SuiteCase) and (by_kernel or case.basis != "kernel"):
            groups.setdefault((case.request, case.basis), Amount()).add(each.row)
    order = sorted(groups.items(), key=lambda item: (-item[1].time_ns, -item[1].launches, item[0]))
    chosen: list[WeightedWorkload] = []
    for (request, basis), amount in order:
        if len(chosen) < most and _takes(request):
            chosen.append(WeightedWorkload(request, basis, amount, share_percent(amount, whole)))
    if not chosen:
        raise NoDataError(
            "no launch has a case of the suite with a known shape: record the operators' shapes, or give --by-kernel"
        )
    return chosen


def choices_of(workloads: Iterable[WeightedWorkload]) -> list[Choice]:
    """As a suite file has them: the percent that a workload adds is its share of the time."""
    return [Choice(each.workload, 0, each.share_percent) for each in workloads]


def write_histogram(path: Path, workloads: Iterable[WeightedWorkload]) -> None:
    """Write ``workload,count`` as `gpusim suite make --histogram` reads it; the count is ns of time, of launches where
    none is known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("workload", "count"))
    writer.writerows((each.workload, round(each.amount.time_ns or each.amount.launches)) for each in workloads)
    write_whole(path, text.getvalue().encode())


def _takes(request: str) -> bool:
    """Whether the suite has the workload."""
    try:
        refuse_unknown_request(request)
    except GpusimError:
        return False
    return True
