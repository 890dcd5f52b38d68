"""What validation has recorded, with the model that made it: so that who changed the model sees which figures may be
old, and what new ones cost.

Mental model: a recording is the rows of one source on one description (the published curves on one GPU, a half of an
external set), as tools/record_residuals.py writes them. Its digest is that of all source and of the description that
decide a prediction: where it is not today's, the figures *may* differ. Whether they do, a probe says: the cheapest
rows, predicted anew and laid beside the recorded ones. Digests stand in traces/residuals/recorded.json. Where a probe
found the recorded figures to the last digit, that is noted beside them (probed.json), with today's digest and how many
rows it was: the others are then as they were recorded, and taken to be the same, not known to be.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.records import parse_record
from gpusim.io.whole_file import write_whole
from gpusim.uncertainty.interval import kind_of
from gpusim.uncertainty.table import DATASHEET
from workloads.external.families import file_of

from . import kept
from .held_out import held_out
from .predict import machine_of
from .published import NAME as PUBLISHED
from .residuals import FILE, Residual
from .sets import MeasuredSet, gpu_of, load_sets, settings_of

DIGESTS = FILE.with_name("recorded.json")
PROBES = FILE.with_name("probed.json")
#: The suite that tools/microbenchmarks.py has the figures of.
SMALL = "small_launches"
#: Sources whose rows are curves, on a description as it ships or made from the datasheet.
CURVES = (PUBLISHED, SMALL)
SAME, PROBED, OTHER, NEVER = "same source", "other source, a probe the same", "other source", "not recorded"

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Recording:
    """``rows`` of a ``source`` on a ``gpu`` described as ``kind`` says, of a ``half`` of a set; ``cpu_s``: processor
    seconds they took; ``unknown``: rows of which that was not recorded; ``expected_s``: what all take then, of the
    unknown ones as much as a row of the source (of all sources, where none is known). ``state``: whether the source
    that decides a prediction is the one that they were made with, or gave the same figures for ``probed`` of them."""

    source: str
    kind: str
    gpu: str
    half: str
    rows: int
    cpu_s: float
    unknown: int
    expected_s: float
    state: str
    probed: int = 0

    @property
    def key(self) -> Key:
        """Which one it is."""
        return self.source, self.kind, self.gpu, self.half


def key_of(row: Residual) -> Key:
    """Which recording a row belongs to."""
    return row.source, row.kind, row.gpu, row.half


def name_of(key: Key) -> str:
    """A recording in words."""
    return " ".join(filter(None, key))


@cache
def _measured(name: str) -> MeasuredSet:
    """The external set of that name, which a process reads once."""
    (one,) = load_sets([name])
    return one


def described(key: Key) -> GpuSpec:
    """The description that a recording's rows are predicted on."""
    source, kind, gpu, _ = key
    if source not in CURVES:
        one = _measured(source)
        row = next(row for row in one.rows if gpu_of(one.entry, row) == gpu)
        return machine_of(gpu, list(settings_of(one.entry, row)))
    return held_out(gpu) if kind == DATASHEET else load_gpu(gpu)


def digest_of(key: Key) -> str:
    """Of all that decides a recording's predictions today: gpusim's source, the description, and what makes a set's
    launches."""
    digest = hashlib.sha256(f"{kept.source_digest()} {described(key)!r}".encode())
    if key[0] not in CURVES:
        digest.update(file_of(_measured(key[0]).entry["family"]).read_bytes())
    return digest.hexdigest()[:16]


def known_digests(path: Path = DIGESTS) -> dict[str, str]:
    """Recording, as text -> the digest it was made with. Raises UsageError for a damaged file."""
    return (
        parse_record(dict[str, str], path.read_bytes(), f"{path} cannot be read", UsageError) if path.exists() else {}
    )


def remember(keys: Iterable[Key], path: Path = DIGESTS) -> None:
    """Say of recordings that they are of today's model."""
    known = known_digests(path) | {name_of(key): digest_of(key) for key in keys}
    write_whole(path, (json.dumps(dict(sorted(known.items())), indent=2) + "\n").encode())


@dataclass(frozen=True)
class Probe:
    """``rows`` of a recording were predicted by what has this ``digest``, to the recorded figures' last digit."""

    digest: str
    rows: int


def known_probes(path: Path = PROBES) -> dict[str, Probe]:
    """Recording, as text -> its last probe that found the figures the same. Raises UsageError for a damaged file."""
    return (
        parse_record(dict[str, Probe], path.read_bytes(), f"{path} cannot be read", UsageError) if path.exists() else {}
    )


def note_probe(key: Key, rows: int, path: Path = PROBES) -> None:
    """Say of a recording that today's model gives the recorded figures for so many of its rows."""
    known = known_probes(path) | {name_of(key): Probe(digest_of(key), rows)}
    text = json.dumps({name: asdict(probe) for name, probe in sorted(known.items())}, indent=2)
    write_whole(path, (text + "\n").encode())


def recordings(
    rows: Sequence[Residual], known: dict[str, str], probes: Mapping[str, Probe] | None = None
) -> list[Recording]:
    """Every recording, the cheapest first, and at the end the halves of external sets that could be predicted and never
    were. ``probes``: of rows that today's model was found to predict as they are recorded."""
    found = []
    of_sets = {
        one.name: Counter((gpu_of(one.entry, row), row.half) for row in one.rows if one.is_predicted)
        for one in load_sets()
    }
    for key in dict.fromkeys(key_of(row) for row in rows):
        own = [row for row in rows if key_of(row) == key]
        # A set may have left out rows since.
        still = min(len(own), of_sets[key[0]][key[2:]]) if key[0] in of_sets else len(own)
        state, probe = OTHER, (probes or {}).get(name_of(key))
        if known.get(name_of(key)) == digest_of(key):
            state = SAME
        elif probe is not None and probe.digest == digest_of(key):
            state = PROBED
        confirmed = probe.rows if probe is not None and state == PROBED else 0
        unknown = sum(row.cpu_s == 0 for row in own)
        cpu_s = sum(row.cpu_s for row in own)
        expected_s = round(cpu_s + unknown * row_s(rows, key[0]), 1)
        found.append(Recording(*key, still, round(cpu_s, 1), unknown, expected_s, state, confirmed))
    found.sort(key=lambda each: (each.expected_s, each.source))
    recorded = {(each.source, each.half) for each in found}
    for name, counts in of_sets.items():
        for (gpu, half), count in counts.items():
            if (name, half) not in recorded:
                expected_s = round(count * row_s(rows, name), 1)
                found.append(Recording(name, kind_of(gpu), gpu, half, count, 0.0, count, expected_s, NEVER))
    return found


def row_s(rows: Sequence[Residual], source: str) -> float:
    """Processor seconds of a row of the source, the mean of the rows of which they are known; where none is, of all
    sources."""
    for chosen in ([row for row in rows if row.source == source], rows):
        known = [row.cpu_s for row in chosen if row.cpu_s > 0]
        if known:
            return sum(known) / len(known)
    return 0.0
