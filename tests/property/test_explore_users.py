"""What somebody with kernels of their own meets: their files are searched, refusals say why, searches can be
repeated."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from forked_commands import gpusim as forked
from hypothesis import given, settings

from gpusim.cases.suite import find_kernel
from gpusim.cases.user_entries import UserEntry
from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.explore.cost import MeasuredCost
from gpusim.explore.coverage import Coverage
from gpusim.explore.coverage_holes import kernel_of
from gpusim.explore.network_shapes import shapes_around
from gpusim.explore.property import Property
from gpusim.explore.report_findings import _run_neighbours
from gpusim.explore.search import Search
from gpusim.gpus.load import load_gpu
from gpusim.io.sibling import load_sibling

pytestmark = pytest.mark.usefixtures("without_source_lines")
MACHINE = ["--gpu", "h200", "--set", "sm_count=2"]
FILE = '''
from typing import Literal

import numpy as np
from numba import cuda


@cuda.jit
def scale(x, stride):
    i = cuda.grid(1) * stride
    if i < x.size:
        x[i] *= 2


def case(n=1 << 20, stride: Literal[1, 8] = 1, block=256, half=False, name="a", grain=12):
    """Every stride-th element twice.

    More."""
    return scale, -(-n // block), block, (np.ones(n * stride, np.float16 if half else np.float32), stride)


def plain(n=1 << 20, block=256):
    return scale, -(-n // block), block, (np.ones(n, np.float32), 1)


def slower_above_500(n=1 << 20, block=256):
    stride = 16 if n > 500 else 1
    return scale, -(-n // block), block, (np.ones(n * stride, np.float32), stride)


def square(n=64):
    return scale, (-(-n // 8), -(-n // 8)), 64, (np.ones((n, n), np.float32), 1)


def needs(n):
    return None
'''


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


def test_an_axis_that_counts_for_its_square_keeps_within_the_work_too(mine: str) -> None:
    """An n x n matrix with n 16 times as large is 256 times the work: found at the launch, which axes do not tell."""
    name = f"{mine}:square"
    search = Search([name], cast("Property", None), shapes=cast("Any", None), gpu=load_gpu("h200"), growth=16.0)
    sizes = {n: search._outgrows(name, search._predictor.from_launch(name, {"n": n})) for n in (8, 64, 256, 264, 1024)}
    assert sizes == {8: False, 64: False, 256: False, 264: True, 1024: True}
    tall = search._predictor.from_launch(f"{mine}:plain", {"n": 16_000, "block": 32})
    assert not search._outgrows(f"{mine}:plain", tall)  # more blocks alone are a matter of their size


def test_a_search_that_nothing_steers_keeps_within_the_work_too(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, ran = f"{mine}:square", []
    search = Search([name], cast("Property", None), shapes=cast("Any", None), gpu=load_gpu("h200"), steer=False)
    monkeypatch.setattr(search, "measure", lambda kernel, shape, keep: ran.append(shape["n"]))
    monkeypatch.setattr(search, "_draw", lambda *given: [given[-1](name, {"n": n}) for n in (8, 256, 264, 1024)])
    search._unsteered_round(cast("Any", None), 4, lambda: False, lambda tried: None)
    assert ran == [8, 256]


def test_a_function_s_parameters_are_its_axes(mine: str) -> None:
    entry = find_kernel(f"{mine}:case")
    assert entry.axes == {
        "n": (1 << 20,),
        "stride": (1, 8),
        "block": (32, 64, 128, 256, 512, 1024),
        "half": (False, True),
        "name": ("a",),
        "grain": (6, 11, 12, 13, 24),
    }
    assert entry.small == {**entry.default, "n": 1000} and entry.purpose == "Every stride-th element twice."
    assert entry.listed == {"stride"}
    with pytest.raises(UsageError, match="needs a default of n, or"):
        find_kernel(f"{mine}:needs")
    with pytest.raises(UsageError, match="is a kernel"):
        find_kernel(f"{mine}:scale")
    assert kernel_of(f"{mine}:case:n=4 @ h200") == f"{mine}:case" and kernel_of("saxpy:n=4 @ h200") == "saxpy"


def test_what_is_run_to_make_a_case_small_is_within_what_annotations_allow(tmp_path: Path) -> None:
    (tmp_path / "bounded.py").write_text(
        "from typing import Annotated, Literal\n\n\ndef case(n: Annotated[int, (32, 4096)] = 1000, block: Literal[32, 64, 128] = 64): ...\n"
    )
    kernel, run_shapes = f"{tmp_path / 'bounded.py'}:case", []

    def measure(kernel: str, shape: dict[str, int], keep: Any) -> None:
        run_shapes.append(shape)

    search = cast(Search, SimpleNamespace(machine_axes={}, measure=measure))
    _run_neighbours(search, kernel, {"n": 4096, "block": 64}, lambda tried: None)
    assert {shape["block"] for shape in run_shapes} == {32, 64, 128}
    assert {shape["n"] for shape in run_shapes} == {4095, 4096}
    entry = find_kernel(kernel)
    assert isinstance(entry, UserEntry)
    assert [entry.allows("n", n) for n in (31, 32, 4096, 4097)] == [False, True, True, False]
    assert [entry.allows("block", block) for block in (64, 117)] == [True, False]


def test_two_builds_in_a_file_of_one_s_own_are_told_apart(
    mine: str, tmp_path: Path, capsys, monkeypatch, small_pool, one_finding
) -> None:
    folder = tmp_path / "found"
    arguments = [f"{mine}:plain", "--property", "builds", "--other-kernel", f"{mine}:slower_above_500", *MACHINE]
    assert (
        run(["explore", *arguments, "--max-examples", "10", "--jobs", "1", "-o", str(folder), "--format", "json"]) == 1
    )
    found = json.loads(capsys.readouterr().out)
    assert any("n >= 501" in finding["region"] for finding in found)
    # A finding is code: from another folder it is run only where that is said.
    assert run(["replay", found[0]["file"], "--format", "json"]) == 2
    assert re.search(r"would run the code of .*mine\.py, which lies outside .* --run-code", capsys.readouterr().err)
    assert run(["replay", "--run-code", found[0]["file"], "--format", "json"]) == 1
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    assert run(["replay", found[0]["file"], "--format", "json"]) == 1
    output = capsys.readouterr()
    assert "running the code of" in output.err and "mine.py" in output.err
    assert json.loads(output.out)[0]["same_digits"]
    Path(mine).write_text(FILE.replace("def plain", "def renamed"))
    # Another process, as a user's: a file is imported once in each.
    again = forked("replay", found[0]["file"], cwd=Path.cwd())
    assert (
        again.returncode == 2 and "has no plain; there are scale" in again.stderr and found[0]["file"] in again.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["saxpy", "--property", "builds", "--other-kernel", "softmax"], 2, "softmax has no axis n, which saxpy has"),
        (["saxpy", "--property", "builds", "--other-kernel", "none.py:f"], 2, "there is no file none.py"),
        (["saxpy", "--other-gpu", "a100_80gb"], 2, "--other-gpu is for --property gpus, not bounds"),
        (["saxpy", "--property", "gpus", "--rows", __file__], 2, "--rows is for --property silicon, not gpus"),
        (["saxpy", "--property", "silicon"], 3, "give --rows FILE"),
        (["none.py:f"], 2, "there is no file none.py"),
    ],
)
def test_what_cannot_be_searched_says_why(arguments: list[str], code: int, told: str, tmp_path: Path, capsys) -> None:
    common = [*MACHINE, "--max-examples", "2", "--jobs", "1", "-o", str(tmp_path)]
    assert run(["explore", *arguments, *common]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ") and told in last


@pytest.mark.nightly
def test_the_same_search_in_two_processes_names_the_same_workloads(tmp_path: Path) -> None:
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        arguments = ["saxpy", "divergence", *MACHINE, "--property", "bounds", "--max-examples", "12", "--jobs", "2"]
        assert run(["explore", *arguments, "-o", str(folder)]) == 0
        found.append(Coverage.load(folder / "coverage.json"))
    assert found[0] == found[1]


def test_shapes_beside_a_network_s_keep_near_it_and_within_the_work() -> None:
    load_sibling("workloads", "the workloads")
    strategies = importlib.import_module("gpusim.workloads.strategies")
    entry, growth = find_kernel("silu_mul"), 200.0
    known = shapes_around(["llama3_8b:phase=decode,batch=8,tensor-parallel=8"], growth)["silu_mul"]
    assert known == [{"rows": 8, "columns": 1792, "dtype": "float16"}]
    drawn: list[dict] = []

    @settings(max_examples=150, database=None, derandomize=True)
    @given(strategies.beside(known, entry.axes, entry.small, growth=growth, fixed={"block_threads": 256}))
    def draw(shape: dict) -> None:
        drawn.append(shape)
        assert list(shape) == list(entry.axes) and shape["block_threads"] == 256 and shape["dtype"] == "float16"
        assert strategies.work(shape, entry.small) <= growth
        assert 4 <= shape["rows"] <= 16 or shape["rows"] == 1

    draw()
    sizes = {(shape["rows"], shape["columns"]) for shape in drawn}
    assert {(8, 1792), (8, 1791), (8, 1793), (8, 896), (7, 1792), (9, 1792)} <= sizes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nope", "no network is called 'nope'"),
        ("llama3_8b:foo=1", "a pass has no foo"),
        ("llama3_8b:batch=x", "batch=x is no whole number"),
        ("resnet50", "no launch is within --growth 16; the smallest needs 2"),
    ],
)
def test_a_pass_that_cannot_be_searched_around_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        shapes_around([text], 16.0)


@pytest.mark.nightly
def test_a_search_around_a_network_runs_its_kernels(tmp_path: Path) -> None:
    arguments = ["--around", "llama3_8b:phase=decode,batch=1", *MACHINE, "--growth", "64", "--max-examples", "4"]
    assert run(["explore", *arguments, "--property", "numpy", "--jobs", "1", "-o", str(tmp_path)]) == 0
    rows = [json.loads(line) for file in tmp_path.glob("runs-*.jsonl") for line in file.read_text().splitlines()]
    assert {row["kernel"] for row in rows if "kernel" in row} <= {"rmsnorm", "silu_mul"}


def test_a_search_bounds_what_runs_have_cost_beside_what_launches_show() -> None:
    cost = MeasuredCost({"n": 128, "block": 64, "mode": "fast"})
    for n, block in ((32, 64), (64, 128), (16, 256), (256, 32)):
        assert cost.of({"n": 1 << 20, "block": 64, "mode": "fast"}) == 1.0 or n == 256  # too few runs
        cost.learn({"n": n, "block": block, "mode": "slow"}, 1000 + n**3)
    dear, far, wide = (
        cost.of({"n": n, "block": block, "mode": "slow"}) for n, block in ((512, 64), (200, 64), (128, 1024))
    )
    assert 25 < dear < 70 and far < 16 and wide < 4
    assert cost.of({"n": 0, "block": 64, "mode": "slow"}) == 1.0  # of no use to logarithms
