"""Sweeps: a row a point, the same figures as each point alone, and what cannot be swept says why."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpusim import cli
from gpusim.cases.requests import split_request, sweep_points
from gpusim.cases.simulation_cost import duration_text, simulation_seconds
from gpusim.commands import simulate_sweep
from gpusim.errors import UnknownGpuError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io import progress

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")


@pytest.fixture
def gpusim(tmp_path, monkeypatch, capsys):
    """Run a command line in an empty folder; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 1e9)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_request_is_taken_apart():
    assert split_request("k:n=1,2,m=3") == ("k", {"n": ["1", "2"], "m": ["3"]})
    assert split_request("my.py:f:shape=(4,4),n=1,2") == ("my.py:f", {"shape": ["(4,4)"], "n": ["1", "2"]})
    points = sweep_points("k:n=1,2,m=3,p=a,b")
    assert [p.text for p in points] == ["k:n=1,m=3,p=a", "k:n=1,m=3,p=b", "k:n=2,m=3,p=a", "k:n=2,m=3,p=b"]
    assert points[1].values == {"n": "1", "p": "b"} and sweep_points("k")[0].text == "k"
    for wrong in ("k:1,2", "k:n=1,n=2", "k:n=1,", "k:n=1,,2", "k:=1"):
        with pytest.raises(UsageError):
            split_request(wrong)
    with pytest.raises(UsageError, match="more than"):
        sweep_points("k:" + ",".join(f"a{i}=" + ",".join("0123456789") for i in range(9)))


def test_each_point_is_what_it_is_alone(gpusim):
    code, out, err = gpusim(
        "simulate", "saxpy:n=1Ki,1e4,block_threads=64,128", "--gpu", "H200,A100 80GB", "--format", "json"
    )
    rows = json.loads(out)
    assert (code, err) == (0, "") and len(rows) == 8
    assert [(r["n"], r["block_threads"], r["gpu"]) for r in rows][:3] == [
        (1024, 64, "h200"), (1024, 64, "a100_80gb"), (1024, 128, "h200"),
    ]  # fmt: skip
    alone = json.loads(
        gpusim("simulate", "saxpy:n=10000,block_threads=64", "--gpu", "a100_80gb", "--format", "json")[1]
    )
    (row,) = [r for r in rows if (r["n"], r["block_threads"], r["gpu"]) == (10000, 64, "a100_80gb")]
    assert (row["cycles"], row["time_us"]) == (alone["cycles"], alone["time_us"])
    # saxpy reads two values and writes one of four bytes, and does two operations, an element.
    assert row["gb_per_s"] == pytest.approx(12 * 10000 / row["time_us"] / 1e3)
    assert row["gflop_per_s"] == pytest.approx(2 * 10000 / row["time_us"] / 1e3)
    assert row["bound_by"] == alone["answer"]["bound_by"]
    moved = alone["traffic"]["dram__bytes.sum"]
    assert row["dram_gb_per_s"] == pytest.approx(moved / row["time_us"] / 1e3)


def test_a_point_that_is_refused_is_a_row_and_the_exit_code(gpusim):
    code, out, _ = gpusim("simulate", "saxpy:n=64,block_threads=64,4096,32", "--format", "json")
    rows = json.loads(out)
    assert code == 2 and [row["block_threads"] for row in rows] == [64, 4096, 32]
    assert "at most 1024" in rows[1]["refused"] and rows[1]["cycles"] == "" and rows[2]["cycles"] > 0


@pytest.mark.parametrize(("arguments", "told"), [
    (["saxpy:n=1,2", "--why"], "--why is for one run"),
    (["saxpy:n=1,2", "--save", "x.json"], "--save is for one run"),
    (["saxpy:n=1,x"], "n=x"),
    (["saxpy:n=1,2", "--gpu", "h200,H200"], "names a GPU twice"),
    (["saxpy:n=1,2", "--plot", "x.gif"], ".svg, .png, .pdf"),
    (["saxpy", "--plot", "x.svg"], "--plot draws a sweep"),
    (["saxpy", "-o", "x.doc"], "End it in .json"),
    (["saxpy", "-o", "no/x.json"], "there is no folder no"),
    (["saxpy:n=1,2", "--gpu", "h200,A100"], "a100_40gb"),
])  # fmt: skip
def test_what_cannot_be_swept_is_refused_before_any_work(gpusim, arguments, told):
    code, out, err = gpusim("simulate", *arguments)
    assert code in (2, 5) and not out and told in err and not list(Path().iterdir())


