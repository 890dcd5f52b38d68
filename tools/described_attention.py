"""The constants of attention on a GPU that is only described (gpusim/tile/described_attention.toml), found on the
learning half of measured attention.

    python tools/described_attention.py FOLDER                          from all measured GPUs
    python tools/described_attention.py FOLDER --without hopper         from the others: what tools/other_figures.py judges
    python tools/described_attention.py FOLDER --rounds 0               the errors of the constants as they are

FOLDER: as tools/other_figures.py takes it. Each constant is changed in turn, by less and less, and kept where the mean
distance of the logarithms becomes less. vLLM's rows count of each GPU alike; TensorRT-LLM's of an A100 and an H100, for
one query token a sequence, a seventh as much: they alone tell of kernels of warps on a second GPU. A B200's rows come
in steps of 2.048 us, as if rounded up, so half a step is added to what is projected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import tile_attention
from operators.measured import FITTED_GPUS, find_file, half_step_us

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.report.tables import format_records
from gpusim.tile.attention import AttentionShape, one_head_a_block
from gpusim.tile.attention_figures import EACH_HEAD, attention_library_of
from gpusim.tile.described_attention import (
    AttentionConstants,
    attention_constants_of,
    described_attention,
    described_context,
)

_GENERATION = (
    "node_ns", "warps_start_ns", "groups_start_ns", "join_ns", "part_ns", "fill_share", "head_cycles", "dram_share", "warps_l2_rate_share", "groups_l2_rate_share", "l2_share", "missed_ns", "overlap_power",
)  # fmt: skip
_CONTEXT = ("context_node_ns", "context_start_ns", "rate", "exponential_share", "tail", "kv_passes", "head_passes")
_SEARCHED = {"generation": _GENERATION, "context": _CONTEXT}
_SHARES = ("dram_share", "warps_l2_rate_share", "groups_l2_rate_share", "l2_share", "rate")
_FIRST_CHANGE, _LEAST_CHANGE, _MOST_SHARE = 0.3, 0.02, 0.995
#: TensorRT-LLM's kernels on GPUs whose warps all load and multiply: launches, and what its kernels of a head a block
#: read more at once (twice as many bytes are under way).
_SHARED_NODES, _EACH_NODES, _EACH_READS = 2, 1, 2
_OTHER_WEIGHT = 0.15


@dataclass(frozen=True)
class Rows:
    """Measured shapes of a GPU, what their errors count, and the errors by constants."""

    gpu: str
    phase: str
    framework: str
    shapes: pd.DataFrame
    weight: float
    errors: Callable[[AttentionConstants], np.ndarray]


def described_errors(gpu: str, phase: str, shapes: pd.DataFrame, constants: AttentionConstants) -> np.ndarray:
    """Relative errors of vLLM's rows as ``constants`` have them, half a step of the rows' clock added."""
    spec = load_gpu(gpu)
    figures = described_attention(spec, constants) if phase == "generation" else described_context(spec, constants)
    return tile_attention.errors(gpu, shapes, figures) + half_step_us(gpu) / shapes.us.to_numpy()


def _of_warps(gpu: str, shapes: pd.DataFrame) -> Callable[[AttentionConstants], np.ndarray]:
    """Errors of TensorRT-LLM's rows by what the constants say of kernels of warps, whatever the GPU has."""
    spec, framework = load_gpu(gpu), "trtllm"
    generation, ghz = spec.generation, spec.clock_hz / 1e9
    known = attention_library_of(generation, framework)
    alone = np.array([
        one_head_a_block(spec, AttentionShape(batch, step + 1, *heads, framework=framework), known)
        for batch, step, *heads in shapes[list(tile_attention.SHAPE["generation"])].astype(int).itertuples(index=False)
    ])  # fmt: skip

    def errors(used: AttentionConstants) -> np.ndarray:
        off = np.zeros(len(shapes))
        for inside, rows, nodes, reads in ((~alone, (), _SHARED_NODES, 1), (alone, (EACH_HEAD,), _EACH_NODES, _EACH_READS)):  # fmt: skip
            figures = replace(
                attention_library_of(generation, framework, rows),
                launch_ns=nodes * used.node_ns, start_cycles=used.warps_start_ns * ghz, clock_mhz=1e3 * ghz, combine_cycles=used.join_ns * ghz,
                block_bytes_per_cycle=reads * used.fill_share * spec.l1.fill_bytes_per_cycle, head_cycles=used.head_cycles, dram_share=used.dram_share,
                l2_rate_share=used.warps_l2_rate_share, l2_share=used.l2_share,
            )  # fmt: skip
            off[inside] = tile_attention.errors(gpu, shapes[inside], figures, framework)
        return off

    return errors


