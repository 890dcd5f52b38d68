"""``gpusim run --devices``: do programs for several GPUs, in Numba and CUDA C++, run unmodified, and is it told which
launch ran where?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked_commands import gpusim as forked

SUPPORT = Path(__file__).parents[1] / "support"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the libraries are for Linux")

NUMBA = """
import os, subprocess, sys, warnings
import numpy as np
from numba import cuda
from cuda.bindings import driver
warnings.simplefilter("ignore")

@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += x[i]

names = [each.uuid for each in (cuda.gpus[i] for i in range(len(cuda.gpus)))]
if "child" in sys.argv:
    print(*names)
    sys.exit()
if "parent" in sys.argv:
    for setting in "1", "1,0", f"{names[1][:9]}":
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": setting}
        done = subprocess.run([sys.executable, __file__, "child"], env=environment, capture_output=True, text=True)
        print([names.index(name) for name in done.stdout.split()])
    sys.exit()
n = 1 << 15
with cuda.gpus[1]:
    far = cuda.to_device(np.full(n, 5, np.float32))
    add[n // 256, 256](far, far)
    assert cuda.current_context().can_access_peer(0)
cuda.select_device(0)
near, copied = cuda.to_device(np.ones(n, np.float32)), cuda.device_array(n, np.float32)
copied.copy_to_device(far)
_, peer = driver.cuDevicePrimaryCtxRetain(1)
assert driver.cuCtxEnablePeerAccess(peer, 0)[0] == 0
for target in near, far:
    add[n // 256, 256](near, target)
print(copied.copy_to_host()[7], far.copy_to_host()[-1])
"""


def gpusim(*arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    return forked("run", *arguments, cwd=cwd)


def test_a_numba_program_of_two_devices(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(NUMBA)
    done = gpusim("--devices", 2, "--simulate", "--format", "json", "-o", "rows.json", "program.py", cwd=tmp_path)
    assert done.stdout == "10.0 12.0\n", done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["device"] for row in rows] == [1, 0, 0]
    # The last one loads and stores the peer's lines of 128 bytes, each with a request and an answer of so many bytes
    # more.
    lines, overhead = (1 << 15) * 4 // 128, 32
    assert [row["link_bytes"] for row in rows] == [0, 0, lines * (2 * 128 + 4 * overhead)]
    assert rows[2]["cycles"] > rows[1]["cycles"] + 1000  # twice the link's latency, at least
    assert [row["time_us_low"] is None for row in rows] == [False, False, True]


def test_a_process_that_is_started_finds_what_the_variable_chooses(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(NUMBA)
    done = gpusim("--devices", 2, "program.py", "parent", cwd=tmp_path)
    assert done.stdout == "[1]\n[1, 0]\n[1]\n", done.stderr


def test_the_choice_of_the_user_counts_where_devices_are_asked_for(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "program.py").write_text(NUMBA)
    plain = gpusim("program.py", "child", cwd=tmp_path).stdout.split()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    chosen = gpusim("--devices", 2, "program.py", "child", cwd=tmp_path).stdout.split()
    # Without --devices it speaks of this machine's own.
    assert gpusim("program.py", "child", cwd=tmp_path).stdout.split() == plain
    assert len(plain) == len(chosen) == 1 and plain != chosen


@pytest.mark.parametrize("count", ["0", "17"])
def test_how_many_there_can_be_is_said(count: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    done = gpusim("--devices", count, "program.py", cwd=tmp_path)
    assert done.returncode == 2 and f"'--devices': {count} is not in the range 1<=x<=16" in done.stderr


def test_more_than_a_node_has_are_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    done = gpusim("--devices", 16, "--simulate", "program.py", cwd=tmp_path)
    assert done.returncode == 2 and "a node of h200 has 8 GPUs, --devices 16 are more" in done.stderr


EXPECTED = """\
count: cudaSuccess
2 devices, 0 is current
device 0, memory of 0, bus 1
device 1, memory of 1, bus 2
own: cudaErrorInvalidDevice
none: cudaErrorInvalidDevice
not enabled: cudaErrorPeerAccessNotEnabled
enabled: cudaSuccess
again: cudaErrorPeerAccessAlreadyEnabled
sent: cudaSuccess
can 1, received 1 1, calls 11 10
sent from both 2, of device 1 22
copied: cudaSuccess
a stream of another device: cudaErrorInvalidResourceHandle
after the reset of device 1: 2, calls 11
without access: cudaErrorIllegalAddress
device 0: cudaSuccess
"""


def test_a_program_of_the_runtime_on_two_devices(tmp_path: Path, monkeypatch) -> None:
    nvcc = next(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu13/bin/nvcc"), None) or shutil.which("nvcc")
    if nvcc is None or shutil.which("g++") is None:
        pytest.skip("no nvcc (pip install 'gpusim[nvcc]'), or no g++, which it compiles host code with")
    libraries = gpusim("--library-path", cwd=tmp_path).stdout.strip()
    command = [nvcc, "-arch=sm_90", "-cudart", "shared", f"-L{libraries}", "-o", "program", SUPPORT / "two_devices.cu"]
    subprocess.run(list(map(str, command)), cwd=tmp_path, check=True)
    done = gpusim("--devices", 2, "./program", cwd=tmp_path)
    assert done.stdout == EXPECTED, done.stderr
    assert "of device 0, which device 1 has no access to" in done.stderr
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpusim("--devices", 2, "./program", cwd=tmp_path).stdout.startswith("count: cudaErrorNoDevice\n0 devices")
