"""What streams compute of timing is what plain loops compute of a list of all events: on drawn traces, and on a cut of
a recorded one."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_traces import ALL_REDUCE, Event, call, kernel, span, written

from gpusim.production.file import Production
from gpusim.production.imports.importing import imported

RECORDED = Path(__file__).parent / "traces" / "hta_a100_queue_cut.json.gz"
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def covered(spans: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Length of a union of intervals, and the gaps in it."""
    length, gaps, reach = 0, [], None
    for begin, end in sorted(spans):
        if reach is not None and begin > reach:
            gaps.append((reach, begin))
        length += max(0, end - (begin if reach is None else max(begin, reach)))
        reach = end if reach is None else max(reach, end)
    return length, gaps


def innermost(events: list[Event], cats: tuple[str, ...], at: Event) -> str:
    around = [
        e
        for e in events
        if e.get("cat") in cats and e["tid"] == at["tid"] and e["ts"] <= at["ts"] <= e["ts"] + e["dur"]
    ]
    return max(around, key=lambda e: (e["ts"], -e["dur"]))["name"] if around else ""


def expected(events: list[Event]) -> dict[str, Any]:
    """Of one GPU, in ns."""
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    work = [e for e in events if e.get("cat") in WORK]
    spans = {id(e): (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in work}
    kernels = [e for e in work if e["cat"] == "kernel"]
    nccl = [spans[id(e)] for e in kernels if e["name"].startswith("nccl")]
    other = [spans[id(e)] for e in kernels if not e["name"].startswith("nccl")]
    busy, gaps = covered(list(spans.values()))
    queues: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    operators: Counter[str] = Counter()
    for e in work:
        launch = calls.get(e["args"]["correlation"])
        operators[innermost(events, ("cpu_op",), launch) if launch else ""] += 1
        if launch:
            at = round(launch["ts"] * 1000)
            queues[e["args"]["stream"]] += [(at, 0, 1), (max(at, spans[id(e)][0]), 1, -1)]
    most = {}
    for stream, changes in queues.items():
        length, most[stream] = 0, 0
        for _, _, change in sorted(changes):
            length += change
            assert length >= 0
            most[stream] = max(most[stream], length)
    both = covered(nccl)[0] + covered(other)[0] - covered(nccl + other)[0]
    return {
        "busy": busy, "idle": sum(b - a for a, b in gaps), "gaps": len(gaps), "overlapped": both, "communication": covered(nccl)[0],
        "queues": most, "operators": operators, "delayed": sum(map(len, queues.values())) // 2,
    }  # fmt: skip


def found(production: Production) -> dict[str, Any]:
    (device,) = production.devices
    facts = {topic: [f for f in production.facts if f.topic == topic] for topic in ("idle", "queue", "delay")}
    idle = facts["idle"][0].numbers if facts["idle"] else {"idle_ns": 0, "gaps": 0}
    assert all(each.value >= 0 for fact in facts["queue"] for each in fact.evidence)
    operators: Counter[str] = Counter()
    for total in production.totals:
        operators[total.what.operator] += total.launches
    return {
        "busy": device.busy_ns, "idle": idle["idle_ns"], "gaps": idle["gaps"], "overlapped": device.overlapped_ns,
        "communication": device.communication_ns, "queues": {int(f.about.split()[1]): f.numbers["most"] for f in facts["queue"]},
        "operators": operators, "delayed": sum(f.numbers["launches"] for f in facts["delay"]),
    }  # fmt: skip


TIME = st.integers(0, 60)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(TIME, TIME, st.integers(0, 12), st.sampled_from((7, 20)), st.sampled_from(("k", ALL_REDUCE)), st.booleans()), min_size=1, max_size=25),
    st.lists(st.tuples(TIME, st.integers(1, 30)), max_size=6),
)  # fmt: skip
def test_drawn_traces(tmp_path_factory, launches, operators) -> None:
    events, ends = [], []
    for i, (begin, length) in enumerate(sorted(operators, key=lambda o: (o[0], -o[1]))):
        while ends and ends[-1] <= begin:
            ends.pop()
        length = min(length, ends[-1] - begin) if ends else length  # operators nest
        ends.append(begin + length)
        events.append(span("cpu_op", f"op{i}", begin + i / 1000, length - i / 500 - 0.1))
    for i, (at, begin, length, stream, name, is_called) in enumerate(launches, 1):
        events.append(kernel(begin, length, i, name, stream))
        events += [call(at + 0.5, i)] if is_called else []
    path = written(tmp_path_factory.mktemp("drawn") / "a.json", events)
    assert found(imported([path])) == expected(events)


def test_a_recorded_trace() -> None:
    with gzip.open(RECORDED) as stream:
        events = json.load(stream)["traceEvents"]
    want = expected(events)
    assert 0 < want["delayed"] < 500 and want["idle"] and len(want["queues"]) > 1
    assert found(imported([RECORDED])) == want
