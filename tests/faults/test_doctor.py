"""Does `gpusim doctor` see what is missing, say what mends it, and fail only where nothing can be simulated?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from gpusim import cli, doctor
from gpusim.errors import SiliconError


class Gpu(FakeGpu):
    name = "NVIDIA H200"

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    def facts(self):
        return replace(super().facts(), name=self.name)


@pytest.fixture
def look(monkeypatch, capsys, tmp_path: Path):
    """``look()``: exit code and findings by name, on a machine with a GPU and a store of its own."""
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setattr(doctor, "CudaDriver", Gpu)

    def run() -> tuple[int, dict[str, dict]]:
        code = cli.run(["doctor", "--quick", "--format", "json"])
        return code, {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}

    return run


def test_a_machine_that_simulates_is_healthy_with_or_without_a_gpu(look, monkeypatch) -> None:
    code, found = look()
    assert code == 0 and not [f for f in found.values() if f["state"] == "failed"]
    assert found["GPU"]["state"] == "ok" and "described as h200" in found["GPU"]["found"]

    def none():
        raise SiliconError("there is no CUDA driver here: `gpusim doctor` says")

    monkeypatch.setattr(doctor, "CudaDriver", none)
    code, found = look()
    assert code == 0 and found["GPU"]["state"] == "missing" and "gpusim doctor" not in found["GPU"]["found"]


def test_a_gpu_that_nobody_described_is_a_note(look, monkeypatch) -> None:
    monkeypatch.setattr(Gpu, "name", "NVIDIA H400")
    assert look()[1]["GPU"]["state"] == "note"


def test_a_missing_package_fails_and_is_named(look, monkeypatch) -> None:
    there = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "simpy" else there(name))
    code, found = look()
    assert code == 3 and found["packages"]["state"] == "failed" and found["packages"]["remedy"] == "pip install simpy"
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "pyarrow" else there(name))
    code, found = look()
    assert code == 0 and found["pyarrow"]["state"] == "missing" and found["pyarrow"]["remedy"] == "pip install pyarrow"


def test_the_compilers_are_proved_on_a_kernel(monkeypatch) -> None:
    check = doctor._toolchain()
    assert check.state == "ok" and "disassembled" in check.found


def test_counters_that_only_root_may_read(look, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "params").write_text("EnableMSI: 1\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(doctor, "_PARAMETERS", tmp_path / "params")
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    found = look()[1]["counters"]
    assert found["state"] == "missing" and "NVreg_RestrictProfilingToAdminUsers=0" in found["remedy"]
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    assert look()[1]["counters"]["state"] == "ok"


def test_a_store_that_is_damaged_or_cannot_be_made(look, monkeypatch, tmp_path: Path) -> None:
    assert "will be made" in look()[1]["store"]["found"]
    (tmp_path / "store.sqlite").write_bytes(b"no database at all" * 100)
    code, found = look()
    assert code == 0 and found["store"]["state"] == "missing" and found["store"]["remedy"]
    monkeypatch.setenv("GPUSIM_STORE", "/proc/nowhere/store.sqlite")
    assert look()[1]["store"]["state"] == "missing"


def test_nowhere_to_keep_compiled_code(look, monkeypatch) -> None:
    monkeypatch.setattr(doctor.numba_config, "CACHE_DIR", "/proc/nowhere")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/nowhere")
    found = look()[1]["compile cache"]
    assert found["state"] == "note" and "NUMBA_CACHE_DIR" in found["remedy"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "missing",
    [
        ("numba", "llvmlite"),
        ("tabulate",),
        ("sqlalchemy",),
        ("msgspec",),
        ("numpy", "pandas", "numba", "tabulate", "sqlalchemy", "simpy", "msgspec"),
    ],
)
def test_it_runs_without_what_it_looks_for(missing, tmp_path: Path) -> None:
    """Packages that are not there are named with what installs them, by a doctor that does without them."""
    block = f"""
import importlib.metadata, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {set(missing)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

class Unlisted(importlib.metadata.DistributionFinder):
    def find_distributions(self, context):
        if context.name and context.name.lower() in {set(missing)!r}:
            raise importlib.metadata.PackageNotFoundError(context.name)
        return iter(())

sys.meta_path[:0] = [Absent(), Unlisted()]
from gpusim import cli
sys.exit(cli.run(["doctor", "--quick", *sys.argv[1:]]))
"""
    environment = {
        **os.environ,
        "GPUSIM_STORE": str(tmp_path / "s.sqlite"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr
    (line,) = [
        line for line in done.stdout.replace("\n" + " " * 10, " ").splitlines() if line.startswith("failed   packages")
    ]
    for name in set(missing) - {"llvmlite"}:
        assert name in line
    assert "-> pip install" in " ".join(done.stdout.split())


def test_the_text_fits_a_terminal(look, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["doctor", "--quick"]) == 0
    assert all(
        len(line) <= 80 for line in capsys.readouterr().out.splitlines() if "http" not in line and "/" not in line
    )