def measured(folder: Path, phase: str, without: str | None, count: int) -> list[Rows]:
    """The learning halves' rows of a phase, but those of a generation that is left out."""
    found = []
    for generation, gpu in FITTED_GPUS.items():
        if generation == without:
            continue
        file = find_file(folder, f"attention_{phase}.csv.gz", gpu)
        shapes = tile_attention.measured_shapes(file, gpu, "vllm", False, count, phase)

        def errors(used: AttentionConstants, gpu: str = gpu, shapes: pd.DataFrame = shapes) -> np.ndarray:
            return described_errors(gpu, phase, shapes, used)

        found.append(Rows(gpu, phase, "vllm", shapes, 1.0, errors))
        if phase == "generation" and generation != "blackwell":
            others = tile_attention.measured_shapes(file, gpu, "trtllm", False, count, phase)
            found.append(Rows(gpu, phase, "trtllm", others, _OTHER_WEIGHT, _of_warps(gpu, others)))
    return found


def loss(rows: list[Rows], constants: AttentionConstants) -> float:
    """Weighted mean of the distance of logarithms, and a little of each GPU's mean."""
    off = [(each.weight, np.log1p(each.errors(constants))) for each in rows]
    total = sum(weight * (np.abs(each).mean() + 0.05 * abs(each.mean())) for weight, each in off)
    return float(total / sum(weight for weight, _ in off))


def fit(phase: str, rows: list[Rows], constants: AttentionConstants, rounds: int) -> AttentionConstants:
    """Constants of a phase with a smaller loss."""
    names = _SEARCHED[phase]
    change, best = dict.fromkeys(names, _FIRST_CHANGE), loss(rows, constants)
    with task("searching constants", rounds * len(names), "tries") as work:
        for tries in range(rounds * len(names)):
            name = names[tries % len(names)]
            for factor in (1 + change[name], 1 / (1 + change[name])):
                if change[name] < _LEAST_CHANGE:
                    break
                value = getattr(constants, name) * factor
                tried = replace(constants, **{name: min(value, _MOST_SHARE) if name in _SHARES else value})
                if (now := loss(rows, tried)) < best - 1e-5:
                    best, constants = now, tried
                    break
            else:
                change[name] /= 2
            work.to(tries + 1)
    return constants


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--without", type=click.Choice(sorted(FITTED_GPUS)), help="Leave this generation's rows out.")
@click.option("--shapes", "count", type=click.IntRange(1), default=100, show_default=True, help="Of each GPU, by hash.")
@click.option("--rounds", type=click.IntRange(0, 50), default=6, show_default=True, help="Of the search.")
def main(folder: Path, without: str | None, count: int, rounds: int) -> None:
    found, rows = attention_constants_of(f"without_{without}" if without else "all"), []
    with shown(sys.stderr):
        for phase in _SEARCHED:
            of_phase = measured(folder, phase, without, count)
            found = fit(phase, of_phase, found, rounds)
            rows += of_phase
    click.echo("\n".join(f"{name} = {value:.3g}" for name, value in asdict(found).items()))
    printed = [
        {
            "phase": each.phase, "gpu": each.gpu, "framework": each.framework,
            "mean_error_percent": round(100 * float(np.abs(off).mean()), 1),
            "signed_percent": round(100 * float(off.mean()), 1),
        }
        for each in rows for off in (each.errors(found),)
    ]  # fmt: skip
    click.echo("\n" + format_records(printed, "table"))


if __name__ == "__main__":
    main()
