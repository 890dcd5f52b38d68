"""``gpusim_benchmark``: a test's launches are predicted, kept in a file and compared with it, in sessions run in this
process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpusim
from gpusim.benchmark_file import Benchmark, changes, load_benchmarks
from gpusim.errors import ResultFileError

TEAM_TESTS = """
import numpy as np
from numba import cuda


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def twice(n):
    x = np.ones(n, np.float32)
    double[-(-n // 64), 64](x)
    double.forall(n, tpb=32)(x)
    return x


def test_twice(gpusim_benchmark):
    assert (gpusim_benchmark(twice, n=100) == 4).all()
    assert [launch.launch.block[0] for launch in gpusim_benchmark.result.launches] == [64, 32]
    assert gpusim_benchmark.result.launches[0].time_us > 0


def test_a_case(gpusim_benchmark):
    x = np.ones(50, np.float32)
    gpusim_benchmark(lambda: (double, 1, 64, (x,)))
    assert (x == 2).all()
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    (folder / "test_team.py").write_text(TEAM_TESTS)
    return folder


def run(folder: Path, *options: str) -> int:
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:unraisableexception",
        "-c",
        "/dev/null",
        "--rootdir",
        str(folder),
        *options,
    ]
    return int(pytest.main([*words, str(folder / "test_team.py")]))


def test_figures_are_kept_and_a_slower_kernel_fails_the_session(team: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = team / "kept.json"
    assert run(team, "--gpusim-save", str(kept)) == 0
    assert re.search(r"test_team.py::test_twice +h200 +\d+", capsys.readouterr().out)
    before = load_benchmarks(kept)
    assert [each.kernels for each in before.values()] == [("double",), ("double", "double")]

    document = json.loads(kept.read_text())
    document["benchmarks"][1]["cycles"] -= 100
    kept.write_text(json.dumps(document))
    compare = ("--gpusim-compare", str(kept))
    assert run(team, *compare, "-k", "twice") == 0
    assert run(team, *compare, "--gpusim-compare-fail", "50", "-k", "twice") == 0
    capsys.readouterr()
    assert run(team, *compare, "--gpusim-compare-fail", "0.5", "-k", "twice") == 1
    said = capsys.readouterr().out
    assert "%" in said and "(too slow)" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpusim-compare-fail", "1"], "give --gpusim-compare FILE too"),
        (["--gpusim-compare", "nowhere.json"], "nowhere.json"),
        (["--gpusim-save", "nowhere/b.json"], "no folder"),
    ],
)
def test_what_cannot_be_done_is_said_before_any_test(
    team: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert run(team, *options) == pytest.ExitCode.USAGE_ERROR
    output = "".join(capsys.readouterr())
    assert said in output and "Traceback" not in output


def test_a_change_of_method_is_not_blamed_on_the_kernel() -> None:
    now = Benchmark("t", "h200", 110, 1.0, ("k",), "gpu", "code")
    told = {
        "new": None,
        "was on a40": Benchmark("t", "a40", 100, 1.0, ("k",), "gpu", "code"),
        "the description of h200 changed": Benchmark("t", "h200", 100, 1.0, ("k",), "other", "code"),
        "predicted by another gpusim": Benchmark("t", "h200", 100, 1.0, ("k",), "gpu", "other"),
    }
    for why, before in told.items():
        [change] = changes([now], {"t": before} if before else {})
        assert (change.percent, change.why_not) == (None, why)
    [change] = changes([now], {"t": Benchmark("t", "h200", 100, 1.0, ("k",), "gpu", "code")})
    assert change.percent == pytest.approx(10)


@pytest.mark.parametrize("text", ["", "[]", '{"format": "gpusim-benchmarks", "version": 2, "benchmarks": []}'])
def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(ResultFileError, match=r"b\.json"):
        load_benchmarks(tmp_path / "b.json")


def test_bench_takes_what_do_bench_takes() -> None:
    with pytest.raises(gpusim.UsageError, match="launched no kernel"):
        gpusim.bench(lambda: None)
    with pytest.raises(gpusim.UsageError, match="return_mode = 'best'"):
        gpusim.bench(lambda: None, return_mode="best")
    with pytest.raises(gpusim.UsageError, match="shares between 0 and 1"):
        gpusim.bench(lambda: None, quantiles=[50])
