"""The page of a sweep: what it says is what the rows say, whatever stands in them, and it stays one page without
scripts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.report.sweep_page import MOST_ROWS, render_sweep
from gpusim.report.sweep_points import points_of

VOID = {"meta", "br", "path", "use", "rect"}
WORDS = ["project", "llama3_8b", "--phase", "decode", "--sweep", "batch=1,16,64", "--sweep", "gpu=a100_80gb,h100"]


class Page(HTMLParser):
    """Rows of tables as texts, and whether every element that is opened is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data.strip()


def _row(batch: int = 1, **other: Any) -> dict[str, Any]:
    return {
        "model": "net", "gpu": "h100", "gpus": 1, "phase": "decode", "batch": batch, "step_ms": 5.0 + batch, "step_ms_low": 4.0 + batch, "step_ms_high": 7.0 + batch,
        "validated": True, "tokens_per_s_per_gpu": 100.0 * batch, "tokens_per_joule": 2.0, "limiter": "DRAM", "memory_gb": 40.0, "memory_of_gb": 80.0, "fits": True,
    } | other  # fmt: skip


def _page(rows: list[dict[str, Any]], refused: list[str] | None = None) -> str:
    points = points_of(rows, [{"batch": row["batch"]} for row in rows])
    fitting = [point for point in points if point.fits]
    axes = {"batch": [row["batch"] for row in rows]}
    return render_sweep(axes, points, fitting[:30], [], refused or [], {"h100": "an H100"}, {}, [("model", "net"), ("phase", "decode")])  # fmt: skip


def test_the_page_of_a_sweep_has_the_front_all_plans_and_what_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, kept = tmp_path / "page.html", tmp_path / "rows.jsonl"
    assert run([*WORDS, "--pareto", "--resume", str(kept), "--format", "json", "-o", str(page)]) == 0
    front = json.loads(capsys.readouterr().out)
    text = page.read_text()
    parsed = Page(text)
    assert parsed.wrong == [] and parsed.open == []
    assert "script" not in parsed.tags and "svg" in parsed.tags
    assert not re.search(r"(?:src|href)=\"http", text)
    tables = [row for row in parsed.rows if row and row[0] in map(str, range(1, len(front) + 1)) and "h100" in row[1]]
    assert len(tables) == 2 * len(front)  # among those that nothing beats, and among all
    first = front[0]
    assert f"{first['step_ms']:.3g} ({first['step_ms_low']:.3g} to {first['step_ms_high']:.3g})" in tables[0][4]
    assert tables[0][3] == str(first["batch"]) and tables[0][-1] == first["limiter"]
    assert (
        "6 combinations: 6 are possible" in text and "What limits, what would help" in text and "DRAM bandwidth" in text
    )
    # The page says the same of the rows of a file.
    assert run([*WORDS, "--resume", str(kept), "-o", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == text


def test_intervals_of_throughput_follow_from_the_times_that_it_is_taken_over() -> None:
    (step,) = points_of([_row(4)], [{}])
    assert step.rate.low == pytest.approx(400 * 9 / 11) and step.rate.high == pytest.approx(400 * 9 / 8)
    times = {f"{name}_ms{end}": value for name, scale in (("ttft", 10.0), ("tpot", 1.0)) for end, value in (("", 2 * scale), ("_low", scale), ("_high", 4 * scale))}  # fmt: skip
    (request,) = points_of([_row(1, output=5, **times)], [{}])
    assert request.latency_ms.middle == 2.0 and request.first_ms is not None and request.first_ms.high == 40.0
    assert request.rate.low == pytest.approx(50.0) and request.rate.high == pytest.approx(200.0)
    (served,) = points_of([_row(1, seconds=2.0, seconds_low=1.0, seconds_high=8.0)], [{}])
    assert served.rate.low == pytest.approx(25.0) and served.rate.high == pytest.approx(200.0)


def test_a_large_sweep_stays_a_page_and_says_what_it_leaves_out() -> None:
    rows = [_row(batch, fits=batch % 2 == 0) for batch in range(1, MOST_ROWS + 101)]
    text = _page(rows, [f"reason {number}" for number in range(40)])
    assert len(text) < 3 << 20
    parsed = Page(text)
    assert parsed.wrong == [] and "100 more: --format csv has them" in text and "and 30 other reasons" in text
    assert sum("does not fit" in cell for row in parsed.rows for cell in row) == MOST_ROWS - (MOST_ROWS + 100) // 2
    assert "<details open>" not in text  # closed, and scrolled in a part of the page


def test_names_from_anywhere_are_escaped_and_a_sweep_of_which_nothing_fits_has_no_front() -> None:
    text = _page([_row(gpu="<b>$x$", limiter="<i>", fits=False), _row(gpu="<b>$x$", fits=False)])
    assert "None of the plans fits" in text and "<svg" not in text and "<b>$x$" not in text and "<i>" not in text
    assert "&lt;b&gt;" in _page([_row(gpu="<b>$x$")])


@pytest.mark.parametrize("value", ["5", None, True, -1.0, 0.0, float("nan"), float("inf"), [1.0]])
def test_a_kept_row_without_figures_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="step_ms = .* give --resume another file"):
        points_of([_row(step_ms=value)], [{}])


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "rows.jsonl"
    for place, said in ((tmp_path / "no" / "page.html", "there is no folder"), (tmp_path, "is a ")):
        assert run([*WORDS, "--resume", str(kept), "-o", str(place)]) == 2
        message = capsys.readouterr().err
        assert said in message and "Traceback" not in message
    assert not kept.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said_in_one_line_that_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, "-o", "/dev/full"]) != 0
    message = capsys.readouterr().err
    assert "/dev/full" in message and "No space left" in message and "Traceback" not in message
