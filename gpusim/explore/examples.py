"""The example database: what searches have run, in a folder that any number of processes share.

Mental model: each process appends to a file that it alone has made, one line a run, in one write; everybody reads
everybody's. So there is nothing to lock: a process that is killed leaves at most a torn last line in its own file,
which readers pass over, and two commands in one folder cannot lose each other's runs. A file's first line says what its
runs are runs of; those of another property, GPU or gpusim are left alone, since they would say something else today.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

import msgspec

from gpusim.cases.suite import shape_text
from gpusim.errors import FindingFileError
from gpusim.explore.coverage import Coverage, Hits
from gpusim.explore.property import Outcome
from gpusim.io.records import Count, Finite, Scalar, parse_record
from gpusim.io.whole_line import append_line

EXAMPLES_VERSION = 1
PATTERN = "runs-*.jsonl"


@dataclass(frozen=True)
class Tried:
    """One run: kernel, complete shape, what was measured, and how many bins it was the first to hit."""

    kernel: str
    shape: Mapping[str, Any]
    outcome: Outcome
    new_bins: int

    @property
    def key(self) -> tuple[str, str]:
        """What makes two runs the same."""
        return self.kernel, shape_text(dict(self.shape))


class Examples:
    """The runs in ``folder`` that answer ``question`` (anything that is equal for runs that may be mixed).

    Opening reads nothing; :meth:`refresh` takes up what has been added since, by this process and others. ``number``
    of this writer among those of ``session`` that write at the same time: files are read in its order.
    """

    def __init__(self, folder: Path, question: str, session: str, number: int | None = None) -> None:
        self.folder, self.session, self.number = folder, session, number
        self.key = hashlib.sha256(question.encode()).hexdigest()[:16]
        self.runs: dict[tuple[str, str], Tried] = {}
        self.rounds = 0
        self._read: dict[Path, _Reader] = {}
        self._file: int | None = None
        self._path = folder

    def refresh(self) -> None:
        """Read what is new. Raises FindingFileError, naming file and line, for a whole line that is no run."""
        for path in sorted(self.folder.glob(PATTERN)):
            reader = self._read.setdefault(path, _Reader(path))
            for round_number, tried in reader.new_runs(self.key):
                self.runs.setdefault(tried.key, tried)
                self.rounds = max(self.rounds, round_number + 1)

    def find(self, kernel: str, shape: Mapping[str, Any]) -> Outcome | None:
        """The outcome of a shape that anybody has run."""
        self.refresh()
        found = self.runs.get((kernel, shape_text(dict(shape))))
        return None if found is None else found.outcome

    def add(self, round_number: int, tried: Tried) -> None:
        """Keep a run. Once this returns it survives a kill of this process. Raises OSError from the file system."""
        first = self._file is None
        if self._file is None:
            self._file, self._path = self._own_file()
        try:
            _append(self._file, self._path, _row(round_number, tried))
        except OSError:
            if first:
                self.close()
                self._path.unlink(missing_ok=True)
            raise

    def of_session(self) -> Iterator[Tried]:
        """The runs of this session, of all its processes, file after file."""
        for path in sorted(self.folder.glob(f"runs-{self.session}-*.jsonl")):
            yield from (tried for _, tried in _Reader(path).new_runs(self.key))

    def close(self) -> None:
        """Let go of the file; runs can be added again, to another."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _own_file(self) -> tuple[int, Path]:
        # A number first, of files so far where the writer has none: files of one session are read in that order.
        begun = sum(1 for _ in self.folder.glob(f"runs-{self.session}-*.jsonl"))
        number = begun if self.number is None else self.number
        name = f"runs-{self.session}-{number:03}-{os.getpid()}-{secrets.token_hex(2)}.jsonl"
        path = self.folder / name
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        try:
            _append(file, path, {"gpusim_runs": EXAMPLES_VERSION, "key": self.key, "session": self.session})
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return file, path


class _Head(TypedDict):
    """The first line of a file: of which version it is, and of which question."""

    gpusim_runs: int
    key: str


class _Bin(msgspec.Struct, array_like=True):
    """A bin that a run hit, as a list: ``[point, label, count, example]``."""

    point: str
    label: str
    count: int
    example: str | None = None


class _Row(TypedDict):
    """Any other line: a run."""

    round: int
    kernel: str
    shape: dict[str, Scalar]
    divergence: Finite
    detail: str
    launches: int
    new_bins: int
    bins: list[_Bin]
    instructions: NotRequired[Count]


_Read = TypeVar("_Read")


class _Reader:
    """Where the reading of one file stands."""

    def __init__(self, path: Path) -> None:
        self.path, self.place, self.line = path, 0, 0
        self.key: str | None = None

    def new_runs(self, key: str) -> Iterator[tuple[int, Tried]]:
        """(round, run) of the whole lines that have not been read; none of a file that answers another question."""
        if self.key not in (None, key) or self.path.stat().st_size == self.place:
            return
        with self.path.open("rb") as file:
            file.seek(self.place)
            for data in file:
                if not data.endswith(b"\n"):
                    return  # being written, or torn by a kill
                self.place += len(data)
                self.line += 1
                if self.line == 1:
                    self.key = self._checked_key(self._row(_Head, data))
                    if self.key != key:
                        return
                else:
                    yield self._run(self._row(_Row, data))

    def _row(self, kind: type[_Read], data: bytes) -> _Read:
        try:
            return parse_record(kind, data, "it is none", FindingFileError)
        except FindingFileError as error:
            raise self._refusal(str(error)) from None

    def _checked_key(self, row: _Head) -> str:
        if row["gpusim_runs"] != EXAMPLES_VERSION:
            raise self._refusal(f"it does not begin as a file of version {EXAMPLES_VERSION} does")
        return row["key"]

    def _run(self, row: _Row) -> tuple[int, Tried]:
        hits = {(b.point, b.label): Hits(b.count, () if b.example is None else (b.example,)) for b in row["bins"]}
        outcome = Outcome(row["divergence"], row["detail"], Coverage(hits, row["launches"], row.get("instructions", 0)))
        return row["round"], Tried(row["kernel"], row["shape"], outcome, row["new_bins"])

    def _refusal(self, why: str) -> FindingFileError:
        return FindingFileError(
            f"{self.path} line {self.line} is no run of a search ({why}); move the file away to go on without it"
        )


def _row(round_number: int, tried: Tried) -> dict[str, Any]:
    outcome = tried.outcome
    return {
        "round": round_number,
        "kernel": tried.kernel,
        "shape": dict(tried.shape),
        "divergence": outcome.divergence,
        "detail": outcome.detail,
        "launches": outcome.coverage.launches,
        "instructions": outcome.coverage.instructions,
        "new_bins": tried.new_bins,
        "bins": [[*each, hits.count, *hits.examples[:1]] for each, hits in outcome.coverage.hits.items()],
    }


def _append(file: int, path: Path, row: dict[str, Any]) -> None:
    """One line more, or none. Raises OSError that names the file."""
    append_line(file, path, json.dumps(row, allow_nan=False))


def new_session() -> str:
    """A name that no other search has."""
    return secrets.token_hex(4)
