"""How fast an SM does each kind of native arithmetic: simulated beside what NVIDIA documents.

    python tools/arithmetic_rates.py [GPU ...] [--only WORD] [--all] [--format table|json|csv|md]

Mental model: a row of the table "Throughput of native arithmetic instructions" (CUDA C++ Programming Guide to 12.9,
Best Practices Guide since) is one PTX statement here, of which sixteen warps of one SM each run eight chains side by
side; its rate is that of more rounds of a loop of 128 statements, so that starting and ending do not count. Results are
the statement's (a packed one has two a lane), as the table counts them; what the compiler makes of it stands beside.
``documented`` is by compute capability; None: no row, or several instructions. Rates of a GPU whose board is cut (H20,
H800: FP64) differ.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import gpusim
from gpusim.gpus.load import load_gpu
from gpusim.model.stall_reasons import SELECTED
from gpusim.report.tables import FORMATS, format_records
from workloads.external.launches import CudaKernel

#: A GPU of each capability that the table has and whose arithmetic is not cut.
GPUS = ("v100", "rtx2080ti", "a100_80gb", "rtx3090", "l40", "h100", "b200", "rtx5090")
CAPABILITIES = ((7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
THREADS, CHAINS, STATEMENTS, FEW, MANY = 512, 8, 128, 2, 6
WARP_LANES = 32
_LETTER = {"float": "f", "double": "d", "unsigned": "r", "unsigned long long": "l"}


@dataclass(frozen=True)
class Row:
    """``ptx``: one statement on the chain %0 and the operands %1 and %2. ``results``: of a lane. ``documented``:
    results a clock and SM by capability, as in CAPABILITIES. ``least``: the capability from which on the statement
    exists."""

    name: str
    ptx: str
    documented: tuple[float | None, ...]
    kind: str = "unsigned"
    results: int = 1
    least: tuple[int, int] = (7, 0)


def _on_all(rate: float) -> tuple[float, ...]:
    return (rate,) * len(CAPABILITIES)


_FP32 = (64, 64, 64, 128, 128, 128, 128, 128)
_FP64 = (32, 2, 32, 2, 2, 64, 64, 2)
#: 10.0: the Best Practices Guide of CUDA 13 has 64 add.f16x2 (XLA's cuda_core_info_table.cc follows it), that of 12.9
#: said 256; 12.0 alike.
_HALF = (128, 128, 256, 128, 128, 256, 128, 128)
_BFLOAT = (None, None, 128, 128, 128, 256, 128, 128)
_WIDE = (16, 2, 16, 2, 2, 16, 16, 2)

ROWS = (
    Row("half add", "add.rn.f16x2 %0, %0, %1;", _HALF, results=2),
    Row("half multiply", "mul.rn.f16x2 %0, %0, %1;", _HALF, results=2),
    Row("half multiply-add", "fma.rn.f16x2 %0, %0, %1, %2;", _HALF, results=2),
    Row("bfloat16 multiply-add", "fma.rn.bf16x2 %0, %0, %1, %2;", _BFLOAT, results=2, least=(8, 0)),
    Row("FP32 add", "add.rn.f32 %0, %0, %1;", _FP32, "float"),
    Row("FP32 multiply", "mul.rn.f32 %0, %0, %1;", _FP32, "float"),
    Row("FP32 multiply-add", "fma.rn.f32 %0, %0, %1, %2;", _FP32, "float"),
    Row("FP32 pairs multiply-add", "fma.rn.f32x2 %0, %0, %1, %2;", (None,) * 6 + (128, 128), "unsigned long long", 2, (10, 0)),
    Row("FP64 add", "add.rn.f64 %0, %0, %1;", _FP64, "double"),
    Row("FP64 multiply-add", "fma.rn.f64 %0, %0, %1, %2;", _FP64, "double"),
    Row("reciprocal", "{.reg .f32 t; rcp.approx.ftz.f32 t, %0; add.ftz.f32 %0, t, %1;}", _on_all(16), "float"),
    Row("reciprocal square root", "rsqrt.approx.ftz.f32 %0, %0;", _on_all(16), "float"),
    Row("base-2 logarithm", "lg2.approx.ftz.f32 %0, %0;", _on_all(16), "float"),
    Row("base-2 exponential", "ex2.approx.ftz.f32 %0, %0;", _on_all(16), "float"),
    Row("integer add and logic", "{.reg .u32 t; xor.b32 t, %0, %1; add.u32 %0, t, %2;}", (None,) * 8),
    Row("integer multiply-add", "mad.lo.u32 %0, %0, %1, %2;", _on_all(64)),
    Row("integer multiply, 64-bit product", "{.reg .u64 t; mul.wide.u32 t, %0, %1; cvt.u32.u64 %0, t; shr.u64 t, t, 32; cvt.u32.u64 %0, t;}", _on_all(32)),
    Row("integer add and minimum", "{.reg .u32 t; min.u32 t, %0, %1; add.u32 %0, t, %2;}", (None,) * 7 + (64,)),
    Row("FP32 minimum", "{min.f32 %0, %0, %1; max.f32 %0, %0, %2;}", (64,) * 6 + (64, 128), "float", 2),
    Row("logic", "lop3.b32 %0, %0, %1, %2, 0x96;", _on_all(64)),
    Row("shift", "shf.l.wrap.b32 %0, %0, %1, %2;", _on_all(64)),
    Row("byte permute", "prmt.b32 %0, %0, %1, 0x6123;", _on_all(64)),
    Row("sum of absolute difference", "sad.u32 %0, %0, %1, %2;", _on_all(64)),
    Row("bit reverse", "brev.b32 %0, %0;", _on_all(16)),
    Row("population count", "popc.b32 %0, %0;", _on_all(16)),
    Row("leading zeros", "bfind.u32 %0, %0;", _on_all(16)),
    Row("half to FP32", "{.reg .b16 l, h; mov.b32 {l, h}, %0; cvt.f32.f16 %0, l;}", (None, None, 64, 64, 64, 64, 64, 64)),
    Row("FP32 to integer", "cvt.rni.s32.f32 %0, %0;", (16, 16, 16, 16, 16, 16, 16, None)),
    Row("FP64 to FP32 and back", "{.reg .f32 t; cvt.rn.f32.f64 t, %0; cvt.f64.f32 %0, t;}", tuple(w / 2 for w in _WIDE), "double"),
    Row("warp vote", "{.reg .pred p; setp.ne.u32 p, %0, 0; vote.sync.ballot.b32 %0, p, 0xffffffff;}", (None,) * 8),
    Row("shuffle", "shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;", (32, 16, 32, 32, 32, 32, 32, 32)),
    Row("warp reduction", "redux.sync.add.u32 %0, %0, 0xffffffff;", (None, None, 16, 16, 16, 16, 16, 16), least=(8, 0)),
    Row("dot product of bytes", "dp4a.u32.u32 %0, %0, %1, %2;", (None,) * 8),
)  # fmt: skip


def source_of(row: Row) -> str:
    """CUDA C++ of the row's kernel. Operands come as arguments, so that the compiler does not know them."""
    letter, kind = _LETTER[row.kind], row.kind
    statement = row.ptx.replace("\n", " ")
    lines = [
        f'        asm volatile("{statement}" : "+{letter}"(x[{i % CHAINS}]) : "{letter}"(a), "{letter}"(b));'
        for i in range(STATEMENTS)
    ]
    return "\n".join(
        [
            f'extern "C" __global__ void rate({kind} *out, {kind} a, {kind} b, int rounds)', "{",
            f"    {kind} x[{CHAINS}];",
            f"    for (int i = 0; i < {CHAINS}; ++i) x[i] = ({kind})(threadIdx.x + i + 1);",
            "    #pragma unroll 1", "    for (int round = 0; round < rounds; ++round) {", *lines, "    }",
            f"    {kind} sum = x[0];", f"    for (int i = 1; i < {CHAINS}; ++i) sum += x[i];",
            "    out[threadIdx.x] = sum;", "}",
        ]
    )  # fmt: skip


