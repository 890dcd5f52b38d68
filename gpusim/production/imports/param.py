"""PARAM execution traces of PyTorch (``torch.profiler.ExecutionTraceObserver``), as rows of operators.

Mental model: a JSON object with ``schema`` and ``nodes``. Schema 1.0 has a node's inputs, shapes and types beside each
other and a schema of the operator in ``op_schema``; from 1.0.2-chakra on they stand in ``inputs`` and in a list
``attrs`` of named values. Collectives (``record_param_comms``, from 1.0.3-chakra on) tell size, type and group in
``attrs``.

Source: facebookresearch/param, et_replay/execution_trace.py (its readers of schema 1.0.1 to 1.1.1-chakra.0.0.4), and
traces of 1.0.1.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from gpusim.errors import ProductionError
from gpusim.io.progress import task
from gpusim.production.file import Production
from gpusim.production.imports.assembly import rank_in
from gpusim.production.imports.json_events import JsonList
from gpusim.production.imports.names_seen import cut
from gpusim.production.imports.operators import Operators, operator_row
from gpusim.production.launches import Collective
from gpusim.production.timing.collectives import Collectives

description = "PyTorch's execution trace (PARAM, Chakra as JSON)"
_SCHEMA = re.compile(r"1\.[01]\.\d{1,3}(-chakra\.\d+\.\d+\.\d+)?")
_IN_HEAD = re.compile(rb'"schema"\s*:\s*"1\.[01]\.')


class _Values(msgspec.Struct, gc=False):
    shapes: msgspec.Raw = msgspec.Raw(b"")
    types: msgspec.Raw = msgspec.Raw(b"")


class _Attribute(msgspec.Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    name: str
    id: int
    parent: int | None = None
    ctrl_deps: int | None = None
    op_schema: str = ""
    input_shapes: msgspec.Raw = msgspec.Raw(b"")
    input_types: msgspec.Raw = msgspec.Raw(b"")
    inputs: msgspec.Raw = msgspec.Raw(b"")
    attrs: list[_Attribute] = []


_values = msgspec.json.Decoder(_Values)


def recognises(path: Path, head: bytes) -> bool:
    """Whether it begins as an object that has a schema and nodes."""
    return head.lstrip()[:1] == b"{" and b'"nodes"' in head and _IN_HEAD.search(head) is not None


def read(path: Path, collectives: Collectives | None = None) -> Production:
    """The operators of one rank. Raises ProductionError."""
    nodes = JsonList(path, "nodes", _Node)
    operators, size = Operators(), max(1, path.stat().st_size)
    try:
        with task(f"reading {path.name}", size, "bytes", read=lambda: (nodes.read_bytes, nodes.read_bytes / size)):
            for batch in nodes.batches():
                for node in batch:
                    _take(operators, node, path)
    finally:
        nodes.close()
    schema = nodes.about.get("schema")
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        raise ProductionError(f"{path}: execution trace of schema {str(schema)[:40]!r}; known are 1.0 and 1.1")
    notes = [f"schema {schema}: operators, without kernels and times"]
    return operators.production(path, "param", rank_in(path.name), notes)


def _take(operators: Operators, node: _Node, path: Path) -> None:
    told = {each.name: each.value for each in node.attrs}
    above = node.parent if node.parent is not None else node.ctrl_deps
    operators.node(node.id, above or 0, node.name)
    is_collective = node.name == "record_param_comms" or isinstance(
        told.get("collective_name") or told.get("comm_name"), str
    )
    schema = node.op_schema or told.get("op_schema")
    if not schema and not is_collective:
        return
    shapes, types = node.input_shapes, node.input_types
    if node.inputs and bytes(node.inputs).lstrip()[:1] == b"{":
        try:
            values = _values.decode(node.inputs)
        except msgspec.MsgspecError as error:
            raise ProductionError(f"{path}, node {node.id}: damaged inputs ({error})") from None
        shapes, types = values.shapes, values.types
    row = operator_row(node.name, _line(shapes), _line(types), _collective(told) if is_collective else None)
    operators.operator(above or 0, row)


def _collective(told: dict[str, Any]) -> Collective | None:
    name = told.get("collective_name") or told.get("comm_name")
    if not isinstance(name, str):
        return None
    dtype, group = told.get("dtype"), told.get("pg_name") or told.get("process_group_name")
    elements, size = _whole(told.get("in_msg_nelems") or told.get("in_msg_size")), _whole(told.get("group_size"))
    return Collective(
        cut(name), cut(dtype) if isinstance(dtype, str) else "", elements, size, cut(str(group or ""))[:400]
    )


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 48 else None


def _line(raw: msgspec.Raw) -> str:
    data = bytes(raw)
    return msgspec.json.format(data, indent=0).decode("utf-8", "replace") if data else ""
