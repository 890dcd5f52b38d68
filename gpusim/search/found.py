"""What a search has found: its predictions in order, as a text, as metrics, and in Kernel Tuner's files; and what
validation on silicon says of such searches.

Mental model: a value that knows the best configuration and says beside it how far to trust that: its interval, what the
first stage was off by, how many others may still be as fast, and how much longer than the best measured configuration
the best predicted one took where both are known.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpusim.cases.formulas import Formula
from gpusim.errors import UsageError
from gpusim.io.records import parse_record
from gpusim.io.sibling import traces_folder
from gpusim.search.files import write_cache, write_t4
from gpusim.search.kept import Predicted, as_text
from gpusim.search.predict import EXACT
from gpusim.search.space import applied

#: A metric of a configuration: a function of its parameters and ``time``, in milliseconds as Kernel Tuner has it, or a
#: formula of these.
Metric = str | Formula | Callable[..., Any]
#: Reasons that are told of what was left out.
_MOST_REASONS = 3


@dataclass(frozen=True)
class ValidatedRegret:
    """What a set of measured configurations showed: on it the best predicted one took ``regret_percent`` more than the
    best measured one, the fastest of the five best predicted ``regret_of_five_percent`` more (None of fewer than
    twenty), over ``rows`` configurations whose mean error was ``mape_percent`` and whose order had the rank correlation
    ``rank``."""

    measured: str
    gpu: str
    rows: int
    regret_percent: float
    mape_percent: float
    rank: float | None
    regret_of_five_percent: float | None = None


@dataclass(frozen=True)
class Tuned:
    """``rows`` best first, exact before coarse, then those left out; ``validated``: what validation found of such
    searches. ``off``: exact over coarse time, least and most, of those that have both. ``undecided``: how many coarse
    ones could be faster than the best by how far these scatter. ``sampled``: launches that repeat themselves were
    run in part, so no result was checked. ``metrics``: see
    :func:`gpusim.tune`. ``device``: the GPU's name in full."""

    gpu: str
    kernel: str
    rows: tuple[Predicted, ...]
    validated: tuple[ValidatedRegret, ...]
    off: tuple[float, float] | None = None
    undecided: int = 0
    sampled: bool = False
    metrics: Mapping[str, Metric] = field(default_factory=dict, compare=False)
    device: str = ""

    @property
    def best(self) -> Predicted:
        """The configuration of the least exact time; of the least of all where none was to be simulated whole."""
        return self.rows[0]

    def measures(self, row: Predicted) -> dict[str, Any]:
        """The metrics of a configuration that has a time."""
        if row.time_us is None:
            return {}
        values: dict[str, Any] = {**row.parameters, "time": row.time_us / 1e3}
        for name, metric in self.metrics.items():  # a later one may use an earlier one, as Kernel Tuner's do
            values[name] = metric_of(metric)(values)
        return {name: values[name] for name in self.metrics}

    def __str__(self) -> str:
        able = [row for row in self.rows if row.time_us is not None]
        exact = sum(row.stage == EXACT for row in able)
        metrics = "".join(f", {name} {_shown(value)}" for name, value in self.measures(self.best).items())
        lines = [
            f"{self.kernel} on {self.gpu}: {as_text(self.best.parameters)} takes {_between(self.best)} (predicted{metrics}),"
            f" the best of {len(able)} configurations, of which {exact} were simulated whole; {len(self.rows) - len(able)} left out"
        ]
        lines += [f"left out: {number} with {why}" for why, number in self._reasons()]
        if self.off is not None:
            least, most = (100 * (each - 1) for each in self.off)
            more = (
                f"; {self.undecided} more could be fastest by that: exact={exact + self.undecided} simulates them whole"
            )
            lines.append(
                f"the first stage, which predicts from a part, was off by {least:+.1f} to {most:+.1f} %{more if self.undecided else ''}"
            )
        if self.sampled:
            lines.append(
                "not checked: sampled; what a configuration computes is checked without sample, at a smaller size"
            )
        widest: dict[tuple[str, str], ValidatedRegret] = {}  # of a set's halves and the whole, the whole
        for each in sorted(self.validated, key=lambda each: each.rows):
            widest[each.measured, each.gpu] = each
        for each in sorted(widest.values(), key=lambda each: each.measured):
            rank = "" if each.rank is None else f", rank correlation {each.rank:.2f}"
            five = each.regret_of_five_percent
            measured = "" if five is None else f", the fastest of the five predicted best {five:.1f} %"
            lines.append(
                f"on silicon, {each.measured} ({each.rows} configurations, {each.gpu}): the one predicted best took {each.regret_percent:.1f} % more"
                f" than the best one{measured}{rank}, mean error {each.mape_percent:.1f} %"
            )
        return "\n".join(lines)

    def _reasons(self) -> list[tuple[str, int]]:
        """Why configurations were left out, in the words of one each, the most frequent reasons first."""
        example: dict[str, str] = {}
        kinds: Counter[str] = Counter()
        for row in self.rows:
            if row.time_us is None:
                kind = re.sub(r"<[^>]*>|[0-9]+", "", row.why)
                example.setdefault(kind, row.why)
                kinds[kind] += 1
        return [(example[kind][:300], number) for kind, number in kinds.most_common(_MOST_REASONS)]

    def write_cache(self, path: str | os.PathLike[str], problem_size: Sequence[int] | None = None) -> None:
        """Write the predictions as a cache file of Kernel Tuner, for its tools (``simulation_mode=True`` searches in
        it) and ``gpusim runs import``; times in milliseconds. ``problem_size``: as given to Kernel Tuner, which looks
        at it where it is said."""
        write_cache(self, Path(path), problem_size)

    def write_t4(self, path: str | os.PathLike[str]) -> None:
        """Write the predictions as results in the T4 format that autotuners share; times in milliseconds."""
        write_t4(self, Path(path))


def metric_of(metric: Metric) -> Callable[[Mapping[str, Any]], Any]:
    """A metric as a function of a configuration with its time. Raises UsageError for what is none."""
    if isinstance(metric, (str, Formula)):
        return Formula(metric) if isinstance(metric, str) else metric
    if not callable(metric):
        raise UsageError(f"a metric is a function of a configuration and its time, or a formula, not {metric!r:.80}")
    return lambda values: applied(metric, values, list(values))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class _Summary(TypedDict):
    set: str
    gpu: str
    rows: int
    regret_percent: NotRequired[float | None]
    regret_of_five_percent: NotRequired[float | None]
    mape_percent: NotRequired[float | None]
    rank: NotRequired[float | None]


class _Results(TypedDict):
    summaries: list[_Summary]


def validated_regrets() -> tuple[ValidatedRegret, ...]:
    """What ``tools/validate.py --record`` last found for sets of configurations of one problem; none where it found
    none."""
    path = traces_folder("external") / "results.json"
    try:
        results = parse_record(_Results, path.read_bytes(), f"{path} cannot be read", UsageError)
    except OSError:
        return ()
    return tuple(
        ValidatedRegret(
            each["set"],
            each["gpu"],
            each["rows"],
            regret,
            each.get("mape_percent") or 0.0,
            each.get("rank"),
            each.get("regret_of_five_percent"),
        )
        for each in results["summaries"]
        if (regret := each.get("regret_percent")) is not None and each["rows"] > 2
    )


def _between(row: Predicted) -> str:
    """A time with its interval."""
    time_us = row.time_us or 0.0
    ends = f" ({time_us / row.factor:.4g} to {time_us * row.factor:.4g})" if row.factor else ""
    return f"{time_us:.4g} us{ends}"
