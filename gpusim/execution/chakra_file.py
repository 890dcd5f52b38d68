"""Chakra execution traces (MLCommons; ``.et``), read and written: one file a rank, as ASTRA-sim takes them.

Mental model: messages of protocol buffers after each other, the first with the version, each further one a node.
Durations are whole microseconds there; what is written carries them as nanoseconds in an attribute too (:data:`EXACT`),
and rounds so that the sum of a file's durations is right. Sizes of collectives are those of a rank's input, as
ASTRA-sim and Chakra's converter have them: an all-gather's is its members' part of the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpusim.collective.shape import KINDS as EXCHANGES
from gpusim.errors import ExecutionTraceError
from gpusim.execution import chakra_schema as schema
from gpusim.execution.trace import MOST_DEPENDENCIES, MOST_NODES, ExecutionTrace, Node
from gpusim.io.progress import task
from gpusim.io.protobuf import fields, messages, put_bytes, put_message, put_number, put_packed, raw, varints, whole

#: Of a folder of traces: members of groups.
GROUPS = "groups.json"
EXACT = "gpusim_duration_ns"
_KINDS = {
    schema.INVALID: "nothing", schema.METADATA: "nothing", schema.LOAD: "memory", schema.STORE: "memory", schema.COMPUTE: "compute", schema.SEND: "send",
    schema.RECEIVE: "receive", schema.COLLECTIVE: "collective", schema.STORAGE: "memory", schema.BATCH: "nothing", schema.CHECKPOINT: "memory",
}  # fmt: skip
_TYPES = {"nothing": schema.METADATA, "memory": schema.LOAD, "compute": schema.COMPUTE, "host": schema.COMPUTE, "send": schema.SEND, "receive": schema.RECEIVE, "collective": schema.COLLECTIVE}  # fmt: skip
#: Chakra's collectives as ours; a sum to one is a broadcast the other way round, a barrier a sum of nothing.
_EXCHANGES = {
    "all_reduce": "all_reduce", "reduce": "broadcast", "all_gather": "all_gather", "broadcast": "broadcast", "all_to_all": "alltoall", "reduce_scatter": "reduce_scatter",
    "reduce_scatter_block": "reduce_scatter", "barrier": "all_reduce",
}  # fmt: skip
_NUMBERS = {"all_reduce": 0, "all_gather": 2, "broadcast": 5, "alltoall": 6, "reduce_scatter": 7}
_GROUPS_IN_TEXT = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)
_MOST_BYTES = 1 << 44
_MOST_GROUP_RANKS = 1 << 20


def read_trace(path: Path, rank: int) -> ExecutionTrace:
    """The trace of ``rank``, checked. Raises ExecutionTraceError for a damaged file, and for a node of a type that is
    not known."""
    nodes: list[Node] = []
    groups: dict[str, tuple[int, ...]] = {}
    dependencies, number, size = 0, 0, max(1, path.stat().st_size)
    try:
        with path.open("rb") as stream, task(f"reading {path.name}", size, "bytes", read=lambda: (stream.tell(), stream.tell() / size)):  # fmt: skip
            for number, message in enumerate(messages(stream, schema.MOST_NODE_BYTES)):
                if number == 0:
                    if schema.version_of(message) is None:
                        raise ValueError("no version of Chakra in the first message")
                    continue
                node = _node(message, groups)
                dependencies += len(node.depends)
                if len(nodes) >= MOST_NODES or dependencies > MOST_DEPENDENCIES:
                    raise ValueError(f"more than {MOST_NODES} nodes or {MOST_DEPENDENCIES} dependencies")
                nodes.append(node)
    except (ValueError, UnicodeDecodeError) as error:
        raise ExecutionTraceError(f"{path}, message {number}: no Chakra execution trace ({error})") from None
    if not nodes:
        raise ExecutionTraceError(f"{path}: a Chakra trace without nodes")
    found = ExecutionTrace(rank, nodes, groups, str(path))
    found.check()
    return found


def _node(data: bytes, groups: dict[str, tuple[int, ...]]) -> Node:
    number = kind = duration = 0
    name, depends, inputs = "", [], b""
    told: dict[str, int | float | str] = {}
    for field, value in fields(data):
        if field == schema.ID:
            number = whole(value)
        elif field == schema.NAME:
            name = raw(value).decode()
        elif field == schema.TYPE:
            kind = whole(value)
        elif field in (schema.CONTROL, schema.DATA):
            depends += varints(value)
        elif field == schema.DURATION:
            duration = whole(value)
        elif field == schema.INPUTS:
            inputs = raw(value)
        elif field == schema.ATTRIBUTE and (attribute := schema.attribute_of(raw(value))):
            told[attribute[0]] = attribute[1]
    if kind not in _KINDS:
        raise ValueError(f"node {number} ({name[:60]!r}) is of type {kind}, known are 0 to {max(_KINDS)}")
    ours = "host" if _KINDS[kind] == "compute" and told.get("is_cpu_op") == 1 else _KINDS[kind]
    values = {field: raw(value).decode("utf-8", "replace") for field, value in fields(inputs) if field in (1, 2, 3)}
    if kind == schema.METADATA and "pg_name" in values.get(1, ""):
        groups.update(_groups_in(values[1]))
    seconds = _seconds(told.get(EXACT), duration)
    exchange, message, group, size = "", 0, "", _count(told, "comm_size", number)
    if ours == "collective":
        which = told.get("comm_type")
        if not isinstance(which, int) or not 0 <= which < len(schema.COLLECTIVES):
            raise ValueError(f"node {number} ({name[:60]!r}): no collective is comm_type {which!r}")
        exchange = _EXCHANGES.get(schema.COLLECTIVES[which], schema.COLLECTIVES[which])
        group, message = str(told.get("pg_name", told.get("comm_group", ""))), max(1, size)
    elif ours in ("send", "receive"):
        group, message = "", max(1, size)
    peer = _count(told, "comm_dst" if ours == "send" else "comm_src", number) if ours in ("send", "receive") else -1
    return Node(
        number, name, ours, tuple(dict.fromkeys(depends)), seconds, _stream(ours, told.get("stream"), group, peer), float(_count(told, "num_ops", number)),
        float(_count(told, "tensor_size", number)), exchange, message, group, peer, _count(told, "comm_tag", number), values.get(2, ""), values.get(3, ""),
    )  # fmt: skip


def _seconds(exact: object, micros: int) -> float | None:
    """Of a node; None where the trace has none."""
    if isinstance(exact, float) and 0.0 <= exact <= 1e18:
        return 1e-9 * exact
    return 1e-6 * micros if micros else None


def _count(told: Mapping[str, int | float | str], name: str, node: int) -> int:
    value = told.get(name, 0)
    if not isinstance(value, (int, float)) or not 0 <= value <= _MOST_BYTES * 1024:
        raise ValueError(f"node {node}: {name} is {str(value)[:40]!r}")
    return int(value)


def _stream(kind: str, told: object, group: str, peer: int) -> str:
    """What the trace says, or a stream of each kind; NCCL has one for each group, sends and receives of each peer go
    side by side."""
    if isinstance(told, int):
        return f"stream {told}"
    return {"collective": f"collectives of {group or 'all'}", "send": f"sends to {peer}", "receive": f"receives from {peer}"}.get(kind, kind)  # fmt: skip


def _groups_in(text: str) -> dict[str, tuple[int, ...]]:
    """Process groups that PyTorch's observer writes into a node: a list of objects with pg_name and ranks; no ranks are
    all."""
    found = _GROUPS_IN_TEXT.search(text)
    try:
        rows = json.loads(found[0]) if found else []
    except (ValueError, RecursionError):
        return {}
    return {
        str(row["pg_name"]): tuple(row["ranks"])
        for row in rows
        if isinstance(row, dict) and "pg_name" in row and _are_ranks(row.get("ranks")) and row["ranks"]
    }


def _are_ranks(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_GROUP_RANKS and all(type(each) is int and each >= 0 for each in value)  # fmt: skip


def read_groups(path: Path) -> dict[str, tuple[int, ...]]:
    """Members of groups by name, as ASTRA-sim's ``--comm-group-configuration`` has them: an object of lists of ranks.
    Raises ExecutionTraceError."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, UnicodeDecodeError) as error:
        raise ExecutionTraceError(f"{path}: no groups in JSON ({error})") from None
    if not isinstance(found, dict) or not all(_are_ranks(ranks) and ranks for ranks in found.values()):
        raise ExecutionTraceError(f'{path}: groups are written as {{"1": [0, 1, 2, 3], ...}}')
    return {name: tuple(ranks) for name, ranks in found.items()}


