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
from typing import TypedDict

from gpusim.errors import CoverageFileError
from gpusim.explore.points import Bin, all_bins
from gpusim.io.document import read_document
from gpusim.io.records import Count, Positive, as_record
from gpusim.io.whole_file import write_whole

COVERAGE_VERSION = 1
MOST_BYTES = 64 << 20
#: Workloads remembered for each bin: the first ones, enough to run it again and to know who goes there.
EXAMPLES = 8


class _Row(TypedDict):
    """A bin of a coverage file."""

    point: str
    bin: str
    count: Positive
    examples: list[str]


class _Document(TypedDict):
    """A coverage file."""

    launches: Count
    hits: list[_Row]


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
    """``hits``: bin -> :class:`Hits`; ``launches``: how many were looked at; ``instructions``: warp instructions that
    they executed, of which files of coverage say nothing. A value: operations return new ones."""

    hits: Mapping[Bin, Hits] = field(default_factory=dict)
    launches: int = 0
    instructions: int = field(default=0, compare=False)

    @classmethod
    def of(cls, bins: Iterable[Bin], workload: str, instructions: int = 0) -> Coverage:
        """What one launch of ``workload`` covers."""
        return cls({each: Hits(1, (workload,)) for each in bins}, 1, instructions)

    def merge(self, *others: Coverage) -> Coverage:
        """All launches together."""
        hits, launches, instructions = dict(self.hits), self.launches, self.instructions
        for other in others:
            launches += other.launches
            instructions += other.instructions
            for each, more in other.hits.items():
                hits[each] = hits[each] + more if each in hits else more
        return Coverage(hits, launches, instructions)

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
        found = as_record(_Document, document, str(path), CoverageFileError)
        hits = {
            (row["point"], row["bin"]): Hits(row["count"], tuple(row["examples"][:EXAMPLES])) for row in found["hits"]
        }
        return cls(hits, found["launches"])


def in_order(bins: Iterable[Bin]) -> Iterator[Bin]:
    """Bins in the model's order, then those that it does not define, sorted."""
    known = {each: index for index, each in enumerate(all_bins())}
    yield from sorted(bins, key=lambda each: (known.get(each, len(known)), each))
