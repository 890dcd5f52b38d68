"""What a kind of operators is among the measured rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gpusim.gpus.spec import GpuSpec


@dataclass(frozen=True)
class Kind:
    """``columns``: of the rows, that make a shape; ``select``: column -> the values that count; ``sources``: the
    framework or kernel that is followed, by GPU ("": all, their median); ``size``: what regions go by; ``seconds``: of
    a shape, with other figures than the generation's own (None: with those); ``library``: the generation's own;
    ``fitted``: names of figures that may be searched; ``without``: a generation's, of figures that all generations
    share as its own rows did not set them (None: no such figures); ``least_us``: shorter rows do not count (measured
    without a graph, they waited for the host)."""

    columns: tuple[str, ...]
    select: dict[str, tuple[Any, ...]]
    sources: dict[str, str]
    size: Callable[[pd.DataFrame], Any]
    seconds: Callable[[GpuSpec, Any, Any], float]
    library: Callable[[str], Any]
    fitted: tuple[str, ...]
    without: Callable[[str], Any] | None = None
    least_us: float = 0.0
