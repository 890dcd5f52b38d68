"""Do saved results, timelines and pages say what the simulation said, and nothing from outside but escaped?"""

from __future__ import annotations

import gzip
import io
import json
import re
from dataclasses import replace

import pytest
from hand_traces import Asm, build, small_gpu

from gpusim import cli
from gpusim.engine.gpu import simulate
from gpusim.engine.samples import COLUMNS, Sampler
from gpusim.engine.utilisation import traffic
from gpusim.errors import ResultFileError
from gpusim.io.percent import signed_percent
from gpusim.isa.binary.text import opcode_parts
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.report.comparison_charts import labels
from gpusim.report.launches import MOST_ROWS, by_kernel, launches_text
from gpusim.report.roofline import operations, roofline
from gpusim.report.saved import load_result, result_document, save_result
from gpusim.report.summary import summary_document
from gpusim.report.tables import FORMATS, folded, format_cards, format_records
from gpusim.report.timeline import sample_rates, timeline_events, write_timeline
from gpusim.trace.record import PipeClass
from gpusim.why.explain import explain

GPU = small_gpu(sm_count=2)
EVIL = "<script>alert('FFMA')</script>"


def trace(blocks: int = 9):
    """Loads, FMAs and a store, with texts that would be code in a page."""
    asm = Asm().load(lambda b, w: ((1 << 30) + 4096 * b + 512 * w, 4), barrier=0)
    asm.op(PipeClass.FMA, 4, wait_mask=1).op(PipeClass.FP64).store(lambda b, w: ((1 << 31) + 4096 * b + 512 * w, 4))
    by_hand = build(asm.exit(), blocks=blocks, threads=128)
    texts = (f"LDG.E R2, [R2.64] {EVIL}", "@!P0 FFMA R0, R1, R2, R3", "DADD R4, R6, R8", "STG.E [R2.64], R0", "EXIT")
    return replace(by_hand, program=replace(by_hand.program, texts=texts))


@pytest.fixture(scope="module")
def run():
    launch = trace()
    result = simulate([launch, launch], GPU, samples=True)
    return launch, result, explain([launch, launch], GPU, result)


def test_a_saved_result_comes_back_as_it_was(run, tmp_path):
    _, result, explanation = run
    path = tmp_path / "result.json"
    document = result_document(result, explanation.least_cycles, explanation)
    save_result(document, path)
    loaded = load_result(path)
    assert loaded == json.loads(json.dumps(document))
    assert sum(row["warp_cycles"] for row in loaded["by_instruction"]) == result.counters["sm__warps_active.sum"]
    assert [launch["cycles"] for launch in loaded["launches"]] == [launch.cycles for launch in result.launches]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: d.update(gpusim_result=99), "version"),
        (lambda d: d.pop("stalls"), "lacks 'stalls'"),
        (lambda d: d["units"][0].update(busy_percent="much"), "units[0].busy_percent should be a number"),
        (lambda d: d.update(cycles=0), "cycles should be a whole number of at least 1, not 0"),
        (lambda d: d.update(clock_hz=0), "clock_hz should be a number above 0.0, not 0"),
        (lambda d: d["launches"][0]["over_time"].pop("warps.barrier"), "launches[0].over_time lacks 'warps.barrier'"),
        (lambda d: d["least_cycles"].update(dram="x"), "least_cycles.dram should be a number, not 'x'"),
        (lambda d: d.update(cycles=True), "whole number"),
        (lambda d: d["launches"][0]["over_time"]["cycle"].pop(), "differ in length"),
        (lambda d: d["by_line"].append(7), "by_line["),
    ],
)
def test_a_damaged_result_is_refused_by_place(run, tmp_path, damage, words):
    _, result, explanation = run
    path = tmp_path / "result.json"
    document = json.loads(json.dumps(result_document(result, explanation.least_cycles, explanation)))
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ResultFileError) as caught:
        load_result(path)
    assert words in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"gpusim_result": 1, "cycles": NaN}', "\xff"])
def test_what_is_no_result_is_refused(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ResultFileError):
        load_result(path)


def test_a_chart_shows_no_more_of_a_name_than_there_is_room_for_and_no_formula():
    charts = pytest.importorskip("gpusim.report.charts")
    odd = ["x" * 70_000, "$\\frac{1}$", *(f"unit {i}" for i in range(5000))]
    drawn = charts.unit_chart({"units": [{"unit": name, "busy_percent": 50.0} for name in odd]})
    assert "x" * 45 + "..." in drawn and "x" * 46 not in drawn
    assert "$\\frac{1}$" in drawn and "unit 61" in drawn and "unit 62" not in drawn


