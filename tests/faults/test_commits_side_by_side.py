"""A change of measured times is looked at again, both commits in turn, before anyone hears of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.errors import StoreFormatError
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store import open_store
from gpusim.watch.alerts.read import list_alerts
from gpusim.watch.alerts.settings import plan_settings
from gpusim.watch.alerts.sync import sync_alerts
from gpusim.watch.plan import Plan, Toolchain, load_plan
from gpusim.watch.repository import Commit, commits
from gpusim.watch.run_plan import run_plan
from gpusim.watch.side_by_side import (
    CONFIRMED,
    KIND,
    MOST_PAIRS,
    REFUTED,
    UNSETTLED,
    noise_of,
    read_comparisons,
    weigh,
)
from gpusim.watch.worker_process import Answer

COUNT, MOVED = 24, 15
FACTS = {"gpusim_version": "1", "model_hash": "m", "compiler": "c", "host_hash": "h"}


class Machine:
    """A place that measures 10 us, more by ``kernel`` of a commit from :data:`MOVED` on, and by ``nights`` of any
    commit in a night from that commit's on. ``broken``: no commit can be measured a second time."""

    def __init__(self, kernel: float, nights: float, broken: bool = False) -> None:
        self.kernel, self.nights, self.broken = kernel, nights, broken
        self.seen: dict[int, int] = {}
        self.turns: list[bool] = []

    def facts(self, toolchain: Toolchain) -> dict[str, str]:
        return FACTS

    def open(self, tree: Path, toolchain: Toolchain, count: int) -> Tree:
        return Tree(self, int((tree / "number").read_text()))


class Tree:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, task: Mapping[str, Any], timeout_s: float) -> Future[Answer]:
        machine, moved = self.machine, self.number >= MOVED
        times = machine.seen[self.number] = machine.seen.get(self.number, 0) + 1
        if len(machine.seen) == COUNT and times > 1:
            machine.turns.append(moved)
        time_us = (
            10
            + 0.01 * (self.number * 7919 % 7)
            + moved * machine.kernel
            + (max(machine.seen) >= MOVED) * machine.nights
        )
        row = SiliconRow(
            "saxpy", "n=64", gpu="h200", time_us=Estimate(time_us, time_us, time_us), method="events", cubin_hash=f"{self.number:064x}"
        )  # fmt: skip
        future: Future[Answer] = Future()
        rows = () if machine.broken and times > 1 else (row,)
        future.set_result(Answer(task["id"], rows=rows, facts=FACTS))
        return future


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> tuple[Plan, list[Commit]]:
    folder = tmp_path_factory.mktemp("repository")
    say = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run([*say, "init", "-q"], cwd=folder, check=True)
    for number in range(COUNT):
        (folder / "number").write_text(str(number))
        subprocess.run([*say, "add", "-A"], cwd=folder, check=True)
        subprocess.run([*say, "commit", "-qm", f"commit {number}"], cwd=folder, check=True)
    (folder / "plan.toml").write_text('[plan]\nname = "m"\ncases = ["saxpy"]\ngpus = ["h200"]\nmode = "measured"\n')
    return load_plan(folder / "plan.toml"), commits(folder)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("kernel", "nights", "verdict", "state"),
    [(0.5, 0.0, CONFIRMED, "open"), (0.0, 0.5, REFUTED, "triaged")],
    ids=["a kernel's change", "the machine's change"],
)
def test_only_a_change_that_both_commits_show_waits_for_somebody(
    history, tmp_path: Path, kernel: float, nights: float, verdict: str, state: str
) -> None:
    plan, found = history
    machine = Machine(kernel, nights)
    with open_store(tmp_path / "s.sqlite") as store:
        done = []
        for commit in found:  # a night each
            machine.turns.clear()
            done.append(run_plan(plan, store, [commit], machine))
            sync_alerts(store, "m", plan_settings(plan))
        judged = read_comparisons(store, "m")
        assert judged and {each.verdict for each in judged} == {verdict}
        assert all(each.old < MOVED <= each.new for each in judged)
        (alert,) = list_alerts(store, "m")
        assert (alert.state, alert.verdict == "method") == (state, state == "triaged")
        assert ("measured side by side" in alert.who) == (verdict == REFUTED)
        # What was judged is not measured again.
        assert done[-1].compared == 0 and machine.turns == []


def test_commits_that_cannot_be_measured_again_leave_the_history_its_word(history, tmp_path: Path) -> None:
    plan, found = history
    with open_store(tmp_path / "s.sqlite") as store:
        done = run_plan(plan, store, found, Machine(0.5, 0.0, broken=True))
        assert done.compared == 1 and read_comparisons(store, "m")[0].verdict == UNSETTLED
        sync_alerts(store, "m", plan_settings(plan))
        assert [each.state for each in list_alerts(store, "m")] == ["open"]


def test_both_commits_are_measured_in_turn(history, tmp_path: Path) -> None:
    plan, found = history
    machine = Machine(0.5, 0.0)
    with open_store(tmp_path / "s.sqlite") as store:
        run_plan(plan, store, found, machine)
    turns = machine.turns[:6]
    assert sorted(turns) == [False] * 3 + [True] * 3 and turns[:4] in ([False, True, True, False],)


def test_a_damaged_comparison_is_named(history, tmp_path: Path) -> None:
    plan, _ = history
    with open_store(tmp_path / "s.sqlite") as store:
        with store.new_run(plan.name, command="watch run") as run:
            run.add_document(KIND, {"series": "x"})
        with pytest.raises(StoreFormatError, match="damaged"):
            read_comparisons(store, plan.name)


def test_either_error_of_the_sequential_test_is_as_rare_as_was_asked() -> None:
    random = np.random.default_rng(5)
    for step in (2.0, 4.0):
        verdicts = {0.0: [], step: []}
        for true in verdicts:
            for _ in range(2000):
                pairs: list[tuple[float, float]] = []
                said = UNSETTLED
                while said == UNSETTLED and len(pairs) < MOST_PAIRS:
                    pairs.append((random.normal(), random.normal() + true))
                    said = weigh(pairs, step, 1.0)
                verdicts[true].append(said)
        assert verdicts[0.0].count(CONFIRMED) <= 0.015 * 2000
        assert verdicts[step].count(REFUTED) <= 0.015 * 2000
        assert verdicts[0.0].count(REFUTED) >= 0.85 * 2000
    level = np.repeat([10.0, 30.0], 500) + random.normal(0, 2, 1000)
    assert noise_of(level.tolist()) == pytest.approx(2.0, rel=0.1)
