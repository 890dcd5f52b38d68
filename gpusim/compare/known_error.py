"""What the model is known to miss by on a GPU: its errors against published measurements, as last recorded.

Mental model: a divergence from silicon is news only beyond what the calibration is known to miss. The errors of each
published series and GPU lie in ``traces/published/model_error.json``, written by ``tools/record_model_error.py``; a
kernel that is itself a series has that series' error, any other one the largest of its GPU. A GPU with no published
series has no known error: then the tolerance alone decides.

Raises UsageError for a damaged file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources.abc import Traversable
from typing import TypedDict

from gpusim.compare.judge import KnownError
from gpusim.errors import UsageError
from gpusim.io.records import NotNegative, parse_record
from gpusim.silicon.published import published_folder

FILE = "model_error.json"


class _Document(TypedDict):
    """The file: GPU -> series -> mean absolute error in percent."""

    gpus: dict[str, dict[str, NotNegative]]


def known_errors(gpu: str, folder: Traversable | None = None) -> Callable[[str], KnownError | None]:
    """Kernel -> what the model is known to miss by on the built-in GPU ``gpu``, None where nothing is known."""
    path = (published_folder() if folder is None else folder) / FILE
    series: Mapping[str, float] = {}
    if path.is_file():
        try:
            document = parse_record(_Document, path.read_bytes(), f"{path} cannot be read", UsageError)
        except (OSError, UsageError) as error:
            raise UsageError(f"{error}; make it with tools/record_model_error.py") from None
        series = document["gpus"].get(gpu, {})
    return lambda kernel: _known(kernel, gpu, series)


def _known(kernel: str, gpu: str, series: Mapping[str, float]) -> KnownError | None:
    if not series:
        return None
    if kernel in series:
        return KnownError(series[kernel], f"of published {kernel} on {gpu}")
    worst = max(series, key=series.__getitem__)
    return KnownError(series[worst], f"the largest of the published series on {gpu}, {worst}")