def test_a_page_stands_alone_and_escapes_what_comes_from_outside(run, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    _, result, explanation = run
    path = tmp_path / "result.json"
    save_result(result_document(result, explanation.least_cycles, explanation), path)
    assert cli.run(["report", str(path)]) == 0
    page = (tmp_path / "result.html").read_text()
    assert cli.run(["report", str(path), "--html", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == page, "the same result gives the same page"
    assert EVIL not in page and "&lt;script&gt;" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page), "nothing is fetched"
    assert "<script" not in page and "@import" not in page and page.count("<svg") >= 6
    # Charts have no size of their own, and so take the width that the page has.
    outermost = re.findall(r"<svg[^>]*>", page)
    assert all("viewBox" in tag and "width=" not in tag and "height=" not in tag for tag in outermost)
    assert "svg { width: 100%" in page
    # They are read on a dark page, and told to who does not see them.
    assert "#ffffff" not in page and "#000000" not in page and page.count("currentColor") > 100
    assert all('role="img"' in tag and 'aria-label="' in tag for tag in outermost)
    assert "percent of resident warp-cycles by stall reason; long_scoreboard" in page
    assert f"{result.cycles:,}" in page and explanation.findings[0].unit in page
    capsys.readouterr()
    assert cli.run(["report", str(path), "--html", str(path)]) == 2
    assert "is the result itself" in capsys.readouterr().err


def test_a_timeline_holds_every_block_within_its_launch(run, tmp_path):
    launch, result, _ = run
    path = tmp_path / "timeline.json.gz"
    write_timeline(result, path)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    launches = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    blocks = [e for e in events if e["ph"] == "X" and e["pid"] == 2]
    assert len(launches) == 2 and len(blocks) == 2 * launch.launch.blocks
    assert sum(e["dur"] for e in launches) == pytest.approx(result.time_us, abs=1e-3)
    end = launches[-1]["ts"] + launches[-1]["dur"]
    assert all(e["ts"] >= 0 and e["ts"] + e["dur"] <= end + 1e-3 for e in blocks)
    assert {e["name"] for e in events if e["ph"] == "C"} == {"DRAM GB/s", "L2 GB/s", "warps by state", "power W"}


def test_a_timeline_keeps_to_its_budget_and_says_so():
    result = simulate(trace(blocks=60), GPU)
    events = list(timeline_events(result, most_blocks=40))
    assert 0 < sum(e["ph"] == "X" and e["pid"] == 2 for e in events) <= 40
    assert any("too many" in str(e.get("args")) for e in events)


def test_rates_over_time_integrate_to_the_totals(run):
    _, result, _ = run
    launch = result.launches[0]
    ns = 1e9 / result.clock_hz
    rates = sample_rates(launch, ns)
    lengths = [*rates["cycle"][1:].tolist(), launch.cycles] - rates["cycle"]
    moved = float((rates["dram_read_gb_per_s"] * lengths).sum() * ns)
    before = float(launch.samples[0, 4])
    assert moved + before == pytest.approx(launch.counters["dram__bytes_read.sum"])
    warps = sum(float((rates[f"warps.{name}"] * lengths).sum()) for name in launch.stalls)
    assert warps + float(launch.samples[0, 6:].sum()) == pytest.approx(launch.counters["sm__warps_active.sum"])


def test_a_sampler_stays_within_its_room():
    clock = [0]
    sampler = Sampler(0, lambda: [clock[0]] * (len(COLUMNS) - 1), most_rows=16)
    for cycle in range(0, 100_000, 7):
        clock[0] = cycle
        sampler(cycle * TICKS_PER_CYCLE)
    table = sampler.table()
    assert 4 <= len(table) <= 16 and (table[:, 0] == table[:, 1]).all()
    assert table[-1, 0] > 80_000


def test_operations_are_counted_by_opcode_and_the_point_lies_under_its_roofs(run):
    launch, result, _ = run
    lanes = 2 * launch.launch.blocks * 128
    assert operations(result.launches) == {"FP32": 2 * lanes, "FP64": lanes}
    texts = ("@!P0 FFMA.FTZ R0, R1", "EXIT ;", "")
    assert [opcode_parts(text) for text in texts] == [("FFMA", "FTZ"), ("EXIT",), ("",)]
    data = roofline(result.launches, GPU, traffic(result.launches))
    assert data["roofs"]["FP32"] == pytest.approx(2 * 128 * 2 * GPU.clock_hz / 1e9)
    for point in data["points"]:
        slope = data["slopes"][point["level"]]
        assert point["g_operations_per_s"] <= min(sum(data["roofs"].values()), slope * point["operations_per_byte"])


def test_each_launch_of_a_run_is_told_apart(run):
    _, result, why = run
    document = summary_document(result)
    cold, warm = document["launches"]
    assert cold["cycles"] + warm["cycles"] == document["cycles"] and warm["cycles"] < cold["cycles"]
    assert sum(launch["warp_instructions"] for launch in document["launches"]) == document["warp_instructions"]
    kernel = result.launches[0].kernel
    assert document["kernel"] == f"{kernel} x 2"
    assert why.sentence.startswith(f"{kernel} x 2 on {result.gpu} are limited") or "their" in why.sentence


def test_the_shell_writes_all_three(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = cli.run(["simulate", "saxpy", "--small", "--save", "r.json", "--timeline", "t.json.gz", "--format", "csv"])
    assert code == 0, capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "t.json.gz"]
    assert load_result(tmp_path / "r.json")["kernel"] == "saxpy"
    assert cli.run(["simulate", "saxpy", "--save", "no/such/r.json"]) == 2


def test_cards_have_a_line_a_value_and_pipe_like_tables():
    records = [
        {"kernel": "saxpy", "behaviour": "", "worst_percent": 12.3456},
        {"kernel": "bfs", "behaviour": "b", "worst_percent": 1},
    ]
    first, second = format_cards(records, "table").split("\n\n")
    assert first.splitlines() == ["kernel         saxpy", "worst_percent  12.3"]
    assert [line.split() for line in second.splitlines()] == [
        ["kernel", "bfs"],
        ["behaviour", "b"],
        ["worst_percent", "1"],
    ]
    assert json.loads(format_cards(records, "json")) == records
    assert format_cards([], "table") == ""


def test_large_figures_are_read_as_they_are():
    (line,) = format_records(
        [{"cycles": 1170687.0, "ratio": 1.23456789, "huge": 1e20, "none": float("nan")}], "table"
    ).splitlines()[2:]
    assert line.split() == ["1170687", "1.23", "1e+20", "-"]


def test_launches_of_one_kernel_are_told_apart_in_a_chart():
    shapes = [f"rows=1024,columns=1024,{'padding=1,' * 3}tile={tile}" for tile in (8, 16)]
    launches = [{"kernel": "transpose", "shape": shape, "cache": "cold"} for shape in (*shapes, "n=1")]
    first, second, short = labels(launches)
    assert first.startswith("transpose tile=8,") and second.startswith("transpose tile=16,")
    assert max(map(len, (first, second))) < 60 and short == "transpose n=1 (cold)"


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [(-0.04, ".1f", "0.0 %"), (0.0, ".2f", "0.00 %"), (-0.06, ".1f", "-0.1 %"), (0.06, ".1f", "+0.1 %"), (-0.0, ".3g", "0 %"), (-1e-9, ".3g", "-1e-09 %")],
)  # fmt: skip
def test_a_change_that_rounds_to_nothing_has_no_sign(value: float, spec: str, text: str) -> None:
    assert signed_percent(value, spec) == text


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_has_a_negative_zero(form: str) -> None:
    assert "-0" not in format_records([{"off": -0.0}], form)


def launch(kernel: str, cycles: int | None, launches: int = 1) -> dict:
    """A row of a run's account."""
    return {"launch": 1, "kernel": kernel, "warp_instructions": 8, "launches": launches, "host_ms": 0.5, "cycles": cycles, "time_us": cycles and cycles / 1000}  # fmt: skip


def test_many_launches_are_told_by_kernel_and_single_ones_where_they_are_asked_for():
    rows = [
        launch("small", 100, launches=2),
        *(launch("large", 1000 + n) for n in range(MOST_ROWS)),
        launch("large", None),
    ]
    large, small = by_kernel(rows)
    assert (large["kernel"], large["launches"], large["simulated"], large["cycles"]) == ("large", 21, 20, 20190)
    assert (large["least_cycles"], large["median_cycles"], large["most_cycles"]) == (1000, 1009.5, 1019)
    assert (small["launches"], small["cycles"], small["time_us"]) == (2, 200, 0.2)
    assert large["share_percent"] + small["share_percent"] == pytest.approx(100)
    told, every, few = launches_text(rows, False), launches_text(rows, True), launches_text(rows[:3], False)
    assert "22 rows of launches: --all-launches" in told and len(told.splitlines()) == 6
    assert len(every.splitlines()) == 4 + 1 + 2 + 22
    assert len(few.splitlines()) == 5 and "share_percent" not in few


def test_a_table_is_folded_to_a_terminal_and_to_nothing_else(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    records = [{"key": "l2.slices", "source": "measured " * 30, "file": "h200.toml"}]
    piped, shown = io.StringIO(), io.StringIO()
    shown.isatty = lambda: True
    assert folded(records, ("source",), piped) == records
    lines = format_records(folded(records, ("source",), shown), "table").splitlines()
    assert max(map(len, lines)) <= 60 and len(lines) > 5 and " ".join(lines).count("measured") == 30
