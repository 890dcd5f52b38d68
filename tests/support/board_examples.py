"""A store with a history to show: plans, kernels on GPUs, changes, alerts, refusals, comparisons and coverage, made by
hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from gpusim.store import Instruction, SimulatedLaunch
from gpusim.store.run import write_launch
from gpusim.store.schema import (
    alert_events,
    alert_series,
    alerts,
    cells,
    commits,
    launches,
    method_facts,
    points,
    refusals,
    runs,
    series,
)
from gpusim.store.store import Store

KERNELS = ("softmax", "layer_norm", "matmul_tiled", "spmv_csr")
GPUS = {"a100_80gb": (1.6, 1.41e9), "h200": (1.0, 1.98e9), "b200": (0.8, 1.965e9)}
COMMITS = 40
#: Where softmax gets slower, and where only the model is another one.
STEP, METHOD = 25, 32
MONDAY = 1_780_000_000
DAY = 86_400
HOSTILE = "<script>alert(1)</script>\"'{{7*7}}"


def board_store(path: Path | str, kernels: tuple[str, ...] = KERNELS) -> Store:
    """The store at ``path``, filled."""
    store = Store(path)
    with store.new_run("nightly", command="watch run") as run:
        pass
    with store.writing() as c:
        commit_ids = {}
        for position in range(COMMITS):
            row = {
                "plan": "nightly", "hash": f"{position:02x}" * 20, "position": position, "time": MONDAY + position * DAY,
                "author": f"Author {position % 3}", "subject": f"Change {position}: make the kernels better",
            }  # fmt: skip
            commit_ids[position] = _insert(c, commits, row)
        facts = [_insert(c, method_facts, {"hash": name, "facts": json.dumps(
            {"compiler": "nvrtc 13.0", "model_hash": name * 32, "gpusim_version": "0.1.0", "source_hash": "s"})})
            for name in ("aa", "bb")]  # fmt: skip
        moved = []
        for number, kernel in enumerate(kernels):
            for gpu, (factor, clock_hz) in GPUS.items():
                names = {"plan": "nightly", "kernel": kernel, "shape": "rows=4096,columns=1024", "launch": 0, "gpu": gpu,
                         "toolchain": "default", "mode": "simulated", "unit": "cycles", "file": "kernels/a.py"}  # fmt: skip
                series_id = _insert(c, series, names)
                base = int((20_000 + 7_000 * number) * factor)
                made: dict[tuple, int] = {}
                last = COMMITS - 3 if kernel == "spmv_csr" else COMMITS
                for position in range(last):
                    slower = number == 0 and position >= STEP
                    method = position >= METHOD and number == 1
                    value = base + (base // 25 if slower else 0) + (base // 100 if method else 0)
                    key = (slower, method)
                    if key not in made:
                        made[key] = _launch(c, run.id, kernel, gpu, clock_hz, value, slower)
                    _insert(c, points, {
                        "series_id": series_id, "run_id": run.id, "launch_id": made[key], "commit_id": commit_ids[position],
                        "position": position, "method": "m2" if method else "m1", "repetition": 0, "value": value, "low": value,
                        "high": value, "cubin_hash": ("d" if slower else "c") * 64, "gpu_hash": "e" * 64,
                        "clock_hz": clock_hz, "facts_id": facts[method],
                    })  # fmt: skip
                    cell = {"run_id": run.id, "commit_id": commit_ids[position], "request": kernel, "gpu": gpu,
                            "toolchain": "default", "mode": "simulated", "method": "m1"}  # fmt: skip
                    _insert(c, cells, cell)
                if number == 0:
                    moved.append((series_id, base, base + base // 25, made[False, False], made[True, False]))
        for position in range(COMMITS - 3, COMMITS):
            for gpu in GPUS:
                refused = {"run_id": run.id, "plan": "nightly", "commit_id": commit_ids[position], "request": "spmv_csr",
                           "gpu": gpu, "toolchain": "default", "kind": "CompileError",
                           "message": "kernels/a.py:12: no such <name>"}  # fmt: skip
                _insert(c, refusals, refused)
                _insert(c, cells, {"run_id": run.id, "commit_id": commit_ids[position], "request": "spmv_csr", "gpu": gpu,
                                   "toolchain": "default", "mode": "simulated", "method": "m1"})  # fmt: skip
        _measured(c, run.id, commit_ids, facts[0])
        _alert(c, commit_ids, moved)
    _documents(store)
    return store


def _insert(connection, table, row) -> int:
    return int(connection.execute(table.insert().values(row)).inserted_primary_key[0])


def _launch(connection, run_id: int, kernel: str, gpu: str, clock_hz: float, cycles: int, slower: bool) -> int:
    waiting = 40_000 if slower else 30_000
    code = (
        Instruction(0, "kernels/a.py", 7, "LDG.E R2, [R4.64]", {"selected": 400, "long_scoreboard": waiting}, {}),
        Instruction(16, "kernels/a.py", 8, "FADD R2, R2, R3" if slower else "FADD R2, R2, 1", {"selected": 400, "wait": 900}, {}),
        Instruction(32, "", 0, "EXIT", {"selected": 100}, {}),
    )  # fmt: skip
    record = SimulatedLaunch(
        kernel=kernel, gpu=gpu, cycles=cycles, clock_hz=clock_hz, shape="rows=4096,columns=1024", function=kernel,
        gpu_hash="e" * 64, cubin_hash=("d" if slower else "c") * 64, trace_hash="f" * 64,
        stalls={"selected": 900, "long_scoreboard": waiting, "wait": 900},
        counters={"sm__cycles_elapsed.max": float(cycles)}, instructions=code,
    )  # fmt: skip
    return _insert(connection, launches, write_launch(run_id, replace(record)))


def _measured(connection, run_id: int, commit_ids: dict[int, int], facts: int) -> None:
    names = {"plan": "nightly", "kernel": "softmax (cold)", "shape": "rows=4096,columns=1024", "launch": 0, "gpu": "h200",
             "toolchain": "default", "mode": "measured", "unit": "us", "file": "kernels/a.py"}  # fmt: skip
    series_id = _insert(connection, series, names)
    for position in range(0, COMMITS, 2):
        value = 12.0 + 0.05 * (position * 7 % 5)
        _insert(connection, points, {
            "series_id": series_id, "run_id": run_id, "launch_id": None, "commit_id": commit_ids[position], "position": position,
            "method": "m1", "repetition": 0, "value": value, "low": value - 0.1, "high": value + 0.12, "cubin_hash": "c" * 64,
            "gpu_hash": "", "clock_hz": 1.98e9, "facts_id": facts,
        })  # fmt: skip


def _alert(connection, commit_ids: dict[int, int], moved: list[tuple]) -> None:
    number = _insert(connection, alerts, {
        "plan": "nightly", "key": "k1", "state": "open", "verdict": "", "reason": "", "expiry": "", "owner": "@attention-team",
        "cause": "commit", "who": f"{STEP:02x}" * 20, "commit_id": commit_ids[STEP], "position": STEP, "unseen": "[]",
        "direction": "slower", "opened": "2026-06-23T06:10:00+00:00", "size_percent": 4.0, "found": "",
        "sentence": "softmax on three GPUs takes 4.0 % longer since commit 1919191919: it waits longer for global memory",
        "attribution": json.dumps({"by_stall": [{"stall": "long_scoreboard", "cycles": 800, "unit": "global and local memory"}],
                                   "by_line": [{"file": "kernels/a.py", "line": 7, "cycles": 800, "code": "x = a[i]"}]}),
    })  # fmt: skip
    for series_id, before, after, old, new in moved:
        _insert(connection, alert_series, {
            "alert_id": number, "series_id": series_id, "key": "k1", "commit_id": commit_ids[STEP], "position": STEP,
            "before_position": STEP - 1, "before": before, "after": after, "before_launch_id": old,
            "after_launch_id": new, "state": "moved",
        })  # fmt: skip
    for sequence, (who, kind, before, after, text) in enumerate(
        [("gpusim", "opened", "", "", ""), ("gpusim", "owner", "", "@attention-team", ""), ("ada", "note", "", "", f"looks real {HOSTILE}")], 1
    ):  # fmt: skip
        _insert(connection, alert_events, {"alert_id": number, "sequence": sequence, "time": f"2026-06-23T06:1{sequence}:00+00:00",
                                           "who": who, "kind": kind, "before": before, "after": after, "text": text})  # fmt: skip
    other = _insert(connection, alerts, {
        "plan": "nightly", "key": "k2", "state": "triaged", "verdict": "method", "reason": "a new model", "expiry": "", "owner": "",
        "cause": "model", "who": "aa -> bb", "commit_id": commit_ids[METHOD], "position": METHOD, "unseen": "[]",
        "direction": "slower", "opened": "2026-06-30T06:10:00+00:00", "size_percent": 1.0, "found": "",
        "sentence": "layer_norm moved by 1.0 % with the model, not with a commit", "attribution": "{}",
    })  # fmt: skip
    _insert(connection, alert_events, {"alert_id": other, "sequence": 1, "time": "2026-06-30T06:10:00+00:00", "who": "gpusim",
                                       "kind": "opened", "before": "", "after": "", "text": ""})  # fmt: skip


def _documents(store: Store) -> None:
    for night, error in enumerate((5.2, 4.9, 4.1, 3.8)):
        with store.new_run(f"night-{night}", command="compare") as run:
            lines = [{"key": f"{gpu} stream_triad", "verdict": "SAME", "error_percent": error + extra, "simulated": None}
                     for gpu, extra in (("h200", 0.0), ("a100_80gb", 1.5), ("gh200", -0.6))]  # fmt: skip
            run.add_document("comparison", {"lines": lines})
        with store.new_run("suite", command="cover") as run:
            run.add_document("coverage", {
                "launches": 100 + night,
                "points": [{"point": "limiter", "bins": 10, "hit": 5 + night, "percent": 50.0 + 10 * night, "holes": "tma"},
                           {"point": "bank conflicts", "bins": 6, "hit": 6, "percent": 100.0, "holes": ""}],
                "holes": [{"point": "limiter", "bin": "tma", "try": "cpp_wgmma_gemm", "because": "falls into it", "fills": 3}],
            })  # fmt: skip
    # A chart's places are the times of runs: those of the clock would differ between two stores that are made at
    # different seconds.
    with store.writing() as c:
        for number in c.execute(select(runs.c.id)).scalars().all():
            started = datetime.fromtimestamp(MONDAY + number * DAY, UTC).isoformat()
            c.execute(runs.update().where(runs.c.id == number).values(started=started))
