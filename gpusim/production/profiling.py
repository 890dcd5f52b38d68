"""``gpusim.production.profile()``: what a stretch of a PyTorch program launches, as a file of production.

Mental model: PyTorch's own profiler runs around the block, with input shapes recorded; at its end the trace is written,
read by the importer that reads any trace of it, and kept as rows. Nothing of the program is changed; the profiler slows
host calls by some microseconds.

Raises ToolchainError where PyTorch is not installed, UsageError where the result is asked for before the block has
ended.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpusim.errors import ToolchainError, UsageError
from gpusim.production.file import Production, write
from gpusim.production.imports import kineto

TRACE = "trace.json"


class Profiled:
    """What a block launched, once it has ended. ``profiler``: PyTorch's own, whose tables can be asked for as well."""

    def __init__(self, profiler: Any) -> None:
        self.profiler = profiler
        self._production: Production | None = None

    @property
    def production(self) -> Production:
        """Rows of all kernels and copies."""
        if self._production is None:
            raise UsageError("the block of gpusim.production.profile() has not ended: its launches are not known yet")
        return self._production


@contextmanager
def profile(
    output: str | Path | None = None, *, trace: str | Path | None = None, record_shapes: bool = True, **options: Any
) -> Iterator[Profiled]:
    """Profile the block. ``output``: also write a file of production there; ``trace``: also keep the profiler's trace
    there (``.gz``: compressed). ``record_shapes``: of operators' inputs, which tell the shapes of products;
    ``options``: more of ``torch.profiler.profile``. Without a GPU the block has no launches. A block that raises leaves
    no file."""
    try:
        torch_profiler = importlib.import_module("torch.profiler")
    except ImportError as error:
        raise ToolchainError(f"gpusim.production.profile() needs PyTorch: pip install torch ({error})") from None
    profiler = torch_profiler.profile(record_shapes=record_shapes, **options)
    profiled = Profiled(profiler)
    with profiler:
        yield profiled
    with tempfile.TemporaryDirectory(prefix="gpusim-profile-") as folder:
        path = Path(trace) if trace is not None else Path(folder) / TRACE
        profiler.export_chrome_trace(str(path))
        profiled._production = kineto.read(path)
    if output is not None:
        write(Path(output), profiled.production)
