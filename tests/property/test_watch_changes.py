"""Changes of simulated histories: every difference is found, and blamed on what it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.cli import run

ROWS = """series,commit,value,toolchain,cubin
a,c1,1000,12.9,x
b,c1,500,12.9,y
a,c2,1000,12.9,x
b,c2,500,12.9,y
a,c3,1001,12.9,z
b,c3,501,12.9,w
a,c4,,12.9,z
a,c5,990,12.9,v
a,c6,1200,13.1,u
b,c6,600,13.1,t
a,c7,1300,13.1,u
"""


def test_each_change_has_its_cause_and_one_cause_is_one_alert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.csv"
    path.write_text(ROWS)
    assert run(["watch", "changes", str(path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["alert"], r["series"], r["commit"], r["cause"], r["unseen"]) for r in rows] == [
        (1, "a", "c3", "commit", ""),
        (2, "a", "c5", "commit", "c4"),
        (3, "a", "c6", "toolchain", ""),
        (4, "a", "c7", "method that was not recorded", ""),
        (1, "b", "c3", "commit", ""),
        (3, "b", "c6", "toolchain", ""),
    ]
    assert rows[0]["percent"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "text", ["commit,time\nc1,3\n", "commit,value\nc1,fast\n", "commit,value\nc1,nan\n", "commit,value\nc1\n"]
)
def test_what_is_no_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "h.csv"
    path.write_text(text)
    assert run(["watch", "changes", str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: ")
