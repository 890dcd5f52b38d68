"""Do `gpusim runs` and its exports say what the store holds?"""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import sys

import pytest
from store_examples import example_launch, example_row

from gpusim import cli
from gpusim.store import open_store


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    """Run `gpusim runs` over a store with three runs: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    with open_store() as store:
        for name in ("base", "base", "rows"):
            with store.new_run(name, command="simulate", arguments=["saxpy"]) as run:
                if name == "base":
                    run.add_launches([example_launch(0), example_launch(1, 2000)])
                else:
                    run.add_measurements([example_row()])

    def run_command(*arguments: str):
        code = cli.run(["runs", *arguments])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run_command


def test_runs_are_listed_and_shown(shell):
    code, out, _ = shell("list", "--format", "json")
    assert code == 0
    assert [(run["run"], run["name"], run["launches"], run["measurements"]) for run in json.loads(out)] == [
        (1, "base", 2, 0), (2, "base", 2, 0), (3, "rows", 0, 1),
    ]  # fmt: skip
    assert [run["run"] for run in json.loads(shell("list", "--name", "rows", "--format", "json")[1])] == [3]
    shown = json.loads(shell("show", "base", "--format", "json")[1])
    assert shown["id"] == 2 and [row["cycles"] for row in shown["launches"]] == [1000, 2000]
    for form in ("table", "md", "csv"):
        code, out, err = shell("show", "base", "--format", form)
        assert (code, err) == (0, "") and "2000" in out
    assert "2.0" in shell("show", "rows", "--format", "csv")[1]


@pytest.mark.parametrize("what", ["launches", "measurements", "instructions"])
def test_every_form_of_an_export_holds_the_same_rows(shell, tmp_path, what):
    name = "rows" if what == "measurements" else "base"
    code, out, _ = shell("export", name, "--what", what)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    parsed = json.loads(shell("export", name, "--what", what, "--format", "json")[1])
    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in parsed] == rows
    assert shell("export", name, "--what", what, "-o", "x.csv")[0] == 0
    assert (tmp_path / "x.csv").read_text() == out
    parquet = pytest.importorskip("pyarrow.parquet")
    code, out, err = shell("export", name, "--what", what, "--format", "parquet", "-o", "x.parquet")
    assert (code, out) == (0, ""), err
    assert parquet.read_table(tmp_path / "x.parquet").to_pylist() == parsed
    assert sorted(path.suffix for path in tmp_path.glob("x.*")) == [".csv", ".parquet"]


def test_an_export_says_all_of_a_launch(shell):
    row = json.loads(shell("export", "1", "--format", "json")[1])[0]
    assert row["grid"] == "2x1x1" and row["stall.long_scoreboard"] == 90 and row["dram__bytes_read.sum"] == 0.5
    instruction = json.loads(shell("export", "1", "--what", "instructions", "--format", "json")[1])[0]
    assert (instruction["line"], instruction["warp_cycles"]) == (7, 94)


def test_measurements_of_files_are_imported_all_or_none(shell, tmp_path):
    (tmp_path / "a.jsonl").write_text(example_row(0).to_json() + "\n" + example_row(1).to_json() + "\n")
    (tmp_path / "b.jsonl").write_text(example_row(2).to_json() + "\n")
    code, out, err = shell("import", "a.jsonl", "b.jsonl", "--name", "silicon", "--format", "json")
    assert code == 0, err
    assert [row["measurements"] for row in json.loads(out)] == [2, 1]
    with open_store() as store:
        assert store.load_run("silicon").measurements == tuple(example_row(index) for index in range(3))
    (tmp_path / "bad.jsonl").write_text("no rows at all\n")
    code, out, err = shell("import", "a.jsonl", "bad.jsonl", "--name", "silicon")
    assert code == 2 and "bad.jsonl" in err and err.count("\n") == 1
    with open_store() as store:
        assert len(store.list_runs("silicon")) == 1


def test_deleting_and_pruning_leave_what_a_name_stands_for(shell, tmp_path):
    code, out, _ = shell("prune", "--keep", "1", "--dry-run")
    assert code == 0 and out.splitlines()[-1].split()[:2] == ["1", "base"]
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        store.execute("UPDATE runs SET state='open', started='2020-01-01T00:00:00+00:00' WHERE id=3")
    shell("prune", "--keep", "1")
    assert [run["run"] for run in json.loads(shell("list", "--format", "json")[1])] == [2]
    code, out, err = shell("delete", "base")
    assert code == 0 and "deleted run 2 base" in err
    code, out, err = shell("list")
    assert (code, out) == (0, "") and "no run" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "bases"], 2, "did you mean base"),
        (["show", "77"], 2, "no run 77"),
        (["export", "rows", "--what", "launches"], 3, "no launches"),
        (["export", "base", "--format", "parquet"], 2, "-o FILE.parquet"),
        (["export", "base", "-o", "no/x.csv"], 2, "no folder"),
        (["delete", "none"], 2, "none"),
    ],
)
def test_a_mistake_is_one_line(shell, arguments, code, words):
    got, out, err = shell(*arguments)
    assert (got, out) == (code, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and words in err


def test_parquet_without_pyarrow_says_what_to_install(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = shell("export", "base", "--format", "parquet", "-o", "x.parquet")
    assert code == 3 and "pip install 'gpusim[parquet]'" in err


@pytest.mark.skipif(sys.platform != "linux", reason="this system takes no such name")
def test_a_file_whose_name_is_no_text_is_kept_and_shown(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "s.sqlite"))
    path = tmp_path / os.fsdecode(b"\xff.csv")
    path.write_text("kernel,time_us\nsaxpy,3\n")
    assert cli.run(["runs", "import", str(path), "--name", "odd", "--format", "json"]) == 0
    assert cli.run(["runs", "show", "odd"]) == 0
    capsys.readouterr()
    assert cli.run(["runs", "export", "odd", "--format", "csv"]) == 0
    assert "saxpy" in capsys.readouterr().out
