"""Small traces as PyTorch's profiler writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def call(ts: float, correlation: int, tid: int = 1) -> Event:
    args = {"correlation": correlation, "cbid": 211}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 9,
        "tid": tid,
        "ts": ts,
        "dur": 1,
        "args": args,
    }


def kernel(
    ts: float, dur: float, correlation: int, name: str = "k", stream: int = 7, device: int = 0, **args: Any
) -> Event:
    shape = {"grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 1024}
    told = {"device": device, "stream": stream, "correlation": correlation, **shape, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": told}


def span(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur, "args": args}


def trace(events: list[Event], rank: int = 0, gpus: int = 1) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": i, "name": "NVIDIA H200"} for i in range(gpus)],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceEvents": events,
        "traceName": "t.json",
    }


def written(path: Path, events: list[Event], rank: int = 0, gpus: int = 1) -> Path:
    text = json.dumps(trace(events, rank, gpus), indent=1).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
