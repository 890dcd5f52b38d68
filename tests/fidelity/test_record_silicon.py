"""Does tools/record_silicon.py leave rows that hold, and go on where it stopped?"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from gpusim.silicon.rows import append_rows, read_rows_file

ROOT = Path(__file__).parents[2]


class Gpu(FakeGpu):
    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass


@pytest.fixture
def tool(monkeypatch):
    spec = importlib.util.spec_from_file_location("record_silicon", ROOT / "tools" / "record_silicon.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SUITES", {"two": (("saxpy", {"n": 2000}), ("saxpy", {"n": 1000}), ("saxpy", {"n": "2000"}))})
    monkeypatch.setattr(module, "CudaDriver", lambda device: Gpu())
    monkeypatch.setattr(module, "find_ncu", lambda: None)
    return module


def run(tool, out: Path, budget: float = 60.0) -> int:
    return tool.main.callback(out=out, budget=budget, suites=(), method="all", device=0, only_list=False)


def test_the_suite_is_recorded_once_and_resumed(tool, tmp_path: Path, capsys) -> None:
    assert run(tool, tmp_path) == 0
    path = tmp_path / "h200" / "suite.jsonl"
    rows = read_rows_file(path)
    assert {(row.shape, row.cache) for row in rows} == {
        (f"n={n},block_threads=256", cache) for n in (1000, 2000) for cache in ("cold", "warm")
    }
    manifest = json.loads((path.parent / "manifest.json").read_text())
    (entry,) = manifest["files"]
    assert entry["rows"] == len(rows) == 4 and entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (entry["gpu"], entry["methods"]) == (["h200"], ["events"])
    before = path.read_bytes()
    assert run(tool, tmp_path) == 0 and path.read_bytes() == before, "nothing is measured twice"


def test_rows_cut_short_or_of_other_machine_code_are_measured_again(tool, tmp_path: Path) -> None:
    assert run(tool, tmp_path) == 0
    path = tmp_path / "h200" / "suite.jsonl"
    first, second, *rest = read_rows_file(path)
    path.unlink()
    append_rows(path, [replace(first, flags=("budget_ended",)), replace(second, cubin_hash="other"), *rest])
    assert run(tool, tmp_path) == 0
    rows = read_rows_file(path)
    assert len(rows) == 4 and not [row for row in rows if row.flags or row.cubin_hash == "other"]


def test_a_budget_that_ends_leaves_the_rest_for_the_next_run(tool, tmp_path: Path, capsys) -> None:
    assert run(tool, tmp_path, budget=0.5) == tool.COULD_NOT_MEASURE
    assert "run it again" in capsys.readouterr().err
    assert run(tool, tmp_path) == 0


def test_a_kernel_that_computes_wrongly_is_recorded_as_such(tool, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tool, "CudaDriver", lambda device: FakeGpuThatErrs())
    assert run(tool, tmp_path) == 1
    rows = read_rows_file(tmp_path / "h200" / "suite.jsonl")
    assert all(row.flags == ("wrong_result",) and row.time_us is None for row in rows)


class FakeGpuThatErrs(Gpu):
    def __init__(self):
        super().__init__(wrong=True)
