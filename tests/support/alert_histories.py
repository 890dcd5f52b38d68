"""Material for tests of alerts: a plan's history made by hand, a night at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store.launch import Instruction, SimulatedLaunch
from gpusim.store.store import Store
from gpusim.watch.alerts.settings import AlertSettings
from gpusim.watch.alerts.sync import SyncSummary, sync_alerts
from gpusim.watch.kept import Cell, keep_cell, keep_commits
from gpusim.watch.repository import Commit
from gpusim.watch.worker_process import Answer

FACTS = {"gpusim_version": "1", "model_hash": "m1", "compiler": "ptxas 12.9", "host_hash": "h", "file": "softmax.cu"}
GPU = {"sms": 132, "l2.hit_latency_ns": 200.0}


def hash_of(position: int) -> str:
    """The hash of the commit at ``position``."""
    return hashlib.sha1(str(position).encode()).hexdigest()


def launch_of(kernel: str, gpu: str, cycles: int, gpu_hash: str = "g" * 64, changed: str = "") -> SimulatedLaunch:
    """A launch of two instructions; what it takes beyond 100 cycles is waits for shared memory at line 41."""
    waits = {"selected": 100, "short_scoreboard": cycles - 100}
    code = (
        Instruction(0, "/src/softmax.cu", 12, "LDS R2, [R4]", {"selected": 50}, {}),
        Instruction(16, "/src/softmax.cu", 41, f"FADD R1, R2, R3{changed}", {**waits, "selected": 50}, {}),
    )
    return SimulatedLaunch(
        kernel, gpu, cycles, 1e9, shape="n=64", gpu_hash=gpu_hash, cubin_hash=hashlib.sha256(f"{kernel}{cycles}{changed}".encode()).hexdigest(),
        trace_hash="t", registers_per_thread=32, stalls=waits, instructions=code, counters={"smsp__inst_executed.sum": 200.0},
    )  # fmt: skip


class Nights:
    """The history of plan ``night`` in a store, written as runs of the plan write it."""

    def __init__(self, store: Store, plan: str = "night", settings: AlertSettings = AlertSettings()) -> None:  # noqa: B008
        self.store, self.plan, self.settings = store, plan, settings
        self._run = store.new_run(plan, command="watch run").id

    def commit(self, position: int, cycles: Mapping[str, int], gpu: str = "h200", figures=None, **facts: str) -> None:
        """Keep a commit whose kernels took so many cycles."""
        commit = Commit(hash_of(position), position, 1_700_000_000 + position, "Ada", f"change {position}")
        number = keep_commits(self.store, self.plan, [commit])[commit.hash]
        known = {**FACTS, **facts}
        gpu_hash = hashlib.sha256(repr(figures or GPU).encode()).hexdigest()
        for kernel, count in cycles.items():
            record = launch_of(kernel, gpu, count, gpu_hash)
            cell = Cell(f"{kernel}:n=64", gpu, "default", "simulated", repr(sorted(known.items())) + gpu_hash)
            answer = Answer(0, launches=(record,), figures={gpu_hash: figures or GPU}, facts=known)
            keep_cell(self.store, self._run, self.plan, number, position, cell, answer)

    def measure(self, position: int, times_us: Mapping[str, float], **facts: str) -> None:
        """Keep a commit whose kernels were measured to take so long."""
        commit = Commit(hash_of(position), position, 1_700_000_000 + position, "Ada", f"change {position}")
        number = keep_commits(self.store, self.plan, [commit])[commit.hash]
        known = {**FACTS, **facts}
        for kernel, time_us in times_us.items():
            estimate = Estimate(time_us, time_us, time_us)
            code = hashlib.sha256(f"{kernel} {position}".encode()).hexdigest()
            row = SiliconRow(
                kernel, "n=64", gpu="h200", time_us=estimate, method="events", cubin_hash=code, driver="570"
            )
            cell = Cell(f"{kernel}:n=64", "h200", "default", "measured", repr(sorted(known.items())))
            keep_cell(self.store, self._run, self.plan, number, position, cell, Answer(0, rows=(row,), facts=known))

    def sync(self, **options) -> SyncSummary:
        """Bring the alerts up to date."""
        return sync_alerts(self.store, self.plan, self.settings, **options)
