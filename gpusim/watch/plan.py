"""A plan: what is run for every commit, on which GPUs, by which toolchains, and whose it is.

Mental model: a plan is a TOML file beside the code that it watches. Its cells are the product of its cases (of its own
and of its suites), GPUs and toolchains; a run of the plan gives each cell of a commit a value. The name of the plan,
not its file, is what its history is filed under, so that a plan may be moved and changed.

Paths in it are relative to the folder that it stands in. It is untrusted input: an unknown key, suite, GPU or kernel is
refused by name (PlanError, UnknownGpuError, UsageError) before anything is run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.cases.networks import refuse_unknown_suite
from gpusim.errors import PlanError
from gpusim.explore.named_suites import expand_suites
from gpusim.gpus.load import load_gpu
from gpusim.io.nearest import hint
from gpusim.io.records import NotNegative, PositiveFinite, as_record
from gpusim.watch.owners import OwnerRule, read_owners

#: What a plan of another kind of file would be larger than.
MOST_BYTES = 1 << 20
MODES = ("simulated", "measured")
DEFAULT_TOOLCHAIN = "default"
#: Simulated values have no noise: a change of a thousandth is a fact; smaller ones are of no use to anybody.
LEAST_PERCENT = 0.1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


@dataclass(frozen=True)
class Toolchain:
    """Which Python, with its packages, compiles and runs the cases. ``python``: an interpreter in whose environment
    gpusim is installed, by default the one that runs the plan; ``environment``: variables to set for it (a compiler's
    path, for example)."""

    python: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """``cases`` as ``KERNEL:axis=value`` or ``FILE.py:FUNCTION:axis=value``, ``FILE`` within ``repository``;
    ``suites``: names of pinned suites or suite files; ``gpus``: names or files. ``mode``: ``simulated``, or
    ``measured`` on the GPU of this machine.
    ``budget_s``: no cell is begun after so many seconds; ``cell_timeout_s``: one that takes longer is given up.
    ``python_path``: folders of the checked-out commit from which cases import. ``least_percent``: no smaller change
    opens an alert; ``expect_file``: changes that were agreed on, by default ``expect.toml`` where it lies beside the
    plan."""

    name: str
    cases: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ("h200",)
    mode: str = "simulated"
    small: bool = False
    repository: str = "."
    python_path: tuple[str, ...] = ()
    budget_s: PositiveFinite = 86_400.0
    cell_timeout_s: PositiveFinite = 3_600.0
    owners_file: str = ""
    least_percent: NotNegative = LEAST_PERCENT
    expect_file: str = ""
    toolchains: Mapping[str, Toolchain] = field(default_factory=lambda: {DEFAULT_TOOLCHAIN: Toolchain()})
    owners: tuple[OwnerRule, ...] = ()
    folder: Path = Path()

    @property
    def repository_path(self) -> Path:
        """The repository whose commits are the history."""
        return (self.folder / self.repository).resolve()

    def requests(self) -> list[str]:
        """Every case, those of suites included, once and in order."""
        return expand_suites([*self.cases, *map(self._suite, self.suites)])

    def _suite(self, suite: str) -> str:
        local = self.folder / suite
        return str(local) if local.is_file() else suite

    def gpu_names(self) -> list[str]:
        """The GPUs as :func:`gpusim.gpus.load.load_gpu` takes them: a file's whole path, a name as it is."""
        return [str((self.folder / gpu).resolve()) if (self.folder / gpu).is_file() else gpu for gpu in self.gpus]


def load_plan(path: Path) -> Plan:
    """The plan of a TOML file. Raises PlanError, and what its GPUs and suites raise, for one that cannot be run."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{path}: cannot be read ({error.strerror}); gpusim watch init writes a plan") from None
    if len(data) > MOST_BYTES:
        raise PlanError(f"{path}: {len(data)} bytes are no plan")
    try:
        tables = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"{path}: not TOML: {error}") from None
    return make_plan(tables, path)


def make_plan(tables: Mapping[str, Any], path: Path) -> Plan:
    """The plan of parsed ``tables`` as they stand in ``path``; raises as :func:`load_plan`."""
    where = str(path)
    unknown = [key for key in tables if key not in ("plan", "toolchains", "owners")]
    if unknown:
        raise PlanError(f"{where}: unknown table {unknown[0]!r}; {hint(unknown[0], ('plan', 'toolchains', 'owners'))}")
    settings = tables.get("plan")
    if not isinstance(settings, dict):
        raise PlanError(f"{where}: it has no table [plan]")
    settings = dict(settings)
    for key in ("toolchains", "owners", "folder"):
        if key in settings:
            raise PlanError(f"{where}: plan: unknown key {key}")
    folder = path.resolve().parent
    settings |= {"toolchains": {DEFAULT_TOOLCHAIN: {}}} if "toolchains" not in tables else {}
    settings |= {key: tables[key] for key in ("toolchains", "owners") if key in tables}
    plan = as_record(Plan, {**settings, "folder": folder}, where, PlanError, closed=True)
    for name, toolchain in _tables(tables.get("toolchains", {}), where, "toolchains"):
        as_record(Toolchain, toolchain, f"{where}: toolchains.{name}", PlanError, closed=True)
    _refuse(plan, where)
    if plan.owners_file:
        rules = (*read_owners(folder / plan.owners_file), *plan.owners)
        plan = as_record(Plan, {**settings, "folder": folder, "owners": rules}, where, PlanError)
    return plan


def _tables(value: Any, where: str, key: str) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise PlanError(f"{where}: {key} should be tables, [{key}.NAME]")
    return list(value.items())


def refuse_name(name: str, where: str) -> None:
    """Raise PlanError for what cannot be a plan's name."""
    if not _NAME.fullmatch(name):
        raise PlanError(f"{where}: name {name!r:.80} should be letters, digits, '.', '_', '-' or '+', at most 64")


def _refuse(plan: Plan, where: str) -> None:
    """Raise for a plan that can give no values."""
    refuse_name(plan.name, where)
    if plan.mode not in MODES:
        raise PlanError(f"{where}: mode {plan.mode!r} is neither of {', '.join(MODES)}")
    for name in plan.toolchains:
        if not _NAME.fullmatch(name):
            raise PlanError(f"{where}: toolchain {name!r:.80} should be letters, digits, '.', '_', '-' or '+'")
    if not plan.toolchains:
        raise PlanError(f"{where}: [toolchains] names none; leave it out for the Python that runs the plan")
    for suite in plan.suites:
        refuse_unknown_suite(str(plan.folder / suite) if (plan.folder / suite).is_file() else suite)
    for gpu in plan.gpu_names():
        load_gpu(gpu)
    if not plan.requests() or not plan.gpus:
        raise PlanError(f"{where}: nothing to run: give cases or suites, and gpus")
