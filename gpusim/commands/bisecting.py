"""``gpusim bisect``: which commit, compiler version or figure of a GPU changed what a case costs; the work."""

from __future__ import annotations

import getpass
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.bisect.alert_case import DEFAULT_TOOLCHAIN, alert_case, keep_found
from gpusim.bisect.commits import CommitRun, Commits
from gpusim.bisect.compiled import METRICS
from gpusim.bisect.compilers import Compilers
from gpusim.bisect.confirmation import Confirmation, commit_commands, judged, measure_command, named_rows, stored_rows
from gpusim.bisect.criterion import Wish
from gpusim.bisect.environments import EnvironmentRun, Environments
from gpusim.bisect.find import Found, find_steps
from gpusim.bisect.installed import TOOLS
from gpusim.bisect.places import version_places
from gpusim.bisect.reading import Point
from gpusim.bisect.versions import PYTHON, parse_toolchain
from gpusim.commands.bisecting_figures import bisect_figures
from gpusim.commands.bisecting_text import CANNOT_TELL, FOUND, NO_DIFFERENCE, print_found
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io.progress import say
from gpusim.regress.thresholds import DEFAULT_GPU
from gpusim.store import Store, open_store
from gpusim.watch.alerts.record import GPUSIM


@dataclass(frozen=True)
class Asked:
    """The command line, as :func:`gpusim.commands.bisect.bisect` declares it."""

    case: str
    good: str | None
    bad: str | None
    repo: Path
    build: str
    python: str
    python_path: tuple[str, ...]
    toolchain: str | None
    toolchains: tuple[Path, ...]
    install: bool
    compile_only: bool
    gpu_file: tuple[str, str] | None
    gpu: str
    small: bool
    metric: str | None
    threshold: float | None
    limit: float | None
    exact: bool
    all_steps: bool
    every: bool
    most_runs: int | None
    timeout: float
    measured: tuple[str, str] | None
    cubins: Path | None
    alert: int | None
    form: str

    @property
    def wish(self) -> Wish:
        """How values are told apart."""
        return Wish(self.threshold, self.limit, self.exact)


def bisect(**options: Any) -> int:
    """What :func:`gpusim.commands.bisect.bisect` declares, with its arguments."""
    asked = Asked(**options)
    wish = asked.wish
    with open_store() as store:
        store.prepare()
        if asked.gpu_file:
            return bisect_figures(asked.case, asked.gpu_file, store, wish, asked.metric, asked.small, asked.form)
        if asked.alert is not None:
            asked = _of_alert(store, asked, asked.alert)
        if asked.toolchain:
            found, order = _toolchains(asked, store, wish)
        else:
            found, order = _commits(asked, store, wish)
        confirmation = _confirmation(asked, store, found, order)
        said = print_found(asked.case, found, confirmation, asked.form)
        if asked.alert is not None:
            keep_found(store, asked.alert, found, said, _user())
    if not found.steps:
        return NO_DIFFERENCE
    return FOUND if found.is_exact else CANNOT_TELL


def _of_alert(store: Store, asked: Asked, number: int) -> Asked:
    """The command line with what it leaves to the alert; what it says itself stays."""
    case = alert_case(store, number)
    if case.toolchain != DEFAULT_TOOLCHAIN and not asked.python:
        say(
            f"alert {number} is of toolchain {case.toolchain}, whose interpreter the plan names: give it by --python; this one is taken"
        )
    return replace(
        asked, case=asked.case or case.request, good=asked.good or case.good, bad=asked.bad or case.bad,
        gpu=case.gpu if asked.gpu == DEFAULT_GPU else asked.gpu,
    )  # fmt: skip


def _user() -> str:
    """Whose bisection it is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return GPUSIM


def _commits(asked: Asked, store: Store, wish: Wish) -> tuple[Found, Commits]:
    run = CommitRun(
        asked.case, asked.gpu, asked.small, asked.build, asked.python, asked.python_path, timeout_s=asked.timeout
    )
    order = Commits(asked.repo, asked.good or "", asked.bad or "", run, store)
    return _find(order, asked, wish, order.turned, None), order


def _toolchains(asked: Asked, store: Store, wish: Wish) -> tuple[Found, Compilers | Environments]:
    wanted = parse_toolchain(asked.toolchain or "")
    places = version_places(wanted, asked.toolchains, install=asked.install, ends=(asked.good, asked.bad))
    if wanted.tool in TOOLS:
        order: Compilers | Environments = Compilers(
            wanted.tool,
            places,
            asked.case,
            load_gpu(asked.gpu),
            store,
            small=asked.small,
            compile_only=asked.compile_only,
        )
        return _find(order, asked, wish, False, METRICS if asked.compile_only else None), order
    if asked.compile_only:
        raise UsageError(f"--compile-only is for {' and '.join(TOOLS)}: what {wanted.tool} compiles is simulated")
    order = Environments(wanted.tool, places, EnvironmentRun(asked.case, asked.gpu, asked.small, asked.timeout), store)
    return _find(order, asked, wish, False, None), order


def _find(order: Any, asked: Asked, wish: Wish, turned: bool, preferred: tuple[str, ...] | None) -> Found:
    metric = asked.metric if preferred is not None else asked.metric or "cycles"
    return find_steps(
        order, wish, metric, all_steps=asked.all_steps, every=asked.every, most_runs=asked.most_runs, turned=turned,
        preferred=preferred or ("cycles",),
    )  # fmt: skip


def _confirmation(asked: Asked, store: Store, found: Found, order: Any) -> Confirmation | None:
    """How to measure both sides of the first step, and what was measured."""
    if not found.steps:
        return None
    step = found.steps[0]
    points = found.points[step.before], found.points[step.after]
    values = found.value(step.before), found.value(step.after)
    assert values[0] is not None and values[1] is not None
    if asked.measured:
        rows = [named_rows(store, where) for where in asked.measured]
    else:
        rows = [stored_rows(store, asked.case, point) for point in points]
    commands = _commands(asked, points, order)
    if not all(rows):
        return Confirmation(commands)
    state, outcomes = judged(asked.case, rows[0], rows[1], values[1] - values[0])
    return Confirmation(commands, state, outcomes)


def _commands(asked: Asked, points: tuple[Point, Point], order: Any) -> tuple[str, ...]:
    if isinstance(order, Commits):
        return commit_commands(asked.repo, asked.case, points, asked.gpu, small=asked.small, build=asked.build)
    if order.what == PYTHON:
        programs = [f"{shlex.quote(point.label)} -m gpusim.cli" for point in points]
    elif order.what in TOOLS:
        return order.measure_commands(points, asked.cubins) if asked.cubins else ()
    else:
        programs = [f"PYTHONPATH={shlex.quote(str(order.path_of(point)))} gpusim" for point in points]
    return tuple(
        measure_command(asked.case, point, asked.gpu, small=asked.small, program=program)
        for point, program in zip(points, programs, strict=True)
    )
