"""Published latencies and rates of single instructions beside what kernels of the suite show on the simulated GPU.

    python tools/microbenchmarks.py [--gpu a100_80gb --gpu h100 ...] [--only mma] [--set KEY=VALUE] [--format
    table|json|csv|md]

Mental model: an :class:`Experiment` runs one kernel of the suite twice, the second time with more rounds, and divides
the difference in cycles by the difference in work, so that start, end and warming up do not count. A :class:`Figure`
is what somebody measured on a real GPU with a program of that form. The last columns are the signed error and whether
the figure is met: within one cycle or 3 %, or, for a figure that its own source makes doubtful, why it is not counted.
Exit code 1 if a figure that counts is missed and is not a known gap; a known gap that closed must leave its list.

Sources: A100RE is an A100-SXM4-40GB SASS-patching record (CUDA 12.4); JMS is Johnsonms/NVIDIA-Hopper-Benchmark (H100
SXM, CUDA 12.9); SIL is silencelamb/NVIDIA-BlackWell-Benchmark (B200, CUDA 12.8); LUO is arXiv 2402.13499 and
2501.12084; RRZE is RRZE-HPC/gpu-benches; UPC is Huerta et al., MICRO 2025, table 2 and section 5.4 (RTX A6000); JAR is
arXiv 2507.10789 (RTX 5080); SJF is sjfeng1999/gpu-arch-microbenchmark (RTX 2070).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.engine.result import LaunchResult
from gpusim.errors import GpusimError
from gpusim.gpus import load_gpu, override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import FORMATS, format_records

TOLERANCE_CYCLES, TOLERANCE_PERCENT = 1.0, 3.0
CYCLES, PER_CLOCK, NS = "cycles", "a clock and SM", "ns"


@dataclass(frozen=True)
class Experiment:
    """``kernel`` at ``shape`` with both numbers of ``rounds``. ``work`` names what of the case counts; the value is
    cycles a unit of it, or for a rate ``amount`` (results, flop, bytes of a unit) over that."""

    kernel: str
    shape: dict
    rounds: tuple[int, int]
    work: str = "steps_per_warp"
    amount: float = 0.0
    axis: str = "rounds"

    def value(self, gpu: GpuSpec) -> float:
        """Cycles a step, or amount a clock and SM."""
        cycles, work = [], []
        for rounds in self.rounds:
            case = make_case(self.kernel, self.shape | {self.axis: rounds}, gpu)
            launches = capture_case(case, gpu)
            case.check()
            timed = [launch.trace for launch in launches if launch.timed]
            warm = tuple(launch.trace for launch in launches if not launch.timed)
            again = simulate(timed + timed, gpu, warm=warm).launches[
                len(timed) :
            ]  # which find their code in the caches
            cycles.append(sum(launch.cycles for launch in again))
            work.append(case.work[self.work])
        each = (cycles[1] - cycles[0]) / (work[1] - work[0])
        return self.amount / each if self.amount else each


@dataclass(frozen=True)
class Difference:
    """What ``slow`` takes longer than ``fast``."""

    slow: Experiment
    fast: Experiment

    def value(self, gpu: GpuSpec) -> float:
        """Cycles a step."""
        return self.slow.value(gpu) - self.fast.value(gpu)


@dataclass(frozen=True)
class SmallKernel:
    """A chain of launches that scale ``elements`` doubles, 256 a block, from one array into another and back: ns
    each."""

    elements: int

    def value(self, gpu: GpuSpec) -> float:
        """Nanoseconds a launch whose code and data the caches hold."""
        return gpu.ns(sum(launch.cycles for launch in self.run(gpu)) / 2)

    def run(self, gpu: GpuSpec) -> tuple[LaunchResult, ...]:
        """The launch there and the one back, once the caches hold code and data."""
        case = make_case("stream_scale", {"n": self.elements, "block_threads": 256, "blocks_per_sm": 8}, gpu)
        (there,) = case.launches
        to, source, *rest = there.args
        back = replace(there, args=(source, to, *rest))
        traces = [launch.trace for launch in capture_case(replace(case, launches=(there, back)), gpu)]
        return simulate(traces * 2, gpu).launches[2:]


def latency(op: str) -> Experiment:
    """A chain of one instruction."""
    return Experiment("pipe_latency", {"op": op}, (4, 12))


def rate(op: str, amount_a_warp: float) -> Experiment:
    """Many warps of four chains; ``amount_a_warp`` of a warp instruction."""
    return Experiment("pipe_throughput", {"op": op}, (2, 6), "warp_steps", amount_a_warp)


def shared(width_bytes: int) -> Experiment:
    """A chain of shared loads whose results are addresses."""
    return Experiment("bank_conflicts", {"width_bytes": width_bytes}, (4, 12))


def shared_rate(width_bytes: int) -> Experiment:
    """Bytes a clock of shared loads without conflicts."""
    shape = {"width_bytes": width_bytes, "block_threads": 1024}
    return Experiment("bank_conflicts", shape, (2, 6), "warp_accesses", 32.0 * width_bytes)


def product(shape: str) -> Experiment:
    """A chain of warp-wide products."""
    return Experiment("tensor_pipe", {"shape": shape}, (4, 12))


def product_rate(shape: str, flops: float) -> Experiment:
    """Flop a clock of sixteen warps of products."""
    shape_ = {"shape": shape, "chains": 4, "block_threads": 512}
    return Experiment("tensor_pipe", shape_, (2, 6), "warp_steps", flops)


def constants(table_bytes: int) -> Experiment:
    """A chain of constant loads through a table, a line each."""
    return Experiment("constant_cache", {"addresses": 1, "table_bytes": table_bytes}, (64, 192))


CHASE_L1 = Experiment("pointer_chase", {"buffer_kib": 16}, (2048, 6144), "loads", axis="loads")
CHASE_L2 = Experiment("pointer_chase", {"buffer_kib": 4096}, (32768, 40960), "loads", axis="loads")
SHARED_CHASE = Experiment("shared_chase", {}, (4, 12))
CONSTANT_MISS = Difference(constants(8192), constants(1024))
L1_BYTES = Experiment(
    "l1_stride",
    {"pattern": "stride", "width_or_stride": 1, "dtype": "float32"},
    (40, 160),
    "warp_loads",
    128.0,
    "iterations",
)


@dataclass(frozen=True)
class Figure:
    """What ``source`` measured on ``gpu``. ``doubt``: why the figure does not count, empty if it does;
    ``gap``: why the model misses it, empty if it should not."""

    gpu: str
    name: str
    experiment: Experiment | Difference | SmallKernel
    published: float
    source: str
    unit: str = CYCLES
    doubt: str = ""
    gap: str = ""

    def met(self, value: float) -> bool:
        """Within one cycle (of a latency) or 3 %."""
        close = abs(value - self.published) <= TOLERANCE_CYCLES and self.unit == CYCLES
        return close or abs(value / self.published - 1) * 100 <= TOLERANCE_PERCENT


def _each(gpu: str, ops: str, published: float, source: str, **more: str) -> Iterator[Figure]:
    for op in ops.split():
        yield Figure(gpu, f"{op} latency", latency(op), published, source, **more)


_SUSPECT = "the same suite prints 4.07 on H100, and XLA's FP32 add takes equally long on both"
_F16 = 16 * 8 * 16 * 2.0
_PROGRAM = "another program than RRZE's; they differ by 5 to 10 cycles"
_A100_SM_FLOP = 310.6e12 / 108 / 1.41e9
_H800_SM_FLOP = 494.4e12 / 114 / 1.755e9

_EVERY_SM = "later blocks of an SM take silicon as long as its first one"
#: gpu-small-kernels with CUDA graphs, blocks of 256: elements and GB/s of 16 bytes an element.
_GRAPH_GB_PER_S = {
    "a100_80gb": ((4096, 49.0, ""), (16350, 186.0, ""), (65320, 651.0, "")),
    "h200": ((4096, 51.0, ""), (15625, 190.0, ""), (67031, 740.0, "")),
    "a40": ((4096, 58.0, ""), (15625, 211.0, ""), (63237, 687.0, "")),
    "l40": ((4096, 68.0, ""), (16350, 257.0, ""), (65320, 828.0, _EVERY_SM)),
}

FIGURES = (
    *_each("a100_80gb", "fadd ffma iadd imad lop3", 4.0, "A100RE"),
    Figure("a100_80gb", "L1 hit", CHASE_L1, 33.2, "RRZE"),
    Figure("a100_80gb", "L1 bytes", L1_BYTES, 125.5, "RRZE", PER_CLOCK),
    Figure("a100_80gb", "near L2 hit", CHASE_L2, 205.6, "RRZE"),
    Figure("a100_80gb", "shared load, indexed", SHARED_CHASE, 29.0, "LUO"),
    Figure("a100_80gb", "mma m16n8k16 f16", product("m16n8k16_f16"), 24.6, "LUO"),
    Figure(
        "a100_80gb",
        "mma m16n8k32 s8",
        product("m16n8k32_s8"),
        26.0,
        "LUO",
        gap="the compiler waits 24 cycles, and the result is there by then",
    ),
    Figure("a100_80gb", "mma m16n8k16 f16 rate", product_rate("m16n8k16_f16", _F16), _A100_SM_FLOP, "LUO", PER_CLOCK),
    *_each("h100", "fadd fmul ffma", 4.07, "JMS"),
    *_each("h100", "iadd imad lop3", 4.12, "JMS"),
    *_each("h100", "hfma2", 8.52, "JMS", doubt="the suite's chain of halves, not HFMA2 alone"),
    *_each("h100", "dadd dmul dfma", 8.04, "JMS"),
    *_each(
        "h100", "imad64", 10.06, "JMS", doubt="a chain of additions and multiplications of which it does not say more"
    ),
    Figure("h100", "shared load, indexed", SHARED_CHASE, 29.015, "JMS"),
    Figure("h100", "FP32 flop", rate("ffma", 64), 248.3, "JMS", PER_CLOCK),
    Figure("h100", "FP64 flop", rate("dfma", 64), 126.25, "JMS", PER_CLOCK),
    Figure("h100", "INT32 op, multiply-add two", rate("imad", 64), 126.9, "JMS", PER_CLOCK),
    Figure("h100", "shared bytes", shared_rate(4), 127.5, "JMS", PER_CLOCK),
    Figure("h100", "L1 bytes", L1_BYTES, 125.7, "JMS", PER_CLOCK),
    Figure("h100", "mma m16n8k16 f16", product("m16n8k16_f16"), 24.1, "LUO, H800"),
    Figure("h100", "mma m16n8k32 s8", product("m16n8k32_s8"), 24.0, "LUO, H800"),
    Figure("h100", "mma m16n8k16 f16 rate", product_rate("m16n8k16_f16", _F16), _H800_SM_FLOP, "LUO, H800", PER_CLOCK),
    Figure("gh200", "L1 hit", CHASE_L1, 32.2, "RRZE"),
    Figure("gh200", "near L2 hit", CHASE_L2, 280.4, "RRZE"),
    *_each("b200", "fadd fmul ffma", 8.55, "SIL", doubt=_SUSPECT),
    *_each("b200", "iadd imad lop3", 4.20, "SIL"),
    *_each("b200", "hfma2", 8.56, "SIL", doubt="the suite's chain of halves, not HFMA2 alone"),
    *_each("b200", "dadd dmul dfma", 10.27, "SIL"),
    Figure("b200", "L1 hit", CHASE_L1, 34.1, "SIL", doubt=_PROGRAM),
    Figure("b200", "shared load, indexed", SHARED_CHASE, 28.6, "SIL"),
    Figure("b200", "FP32 flop", rate("ffma", 64), 242.9, "SIL", PER_CLOCK),
    Figure("b200", "FP64 flop", rate("dfma", 64), 125.4, "SIL", PER_CLOCK),
    Figure("b200", "INT32 op, multiply-add two", rate("imad", 64), 126.0, "SIL", PER_CLOCK),
    Figure(
        "b200",
        "shared bytes",
        shared_rate(4),
        127.75,
        "SIL",
        PER_CLOCK,
        gap="the difference of two launches that end differently: 4 % above what the banks give",
    ),
    Figure("b200", "L1 bytes", L1_BYTES, 127.0, "SIL", PER_CLOCK),
    Figure("b200", "near L2 hit", CHASE_L2, 297.7, "SIL", doubt=_PROGRAM),
    Figure("a40", "shared load, 4 bytes", shared(4), 24.0, "UPC"),
    Figure("a40", "shared load, 8 bytes", shared(8), 24.0, "UPC"),
    Figure("a40", "shared load, 16 bytes", shared(16), 26.0, "UPC"),
    Figure("a40", "global load, 8 bytes, L1 hit", CHASE_L1, 34.0, "UPC"),
    Figure("a40", "constant line missed", CONSTANT_MISS, 79.0, "UPC"),
    Figure("a40", "L1 bytes", L1_BYTES, 64.0, "RRZE", PER_CLOCK),
    Figure("t4", "L1 hit", CHASE_L1, 32.0, "SJF, RTX 2070"),
    Figure("t4", "shared load, 4 bytes", shared(4), 23.0, "SJF, RTX 2070"),
    Figure("l40", "L1 hit", CHASE_L1, 34.1, "RRZE"),
    Figure("l40", "L1 bytes", L1_BYTES, 64.0, "RRZE", PER_CLOCK),
    Figure("l40", "L2 hit", CHASE_L2, 273.6, "RRZE"),
    *_each("rtx5090", "ffma iadd", 4.0, "JAR, RTX 5080"),
    *_each("rtx5090", "dfma", 63.57, "JAR, RTX 5080"),
    *(
        Figure(
            gpu, f"launch of {elements:,} elements", SmallKernel(elements), elements * 16 / rate, "RRZE", NS, gap=gap
        )
        for gpu, rows in _GRAPH_GB_PER_S.items()
        for elements, rate, gap in rows
    ),
)


def measure(figures: tuple[Figure, ...], settings: tuple[str, ...] = ()) -> Iterator[tuple[Figure, float]]:
    """Each figure with what the simulated GPU shows; equal experiments of a GPU run once."""
    known: dict[tuple[str, str], float] = {}
    for figure in figures:
        key = figure.gpu, repr(figure.experiment)
        if key not in known:
            known[key] = figure.experiment.value(override_gpu(load_gpu(figure.gpu), settings))
        yield figure, known[key]


def verdict(figure: Figure, value: float) -> str:
    """One word, or a word and why."""
    if figure.doubt:
        return f"not counted: {figure.doubt}"
    if figure.met(value):
        return "closed gap" if figure.gap else "met"
    return f"known gap: {figure.gap}" if figure.gap else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu", action="append", help="only these GPUs (repeatable)")
    parser.add_argument("--only", help="only figures whose name contains this text")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--format", choices=FORMATS, default="table")
    options = parser.parse_args()
    chosen = tuple(f for f in FIGURES if (not options.gpu or f.gpu in options.gpu) and (options.only or "") in f.name)
    if not chosen:
        print(f"no figure of {options.gpu or 'any GPU'} is called {options.only!r}", file=sys.stderr)
        return 2
    records, failed = [], False
    try:
        for figure, value in measure(chosen, tuple(options.settings)):
            print(f"{figure.gpu}: {figure.name}", file=sys.stderr)
            word = verdict(figure, value)
            failed |= word in ("missed", "closed gap")
            records.append(
                {
                    "gpu": figure.gpu,
                    "figure": figure.name,
                    "unit": figure.unit,
                    "published": figure.published,
                    "source": figure.source,
                    "simulated": value,
                    "error_percent": 100 * (value / figure.published - 1),
                    "verdict": word,
                }
            )
    except GpusimError as error:
        print(f"microbenchmarks: {error}", file=sys.stderr)
        return error.exit_code
    print(format_records(records, options.format))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
