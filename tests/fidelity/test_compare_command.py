"""``gpusim compare --against FILE|RUN|recorded|silicon``: what it prints, keeps and exits with."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_gpu import FakeGpu

from gpusim import cli
from gpusim.commands import compare_measured
from gpusim.compare import case_simulator
from gpusim.measure import rounds
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.silicon.rows import append_rows

#: One launch that the secret machine (slower L2) shares with the described one, and one that it does not.
ARITHMETIC, LATENCY = "pipe_latency", "pointer_chase"

OWN_KERNEL = """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def case(n=256):
    return scale, -(-n // 128), 128, (np.ones(n, np.float32),)
"""


@pytest.fixture(scope="module")
def rows_file(secret_rows: list[SiliconRow], tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    append_rows(path, [row for row in secret_rows if row.kernel in (ARITHMETIC, LATENCY)])
    return path


def compare(capsys, *arguments: object) -> tuple[int, str, str]:
    code = cli.run(["compare", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_file_of_rows_becomes_verdicts_in_every_format(rows_file, tmp_path, capsys) -> None:
    junit, markdown = tmp_path / "compare.xml", tmp_path / "compare.md"
    code, out, err = compare(capsys, "--against", rows_file, "--junit", junit, "--markdown", markdown)
    assert code == 0 and "[  1/3]" in err
    for word in ("mape_percent", "spearman", "SAME", "FASTER", "joined_by", "cubin", f"{ARITHMETIC}:op=ffma"):
        assert word in out
    root = ElementTree.fromstring(junit.read_bytes())
    seconds = [float(str(case.get("time"))) for case in root.iter("testcase")]
    assert max(seconds) > 0 and float(str(root.get("time"))) == pytest.approx(sum(seconds), abs=0.01)
    assert (root.get("tests"), root.get("errors")) == ("3", "0") and int(root.get("failures")) >= 1
    assert markdown.read_text().startswith("## gpusim compare") and "FASTER" in markdown.read_text()

    code, out, _ = compare(capsys, "--against", rows_file, "--format", "json")
    (document,) = json.loads(out)["comparisons"]
    assert document["overall"]["launches"] == 3 and document["overall"]["spearman"] > 0.9
    assert {launch["verdict"] for launch in document["launches"]} == {"SAME", "FASTER"}
    assert all(launch["counters"] and launch["reason"] for launch in document["launches"])
    code, out, _ = compare(capsys, "--against", rows_file, "--format", "csv")
    records = list(csv.DictReader(io.StringIO(out)))
    assert [float(r["error_percent"]) for r in records] == [x["error_percent"] for x in document["launches"]]


def test_the_page_stands_alone_and_escapes_what_comes_from_outside(secret_rows, tmp_path, capsys) -> None:
    (row,) = [row for row in secret_rows if row.kernel == ARITHMETIC]
    bad = replace(row, flags=("<script>alert(1)</script>",), counters={"smsp__inst_executed.sum": 1.0})
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.html"
    append_rows(rows, [bad, replace(bad, kernel="<b>mine</b>", cubin_hash="", shape="")])
    assert compare(capsys, "--against", rows, "--html", page)[0] == 0
    text = page.read_text()
    assert text.count("<svg") == 3 and "alert(1)" in text and "<script>alert" not in text and "<b>mine" not in text
    assert not re.findall(r'(?:src|href)="(?!#)', re.sub(r"<svg.*?</svg>", "", text, flags=re.S))
    assert "right for the wrong reason" in text and 'id="hot-0-0"' in text and "table.sort" in text


def test_the_gpu_of_this_machine_is_measured_and_compared(monkeypatch, capsys) -> None:
    gpu = FakeGpu(cold_us=2.0, warm_us=1.5)
    monkeypatch.setattr(compare_measured, "CudaDriver", lambda: contextlib.nullcontext(gpu))
    assert case_simulator.EMPTY_LAUNCH == rounds.EMPTY_LAUNCH
    code, out, _ = compare(capsys, "saxpy:n=2000", "--against", "silicon", "--format", "json")
    launches = json.loads(out)["comparisons"][0]["launches"]
    assert code == 0 and [launch["cache"] for launch in launches] == ["cold", "warm"]
    assert all(launch["joined_by"] == "cubin" and launch["sm_clock_mhz"] == 1980 for launch in launches)
    assert launches[1]["measured_cycles"] == pytest.approx(1980 * 1.5, rel=0.05)


def test_a_kernel_of_a_users_own_file_is_compared_too(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN_KERNEL)
    row = SiliconRow("mine.py:case", gpu="h200", cache="cold", cycles=Estimate(2000, 1900, 2100), sm_clock_mhz=1980.0)
    append_rows(Path("rows.jsonl"), [row])
    code, out, _ = compare(capsys, "mine.py:case", "--against", "rows.jsonl", "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(out))
    assert code == 0 and (record["kernel"], record["joined_by"]) == ("mine.py:case", "shape")


def test_exit_codes_tell_divergence_from_its_absence(rows_file, capsys) -> None:
    assert compare(capsys, "--against", rows_file, "--check")[0] == 1
    assert compare(capsys, ARITHMETIC, "--against", rows_file, "--strict")[0] == 0
    assert compare(capsys, LATENCY, "--against", rows_file, "--check", "--tolerance", 60)[0] == 0


def test_a_kept_comparison_is_the_baseline_of_the_next(rows_file, tmp_path, capsys) -> None:
    code, _, err = compare(capsys, "--against", rows_file, "--save", "first", "--check")
    assert code == 1 and "kept as run 'first'" in err
    code, out, _ = compare(capsys, "--against", "first", "--baseline", "first", "--check")
    assert code == 0 and "as before" in out  # known divergences are known
    slower = ("--set", "l1.hit_latency_cycles=200")
    junit, markdown = tmp_path / "kept.xml", tmp_path / "kept.md"
    reports = ("--junit", junit, "--markdown", markdown, "--format", "json")
    for changed, expected in (((), 0), (slower, 1)):
        code, out, _ = compare(capsys, "--against", "first", "--baseline", "first", "--check", *changed, *reports)
        document = json.loads(out)
        worse = [change["what"] for change in document["changes"] if change["worse"]]
        assert code == expected == bool(worse) and document["baseline"] == "first"
        # What CI shows fails where the exit code says so, and nowhere else.
        assert ElementTree.fromstring(junit.read_bytes()).get("failures") == str(len(worse))
        assert f"{len(worse)} worse than the baseline first" in markdown.read_text()
    code, _, err = compare(capsys, "--against", rows_file, "--save", "no name!")
    assert code == 2 and err.count("\n") == 1, "a name is checked before the work"
    code, out, _ = compare(capsys, "--against", "first", "--baseline", "first", "--check", *slower)
    assert (
        code == 1
        and "True" in out
        and ("was SAME, is SLOWER" in out or "was FASTER, is SLOWER" in out or "error grew" in out)
    )
    code, _, err = compare(capsys, "--against", rows_file, "--baseline", "nobody")
    assert code == 2 and "nobody" in err


def test_what_cannot_be_compared_is_said_and_is_no_success(rows_file, tmp_path, capsys) -> None:
    code, out, err = compare(capsys, "softmax", "--against", rows_file)
    assert code == 3 and "nobody has measured this kernel here" in err
    code, out, err = compare(capsys, ARITHMETIC, "softmax", "--against", rows_file)
    assert code == 0 and "nobody has measured this kernel here" in out and "NO-DATA" in out
    other = tmp_path / "other.jsonl"
    append_rows(other, [SiliconRow(ARITHMETIC, gpu="a40")])
    assert compare(capsys, "--against", other)[0] == 3
    wrong = tmp_path / "wrong.jsonl"
    append_rows(wrong, [SiliconRow(ARITHMETIC, gpu="h200", flags=("wrong_result",))])
    code, _, err = compare(capsys, "--against", wrong)
    assert code == 3 and "wrong result" in err
    odd = tmp_path / "odd.jsonl"
    append_rows(odd, [SiliconRow(ARITHMETIC, shape="speed=9", gpu="h200")])
    code, _, err = compare(capsys, "--against", odd)
    assert code == 3 and "no axis 'speed'" in err


def test_a_row_may_leave_out_the_axes_that_are_as_by_default(secret_rows, tmp_path, capsys) -> None:
    (row,) = [row for row in secret_rows if row.kernel == "saxpy"]
    path = tmp_path / "rows.jsonl"
    append_rows(path, [replace(row, shape="n=4096", cubin_hash="")])
    code, out, _ = compare(capsys, "saxpy:n=4096", "--against", path, "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(out))
    assert code == 0 and record["joined_by"] == "shape" and record["shape"] == "n=4096,block_threads=256"


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--against", "recorded"), 3, "record_silicon"),
        (("saxpy", "--against", "silicon"), 3, "doctor"),
        (("--against", "silicon"), 2, "what to measure"),
        (("saxpy", "--against", "silicon", "--gpu", "h200", "--gpu", "a40"), 2, "one --gpu"),
        (("--against", "gone.jsonl"), 2, "gone.jsonl"),
        (("--against", "published", "--why"), 2, "--why"),
        (("--against", "recorded", "--all-points"), 2, "--all-points"),
        (("--against", "recorded", "--junit", "nowhere/at/all.xml"), 2, "nowhere"),
        (("saxpi", "--against", "recorded"), 2, "saxpi"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(capsys, monkeypatch, tmp_path, arguments, code, named) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, err = compare(capsys, *arguments)
    assert found == code and named in err.splitlines()[-1] and err.splitlines()[-1].startswith("error: ")


def test_what_cannot_end_well_fails_before_anything_is_simulated(secret_rows, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setattr("gpusim.commands.compare_measured.compare_rows", lambda *_a, **_k: pytest.fail("simulates"))
    rows = tmp_path / "rows.jsonl"
    append_rows(rows, secret_rows)
    assert cli.run(["compare", "--gpu", "h200", "--against", str(rows), "--baseline", "monday"]) == 2
    assert "no run 'monday'" in capsys.readouterr().err
    (tmp_path / "store.sqlite").write_bytes(b"no database at all" * 100)
    assert cli.run(["compare", "--gpu", "h200", "--against", str(rows), "--save", "monday"]) == 2
    assert "damaged" in capsys.readouterr().err
    assert cli.run(["compare", "--gpu", "h200", "--against", str(tmp_path / "none.jsonl")]) == 2
