"""Choosing few workloads that keep the coverage of many: a weighted set cover, solved greedily.

Mental model: every bin of a coverage names workloads that fall into it, so a coverage file is a set-cover instance:
take the workload that adds most weight, again and again, until the budget is spent or nothing is left to add. The
greedy choice keeps at least 1 - 1/e of the weight that the best choice of so many workloads could (Nemhauser, Wolsey
and Fisher, 1978). A production histogram makes bins that production visits heavier.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from gpusim.cases.suite import find_kernel, parse_request
from gpusim.errors import NoDataError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.points import Bin
from gpusim.io.document import read_document
from gpusim.io.records import Finite, as_record
from gpusim.io.whole_file import write_whole

SUITE_VERSION = 1
MOST_BYTES = 16 << 20
MOST_WORKLOADS = 100_000


class _Row(TypedDict):
    """A workload of a suite file."""

    workload: str
    new_bins: NotRequired[int]
    adds_percent: NotRequired[Finite]


class _Document(TypedDict):
    """A suite file."""

    workloads: Annotated[list[_Row], Meta(max_length=MOST_WORKLOADS)]


@dataclass(frozen=True)
class Choice:
    """A workload chosen, the bins that only it added when it was taken, and its share of all weight in percent."""

    workload: str
    new_bins: int
    adds_percent: float


def choose(coverage: Coverage, budget: int, histogram: Mapping[str, float] | None = None) -> list[Choice]:
    """At most ``budget`` workloads among the coverage's examples, the one that adds most first.

    ``histogram``: workload -> how often production launches it (any unit); workloads are matched by kernel and the
    axes that the histogram names. Ties go to the cheaper name (shorter, then alphabetical), so that the same file
    gives the same suite. Raises NoDataError for a coverage without a launch, UsageError for a budget below 1.
    """
    if budget < 1:
        raise UsageError(f"a suite needs a budget of at least one workload, not {budget}")
    covers = _incidence(coverage)
    if not covers:
        raise NoDataError("the coverage has no launch to choose from")
    weights = _weights(covers, histogram or {})
    total = sum(weights.values())
    missing, chosen = set(weights), []
    while missing and len(chosen) < budget:
        best = min(covers, key=lambda each: (-_gain(covers[each], missing, weights), len(each), each))
        gain = _gain(covers[best], missing, weights)
        if gain <= 0:
            break
        chosen.append(Choice(best, len(covers[best] & missing), 100.0 * gain / total))
        missing -= covers.pop(best)
    return chosen


def _gain(bins: set[Bin], missing: set[Bin], weights: Mapping[Bin, float]) -> float:
    return sum(weights[each] for each in bins & missing)


def _incidence(coverage: Coverage) -> dict[str, set[Bin]]:
    """Workload -> the bins that name it as an example."""
    covers: dict[str, set[Bin]] = {}
    for each, hits in coverage.hits.items():
        for workload in hits.examples:
            covers.setdefault(workload, set()).add(each)
    return covers


def _weights(covers: Mapping[str, set[Bin]], histogram: Mapping[str, float]) -> dict[Bin, float]:
    """Weight of each bin: one, and with a histogram as much again as all bins together have, shared out by how much of
    production falls into each."""
    weights = {each: 1.0 for bins in covers.values() for each in bins}
    production: dict[Bin, float] = dict.fromkeys(weights, 0.0)
    wanted = [(parse_request(text), amount) for text, amount in histogram.items()]
    for workload, bins in covers.items():
        amount = sum(amount for request, amount in wanted if _asks_for(request, workload))
        for each in bins:
            production[each] += amount
    total = sum(production.values())
    if total:
        weights = {each: 1.0 + len(weights) * production[each] / total for each in weights}
    return weights


def not_covered(coverage: Coverage, histogram: Mapping[str, float]) -> list[str]:
    """The histogram's workloads that match none of the coverage's, most launched first: what they visit is not known,
    and they weigh nothing."""
    covers = _incidence(coverage)
    missing = [text for text in histogram if not any(_asks_for(parse_request(text), each) for each in covers)]
    return sorted(missing, key=lambda text: -histogram[text])


def _asks_for(request: tuple[str, Mapping[str, str]], workload: str) -> bool:
    """Whether a workload is of the kernel that a request names, with the values of the axes that it names."""
    kernel, axes = request
    name, shape = parse_request(workload.split(" @ ")[0])
    return kernel == name and all(shape.get(axis) == value for axis, value in axes.items())


def read_histogram(path: Path) -> dict[str, float]:
    """Read a CSV of ``workload,count`` (header required; a workload is KERNEL[:axis=value,...], quoted where it has
    commas). Raises UsageError, naming the line, for anything else."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path}: larger than {MOST_BYTES} bytes, no histogram")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a histogram: {error}") from None
    reader = csv.DictReader(io.StringIO(text))
    try:
        header = set(reader.fieldnames or ())
    except csv.Error as error:
        raise UsageError(f"{path} line 1: {error}") from None
    if not {"workload", "count"} <= header:
        raise UsageError(f"{path}: a histogram is a CSV with the columns workload and count")
    found: dict[str, float] = {}
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UsageError(f"{path} line {reader.line_num}: {error}") from None
        if row is None:
            break
        where = f"{path} line {reader.line_num}"
        try:
            count = float(row["count"])
        except (TypeError, ValueError):
            raise UsageError(f"{where}: count {row['count']!r:.60} is no number") from None
        if not 0 <= count < float("inf"):
            raise UsageError(f"{where}: count {row['count']!r:.60} must be zero or more")
        try:
            find_kernel(parse_request(row["workload"] or "")[0])
        except UsageError as error:
            raise UsageError(f"{where}: {' '.join(str(error).split())}") from None  # a field may have lines
        found[row["workload"]] = found.get(row["workload"], 0.0) + count
    if not any(found.values()):
        raise NoDataError(f"{path}: the histogram has no workload that is launched")
    return found


def save_suite(path: Path, choices: Iterable[Choice], *, kept: int, bins: int) -> None:
    """Write the chosen workloads as a suite file; ``kept`` of ``bins`` bins are covered."""
    document = {
        "gpusim_suite": SUITE_VERSION,
        "kept_bins": kept,
        "bins": bins,
        "workloads": [
            {"workload": c.workload, "new_bins": c.new_bins, "adds_percent": round(c.adds_percent, 3)} for c in choices
        ],
    }
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def load_suite(path: Path) -> list[Choice]:
    """Read a file of :func:`save_suite`; UsageError, naming file and place, for any other."""
    document = read_document(
        path,
        "gpusim_suite",
        SUITE_VERSION,
        most_bytes=MOST_BYTES,
        what="suite",
        made_by="gpusim suite make",
        error=UsageError,
    )
    found = as_record(_Document, document, str(path), UsageError)
    return [_choice(row, f"{path}: workloads[{i}]") for i, row in enumerate(found["workloads"])]


def _choice(row: _Row, where: str) -> Choice:
    try:
        parse_request(row["workload"].split(" @ ")[0])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return Choice(row["workload"], row.get("new_bins", 0), row.get("adds_percent", 0.0))
