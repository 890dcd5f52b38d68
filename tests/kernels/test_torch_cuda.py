"""PyTorch's CUDA build under ``gpusim run``: does it go as far as docs/how-to/run-a-program.md says? Where it is not
installed, nothing of this runs: it is three gigabytes."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.driver.refused import refuse_allocator

ROOT = Path(__file__).parents[2]
#: Operation -> what the sentence of its refusal names.
REFUSED = {
    "matmul": "libcublas",
    "linear_sgd": "libcublas",
    "conv2d": "libcudnn",
    "fft": "libcufft",
    "inverse": "libcusolver",
    "sparse_mm": "libcusparse",
}


def skip_without_torch() -> None:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("no PyTorch: pip install torch")
    if not (Path(found.origin).parent / "lib" / "libc10_cuda.so").exists():
        pytest.skip("this PyTorch is built without CUDA: pip install torch from PyPI, on Linux")


@pytest.mark.parametrize("library", ["libc10_cuda.so", "libc10.so"])
def test_a_setting_under_which_pytorch_would_crash_is_refused(library: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    for name in ("__init__.py", f"lib/{library}"):
        (tmp_path / "torch" / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"}
    refused = refuse_allocator(settings)
    assert bool(refused) == (library == "libc10_cuda.so") and ("libnvidia-ml.so.1" in refused or not refused)
    assert refuse_allocator({"PYTORCH_ALLOC_CONF": "expandable_segments:False"}) == ""


@pytest.mark.nightly
@pytest.mark.parametrize(("gpu", "more"), [("a100_80gb", {}), ("h200", {"index_add": "UBLKCP"})])
def test_each_operation_works_or_is_refused_in_a_sentence(gpu: str, more: dict[str, str], tmp_path: Path) -> None:
    skip_without_torch()
    refused = REFUSED | more
    command = [sys.executable, "-m", "gpusim.cli", "run", "--gpu", gpu, str(ROOT / "tools" / "try_torch.py")]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["operation"]: row for row in csv.DictReader(done.stdout.splitlines())}
    assert {name for name, row in rows.items() if row["outcome"] != "works"} == {*refused}, done.stdout
    for name, library in refused.items():
        assert library in rows[name]["sentence"]
    for library in {*refused.values()}:
        assert done.stderr.count(f"gpusim: {library}") == 1 or library == "UBLKCP"
