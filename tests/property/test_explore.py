"""The search and what it makes of divergences: small cases, regions, files that run again, exit codes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import signal
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_writers import child

from gpusim.cases.names import general_names
from gpusim.cases.suite import find_kernel
from gpusim.cli import run
from gpusim.commands.exploring import DEFAULT_KERNELS
from gpusim.errors import FindingFileError, UsageError
from gpusim.explore.cover import cover
from gpusim.explore.coverage import Coverage
from gpusim.explore.examples import Examples, Tried
from gpusim.explore.finding import Finding, Witness
from gpusim.explore.properties import Numpy
from gpusim.explore.property import Outcome, Property
from gpusim.explore.property_registry import make_property, property_names, register
from gpusim.explore.region import LabelledRun, learn
from gpusim.explore.report_findings import findings_of
from gpusim.explore.search import Search
from gpusim.explore.session import Plan, explore, new_search, question
from gpusim.explore.shrink import shrink
from gpusim.gpus.load import load_gpu
from gpusim.silicon.methods import NCU_CYCLES
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.silicon.rows import append_rows

pytestmark = pytest.mark.usefixtures("without_source_lines")
H200 = load_gpu("h200")
AXES = {"n": (64, 1000, 4096), "rows": (1, 16), "dtype": ("float32", "float16")}
SMALL = {"n": 100, "rows": 3, "dtype": "float16"}
shapes = st.fixed_dictionaries(
    {"n": st.integers(1, 5000), "rows": st.integers(1, 64), "dtype": st.sampled_from(AXES["dtype"])}
)


class Planted(Property):
    """Diverges by a half where ``rule`` says so; needs no simulation."""

    name, threshold = "planted", 0.1

    def __init__(self, rule) -> None:
        self.rule, self.runs = rule, 0

    def measure(self, kernel: str, shape: dict) -> Outcome:
        self.runs += 1
        if shape.get("n", 0) > 60_000:
            raise UsageError("too large")
        return Outcome(0.5 if self.rule(shape) else 0.0, "planted", Coverage.of([("waves", "one")], kernel))


@given(shapes, st.integers(1, 3000), st.sampled_from((1, 2, 32)))
def test_shrinking_ends_at_a_shape_that_still_diverges_and_cannot_lose_an_axis(shape, least, divisor):
    def diverges(each):
        return each["n"] >= least and each["n"] % divisor == 0

    if not diverges(shape):
        shape = {**shape, "n": least * divisor}
    found = shrink(shape, diverges, AXES, SMALL, most_tries=200)
    assert diverges(found)
    assert found["rows"] == 1 and found["dtype"] == "float16"
    assert found["n"] <= shape["n"]
    if divisor == 1:
        assert found["n"] == least


def test_shrinking_spends_no_more_runs_than_it_may():
    tries = []
    shrink({"n": 5000, "rows": 64, "dtype": "float32"}, lambda s: tries.append(s) or True, AXES, SMALL, most_tries=7)
    assert len(tries) <= 7


@given(st.lists(shapes, min_size=30, max_size=80), st.sampled_from(("tail", "small", "type", "both")))
def test_a_region_holds_its_case_and_counts_what_it_misses(drawn, kind):
    rule = {
        "tail": lambda s: s["n"] % 32 != 0,
        "small": lambda s: s["n"] < 900,
        "type": lambda s: s["dtype"] == "float32",
        "both": lambda s: s["n"] % 32 != 0 and s["rows"] >= 10,
    }[kind]
    runs = [LabelledRun(shape, 0.5 if rule(shape) else 0.0, rule(shape)) for shape in drawn]
    case = next((r.shape for r in runs if r.fails), None)
    if case is None:
        return
    region = learn(runs, case)
    assert region.holds(case)
    assert region.inside + region.escapes == sum(r.fails for r in runs)
    assert region.misses == sum(1 for r in runs if not r.fails and region.holds(r.shape))
    assert all(region.holds(each) for each in region.witnesses_inside)
    assert not any(region.holds(each) for each in region.witnesses_outside)
    assert region.low == region.high == 0.5


def test_a_region_finds_the_rule_that_was_planted():
    runs = [
        LabelledRun(
            {"n": n, "rows": rows, "dtype": "float16"}, 0.4 if n % 32 and rows < 8 else 0.0, bool(n % 32 and rows < 8)
        )
        for n in (31, 32, 33, 48, 64, 100, 128, 160, 1000, 1024)
        for rows in (1, 4, 7, 8, 16)
    ]
    region = learn(runs, {"n": 33, "rows": 4, "dtype": "float16"})
    assert str(region) == "n % 32 != 0 and rows < 8: +40 % to +40 %"
    assert (region.misses, region.escapes) == (0, 0)
    assert str(dataclasses.replace(region, low=9.994, high=12.5)).endswith(": +999 % to +1250 %")


def _search(rule, **changes) -> Search:
    return dataclasses.replace(new_search(Plan(("saxpy", "transpose"), "bounds")), prop=Planted(rule), **changes)


@pytest.mark.parametrize("steer", [True, False])
def test_a_search_is_the_same_for_the_same_seed_and_runs_nothing_twice(steer, small_pool):
    first, second = (_search(lambda s: s.get("n", 0) > 3000, steer=steer) for _ in range(2))
    for search in (first, second):
        search.run(max_examples=10)
    assert [(t.kernel, t.shape) for t in first.tried] == [(t.kernel, t.shape) for t in second.tried]
    assert len(first.tried) == first.prop.runs - first.refused == 10
    assert len({(t.kernel, str(t.shape)) for t in first.tried}) == 10


def test_a_finding_is_worst_minimal_and_region_and_explains_its_like(small_pool):
    search = _search(lambda s: s.get("n", 0) > 300)
    search.run(max_examples=25)
    (finding,) = findings_of(search, options={}, gpu="h200")
    assert finding.kernel == "saxpy" and finding.minimal.shape["n"] == 301
    assert finding.rule.startswith("n >= 30")
    assert finding.escapes == 0 and finding.explains >= 1 and finding.witnesses_outside
    assert findings_of(_search(lambda s: False), options={}, gpu="h200") == []


def test_the_seed_of_a_search_matters(small_pool):
    runs = []
    for seed in (1, 2):
        search = _search(lambda s: False, seed=seed)
        search.run(max_examples=4)
        runs.append([t.shape for t in search.tried])
    assert runs[0] != runs[1]


FINDING = Finding(
    "gpus", {"other_set": "l2.hit_latency_ns=300"}, "h200", (), "saxpy",
    Witness({"n": 9, "block_threads": 32}, 0.5, "x"), Witness({"n": 1, "block_threads": 32}, 0.25, "y"),
    "n < 32: +25 % to +50 %", 3, 0, 0, ({"n": 1, "block_threads": 32},), (), 3,
)  # fmt: skip


def test_a_finding_s_file_holds_it(tmp_path):
    assert Finding.load(FINDING.save(tmp_path)) == FINDING
    assert FINDING.name == dataclasses.replace(FINDING, explains=9).name


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gpusim_finding": 2}, "version"),
        ({"worst": {"shape": {}, "divergence": "much", "detail": ""}}, "divergence"),
        ({"minimal": {"shape": {"n": [1]}, "divergence": 0.1, "detail": ""}}, "shape.n"),
        ({"inside": True}, "inside"),
        ({"surprise": 1}, "surprise"),
        ({"settings": "x=1"}, "settings"),
    ],
)
def test_a_file_that_is_no_finding_is_refused(tmp_path, change, named):
    path = FINDING.save(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FindingFileError, match=named):
        Finding.load(path)


def test_runs_survive_a_kill_in_the_middle_of_a_line(tmp_path, small_pool):
    plan = Plan(("saxpy",), "numpy", max_examples=3)
    explore(plan, tmp_path)
    (path,) = tmp_path.glob("runs-*.jsonl")
    examples = Examples(tmp_path, question(plan), "another")
    examples.refresh()
    whole = list(examples.runs)
    assert len(whole) == 3
    path.write_bytes(path.read_bytes()[:-20])
    examples = Examples(tmp_path, question(plan), "another")
    examples.refresh()
    assert list(examples.runs) == whole[:2]
    search, _ = explore(dataclasses.replace(plan, max_examples=4), tmp_path, resume=True)
    assert [t.key for t in search.tried][:2] == whole[:2] and len(search.tried) == 4
    path.write_bytes(path.read_bytes().replace(b'"round"', b'"square"', 1))
    with pytest.raises(FindingFileError, match="line 2 is no run"):
        explore(plan, tmp_path)


def _run(number: int) -> Tried:
    return Tried(
        "saxpy", {"n": number}, Outcome(0.25, "x" * (number % 500), Coverage.of([("waves", "one")], "saxpy")), 1
    )


def test_what_one_process_has_run_no_other_loses_whoever_is_killed(tmp_path):
    heard, told = os.pipe()

    def add_until_killed(writer: int) -> None:
        examples = Examples(tmp_path, "q", f"session{writer % 2}")
        for number in itertools.count():
            examples.add(0, _run(1000 * writer + number))
            os.write(told, struct.pack("<q", 1000 * writer + number))
            time.sleep(0.001)

    chance, alive, promised = random.Random(7), [], set()
    for writer in range(12):
        alive.append(child(lambda writer=writer: add_until_killed(writer)))
        if len(alive) < 4:
            continue
        for _ in range(3):  # so many are acknowledged before a kill, however slow the machine
            promised.add(struct.unpack("<q", os.read(heard, 8))[0])
        time.sleep(chance.random() * 0.01)
        killed = alive.pop(chance.randrange(len(alive)))
        os.kill(killed, signal.SIGKILL)
        reader = Examples(tmp_path, "q", "reader")
        reader.refresh()  # while the others write
        assert {number for _, number in _keys(reader)} >= promised
        os.waitpid(killed, 0)
    for number in alive:
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
    os.close(told)
    while acknowledged := os.read(heard, 8):
        promised.add(struct.unpack("<q", acknowledged)[0])
    reader = Examples(tmp_path, "q", "reader")
    reader.refresh()
    assert {number for _, number in _keys(reader)} >= promised and len(promised) >= 27
    assert all(reader.find("saxpy", {"n": number}).detail == "x" * (number % 500) for number in promised)


def _keys(examples: Examples) -> list[tuple[str, int]]:
    return [(kernel, int(text.removeprefix("n="))) for kernel, text in examples.runs]


def test_runs_of_another_question_are_left_alone(tmp_path):
    for question_, number in (("one", 1), ("other", 2)):
        examples = Examples(tmp_path, question_, "session")
        examples.add(4, _run(number))
    examples = Examples(tmp_path, "other", "session")
    assert examples.find("saxpy", {"n": 1}) is None and examples.find("saxpy", {"n": 2}) is not None
    assert examples.rounds == 5 and [tried.shape["n"] for tried in examples.of_session()] == [2]


def test_a_second_search_in_a_folder_simulates_nothing_again_and_says_the_same(tmp_path, monkeypatch, small_pool):
    plan = Plan(("saxpy",), "numpy", max_examples=5)
    first, _ = explore(plan, tmp_path)
    measured = []
    monkeypatch.setattr(Numpy, "measure", lambda self, kernel, shape: measured.append(shape) or Outcome(0.0, "new"))
    second, _ = explore(plan, tmp_path)
    assert [t.key for t in second.tried] == [t.key for t in first.tried] and not measured
    third, _ = explore(dataclasses.replace(plan, options={"threshold": 0.5}), tmp_path)
    assert len(measured) == len(third.tried) == 5


def test_explore_finds_a_planted_fault_and_replay_runs_it_to_the_digit(tmp_path, capsys, small_pool, one_finding):
    arguments = ["--property", "gpus", "--set", "sm_count=2", "--other-set", "l1.bank_count=16"]
    arguments += ["--max-examples", "4", "--growth", "2", "--jobs", "1"]
    assert run(["explore", "bank_conflicts", *arguments, "-o", str(tmp_path), "--format", "json"]) == 1
    records = json.loads(capsys.readouterr().out)
    assert all(record["kernel"] == "bank_conflicts" and record["worst_percent"] > 5 for record in records)
    assert all(record["region"] for record in records)
    assert run(["replay", records[0]["file"], "--format", "json"]) == 1
    (again,) = json.loads(capsys.readouterr().out)
    assert again["same_digits"] and again["lasts"]
    # Without the fault the same finding is gone.
    kept = json.loads(Path(records[0]["file"]).read_text())
    kept["options"] = {"other_set": "sm_count=2"}
    Path(records[0]["file"]).write_text(json.dumps(kept))
    assert run(["replay", records[0]["file"]]) == 0


def test_explore_without_a_finding_exits_with_0(tmp_path, capsys, small_pool):
    assert run(["explore", "saxpy", "--max-examples", "4", "--jobs", "1", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no finding of bounds in 4 workloads\n"
    assert Coverage.load(tmp_path / "coverage.json").launches == 4
    assert run(["explore", "saxpy", "--property", "gpus", "-o", str(tmp_path)]) == 2
    assert "--other-gpu" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bounds", "analytic", "metamorphic", "invariance", "numpy"])
def test_a_property_holds_for_a_plain_kernel(name):
    prop = make_property(name, H200, {})
    outcome = prop.measure("saxpy", find_kernel("saxpy").small)
    assert not prop.fails(outcome), outcome.detail
    assert outcome.detail


def test_measured_rows_are_searched_over_their_own_shapes(tmp_path, capsys):
    rows = []
    for n, off in ((1000, 1.0), (2000, 1.0), (3000, 2.0)):
        cycles = (cover("saxpy", {"n": n, "block_threads": 128}, H200).result.cycles + NCU_CYCLES) / off
        times = Estimate(cycles, 0.99 * cycles, 1.01 * cycles)
        shape = f"n={n},block_threads=128"
        rows.append(
            SiliconRow("saxpy", shape, gpu="h200", method="ncu", cache="cold", cycles=times, sm_clock_mhz=1980.0)
        )
    path = tmp_path / "rows.jsonl"
    append_rows(path, rows)
    arguments = ["explore", "saxpy", "--property", "silicon", "--rows", str(path), "--jobs", "1", "--format", "json"]
    assert run([*arguments, "--max-examples", "9", "-o", str(tmp_path / "out")]) == 1
    (record,) = json.loads(capsys.readouterr().out)
    assert record["minimal"] == "n=3000,block_threads=128" and record["worst_percent"] == pytest.approx(100, abs=0.1)
    assert run(["explore", "saxpy", "--property", "silicon", "--gpu", "t4", "-o", str(tmp_path / "none")]) == 3


def test_two_kernels_are_compared_as_builds():
    options = {"other_kernel": "spmv_csr_vector"}
    outcome = make_property("builds", H200, options).measure("spmv_csr", find_kernel("spmv_csr").small)
    assert outcome.divergence != 0 and "other build" in outcome.detail


def test_a_team_can_add_a_property_of_its_own():
    assert "planted" not in property_names()
    register("planted", lambda gpu, options: Planted(lambda shape: True))
    assert make_property("planted", H200, {"threshold": 0.7}).threshold == 0.7
    with pytest.raises(UsageError, match="exists already"):
        register("planted", lambda gpu, options: Planted(lambda shape: True))
    with pytest.raises(UsageError, match="bounds"):
        make_property("luck", H200, {})


@pytest.mark.nightly
def test_the_default_kernels_execute_every_class_of_instruction_of_the_suite():
    points = ("opcode", "pipe", "dtype", "access", "access_bytes")
    bins = {
        name: {each for each in cover(name, find_kernel(name).small, H200).coverage.hits if each[0] in points}
        for name in general_names()
        if not name.startswith("triton_")  # a package that need not be installed: no default
    }
    lacking = set().union(*bins.values()) - set().union(*(bins[name] for name in DEFAULT_KERNELS))
    assert not lacking
