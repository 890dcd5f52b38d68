"""The predictions of a search as files of Kernel Tuner: a cache file, and results in the T4 format that it shares with
other autotuners.

Mental model: both list configurations with their times in milliseconds, or the kind of their failure in these formats'
own words. Formats: KernelTuner/kernel_tuner, ``kernel_tuner/schema`` (cache 1.1.0, T4 1.0.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gpusim import __version__
from gpusim.io.whole_file import write_whole
from gpusim.search.kept import Predicted

#: Name of the class of what went wrong -> (Kernel Tuner's word for it in a cache, T4's).
_FAILED = {
    "CompileError": ("CompilationFailedConfig", "compile"),
    "ToolchainError": ("CompilationFailedConfig", "compile"),
    "WrongResultError": ("RuntimeFailedConfig", "correctness"),
}
_FAILED_OTHERWISE = ("RuntimeFailedConfig", "runtime")
#: Parts of the time that a tuner took, which both formats want.
_TOOK = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")


class Found(Protocol):
    """What of :class:`gpusim.search.found.Tuned` is written."""

    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def rows(self) -> Sequence[Predicted]: ...
    def measures(self, row: Predicted) -> Mapping[str, Any]: ...


def write_cache(found: Found, path: Path, problem_size: Sequence[int] | None = None) -> None:
    """Write ``found`` as a cache file. Kernel Tuner refuses another ``problem_size`` than its own, and takes a file
    that says none."""
    names = list(dict.fromkeys(name for row in found.rows for name in row.parameters))
    now = datetime.now(UTC).isoformat()
    entries = {
        ",".join(str(row.parameters.get(name, "")) for name in names): {
            **row.parameters,
            "time": _failure(row)[0] if row.time_us is None else row.time_us / 1e3,
            **({"times": [row.time_us / 1e3]} if row.time_us is not None else {}),
            **found.measures(row),
            "stage": row.stage,
            **dict.fromkeys(_TOOK, 0),
            "timestamp": now,
        }
        for row in found.rows
    }
    document = {
        "schema_version": "1.1.0",
        "device_name": found.device,
        "kernel_name": found.kernel,
        **({} if problem_size is None else {"problem_size": list(problem_size)}),
        "tune_params_keys": names,
        "tune_params": {name: _values(row.parameters.get(name) for row in found.rows) for name in names},
        "objective": "time",
        "cache": entries,
    }
    _write(path, document)


def write_t4(found: Found, path: Path) -> None:
    """Write ``found`` as T4 results; its metadata say that they are predictions, and of what."""
    now = datetime.now(UTC).isoformat()
    results = []
    for row in found.rows:
        able = row.time_us is not None
        time_ms = row.time_us / 1e3 if row.time_us is not None else None
        measured = [{"name": "time", "value": time_ms, "unit": "ms"}] if able else []
        measured += [{"name": name, "value": value, "unit": ""} for name, value in found.measures(row).items()]
        results.append(
            {
                "timestamp": now,
                "configuration": dict(row.parameters),
                "objectives": ["time"],
                "times": {
                    "compilation_time": 0, "framework": 0, "search_algorithm": 0, "validation": 0,
                    "runtimes": [time_ms] if able else [],
                },
                "invalidity": "correct" if able else _failure(row)[1],
                "correctness": int(able),
                "measurements": measured,
            }
        )  # fmt: skip
    about = {
        "device": found.device,
        "timeunit": "milliseconds",
        "autotuner": f"gpusim {__version__}: predicted, not measured",
        "kernel": found.kernel,
    }
    _write(path, {"schema_version": "1.0.0", "metadata": about, "results": results})


def _failure(row: Predicted) -> tuple[str, str]:
    return _FAILED.get(row.failed, _FAILED_OTHERWISE)


def _values(values: Iterable[Any]) -> list[Any]:
    """Each value once: numbers in their order, others as they come."""
    each = list({repr(value): value for value in values}.values())
    return sorted(each) if all(isinstance(value, (int, float)) for value in each) else each


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(document, indent=1, default=_plain).encode())


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's; anything else as its text."""
    return value.item() if hasattr(value, "item") else str(value)
