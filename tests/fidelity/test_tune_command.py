"""Does ``gpusim tune`` search what its command line says, and write what other tools read?"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.silicon.imports import read_rows

COPY = """
__global__ void copy(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  for (int e = 0; e < EACH; ++e, i += blockDim.x) if (i < n) y[i] = x[i];
}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "my.cu").write_text(COPY)
    launch = ["--grid", "cdiv(n,block*each)", "--option=-DEACH={each}"]
    for argument in ("float[n]=1", "float[n]", "int:n"):
        launch += ["--arg", argument]
    return [f"{tmp_path}/my.cu:copy:n=16Ki,block=64,256,2048,each=1,4", *launch, "--gpu", "t4"]


def test_a_kernel_of_a_file_is_searched_and_written_for_kernel_tuner(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, t4 = tmp_path / "cache.json", tmp_path / "t4.json"
    metric = ["--metric", "gb_per_s=8*16384/time/1e6"]
    restrict = ["--restrict", "block * each != 256"]
    code = run(["tune", *words, *metric, *restrict, "--format", "csv", "--cache", str(cache), "--t4", str(t4)])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert {(row["block"], row["each"]) for row in rows[:2]} == {("64", "1"), ("256", "4")} and len(rows) == 4
    assert "2048" in rows[2]["left_out"] and "2 left out" in printed.err
    for row in rows[:2]:
        assert float(row["gb_per_s"]) == pytest.approx(8 * 16384 / float(row["time_us"]) / 1e3)
    written = json.loads(cache.read_text())
    assert written["tune_params"] == {"block": [64, 256, 2048], "each": [1, 4]} and "problem_size" not in written
    assert written["cache"]["2048,1"]["time"] == "RuntimeFailedConfig"
    for path in (cache, t4):
        assert sorted(row.time_us.median for row in read_rows(path) if row.time_us) == pytest.approx(
            sorted(float(row["time_us"]) for row in rows[:2])
        )
    results = json.loads(t4.read_text())["results"]
    assert sorted(each["invalidity"] for each in results) == ["correct", "correct", "runtime", "runtime"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--restrict", "blocks > 1"], "names blocks, which is no parameter; did you mean block"),
        (["--metric", "gb_per_s"], "write NAME=FORMULA"),
        (["--metric", "x=n +"], "is no formula"),
        (["--restrict", "block > 4096"], "none is left by restrict"),
    ],
)
def test_what_is_written_wrong_is_told_before_anything_runs(
    words: list[str], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", *words, *more]) == 2
    assert told in capsys.readouterr().err


def test_a_case_with_nothing_to_search_says_how_values_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "saxpy:n=1000", "--gpu", "t4"]) == 2
    assert "saxpy has nothing" in (told := capsys.readouterr().err).replace(":n=1000", "") and "64,128,256" in told


@pytest.mark.parametrize(
    "words", [["saxpy:n=1000,block_threads=32..1024"], ["{folder}/a.cu:a:block=32..1024", "--grid", "1"]]
)
def test_a_range_is_told_as_one_and_how_its_values_are_written(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cu").write_text("__global__ void a() {}")
    assert run(["tune", *(word.format(folder=tmp_path) for word in words), "--gpu", "t4"]) == 2
    assert (
        "32..1024 is a range, which gpusim explore alone takes: write the values, 32,64,128" in capsys.readouterr().err
    )


def test_an_entry_of_the_suite_is_searched_by_its_axes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "saxpy:n=4096,block_threads=64,128", "--gpu", "t4", "--format", "json"]) == 0
    printed = capsys.readouterr().out
    assert {row["block_threads"] for row in json.loads(printed)} == {64, 128}
