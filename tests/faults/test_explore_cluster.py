"""A search whose shares a Dask cluster runs: what comes of it, whoever dies on the way."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpusim.cluster import connect
from gpusim.errors import ExecutionError
from gpusim.explore import session
from gpusim.explore.dask_shares import run_shares
from gpusim.explore.examples import Examples, new_session

PLAN = session.Plan(("saxpy", "reduce_sum"), "metamorphic", max_examples=12, growth=2.0)


def runs(folder: Path) -> list[str]:
    examples = Examples(folder, session.question(PLAN), new_session())
    examples.refresh()
    return sorted(map(str, examples.runs))


@pytest.mark.nightly
def test_shares_of_a_cluster_whose_worker_is_killed_are_the_runs_of_processes_here(tmp_path: Path) -> None:
    distributed = pytest.importorskip("dask.distributed", reason="no Dask here: pip install 'gpusim[dask]'")
    session.explore(PLAN, tmp_path / "here", jobs=3)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        pids = client.run(os.getpid)
        killer = threading.Timer(5.0, os.kill, (next(iter(pids.values())), signal.SIGKILL))
        killer.start()
        search, _ = session.explore(PLAN, tmp_path / "there", jobs=3, cluster=client)
        killer.join()
    assert len(search.tried) == 12
    assert len(list((tmp_path / "there").glob("runs-*.jsonl"))) >= 3
    assert runs(tmp_path / "there") == runs(tmp_path / "here")


class _Here(ThreadPoolExecutor):
    """A cluster that is this process, and which question it thinks it answers."""

    def __init__(self, question: str) -> None:
        super().__init__(1)
        self.question = question

    def get_executor(self, **_: object) -> _Here:
        return self

    def submit(self, work, run, ask, *arguments):
        return super().submit(work, run, lambda plan: self.question, *arguments)


def test_a_worker_with_another_gpusim_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    def run(plan, folder, session_name, worker, share, resume):
        (folder / f"runs-{session_name}-{worker[0]:03}.jsonl").write_text(f"{worker} {share}\n")
        return worker[0], "why"

    with pytest.raises(ExecutionError, match="other sources of gpusim"):
        run_shares(_Here("b"), run, lambda plan: "a", None, tmp_path, "s", [1, 2], False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "runs-before-000.jsonl").write_text("kept\n")
    assert run_shares(_Here("a"), run, lambda plan: "a", None, tmp_path, "s", [1, 2], True) == [(0, "why"), (1, "why")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "runs-before-000.jsonl", "runs-s-000.jsonl", "runs-s-001.jsonl",
    ]  # fmt: skip
