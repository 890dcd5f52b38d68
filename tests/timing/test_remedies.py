"""Is a remedy's trace what the better kernel would have recorded, and does its saving stand at the right line?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_traces import FULL, Asm, build, small_gpu

import gpusim
from gpusim.engine.gpu import simulate
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import RUN, SCATTERED, Flag, MemoryKind, PipeClass, Program, Space, Trace
from gpusim.trace.validate import check_chunk
from gpusim.why import retrace
from gpusim.why.advice import QUICK_WARP_INSTRUCTIONS, advise, quick_advice
from gpusim.why.evidence import evidence
from gpusim.why.loops import Loop, feeds_itself, find_loops, prefetched, unrolled
from gpusim.why.remedies import RULES, proposals

GPU = small_gpu(sm_count=2)
ITERATIONS = 16
#: Instructions of a looping program by name.
LOAD, USE, BACK = 1, 2, 3


def at(iteration: int, b: int, w: int) -> tuple[int, int]:
    return (1 << 30) + ((b * 8 + w) * ITERATIONS + iteration) * 65536, 4


def looping(blocks: int = 1, threads: int = 32, barrier: bool = False, chained: bool = False) -> Trace:
    """A loop of a load, its use and a jump back."""
    asm = Asm().op(PipeClass.ALU, 4)
    asm.load(lambda b, w: at(0, b, w), barrier=0, destination=4, destination_count=1, sources=(2, -1, -1))
    asm.op(PipeClass.FMA, 4, wait_mask=1, destination=2 if chained else 8, destination_count=1, sources=(4, 8, -1))
    asm.op(PipeClass.BARRIER, 4, flags=1) if barrier else asm.op(PipeClass.ALU, 4)
    asm.op(PipeClass.BRANCH, 5, flags=4).exit()
    trace = build(asm, blocks, threads)
    (chunk,) = trace.chunk_list
    back = LOAD + 3
    runs = [(0, back + 1, FULL), *[(LOAD, back + 1 - LOAD, FULL)] * (ITERATIONS - 1), (back + 1, 1, FULL)]
    accesses = np.repeat(chunk.accesses, ITERATIONS)
    step = np.tile(np.arange(ITERATIONS, dtype=np.uint64) * 65536, len(chunk.accesses))
    accesses["address"] += step
    warps = chunk.warps.copy()
    warps["access_start"] *= ITERATIONS
    warps["access_count"] = ITERATIONS
    path = np.array([0, len(runs)], np.int64)
    looped = replace(chunk, runs=np.array(runs, RUN), accesses=accesses, warps=warps, path_start=path)
    files = replace(trace.program, files=("loop.py",))
    return Trace(files, trace.launch, [looped])


def checked(trace: Trace) -> Trace:
    """``trace``, after its chunks were held against what a file must hold."""
    block = 0
    for chunk in trace.chunk_list:
        check_chunk(chunk, trace.launch, trace.program, block)
        block += chunk.blocks
    assert block == trace.launch.blocks
    return trace


def cycles(trace: Trace, gpu: GpuSpec = GPU) -> int:
    return simulate(checked(trace), gpu).cycles - gpu.launch.start_cycles


def rules_found(trace: Trace, gpu: GpuSpec = GPU) -> dict[str, float]:
    """Rule -> percent saved, of the remedies for a launch."""
    return {remedy.rule: remedy.saved_percent for remedy in advise([trace], simulate(trace, gpu)).remedies}


def test_a_loop_is_found_and_an_iteration_in_four_waits() -> None:
    trace = looping()
    (loop,) = find_loops(trace)
    assert loop == Loop(LOAD, LOAD + 3)
    alone = cycles(trace)
    for times in (2, 4):
        assert cycles(unrolled(trace, loop, [LOAD], times)) == pytest.approx(alone / times, rel=0.15)
    assert cycles(unrolled(trace, loop, [LOAD], 1)) == alone


def test_the_last_iterations_wait_although_they_do_not_fill_a_group() -> None:
    trace = looping()
    (loop,) = find_loops(trace)
    (chunk,) = unrolled(trace, loop, [LOAD], 5).chunk_list
    size = len(trace.program.instructions)
    waits = (chunk.runs["first"][:ITERATIONS] < size).tolist()
    assert [i for i, own in enumerate(waits) if own] == [4, 9, 14, 15]


def test_prefetching_hides_what_the_iteration_before_leaves_time_for() -> None:
    trace = looping()
    (loop,) = find_loops(trace)
    ahead = prefetched(trace, loop, [LOAD])
    # The load of an iteration is over when the next one's is waited for: two are in flight.
    assert ahead is not None and cycles(ahead) == pytest.approx(cycles(trace) / 2, rel=0.2)
    full = trace.program.instructions.copy()
    full["wait_mask"][USE] = 63
    assert prefetched(replace(trace, program=replace(trace.program, instructions=full)), loop, [LOAD]) is None


def test_a_chain_of_pointers_is_told_from_a_walk() -> None:
    for chained in (False, True):
        trace = looping(chained=chained)
        (loop,) = find_loops(trace)
        assert feeds_itself(trace.program, loop, LOAD) == chained
        names = {one.rule for one in proposals(evidence(simulate(trace, GPU), [trace]))}
        assert ("dependent loads" in names) == chained and ("loads in flight" in names) == (not chained)


def test_a_remedy_names_its_line_and_what_it_saves() -> None:
    trace = looping(threads=64)
    result = simulate(trace, GPU)
    advice = advise([trace], result)
    best = advice.remedies[0]
    assert best.rule == "loads in flight" and best.place == f"loop.py:{LOAD + 1}" and not best.at_most
    assert best.saved_percent == pytest.approx(100 * (result.cycles - best.cycles) / result.cycles)
    assert best.sentence.startswith("one load in flight at loop.py:2: unroll by 4") and best.saved_percent > 50
    assert f"about -{best.saved_percent:.2g} %" in best.sentence


def test_the_quick_answer_tries_nothing_where_that_would_cost_much() -> None:
    trace = looping()
    result = simulate(trace, GPU)
    assert quick_advice([trace], result).tried > 0
    large = replace(result, counters=result.counters | {"smsp__inst_executed.sum": QUICK_WARP_INSTRUCTIONS + 1})
    left = quick_advice([trace], large)
    assert left.tried == 0 and not left.remedies and "loop.py:2" in left.untried[0]


def scattered_load() -> Trace:
    asm = Asm()
    for k in range(24):
        place = np.arange(32, dtype=np.uint64) * 4096 + np.uint64((1 << 30) + 128 * k)
        asm.load(lambda b, w, place=place: place + np.uint64(w * 131072), barrier=k % 6, line=7, file=0)
    trace = build(asm.exit(wait_mask=63), threads=256)
    return replace(trace, program=replace(trace.program, files=("far.py",)))


def test_coalesced_requests_touch_as_many_bytes_in_order() -> None:
    trace = scattered_load()
    everything = trace.program.instructions["records"] > 0
    better = checked(retrace.in_order(trace, everything))
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    counted = [simulate(one, GPU).counters[sectors] for one in (trace, better)]
    assert counted == [8 * 24 * 32, 8 * 24 * 4]
    assert rules_found(trace)["coalescing"] > 30
    assert all(chunk.accesses["stride"][0] == SCATTERED for chunk in trace.chunk_list)  # the original stays


def test_lanes_side_by_side_have_no_bank_conflicts() -> None:
    asm = Asm()
    for i in range(60):
        asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 128), write_barrier=i % 6)
    trace = build(asm.exit(wait_mask=63), threads=512)
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    better = checked(retrace.side_by_side(trace, trace.program.instructions["records"] > 0))
    assert simulate(trace, GPU).counters[conflicts] > 0 == simulate(better, GPU).counters[conflicts]
    assert rules_found(trace)["bank conflicts"] > 70


def test_one_lane_and_none_of_a_warp_make_as_many_accesses() -> None:
    asm = Asm()
    for _ in range(8):
        asm.memory(MemoryKind.ATOMIC, Space.GLOBAL, 4, lambda b, w: (1 << 30, 0), write_barrier=0)
    trace = build(asm.exit(wait_mask=1), blocks=4, threads=256)
    atomic = trace.program.instructions["records"] > 0
    one, none = checked(retrace.one_lane(trace, atomic)), checked(retrace.without(trace, atomic))
    masks = [int(chunk.accesses["mask"][0]) for better in (one, none) for chunk in better.chunk_list]
    assert masks == [1, 0] and cycles(none) < cycles(one) < cycles(trace)
    assert rules_found(trace)["atomics"] > 50


@pytest.mark.parametrize(
    ("text", "said"),
    [("SYNCS.ARRIVE.TRANS64 R2, [R3]", "arrive at an mbarrier"), ("ATOMS.ADD R2, [R3], R4", "collide")],
)
def test_lanes_of_one_word_are_told_from_lanes_of_an_mbarrier(text: str, said: str) -> None:
    asm = Asm()
    for i in range(30):
        asm.memory(MemoryKind.ATOMIC, Space.SHARED, 8, lambda b, w: (64, 0), write_barrier=i % 6)
    trace = build(asm.exit(wait_mask=63), threads=512)
    trace = replace(trace, program=replace(trace.program, texts=(text,) * len(trace.program.texts)))
    (remedy,) = [one for one in advise([trace], simulate(trace, GPU)).remedies if one.rule == "atomics"]
    assert said in remedy.problem and remedy.saved_percent > 50


@pytest.mark.parametrize(("stride", "said"), [(128, "different words of one bank"), (0, "lanes collide")])
def test_atomics_on_one_bank_are_told_from_atomics_on_one_word(stride: int, said: str) -> None:
    asm = Asm()
    for i in range(30):
        asm.memory(MemoryKind.ATOMIC, Space.SHARED, 4, lambda b, w: (0, stride), write_barrier=i % 6)
    trace = build(asm.exit(wait_mask=63), threads=512)
    (remedy,) = [one for one in advise([trace], simulate(trace, GPU)).remedies if one.rule == "atomics"]
    assert said in remedy.problem and remedy.saved_percent > 50
    assert ("pad" in remedy.advice) == (stride > 0)


@pytest.mark.parametrize(("apart", "found"), [(33, True), (0, False)])
def test_lanes_that_load_different_constants_are_named(apart: int, found: bool) -> None:
    source = """__constant__ float table[1024];
    extern "C" __global__ void looked_up(float *x, int n, int apart) {
      float sum = 0;
      for (int i = 0; i < n; ++i) sum += table[(threadIdx.x * apart + i) & 1023];
      x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""
    x = np.zeros(512, np.float32)
    trace = gpusim.capture(gpusim.cuda_cpp(source, "looked_up"), 4, 128, (x, 50, apart), gpu="h200")
    remedies = [one for one in advise([trace], gpusim.simulate(trace, gpu="h200")).remedies if one.rule == "constants"]
    assert bool(remedies) == found
    for remedy in remedies:
        assert "load 32 different constants" in remedy.problem and remedy.place.endswith(":4") and remedy.at_most
        assert remedy.saved_percent > 50


@pytest.mark.parametrize(("warp_ways", "said"), [(32, "of 32 lanes active"), (1, "used")])
def test_slots_that_few_lanes_use_ask_for_lanes_that_go_one_way(warp_ways: int, said: str) -> None:
    source = """extern "C" __global__ void ways(float *x, int n, int mask) {
      float a = threadIdx.x, b = a;
      for (int i = 0; i < n; ++i)
        if ((threadIdx.x & mask) == (i & mask))
          for (int j = 0; j < 20; ++j) { a = a * 1.01f + 0.5f; b = b * 1.02f + 0.25f; }
      x[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
    }"""
    x = np.zeros(4096, np.float32)
    trace = gpusim.capture(gpusim.cuda_cpp(source, "ways"), 8, 512, (x, 32, warp_ways - 1), gpu="h200")
    (remedy,) = [one for one in proposals(evidence(simulate(trace, GPU), [trace])) if one.rule == "issue roof"]
    assert remedy.problem.endswith(said) and ("one way" in remedy.advice) == (warp_ways > 1)


@pytest.mark.parametrize(("words", "found"), [(1, True), (4096, False)])
def test_atomics_of_many_warps_on_one_word_ask_for_a_sum_before(words: int, found: bool) -> None:
    asm = Asm()
    for i in range(20):
        asm.memory(
            MemoryKind.REDUCTION, Space.GLOBAL, 4,
            lambda b, w, i=i: ((1 << 30) + ((b * 8 + w) * 20 + i) % words * 128, 0), write_barrier=i % 6,
        )  # fmt: skip
    trace = build(asm.exit(wait_mask=63), blocks=8, threads=256)
    trace = retrace.one_lane(trace, trace.program.instructions["records"] > 0)  # as a compiler adds a warp's up
    remedies = [one for one in advise([trace], simulate(trace, GPU)).remedies if one.rule == "contended atomics"]
    assert bool(remedies) == found
    for remedy in remedies:
        assert "1.28e+03 atomics a word" in remedy.problem and remedy.at_most and remedy.saved_percent > 50


def own_loads() -> Asm:
    asm = Asm()
    for i in range(2):
        asm.load(lambda b, w, i=i: ((1 << 30) + ((b * 32 + w) * 2 + i) * 128, 4), barrier=i)
    return asm.op(PipeClass.FMA, 4, wait_mask=3).store(lambda b, w: ((1 << 31) + (b * 32 + w) * 128, 4)).exit()


def test_joined_blocks_do_the_work_of_several() -> None:
    trace = build(own_loads(), blocks=10, threads=64, blocks_per_chunk=6)
    joined = checked(retrace.joined_blocks(trace, 4))
    assert joined.launch.blocks == 3  # four and two blocks of a chunk, and the four of the other
    left_out = (10 - 3) * 2  # the EXIT of each warp but those that come last
    assert simulate(joined, GPU).counters["smsp__inst_executed.sum"] == trace.warp_instructions - left_out
    loads = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert simulate(joined, GPU).counters[loads] == simulate(trace, GPU).counters[loads]
    # Each warp makes the accesses of those that it stands for, one after another.
    for chunk, better in zip(trace.chunk_list, joined.chunk_list, strict=True):
        for row, warp in enumerate(better.warps):
            group, place = divmod(row, 2)
            of = chunk.warps[[block * 2 + place for block in range(group * 4, min(chunk.blocks, group * 4 + 4))]]
            want = [a for one in of for a in chunk.accesses[one["access_start"] :][: one["access_count"]].tolist()]
            assert better.accesses[warp["access_start"] :][: warp["access_count"]].tolist() == want


def test_smaller_blocks_fill_idle_sms() -> None:
    asm = Asm()
    for _ in range(400):
        asm.op(PipeClass.FMA, 1)
    trace = build(asm.exit(), threads=256)
    cut = checked(retrace.smaller_blocks(trace, 2))
    assert cut.launch.blocks == 2 and cut.launch.block_threads == 128
    assert cycles(cut) == pytest.approx(cycles(trace) / 2, rel=0.15)
    assert rules_found(trace)["few blocks"] > 30


def test_less_of_a_resource_is_tried_where_it_holds_blocks_back() -> None:
    asm = Asm()
    for i in range(30):
        asm.load(lambda b, w, i=i: ((1 << 30) + (1 << 16) * ((b * 8 + w) * 30 + i), 4), barrier=0, wait_mask=1)
    trace = build(asm.exit(wait_mask=1), blocks=16, threads=128, shared_bytes=120 * 1024)
    result = simulate(trace, GPU)
    assert result.occupancy_limiter == "shared_mem" and result.blocks_per_sm == 1
    assert rules_found(trace)["occupancy"] > 30


def test_double_precision_is_tried_on_the_fp32_pipe() -> None:
    asm = Asm()
    for _ in range(300):
        asm.op(PipeClass.FP64)
    gpu = small_gpu(sm_count=2, fp64__interval_cycles=16, fp64__shared_by_sm=True)
    assert rules_found(build(asm.exit(), threads=256), gpu)["double precision"] > 80


def test_a_fence_behind_stores_is_tried_without() -> None:
    asm = Asm()
    for number in range(4):
        asm.store(lambda b, w, number=number: ((1 << 30) + 65536 * (4 * b + number), 4))
        asm.op(PipeClass.NONE, 2, flags=int(Flag.FENCE)).op(PipeClass.FMA, 1)
    assert rules_found(build(asm.exit(), 4, 32))["fences"] > 20


def test_a_kernel_with_nothing_to_mend_is_left_alone() -> None:
    asm = Asm()
    for _ in range(2000):
        asm.op(PipeClass.FMA, 1)
    trace = build(asm.exit(), blocks=2, threads=1024)
    # At the roof only fewer instructions help, and that is what is said.
    assert set(rules_found(trace)) == {"issue roof"}


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) and all(rule.looks_at for rule in RULES)


def test_a_jump_back_from_behind_the_end_is_no_loop() -> None:
    trace = looping()
    code = trace.program.instructions.copy()
    code["flags"][USE] = 2  # EXIT inside: what lies behind it is a slow path
    program = Program(code, trace.program.texts)
    assert find_loops(Trace(program, trace.launch, trace.chunk_list)) == []
