"""Which measured rows there are: of which GPUs, and whose set the figures of a generation."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gpusim.errors import NoDataError

_POWER_RUNS = "B200-SXM-180GB"
_STEP_US = 2.048
#: In which times of TensorRT-LLM's plugins on an A100 come, that were taken between two events without a graph: of
#: 3,026 learning rows of int4 weights 99.5 % lie within 0.01 us of a multiple, all within 0.05.
EVENT_STEP_US = 1.024
#: Names of measured GPUs -> descriptions.
GPUS = {"A100-SXM4-80GB": "a100_80gb", "H100-SXM5-80GB": "h100", _POWER_RUNS: "b200"}
#: Generations with figures of their own -> whose rows set them.
FITTED_GPUS = {"ampere": "a100_80gb", "hopper": "h100", "blackwell": "b200"}


def read_rows(path: Path) -> pd.DataFrame:
    """The file's rows; those of power runs, which are one GPU's and mark none as suspect, with both columns."""
    table = pd.read_csv(path)
    return table if "gpu" in table else table.assign(gpu=_POWER_RUNS, suspect=0)


def gemm_file(folder: Path, gpu: str) -> Path:
    """The measured products of ``gpu`` in ``folder``, which has gemm.csv.gz and, within or beside it, power/ with those
    of a B200."""
    return find_file(folder, "gemm.csv.gz", gpu)


def find_file(folder: Path, name: str, gpu: str) -> Path:
    """The file of ``gpu``'s rows that A100's and H100's are in ``name`` of."""
    if gpu == FITTED_GPUS["blackwell"]:
        name = f"power/b200_{name.replace('.csv', '_power.csv')}"
    for path in (folder / name, folder.parent / name):
        if path.exists():
            return path
    raise NoDataError(
        f"neither {folder} nor the folder beside it has {name}, the rows of {gpu}: give the folder of a checkout of the measurements"
    )


def half_step_us(gpu: str) -> float:
    """What a row of ``gpu`` is longer than its kernels on average: a B200's graphs of one call took multiples of 2.048
    us (nine of ten rows of 4 to 16 us lie within 0.12 us of one, where one of nine would), so that times come rounded
    up, by half a step in the mean."""
    return _STEP_US / 2 if gpu == FITTED_GPUS["blackwell"] else 0.0


def as_read(gpu: str, us: float, launches: int) -> float:
    """What a row of ``gpu`` shows of launches that take ``us`` each with what such rows are longer on average, so many
    of them in a graph: a B200's graphs took multiples of 2.048 us. Of rows of 16-bit products below 5 us 80 to 99 % lie
    within 0.06 of a multiple of 2.048 / 6 us (vLLM's graphs of six) or 2.048 / 5 (TensorRT-LLM's of five), of those of
    0.1 ms and more 12 %, as by chance. vLLM's graphs of NVFP4 had one call: 85 % of its rows of 5 to 15 us lie so near
    to a multiple of 2.048 us, 7 % of those of 60 us and more."""
    if gpu != FITTED_GPUS["blackwell"]:
        return us
    return in_steps(us, _STEP_US / launches)


def in_steps(us: float, step_us: float) -> float:
    """The nearest whole number of steps, at least one."""
    return max(1, round(us / step_us)) * step_us
