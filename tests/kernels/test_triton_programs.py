"""Programs that launch Triton's kernels by Triton's own launcher, on the emulated driver of ``gpusim run``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from gpusim.driver import triton_programs
from gpusim.driver.triton_programs import TritonDriver

pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
needs_compiler = pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("clang")),
    reason="Triton builds its launcher with a C compiler, and none is here",
)
HEAD = """
import numpy as np, triton, triton.language as tl

class Tensor:
    def __init__(self, array):
        self.array, self.dtype = array, str(array.dtype)
    def data_ptr(self):
        return self.array.ctypes.data

@triton.jit
def product(x_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr):
    row, depth = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(x_ptr + row[:, None] * K + depth[None, :])
    y = tl.load(x_ptr + row[None, :] * K + depth[:, None])
    tl.store(out_ptr + row[:, None] * M + row[None, :], tl.dot(x, y))

x, out = np.random.default_rng(0).random((64, 256)).astype(np.float16), np.zeros((64, 64), np.float32)
"""
LAUNCH = """
kernel = product[(1,)](Tensor(x), Tensor(out), 64, 256, num_warps=8)
wanted = x.astype(np.float32) @ x.T.astype(np.float32)
print(triton.runtime.driver.active.get_current_target().arch, kernel.metadata.shared, np.allclose(out, wanted, rtol=1e-4))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs run, and where Triton keeps its launcher from one to the next."""
    return tmp_path_factory.mktemp("programs")


def run(folder: Path, text: str, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    (folder / "program.py").write_text(text)
    command = [sys.executable, "-m", "gpusim.cli", "run", "--gpu", "a100_80gb", *options, "program.py", *arguments]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@needs_compiler
def test_triton_s_own_launcher_runs_a_tile_above_48_kib_on_memory_of_the_host(folder: Path) -> None:
    ran = run(folder, HEAD + LAUNCH, "--pageable-memory")
    assert ran.returncode == 0, ran.stderr
    architecture, shared, right = ran.stdout.split()
    assert architecture == "80" and int(shared) > 48 << 10 and right == "True"
    assert "product" in ran.stderr  # the account of the launches


@needs_compiler
def test_memory_that_kernels_do_not_reach_is_refused_with_the_remedy(folder: Path) -> None:
    ran = run(folder, HEAD + LAUNCH)
    assert ran.returncode == 1 and "cpu tensor?" in ran.stderr and "--pageable-memory" in ran.stderr.splitlines()[-2]


@needs_compiler
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorch_without_a_gpu_makes_tensors_that_triton_takes(folder: Path) -> None:
    text = """
import torch
device = triton.runtime.driver.active.get_active_torch_device()
x, out = torch.rand(64, 256, device=device).half(), torch.zeros(64, 64, device=device)
product[(1,)](x, out, 64, 256, num_warps=8)
assert torch.allclose(out, x.float() @ x.float().T, rtol=1e-3)
assert triton.runtime.driver.active.utils.get_device_properties(device.index)["warpSize"] == 32
time_ms = triton.testing.do_bench(lambda: product[(1,)](x, out, 64, 256, num_warps=8))
print(device, 0 < time_ms < 1)
"""
    ran = run(folder, HEAD + text, "--pageable-memory", "--simulate")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["cpu", "True"]


DEPENDENT = """
import sys
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# As Triton's tutorial 11 (programmatic dependent launch): wait for the grid before, load, let the next one begin, compute and store.
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, USE_GDC: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if USE_GDC:
        gdc_wait()
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    if USE_GDC:
        gdc_launch_dependents()
    tl.store(out_ptr + at, x + y, mask=at < n)

n, pdl = 20000, sys.argv[1] == "pdl"
x, y, out, again = (np.arange(n, dtype=np.float32) * k for k in (1, 2, 0, 0))
for a, b, to in ((x, y, out), (out, y, again), (x, y, out), (out, y, again)):
    add[(20,)](Tensor(a), Tensor(b), Tensor(to), n, BLOCK=1024, USE_GDC=pdl, launch_pdl=pdl)
print(np.array_equal(again, x + 2 * y))
"""


@pytest.mark.nightly
@needs_compiler
def test_triton_s_dependent_launches_overlap(folder: Path) -> None:
    """With ``launch_pdl`` and the two instructions each launch but the first begins before the one before it has ended;
    the next takes fewer cycles."""
    cycles = {}
    for how in ("pdl", "plain"):
        options = (
            "--gpu",
            "h200",
            "--pageable-memory",
            "--simulate",
            "--check",
            "race",
            "--format",
            "json",
            "-o",
            "rows.json",
        )
        ran = run(folder, HEAD + DEPENDENT, *options, arguments=(how,))
        assert ran.stdout.splitlines()[0] == "True", ran.stderr
        rows = json.loads((folder / "rows.json").read_text())
        assert not any(row["findings"] for row in rows)
        assert [row.get("overlap_cycles", 0) > 0 for row in rows] == (
            [False, *[True] * (len(rows) - 1)] if how == "pdl" else [False] * len(rows)
        )
        cycles[how] = sum(row["cycles"] * row["launches"] for row in rows)
    assert cycles["pdl"] < cycles["plain"]


def test_an_autotuner_in_a_program_says_which_of_its_configurations_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    class Autotuner:
        def prune_configs(self, kwargs: dict) -> list[str]:
            return ["B: 64", "B: 128"]

        def _bench(self, *args: object, config: str, **meta: object) -> str:
            return config

    told: list[str] = []
    module = ModuleType("autotuner")
    module.Autotuner = Autotuner  # type: ignore[attr-defined]
    TritonDriver(lambda: 0.0, lambda: None, say=told.append).adapt_autotuner(module)
    monkeypatch.setattr(triton_programs, "TOLD_SECONDS", 0.0)
    tuner = Autotuner()
    for _ in range(2):
        assert [tuner._bench(config=each) for each in tuner.prune_configs({})] == ["B: 64", "B: 128"]
    assert told == [f"autotuning a kernel: configuration {n} of 2 ({c})" for n, c in ((1, "B: 64"), (2, "B: 128"))] * 2
