"""What the fixture ``gpusim_benchmark`` predicts, over a session of pytest: kept, shown, compared with another day's.

Mental model: each test adds one figure; the session that the user started (not a worker of pytest-xdist, which sends
its own) writes them, prints them and says whether one has grown too much. What is heavy is imported when a first figure
is predicted.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpusim.io.percent import signed_percent
from gpusim.io.real_path import real_path

_FILE = "gpusim.benchmark_file"
#: Where a worker of pytest-xdist leaves its benchmarks for the session that started it.
_SENT = "gpusim_benchmarks"


class Benchmarks:
    """The benchmarks of a session, as plain values that a worker can send: ``kept`` fields of
    :class:`gpusim.benchmark_file.Benchmark`. Refuses at the start what could not be done at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.kept: list[dict[str, Any]] = []
        self._before: dict[str, Any] | None = None
        self._save, self._fail = config.getoption("--gpusim-save"), config.getoption("--gpusim-compare-fail")
        self._worker = hasattr(config, "workerinput")
        compare = config.getoption("--gpusim-compare")
        if self._fail is not None and not compare:
            raise pytest.UsageError("--gpusim-compare-fail compares with nothing: give --gpusim-compare FILE too")
        if self._save and not real_path(self._save).parent.is_dir():
            raise pytest.UsageError(f"--gpusim-save: there is no folder for {self._save}")
        if compare:
            try:
                self._before = importlib.import_module(_FILE).load_benchmarks(Path(compare))
            except (OSError, importlib.import_module("gpusim.errors").GpusimError) as error:
                raise pytest.UsageError(f"--gpusim-compare: {error}") from None

    def gather(self, sent: dict[str, Any]) -> None:
        """Take over what a worker has sent."""
        self.kept.extend(sent.get(_SENT, []))

    def add(self, test: str, result: Any) -> None:
        """Keep ``result`` as that of ``test``."""
        self.kept.append(asdict(importlib.import_module(_FILE).benchmark_of(test, result)))

    def finish(self, session: pytest.Session) -> None:
        """Hand on or write what is kept, and fail the session where a figure has grown by more than is allowed."""
        if self._worker:
            vars(session.config)["workeroutput"][_SENT] = self.kept
            return
        if self._save and self.kept:
            importlib.import_module(_FILE).save_benchmarks(self._sorted(), Path(self._save))
        too_slow = any(map(self._too_slow, self._changes()))
        if too_slow and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def lines(self) -> list[str]:
        """The summary's lines."""
        if not self.kept or self._worker:
            return []
        rows = [
            {
                "test": c.now.test,
                "gpu": c.now.gpu,
                "cycles": c.now.cycles,
                "time_us": f"{c.now.time_us:.3g}",
                "interval_us": f"{c.now.time_us_low:.3g} to {c.now.time_us_high:.3g}",
            }
            | ({} if self._before is None else {"before": c.before.cycles if c.before else "", "change": self._told(c)})
            for c in self._changes()
        ]
        return importlib.import_module("gpusim.report.tables").format_records(rows, "table").splitlines()

    def _sorted(self) -> list[Any]:
        made = importlib.import_module(_FILE).Benchmark
        return [made(**each) for each in sorted(self.kept, key=lambda each: each["test"])]

    def _changes(self) -> list[Any]:
        return importlib.import_module(_FILE).changes(self._sorted(), self._before or {}) if self.kept else []

    def _too_slow(self, change: Any) -> bool:
        return self._fail is not None and change.percent is not None and change.percent > self._fail

    def _told(self, change: Any) -> str:
        if change.percent is None:
            return change.why_not
        return f"{signed_percent(change.percent, '.2f')}{' (too slow)' if self._too_slow(change) else ''}"


class Benchmark:
    """What the fixture ``gpusim_benchmark`` is: called with a function, it runs the function's launches on the emulator
    and predicts their cycles on the session's GPU; ``result`` is then the :class:`gpusim.Result`."""

    def __init__(self, test: str, gpu: Any, keep: Benchmarks) -> None:
        self._test, self._gpu, self._keep = test, gpu, keep
        self.result: Any = None

    def __call__(self, work: Any, *args: Any, **named: Any) -> Any:
        """What ``work(*args, **named)`` returns; it launches kernels on NumPy arrays, or returns launches as a case
        does."""
        if self.result is not None:
            raise RuntimeError("gpusim_benchmark predicts one call a test: write another test for the other")
        run_and_simulate = importlib.import_module("gpusim.benchmarking").run_and_simulate
        benched = run_and_simulate(functools.partial(work, *args, **named), self._gpu)
        self.result = benched.result
        self._keep.add(self._test, benched.result)
        return benched.returned
