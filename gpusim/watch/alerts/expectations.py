"""Changes that were agreed on beforehand: ``expect.toml``, which lies beside the plan.

Mental model: an expectation says of which kernel, GPU and commit a slowdown of how many percent was agreed by whom, and
until when. An alert all of whose slower series are expected is opened as accepted and rouses nobody. On the day after
its end it says nothing more, and what it had excused is open again.

It is untrusted input: raises ExpectationError with the place for what is none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpusim.errors import ExpectationError
from gpusim.io.records import NotNegative, as_record
from gpusim.watch.owners import fits_kernel

FILE = "expect.toml"
MOST_BYTES = 1 << 20
_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Expectation:
    """``kernel`` and ``gpu``: patterns as a shell's; ``commit``: a hash or its first digits, empty for any (then
    ``until`` bounds it).
    ``percent``: at least and at most so much slower. ``until``: its last day, ISO."""

    agreed_by: str
    until: str
    kernel: str = "*"
    gpu: str = "*"
    commit: str = ""
    percent: tuple[NotNegative, NotNegative] = (0.0, 0.0)

    def fits(self, kernel: str, gpu: str, commit: str, percent: float) -> bool:
        """Whether it speaks of a series that ``commit`` made so much slower."""
        low, high = self.percent
        named = fits_kernel(self.kernel, kernel) and fnmatchcase(gpu, self.gpu) and commit.startswith(self.commit)
        return named and low <= percent <= high

    def ended(self, today: date) -> bool:
        """Whether its last day has passed."""
        return date.fromisoformat(self.until) < today

    @property
    def name(self) -> str:
        """What a report calls it."""
        at = f" by {self.commit[:10]}" if self.commit else ""
        return f"{self.kernel} on {self.gpu}{at}, {self.percent[0]:g} to {self.percent[1]:g} %"


def load_expectations(path: Path) -> tuple[Expectation, ...]:
    """The expectations of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExpectationError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > MOST_BYTES:
        raise ExpectationError(f"{path}: {len(data)} bytes are no file of expectations")
    try:
        tables = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ExpectationError(f"{path}: not TOML: {error}") from None
    listed = tables.pop("expect", [])
    if tables or not isinstance(listed, list):
        raise ExpectationError(f"{path}: it should hold tables [[expect]] alone")
    return tuple(make_expectation(each, f"{path}: expect {index}") for index, each in enumerate(listed, 1))


def make_expectation(table: Any, where: str) -> Expectation:
    """The expectation of a parsed ``table``, which stands at ``where``."""
    if not isinstance(table, Mapping):
        raise ExpectationError(f"{where}: it should be a table [[expect]]")
    values = {**table}
    if isinstance(values.get("until"), date):
        values["until"] = values["until"].isoformat()
    for key in ("agreed_by", "until", "percent"):
        if key not in values:
            raise ExpectationError(f"{where}: it has no {key}")
    made = as_record(Expectation, values, where, ExpectationError, closed=True)
    try:
        date.fromisoformat(made.until)
    except ValueError:
        raise ExpectationError(f"{where}: until {made.until!r:.40} is no date; write it as 2027-03-31") from None
    if made.commit and not _HASH.fullmatch(made.commit):
        raise ExpectationError(f"{where}: commit {made.commit!r:.50} should be 7 to 40 digits of its hash")
    if made.percent[0] > made.percent[1]:
        raise ExpectationError(f"{where}: percent should be [at least, at most], not {list(made.percent)}")
    if not made.agreed_by.strip():
        raise ExpectationError(f"{where}: agreed_by is empty; say who agreed")
    return made


def expectation_for(
    rules: Iterable[Expectation], kernel: str, gpu: str, commit: str, percent: float, today: date
) -> Expectation | None:
    """The first of ``rules`` that has not ended and fits."""
    fitting = (rule for rule in rules if rule.fits(kernel, gpu, commit, percent) and not rule.ended(today))
    return next(fitting, None)
