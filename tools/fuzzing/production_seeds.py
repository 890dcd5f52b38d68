"""Small sound traces of what production launches, as each of the profilers that are imported writes them.

Mental model: a seed has each kind of event or table that its importer reads, once or twice; the readers' own tests say
what is read from them.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kineto_traces import ALL_REDUCE, call, kernel, span, trace

#: Process 77 of virtual machine 1, as Nsight Systems numbers it.
_PROCESS = (1 << 48) + (77 << 24)
_NSYS: Mapping[str, tuple[str, Sequence[tuple[Any, ...]]]] = {
    "StringIds": ("id integer primary key, value text", list(enumerate(["", "void k<int>(int*)", "k", "cudaLaunchKernel"]))),
    "TARGET_INFO_GPU": ("id int, name text", [(0, "NVIDIA H200"), (1, "NVIDIA H200")]),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start int, end int, globalTid int, correlationId int, nameId int",
                                    [(90, 95, _PROCESS + 5, 1, 3), (96, 99, _PROCESS + 5, 2, 3)]),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start int, end int, deviceId int, contextId int, streamId int, correlationId int, globalPid int, demangledName int, shortName int,"
        "registersPerThread int, gridX int, gridY int, gridZ int, blockX int, blockY int, blockZ int, staticSharedMemory int, dynamicSharedMemory int",
        [(100, 150, 1, 1, 7, 1, _PROCESS, 1, 2, 32, 4, 2, 1, 64, 1, 1, 16, 1024), (180, 190, 1, 1, 13, 2, _PROCESS, 1, 2, 32, 4, 2, 1, 64, 1, 1, 16, 1024)],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start int, end int, deviceId int, streamId int, correlationId int, globalPid int, bytes int, copyKind int",
                                   [(200, 201, 1, 7, 3, _PROCESS, 4096, 1)]),
    "NVTX_EVENTS": ("start int, end int, eventType int, text text, globalTid int",
                    [(80, 95, 59, "step", _PROCESS + 5), (1, None, 34, "mark", _PROCESS + 5)]),
}  # fmt: skip


def kineto_traces() -> list[bytes]:
    """PyTorch's profiler's: kernels with their calls, operators, a collective, steps; also zipped."""
    events = [
        span("user_annotation", "ProfilerStep#1", 0, 100), span("cpu_op", "aten::mm", 1, 20, 1, **{"Input Dims": [[2, 3], [3, 4]]}),
        call(2, 1), call(5, 2), kernel(10, 5, 1), kernel(20, 30, 2, ALL_REDUCE, 13, 0, **{"In msg nelems": 64, "dtype": "Float"}),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 60, "dur": 2, "args": {"device": 0, "stream": 7, "bytes": 64}},
    ]  # fmt: skip
    text = json.dumps(trace(events)).encode()
    return [text, gzip.compress(text, mtime=0)]


def xla_traces() -> list[bytes]:
    details = "regs:32 static_shared:0 dynamic_shared:1024 grid:4,1,1 block:128,1,1 occ_pct:100"
    events = [
        {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}},
        {"ph": "X", "pid": 1, "tid": 13, "ts": 1.5, "dur": 2.5, "name": "fusion_1",
         "args": {"kernel_details": details, "hlo_op": "fusion.1", "hlo_module": "jit_f"}},
        {"ph": "X", "pid": 1, "tid": 13, "ts": 5, "dur": 1, "name": "MemcpyH2D", "args": {"memcpy_details": "kind_src:1 size:64 dest:0 async:1"}},
    ]  # fmt: skip
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()
    return [text, gzip.compress(text, mtime=0)]


def param_traces() -> list[bytes]:
    """PyTorch's execution traces, of the first schema and of a later one, with a collective."""
    matrices = {"shapes": [[2, 3], [3, 4]], "types": ["Tensor(float)", "Tensor(float)"]}
    old = [
        {"name": "aten::mm", "id": 4, "parent": 3, "op_schema": "aten::mm(Tensor self)", "inputs": [[5, 6]],
         "input_shapes": matrices["shapes"], "input_types": matrices["types"]},
        {"name": "## forward ##", "id": 3, "parent": 2, "op_schema": "", "inputs": [], "input_shapes": [], "input_types": []},
    ]  # fmt: skip
    told = {"collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 64, "group_size": 8, "pg_name": "0"}
    new = [
        {"id": 4, "name": "aten::mm", "ctrl_deps": 3, "inputs": {"values": [[1]], **matrices},
         "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}, {"name": "op_schema", "type": "string", "value": "aten::mm(Tensor self)"}]},
        {"id": 5, "name": "record_param_comms", "ctrl_deps": 9, "inputs": {"values": [], "shapes": [], "types": []},
         "attrs": [{"name": name, "type": "string", "value": value} for name, value in told.items()]},
    ]  # fmt: skip
    return [
        json.dumps({"schema": schema, "pid": 1, "time": "2023", "start_ts": 1, "nodes": nodes, "finish_ts": 2}).encode()
        for schema, nodes in (("1.0.1", old), ("1.1.1-chakra.0.0.4", new))
    ]


def nsys_exports() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.sqlite"
        with sqlite3.connect(path) as database:
            for name, (columns, rows) in _NSYS.items():
                database.execute(f"create table {name} ({columns})")
                database.executemany(f"insert into {name} values ({', '.join('?' * len(rows[0]))})", rows)
        database.close()
        return [path.read_bytes()]