def test_other_commands_take_one_value(gpusim):
    for command in (["capture", "-o", "x.trace"], ["cover", "run", "-o", "c.json"]):
        code, _, err = gpusim(*command, "saxpy:n=1,2")
        assert code == 2 and "a sweep is for gpusim simulate" in err


def test_what_is_written_is_what_would_be_printed(gpusim):
    for ending, form in ((".json", "json"), (".csv", "csv"), (".md", "md"), (".txt", "table")):
        for source in ("saxpy:n=64", "saxpy:n=64,96"):
            printed = gpusim("simulate", source, "--format", form)[1]
            code, out, err = gpusim("simulate", source, "-o", f"x{ending}")
            assert (code, out, err) == (0, "", f"written to x{ending}\n") and Path(f"x{ending}").read_text() == printed


def test_a_plot_is_drawn_of_sizes_and_of_choices(gpusim):
    pytest.importorskip("matplotlib")
    assert gpusim("simulate", "saxpy:n=64,1024,block_threads=32,64", "--plot", "a.svg")[0] == 0
    text = Path("a.svg").read_text()
    for label in ("block_threads=32", "block_threads=64", "microseconds", ">1024<", "GB/s"):
        assert label in text
    assert gpusim("simulate", "saxpy:n=64,1024,block_threads=32,64", "--plot", "b.svg")[0] == 0
    assert Path("b.svg").read_text() == text
    assert gpusim("simulate", "saxpy:n=64", "--gpu", "h200", "--gpu", "l40", "--plot", "c.png")[0] == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_that_somebody_ends_has_printed_what_has_run(gpusim, monkeypatch):

    simulate, calls = simulate_sweep.simulate, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return simulate(*arguments, **options)

    monkeypatch.setattr(simulate_sweep, "simulate", interrupted)
    code, out, _ = gpusim("simulate", "saxpy:n=64,96,128", "--format", "csv")
    assert code == 130 and [row["n"] for row in csv.DictReader(out.splitlines())] == ["64"]


@pytest.mark.parametrize(("text", "name"), [
    ("H200", "h200"), ("H200 SXM", "h200"), ("h200-sxm", "h200"), ("NVIDIA H200 SXM 141 GB", "h200"), ("RTX 4090", "rtx4090"),
    ("GeForce RTX-3090", "rtx3090"), ("A100-SXM4-80GB", "a100_80gb"), ("a100 40GB", "a100_40gb"), ("H100 PCIe", "h100_pcie"),
    ("H100", "h100"), ("H100 SXM", "h100"), ("GH200 96GB HBM3", "gh200"),
])  # fmt: skip
def test_a_gpu_goes_by_the_names_that_people_write(text, name):
    assert load_gpu(text).name == name


@pytest.mark.parametrize(("text", "told"), [
    ("A100", "a100_40gb .* or a100_80gb"), ("H300", "did you mean .*h100"), ("NVIDIA H201", "did you mean .*h200"), ("", "unknown GPU"),
    ("sm_75", "rtx2080ti, t4, titan_rtx: say which"), ("sm_33", "unknown GPU"),
])  # fmt: skip
def test_a_gpu_that_is_not_clear_is_asked_for(text, told):
    with pytest.raises(UnknownGpuError, match=told):
        load_gpu(text)


def test_what_a_network_costs_to_simulate_grows_with_its_work(gpusim):
    code, out, _ = gpusim("workloads", "show", "llama3_8b", "--sequence", "512", "--format", "json")
    rows = json.loads(out)
    assert code == 0 and all(row["simulate_s"] > 0 for row in rows)
    once, twice = (simulation_seconds("rmsnorm", {"rows": rows_, "columns": 8192}) for rows_ in (2**14, 2**15))
    assert twice > 1.8 * once - 2 and simulation_seconds("saxpy", {"n": 1}) is None
    assert [duration_text(s) for s in (None, 12.4, 400, 9000, 4e5)] == ["", "12 s", "7 min", "2 h", "5 days"]
