"""Micro-benchmarks measure what they say: the machine code holds the chain, and the model shows its parameter."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpusim.capturing import capture
from gpusim.cases.suite import capture_case, find_kernel, make_case
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.isa.architectures import SURVEYED
from gpusim.model.timing import fence_cycles
from gpusim.trace.record import PipeClass

pytestmark = pytest.mark.usefixtures("without_source_lines")

find_kernel("pipe_latency")
OPS = importlib.import_module("gpusim.kernels.pipe_ops").OPS
H200 = load_gpu("h200")
#: One chain, and many side by side, of the same operation.
CHAINS = ("pipe_latency", "pipe_throughput")
#: Of each kind of operation one: those whose pipe is measured below in both, the others in one; the rest with -m
#: nightly.
EVERYDAY = {
    "ffma": CHAINS, "popc": CHAINS, "lop3": CHAINS,
    "iadd": CHAINS[:1], "shfl": CHAINS[1:], "f2i_i2f": CHAINS[:1],
}  # fmt: skip


def everyday(values, chosen):
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.nightly) for value in values]


def with_code_and_operands_at_hand(spec):
    """The GPU without what its pipes do not answer for: caches that short launches find cold, operand reads."""
    code = replace(spec.instruction_cache, l0_miss_cycles=0, l1_miss_cycles=0, l1_interval_cycles=0)
    constants, registers = (
        replace(spec.constant_cache, miss_cycles=0),
        replace(spec.register_file, bank_conflicts=False),
    )
    return replace(spec, instruction_cache=code, constant_cache=constants, register_file=registers)


@cache
def measured(name, gpu="h200", **shape):
    """(trace, result) of the timed launch of one case, whose result is checked."""
    spec = with_code_and_operands_at_hand(load_gpu(gpu))
    case = make_case(name, shape, spec, small=True)
    launches = capture_case(case, spec)
    case.check()
    trace = next(launch.trace for launch in launches if launch.timed)
    warm = tuple(launch.trace for launch in launches if not launch.timed)
    return trace, simulate(trace, spec, warm=warm)


def cycles_a_step(name, rounds, **shape):
    """Cycles per step of a warp, from two launches of ``rounds`` and of twice as many rounds."""
    shape |= {"blocks": 1} if "blocks" in find_kernel(name).axes else {}
    short, long = (measured(name, rounds=r, **shape)[1].cycles for r in (rounds, 2 * rounds))
    steps = make_case(name, shape | {"rounds": rounds}, H200, small=True).work["steps_per_warp"]
    return (long - short) / steps


def opcodes(trace):
    """The opcode of every instruction, with its dots, without its guard."""
    words = (text.split() for text in trace.program.texts)
    return [(word[1] if word[0].startswith("@") else word[0]).rstrip(";") for word in words]


def executions(trace, opcode):
    """How often warps executed instructions whose opcode begins so, control flow within a warp counted apart."""
    wanted = np.array([code.startswith(opcode) for code in opcodes(trace)])
    before = np.concatenate(([0], np.cumsum(wanted)))
    total = 0
    for chunk in trace.chunks():
        lengths = before[chunk.runs["first"] + chunk.runs["count"]] - before[chunk.runs["first"]]
        paths = np.add.reduceat(lengths, chunk.path_start[:-1])
        total += int(paths[chunk.warps["path"]].sum())
    return total


@pytest.mark.parametrize(
    ("op", "name"),
    [
        pytest.param(op, name, marks=() if op in EVERYDAY and name in EVERYDAY[op] else pytest.mark.nightly)
        for op in OPS
        for name in CHAINS
    ],
)
def test_nothing_of_the_chain_is_folded_away(op, name):
    trace, _ = measured(name, op=op, rounds=2, block_threads=32, blocks=1)
    case = make_case(name, {"op": op, "rounds": 2, "block_threads": 32, "blocks": 1}, H200, small=True)
    executed = sum(executions(trace, opcode) for opcode in OPS[op].machine)
    a_step = 2 if op in ("mufu_sin", "f2i_i2f") else 1
    # A round ahead of the loop counts too. Of a round's last two integer additions ptxas makes one.
    assert executed >= 0.95 * 1.5 * a_step * case.work["steps_per_warp"]


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", [row.name for row in SURVEYED if row.name != "sm_90"])
@pytest.mark.parametrize("op", OPS)
def test_every_operation_equals_numpy_on_other_architectures(op, gpu):
    for name in ("pipe_latency", "pipe_throughput"):
        case = find_kernel(name).make(**find_kernel(name).small | {"op": op})
        launch = case.launches[0]
        capture(launch.kernel, launch.grid, launch.block, launch.args, gpu=gpu)
        case.check()


@pytest.mark.parametrize(
    ("op", "pipe"), [("ffma", PipeClass.FMA), ("lop3", PipeClass.ALU), ("popc", PipeClass.CONVERT)]
)
def test_one_chain_shows_the_latency_and_many_the_interval_of_the_pipe(op, pipe):
    unit = H200.pipes[pipe.name.lower()]
    latency = cycles_a_step("pipe_latency", 4, op=op, block_threads=32)
    assert latency == pytest.approx(unit.latency_cycles, rel=0.03)
    warps_a_sub_core = 4
    # Rounds enough that it does not matter in which half of L2 the two launches find their operands.
    interval = cycles_a_step("pipe_throughput", 8, op=op, block_threads=512) / warps_a_sub_core
    assert interval == pytest.approx(unit.interval_cycles, rel=0.1)


@pytest.mark.parametrize("mode", everyday(("idx", "up", "down", "xor"), {"idx"}))
def test_a_chain_of_shuffles_shows_their_latency(mode):
    trace, _ = measured("shuffle", mode=mode, chains=1, rounds=2, block_threads=32, blocks=1)
    assert executions(trace, "SHFL") == 64
    step = cycles_a_step("shuffle", 2, mode=mode, chains=1, block_threads=32)
    assert step == pytest.approx(H200.l1.shuffle_latency_cycles, rel=0.05)


def conflicts(stride, width_bytes):
    """Wavefronts of a warp's shared access, by brute force: 8 and 16 byte accesses go by half and quarter warps."""
    lanes = 32 * 4 // width_bytes if width_bytes > 4 else 32
    total = 0
    for first in range(0, 32, lanes):
        banks = {}
        for lane in range(first, first + lanes):
            for word in range(width_bytes // 4):
                address = lane * stride * (width_bytes // 4) + word
                banks.setdefault(address % 32, set()).add(address)
        total += max(len(words) for words in banks.values())
    return total


@pytest.mark.parametrize("width_bytes", [4, pytest.param(8, marks=pytest.mark.nightly), 16])
def test_strides_meet_in_banks_as_counted_by_hand(width_bytes):
    def wavefronts(stride, rounds):
        shape = {"access": "load", "stride": stride, "width_bytes": width_bytes, "block_threads": 32}
        counters = measured("bank_conflicts", rounds=rounds, **shape)[1].counters
        return counters["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]

    for stride in (1, 2, 3, 8, 32):
        a_load = (wavefronts(stride, 4) - wavefronts(stride, 2)) / 64
        assert a_load == conflicts(stride, width_bytes), stride


@pytest.mark.parametrize(
    ("pattern", "amount", "sectors"),
    [("stride", 1, 4), ("stride", 2, 8), ("stride", 8, 32), ("offset", 1, 5), ("permuted", 7, 4), ("offset", 8, 4)],
)
def test_patterns_need_the_sectors_counted_by_hand(pattern, amount, sectors):
    shape = {"access": "load", "pattern": pattern, "amount": amount, "accesses": 3}
    _, result = measured("coalescing", **shape)
    requests = result.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    assert result.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] / requests == sectors


def test_divergent_paths_take_turns():
    one, four = (
        measured("divergence", paths=paths, rounds=8, block_threads=32, blocks=1)[1].cycles
        - measured("divergence", paths=paths, rounds=4, block_threads=32, blocks=1)[1].cycles
        for paths in (1, 4)
    )
    assert one >= 0.95 * 4 * 16 * H200.pipes["fma"].latency_cycles
    assert four == pytest.approx(4 * one, rel=0.05)


def test_barriers_are_all_there_and_slower_for_more_warps():
    trace, _ = measured("barrier", rounds=2, block_threads=64, blocks=1)
    assert executions(trace, "BAR.SYNC") == 2 * 2 * 16
    few, many = (
        measured("barrier", rounds=4, block_threads=threads, blocks=1)[1].cycles
        - measured("barrier", rounds=2, block_threads=threads, blocks=1)[1].cycles
        for threads in (32, 1024)
    )
    assert few >= 32 * H200.l1.barrier_latency_cycles and many > few


def test_fences_are_all_there_and_each_waits_for_the_way_to_l2():
    trace, _ = measured("fence", rounds=2, block_threads=64, fencing=1, lines=0, blocks=1)
    assert executions(trace, "MEMBAR") == 2 * 4
    few, many = (
        measured("fence", rounds=rounds, block_threads=128, fencing=4, lines=0, blocks=1)[1].cycles for rounds in (2, 4)
    )
    assert (many - few) / 8 >= fence_cycles(H200)


def test_a_register_limit_spills_and_no_limit_does_not():
    spilled, _ = measured("local_memory_spill", live_values=40, max_registers=24)
    free, _ = measured("local_memory_spill", live_values=40, max_registers=0)
    assert spilled.launch.registers_per_thread <= 24 < free.launch.registers_per_thread
    assert executions(spilled, "LDL") > 0 and executions(spilled, "STL") > 0
    assert executions(free, "LDL") == executions(free, "STL") == 0


@pytest.mark.parametrize(("returning", "opcode", "other"), [(True, "ATOMG", "REDG"), (False, "REDG", "ATOMG")])
def test_an_atomic_whose_value_nobody_wants_is_a_reduction(returning, opcode, other):
    trace, _ = measured("l2_atomics", dtype="int32", returning=returning, rounds=2, block_threads=64, blocks=2)
    assert executions(trace, opcode) == 4 * 2 * 4
    assert executions(trace, other) == 0


def test_the_code_grows_with_the_body():
    trace, _ = measured("instruction_cache", body_instructions=600)
    assert executions(trace, "FFMA") == 2 * 600
    assert opcodes(trace).count("FFMA") == 600


def test_constant_loads_are_one_chain():
    trace, _ = measured("constant_cache", table_bytes=256, addresses=1, rounds=3, block_threads=32)
    indexed = [code for code, text in zip(opcodes(trace), trace.program.texts, strict=True) if "c[0x3]" in text]
    assert set(indexed) == {"LDC"}
    assert trace.warp_instructions > 3 * 16 * 2
