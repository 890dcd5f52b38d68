"""``gpusim compare --against FILE|RUN|recorded|silicon``: what it prints, keeps and exits with."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpusim import cli
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import append_rows

#: One launch that the secret machine (slower L2) shares with the described one, and one that it does not.
ARITHMETIC, LATENCY = "pipe_latency", "pointer_chase"


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


def test_exit_codes_tell_divergence_from_its_absence(rows_file, capsys) -> None:
    assert compare(capsys, "--against", rows_file, "--check")[0] == 1
    assert compare(capsys, ARITHMETIC, "--against", rows_file, "--strict")[0] == 0
    assert compare(capsys, LATENCY, "--against", rows_file, "--check", "--tolerance", 60)[0] == 0


def test_a_kept_comparison_is_the_baseline_of_the_next(rows_file, capsys) -> None:
    code, _, err = compare(capsys, "--against", rows_file, "--save", "first", "--check")
    assert code == 1 and "kept as run 'first'" in err
    code, out, _ = compare(capsys, "--against", "first", "--baseline", "first", "--check")
    assert code == 0 and "as before" in out  # known divergences are known
    slower = ("--set", "l1.hit_latency_cycles=900", "--set", "pipes.fma.latency_cycles=9")
    code, out, _ = compare(capsys, "--against", "first", "--baseline", "first", "--check", *slower)
    assert "was not compared before" in out  # another machine has lines of its own
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


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--against", "recorded"), 3, "record_silicon"),
        (("saxpy", "--against", "silicon"), 3, "doctor"),
        (("--against", "silicon"), 2, "what to measure"),
        (("saxpy", "--against", "silicon", "--gpu", "h200", "--gpu", "a40"), 2, "one --gpu"),
        (("--against", "gone.jsonl"), 3, "gone.jsonl"),
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