def written(nodes: Iterable[Node]) -> Iterator[bytes]:
    """A file's bytes, piece by piece."""
    yield put_message(put_bytes(1, schema.VERSION))
    owed = 0.0
    for node in nodes:
        micros = 0
        if node.seconds is not None:
            owed += 1e6 * node.seconds
            micros = max(0, round(owed))
            owed -= micros
        yield put_message(_written(node, micros))


def _written(node: Node, micros: int) -> bytes:
    data = (
        put_number(schema.ID, node.id) + put_bytes(schema.NAME, node.name) + put_number(schema.TYPE, _TYPES[node.kind])
    )
    data += put_packed(schema.DATA, node.depends)
    if node.seconds is not None:
        data += put_number(schema.DURATION, micros)
    data += schema.put_attribute("is_cpu_op", node.kind == "host")
    if node.seconds is not None:
        data += schema.put_attribute(EXACT, 1e9 * node.seconds)
    if node.kind == "compute":
        data += schema.put_attribute("num_ops", round(node.operations))
        data += schema.put_attribute("tensor_size", round(node.moved_bytes))
    if node.kind == "collective":
        assert node.exchange in EXCHANGES
        data += schema.put_attribute("comm_type", _NUMBERS[node.exchange], signed=True)
        data += schema.put_attribute("comm_size", node.message_bytes) + schema.put_attribute("pg_name", node.group)
    if node.kind in ("send", "receive"):
        data += schema.put_attribute("comm_size", node.message_bytes) + schema.put_attribute("comm_tag", node.tag)
        data += schema.put_attribute("comm_dst" if node.kind == "send" else "comm_src", node.peer)
    return data


def with_durations(path: Path, seconds: Mapping[int, float]) -> Iterator[bytes]:
    """The file's bytes with durations of these nodes changed, all else as it is."""
    owed = 0.0
    with path.open("rb") as stream:
        for place, message in enumerate(messages(stream, schema.MOST_NODE_BYTES)):
            # Of a field that stands twice the last counts.
            numbers = [] if place == 0 else [whole(value) for field, value in fields(message) if field == schema.ID]
            number = numbers[-1] if numbers else 0
            if place == 0 or number not in seconds:
                yield put_message(message)
                continue
            owed += 1e6 * seconds[number]
            micros = max(0, round(owed))
            owed -= micros
            # Of a field that stands twice the last counts (Protocol Buffers, Encoding); of attributes the last of a
            # name.
            yield put_message(message + put_number(schema.DURATION, micros) + schema.put_attribute(EXACT, 1e9 * seconds[number]))  # fmt: skip
