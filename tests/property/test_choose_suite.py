"""A chosen suite keeps what it can, production weighs more, and files that are none are refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.errors import NoDataError, UsageError
from gpusim.explore.choose import choose, load_suite, read_histogram, save_suite
from gpusim.explore.coverage import Coverage, Hits
from gpusim.explore.named_suites import expand_suites, portable
from gpusim.explore.points import all_bins

BINS = all_bins()
WORKLOADS = [f"saxpy:n={n} @ h200" for n in (1, 2, 3, 4, 5)]
incidences = st.dictionaries(
    st.sampled_from(BINS[:12]), st.lists(st.sampled_from(WORKLOADS), min_size=1, unique=True), min_size=1
)


def coverage_of(incidence: dict) -> Coverage:
    return Coverage({each: Hits(len(found), tuple(found)) for each, found in incidence.items()}, 1)


@given(incidences, st.integers(1, 5))
def test_a_suite_keeps_all_it_can_and_near_the_best_of_its_size(incidence: dict, budget: int) -> None:
    chosen = choose(coverage_of(incidence), budget)
    names = [choice.workload for choice in chosen]
    assert len(set(names)) == len(names) <= budget
    kept = {each for each, found in incidence.items() if set(found) & set(names)}
    assert sum(choice.new_bins for choice in chosen) == len(kept)
    best = max(
        sum(1 for found in incidence.values() if set(found) & set(some))
        for some in itertools.combinations(WORKLOADS, min(budget, len(WORKLOADS)))
    )
    assert len(kept) >= (1 - 1 / 2.718281828) * best
    if budget == len(WORKLOADS):
        assert len(kept) == len(incidence)
        assert sum(choice.adds_percent for choice in chosen) == pytest.approx(100)


@given(incidences)
def test_the_order_of_a_file_does_not_matter(incidence: dict) -> None:
    backwards = dict(reversed(incidence.items()))
    assert choose(coverage_of(incidence), 3) == choose(coverage_of(backwards), 3)


def test_what_production_launches_comes_first() -> None:
    incidence = {BINS[0]: [WORKLOADS[0]], BINS[1]: [WORKLOADS[0]], BINS[2]: [WORKLOADS[1]]}
    assert choose(coverage_of(incidence), 1)[0].workload == WORKLOADS[0]
    assert choose(coverage_of(incidence), 1, {"saxpy:n=2": 1000.0})[0].workload == WORKLOADS[1]
    assert choose(coverage_of(incidence), 1, {"transpose": 1000.0})[0].workload == WORKLOADS[0]


def test_nothing_to_choose_from_is_no_success() -> None:
    with pytest.raises(NoDataError):
        choose(Coverage(), 3)
    with pytest.raises(UsageError):
        choose(coverage_of({BINS[0]: WORKLOADS[:1]}), 0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kernel,n\nsaxpy,1\n", "columns workload and count"),
        ("workload,count\nsaxpy,many\n", "line 2"),
        ("workload,count\nsaxpy,-1\n", "zero or more"),
        ("workload,count\nsaxpy:n,1\n", "axis=value"),
        ("workload,count\n", "no workload"),
        ("workload,count\nsaxpy,0\n", "no workload"),
        ("workload,count\nnosuch,3\n", "line 2: no kernel called 'nosuch'"),
        ("workload,count\n,3\n", "line 2: no kernel called ''"),
    ],
)
def test_a_histogram_that_is_none_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "production.csv"
    path.write_text(text)
    with pytest.raises((UsageError, NoDataError), match=named):
        read_histogram(path)


@pytest.mark.parametrize(
    "document",
    [[], {"gpusim_suite": 2}, {"gpusim_suite": 1}, {"gpusim_suite": 1, "workloads": [{"workload": "saxpy:n"}]}],
)
def test_a_suite_file_that_is_none_is_refused(tmp_path: Path, document: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="a.json|axis=value"):
        load_suite(path)


def test_production_that_no_coverage_knows_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coverage, suite, histogram = tmp_path / "c.json", tmp_path / "s.json", tmp_path / "p.csv"
    coverage_of({BINS[0]: WORKLOADS[:2]}).save(coverage)
    make = ["suite", "make", str(coverage), "--histogram", str(histogram), "-o", str(suite)]
    histogram.write_text(f'workload,count\n"{WORKLOADS[0].partition(" @ ")[0]}",1\n"saxpy:n=77",3\n')
    assert run(make) == 0
    assert "1 of 2 workloads" in (told := capsys.readouterr().err) and "75 %" in told and "'saxpy:n=77'" in told
    histogram.write_text('workload,count\n"saxpy:n=77",3\n')
    suite.unlink()
    assert run(make) == 3
    assert not suite.exists()


def test_a_suite_stands_for_its_workloads_on_any_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made of a run's coverage, the suite run again covers as much as it says that it keeps."""
    first, again, suite = (tmp_path / name for name in ("c.json", "again.json", "s.json"))
    machine = ["--gpu", "h200", "--set", "sm_count=2"]
    assert (
        run(
            [
                "cover",
                "run",
                "saxpy:n=99",
                "saxpy:n=5000",
                "stencil3:n=300",
                "transpose:rows=9",
                *machine,
                "-o",
                str(first),
            ]
        )
        == 0
    )
    assert run(["suite", "make", str(first), "--budget", "2", "-o", str(suite)]) == 0
    kept = sum(choice.new_bins for choice in load_suite(suite))
    assert 0 < kept < len(Coverage.load(first).hits)
    assert run(["cover", "run", str(suite), *machine, "-o", str(again)]) == 0
    assert len(Coverage.load(again).hits) == kept
    assert portable("stencil3:n=5,shared_bytes_per_sm=1 @ h200") == "stencil3:n=5"
    assert expand_suites(["saxpy", "saxpy"]) == ["saxpy"] and len(expand_suites(["machine"])) > 20
    capsys.readouterr()
    assert run(["cover", "run", str(first), "-o", str(again)]) == 2
    assert "no suite of this version" in capsys.readouterr().err
    assert run(["cover", "run", "saxpy", "-o", str(tmp_path / "none" / "c.json")]) == 2
    # What ran before one that is refused is kept.
    assert (
        run(["cover", "run", "saxpy:n=99", "reduce_sum:block_threads=48", *machine, "-o", str(tmp_path / "part.json")])
        == 2
    )
    assert Coverage.load(tmp_path / "part.json").launches == 1


def test_commands_make_and_show_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coverage, suite, histogram = tmp_path / "c.json", tmp_path / "s.json", tmp_path / "p.csv"
    coverage_of({BINS[0]: WORKLOADS[:2], BINS[1]: WORKLOADS[1:3], BINS[2]: WORKLOADS[3:4]}).save(coverage)
    histogram.write_text('workload,count\n"saxpy:n=4",7\n')
    assert run(["suite", "make", str(coverage), "--histogram", str(histogram), "-o", str(suite)]) == 0
    capsys.readouterr()
    assert run(["suite", "show", str(suite), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    chosen = [f"{record['workload']} @ {record['gpu']}" for record in shown]
    assert set(chosen) == {WORKLOADS[1], WORKLOADS[3]}
    assert [choice.workload for choice in load_suite(suite)] == chosen
    assert run(["suite", "show", "llama_decode"]) == 0
    assert "paged_attention_decode:" in capsys.readouterr().out
    assert run(["suite", "show", "nothing"]) == 2
    save_suite(suite, [], kept=0, bins=0)
    assert load_suite(suite) == []
