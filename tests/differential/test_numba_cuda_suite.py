"""numba-cuda's own tests, from the installed package, under ``gpusim run``: does the emulated GPU do what they ask of a
real one?

Every test passes, is skipped by its own conditions, or stands below with the reason why it cannot pass. One that
fails for another reason, and one that passes although it stands below, makes these tests red.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "numba.cuda.tests"
FOLDERS = ("core", "cudadrv", "cudapy", "doc_examples", "nocuda", "nrt")

BEYOND = "the test reads or writes beyond its array, which a GPU does not notice and gpusim reports"
SHARED = (
    "numba-cuda pickles an IPC handle by its attribute `reserved`, which cuda.bindings 13 does not have: on a GPU too"
)
STAMPS = (
    "Numba marks its cache by a hash of the source, numba-cuda by its time and size: each discards the other's index"
)
#: Start of a test's id (behind PACKAGE) -> why it fails.
REFUSED = {
    "cudadrv.test_cuda_driver.TestAcceleratedArchitecture.test_device_arch_specific": BEYOND,
    "cudapy.test_caching.CUDAAndCPUCachingTest": STAMPS,
    "cudapy.test_dispatcher.TestDispatcher.test_dispatcher_cpointer_arguments": BEYOND,
    "cudapy.test_ipc.TestIpcMemory": SHARED,
    "cudapy.test_ipc.TestIpcStaged": SHARED,
    "cudapy.test_localmem.TestCudaLocalMem.test_struct_model_type_arr": BEYOND,
}
#: Modules that are not run at all.
LEFT_OUT = {
    "cudapy.test_cupy_bfloat16_interop": "it needs CuPy, which gpusim refuses",
    "cudapy.test_bfloat16_bindings": "compiling its header takes longer than all the rest",
}
#: Single tests that are not run.
TOO_LARGE = {
    "cudadrv.test_managed_alloc.TestManagedAlloc.test_managed_alloc_driver_undersubscribe": "it fills a tenth of the device's memory, 14 GiB of the host's",
}
#: What every run of the tests looks at: memory, contexts, records, events. Reductions and shared memory, whose modules
#: compile for most of their time, run every day in tests/kernels/test_run_scripts.py, local memory in
#: local_memory_spill of the suite.
EVERYDAY = (
    "cudadrv.test_array_attr",
    "cudadrv.test_context_stack",
    "cudadrv.test_cuda_devicerecord",
    "cudadrv.test_cuda_memory",
    "cudadrv.test_deallocations",
    "cudadrv.test_events",
    "cudadrv.test_module_callbacks",
)
pytest.importorskip("filecheck", reason="numba-cuda's tests need it; it is one of the extras for tests")


def modules() -> list[str]:
    """The installed test modules, as ``cudapy.test_sm``."""
    base = Path(importlib.util.find_spec("numba_cuda").submodule_search_locations[0], "numba", "cuda", "tests")
    found = [f"{folder}.{path.stem}" for folder in FOLDERS for path in sorted((base / folder).glob("test_*.py"))]
    return [name for name in found if name not in LEFT_OUT]


def run(tmp_path: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    """Outcomes of the modules' tests by id behind PACKAGE."""
    outcomes = tmp_path / "outcomes.json"
    program = [
        str(ROOT / "tests" / "support" / "numba_cuda_suite.py"),
        str(outcomes),
        *(f"{PACKAGE}.{name}" for name in names),
    ]
    program += ["without", *(f"{PACKAGE}.{name}" for name in TOO_LARGE)]
    command = [sys.executable, "-m", "gpusim.cli", "run", "-o", str(tmp_path / "launches.txt"), *program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
    assert process.returncode == 0, process.stderr[-3000:]
    # A module that cannot be imported is one failed test of unittest's own.
    return {
        name.removeprefix(f"{PACKAGE}.").replace("unittest.loader._FailedTest.", names[0].split(".")[0] + "."): outcome
        for name, outcome in json.loads(outcomes.read_text()).items()
    }


def check(outcomes: dict[str, list[str]]) -> None:
    """Every failure has its reason in REFUSED, and nothing that stands there passes."""
    refused = {name for name in outcomes if any(name.startswith(start) for start in REFUSED)}
    failed = {name: reason for name, (outcome, reason) in outcomes.items() if outcome == "failed"}
    assert not {name: failed[name] for name in failed if name not in refused}
    assert not {name for name in refused if outcomes[name][0] == "passed"}, "these pass now: take them out of REFUSED"
    assert any(outcome == "passed" for outcome, _ in outcomes.values()) or refused or not failed


def test_the_everyday_slice_passes(tmp_path) -> None:
    outcomes = run(tmp_path, EVERYDAY)
    check(outcomes)
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) >= 70


@pytest.mark.nightly
@pytest.mark.parametrize("name", modules())
def test_every_module_passes(name, tmp_path) -> None:
    check(run(tmp_path, (name,)))
