"""What the tools about the recorder share: the stub libcuda and the launching program, compiled, and its
environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from gpusim.record.environment import recording_environment
from gpusim.record.library import recorder_library


def build(folder: Path) -> Path:
    """Compile both into ``folder``; the program's path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("no C compiler is here")
    stub = ROOT / "tests" / "support" / "stub_cuda.c"
    library = [
        compiler,
        "-O2",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-o",
        folder / "libcuda.so.1",
        stub,
        "-ldl",
    ]
    subprocess.run(library, check=True)
    program = folder / "record_launches"
    subprocess.run([compiler, "-O2", "-o", program, ROOT / "tools" / "record_launches.c", "-ldl"], check=True)
    return program


def environment(folder: Path, recorded: bool = True, **more: str) -> dict[str, str]:
    """Of a program on the stub, recorded or not."""
    before = {**os.environ, "LD_LIBRARY_PATH": str(folder), **more}
    return recording_environment(before, recorder_library(), folder / "collect.sock") if recorded else before


def launched(program: Path, arguments: list[str], settings: dict[str, str]) -> list[int]:
    """Process CPU ns, launching thread's CPU ns, VmRSS KiB, launches counted, launches dropped."""
    done = subprocess.run([program, *arguments], env=settings, check=True, capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def load() -> str:
    """What else this machine does."""
    return f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"
