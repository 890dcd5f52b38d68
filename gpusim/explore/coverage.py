"""Coverage as a value: which bins were hit, how often, and by which workloads first.

Mental model: a map from bin to hits. Merging adds the hits and keeps the first examples, so that coverage of many
runs, processes and days is one value; what is missing from it is a hole. Files are JSON of a version, checked
when read, with bins that this version does not know kept apart rather than dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import CoverageFileError
from gpusim.explore.points import Bin, all_bins
from gpusim.io.document import read_document
from gpusim.io.whole_file import write_whole

COVERAGE_VERSION = 1
MOST_BYTES = 64 << 20
#: Workloads remembered for each bin: the first ones, enough to run it again and to know who goes there.
EXAMPLES = 8


@dataclass(frozen=True)
class Hits:
    """How many launches fell into a bin, and the first workloads (``kernel:shape @ gpu``) that did."""

    count: int
    examples: tuple[str, ...] = ()

    def __add__(self, other: Hits) -> Hits:
        together = dict.fromkeys((*self.examples, *other.examples))
        return Hits(self.count + other.count, tuple(together)[:EXAMPLES])


@dataclass(frozen=True)
class Coverage:
    """``hits``: bin -> :class:`Hits`; ``launches``: how many were looked at. A value: operations return new ones."""

    hits: Mapping[Bin, Hits] = field(default_factory=dict)
    launches: int = 0

    @classmethod
    def of(cls, bins: Iterable[Bin], workload: str) -> Coverage:
        """What one launch of ``workload`` covers."""
        return cls({each: Hits(1, (workload,)) for each in bins}, 1)

    def merge(self, *others: Coverage) -> Coverage:
        """All launches together."""
        hits, launches = dict(self.hits), self.launches
        for other in others:
            launches += other.launches
            for each, more in other.hits.items():
                hits[each] = hits[each] + more if each in hits else more
        return Coverage(hits, launches)

    def only_in(self, other: Coverage) -> list[Bin]:
        """Bins that ``other`` has and this one lacks, in the model's order."""
        return [each for each in in_order(other.hits) if each not in self.hits]

    def holes(self) -> list[Bin]:
        """Bins of the model that no launch fell into."""
        return [each for each in all_bins() if each not in self.hits]

    def __contains__(self, each: object) -> bool:
        return each in self.hits

    def save(self, path: Path) -> None:
        """Write the coverage to ``path``, whole or not at all."""
        document = {
            "gpusim_coverage": COVERAGE_VERSION,
            "launches": self.launches,
            "hits": [
                {"point": point, "bin": label, "count": hits.count, "examples": list(hits.examples)}
                for (point, label), hits in ((each, self.hits[each]) for each in in_order(self.hits))
            ],
        }
        write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Coverage:
        """Read a file of :meth:`save`. Raises CoverageFileError, naming file and place, for any other."""
        document = read_document(
            path,
            "gpusim_coverage",
            COVERAGE_VERSION,
            most_bytes=MOST_BYTES,
            what="coverage file",
            made_by="gpusim cover run",
            error=CoverageFileError,
        )
        launches, rows = document.get("launches"), document.get("hits")
        if not _is_count(launches) or not isinstance(rows, list):
            raise CoverageFileError(f"{path}: launches must be a whole number and hits a list")
        return cls(dict(_read(path, index, row) for index, row in enumerate(rows)), launches)


def in_order(bins: Iterable[Bin]) -> Iterator[Bin]:
    """Bins in the model's order, then those that it does not define, sorted."""
    known = {each: index for index, each in enumerate(all_bins())}
    yield from sorted(bins, key=lambda each: (known.get(each, len(known)), each))


def _read(path: Path, index: int, row: Any) -> tuple[Bin, Hits]:
    """One entry of ``hits``, checked."""
    where = f"{path}: hits[{index}]"
    if not isinstance(row, dict):
        raise CoverageFileError(f"{where} is no object")
    point, label, count, examples = (row.get(key) for key in ("point", "bin", "count", "examples"))
    if not isinstance(point, str) or not isinstance(label, str) or not _is_count(count) or count < 1:
        raise CoverageFileError(f"{where} must have a point, a bin and a count of at least 1")
    if not isinstance(examples, list) or not all(isinstance(each, str) for each in examples):
        raise CoverageFileError(f"{where}: examples must be a list of texts")
    return (point, label), Hits(count, tuple(examples)[:EXAMPLES])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
