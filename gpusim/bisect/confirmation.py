"""What to measure to confirm a step on silicon, and what was measured already, beside what was simulated.

Mental model: a step has a point before and one after; each is measured on a machine with the GPU by the commands that
are printed, whose rows are kept under names that the next bisection looks for. The measured verdict is that of
:mod:`gpusim.regress.measured`, with its intervals: a simulation is exact, a measurement is not.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpusim.bisect.reading import Point
from gpusim.cases.requests import parse_request
from gpusim.compare.error import Verdict
from gpusim.errors import NoDataError, UnknownRunError
from gpusim.regress.measured import judge_rows
from gpusim.regress.outcome import Outcome
from gpusim.regress.thresholds import Thresholds
from gpusim.silicon.imports import read_rows
from gpusim.silicon.row import SiliconRow
from gpusim.store.store import Store

CONFIRMED, REFUTED, UNSETTLED, UNMEASURED = "confirmed", "not confirmed", "not settled", "not measured"


@dataclass(frozen=True)
class Confirmation:
    """``commands`` that measure both points; ``state``: one of the four above; ``outcomes`` of what was measured."""

    commands: tuple[str, ...]
    state: str = UNMEASURED
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)


def run_name(request: str, point: Point) -> str:
    """The name under which the measurements of a case at a point are kept."""
    case = hashlib.sha256(request.encode()).hexdigest()[:8]
    return f"silicon-{case}-{point.label}"[:100].replace("/", "_")


def measure_command(request: str, point: Point, gpu: str, *, small: bool = False, program: str = "gpusim") -> str:
    """The command that measures ``request`` where ``point`` is checked out or installed."""
    words = ["measure", request, "--gpu", gpu, *(["--small"] if small else []), "--save", run_name(request, point)]
    return f"{program} {shlex.join(words)}"


def commit_commands(
    repository: Path, request: str, points: Sequence[Point], gpu: str, *, small: bool, build: str
) -> tuple[str, ...]:
    """A line a point: check it out beside the repository, build it, measure it."""
    lines = []
    for point in points:
        tree = str(repository.resolve().parent / f"{repository.resolve().name}-{point.label}")
        add = shlex.join(["git", "-C", str(repository), "worktree", "add", "--detach", tree, point.name])
        made = f" && {build}" if build else ""
        lines.append(f"{add} && (cd {shlex.quote(tree)}{made} && {measure_command(request, point, gpu, small=small)})")
    return tuple(lines)


def stored_rows(store: Store, request: str, point: Point) -> list[SiliconRow]:
    """What was measured of the case at ``point`` and kept under its name."""
    try:
        return list(store.load_run(run_name(request, point)).measurements)
    except UnknownRunError:
        return []


def named_rows(store: Store, where: str) -> list[SiliconRow]:
    """The rows of a file, or of a run of the store. Raises NoDataError for one without rows."""
    rows = read_rows(Path(where)) if Path(where).is_file() else list(store.load_run(where).measurements)
    if not rows:
        raise NoDataError(f"{where} holds no measured row")
    return rows


def judged(
    request: str, before: Sequence[SiliconRow], after: Sequence[SiliconRow], grown: float
) -> tuple[str, tuple[Outcome, ...]]:
    """Whether measurements before and after confirm a step by ``grown``; (state, outcomes). A kernel that only its
    file's name tells from the other's is the same."""
    name, _ = parse_request(request)
    sides = [_of_case(rows, name) for rows in (before, after)]
    outcomes = tuple(judge_rows(sides[0], sides[1], Thresholds()))
    verdicts = {outcome.verdict for outcome in outcomes} - {Verdict.NO_DATA}
    if not verdicts:
        return UNMEASURED, outcomes
    wanted = Verdict.SLOWER if grown > 0 else Verdict.FASTER
    if wanted in verdicts and not verdicts & ({Verdict.SLOWER, Verdict.FASTER} - {wanted}):
        return CONFIRMED, outcomes
    return (UNSETTLED if Verdict.AMBIGUOUS in verdicts else REFUTED), outcomes


def _of_case(rows: Sequence[SiliconRow], name: str) -> list[SiliconRow]:
    own = [row for row in rows if row.kernel == name]
    if own or len({row.kernel for row in rows}) != 1:
        return own
    return [replace(row, kernel=name) for row in rows]
