"""Nsight Compute's ``.ncu-rep`` files, as rows: through its own Python module, or else through ``ncu`` itself.

Mental model: the format belongs to NVIDIA, so NVIDIA's code reads it: the module ``ncu_report`` (package ncu-report, or
Nsight Compute's folder ``extras/python``; Python Report Interface manual), or ``ncu --import FILE --csv --page raw``
where only the program is there. With neither, MeasurementFormatError says how to print the file as CSV elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.io.real_path import real_path
from gpusim.io.records import parse_record
from gpusim.silicon.imports import ncu_csv
from gpusim.silicon.imports.profile import Profile, named_rows
from gpusim.silicon.row import SiliconRow

#: Where NVIDIA's module is, None without it (optional: pip install 'gpusim[ncu]').
interface = find_spec("ncu_report")

description = "Nsight Compute's .ncu-rep"
SUFFIXES = (".ncu-rep", ".ncu-repz")
MAGIC = b"NVR\0"
NCU_TIMEOUT_SECONDS = 600


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
        return named_rows(profiles, str(path))
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
    """What the module finds, in a process of its own: it ends its process on some damaged files."""
    command = [sys.executable, "-m", "gpusim.silicon.imports.ncu_report_process", str(real_path(path))]
    try:
        done = subprocess.run(command, capture_output=True, timeout=NCU_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasurementFormatError(f"{path}: ncu_report cannot read it ({error})") from None
    if done.returncode < 0:
        raise MeasurementFormatError(
            f"{path}: ncu_report cannot read it: a damaged report ends it (signal {-done.returncode})"
        )
    if done.returncode:
        why = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise MeasurementFormatError(f"{path}: ncu_report cannot read it: {why}")
    return parse_record(list[Profile], done.stdout, f"{path}: ncu_report cannot read it", MeasurementFormatError)
