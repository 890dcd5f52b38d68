"""``gpusim simulate`` over several values of an axis or several GPUs: a row a point, with rates, and a plot.

Mental model: each point is a run of its own, on a machine of its own, so that no point warms another's caches. A point
is captured once for all GPUs that take the same machine code and launch. A point that is refused becomes a row that
says why; the others go on, and its exit code comes at the end. What has run is printed even where somebody ends the
sweep.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpusim.cases.requests import SweepPoint, parse_request
from gpusim.cases.source import Source, open_source, refuse_mistakes
from gpusim.cases.suite import complete_shape
from gpusim.commands.cold_start import start_compiling_engine
from gpusim.commands.output_file import open_output
from gpusim.commands.unchecked import tell_unchecked
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.engine.utilisation import traffic
from gpusim.errors import GpusimError, ToolchainError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.report.answer import bound_by
from gpusim.report.roofline import operations
from gpusim.report.tables import format_records
from gpusim.trace.record import Trace

_BYTES = ("bytes_read", "bytes_written")


def run_sweep(
    points: Sequence[SweepPoint],
    gpus: Sequence[str],
    settings: Sequence[str],
    *,
    warm: Sequence[Path],
    small: bool,
    sample: bool,
    plot: Path | None,
    output: Path | None,
    form: str,
    instruction_limit: int,
) -> int:
    """Run every point on every GPU and print the table; the exit code, that of the first point which was refused.
    Raises UsageError before any work."""
    draw = importlib.import_module("gpusim.report.sweep_chart").save_sweep_chart if plot is not None else None
    specs = [override_gpu(load_gpu(gpu), settings) for gpu in gpus]
    if len({spec.name for spec in specs}) < len(specs):
        raise UsageError(f"--gpu names a GPU twice: {', '.join(spec.name for spec in specs)}")
    for spec in specs:
        refuse_mistakes([point.text for point in points], spec, small=small)
    compiling = start_compiling_engine()
    sweep = _Sweep(points, specs, tuple(Trace.load(path) for path in warm), small, sample, instruction_limit)
    if compiling is not None:
        compiling.wait()
    try:
        sweep.run()
    finally:  # whoever ends a sweep has what has run
        rows = _columns(sweep.rows)
        if rows:
            with open_output(output) as write:
                write(format_records(rows, form))
        tell_unchecked(sweep.unchecked)
    if plot is not None and draw is not None:
        draw(rows, sweep.axes, plot)
        click.echo(f"drawn to {plot}", err=True)
    return sweep.exit_code


class _Sweep:
    """The points of a sweep and the rows of those that have run."""

    def __init__(
        self, points: Sequence[SweepPoint], specs: Sequence[GpuSpec], warm: tuple[Trace, ...], small: bool, sample: bool,
        instruction_limit: int,
    ) -> None:  # fmt: skip
        self.points, self.specs, self.warm, self.small, self.sample = points, specs, warm, small, sample
        self.instruction_limit = instruction_limit
        self.axes = list(dict.fromkeys(axis for point in points for axis in point.values))
        self.rows: list[dict[str, Any]] = []
        self.unchecked: dict[str, str] = {}
        self.exit_code = 0

    def run(self) -> None:
        """Every point on every GPU; raises what stops all of them, such as a toolchain that is not there."""
        total = len(self.points) * len(self.specs)
        with task("simulating", total, "points") as shown:
            for point in self.points:
                captured: dict[tuple, Source] = {}
                for spec in self.specs:
                    row = self._facts(point, spec)
                    try:
                        row |= self._figures(point, spec, captured)
                    except ToolchainError:
                        raise
                    except GpusimError as error:
                        self.exit_code = self.exit_code or error.exit_code
                        row["refused"] = " ".join(str(error).split())
                    self.rows.append(row)
                    shown.to(len(self.rows), self._told(row))

    def _facts(self, point: SweepPoint, spec: GpuSpec) -> dict[str, Any]:
        """The columns that say which point it is."""
        row: dict[str, Any] = {}
        if len({each.name for each in self.points}) > 1:
            row["kernel"] = point.name
        shape = {}
        if point.values:
            shape = complete_shape(point.name, parse_request(point.text)[1], spec, small=self.small)
        row |= {axis: shape[axis] if axis in point.values else "" for axis in self.axes}
        return {**row, "gpu": spec.name} if len(self.specs) > 1 or not row else row

    def _figures(self, point: SweepPoint, spec: GpuSpec, captured: dict[tuple, Source]) -> dict[str, Any]:
        # The same machine code with the same launch serves all GPUs that are alike in these.
        alike = (tuple(spec.capability), spec.sm.shared_max_bytes, spec.sm.registers, spec.sm.max_threads_per_block)
        if alike not in captured:
            captured[alike] = open_source(
                point.text, spec, small=self.small, instruction_limit=self.instruction_limit, sample=self.sample
            )
        source = captured[alike]
        if source.unchecked:
            self.unchecked[point.name] = source.unchecked
        timed = [each.trace for each in source.timed]
        result = simulate(timed, spec, warm=self.warm + source.warm, sample=self.sample)
        return _rates(result, source.work)

    def _told(self, row: Mapping[str, Any]) -> str:
        """The point that has just run, in few words."""
        where = ", ".join(f"{name}={row[name]}" for name in ("kernel", *self.axes, "gpu") if row.get(name, "") != "")
        return f"{where}: {row.get('refused') or str(row['cycles']) + ' cycles'}"


def _rates(result: Result, work: Mapping[str, float]) -> dict[str, Any]:
    """Time and rates of a point. ``gb_per_s``: the bytes that the kernel's author counts, by time; ``dram_gb_per_s``:
    what DRAM moved; ``gflop_per_s``: floating-point operations that were executed. Empty where there is no such
    figure."""
    ns = 1e3 * result.time_us
    counted = sum(work.get(name, 0.0) for name in _BYTES)
    done = sum(operations(result.launches, executed=False).values())
    figures: dict[str, Any] = {
        "cycles": int(result.cycles),
        "time_us": float(result.time_us),
        "time_us_low": result.interval.low_us,
        "time_us_high": result.interval.high_us,
        "gb_per_s": counted / ns if counted else "",
        "dram_gb_per_s": traffic(result.launches)["dram__bytes.sum"] / ns,
        "gflop_per_s": done / ns if done else "",
        "bound_by": bound_by(result.bound),
    }
    figures["interval_outside"] = "; ".join(result.interval.outside)
    if result.error_cycles is not None:
        figures |= {"error_cycles": round(result.error_cycles), "simulated_percent": result.simulated_percent}
    return figures


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the same columns, without those in which no row has anything."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if "refused" in names:
        names.append(names.pop(names.index("refused")))
    kept = [name for name in names if any(row.get(name, "") != "" for row in rows)]
    return [{name: row.get(name, "") for name in kept} for row in rows]
