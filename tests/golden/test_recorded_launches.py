"""Pinned cycles of recorded launches: did a change move what the model says, and was that meant?

The traces under ``traces/recorded`` are fixed input, so that these figures depend on the engine and on the
GPU files alone. A change that moves them on purpose pins the new figure and says why in its commit. They
are small launches from cold caches, so most of each is fixed cost: the launch's own start and end
(``launch.start_cycles``, ``launch.end_cycles``), code and constants that no cache holds yet, then for saxpy one
round trip to DRAM; softmax and histogram
add a second trip and their barriers; the tiled product makes a trip for every tile.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import Trace

FOLDER = Path(__file__).parents[2] / "traces" / "recorded"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())["traces"]

CYCLES = {
    "saxpy-a100_80gb.trace": 2454,
    "softmax-a100_80gb.trace": 8186,
    "histogram-a100_80gb.trace": 7277,
    "matmul_tiled-a100_80gb.trace": 5977,
    "saxpy-h200.trace": 3285,
    "softmax-h200.trace": 10062,
    "histogram-h200.trace": 8798,
    "matmul_tiled-h200.trace": 7755,
}


def test_every_recorded_trace_is_pinned_and_as_its_manifest_says():
    assert {entry["file"] for entry in MANIFEST} == set(CYCLES) == {path.name for path in FOLDER.glob("*.trace")}
    for entry in MANIFEST:
        data = (FOLDER / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], entry["file"]


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_a_recorded_launch_takes_its_pinned_cycles(entry):
    trace = Trace.load(FOLDER / entry["file"])
    result = simulate(trace, entry["gpu"])
    assert result.stalls["selected"] == entry["warp_instructions"]
    assert result.cycles == CYCLES[entry["file"]]


@pytest.mark.parametrize("gpu_name", ["a100_80gb", "h200"])
def test_a_cold_saxpy_is_its_launch_and_one_trip_to_dram(gpu_name):
    gpu = load_gpu(gpu_name)
    code = replace(gpu.instruction_cache, l0_miss_cycles=0, l1_miss_cycles=0, l1_interval_cycles=0)
    gpu = replace(gpu, instruction_cache=code, constant_cache=replace(gpu.constant_cache, miss_cycles=0))
    cycles = simulate(Trace.load(FOLDER / f"saxpy-{gpu_name}.trace"), gpu).cycles
    near_ns = gpu.crossbar.request_latency_ns + gpu.dram.miss_latency_ns + gpu.crossbar.response_latency_ns
    near = gpu.l1.hit_latency_cycles + gpu.cycles(near_ns)
    far = near + gpu.cycles(gpu.l2.hit_latency_ns + gpu.l2.far_miss_extra_ns)
    inner = cycles - gpu.launch.start_cycles - gpu.launch.end_cycles
    # A second dependent trip would show; its instructions and its stores take less than a trip.
    assert near < inner < 2 * far


def test_a_flush_leaves_lines_that_are_written_back_for_what_the_launch_brings():
    trace = Trace.load(FOLDER / "softmax-h200.trace")
    swept, flushed, again = (simulate(trace, "h200", code=trace, flush=flush) for flush in (False, True, True))
    assert flushed.counters["dram__bytes_read.sum"] == swept.counters["dram__bytes_read.sum"]
    # For the lines that come others go, in whole: at least as many bytes as are read, where nothing went before.
    assert swept.counters["dram__bytes_write.sum"] < swept.counters["dram__bytes_read.sum"]
    assert flushed.counters["dram__bytes_write.sum"] >= swept.counters["dram__bytes_read.sum"] / 2
    assert flushed.cycles >= swept.cycles and flushed.cycles == again.cycles
