"""Reports on production: shares add up, steps keep the time, differences are those that were made and no others."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import production_names
import pytest
from click.testing import CliRunner
from collect_sender import batch
from production_examples import ADD, GEMM, SECRET, drawn, row, rows, week, write_week
from scipy import stats

from gpusim.cli import gpusim
from gpusim.collect.ledger import Incoming, Ledger
from gpusim.collect.totals import of_process
from gpusim.commands import production as command
from gpusim.errors import NoDataError, UsageError
from gpusim.production.columns import COLUMNS, GROUPS, named
from gpusim.production.diff import differences
from gpusim.production.file import read
from gpusim.production.from_collector import from_collector
from gpusim.production.histogram import DURATION, SIZES, histogram_records
from gpusim.production.launches import Collective
from gpusim.production.report import report_records, unknown_records
from gpusim.production.significance import devices_p, durations_p, holm, share_p
from gpusim.record import wire
from gpusim.record.sketch import bin_of


def output_of(*arguments: object) -> tuple[str, str]:
    done = CliRunner().invoke(gpusim, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout, done.stderr


def test_shares_add_up_and_the_unknown_share_is_told(tmp_path: Path) -> None:
    path = write_week(tmp_path / "week.production")
    text, notes = output_of("production", "report", path, "--by", "family", "--format", "json")
    records = json.loads(text)
    assert [(each["family"], each["launches"], round(each["share_percent"], 9)) for each in records] == [
        ("matrix_product", 10, 60.0), ("elementwise", 30, 30.0), ("unknown", 2, 10.0)
    ]  # fmt: skip
    assert notes.strip() == "unknown share of time: family 10 %"
    assert records[0]["mean_us"] == 60.0 and abs(records[0]["median_us"] / 60 - 1) < 0.01
    by_column = {each["column"]: each for each in unknown_records(named(week()))}
    assert by_column["grid"]["unknown_percent"] == pytest.approx(10) and by_column["grid"]["most"] == SECRET


def test_what_is_left_out_is_one_row_and_groups_may_be_several_columns() -> None:
    records = report_records(named(week()), ("phase", "shape"), most=1)
    assert [each["phase"] for each in records] == ["forward", "... 2 more"] and records[0]["grid"] == "8x4x1"
    assert sum(each["share_percent"] for each in records) == pytest.approx(100)
    assert sum(each["launches"] for each in records) == 42


def test_launches_count_by_their_weight_and_without_times_by_number() -> None:
    weighted = report_records(rows(row("a", [1000], weight=9.0), row("b", [1000])), ("kernel",))
    assert [each["share_percent"] for each in weighted] == [90.0, 10.0]
    untimed = report_records(rows(row("a", [None] * 3), row("b", [None])), ("kernel",))
    assert [(each["share_percent"], each["mean_us"]) for each in untimed] == [(75.0, ""), (25.0, "")]


def test_a_histogram_keeps_all_launches_and_all_time(tmp_path: Path) -> None:
    durations = drawn(1, 20_000, 500, 1.0)
    records = histogram_records(rows(row("a", durations), row("b", [None, 1])), DURATION)
    assert sum(each["launches"] for each in records) == 502
    assert sum(each["time_ms"] for each in records) == pytest.approx((sum(durations) + 1) / 1e6)
    for each in records[2:]:  # a launch may be a step off where the sketch's 1 % straddles the bound
        low, high = each["duration_ns_from"], each["duration_ns_to"]
        near = (
            sum(low * 1.02 <= d < high * 0.98 for d in durations),
            sum(low * 0.98 <= d < high * 1.02 for d in durations),
        )
        assert near[0] <= each["launches"] <= near[1]
    text, _ = output_of(
        "production", "histogram", write_week(tmp_path / "w.production"), "--of", "blocks", "--format", "csv"
    )
    found = [(each["blocks_from"], each["launches"]) for each in csv.DictReader(io.StringIO(text))]
    assert found == [("", "2"), ("32", "40")]
    with pytest.raises(NoDataError, match="registers"):
        histogram_records(named(week()), "registers")


def test_the_binned_rank_test_is_scipys() -> None:
    one, two = drawn(2, 10_000, 60), drawn(3, 10_800, 45)
    sketches = [{}, {}]
    for durations, sketch in zip((one, two), sketches):
        for each in durations:
            sketch[bin_of(each)] = sketch.get(bin_of(each), 0) + 1
    expanded = [np.repeat(list(sketch), list(sketch.values())) for sketch in sketches]
    expected = stats.mannwhitneyu(*expanded, method="asymptotic").pvalue
    assert durations_p(*sketches) == pytest.approx(expected, rel=1e-9)
    assert durations_p({3: 4}, {3: 90}) is None and durations_p({3: 40}, {3: 90}) == 1.0


def test_holm_and_the_other_tests() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert share_p((10, 10), (100, 100)) == pytest.approx(1) and share_p((10, 60), (100, 100)) < 1e-9
    assert share_p((0, 0), (5, 5)) is None and share_p((5, 9), (5, 9)) == 1.0
    assert devices_p([1, 2], [1, 2, 3]) is None and devices_p([1, 1, 1], [2, 2, 2]) == 0.0


def test_what_was_changed_is_found_and_nothing_else() -> None:
    names = [f"kernel_{index}" for index in range(20)]
    before = rows(
        *(row(name, drawn(index, 20_000, 400)) for index, name in enumerate(names)), row("old", drawn(90, 9000, 50))
    )
    after = rows(
        *(row(name, drawn(100 + index, 26_000 if index == 3 else 20_000, 1200 if index == 5 else 400)) for index, name in enumerate(names)),
        row("fresh", drawn(91, 9000, 50)), row("rare", [5000]),
    )  # fmt: skip
    # One kernel that is launched three times as often makes all others' shares of launches smaller.
    verdicts = {each.key[0]: each.verdict for each in differences(before, after, threshold=0.15) if each.verdict}
    assert verdicts == {
        "kernel_3": "slower",
        "kernel_5": "more often",
        "old": "gone",
        "fresh": "new",
        "rare": "new, may be chance",
    }


def test_false_differences_are_as_rare_as_asked() -> None:
    false = 0
    for seed in range(60):
        one, two = (
            rows(*(row(f"k{index}", drawn(1000 * side + 30 * seed + index, 20_000, 40)) for index in range(10)))
            for side in (1, 2)
        )
        false += any(each.verdict for each in differences(one, two, alpha=0.05, threshold=0.0))
    assert false <= 9  # 3 expected of 60 at most; more than 9 come once in a thousand times


def test_devices_are_what_is_drawn_where_there_are_several() -> None:
    def fleet(slow: float, seed: int) -> list:
        # GPUs differ by 10 % from each other: launches of one are no independent draws of the fleet.
        gpus = np.random.default_rng(seed).lognormal(0, 0.1, 6)
        return rows(
            *(row("k", drawn(seed + at, 20_000 * slow * gpu, 300, 0.05), device=str(at)) for at, gpu in enumerate(gpus))
        )

    assert [each.drawn for each in differences(fleet(1, 1), fleet(1, 50))] == ["devices"]
    assert [each.verdict for each in differences(fleet(1, 1), fleet(1, 50))] == [""]
    assert [each.verdict for each in differences(fleet(1, 1), fleet(1.6, 50))] == ["slower"]


def test_the_commands_columns_are_those_there_are() -> None:
    assert set(command.COLUMNS) == {*COLUMNS, *GROUPS} and set(command.SIZES) == {DURATION, *SIZES}


def test_a_collectors_folder_is_a_source(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data")
    for minute in (10, 11):
        totals = [of_process(each, 1, "", 3) for each in wire.read_batch(batch(1, 4, 2, minute)[8:]).rows]
        ledger.add([Incoming(b"s", minute, totals)])
    ledger.close()
    whole, first = from_collector(tmp_path / "data"), from_collector(tmp_path / "data", 0, 10)
    assert [sum(t.launches for t in each.totals) for each in (whole, first)] == [16, 8]
    assert {total.what.rank for total in whole.totals} == {3} and all(total.is_sound() for total in whole.totals)
    output_of(
        "production", "collected", tmp_path / "data", "--until", "1970-01-01T00:10:00", "-o", tmp_path / "a.production"
    )
    assert sum(total.launches for total in read(tmp_path / "a.production").totals) == 8
    assert (
        json.loads(output_of("production", "report", tmp_path / "data", "--by", "rank", "--format", "json")[0])[0][
            "rank"
        ]
        == "3"
    )
    with pytest.raises(UsageError, match="no collector's folder"):
        from_collector(tmp_path)
    with pytest.raises(NoDataError):
        from_collector(tmp_path / "data", 12)


def test_diff_prints_what_differs(tmp_path: Path) -> None:
    path = write_week(tmp_path / "w.production")
    assert output_of("production", "diff", path, path)[0].strip() == "no difference"
    text, _ = output_of("production", "diff", path, path, "--all", "--format", "csv")
    assert {each["kernel"] for each in csv.DictReader(io.StringIO(text))} == {GEMM, ADD, SECRET}


def test_the_source_says_what_a_name_does_not() -> None:
    generic = "ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)"
    found = rows(
        row(generic, [1], collective=Collective("_allgather_base", "BFloat16", 8, 2)), row("copies", [1], kind="memcpy"),
        row(GEMM, [1], kind="graph"), row("aten::mm", [1], kind="operator"),
    )  # fmt: skip
    assert [(each.name.family, each.name.operation) for each in found] == [
        ("communication", "all_gather"), ("copy", "unknown"), ("unknown", "unknown"), ("matrix_product", "gemm")
    ]  # fmt: skip


def test_the_tool_prints_how_much_has_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_week(tmp_path / "w.production")
    production_names.main([str(path)])
    production_names.main([str(path), "--list"])
    shares, *listed = [list(csv.DictReader(io.StringIO(part))) for part in capsys.readouterr().out.split("\nfile")][:1]
    assert shares[0]["family"] == "10.00" and not listed
