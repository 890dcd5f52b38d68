"""``gpusim run`` of executables: does a program of nvcc's run unmodified, with its children, and is what happened told
truthfully?"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_commands import gpusim as forked

from gpusim.driver.programs import environment_for, is_executable

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the libraries are for Linux")


def gpusim(*arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    return forked("run", *arguments, cwd=cwd)


def surroundings(more: dict[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> Path:
    return Path(gpusim("--library-path", cwd=tmp_path_factory.mktemp("libraries")).stdout.strip())


def compiled(source: str, libraries: Path, folder: Path, *options: str) -> Path:
    """A program of tests/support, built by nvcc with the shared runtime."""
    nvcc = next(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu13/bin/nvcc"), None) or shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc: pip install 'gpusim[nvcc]'")
    if shutil.which("g++") is None:
        pytest.skip("no g++, which nvcc compiles host code with")
    path = folder / "program"
    command = [nvcc, "-arch=sm_90", "-cudart", "shared", f"-L{libraries}", "-o", path, SUPPORT / source, *options]
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return path


@pytest.fixture(scope="module")
def program(libraries, tmp_path_factory) -> Path:
    return compiled("program.cu", libraries, tmp_path_factory.mktemp("program"))


def test_the_driver_links_and_loads_like_any_library(libraries, tmp_path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "device.c").write_text(
        "#include <pthread.h>\n#include <stdio.h>\nint cuInit(unsigned); int cuDeviceGetName(char *, int, int);\n"
        "int cuCtxCreate(void **, unsigned, int); int cuCtxPushCurrent(void *); int cuCtxGetCurrent(void **);\n"
        "static void *thread(void *context) { void *found = 0;"
        "  return (void *)(long)(cuCtxPushCurrent(context) == 0 && cuCtxGetCurrent(&found) == 0 && found == context); }\n"
        "int main(void) { char name[64]; int error = cuInit(0) | cuDeviceGetName(name, 64, 0); void *context, *kept; pthread_t id;"
        "  cuCtxCreate(&context, 0, 0); pthread_create(&id, 0, thread, context); pthread_join(id, &kept);"
        '  printf("%d %s, %ld\\n", error, name, (long)kept); return 0; }\n'
    )
    command = [compiler, "-o", "device", "device.c", f"-L{libraries}", "-lcuda", "-lpthread"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = gpusim("--gpu", "a100_40gb", "./device", cwd=tmp_path)
    assert done.stdout == "0 NVIDIA A100 SXM4 40 GB, 1\n", done.stderr
    assert "the program launched no kernel" in done.stderr
    # On its own, outside gpusim run.
    surrounded = surroundings({"LD_LIBRARY_PATH": str(libraries), "GPUSIM_GPU": "sm_86"})
    alone = subprocess.run(["./device"], cwd=tmp_path, env=surrounded, capture_output=True, text=True)
    assert alone.stdout == "0 NVIDIA sm_86, 1\n", alone.stderr


@pytest.mark.nightly
def test_the_runtimes_stand_before_those_that_a_library_was_linked_with(tmp_path) -> None:
    """PyTorch's libraries look for the runtime in a wheel of NVIDIA's first (DT_RPATH), and call it when the process
    ends."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "other").mkdir()
    (tmp_path / "runtime.c").write_text(
        "int cudaGetDeviceCount(int *n) { *n = 99; return 0; }\nint cudaGetDevice(int *n) { *n = 98; return 0; }\n"
    )
    (tmp_path / "user.c").write_text(
        "#include <stdio.h>\nint cudaGetDeviceCount(int *), cudaGetDevice(int *);\n"
        "int count(void) { int n = 0; cudaGetDeviceCount(&n); return n; }\n"
        '__attribute__((destructor)) void end(void) { int n = -1; count(); cudaGetDevice(&n); printf("device %d\\n", n); }\n'
    )
    shared = [compiler, "-shared", "-fPIC", "-o"]
    runtime = [*shared, "other/libcudart.so.13", "runtime.c", "-Wl,-soname,libcudart.so.13"]
    subprocess.run(runtime, cwd=tmp_path, check=True)
    path = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{tmp_path}/other", "-Lother", "-l:libcudart.so.13"]
    subprocess.run([*shared, "user.so", "user.c", *path], cwd=tmp_path, check=True)
    count = "import ctypes; print(ctypes.CDLL('./user.so').count(), flush=True)"
    again = f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', {count!r}]).returncode)"
    (tmp_path / "script.py").write_text(f"{count}\n{again}\n")
    # Whether NVIDIA's runtime has been loaded before, and who comes last, is the question: a process from its beginning
    # to its end.
    command = [sys.executable, "-m", "gpusim.cli", "run", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=surroundings({}), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("1\n1\ndevice 0\n0\ndevice 0\n", 0), done.stderr


def test_a_program_runs_with_its_children_and_keeps_its_exit_code(program) -> None:
    done = gpusim("-o", "out.json", "--format", "json", program, "children", cwd=program.parent)
    assert done.stdout.splitlines() == [
        "device NVIDIA H200 SXM 141 GB, 132 SMs",
        "from the kernel: 10",
        "constants, variables, managed memory: no error, 1",
        "pinned memory has one address: 1",
        "rows: no error, 1",
        "an empty grid: cudaErrorInvalidConfiguration, then cudaSuccess",
        "forked child: 3 initialization error",
        "started child: 5",
    ], done.stderr
    assert done.returncode == 7
    rows = json.loads((program.parent / "out.json").read_text())
    assert [(row["process"], row["kernel"]) for row in rows] == [(0, "combine"), (1, "combine")]
    assert rows[0]["grid"] == "1" and rows[0]["block"] == "64"


def test_arrays_textures_graphs_and_large_parameters(libraries, tmp_path) -> None:
    done = gpusim(compiled("runtime_objects.cu", libraries, tmp_path), cwd=tmp_path)
    names = (
        "texture", "descriptions", "surface", "volume", "array", "boxes", "peer", "three channels", "nodes", "graph", "changed",
        "variables", "captured", "parameters",
    )  # fmt: skip
    assert done.stdout.splitlines() == [f"{name} 1" for name in names], done.stderr


def test_launches_of_launches_and_what_lasts_from_launch_to_launch(libraries, tmp_path) -> None:
    archive = next(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu13/lib/libcudadevrt.a"), None)
    options = [] if archive is None else [f"-L{archive.parent}"]
    made = compiled("program_launches.cu", libraries, tmp_path, "-rdc=true", *options, "-lcudadevrt")
    checking = ("--check", "leak", "--kernel", "take|give")  # what one takes from the heap, the other gives back
    done = gpusim(*checking, "-o", "out.json", "--format", "json", made, cwd=tmp_path)
    assert "Leaked" not in done.stderr, done.stderr
    names = ("launches of launches", "heap", "made again", "captured allocation")
    assert done.stdout.splitlines() == [f"{name} 1" for name in names], done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["kernel"] for row in rows[:3]] == ["twice", "add", "twice"]
    (scaled,) = (row for row in rows if row["kernel"] == "scale")
    assert scaled["launches"] == 7  # those that were looked up too


def test_pageable_memory_is_reached_where_it_is_on_silicon(program) -> None:
    ask = "pageable"
    assert gpusim("--gpu", "gh200", program, ask, cwd=program.parent).stdout == "1 no error 10\n"
    refused = gpusim(program, ask, cwd=program.parent)
    assert refused.stdout == "0 an illegal memory access was encountered 5\n"
    assert "outside every allocation" in refused.stderr and "no launch came to its end (1 failed)" in refused.stderr


def test_simulating_checking_and_choosing_work_as_for_python(program) -> None:
    options = ("--simulate", "--check", "memory", "--kernel", "combine", "--record", "traces")
    done = gpusim(*options, program, cwd=program.parent)
    assert done.returncode == 5 and "cycles" in done.stderr and "time_us" in done.stderr, done.stderr
    index = json.loads((program.parent / "traces" / "index.json").read_text())
    (trace,) = index["traces"]
    assert trace["kernel"] == "combine" and (program.parent / "traces" / trace["file"]).is_file()


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "error: interrupted"), (signal.SIGTERM, "combine")])
def test_an_interrupted_program_leaves_its_launches_so_far(program, number, word) -> None:
    command = [sys.executable, "-m", "gpusim.cli", "run", str(program), "endless"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell starts its background jobs with SIGINT ignored, and children inherit that: the program would rightly go
    # on.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    place = {"cwd": program.parent, "env": surroundings({}), "start_new_session": True, "preexec_fn": heed}
    process = subprocess.Popen(command, **place, **pipes)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["from the kernel: 10\n", "waiting\n"]
        time.sleep(1)  # for it to be in the launch, mostly; it may be about to be
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the program too, whatever became of gpusim
    assert process.returncode == 128 + number
    assert word in said and "combine" in said


@pytest.fixture(scope="module")
def dependent(libraries, tmp_path_factory) -> Path:
    return compiled("dependent_program.cu", libraries, tmp_path_factory.mktemp("dependent"), "-lcuda")


def test_launches_that_depend_programmatically_overlap_by_whatever_call_they_are_made(dependent) -> None:
    """By the runtime, by the driver, and as an edge of a graph, captured and made by hand."""
    done = gpusim("--simulate", "-o", "out.json", "--format", "json", dependent, cwd=dependent.parent)
    assert done.stdout.split() == ["runtime", "1", "runtime", "1", "driver", "1", "captured", "1", "edge", "1"], (
        done.stderr
    )
    rows = json.loads((dependent.parent / "out.json").read_text())
    assert [row["kernel"].startswith("first") for row in rows] == [True, False] * 5
    assert [row["overlap_cycles"] > 0 for row in rows] == [False, True] * 5


def test_a_program_that_leaves_by_exit_without_clean_up_has_all_that_it_waited_for_in_its_account(dependent) -> None:
    done = gpusim("--simulate", "-o", "left.json", "--format", "json", dependent, "leave", cwd=dependent.parent)
    assert done.returncode == 0, done.stderr
    rows = json.loads((dependent.parent / "left.json").read_text())
    assert sum(row["launches"] for row in rows) == 6


def test_what_leads_a_program_to_the_libraries() -> None:
    found = environment_for(Path("/folder"), None, {"LD_PRELOAD": "own.so", "LD_LIBRARY_PATH": "/own"})
    assert found["LD_PRELOAD"] == "/folder/libcudart.so.12 /folder/libcudart.so.13 own.so"
    assert found["LD_LIBRARY_PATH"] == "/folder:/own" and found["TRITON_LIBCUDA_PATH"] == "/folder"
    assert "LD_PRELOAD" not in environment_for(Path("/a folder"), None, {})  # it would be two files that are not there


def test_what_is_a_program_and_what_a_script(tmp_path) -> None:
    for name, content in (
        ("a.py", "#!/usr/bin/env python3\n"),
        ("b", "#!/usr/bin/python3\n"),
        ("c", "#!/bin/sh\n"),
        ("d", "x = 1\n"),
    ):
        (tmp_path / name).write_text(content)
    found = [is_executable(str(tmp_path / name)) for name in ("a.py", "b", "c", "d", "absent")]
    assert found == [False, False, True, False, False]
    assert is_executable("sh") and is_executable("/bin/sh")
