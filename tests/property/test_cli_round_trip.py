"""The same question asked in two ways gives the same answer: through files, formats and names."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gpusim import cli
from gpusim.cases.names import kernel_names
from gpusim.compare import run as compare_run
from gpusim.compare.points import default_points


@pytest.fixture
def gpusim(capsys, tmp_path, monkeypatch):
    """Run a command line in an empty folder; it must succeed; its stdout is returned."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return run


@pytest.mark.parametrize("gpu", ["a100_80gb", "h200"])
def test_a_trace_file_simulates_like_the_kernel_itself(gpusim, gpu: str) -> None:
    gpusim("capture", "saxpy", "--small", "--gpu", gpu, "-o", "s.trace")
    from_file = json.loads(gpusim("simulate", "s.trace", "--gpu", gpu, "--format", "json"))
    direct = json.loads(gpusim("simulate", "saxpy", "--small", "--gpu", gpu, "--format", "json"))
    assert from_file == direct
    assert from_file["cycles"] > 0
    assert from_file["counters"]["sm__cycles_elapsed.max"] == from_file["cycles"]


def test_a_second_run_on_the_same_machine_finds_warm_caches(gpusim) -> None:
    gpusim("capture", "saxpy", "--small", "-o", "s.trace")
    cold = json.loads(gpusim("simulate", "s.trace", "--format", "json"))["cycles"]
    twice = json.loads(gpusim("simulate", "s.trace", "s.trace", "--format", "json"))["cycles"]
    warmed = json.loads(gpusim("simulate", "s.trace", "--warm", "s.trace", "--format", "json"))["cycles"]
    assert cold < twice < 2 * cold
    assert warmed < cold


def test_a_kernel_of_several_launches_writes_one_file_each(gpusim, tmp_path: Path) -> None:
    rows = json.loads(gpusim("capture", "pointer_chase", "--small", "-o", "c.trace", "--format", "json"))
    assert [row["timed"] for row in rows][-1] is True
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(row["file"] for row in rows)
    assert all(Path(row["file"]).stat().st_size == row["bytes"] for row in rows)


def test_every_format_of_a_simulation_has_its_cycles(gpusim) -> None:
    gpusim("capture", "saxpy", "--small", "-o", "s.trace")
    cycles = str(json.loads(gpusim("simulate", "s.trace", "--format", "json"))["cycles"])
    for form in ("table", "md", "csv"):
        assert cycles in gpusim("simulate", "s.trace", "--format", form)


def test_machine_code_is_listed_with_its_control_fields(gpusim) -> None:
    rows = json.loads(gpusim("sass", "saxpy", "--gpu", "a100_80gb", "--format", "json"))
    assert any("FFMA" in row["sass"] for row in rows)
    assert any(row["sass"].startswith("EXIT") or " EXIT" in row["sass"] for row in rows)
    loads = [row for row in rows if "LDG" in row["sass"]]
    assert loads and all(row["write"] != "-" and row["pipe"] == "lsu" for row in loads)


def test_the_suite_is_listed_and_each_axis_shown(gpusim) -> None:
    listed = [row["kernel"] for row in json.loads(gpusim("kernels", "list", "--format", "json"))]
    assert listed == kernel_names() and len(listed) >= 19
    axes = {row["axis"] for row in json.loads(gpusim("kernels", "show", "stream_triad", "--format", "json"))}
    assert {"n", "block_threads", "blocks_per_sm"} <= axes


def test_a_comparison_is_the_same_rows_in_every_format(gpusim, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two points a series: each is simulated anew for each format.
    monkeypatch.setattr(compare_run, "default_points", lambda points: default_points(points)[:2])
    arguments = ("compare", "l1_stride", "--gpu", "h200", "--against", "published", "--jobs", "1")
    rows = json.loads(gpusim(*arguments, "--format", "json"))
    assert len(rows) == 2 and all(
        list(row)
        == [
            *("gpu", "series", "point", "unit", "simulated", "simulated_low", "simulated_high", "measured"),
            *("error_percent", "fitted"),
        ]
        for row in rows
    )
    for row in rows:
        expected = 100 * (row["simulated"] - row["measured"]) / row["measured"]
        assert row["error_percent"] == pytest.approx(expected)
    read = list(csv.DictReader(io.StringIO(gpusim(*arguments, "--format", "csv"))))
    assert [float(r["simulated"]) for r in read] == [r["simulated"] for r in rows]
    for form in ("table", "md"):
        text = gpusim(*arguments, "--format", form)
        assert "mape_percent" in text and all(row["point"] in text for row in rows)


@pytest.mark.nightly
def test_workers_do_not_change_a_comparison(gpusim) -> None:
    arguments = ("compare", "l1_stride", "stream_read", "--gpu", "a100_80gb", "--format", "json", "--jobs")
    assert gpusim(*arguments, "1") == gpusim(*arguments, "2")
