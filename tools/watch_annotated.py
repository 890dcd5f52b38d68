"""Annotated change-point series and their score, as the Turing Change Point Dataset scores them.

Source: van den Burg and Williams, "An evaluation of change point detection algorithms", arXiv 2003.06222: a found index
within 5 of an annotated one is right; precision against the union of the annotators, recall the mean over them; index 0
counts as a change in both sets.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MARGIN = 5
#: Mean F1 of the best published detector on 22 of these 24 series, of those that the paper compares: with default
#: settings, and with each detector's settings chosen for each series by its annotations ("oracle").
PUBLISHED_DEFAULT, PUBLISHED_ORACLE = 0.705, 0.887


@dataclass(frozen=True)
class Annotated:
    """``values``: float64[points, variables], NaN where there is none; ``marks``: annotator -> indices from 0."""

    name: str
    values: np.ndarray
    marks: Mapping[str, frozenset[int]]

    @property
    def learning(self) -> bool:
        """Whether it is of the half that rules were set on; the other was looked at when they were finished."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 2 == 0


def read_annotated(folder: Path) -> list[Annotated]:
    """The series of ``folder`` (series.csv.gz and annotations.csv), by name."""
    values: dict[str, dict[str, list[float]]] = {}
    with gzip.open(folder / "series.csv.gz", "rt", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            variables = values.setdefault(row["series"], {})
            variables.setdefault(row["variable"], []).append(float(row["value"]) if row["value"] else math.nan)
    marks: dict[str, dict[str, set[int]]] = {}
    with (folder / "annotations.csv").open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            own = marks.setdefault(row["series"], {}).setdefault(row["annotator"], set())
            if int(row["index"]) >= 0:
                own.add(int(row["index"]))
    return [
        Annotated(
            name,
            np.array(list(values[name].values())).T,
            {annotator: frozenset(each) for annotator, each in marks[name].items()},
        )
        for name in sorted(values)
    ]


def f1(marks: Mapping[str, Iterable[int]], found: Iterable[int]) -> float:
    """The score of ``found`` against what each annotator marked."""
    found = {0, *found}
    sets = [{0, *each} for each in marks.values()]
    precision = _matched(set().union(*sets), found) / len(found)
    recall = sum(_matched(each, found) / len(each) for each in sets) / len(sets)
    return 2 * precision * recall / (precision + recall)


def _matched(true: set[int], found: set[int]) -> int:
    """How many of ``true`` have one of ``found`` within the margin, each used once."""
    left, count = set(found), 0
    for index in sorted(true):
        near = [each for each in left if abs(each - index) <= MARGIN]
        if near:
            left.remove(min(near, key=lambda each: (abs(each - index), each)))
            count += 1
    return count
