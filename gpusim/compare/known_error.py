"""What the model is known to miss by on a GPU: its errors against published measurements, as last recorded.

Mental model: a divergence from silicon is news only beyond what the calibration is known to miss. The errors of each
published series and GPU lie in ``traces/published/model_error.json``, written by ``tools/record_model_error.py``; a kernel that
is itself a series has that series' error, any other one the largest of its GPU. A GPU with no published series has no known error: then the
tolerance alone decides.

Raises UsageError for a damaged file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

from gpusim.compare.error import Summary
from gpusim.compare.judge import KnownError
from gpusim.errors import UsageError
from gpusim.io.whole_file import write_whole
from gpusim.silicon.published import published_folder

FILE = "model_error.json"


def known_errors(gpu: str, folder: Traversable | None = None) -> Callable[[str], KnownError | None]:
    """Kernel -> what the model is known to miss by on the built-in GPU ``gpu``, None where nothing is known."""
    path = (published_folder() if folder is None else folder) / FILE
    try:
        document = json.loads(path.read_text("utf-8")) if path.is_file() else {"gpus": {}}
        series = {name: float(percent) for name, percent in document["gpus"].get(gpu, {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; make it with tools/record_model_error.py") from None
    if not all(math.isfinite(percent) and percent >= 0 for percent in series.values()):
        raise UsageError(f"{path} holds an error that is none; make it with tools/record_model_error.py")
    return lambda kernel: _known(kernel, gpu, series)


def _known(kernel: str, gpu: str, series: Mapping[str, float]) -> KnownError | None:
    if not series:
        return None
    if kernel in series:
        return KnownError(series[kernel], f"of published {kernel} on {gpu}")
    worst = max(series, key=series.__getitem__)
    return KnownError(series[worst], f"the largest of the published series on {gpu}, {worst}")


def error_document(summaries: Sequence[Summary], method: str) -> dict:
    """The file's content: mean absolute error of each series, by GPU; beside it, for the docs' tables, the mean signed
    error and the number of points."""
    gpus: dict[str, dict[str, float]] = {}
    bias: dict[str, dict[str, float]] = {}
    points: dict[str, dict[str, int]] = {}
    for summary in summaries:
        if summary.points:
            gpus.setdefault(summary.gpu, {})[summary.series] = round(summary.mape_percent, 2)
            bias.setdefault(summary.gpu, {})[summary.series] = round(summary.bias_percent, 1)
            points.setdefault(summary.gpu, {})[summary.series] = summary.points
    return {
        "method": method,
        "unit": "percent, mean absolute",
        "gpus": gpus,
        "mean_signed_percent": bias,
        "points": points,
    }


def write_document(document: dict, path: Path) -> None:
    """Write the file whole or not at all."""
    write_whole(path, (json.dumps(document, indent=2) + "\n").encode())
