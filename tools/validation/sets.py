"""Sets of measurements that others published, and which half of each may be looked at.

Mental model: ``traces/external/manifest.json`` says of each set where it comes from and how it was measured; its CSV
has one timed launch a row. A row's *identity* is the columns that say what ran. Its half is the first byte of the
SHA-256 of set and identity: below 128 it is for learning, else it is looked at only when a change is finished. Columns
named ``twins`` stay out of the hash, so that rows which hardly differ fall on one side. The same hash orders the rows,
so that a sample of N is the same whoever takes it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NotRequired, TypedDict

from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.io.records import parse_record

FOLDER = Path(__file__).parents[2] / "traces" / "external"
LEARN, FINAL = "learn", "final"


class Source(TypedDict):
    """Where the figures stand."""

    repository: str
    commit: str
    path: str
    date: str
    licence: str


class SetEntry(TypedDict):
    """What the manifest says of a set; texts are for the page. ``gpu``: the description of all rows, "" where each row
    names its own in the column ``gpu``. ``power``: "board" where rows are predicted at the clock that the board's power
    leaves a loop of the launch;
    ``measured_by``: a name of :mod:`gpusim.silicon.methods` where what that reports is predicted."""

    title: str
    file: str
    rows: int
    sha256: str
    family: str
    gpu: str
    settings: list[str]
    measured_on: str
    identity: list[str]
    twins: list[str]
    strata: list[str]
    where: dict[str, str]
    reduce: str
    one_problem: bool
    source: Source
    clocks: str
    power: str
    method: str
    cache: str
    measured_by: NotRequired[str]
    compiler: str
    nvrtc: str
    noise: str
    status: str


class _Manifest(TypedDict):
    about: str
    sets: dict[str, SetEntry]


@dataclass(frozen=True)
class MeasuredRow:
    """``values``: the columns as text; ``identity`` as text; ``half`` LEARN or FINAL; times in microseconds,
    ``noise_percent`` of a repeat about the median, None where the source does not say it."""

    identity: str
    values: dict[str, str]
    half: str
    order: str
    measured_us: float
    noise_percent: float | None


@dataclass(frozen=True)
class MeasuredSet:
    """A set with the rows that count: those that its ``where`` lets through."""

    name: str
    entry: SetEntry
    rows: tuple[MeasuredRow, ...]
    left_out: int

    @property
    def is_predicted(self) -> bool:
        """Whether its kernels can be predicted today."""
        return self.entry["status"] == "predicted"


def gpu_of(entry: SetEntry, row: MeasuredRow) -> str:
    """The description that a row is predicted on: the set's, or its own where the set's rows are of several GPUs."""
    return entry["gpu"] or row.values["gpu"]


def settings_of(entry: SetEntry, row: MeasuredRow) -> tuple[str, ...]:
    """What is changed of that description: for all rows, and in the state of the row's own board (column ``settings``,
    if the table has it)."""
    return (*entry["settings"], *row.values.get("settings", "").split())


def described_as(entry: SetEntry) -> tuple[str, ...]:
    """The set's description and what is changed of it, each as it is written on a command line."""
    return (entry["gpu"] or "each row's gpu", *entry["settings"])


def load_sets(names: Sequence[str] = (), folder: Path = FOLDER) -> list[MeasuredSet]:
    """The named sets, or all. Raises UsageError for a name that no set has and for a damaged table."""
    path = folder / "manifest.json"
    try:
        known = parse_record(_Manifest, path.read_bytes(), f"{path} cannot be read", UsageError)["sets"]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for name in names:
        if name not in known:
            raise UsageError(f"there is no set {name!r}; {hint(name, known)}")
    return [_load(folder, name, known[name]) for name in (names or known)]


def _load(folder: Path, name: str, entry: SetEntry) -> MeasuredSet:
    path = folder / Path(entry["file"]).name
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise UsageError(f"{path} is not the table that the manifest names: its sha256 differs")
    found: dict[str, list[MeasuredRow]] = defaultdict(list)
    left_out = 0
    for values in csv.DictReader(io.StringIO(data.decode())):
        if any(values[column] != wanted for column, wanted in entry["where"].items()):
            left_out += 1
            continue
        row = _row(name, entry, values)
        found[row.identity].append(row)
    return MeasuredSet(name, entry, tuple(_one(rows) for rows in found.values()), left_out)


def _row(name: str, entry: SetEntry, values: dict[str, str]) -> MeasuredRow:
    identity = ",".join(f"{column}={values[column]}" for column in entry["identity"])
    split = ",".join(f"{column}={values[column]}" for column in entry["identity"] if column not in entry["twins"])
    digest = hashlib.sha256(f"{name}:{split}".encode()).digest()
    order = hashlib.sha256(f"order:{name}:{identity}".encode()).hexdigest()
    noise = values["noise_percent"]
    return MeasuredRow(
        identity,
        values,
        LEARN if digest[0] < 128 else FINAL,
        order,
        float(values["measured_us"]),
        float(noise) if noise else None,
    )


def _one(rows: list[MeasuredRow]) -> MeasuredRow:
    """Rows of one identity, measured several times, as one: the median, and at least the noise between them."""
    if len(rows) == 1:
        return rows[0]
    times = sorted(row.measured_us for row in rows)
    middle = (
        times[len(times) // 2] if len(times) % 2 else math.sqrt(times[len(times) // 2 - 1] * times[len(times) // 2])
    )
    between = 100 * (times[-1] - times[0]) / 2 / middle
    first = rows[0]
    noise = max([between, *(row.noise_percent for row in rows if row.noise_percent is not None)])
    return MeasuredRow(first.identity, first.values, first.half, first.order, middle, noise)


def sample(rows: Sequence[MeasuredRow], count: int | None, strata: Sequence[str]) -> list[MeasuredRow]:
    """``count`` of the rows (None: all), each stratum as often as the others, by hash within it: a larger sample holds
    a smaller one."""
    by_stratum: dict[tuple[str, ...], list[MeasuredRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.order):
        by_stratum[tuple(row.values[column] for column in strata)].append(row)
    turns = zip_longest(*(by_stratum[key] for key in sorted(by_stratum)))
    every = [row for turn in turns for row in turn if row is not None]
    return every if count is None else every[:count]
