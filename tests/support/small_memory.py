"""A memory side small enough to reason about: 1 GHz, so that a cycle is a nanosecond is 64 ticks."""

from __future__ import annotations

import dataclasses

import numpy as np

from gpusim.engine.hbm import HbmPart
from gpusim.engine.l2 import L2Part
from gpusim.gpus import GpuSpec, load_gpu
from gpusim.model.messages import DRAM_REQUEST, NEVER, REQUEST, RESPONSE, TICKS_PER_CYCLE

NS = TICKS_PER_CYCLE


def small_gpu(**changes) -> GpuSpec:
    """Two partitions of two slices of four sets of two ways; keys are ``section__field``."""
    base = load_gpu("a100_80gb")
    sections = {
        "tlb": {"entries": 4, "ways": 2, "page_bytes": 4096, "miss_ns": 0.0},  # off unless a test asks for it
        "crossbar": {"request_latency_ns": 20.0, "response_latency_ns": 30.0},
        "l2": {
            "slices": 4,
            "partition_piece_bytes": 256,
            "ways": 2,
            "total_bytes": 4 * 4 * 2 * 128,
            "hit_latency_ns": 10.0,
            "far_hit_extra_ns": 60.0,
            "far_miss_extra_ns": 70.0,
            "slice_bytes_per_ns": 32.0,
            "slice_write_bytes_per_ns": 16.0,
            "partition_link_bytes_per_ns": 32.0,  # a sector each nanosecond, each way
            "atomic_interval_ns": 2.0,
            "atomic_sector_ns": 3.0,
            "tag_interval_ns": 1.0,
            "fetch_bytes": 64,
            "dirty_share": 1.0,  # no more than one way is dirty, if a test asks for half
        },
        "dram": {
            "channels": 4,
            "banks_per_channel": 2,
            "row_bytes": 256,
            "peak_bytes_per_ns": 4 * 16.0,
            "efficiency": 1.0,
            "miss_latency_ns": 100.0,
            "row_miss_extra_ns": 15.0,
            "row_cycle_ns": 50.0,
            "read_write_turnaround_ns": 8.0,
            "write_high_entries": 4,
            "write_low_entries": 1,
            "write_queue_entries": 8,
            "write_hold_ns": 40.0,
            "scattered_rows": 1,
            "refresh_ns": 0.0,  # off unless a test asks for it
        },
    }
    for key, value in changes.items():
        section, field = key.split("__")
        sections[section][field] = value
    parts = {name: dataclasses.replace(getattr(base, name), **fields) for name, fields in sections.items()}
    return dataclasses.replace(base, name="small", clock_hz=1e9, sm_count=4, **parts)


def request(time_ns, line, *, kind=0, sm=0, sectors=0b1111, payload=None, operations=1, tag=0):
    """One REQUEST row; ``line`` is a line number, ``payload`` defaults to whole sectors."""
    row = np.zeros(1, REQUEST)
    row["time"] = round(time_ns * NS)
    row["line"] = line * 128
    row["kind"], row["sm"], row["sectors"], row["tag"] = kind, sm, sectors, tag
    row["sequence"] = tag
    row["bytes"] = 32 * bin(sectors).count("1") if payload is None else payload
    row["operations"] = operations
    return row


def run(parts: tuple[L2Part, HbmPart], batches, window: int = 16 * NS) -> np.ndarray:
    """Deliver the requests and advance both parts, window by window, until all is quiet; the
    responses in order of (time, sm, tag)."""
    l2, hbm = parts
    for batch in batches:
        l2.deliver(batch)
    answers = [np.zeros(0, RESPONSE)]
    while True:
        tick = min(l2.next_tick(), hbm.next_tick())
        if tick >= NEVER:
            return np.sort(np.concatenate(answers), order=["time", "sm", "tag"])
        until = (tick // window + 1) * window
        for batch in l2.advance(until) + hbm.advance(until):
            if batch.dtype == RESPONSE:
                answers.append(batch)
            else:
                (hbm if batch.dtype == DRAM_REQUEST else l2).deliver(batch)


def answer_ns(parts, *rows) -> list[float]:
    """Arrival times of the answers to these requests, in ns, in order of tag."""
    answers = run(parts, rows)
    assert len(answers) == len(rows)
    return [float(t) / NS for t in np.sort(answers, order="tag")["time"]]


def fresh(**changes) -> tuple[L2Part, HbmPart]:
    spec = small_gpu(**changes)
    return L2Part(spec), HbmPart(spec)