def simulated(row: Row, gpu: str, folder: Path) -> tuple[float, dict[str, float]]:
    """(results a clock and SM, instructions of the loop a statement by mnemonic)."""
    spec = load_gpu(gpu)
    path = folder / (row.name.replace(" ", "_") + ".cu")
    path.write_text(source_of(row))
    dtype = {"float": np.float32, "double": np.float64, "unsigned": np.uint32}.get(row.kind, np.uint64)
    cycles, issued = [], []
    for rounds in (FEW, MANY):
        args = (np.zeros(THREADS, dtype), dtype(3), dtype(5), np.int32(rounds))
        launch = gpusim.capture(CudaKernel(path, "rate"), (1,), (THREADS,), args, gpu=spec)
        result = gpusim.simulate(launch, gpu=spec)
        cycles.append(result.cycles)
        counts: Counter[str] = Counter()
        (run,) = result.launches
        for text, number in zip(run.program.texts, run.stalls_by_instruction[:, SELECTED].tolist(), strict=True):
            words = [word for word in text.split() if not word.startswith("@")]
            counts[words[0].rstrip(";")] += number
        issued.append(counts)
    warps = THREADS // WARP_LANES
    statements = warps * STATEMENTS * (MANY - FEW)
    extra = {name: (issued[1][name] - issued[0][name]) / statements for name in issued[1]}
    return statements * WARP_LANES * row.results / max(1, cycles[1] - cycles[0]), extra


def compared(gpu: str, only: str = "") -> list[dict[str, object]]:
    """A record a row: simulated and documented rate, and what the compiler made of the statement."""
    capability = tuple(load_gpu(gpu).capability)
    records: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if only not in row.name or capability < row.least:
                continue
            rate, instructions = simulated(row, gpu, Path(folder))
            documented = row.documented[CAPABILITIES.index(capability)]
            made = ", ".join(f"{share:.2g} {name}" for name, share in sorted(instructions.items()) if share > 0.02)
            off = None if documented is None else f"{100 * (rate / documented - 1):+.0f} %"
            records.append(
                {"gpu": gpu, "row": row.name, "simulated": round(rate, 1), "documented": documented, "off": off, "instructions a statement": made}
            )  # fmt: skip
    return records


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("gpus", nargs=-1, metavar="[GPU ...]")
@click.option("--only", default="", help="rows whose name holds this")
@click.option("--all", "everything", is_flag=True, help="also rows within 5 % of what is documented")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpus: tuple[str, ...], only: str, everything: bool, form: str) -> None:
    """Print simulated and documented results a clock and SM, of a GPU of each generation or of those named.

    Example:
      python tools/arithmetic_rates.py h100 --only half --all
    """
    records = [record for gpu in gpus or GPUS for record in compared(gpu, only)]
    if not everything:
        records = [
            each for each in records if each["off"] not in ("+0 %", "-0 %", "-1 %", "+1 %", "-2 %", "-3 %", "-4 %")
        ]
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
