"""Traces of PyTorch's profiler: rows, phases, operators and timing are what the events say; what is damaged is refused
in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_traces import ALL_REDUCE, call, kernel, span, trace, written

from gpusim.cli import run
from gpusim.errors import NoDataError, ProductionError, UsageError
from gpusim.production.file import Production, read
from gpusim.production.imports import json_events
from gpusim.production.imports.importing import imported
from gpusim.production.launches import Collective, Launch

H200 = "NVIDIA H200"


def fact(production: Production, topic: str):
    return next(each for each in production.facts if each.topic == topic)


def test_rows_have_shape_phase_and_operator(tmp_path: Path) -> None:
    events = [
        kernel(20, 5, 1), kernel(30, 7, 2, "nccl" + ALL_REDUCE[4:], 20, **{"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float",
                                                                 "Group size": 2, "Process Group Name": "0"}),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 40, "dur": 1, "args": {"device": 0, "stream": 7, "bytes": 64}},
        span("user_annotation", "ProfilerStep#3", 0, 100), span("user_annotation", "## forward ##", 1, 50),
        span("user_annotation", "nccl:all_reduce", 9, 5),
        span("cpu_op", "aten::linear", 2, 8), span("cpu_op", "aten::mm", 3, 4, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float"] * 2}),
        call(4, 1), call(10, 2, tid=5), call(11, 3),
    ]  # fmt: skip
    production = imported([written(tmp_path / "a.json", events, rank=3)])
    mm = Launch("k", "kernel", (4, 1, 1), (128, 1, 1), 1024, 32, H200, "0", 3, "default", "## forward ##", "aten::mm",
                "[[2, 3], [3, 4]]", '["float", "float"]')  # fmt: skip
    reduce = Launch(ALL_REDUCE, "kernel", (4, 1, 1), (128, 1, 1), 1024, 32, H200, "0", 3, "other", "## forward ##",
                    collective=Collective("allreduce", "Float", 8, 2, "0"))  # fmt: skip
    copy = Launch("Memcpy HtoD", "memcpy", gpu=H200, device="0", rank=3, stream_kind="default")
    found = {total.what: (total.launches, total.sum_ns, total.moved_bytes) for total in production.totals}
    assert found == {mm: (1, 5000, 0), reduce: (1, 7000, 32), copy: (1, 1000, 64)}
    assert (production.sources[0].rank, production.sources[0].launches, production.sources[0].damaged) == (3, 3, 0)


def test_timing_is_that_of_the_events(tmp_path: Path) -> None:
    """0-10 compute, 5-20 communication, 30-40 compute launched at 26, 40-41 compute launched at 2 that waits."""
    events = [
        call(0, 1), call(1, 2), call(2, 4), call(26, 3),
        kernel(0, 10, 1), kernel(5, 15, 2, ALL_REDUCE, 20), kernel(30, 10, 3, "late"), kernel(40, 1, 4),
    ]  # fmt: skip
    production = imported([written(tmp_path / "a.json", events)])
    (device,) = production.devices
    assert (device.span_ns, device.busy_ns, device.overlapped_ns) == (41_000, 31_000, 5_000)
    assert (device.communication_ns, device.computation_ns) == (15_000, 21_000)
    idle = fact(production, "idle")
    assert (idle.numbers["idle_ns"], idle.numbers["host_ns"], idle.numbers["launched_ns"]) == (10_000, 6_000, 4_000)
    assert idle.evidence[0].duration_ns == 10_000 and "late" in idle.evidence[0].name
    delay = fact(production, "delay")
    assert (delay.numbers["launches"], delay.numbers["most_ns"], delay.numbers["mean_ns"]) == (4, 38_000, 11_500)
    queue = fact(production, "queue")
    assert (queue.numbers["launches"], queue.numbers["most"]) == (3, 2)
    assert queue.numbers["mean"] == pytest.approx((0 + 38 + 4) / 40)
    assert sum(each.value * each.duration_ns for each in queue.evidence) == pytest.approx(42_000)


def test_a_launch_that_starts_before_its_call_makes_no_queue_negative(tmp_path: Path) -> None:
    events = [call(10, 1), call(11, 2), kernel(8, 1, 1), kernel(11, 1, 2), kernel(3, 1, 77)]
    production = imported([written(tmp_path / "a.json", events)])
    delay = fact(production, "delay").numbers
    assert (delay["before_call"], delay["earliest_ns"], delay["without_call"]) == (1, -2000, 1)
    assert fact(production, "queue").numbers["most"] >= 1  # no assertion of a negative length was met


def test_a_damaged_time_is_counted_and_not_summed(tmp_path: Path) -> None:
    events = [kernel(1, -5, 1), kernel(3, 2, 2), kernel(4, 10**19, 3), {**kernel(5, 1, 4), "ts": None}]
    production = imported([written(tmp_path / "a.json", events)])
    (total,) = production.totals
    assert (total.launches, total.timed, total.sum_ns, production.sources[0].damaged) == (3, 1, 2000, 2)


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(60, 4000), st.booleans())
def test_neither_order_nor_chunks_matter(tmp_path_factory, draw, chunk: int, compact: bool) -> None:
    events = [
        event for i in range(12) for event in (
            span("cpu_op", f"op{i % 3}", 10 * i, 9, tid=i % 2), call(10 * i + 1, i + 1, tid=i % 2), kernel(13 * i + 5, 3 + i, i + 1, "a}, {b]\\\""[: i]),
        )
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("order")
    want = imported([written(folder / "a.json", events)])
    draw.shuffle(events)
    (folder / "a.json").write_text(json.dumps(trace(events), separators=(",", ":") if compact else None))
    before, json_events.CHUNK_BYTES = json_events.CHUNK_BYTES, chunk
    try:
        found = imported([folder / "a.json"])
    finally:
        json_events.CHUNK_BYTES = before
    assert found.facts == want.facts and found.devices == want.devices
    assert {t.what: t for t in found.totals} == {t.what: t for t in want.totals}


def test_ranks_of_a_folder_are_compared(tmp_path: Path) -> None:
    """Rank 1 comes 30 us late to every second collective; GPU of rank 2 runs kernel "k" at half the pace."""
    for rank in range(4):
        events = []
        for i in range(40):
            late = 30 if rank == 1 and i % 2 else (i + rank) % 4 / 10
            slow = 2 if rank == 2 else 1
            events += [
                kernel(1000 * i, slow * (50 + i % 3), 2 * i + 1),
                kernel(1000 * i + 200 + late, 90 - late, 2 * i + 2, ALL_REDUCE, 20),
            ]
        written(tmp_path / f"rank{rank}.json.gz", events, rank)
    (tmp_path / "notes.txt").write_text("not a trace")
    production = imported([tmp_path])
    lagging = [each for each in production.facts if each.topic == "straggler"]
    assert [each.rank for each in lagging] == [1] and lagging[0].numbers["last"] >= 20
    assert lagging[0].numbers["cost_ns"] == pytest.approx(20 * 29_800, rel=0.05)
    slower = [each for each in production.facts if each.topic == "slower"]
    assert [(each.rank, each.about) for each in slower] == [(2, "k")] and slower[0].numbers["ratio"] == pytest.approx(
        2, rel=0.03
    )


def test_a_straggler_costs_what_the_next_to_last_waits(tmp_path: Path) -> None:
    """Kernels of 10, 50 and 90 us: without rank 0, rank 1 would have been waited for: 40 us each, not 80."""
    for rank, length in enumerate((10, 50, 90)):
        events = [kernel(200 * i, length, i + 1, ALL_REDUCE, 20) for i in range(12)]
        written(tmp_path / f"r{rank}.json", events, rank)
    (lagging,) = [each for each in imported([tmp_path]).facts if each.topic == "straggler"]
    assert (lagging.rank, lagging.numbers["cost_ns"], lagging.numbers["collectives"]) == (0, 12 * 40_000, 12)
    assert len(lagging.evidence) == 8 and lagging.evidence[0].value == 40_000


def test_a_call_at_the_end_of_an_operator_is_within_it(tmp_path: Path) -> None:
    """Older traces have whole microseconds."""
    events = [
        span("cpu_op", "outer", 0, 9),
        span("cpu_op", "inner", 0, 5),
        call(5, 1),
        call(6, 2),
        kernel(7, 1, 1),
        kernel(9, 1, 2),
    ]
    production = imported([written(tmp_path / "a.json", events)])
    assert {total.what.operator: total.launches for total in production.totals} == {"inner": 1, "outer": 1}


def test_equal_ranks_are_told_of_nothing(tmp_path: Path) -> None:
    for rank in range(3):
        events = [kernel(100 * i, 50 + (i * 7 + rank * 3) % 11, i + 1, ALL_REDUCE if i % 2 else "k") for i in range(60)]
        written(tmp_path / f"r{rank}.json", events, rank)
    assert not {"straggler", "slower"} & {each.topic for each in imported([tmp_path]).facts}


BODY = json.dumps(trace([kernel(1, 2, 3), kernel(4, 5, 6)]))


@pytest.mark.parametrize(
    "text, message",
    [
        (BODY[:-1], "damaged|cut short"),
        (BODY[: BODY.index("traceName") - 4], "cut short"),
        (BODY[: BODY.index('"ts": 4') + 4], "cut short"),
        (BODY.replace('"dur": 2', '"dur": "2"'), "nothing that stands in a list traceEvents.*dur"),
        (BODY.replace('"grid": [4, 1, 1]', '"grid": [4, -1, 1]'), "damaged args.*grid"),
        (BODY.replace('"stream": 7', '"stream": {}'), "damaged args"),
        (BODY.replace('"ts": 1,', '"ts": 1 1,'), "damaged"),
        (BODY[:-1] + ', "a": }', "damaged"),
        ('{"traceEvents": 5}', "no trace"),
    ],
)
def test_a_damaged_trace_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ProductionError, match=message) as caught:
        imported([path], "kineto")
    assert str(path) in str(caught.value)


def test_what_chrome_allows_is_read(tmp_path: Path) -> None:
    events = [kernel(1, 2, 3), kernel(4, 5, 6)]
    path = tmp_path / "list.json"
    for text in (
        json.dumps(events),
        json.dumps(events)[:-1] + ",\n",
        "\ufeff" + BODY,
        BODY.replace('"dur": 5', '"x":nan, "y": [-inf], "name": "\\udc80", "dur": 5').replace("[-inf]", "-inf"),
    ):
        path.write_text(text)
        assert imported([path]).sources[0].launches == 2


@pytest.mark.parametrize("ts, dur", [(-1e308, 1), (1, 1e308), (1e306, 1e306), (1 << 80, 1)])
def test_times_beyond_all_clocks_are_damaged_events(tmp_path: Path, ts: float, dur: float) -> None:
    """Of the kind that a kernel has, and a call, an operator and a step."""
    odd = [
        {**kernel(1, 2, 7), "ts": ts, "dur": dur},
        {**call(1, 8), "ts": ts, "dur": dur},
        *(span(kind, "n", ts, dur) for kind in ("cpu_op", "user_annotation")),
    ]
    launches = {total.what.kernel for total in imported([written(tmp_path / "a.json", [kernel(1, 2, 3), *odd])]).totals}
    assert "k" in launches


def test_nothing_is_written_of_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(BODY.encode() * 50)
    (tmp_path / "cut.json.gz").write_bytes(whole[:-20])
    (tmp_path / "none.bin").write_bytes(b"\x7fELF")
    written(tmp_path / "good.json", [kernel(1, 2, 3)])
    output = tmp_path / "o.production"
    for name in ("cut.json.gz", "none.bin"):
        assert run(["production", "import", str(tmp_path / "good.json"), str(tmp_path / name), "-o", str(output)]) == 2
        error = capsys.readouterr().err.splitlines()
        assert error[-1].startswith("error: ") and name in error[-1] and not output.exists()
    assert run(["production", "import", str(tmp_path / "good.json"), "-o", str(output)]) == 0
    assert read(output).sources[0].launches == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cut.json.gz", "good.json", "none.bin", "o.production"]
    assert run(["production", "timing", str(output), "--evidence", "--format", "csv"]) == 0
    assert "delay" not in capsys.readouterr().out


def test_empty_and_unknown_are_told(tmp_path: Path) -> None:
    with pytest.raises(NoDataError):
        imported([written(tmp_path / "a.json", [call(1, 2)])])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file of a known format"):
        imported([tmp_path / "empty"])
