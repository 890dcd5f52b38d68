"""Are a stranger's measurements imported with no change in gpusim, and is a stranger's mistake said to be the
stranger's?"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_distribution import install, on_path

from gpusim import cli
from gpusim.errors import PluginError, UsageError
from gpusim.silicon.imports.formats import GROUP, importers, read_rows
from gpusim.silicon.own_importers import IMPORTERS

STRANGER = '''
"""Reads files that begin with !stopwatch: a kernel and its microseconds a line."""
from pathlib import Path
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.errors import MeasurementFormatError

description = "our stopwatch"

def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"!stopwatch")

def read(path: Path) -> list[SiliconRow]:
    rows = []
    for number, line in enumerate(path.read_text().splitlines()[1:], start=2):
        kernel, _, text = line.partition(" ")
        if not text.isdecimal():
            raise MeasurementFormatError(f"{path}, line {number}: {text!r} is no whole number of microseconds")
        us = float(text)
        rows.append(SiliconRow(kernel=kernel, time_us=Estimate(us, us, us), source=str(path)))
    return rows
'''
PLAIN = "kernel,time_us\nsaxpy,3\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, and a store, of this test alone."""
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "s.sqlite"))
    (tmp_path / "site").mkdir()
    with on_path(tmp_path / "site") as site:
        yield site


def stopwatch(folder: Path, text: str = "!stopwatch\nsaxpy 12\nsaxpy 7\n") -> Path:
    (folder / "run.watch").write_text(text)
    return folder / "run.watch"


def test_gpusims_own_are_declared_as_a_strangers_would_be() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == IMPORTERS
    for plugin in importers().values():
        importer = plugin.load()
        assert importer.description and callable(importer.recognises) and callable(importer.read)


def test_a_strangers_format_is_imported_by_the_command(site: Path, tmp_path: Path, capsys) -> None:
    install(site, "watchmaker", {GROUP: {"stopwatch": "watchmaker_gpusim"}})
    (site / "watchmaker_gpusim.py").write_text(STRANGER)
    path = stopwatch(tmp_path)
    assert cli.run(["runs", "import", str(path), "--name", "w", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"run": 1, "name": "w", "file": str(path), "measurements": 2}]
    assert cli.run(["runs", "export", "w", "--format", "json"]) == 0
    assert [row["time_us.median"] for row in json.loads(capsys.readouterr().out)] == [12, 7]
    # What is wrong with the file is the importer's to say, in its own words.
    assert cli.run(["runs", "import", str(stopwatch(tmp_path, "!stopwatch\nsaxpy fast\n"))]) == 2
    assert capsys.readouterr().err == f"error: {path}, line 2: 'fast' is no whole number of microseconds\n"
    # By name, a file is read that nobody recognises.
    assert cli.run(["runs", "import", str(stopwatch(tmp_path, "# ours\nsaxpy 5\n")), "--importer", "stopwatch"]) == 0
    capsys.readouterr()
    assert cli.run(["runs", "import", str(path), "--importer", "stopwtch"]) == 2
    assert "there is no importer 'stopwtch'; did you mean stopwatch?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError: .*nothing_of_that_name"),
        ("description = ''\ndef read(path): return []", "is no importer: it has no recognises"),
        (STRANGER.replace("return head", "return 1 / 0 or head"), r"recognises\(\) failed on .*run.watch: ZeroDivisionError"),
        (STRANGER.replace("us = float(text)", "us = text.seconds"), r"read\(\) failed on .*run.watch: AttributeError"),
        (STRANGER.replace("return rows", "return None"), r"read\(\) gave no list of SiliconRow"),
        (STRANGER.replace("return rows", "return [{}]"), r"read\(\) gave no list of SiliconRow"),
    ],
)  # fmt: skip
def test_a_broken_importer_is_named_in_one_line(site: Path, tmp_path: Path, capsys, body: str, why: str) -> None:
    install(site, "watchmaker", {GROUP: {"stopwatch": "broken_gpusim"}})
    (site / "broken_gpusim.py").write_text(body)
    path = stopwatch(tmp_path)
    with pytest.raises(
        PluginError, match=rf"entry point stopwatch = broken_gpusim .* of distribution watchmaker: {why}"
    ):
        read_rows(path)
    assert cli.run(["runs", "import", str(path)]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("error: entry point stopwatch") and err.count("\n") == 1
    # What gpusim knows itself, and what is asked for by name, does not suffer.
    (tmp_path / "plain.csv").write_text(PLAIN)
    assert len(read_rows(tmp_path / "plain.csv")) == len(read_rows(tmp_path / "plain.csv", "csv")) == 1


def test_a_file_that_two_claim_and_a_name_that_two_have_are_refused(site: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        install(site, f"maker-{name}", {GROUP: {f"watch-{name}": "watchmaker_gpusim"}})
    (site / "watchmaker_gpusim.py").write_text(STRANGER)
    path = stopwatch(tmp_path)
    with pytest.raises(
        UsageError, match=r"claimed by the importers watch-one \(maker-one\) and watch-two \(maker-two\)"
    ):
        read_rows(path)
    assert len(read_rows(path, "watch-two")) == 2
    install(site, "thief", {GROUP: {"nvbench": "watchmaker_gpusim"}})
    with pytest.raises(PluginError, match=r"'nvbench' in gpusim.importers: gpusim .* and thief"):
        read_rows(path)
