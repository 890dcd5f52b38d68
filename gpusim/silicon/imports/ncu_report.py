"""Nsight Compute's ``.ncu-rep`` files, as rows: through its own Python module, or else through ``ncu`` itself.

Mental model: the format belongs to NVIDIA, so NVIDIA's code reads it: the module ``ncu_report`` (package ncu-report, or Nsight
Compute's folder ``extras/python``; Python Report Interface manual), or ``ncu --import FILE --csv --page raw`` where only
the program is there. With neither, MeasurementFormatError says how to print the file as CSV elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.imports import ncu_csv
from gpusim.silicon.imports.numbers import base_factor
from gpusim.silicon.imports.profile import Profile, rows_of
from gpusim.silicon.row import SiliconRow

try:
    import ncu_report as interface
except ImportError:  # optional: pip install 'gpusim[ncu]'
    interface = None

description = "Nsight Compute's .ncu-rep"
SUFFIXES = (".ncu-rep", ".ncu-repz")
MAGIC = b"NVR\0"
MAX_LAUNCHES = 1_000_000
NCU_TIMEOUT_SECONDS = 600
_GRID = tuple(f"launch__grid_dim_{axis}" for axis in "xyz")
_BLOCK = tuple(f"launch__block_dim_{axis}" for axis in "xyz")


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file is named or begins as Nsight Compute's reports do."""
    return path.suffix in SUFFIXES or head.startswith(MAGIC)


def read(path: Path) -> list[SiliconRow]:
    """Rows of every launch in the report at ``path``."""
    if interface is not None:
        profiles = _profiles(path)
        if not profiles:  # the module reads a damaged file as an empty one
            raise MeasurementFormatError(
                f"{path}: no kernel in it: an empty report, a damaged one, or none of Nsight Compute"
            )
        return rows_of(profiles, str(path))
    ncu = shutil.which("ncu")
    if ncu is None:
        raise MeasurementFormatError(
            f"{path}: a .ncu-rep is read by NVIDIA's own module ncu_report, which is not here: pip install ncu-report,"
            f" or put Nsight Compute's folder extras/python on PYTHONPATH, or print the file with ncu --import {path.name} --csv --page raw"
        )
    return _through_program(ncu, path)


def _through_program(ncu: str, path: Path) -> list[SiliconRow]:
    command = [ncu, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NCU_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasurementFormatError(f"{path}: {ncu} cannot print it ({error})") from None
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())[:300]
        raise MeasurementFormatError(f"{path}: ncu cannot read it: {why}")
    return ncu_csv.parse(done.stdout, str(path))


def _profiles(path: Path) -> list[Profile]:
    try:
        report = interface.load_report(str(path))
        profiles = []
        for i in range(report.num_ranges()):
            actions = report.range_by_idx(i)
            for j in range(actions.num_actions()):
                action = actions.action_by_idx(j)
                if action.workload_type() != interface.IAction.WorkloadType_KERNEL:
                    continue  # a graph or a range: many kernels under one name
                profiles.append(_profile(action))
                if len(profiles) > MAX_LAUNCHES:
                    raise MeasurementFormatError(f"{path}: more than {MAX_LAUNCHES} launches are refused")
        return profiles
    except MeasurementFormatError:
        raise
    except Exception as error:  # the module raises what its C++ raised
        raise MeasurementFormatError(
            f"{path}: ncu_report cannot read it: {' '.join(str(error).split())[:300]}"
        ) from None


def _profile(action: Any) -> Profile:
    profile = Profile(str(action.name()))
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        value = None if metric is None else metric.value()
        if name == ncu_csv.DEVICE_NAME and isinstance(value, str):
            profile.device_name = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"):
            profile.metrics[name] = float(value) * base_factor(metric.unit() or "")
    profile.grid, profile.block = _dimensions(profile, _GRID), _dimensions(profile, _BLOCK)
    return profile


def _dimensions(profile: Profile, names: tuple[str, ...]) -> tuple[int, int, int] | None:
    found = tuple(int(profile.metrics[name]) for name in names if name in profile.metrics)
    return found if len(found) == 3 else None
