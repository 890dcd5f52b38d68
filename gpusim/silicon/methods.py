"""What measuring methods report of a launch: the state of L2 in which they find it, and what their clock reads besides
the launch.

Mental model: gpusim predicts the launch, from its start by the front end to its end. A method brings L2 into a state
first, and reads a clock that stands around the launch, so that what it reports is the launch in that state and a
constant, which matters below some ten microseconds. Methods are named as the tools name themselves.

The constants are none of NVIDIA's: no document says what two events or a profiler add. ``tools/cold_launches.py`` and
``tools/profiled_launches.py`` print what they come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.silicon.row import SiliconRow

#: Two CUDA events with one launch between them report so much more than the launch takes: the first event's time is
#: taken before the front end begins to prepare the launch, the second's when the launch's writes are visible. Five rows
#: of 3.5 to 4 us of `textbook_rtx3080` (learning half, NVBench): 2.0 to 2.2 us; a fill of 64 KiB on an RTX 5090 2.0
#: (NVIDIA/nvbench issue 270); on that GPU events count whole microseconds. An A40's events report of a launch of 132 us
#: 1.8 more than Nsight Systems, which adds 0.3 itself (below).
EVENTS_US = 2.1
#: On a Hopper so much: launches of 64 to 192 KiB behind NVBench's memset (transforms_cold, learning half) take 0.40 us
#: (a fill, GH200), 0.39 and 0.48 (sums of two arrays, H100 PCIe) more than the launch and 2.1; two of three arrays 0.74
#: and 1.18, which scatter by 2 to 4 %. What it is, is not known: constants and code that the memset has sent from L2
#: would be a miss to DRAM, 0.2 us each (docs/validation/notes/cores.md).
HOPPER_EVENTS_US = 2.5
#: And so much where nothing holds the stream, as in Triton's do_bench: why it is more is a guess (the second command
#: comes when the first has run). Two events with an empty Triton kernel between them report 4.54 and 4.70 us on an
#: H100, with nothing 2.91 (meta-pytorch/tritonbench pull requests 38 and 146, ``launch_latency``), and its launch is
#: 0.69 us of that. It is no matter of the GPU: what small sums in Triton's tutorial take beyond the launch is 3.9 us on
#: a V100, 3.5 on a T4 (of 2^19 elements), 4.0 on an H20 and on an A100 (of 2^16). Of an empty kernel an A40's events
#: report 4.25 us, 3.7 more than the launch takes.
UNHELD_EVENTS_US = 3.9
#: A launch right behind another in a stream takes so much longer than in a CUDA graph, to which ``launch.start_cycles``
#: is fitted. NVBench's batches of fills of 64 KiB, 1 and 16 MiB on an RTX 5090 (the same issue): 2.17, 2.12 and 4.96
#: us, 1.36, 1.17 and 1.78 more than a chain of them is predicted at. Launches that may begin before the one before has
#: ended (programmatic dependent launches) do not show it: NVIDIA/cccl pull request 5249 gave a transform that
#: attribute, and batches of 2^16, 2^20 and 2^24 floats went from 4.09, 4.51 and 41.0 to 1.89, 2.99 and 39.4 us. CUPTI's
#: records of an A100's launches that wait for each other lie 1.1 us apart, which with what its stamps add is 1.4.
STREAM_GAP_US = 1.3

#: Nsight Compute counts so many cycles of the SMs' clock more than the launch takes. All of them lie outside the SMs:
#: an A40 counts 2,526 cycles (the mean of ten launches) for a kernel that does nothing, an SM is busy in 367 of them,
#: and 8,497 and 6,317 for another of one block; on A100s at 0.74, 0.76 and 1.12 GHz alike 2,130 to 2,220 lie outside,
#: so they go with that clock. More than the model has outside its SMs, whole launches differ by 1,278 (A40), 1,278 to
#: 1,408 (A100, one and four blocks; 1,541 of 196), 904 to 926 (RTX 3060) and, of two counts of one launch, 1,416 and
#: 2,215 (RTX 3090): smaller dies seem to take less, no Hopper and no Blackwell was found. What it is, is not known: no
#: latency of DRAM, which would not go with that clock.
NCU_CYCLES = 1280
#: What CUPTI's kernel records (Nsight Systems, torch.profiler) have more than the launch: the same empty kernel on the
#: same A40 takes 0.90 us in Nsight Systems and 0.59 here. It is one constant for want of more: a sum of ten elements on
#: an A100 has 0.60 more (1.81 us, 1,010 launches, 0.04 of deviation), fills by another A100 0.1 to 0.3, an Ada GPU's
#: nodes of graphs 0.0 to 0.2; older programs' much more (fills by a V100 1.0, by an A100 with a profiler of 2023 2.0),
#: which whole microseconds hide. Between two launches of a stream lie 1.1 us there, whatever runs; how long the stream
#: was idle before does not show.
CUPTI_US = 0.3

#: States of L2 before the launch: what the launches before left; nothing of anybody (and no code in any cache);
#: overwritten as the method says.
WARM, ALONE, OVERWRITTEN, FLUSHED = "warm", "alone", "overwritten", "flushed"


@dataclass(frozen=True)
class MeasuringMethod:
    """``reports`` says in words what is timed, ``state`` in which state L2 is; ``added_us``: what is reported besides
    the launch, microseconds, ``added`` says of what; ``added_on``: the same of generations that take
    another time; ``added_cycles``: and cycles of the SMs' clock for each launch; ``between_us``: what lies between two
    launches of one repeat, where there are several."""

    name: str
    reports: str
    state: str
    added_us: float = 0.0
    added: str = ""
    between_us: float = 0.0
    added_cycles: int = 0
    added_on: tuple[tuple[str, float], ...] = ()

    def besides_us(self, clock_hz: float, launches: int = 1, generation: str = "") -> float:
        """What is reported besides so many launches that are timed together, by a GPU of that clock and
        generation."""
        added_us = dict(self.added_on).get(generation, self.added_us)
        return added_us + launches * 1e6 * self.added_cycles / clock_hz + (launches - 1) * self.between_us


_EVENTS_ON = (("hopper", HOPPER_EVENTS_US),)
METHODS = {
    method.name: method
    for method in (
        MeasuringMethod(
            "nvbench-cold",
            "NVBench's cold measurement: as many bytes as L2 holds are set to zero before each launch, two CUDA events behind a kernel that holds the stream",
            OVERWRITTEN, EVENTS_US, "the two events", STREAM_GAP_US, added_on=_EVENTS_ON,
        ),
        MeasuringMethod(
            "nvbench-batch", "NVBench's batch: launches one behind another in a stream, between two CUDA events", WARM, STREAM_GAP_US, "a launch in a stream", STREAM_GAP_US,
        ),
        MeasuringMethod(
            "nvbench-batch-dependent",
            "NVBench's batch of programmatic dependent launches: a launch is prepared while the one before runs, which hides what lies between two in a stream",
            WARM,
        ),
        MeasuringMethod(
            "do_bench", "Triton's do_bench: a buffer of 256 MB is zeroed right before each launch, two CUDA events", FLUSHED, UNHELD_EVENTS_US, "the two events", STREAM_GAP_US,
        ),
        MeasuringMethod("do_bench_cudagraph", "Triton's do_bench_cudagraph: a CUDA graph of launches one behind another", WARM),
        MeasuringMethod("events", "two CUDA events around each of several launches, which are enqueued in time", WARM, EVENTS_US, "the two events", STREAM_GAP_US, added_on=_EVENTS_ON),
        MeasuringMethod(
            "events-alone", "two CUDA events around one launch into a stream that has run dry, which nothing holds", WARM, UNHELD_EVENTS_US, "the two events", STREAM_GAP_US,
        ),
        MeasuringMethod(
            "events-behind-memset", "two CUDA events around one launch right behind a memset of as many bytes as L2 holds", OVERWRITTEN, UNHELD_EVENTS_US, "the two events", STREAM_GAP_US,
        ),
        MeasuringMethod("events-loop", "launches one behind another in a stream, between two CUDA events", WARM, STREAM_GAP_US, "a launch in a stream", STREAM_GAP_US),
        MeasuringMethod("nsys", "Nsight Systems' duration of a launch, as CUPTI records it for torch.profiler, too", WARM, CUPTI_US, "CUPTI's time stamps", CUPTI_US),
        MeasuringMethod(
            "ncu", "Nsight Compute's gpu__time_duration: caches are emptied before each launch; by its default the SMs run at their base clock", ALONE,
            added="what its counters see outside the SMs", added_cycles=NCU_CYCLES,
        ),
    )
}  # fmt: skip


def method_named(name: str) -> MeasuringMethod:
    """The method of that name. Raises UsageError."""
    if name not in METHODS:
        raise UsageError(f"there is no measuring method {name!r}; {hint(name, METHODS)}")
    return METHODS[name]


def method_of(row: SiliconRow) -> MeasuringMethod | None:
    """The method by which a row was measured, None where that is not known. What lies between CUPTI's stamps does not
    depend on the state of L2, which such a row states itself."""
    if row.method == "ncu":
        return METHODS["ncu"] if row.cache in ("cold", "") else None
    if row.method == "cupti":
        return METHODS["nsys"]
    if row.method == "imported" and row.toolchain.split(" ")[0] == "nvbench":
        return METHODS["nvbench-cold" if row.cache == "cold" else "nvbench-batch"]
    return None
