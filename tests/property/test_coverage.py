"""Coverage: each point's bins from both sides, the laws of merging, its file, and what the commands say."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cases.suite import find_kernel
from gpusim.cli import run
from gpusim.errors import CoverageFileError
from gpusim.explore.cover import cover
from gpusim.explore.coverage import Coverage, Hits
from gpusim.explore.coverage_holes import hole_records, point_records, suggest
from gpusim.explore.opcode_classes import CLASSES, OTHER, opcode_class
from gpusim.explore.points import CROSS, POINTS, all_bins
from gpusim.explore.suite_coverage import recorded_coverage, suite_coverage
from gpusim.gpus.load import load_gpu
from gpusim.isa.table import TABLE

pytestmark = pytest.mark.usefixtures("without_source_lines")

H200 = load_gpu("h200")


@functools.cache
def bins_of(kernel: str, **changes: object) -> frozenset:
    shape = {**find_kernel(kernel).small, **changes}
    return frozenset(cover(kernel, shape, H200).coverage.hits)


def answers(kernel: str, point: str, **changes: object) -> set[str]:
    return {label for name, label in bins_of(kernel, **changes) if name == point}


@pytest.mark.parametrize(
    ("point", "kernel", "inside", "label", "outside"),
    [
        ("sectors_per_load", "coalescing", {"pattern": "stride", "amount": 1}, "3-4", {"pattern": "stride", "amount": 32}),
        ("sectors_per_load", "coalescing", {"pattern": "stride", "amount": 32}, "17-32", {"pattern": "stride", "amount": 4}),
        ("bank_conflicts", "bank_conflicts", {"stride": 32, "width_bytes": 4}, "17-32", {"stride": 16, "width_bytes": 4}),
        ("bank_conflicts", "bank_conflicts", {"stride": 2, "width_bytes": 4}, "2", {"stride": 1, "width_bytes": 4}),
        ("access_bytes", "bank_conflicts", {"width_bytes": 16}, "16", {"width_bytes": 8}),
        ("divergence", "divergence", {"paths": 32, "rounds": 16}, "1-8", {"paths": 1}),
        ("block_threads", "saxpy", {"block_threads": 128}, "128", {"block_threads": 256}),
        ("block_tail", "saxpy", {"block_threads": 100}, "partial", {"block_threads": 96}),
        ("grid_blocks", "saxpy", {"n": 128, "block_threads": 128}, "1", {"n": 129, "block_threads": 128}),
        ("waves", "saxpy", {"n": 131 * 64, "block_threads": 64}, "below one block an SM", {"n": 132 * 64, "block_threads": 64}),
        ("waves", "saxpy", {"n": 132 * 1024 * 2, "block_threads": 1024}, "one", {"n": 132 * 1024 * 2 + 1, "block_threads": 1024}),
        ("tail", "saxpy", {"n": 132 * 1024 * 2, "block_threads": 1024}, "full", {"n": 132 * 1024 * 2 + 1, "block_threads": 1024}),
        ("atomic_lanes", "shared_atomics", {"addresses": 1}, "17-32", {"addresses": 32}),
        ("atomic_addresses", "l2_atomics", {"stride": 0}, "32-1023", {"stride": 1}),
        ("dtype", "gemv", {"dtype": "float32"}, "float32", None),
        ("dtype", "igemm_int8", {}, "tensor.int8", None),
        ("pipe", "pipe_latency", {"op": "dfma"}, "fp64", {"op": "ffma"}),
        ("access", "local_memory_spill", {}, "local.load", None),
        ("barriers", "barrier", {}, "above 50", None),
        ("shared_bytes", "matmul_tiled", {"tile": 32}, "below 16 KiB", None),
        ("dimensions", "transpose", {}, "2", None),
        ("footprint", "saxpy", {}, "one L1", {"n": 200_000}),
        ("alignment", "coalescing", {"pattern": "offset", "amount": 1}, "within a sector", {"pattern": "stride", "amount": 1}),
    ],
)  # fmt: skip
def test_a_launch_falls_into_its_bin_and_its_neighbour_does_not(
    point: str, kernel: str, inside: dict, label: str, outside: dict | None
) -> None:
    assert label in answers(kernel, point, **inside)
    if outside is not None:
        assert label not in answers(kernel, point, **outside)


@pytest.mark.parametrize("kernel", ["saxpy", "bfs", "matmul_tiled"])
def test_every_answer_is_a_bin_and_single_points_have_one(kernel: str) -> None:
    hit = bins_of(kernel)
    assert hit <= set(all_bins())
    assert {name for name, _ in hit if CROSS not in name} == set(POINTS)
    if kernel != "bfs":  # launches of different kinds answer differently
        for name, point in POINTS.items():
            assert not point.single or sum(1 for each in hit if each[0] == name) == 1, name


#: Few of them, so that two that are drawn have some in common.
some_bins = st.sampled_from(all_bins()[::40])
coverages = st.builds(
    Coverage,
    st.dictionaries(
        some_bins,
        st.builds(Hits, st.integers(1, 9), st.lists(st.text(max_size=4), max_size=4, unique=True).map(tuple)),
        max_size=6,
    ),
    st.integers(0, 99),
)


@given(coverages, coverages, coverages)
def test_merging_adds_up_in_any_grouping(a: Coverage, b: Coverage, c: Coverage) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == a.merge(b, c)
    assert a.merge(Coverage()) == a
    both, swapped = a.merge(b), b.merge(a)
    assert both.launches == swapped.launches
    assert {each: hits.count for each, hits in both.hits.items()} == {e: h.count for e, h in swapped.hits.items()}


@given(coverages, coverages)
def test_a_difference_is_what_merging_adds(a: Coverage, b: Coverage) -> None:
    assert set(a.merge(b).hits) == set(a.hits) | set(a.only_in(b))
    assert set(a.holes()) == set(all_bins()) - set(a.hits)
    assert a.only_in(a) == []


@given(coverages)
def test_a_file_holds_what_was_saved(tmp_path_factory: pytest.TempPathFactory, coverage: Coverage) -> None:
    path = tmp_path_factory.mktemp("coverage") / "a.json"
    coverage.save(path)
    assert Coverage.load(path) == coverage


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gpusim_coverage": 2}, "version"),
        ({"launches": -1}, "launches"),
        ({"hits": {}}, "list"),
        ({"hits": [7]}, r"hits\[0\]"),
        ({"hits": [{"point": "waves", "bin": "one", "count": 0, "examples": []}]}, "count"),
        ({"hits": [{"point": "waves", "bin": "one", "count": 1, "examples": [1]}]}, "examples"),
    ],
)
def test_a_damaged_file_is_refused_by_place(tmp_path: Path, change: dict, named: str) -> None:
    path = tmp_path / "a.json"
    Coverage.of([("waves", "one")], "saxpy").save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CoverageFileError, match=named):
        Coverage.load(path)


def test_holes_name_a_workload_that_falls_into_them() -> None:
    known = suite_coverage()
    assert known.launches > 70
    workload, reason = suggest(known, ("bank_conflicts", "5-8"))
    assert workload and reason
    # What needs long launches is named in reports, and not hoped for by searches.
    long = [("limiter", "pipe"), ("limiter", "dram"), ("footprint", "beyond L2"), ("grid_blocks", "4096 or more")]
    assert all(each in recorded_coverage() for each in long) and known.only_in(recorded_coverage())
    records = hole_records(Coverage(), known)
    assert len(records) == len(all_bins())
    # Of the workloads that fall into a hole the one that fills most holes is named, with their number.
    two = Coverage.of([("waves", "one")], "a").merge(Coverage.of([("waves", "one"), ("tail", "full")], "b"))
    named = {(r["point"], r["bin"]): (r["try"], r["fills"]) for r in hole_records(Coverage(), two)}
    assert named["waves", "one"] == named["tail", "full"] == ("b", 2)
    # The nearest neighbour answers where nobody falls into the bin itself.
    near = Coverage.of([("registers", "65-128")], "nbody:n=64 @ h200")
    assert suggest(near, ("registers", "129-255")) == ("nbody", "1 bin away, at 65-128")
    assert suggest(near, ("registers", "1-32"))[1].startswith("2 bins away")


def test_a_report_counts_every_bin_once() -> None:
    coverage = Coverage.of([("waves", "one"), ("tail", "full")], "saxpy")
    records = {record["point"]: record for record in point_records(coverage)}
    assert records["waves"]["hit"] == 1 and records["waves"]["bins"] == len(POINTS["waves"].bins)
    assert sum(record["bins"] for record in records.values()) == len(all_bins())
    assert sum(record["hit"] for record in records.values()) == 2


def test_commands_run_report_merge_and_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, both = (str(tmp_path / name) for name in ("one.json", "two.json", "both.json"))
    assert run(["cover", "run", "saxpy", "--small", "-o", one]) == 0
    assert run(["cover", "run", "transpose:padding=0", "--small", "-o", two, "--format", "json"]) == 0
    assert run(["cover", "merge", one, two, "-o", both]) == 0
    capsys.readouterr()
    assert run(["cover", "diff", one, both, "--format", "json"]) == 0
    changes = json.loads(capsys.readouterr().out)
    assert changes and {record["change"] for record in changes} == {"gained"}
    assert all(record["example"].startswith("transpose:") for record in changes)
    assert run(["cover", "diff", one, one]) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert run(["cover", "report", both, "--holes", "--no-crosses", "--format", "csv"]) == 0
    assert "atomic_lanes,1," in capsys.readouterr().out
    Coverage().save(Path(one))
    assert run(["cover", "report", one]) == 3


def test_every_instruction_that_is_emulated_has_one_opcode_class():
    rows = [mnemonic for mnemonic in TABLE if mnemonic != "SHFL"]
    nameless = ("NOP", "PMTRIG", "ACQBULK", "PREEXIT", "USETMAXREG", "WARPGROUP", "ENDCOLLECTIVE")
    assert [each for each in rows if opcode_class(each) == OTHER and each not in nameless] == []
    declared = [opcode.coverage for opcode in TABLE.values()]
    used = {name for each in declared for name in ([each] if isinstance(each, str) else each.values())}
    assert used == set(CLASSES) and len(set(CLASSES)) == len(CLASSES)


def test_opcode_classes_look_past_guard_datapath_and_modifiers():
    assert opcode_class("@!P0 SHFL.DOWN PT, R3, R2, 0x10, 0x1f") == "shuffle.down"
    assert opcode_class("UIADD3 UR4, UR4, 0x1, URZ") == opcode_class("IADD3.X R1, R2, R3, RZ") == "integer add"
    assert opcode_class("HMMA.16816.F32 R4, R8, R6, R4") == "matrix multiply"
    assert opcode_class("") == opcode_class("@P0") == opcode_class("SHFL") == opcode_class("FROB.X R1") == OTHER
