"""A plan, run: every cell of the commits that are asked for gets its value, over several processes, and is kept as it
comes.

Mental model: commits are taken newest first, so that what was broken last night is known first; of each commit and
toolchain there is one checkout and as many workers as there are jobs; a cell that is kept is left out, so a run that
was killed goes on where it stood, and a night in which nothing changed costs nothing. One run of a plan at a time: a
second one on this machine is refused, and what two machines both ran is kept once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import BusyError
from gpusim.gpus.load import load_gpu
from gpusim.io.file_lock import file_lock, lock_folder, remove_unheld
from gpusim.io.progress import Task, say, task
from gpusim.store.hashes import gpu_hash
from gpusim.store.store import Store
from gpusim.watch.compare_commits import compare_new_steps
from gpusim.watch.kept import Cell, done_cells, keep_cell, keep_commits, method_hash
from gpusim.watch.places import Cells, Place
from gpusim.watch.plan import Plan
from gpusim.watch.repository import Commit, checkout
from gpusim.watch.reruns import MOST_RERUNS, suspicious
from gpusim.watch.worker_process import Answer


@dataclass
class RunSummary:
    """What a run of a plan did: cells that got values, that were refused, that were kept before, that were left for
    want of time; measurements that were run again, and changes whose commits were measured side by side."""

    plan: str
    run_id: int = 0
    commits: int = 0
    valued: int = 0
    refused: int = 0
    kept_before: int = 0
    left: int = 0
    rerun: int = 0
    compared: int = 0

    @property
    def done(self) -> int:
        """Cells that the run is through with."""
        return self.valued + self.refused + self.kept_before + self.left


def run_plan(
    plan: Plan, store: Store, wanted: Sequence[Commit], place: Place, *, arguments: Sequence[str] = ()
) -> RunSummary:
    """Give the cells of ``wanted`` their values, run in ``place``. Raises BusyError where this plan is being run, and
    what stops all cells (no git, no worker can be started, the store cannot be written); what stops one of them is kept
    as its refusal."""
    summary = RunSummary(plan.name, commits=len(wanted))
    with _alone(plan, store):
        numbers = keep_commits(store, plan.name, wanted)
        deadline = time.monotonic() + plan.budget_s
        methods = {name: _methods(plan, place.facts(toolchain)) for name, toolchain in plan.toolchains.items()}
        pairs = [(request, gpu) for gpu in plan.gpu_names() for request in plan.requests()]
        total = len(wanted) * len(plan.toolchains) * len(pairs)
        with store.new_run(plan.name, command="watch run", arguments=arguments) as run:
            summary.run_id = run.id
            with task(f"plan {plan.name}", total, "cells") as shown:
                for commit in reversed(wanted):
                    done = done_cells(store, numbers[commit.hash])
                    for name, toolchain in plan.toolchains.items():
                        cells = {pair: _cell(plan, name, pair, methods[name]) for pair in pairs}
                        todo = {pair: cell for pair, cell in cells.items() if cell not in done}
                        summary.kept_before += len(cells) - len(todo)
                        shown.to(summary.done, commit.hash[:10])
                        if not todo:
                            continue
                        if time.monotonic() > deadline:
                            summary.left += len(todo)
                            continue
                        batch = _Batch(plan, store, run.id, commit, numbers[commit.hash], deadline, summary, shown)
                        with (
                            checkout(plan.repository_path, commit.hash) as tree,
                            place.open(tree, toolchain, len(todo)) as cells_of_tree,
                        ):
                            batch.run(todo, cells_of_tree)
            if plan.mode == "measured":
                summary.compared = compare_new_steps(plan, store, run, place, deadline)
    return summary


class _Batch:
    """The cells of one commit and toolchain."""

    def __init__(
        self, plan: Plan, store: Store, run_id: int, commit: Commit, commit_id: int, deadline: float, summary: RunSummary,
        shown: Task,
    ) -> None:  # fmt: skip
        self.plan, self.store, self.run_id, self.commit, self.commit_id = plan, store, run_id, commit, commit_id
        self.deadline, self.summary, self.shown = deadline, summary, shown

    def run(self, todo: Mapping[tuple[str, str], Cell], place: Cells) -> None:
        """Ask for the value of each and keep it as it comes, again where a measurement is suspicious."""
        timeout_s = self.plan.cell_timeout_s
        asked = {place.submit(self._task(pair, 0), timeout_s): (pair, 0) for pair in todo}
        while asked:
            left = max(0.0, self.deadline - time.monotonic())
            ready, _ = wait(asked, timeout=left if left else None, return_when=FIRST_COMPLETED)
            for future in ready:
                pair, repetition = asked.pop(future)
                answer = future.result()
                self._keep(todo[pair], answer, repetition)
                if self._again(answer, repetition):
                    self.summary.rerun += 1
                    asked[place.submit(self._task(pair, repetition + 1), timeout_s)] = (pair, repetition + 1)
            if time.monotonic() > self.deadline:  # what has not begun is left; what runs comes to its end
                for future in [each for each in asked if each.cancel()]:
                    del asked[future]
                    self.summary.left += 1
            self.shown.to(self.summary.done, self.commit.hash[:10])

    def _again(self, answer: Answer, repetition: int) -> bool:
        if self.plan.mode != "measured" or answer.refused is not None or repetition >= MOST_RERUNS:
            return False
        return suspicious(self.store, self.plan.name, self.commit.position, answer.rows)

    def _keep(self, cell: Cell, answer: Answer, repetition: int) -> None:
        new = keep_cell(
            self.store, self.run_id, self.plan.name, self.commit_id, self.commit.position, cell, answer,
            repetition=repetition,
        )  # fmt: skip
        if repetition:
            return
        if not new:
            self.summary.kept_before += 1
        elif answer.refused is None:
            self.summary.valued += 1
        else:
            self.summary.refused += 1
            say(f"no value: {self.commit.hash[:10]} {cell.request} on {cell.gpu}: {answer.refused.message}")

    def _task(self, pair: tuple[str, str], repetition: int) -> dict[str, object]:
        request, gpu = pair
        return {
            "id": repetition, "case": request, "gpu": gpu, "mode": self.plan.mode, "small": self.plan.small,
            "budget_s": min(60.0, self.plan.cell_timeout_s / 2), "seed": repetition,
        }  # fmt: skip


def _cell(plan: Plan, toolchain: str, pair: tuple[str, str], methods: Mapping[str, str]) -> Cell:
    request, gpu = pair
    return Cell(request, Path(gpu).name, toolchain, plan.mode, methods[gpu])


def _methods(plan: Plan, facts: Mapping[str, str]) -> dict[str, str]:
    """What is known to decide a cell's value before it is run, for each GPU: what a worker of the toolchain says of
    itself (``facts``), and the GPU's figures (of a built-in GPU all that the worker's gpusim knows)."""
    found = {}
    for gpu in plan.gpu_names():
        machine = gpu_hash(load_gpu(gpu)) if Path(gpu).is_file() else facts.get("gpus_hash", "")
        whole = f"{method_hash(plan.mode, facts)} {machine} {plan.small}"
        found[gpu] = hashlib.sha256(whole.encode()).hexdigest()
    return found


@contextmanager
def _alone(plan: Plan, store: Store) -> Iterator[None]:
    """Raises BusyError while another process of this machine is in such a block for the same plan and store."""
    name = hashlib.sha256(f"{store.name}\0{plan.name}".encode()).hexdigest()[:16]
    path = lock_folder() / f"watch-{name}.lock"
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            remove_unheld(path.parent, "watch-*.lock")
            remove_unheld(path.parent.parent, "gpusim-watch-*.lock")  # where they lay before, and stayed
            held = stack.enter_context(file_lock(path))
        except OSError as error:
            raise BusyError(f"{path}: the plan's lock cannot be made ({error.strerror})") from None
        if not held:
            raise BusyError(f"plan {plan.name} is being run by another process; wait for it, or end it")
        yield
