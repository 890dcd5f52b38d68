"""Programs on a libcuda that does nothing, recorded: compiled once a test session."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from gpusim.record.environment import recording_environment
from gpusim.record.library import NATIVE, recorder_library

SUPPORT = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")


@cache
def stub_folder() -> Path:
    """A folder with the stub ``libcuda.so.1`` and the program ``recorded_program``."""
    folder = Path(tempfile.mkdtemp(prefix="gpusim-stub-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shared = [COMPILER, "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1"]
    subprocess.run([*shared, SUPPORT / "stub_cuda.c", "-ldl"], check=True)
    program = [COMPILER, "-O1", "-o", folder / "program", SUPPORT / "recorded_program.c", "-ldl", "-lpthread"]
    subprocess.run(program, check=True)
    return folder


@cache
def fake_cupti() -> Path:
    """A libcupti that tells of the stub's launches (recorded_cupti.c)."""
    path = stub_folder() / "libcupti.so"
    shared = [COMPILER, "-O1", "-shared", "-fPIC", "-Wl,-soname,libcupti.so", "-I", NATIVE, "-o", path]
    subprocess.run([*shared, SUPPORT / "recorded_cupti.c", "-ldl", "-lpthread", "-lm"], check=True)
    return path


def environment(socket: Path, **more: str) -> dict[str, str]:
    """That of a recorded program on the stub, which sends every 50 ms."""
    before = {**os.environ, "LD_LIBRARY_PATH": str(stub_folder()), "GPUSIM_RECORD_PERIOD_MS": "50", **more}
    return recording_environment(before, recorder_library(), socket)


def injected(socket: Path, **more: str) -> dict[str, str]:
    """That of a program on the stub whose driver loads the recorder: nothing is preloaded."""
    settings = environment(socket, CUDA_INJECTION64_PATH=str(recorder_library()), **more)
    del settings["LD_PRELOAD"]
    return settings
