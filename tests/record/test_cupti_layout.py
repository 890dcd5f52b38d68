"""The recorder's numbers of CUPTI and NVTX are those of NVIDIA's own headers.

Headers of the environment are used (package nvidia-cuda-cupti), and those in folders that GPUSIM_CUPTI_HEADERS names,
joined by ":". CUDA's own headers come from the environment for all of them. 11.8.87, 12.1.105, 12.9.79, 13.0.85 and
13.5.25 have been tried.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest
from recorded import COMPILER, SUPPORT, environment, fake_cupti, stub_folder

from gpusim.collect.once import recorded
from gpusim.record.library import NATIVE

NVIDIA = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def folders_with(header: str) -> list[Path]:
    named = [Path(text) for text in os.environ.get("GPUSIM_CUPTI_HEADERS", "").split(":") if text]
    return [folder for folder in (*named, *sorted(NVIDIA.glob("*/include"))) if (folder / header).is_file()]


def kernel_records(folder: Path) -> list[str]:
    """All that the recorder may be given: CUPTI of 11.8 has the eighth, and every version gives its newest."""
    numbers = re.findall(r"CUpti_ActivityKernel(\d+)", (folder / "cupti_activity.h").read_text(errors="replace"))
    return [f"CUpti_ActivityKernel{number}" for number in sorted(set(map(int, numbers))) if number >= 8]


def test_offsets_and_numbers_are_those_of_the_headers() -> None:
    folders = folders_with("cupti_activity.h")
    if not folders or not folders_with("cuda.h"):
        pytest.skip("no CUPTI headers: install the test extra (nvidia-cuda-cupti)")
    others = [f"-I{other}" for other in folders_with("cuda.h")]
    for folder in folders:
        records = kernel_records(folder)
        assert records
        for record in records:
            includes = [f"-I{folder}", *others, f"-I{NATIVE}", f"-DKERNEL={record}"]
            source = SUPPORT / "cupti_headers.c"
            done = subprocess.run([COMPILER, "-fsyntax-only", *includes, source], capture_output=True, text=True)
            assert done.returncode == 0, f"{folder}, {record}: {done.stderr}"


@pytest.mark.parametrize("cupti", [False, True])
def test_ranges_of_the_real_header(cupti: bool) -> None:
    headers = folders_with("nvtx3/nvToolsExt.h")
    if not headers:
        pytest.skip("no NVTX headers: install the test extra (nvidia-nvtx)")
    folder = Path(tempfile.mkdtemp(prefix="r"))
    source = SUPPORT / "nvtx_program.c"
    subprocess.run([COMPILER, f"-I{headers[0]}", "-o", folder / "p", source, "-ldl"], check=True)
    more = {"GPUSIM_RECORD_CUPTI": str(fake_cupti())} if cupti else {}
    settings = environment(folder / "s", **more)
    _, totals, _ = recorded(folder, folder / "s", lambda: subprocess.run([folder / "p"], env=settings).returncode)
    assert stub_folder()
    ranges = {total.what.nvtx: (total.launches, total.timed) for total in totals}
    counts = {"step": 9, "forward": 2, "layer": 4, "": 16}
    assert ranges == {name: (count, count if cupti else 0) for name, count in counts.items()}


def test_nvidias_own_library_without_its_driver_takes_nothing_away() -> None:
    libraries = [path for folder in folders_with("cupti.h") for path in folder.parent.glob("lib/libcupti.so.1?")]
    if not libraries:
        pytest.skip("no libcupti: install the test extra (nvidia-cuda-cupti)")
    for library in libraries:
        assert counted(library) == (0, [(100, 0)]), library


def counted(library: Path) -> tuple[int, list[tuple[int, int]]]:
    """Exit code, and launches and times, of a program on the stub driver."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    settings = environment(folder / "s", GPUSIM_RECORD_CUPTI=str(library))
    program = [stub_folder() / "program", "plain"]
    code, totals, _ = recorded(folder, folder / "s", lambda: subprocess.run(program, env=settings).returncode)
    return code, [(total.launches, total.timed) for total in totals]
