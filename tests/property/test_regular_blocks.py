"""Launches captured from a few blocks: are the others what they would have been, and is it refused where they are
not?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from regular_kernels import launch

import gpusim
from gpusim.cases.requests import parse_request
from gpusim.cases.run_case import SAMPLED, run_case
from gpusim.cases.suite import capture_case
from gpusim.errors import TraceFormatError, UsageError
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import SCATTERED, Trace
from gpusim.trace.synthesis import Part, RegularChunks
from gpusim.trace.template import find_loop
from gpusim.tuning import kept_content


@dataclass
class CaseLaunch:
    kernel: Any
    grid: Any
    block: Any
    args: tuple
    shared_bytes: int = 0
    timed: bool = True


REGULAR = ("stencil", "product", "two_buffers", "counted", "volume", "normalised")
DEPENDENT = {
    "gather": "comes from memory",
    "through_shared": "comes from memory",
    "ticket": "comes from an atomic's result",
    "chained": "comes from memory",
    "until": "comes from memory",
}
IRREGULAR = {"triangle": "does not run like", "swizzled": "not that of block"}


def warps_of(trace: Trace) -> list[tuple[bytes, ...]]:
    """Instructions with masks, accesses and lane addresses of every warp, however the chunks are cut."""
    found = []
    for chunk in trace.chunks():
        for warp in chunk.warps:
            runs = chunk.runs[chunk.path_start[warp["path"]] : chunk.path_start[warp["path"] + 1]]
            steps = np.concatenate([np.arange(run["first"], run["first"] + run["count"]) for run in runs])
            masks = np.repeat(runs["mask"], runs["count"])
            accesses = chunk.accesses[warp["access_start"] :][: warp["access_count"]].copy()
            scattered = accesses["stride"] == SCATTERED
            rows = chunk.scattered[accesses["address"][scattered]]
            accesses["address"][scattered] = 0
            found.append((steps.tobytes() + masks.tobytes(), accesses.tobytes(), rows.tobytes()))
    return found


def captured(name: str, sample: bool, **options) -> Trace:
    return gpusim.capture(*launch(name, **options), gpu="a100_80gb", sample=sample)


@pytest.mark.parametrize("name", REGULAR)
def test_blocks_that_did_not_run_are_those_that_would_have(name):
    few, whole = captured(name, True), captured(name, False)
    assert few.regular is not None
    assert len(few.regular.held) < 60 <= few.launch.blocks
    assert warps_of(few) == warps_of(whole)
    assert few.warp_instructions == whole.warp_instructions
    chunks = few.chunk_list
    np.testing.assert_array_equal(chunks.block_work()[0].sum(), whole.warp_instructions)
    full = gpusim.simulate(whole, "a100_80gb")
    np.testing.assert_array_equal(
        chunks.executions(len(few.program.instructions)), full.launches[0].stalls_by_instruction[:, 0]
    )
    assert gpusim.simulate(few, "a100_80gb").cycles == full.cycles


@pytest.mark.parametrize("name", [*DEPENDENT, *IRREGULAR])
def test_a_launch_whose_blocks_do_not_follow_runs_whole_and_says_why(name):
    kernel, grid, block, args = launch(name)
    trace = gpusim.capture(kernel, grid, block, args, gpu="a100_80gb", sample=True)
    assert trace.regular is None
    assert (DEPENDENT | IRREGULAR)[name] in trace.why_whole
    assert trace.why_whole.startswith("dependent: ") == (name in DEPENDENT)
    assert args[-1].any()  # it has run


def test_a_launch_of_which_a_few_blocks_ran_leaves_the_arrays_alone():
    kernel, grid, block, args = launch("stencil")
    assert gpusim.capture(kernel, grid, block, args, gpu="a100_80gb", sample=True).regular is not None
    assert not args[1].any()


def test_a_check_wants_all_blocks():
    with pytest.raises(UsageError, match="with sample or with check"):
        gpusim.capture(*launch("stencil"), gpu="a100_80gb", sample=True, check=["memory"])


def test_iterations_are_left_out_of_a_loop_whose_buffers_alternate():
    few, short = captured("two_buffers", True, iterations=40), captured("two_buffers", False, iterations=8)
    template = few.regular.classes[0].template
    iteration = template.instructions(2) - template.instructions(1)
    left_out = (few.warp_instructions - short.warp_instructions) // (80 * iteration)
    part = [Part(0, 80, template.iterations - left_out)]
    shortened = Trace(few.program, few.launch, RegularChunks(few.regular, 2, part))
    assert template.iterations > left_out > 0
    assert [warp[0] for warp in warps_of(shortened)] == [warp[0] for warp in warps_of(short)]


def test_the_loop_of_a_path_is_where_most_instructions_repeat():
    def path(text: str) -> np.ndarray:
        runs = np.zeros(len(text), [("first", "<u4"), ("count", "<u4"), ("mask", "<u4")])
        runs["first"], runs["count"] = [ord(letter) for letter in text], 10
        return runs

    assert find_loop(path("paaaaaaab")) == (1, 1, 7)
    assert find_loop(path("p" + "abc" * 6 + "e")) == (1, 3, 6)
    assert find_loop(path("p" + "hiiiiit" * 5 + "e")) == (1, 7, 5)
    assert find_loop(path("abcde"))[2] == find_loop(path("aabbaab"))[2] == 1


def test_a_trace_file_of_a_few_blocks_is_the_same_trace(tmp_path):
    few = captured("product", True)
    few.save(tmp_path / "few.trace")
    again = Trace.load(tmp_path / "few.trace")
    assert again.regular.held == few.regular.held
    assert warps_of(again) == warps_of(few)


def damage(few: Trace, **changed) -> Trace:
    first = few.regular.classes[0]
    classes = (replace(first, template=replace(first.template, **changed)), *few.regular.classes[1:])
    return replace(few, regular=replace(few.regular, classes=classes))


def test_a_damaged_trace_file_of_a_few_blocks_is_refused(tmp_path):
    few = captured("two_buffers", True)
    template = few.regular.classes[0].template
    wrong = {
        "iterations": 1 << 30,
        "path": template.path + 9,
        "pattern": template.pattern + 99,
        "place": template.place[:-1],
        "body": template.body[:, ::-1].copy(),
        "start": template.start + 1,
        "mask": template.mask[1:],
    }
    for name, value in wrong.items():
        damage(few, **{name: value}).save(tmp_path / "bad.trace")
        with pytest.raises(TraceFormatError, match=r"bad\.trace: class 0"):
            Trace.load(tmp_path / "bad.trace")
    replace(few, regular=replace(few.regular, held=(5, 3))).save(tmp_path / "bad.trace")
    with pytest.raises(TraceFormatError, match="not in order"):
        Trace.load(tmp_path / "bad.trace")


def ran(request: str):
    name, shape = parse_request(request)
    return run_case(name, shape, gpusim.load_gpu("a100_80gb"), sample=True)


def test_the_result_of_a_case_of_which_a_few_blocks_ran_is_not_checked():
    case = ran("saxpy:n=65536,block_threads=256")
    assert not case.checked
    assert case.why_unchecked == SAMPLED
    whole = ran("embedding_gather:tokens=128,columns=128")
    assert whole.checked
    assert not whole.why_unchecked
    assert whole.launches[-1].trace.why_whole.startswith("dependent")


def test_launches_before_one_that_depends_on_memory_run_whole():
    kernel, grid, block, args = launch("stencil")
    follows = launch("gather")
    launches = [CaseLaunch(*each) for each in ((kernel, grid, block, args), follows, (kernel, grid, block, args))]
    traces = [
        each.trace
        for each in capture_case(SimpleNamespace(launches=launches), gpusim.load_gpu("a100_80gb"), sample=True)
    ]
    assert [trace.regular is None for trace in traces] == [True, True, False]
    assert args[1].any()


def test_a_longer_loop_takes_no_more_memory(tmp_path):
    short, long = (captured("two_buffers", True, iterations=iterations) for iterations in (40, 4000))
    assert long.warp_instructions > 50 * short.warp_instructions
    assert len(long.regular.classes[0].template.place) == len(short.regular.classes[0].template.place)
    for name, trace in (("short", short), ("long", long)):
        trace.save(tmp_path / name)
    assert (tmp_path / "long").stat().st_size < 1.1 * (tmp_path / "short").stat().st_size


def test_what_a_few_blocks_wrote_is_put_back_in_arrays_of_two_gib_too() -> None:
    memory, large, small = DeviceMemory(), np.zeros((2 << 30) + 64, np.uint8), np.arange(1000)
    large[5] = 7
    for array in (large, small):
        memory.address_of(array)
    with kept_content(memory):
        large[5], large[-1], small[3] = 1, 9, -1
    assert (large[5], large[-1]) == (7, 0) and (small == np.arange(1000)).all()
