"""Execution traces of operators (PARAM, Chakra) and measurements: rows are what their nodes say; what is damaged is
refused."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.commands import production_import
from gpusim.errors import ProductionError
from gpusim.production import facts
from gpusim.production.imports.formats import IMPORTERS
from gpusim.production.imports.importing import imported
from gpusim.production.launches import Collective, Launch

OLD_NODES = [
    {"name": "[pytorch|profiler|execution_graph|thread]", "id": 2, "parent": 1, "op_schema": "", "inputs": [], "input_shapes": [], "input_types": []},
    {"name": "aten::mm", "id": 4, "parent": 3, "op_schema": "aten::mm(Tensor self)", "inputs": [[5, 6]], "input_shapes": [[2, 3], [3, 4]],
     "input_types": ["Tensor(float)", "Tensor(float)"]},
    {"name": "## forward ##", "id": 3, "parent": 2, "op_schema": "", "inputs": [], "input_shapes": [], "input_types": []},
]  # fmt: skip
NEW_NODES = [
    {"id": 3, "name": "## forward ##", "ctrl_deps": 2, "inputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "op_schema", "type": "string", "value": ""}]},
    {"id": 4, "name": "aten::mm", "ctrl_deps": 3, "inputs": {"values": [[1]], "shapes": [[2, 3], [3, 4]], "types": ["Tensor(float)", "Tensor(float)"]},
     "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}, {"name": "op_schema", "type": "string", "value": "aten::mm(Tensor self)"}]},
    {"id": 5, "name": "record_param_comms", "ctrl_deps": 9, "inputs": {"values": [], "shapes": [], "types": []}, "attrs": [
        {"name": "collective_name", "type": "string", "value": "allreduce"}, {"name": "dtype", "type": "string", "value": "Float"},
        {"name": "in_msg_nelems", "type": "uint64", "value": 64}, {"name": "group_size", "type": "uint64", "value": 8}, {"name": "pg_name", "type": "string", "value": "0"}]},
]  # fmt: skip
MM = Launch("aten::mm", "operator", rank=5, phase="## forward ##", operator="aten::mm", shapes="[[2, 3], [3, 4]]",
            dtypes='["Tensor(float)", "Tensor(float)"]')  # fmt: skip


def param(path: Path, schema: str, nodes: list) -> Path:
    text = json.dumps(
        {"schema": schema, "pid": 1, "time": "2023", "start_ts": 1, "nodes": nodes, "finish_ts": 2}, indent=1
    ).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def rows(path: Path) -> dict[Launch, tuple]:
    return {t.what: (t.launches, t.timed, t.sum_ns, t.moved_bytes) for t in imported([path]).totals}


@pytest.mark.parametrize("schema, nodes", [("1.0.1", OLD_NODES), ("1.1.1-chakra.0.0.4", NEW_NODES)])
def test_operators_of_both_schemas(tmp_path: Path, schema: str, nodes: list) -> None:
    want = {MM: (1, 0, 0, 0)}
    if nodes is NEW_NODES:
        reduce = Collective("allreduce", "Float", 64, 8, "0")
        want[
            Launch(
                "record_param_comms",
                "operator",
                rank=5,
                operator="record_param_comms",
                shapes="[]",
                dtypes="[]",
                collective=reduce,
            )
        ] = (1, 0, 0, 0)
    assert rows(param(tmp_path / "et_rank5.json.gz", schema, nodes)) == want


@pytest.mark.parametrize(
    "schema, nodes, message",
    [
        ("1.0.1", [{"id": 1}], "name"),
        ("1.0.1", [{"id": "1", "name": "a"}], "id"),
        ("1.1.1", [{"id": 1, "name": "a", "attrs": 5}], "attrs"),
        ("1.0.x", OLD_NODES, "schema '1.0.x'"),
    ],
)
def test_a_damaged_execution_trace_is_refused(tmp_path: Path, schema: str, nodes: list, message: str) -> None:
    with pytest.raises(ProductionError, match=message):
        imported([param(tmp_path / "a.json", schema, nodes)])


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, number: int, value: int | str) -> bytes:
    return field(10, field(1, name) + field(number, value))


def chakra(*nodes: bytes) -> bytes:
    return b"".join(varint(len(each)) + each for each in (field(1, "0.0.4"), *nodes))


HOST = (
    field(1, 4)
    + field(2, "aten::mm")
    + field(3, 4)
    + field(4, varint(3))
    + field(7, 12)
    + field(8, field(2, "[[2, 3]]") + field(3, "['f']"))
)
HOST += (
    attribute("is_cpu_op", 27, 1)
    + attribute("op_schema", 29, "aten::mm()")
    + varint(99 << 3 | 1)
    + struct.pack("<d", 1.5)
)
KERNEL = field(1, 5) + field(2, "sgemm") + field(3, 4) + field(7, 12) + attribute("is_cpu_op", 27, 0)
ALL_GATHER = (
    field(1, 6)
    + field(2, "nccl:ag")
    + field(3, 7)
    + field(7, 30)
    + attribute("is_cpu_op", 27, 0)
    + attribute("comm_type", 9, 2)
)
ALL_GATHER += attribute("comm_size", 9, 4096) + attribute("pg_name", 29, "tp")
FORWARD = field(1, 3) + field(2, "## forward ##") + field(3, 1)
WHOLE = chakra(FORWARD, HOST, KERNEL, KERNEL, ALL_GATHER)


def test_nodes_of_chakra(tmp_path: Path) -> None:
    (tmp_path / "gpt.5.et").write_bytes(WHOLE)
    gather = Launch("nccl:ag", rank=5, collective=Collective("all_gather", group="tp"))
    mm = Launch(
        "aten::mm", "operator", rank=5, phase="## forward ##", operator="aten::mm", shapes="[[2, 3]]", dtypes="['f']"
    )
    assert rows(tmp_path / "gpt.5.et") == {
        mm: (1, 0, 0, 0),
        Launch("sgemm", rank=5): (2, 2, 24_000, 0),
        gather: (1, 1, 30_000, 4096),
    }


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_no_chakra_trace_is_refused_or_read(tmp_path_factory, data) -> None:
    changed = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(8, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "a.et"
    path.write_bytes(bytes(changed[: data.draw(st.integers(8, len(changed)))]))
    try:
        imported([path], "chakra")
    except Exception as error:
        assert type(error).__name__ in ("ProductionError", "NoDataError"), error


@pytest.mark.parametrize(
    "data, message",
    [(WHOLE[:-1], "cut short"), (chakra(field(2, 5)), "no node"), (chakra(b"\x0b"), "wire type 3"), (chakra() + b"\xff" * 10, "longer than"),
     (chakra() + varint(1 << 40), "longer than"), (varint(3) + b"abc", "message 0")],
)  # fmt: skip
def test_a_damaged_chakra_trace_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.et").write_bytes(data)
    with pytest.raises(ProductionError, match=message):
        imported([tmp_path / "a.et"], "chakra")


def test_measurements_are_launches(tmp_path: Path) -> None:
    times = {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "1.5e-05"}]}
    noise = {"tag": "nv/cold/time/gpu/stdev/relative", "data": [{"name": "value", "type": "float64", "value": "0.01"}]}
    size = {"tag": "nv/cold/sample_size", "data": [{"name": "value", "type": "int64", "value": "7"}]}
    state = {"name": "s", "device": 0, "axis_values": [{"name": "n", "value": "64"}], "summaries": [times, noise, size]}
    report = {
        "meta": {"version": {"nvbench": {"string": "0.1"}}},
        "devices": [{"id": 0, "name": "NVIDIA H200"}],
        "benchmarks": [{"name": "copy", "states": [state]}],
    }
    (tmp_path / "bench.json").write_text(json.dumps(report))
    (total,) = imported([tmp_path / "bench.json"]).totals
    assert (total.what.kernel, total.what.gpu, total.sum_ns, total.weighted_launches, total.weighted_ns) == (
        "copy",
        "NVIDIA H200",
        15_000,
        7,
        105_000,
    )
    lines = ['"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","launch__registers_per_thread"',
             '"","","","","ns","register/thread"', '"0","k","(64, 1, 1)","(4, 1, 1)","2,500","32"', '"1","k","(64, 1, 1)","(4, 1, 1)","2,700","32"']  # fmt: skip
    (tmp_path / "ncu.csv").write_text("\n".join(lines) + "\n")
    (total,) = imported([tmp_path / "ncu.csv"]).totals
    assert (total.what, total.launches, total.sum_ns) == (
        Launch("k", grid=(4, 1, 1), block=(64, 1, 1), registers=32),
        2,
        5200,
    )
    (tmp_path / "ncu.csv").write_text("\n".join(lines[:3]).replace('"k"', '""'))
    with pytest.raises(ProductionError, match="line 3: the kernel has no name"):
        imported([tmp_path / "ncu.csv"])


def test_the_command_names_all_formats_and_topics() -> None:
    assert tuple(IMPORTERS) == production_import.FORMATS and production_import.TOPICS == facts.TOPICS
