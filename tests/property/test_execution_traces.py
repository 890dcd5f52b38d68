"""Execution traces: what is written Protocol Buffers' own library reads, what is read is replayed in order, and what
cannot be is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.collective.figures import figures_of
from gpusim.collective.node import node_of
from gpusim.collective.project import time_of
from gpusim.collective.shape import Collective
from gpusim.energy.power import held_limit
from gpusim.errors import ExecutionTraceError, GpusimError, SpecError, UsageError
from gpusim.execution.chakra_file import read_groups, read_trace, with_durations, written
from gpusim.execution.interference import Beside, beside_of, rates_by_figures
from gpusim.execution.replay import replayed
from gpusim.execution.result import Replay, path_records, rank_records
from gpusim.execution.trace import ExecutionTrace, Node
from gpusim.gpus.load import load_gpu
from gpusim.production.node_durations import projected_durations
from gpusim.project.execution import step_traces
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model
from gpusim.tile.operators import GemmOp, project_gemm_op

H100 = load_gpu("h100")
LINKS = node_of(H100)
_TYPES = {"u": "TYPE_UINT64", "i": "TYPE_INT64", "s": "TYPE_STRING", "b": "TYPE_BOOL", "d": "TYPE_DOUBLE"}


def _schema() -> dict[str, Any]:
    """Messages of mlcommons/chakra's et_def.proto, as far as they are written, made by Protocol Buffers' own
    library."""
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")

    def message(name: str, *rows: tuple[str, int, str]) -> None:
        made = file.message_type.add(name=name)
        for field, number, kind in rows:
            own = made.field.add(
                name=field, number=number, label="LABEL_REPEATED" if kind.endswith("*") else "LABEL_OPTIONAL"
            )
            kind = kind.removesuffix("*")
            if field.endswith("_val"):
                # One of them stands, also where it is zero.
                own.oneof_index = 0
                if not made.oneof_decl:
                    made.oneof_decl.add(name="value")
            own.type = _TYPES.get(kind, "TYPE_MESSAGE")
            if kind not in _TYPES:
                own.type_name = f".et.{kind}"

    message(
        "Attribute",
        ("name", 1, "s"),
        ("double_val", 3, "d"),
        ("int64_val", 9, "i"),
        ("uint64_val", 13, "u"),
        ("bool_val", 27, "b"),
        ("string_val", 29, "s"),
    )
    message("Metadata", ("version", 1, "s"))
    message("IOInfo", ("values", 1, "s"), ("shapes", 2, "s"), ("types", 3, "s"))
    message(
        "Node", ("id", 1, "u"), ("name", 2, "s"), ("type", 3, "u"), ("ctrl_deps", 4, "u*"), ("data_deps", 5, "u*"), ("start_time_micros", 6, "u"), ("duration_micros", 7, "u"),
        ("inputs", 8, "IOInfo"), ("attr", 10, "Attribute*"),
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
        for name in ("Metadata", "Node", "Attribute", "IOInfo")
    }


SCHEMA = _schema()


def decoded(data: bytes) -> list[Any]:
    """The metadata and the nodes of a file, read by the library."""
    found, at = [], 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        found.append(SCHEMA["Node" if found else "Metadata"].FromString(data[at : at + size]))
        at += size
    return found


def encoded(*nodes: Any) -> bytes:
    """A file of nodes, made by the library."""
    out = b""
    for each in (SCHEMA["Metadata"](version="0.0.4"), *nodes):
        data, size = each.SerializeToString(), b""
        count = len(data)
        while count > 127:
            size, count = size + bytes([count & 127 | 128]), count >> 7
        out += size + bytes([count]) + data
    return out


def foreign(
    number: int,
    kind: int,
    name: str = "node",
    micros: int = 0,
    after: tuple[int, ...] = (),
    inputs: Any = None,
    **attributes: Any,
) -> Any:
    """A node as other programs write it."""
    node = SCHEMA["Node"](id=number, name=name, type=kind, duration_micros=micros, ctrl_deps=after)
    if inputs is not None:
        node.inputs.CopyFrom(inputs)
    for key, value in attributes.items():
        form = {bool: "bool_val", int: "int64_val", str: "string_val", float: "double_val"}[type(value)]
        node.attr.append(SCHEMA["Attribute"](name=key, **{form: value}))
    return node


def compute(number: int, us: float, *after: int, stream: str = "compute", moved: float = 0.0) -> Node:
    return Node(number, f"compute {number}", "compute", after, 1e-6 * us, stream, moved_bytes=moved)


def summed(number: int, size: int, *after: int, group: str = "", kind: str = "all_reduce") -> Node:
    return Node(
        number,
        f"{kind} {number}",
        "collective",
        after,
        None,
        f"of {group}",
        exchange=kind,
        message_bytes=size,
        group=group,
    )


def play(*ranks: list[Node], groups: dict[str, tuple[int, ...]] | None = None, **options: Any) -> Replay:
    traces = [ExecutionTrace(rank, nodes, {}, f"rank {rank}") for rank, nodes in enumerate(ranks)]
    for trace in traces:
        trace.check()
    return replayed(H100, LINKS, traces, groups or {}, **options)


def alone_seconds(kind: str, gpus: int, size: int) -> float:
    return time_of(LINKS, "hopper", figures_of("hopper"), Collective(kind, gpus, size)).seconds


@given(
    micros=st.lists(st.floats(0.0, 50.0), min_size=1, max_size=30),
    deep=st.integers(0, 4),
)
def test_what_is_written_the_library_reads_and_the_reader_reads_again(
    tmp_path_factory, micros: list[float], deep: int
) -> None:
    nodes = [
        Node(place, f"op {place}", "compute", tuple(range(max(0, place - deep), place)), 1e-6 * us, "compute", 12.0 * place, 7.0)
        for place, us in enumerate(micros)
    ]  # fmt: skip
    last = len(nodes)
    nodes += [
        Node(last, "sum", "collective", (0,), None, "collectives of 3", exchange="reduce_scatter", message_bytes=1 << 20, group="3"),
        Node(last + 1, "out", "send", (0,), None, "sends to 2", message_bytes=99, peer=2, tag=5),
        Node(last + 2, "in", "receive", (0,), None, "receives from 2", message_bytes=98, peer=2, tag=6),
        Node(last + 3, "python", "host", (), 4e-6, "host"),
    ]  # fmt: skip
    data = b"".join(written(nodes))
    metadata, *read = decoded(data)
    assert metadata.version == "0.0.4"
    for node, own in zip(nodes, read, strict=True):
        assert (own.id, own.name, tuple(own.data_deps)) == (node.id, node.name, node.depends)
        told = {each.name: each for each in own.attr}
        assert told["is_cpu_op"].bool_val == (node.kind == "host")
        if node.kind == "compute":
            assert own.type == 4 and told["num_ops"].uint64_val == node.operations
    # Whole microseconds a node, and in all of them.
    assert abs(sum(own.duration_micros for own in read) - sum(micros) - 4.0) <= 0.5 + 1e-6
    total = {each.name: each for each in read[last].attr}
    assert (
        read[last].type,
        total["comm_type"].int64_val,
        total["comm_size"].uint64_val,
        total["pg_name"].string_val,
    ) == (7, 7, 1 << 20, "3")
    assert [own.type for own in read[last + 1 :]] == [5, 6, 4]
    path = tmp_path_factory.mktemp("written") / "a.0.et"
    path.write_bytes(data)
    assert [
        (each.id, each.kind, each.depends, each.exchange, each.message_bytes, each.group, each.peer, each.tag)
        for each in read_trace(path, 0).nodes
    ] == [
        (each.id, each.kind, each.depends, each.exchange, each.message_bytes, each.group, each.peer, each.tag)
        for each in nodes
    ]
    assert [each.seconds for each in read_trace(path, 0).nodes[:last]] == pytest.approx(
        [each.seconds for each in nodes[:last]]
    )


def test_a_file_of_other_programs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gpt.0.et"
    said = SCHEMA["IOInfo"](values='[[{"pg_name": "7", "ranks": [0, 2]}, {"pg_name": "0", "ranks": []}]]')
    path.write_bytes(
        encoded(
            foreign(1, 1, "## process_group:init ##", inputs=said),
            foreign(2, 4, "aten::mm", 9, (1,), is_cpu_op=True),
            foreign(3, 4, "sgemm", 12, (2,), is_cpu_op=False, stream=7, num_ops=10**9, tensor_size=4096.0),
            foreign(4, 7, "nccl:all_gather", 30, (3,), is_cpu_op=False, comm_type=2, comm_size=1 << 20, pg_name="7"),
        )
    )
    trace = read_trace(path, 0)
    assert trace.groups == {"7": (0, 2)}
    assert [(node.kind, node.stream) for node in trace.nodes] == [
        ("nothing", "nothing"), ("host", "host"), ("compute", "stream 7"), ("collective", "collectives of 7"),
    ]  # fmt: skip
    assert [1e6 * node.seconds for node in trace.nodes[1:]] == pytest.approx([9, 12, 30])
    assert trace.nodes[0].seconds is None
    assert trace.nodes[2].operations == 1e9 and trace.nodes[2].moved_bytes == 4096
    found = replayed(H100, LINKS, [trace], {})
    assert found.gpus == 3
    assert found.seconds == pytest.approx(21e-6 + alone_seconds("all_gather", 2, 2 << 20), rel=1e-6)


NODES = encoded(foreign(1, 4, "mm", 5), foreign(2, 7, "sum", 5, (1,), comm_type=0, comm_size=64))


@given(st.data())
def test_a_damaged_file_is_refused_or_read(tmp_path_factory, data: st.DataObject) -> None:
    changed = bytearray(NODES)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.0.et"
    path.write_bytes(bytes(changed[: data.draw(st.integers(0, len(changed)))]))
    try:
        trace = read_trace(path, 0)
        replayed(H100, LINKS, [trace], {}, ranks=2)
    except GpusimError as error:
        assert isinstance(error, UsageError) and str(path) in str(error)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((foreign(1, 4), foreign(1, 4)), "node 1 stands twice"),
        ((foreign(1, 4, "mm", 1, (9,)),), "'mm'\\) waits for node 9, which is not there"),
        (
            (foreign(1, 4, "a", 1, (3,)), foreign(2, 4, "b", 1, (1,)), foreign(3, 4, "c", 1, (2,))),
            "in a circle: 1 after 3 after 2 after 1",
        ),
        ((foreign(1, 4, "a", 1, (1,)),), "circle: 1 after 1"),
        ((foreign(1, 44, "odd"),), "node 1 \\('odd'\\) is of type 44"),
        ((foreign(1, 7, "sum", comm_type=55),), "comm_type 55"),
        ((foreign(1, 7, "sum", comm_type=0, comm_size=-3),), "comm_size is '-3'"),
        ((foreign(1, 7, "sum", comm_type=3, comm_size=8),), "gather is not projected"),
        ((foreign(1, 7, "sum", comm_type=0, comm_size=8, pg_name="9"),), "whose members nothing tells: give --groups"),
        ((foreign(1, 2, "load", tensor_size=64),), "'load'\\) moves data between memories, and has no duration"),
        ((foreign(1, 5, "send", comm_dst=0, comm_size=8),), "exchanges with rank 0, of rank 0"),
        ((), "without nodes"),
    ],
)
def test_what_cannot_be_replayed_is_named(tmp_path: Path, nodes: tuple, message: str) -> None:
    path = tmp_path / "a.0.et"
    path.write_bytes(encoded(*nodes))
    with pytest.raises(ExecutionTraceError, match=message):
        replayed(H100, LINKS, [read_trace(path, 0)], {}, ranks=2)


def test_streams_run_side_by_side_and_dependencies_one_after_the_other() -> None:
    found = play([compute(1, 10), compute(2, 5), compute(3, 7, 1, stream="other"), compute(4, 1, 2, 3)])
    ends = {node: round(1e6 * each.ended, 3) for node, each in found.happened[0].items()}
    assert ends == {1: 10, 2: 15, 3: 17, 4: 18}
    assert [each.node.id for _, each, _ in found.critical_path()] == [1, 3, 4]
    assert sum(seconds for *_, seconds in found.critical_path()) == pytest.approx(found.seconds)


@pytest.mark.parametrize("alone", [False, True])
def test_a_collective_waits_for_its_last_member_and_what_is_not_hidden_is_exposed(alone: bool) -> None:
    size = 64 << 20
    lasts = alone_seconds("all_reduce", 2, size)
    late = [compute(1, 30), summed(2, size, 1), compute(3, 1, 2)]
    early = [compute(1, 10), summed(2, size, 1), compute(3, 1, 2)]
    found = play(early, late, alone=alone)
    assert found.seconds == pytest.approx(31e-6 + lasts, rel=1e-3)
    first, second = found.times()
    assert (first.waiting, second.waiting) == (pytest.approx(20e-6), 0.0)
    assert (first.exposed, second.exposed) == (
        pytest.approx(20e-6 + lasts, rel=1e-3),
        pytest.approx(lasts, rel=1e-3),
    )
    assert first.idle == pytest.approx(0.0, abs=1e-12)
    # The end waited for the late rank's computation.
    assert next((rank, each.node.id) for rank, each, _ in found.critical_path()) == (1, 1)
    assert {row["rank"] for row in path_records(found)} <= {0, 1} and len(rank_records(found)) == 2


def test_a_computation_beside_a_collective_lacks_its_sms_and_its_dram() -> None:
    size = 512 << 20
    lasts = alone_seconds("all_reduce", 8, size)
    timing = time_of(LINKS, "hopper", figures_of("hopper"), Collective("all_reduce", 8, size))
    channels = beside_of(LINKS, H100.sm_count, Collective("all_reduce", 8, size), timing).channels
    assert channels == LINKS.channels
    us = 1e6 * lasts / 2
    bound_by_sms = [compute(1, us), summed(2, size), compute(3, 1, 2)]
    found = play(*[bound_by_sms] * 8)
    rate = 1 - channels / H100.sm_count
    assert found.happened[0][1].ended == pytest.approx(lasts / 2 / rate, rel=1e-3)
    assert found.happened[0][2].ended == pytest.approx(lasts, rel=0.01)
    assert found.times()[0].exposed == pytest.approx(lasts - lasts / 2 / rate, rel=0.02)
    # One that takes all of DRAM slows the collective too, until it has ended.
    dram = H100.dram.peak_bytes_per_ns * H100.dram.efficiency * 1e9
    found = play(*[[compute(1, us, moved=dram * lasts / 2), summed(2, size)]] * 8)
    assert found.happened[0][1].ended > 1.2 * lasts / 2
    assert found.happened[0][2].ended > 1.05 * lasts


def test_small_collectives_take_few_channels() -> None:
    for size, channels in ((4 << 10, 1), (1 << 30, LINKS.channels)):
        shape = Collective("all_gather", 8, size)
        assert beside_of(LINKS, 132, shape, time_of(LINKS, "hopper", figures_of("hopper"), shape)).channels == channels
    assert rates_by_figures(H100)(compute(1, 1.0), Beside(33, 0.0)) == (0.75, 1.0)


def test_collectives_of_two_groups_share_the_ports_and_of_one_group_follow_each_other() -> None:
    size, groups = 256 << 20, {"1": (0, 1, 2, 3), "2": (0, 1, 2, 3)}
    alone = play(*[[summed(1, size, group="1")]] * 4, groups=groups).seconds
    two = play(*[[summed(1, size, group="1"), summed(2, size, group="2")]] * 4, groups=groups)
    assert 1.7 * alone < two.happened[0][1].ended < 2 * alone
    assert two.carried_bytes["gpu0 out"] == pytest.approx(2 * 1.5 * size * 1.25, rel=1e-6)
    after_each_other = play(*[[summed(1, size, group="1"), summed(2, size, group="1")]] * 4, groups=groups)
    assert after_each_other.happened[0][1].ended == pytest.approx(alone) and after_each_other.seconds == pytest.approx(
        2 * alone
    )


def test_sends_meet_their_receives() -> None:
    sender = [compute(1, 40), Node(2, "send", "send", (1,), None, "to 1", message_bytes=90_000_000, peer=1, tag=3)]
    receiver = [
        Node(1, "receive", "receive", (), None, "from 0", message_bytes=90_000_000, peer=0, tag=3),
        compute(2, 5, 1),
    ]
    found = play(sender, receiver)
    lasts = alone_seconds("send_recv", 2, 90_000_000)
    assert found.seconds == pytest.approx(45e-6 + lasts, rel=1e-6)
    assert found.times()[1].waiting == pytest.approx(40e-6)


def test_ranks_that_wait_for_each_other_for_ever_are_named() -> None:
    first, second = (
        [summed(1, 64, group="1"), summed(2, 64, 1, group="2")],
        [summed(1, 64, group="2"), summed(2, 64, 1, group="1")],
    )
    with pytest.raises(
        ExecutionTraceError, match="rank 0: node 1 .* waits for other ranks for ever, and so do 3 others"
    ):
        play(first, second, groups={"1": (0, 1), "2": (0, 1)})
    with pytest.raises(ExecutionTraceError, match="all_gather of 64 bytes, meets node 1 .*all_reduce of 64"):
        play([summed(1, 64)], [summed(1, 64, kind="all_gather")])


@pytest.mark.parametrize(
    "plan",
    [
        Plan("decode", batch=8, sequence=1024, tensor_parallel=4),
        Plan("prefill", batch=4, sequence=512, tensor_parallel=2, pipeline_parallel=2, micro_batches=4),
        Plan("train", batch=8, sequence=512, tensor_parallel=2, data_parallel=2, pipeline_parallel=2, micro_batches=2),
    ],
)
def test_a_replayed_step_takes_what_is_projected(plan: Plan) -> None:
    config, prices = decoder_of("llama3_8b"), Prices(H100)
    made = step_traces(prices, config, plan)
    for trace in made.traces:
        trace.check()
    found = replayed(H100, LINKS, made.traces, made.groups, library="nccl" if plan.phase == "train" else "custom")
    projected = project_model(prices, config, plan)
    # Stages overlap and meet as the schedule lets them, which the projection sums up by the slowest.
    assert found.seconds == pytest.approx(projected.step.seconds, rel=0.02 if plan.pipeline_parallel == 1 else 0.1)
    if plan.phase == "decode":
        exposed = found.times()[0].exposed
        assert exposed == pytest.approx(projected.communication_seconds, rel=0.03)
        alone = replayed(H100, LINKS, made.traces[:1], made.groups, library="custom")
        assert alone.seconds == pytest.approx(found.seconds, rel=1e-6)


def test_durations_follow_shapes_operations_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "gpt.0.et"
    shapes = SCHEMA["IOInfo"](
        shapes="[[4096, 4096], [4096, 4096]]", types="['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
    )
    path.write_bytes(
        encoded(
            foreign(1, 4, "aten::mm", 9, inputs=shapes, is_cpu_op=True),
            foreign(2, 4, "gemm kernel", 77, (1,), is_cpu_op=False),
            foreign(3, 4, "copy kernel", 5, (2,), is_cpu_op=False, tensor_size=10**9),
            foreign(4, 4, "who knows", 6, (3,), is_cpu_op=False, extra="kept"),
        )
    )
    found = projected_durations(H100, read_trace(path, 0))
    # A trace is of a run that lasts, whose power limit has held for long.
    gemm = project_gemm_op(H100, GemmOp(4096, 4096, 4096), held_limit(H100)).seconds
    assert found.seconds == {2: pytest.approx(gemm), 3: pytest.approx(1e9 / 3.35e12, rel=0.2)}
    assert found.unknown == {"who knows": 1} and found.ways == {"product": 1, "operations and bytes": 1}
    _, _, kernel, _, unknown = decoded(b"".join(with_durations(path, found.seconds)))
    assert kernel.duration_micros == round(1e6 * gemm) and unknown.duration_micros == 6
    assert {each.name for each in unknown.attr} == {"is_cpu_op", "extra"}
    held = projected_durations(H100, read_trace(path, 0), 300.0)
    assert held.seconds[2] > 1.1 * gemm and held.seconds[3] == pytest.approx(found.seconds[3], rel=0.1)
    with pytest.raises(SpecError, match="limit"):
        projected_durations(H100, read_trace(path, 0), 10.0)


@pytest.fixture
def gpusim(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


def test_the_commands_write_replay_and_fill(tmp_path: Path, gpusim) -> None:
    step, there = tmp_path / "step", tmp_path / "a100"
    code, out, _ = gpusim(
        "project",
        "llama3_8b",
        "--gpu",
        "h100:2",
        "--phase",
        "decode",
        "--batch",
        4,
        "--traces",
        step,
        "--format",
        "json",
    )
    assert code == 0
    (projected,) = json.loads(out)
    assert sorted(each.name for each in step.iterdir()) == ["groups.json", "llama3_8b.0.et", "llama3_8b.1.et"]
    assert read_groups(step / "groups.json") == {"1": (0, 1)}
    code, out, _ = gpusim("project", "replay", step, "--gpu", "h100", "--library", "custom", "--format", "json")
    rows = json.loads(out)
    assert code == 0 and [row["rank"] for row in rows] == [0, 1]
    assert rows[0]["total_us"] == pytest.approx(1e3 * projected["step_ms"], rel=0.02)
    code, out, _ = gpusim("project", "replay", step / "llama3_8b.1.et", "--show", "path", "--format", "csv")
    assert code == 0 and out.startswith("rank,kind,node,nodes,us,percent")
    code, out, err = gpusim("project", "durations", step, "--gpu", "a100_80gb", "-o", there)
    assert code == 0 and len(out.splitlines()) == 2 and "by operations and bytes" in err
    code, out, _ = gpusim("project", "replay", there, "--groups", step / "groups.json", "--gpu", "a100_80gb")
    assert code == 0 and "is exposed communication" in out
    (tmp_path / "bad.json").write_text('{"1": "all"}')
    for words, message in (
        (("replay", tmp_path), "no execution trace"), (("replay", step, "--groups", tmp_path / "bad.json"), "groups are written as"),
        (("replay", step / "groups.json"), "no Chakra execution trace"), (("replay", step, there), "another trace is of the same rank"),
    ):  # fmt: skip
        code, out, err = gpusim("project", *words)
        assert code in (2, 3) and message in err and not out
    code, _, err = gpusim("project", "llama3_8b", "--gpu", "h100:2", "--traces", tmp_path / "none")
    assert code == 2 and "a request is many steps" in err and not (tmp_path / "none").exists()
