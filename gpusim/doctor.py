"""Looking over a machine: each thing that gpusim can use, whether it is there, and what would mend it.

Mental model: a :class:`Check` is one line: a name, a state, what was found, a remedy. ``ok`` works; ``failed`` keeps
kernels from being simulated; ``missing`` is something optional that is not here (a GPU, a profiler, a package of the
report), and ``note`` is worth knowing. Nothing is changed: folders are tried with a temporary file, the store is opened
only if it exists.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim import __version__
from gpusim.errors import GpusimError, SiliconError
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.silicon.names import gpu_of_device

if TYPE_CHECKING:
    from gpusim.measure.driver import DeviceFacts

try:
    from numba import config as numba_config
except ImportError:  # the doctor is who says so
    numba_config = None

try:
    from gpusim.silicon.published import load_published
except ImportError:  # without msgspec no file can be checked
    load_published = None

try:
    from gpusim.store import open_store
    from gpusim.store.location import store_name, store_url
except ImportError:  # without sqlalchemy and msgspec nothing can be kept
    open_store = store_name = store_url = None

try:
    from gpusim.frontend.numba.build import INSTALL_HINT
    from gpusim.measure.cuda_driver import CudaDriver
    from gpusim.measure.cupti import find_library
    from gpusim.measure.toolchain_check import check_toolchain

    _NO_CUDA = ""
except ImportError as error:  # no CUDA packages (macOS): traces can still be simulated
    INSTALL_HINT, CudaDriver, check_toolchain = 'pip install "numba-cuda[cu13]" nvidia-cuda-nvdisasm', None, None
    find_library = None
    _NO_CUDA = str(error)

OK, FAILED, MISSING, NOTE = "ok", "failed", "missing", "note"
REQUIRED = ("numpy", "numba", "simpy", "pandas", "click", "tabulate", "hypothesis", "sqlalchemy", "msgspec")
CUDA_PACKAGES = (
    "numba-cuda",
    "cuda-bindings",
    "nvidia-nvvm",
    "nvidia-nvjitlink",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvdisasm",
)
#: Optional distribution -> what it is for.
OPTIONAL = {
    "matplotlib": "gpusim report (pip install 'gpusim[report]')",
    "jinja2": "gpusim report (pip install 'gpusim[report]')",
    "nvidia-ml-py": "throttling reasons in gpusim measure (pip install nvidia-ml-py)",
    "ncu-report": ".ncu-rep files (pip install 'gpusim[ncu]')",
    "pyarrow": "gpusim runs export to Parquet (pip install pyarrow)",
    "triton": "kernels in Triton (pip install 'gpusim[triton]')",
    "nvidia-cutlass-dsl": "kernels in CuTe DSL (pip install 'gpusim[cute]')",
    "nvidia-cuda-nvcc": ".cu files with host code (pip install 'gpusim[nvcc]')",
    "psycopg": "a store in PostgreSQL (pip install 'gpusim[postgres]')",
    "uvicorn": "gpusim serve (pip install 'gpusim[serve]')",
    "distributed": "--dask of watch run and explore (pip install 'gpusim[dask]')",
}
LEAST_PYTHON = (3, 11)
#: A trace of some million warp instructions and the engine's state fit; less is tight (guess from use).
COMFORTABLE_BYTES = 4 << 30
_PARAMETERS = Path("/proc/driver/nvidia/params")
_PROGRAM_SECONDS = 30


@dataclass(frozen=True)
class Check:
    """One line of the doctor's findings."""

    name: str
    state: str
    found: str
    remedy: str = ""

    def record(self) -> dict[str, str]:
        """The line as data to print."""
        return {"check": self.name, "state": self.state, "found": self.found, "remedy": self.remedy}


def failed(checks: Iterable[Check]) -> bool:
    """Whether kernels cannot be simulated here."""
    return any(check.state == FAILED for check in checks)


def examine(compile_kernel: bool = True) -> list[Check]:
    """All findings, in the order in which one would look. ``compile_kernel``: also prove the compilers, in seconds."""
    checks = [_python(), *_packages(), _descriptions(), _published(), *_machine(), _cache(), _store()]
    checks += [_cuda_packages()]
    if compile_kernel and check_toolchain is not None:
        checks.append(_toolchain())
    return [*checks, *_optional(), *_gpu(), _cupti(), _counters(), *_programs()]


def _python() -> Check:
    found = f"gpusim {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if sys.version_info < LEAST_PYTHON:
        return Check("python", FAILED, found, f"install Python {'.'.join(map(str, LEAST_PYTHON))} or newer")
    return Check("python", OK, found)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _packages() -> list[Check]:
    missing = [name for name in REQUIRED if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in REQUIRED if name not in missing)
    if missing:
        return [Check("packages", FAILED, f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")]
    return [Check("packages", OK, found)]


def _cuda_packages() -> Check:
    missing = [name for name in CUDA_PACKAGES if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in CUDA_PACKAGES if name not in missing)
    if _NO_CUDA or missing:
        what = f"missing: {', '.join(missing) or _NO_CUDA}; kernels cannot be captured, only traces simulated"
        on_linux = platform.system() == "Linux"
        return Check("CUDA packages", FAILED if on_linux else MISSING, what, INSTALL_HINT)
    return Check("CUDA packages", OK, found)


def _attempt(name: str, what: Callable[[], str], remedy: str, state: str = FAILED) -> Check:
    try:
        return Check(name, OK, what())
    except (GpusimError, OSError) as error:
        return Check(name, state, _line(error), remedy)


def _toolchain() -> Check:
    return _attempt("compilers", check_toolchain, INSTALL_HINT)


def _descriptions() -> Check:
    def what() -> str:
        return f"{len([load_gpu(name) for name in list_gpus()])} GPUs described"

    return _attempt("GPU files", what, "reinstall gpusim: pip install --force-reinstall gpusim")


def _published() -> Check:
    if load_published is None:
        return Check("published data", MISSING, "cannot be checked without msgspec", "pip install msgspec")

    def what() -> str:
        return f"{len(load_published())} published measurements"

    return _attempt("published data", what, "reinstall gpusim: pip install --force-reinstall gpusim")


def _machine() -> list[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    checks = [Check("cores", OK, f"{cores}")]
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        found = f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of it free"
        tight = total < COMFORTABLE_BYTES
        checks.append(
            Check("memory", NOTE if tight else OK, found, "capture with --output, in bounded memory" if tight else "")
        )
    except (ValueError, OSError):
        pass  # a system that does not say
    return checks


def _writable(folder: Path) -> str | None:
    """None if a file can be made in ``folder`` (or in the nearest folder above it that exists), else why not."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


def _cache() -> Check:
    if numba_config is None:
        return Check("compile cache", NOTE, "nothing is compiled without numba")
    package = Path(__file__).parent
    folder = Path(numba_config.CACHE_DIR) if numba_config.CACHE_DIR else package
    problem = _writable(folder)
    if problem:  # Numba then takes a folder of the user
        fallback = Path.home() / ".cache" / "numba" if "NUMBA_CACHE_DIR" not in os.environ else folder
        if _writable(fallback):
            return Check("compile cache", NOTE, f"nowhere to keep compiled code ({problem}): each run compiles for a minute",
                         "export NUMBA_CACHE_DIR=/a/folder/that/can/be/written")  # fmt: skip
        return Check("compile cache", OK, f"{fallback} ({package} cannot be written)")
    return Check("compile cache", OK, str(folder))


def _store() -> Check:
    if open_store is None:
        return Check(
            "store", MISSING, "runs cannot be kept without sqlalchemy and msgspec", "pip install sqlalchemy msgspec"
        )
    try:
        url = store_url()
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
            problem = _writable(Path(url.database or "").parent)
            if problem:
                return Check(
                    "store", MISSING, f"cannot be made: {problem}", "set GPUSIM_STORE to a file that can be written"
                )
            return Check("store", OK, f"{store_name(url)} will be made by the first run that is saved")
        with open_store() as store:
            damage = store.damage()
            if damage:
                return Check(
                    "store", MISSING, f"{store_name(url)}: damaged: {damage}", "move the file away, or restore a copy"
                )
            return Check("store", OK, f"{store_name(url)}: {len(store.list_runs())} runs")
    except GpusimError as error:
        return Check("store", MISSING, _line(error), "set GPUSIM_STORE to a file that can be written")


def _optional() -> list[Check]:
    checks = []
    for name, purpose in OPTIONAL.items():
        found = _version(name)
        what, _, remedy = purpose.partition(" (")
        checks.append(
            Check(name, OK, found) if found else Check(name, MISSING, f"only needed for {what}", remedy.rstrip(")"))
        )
    return checks


def _gpu() -> list[Check]:
    if CudaDriver is None:
        return [Check("GPU", MISSING, "no CUDA packages", INSTALL_HINT)]
    try:
        with CudaDriver() as driver:
            facts = driver.facts()
    except SiliconError as error:
        text = _line(error).split(": `gpusim doctor`")[0]
        return [
            Check(
                "GPU",
                MISSING,
                f"{text}; only gpusim measure needs it",
                "install NVIDIA's driver on a machine with a GPU",
            )
        ]
    return [_gpu_found(facts)]


def _gpu_found(facts: DeviceFacts) -> Check:
    capability = ".".join(map(str, facts.capability))
    found = f"{facts.name}, compute capability {capability}, driver {facts.driver}"
    name = gpu_of_device(facts.name)
    if not name:
        remedy = "describe it in a TOML file that inherits one, and give --gpu FILE"
        return Check("GPU", NOTE, f"{found}; not among the described GPUs", remedy)
    return Check("GPU", OK, f"{found}; described as {name}")


def _cupti() -> Check:
    if find_library is None:
        return Check("CUPTI", MISSING, "no CUDA packages", INSTALL_HINT)
    try:
        return Check("CUPTI", OK, find_library()._name)
    except SiliconError as error:
        found = f"{_line(error).split(':')[0]}; gpusim measure takes times by CUDA events then"
        return Check(
            "CUPTI", MISSING, found, "pip install nvidia-cuda-cupti, or set GPUSIM_CUPTI to the path of libcupti.so"
        )


def _counters() -> Check:
    try:
        text = _PARAMETERS.read_text()
    except OSError:
        return Check("counters", MISSING, "no NVIDIA kernel module here; only gpusim measure --method ncu needs it")
    restricted = any(
        line.split(":")[0] == "RmProfilingAdminOnly" and line.rstrip().endswith("1") for line in text.splitlines()
    )
    if restricted and hasattr(os, "geteuid") and os.geteuid() != 0:
        remedy = "run as root, or: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/profiling.conf, reload"
        return Check("counters", MISSING, "the driver lets only root read them", remedy)
    return Check("counters", OK, "may be read")


def _programs() -> list[Check]:
    checks = []
    for name, path, purpose in (
        ("ncu", shutil.which("ncu"), "gpusim measure --method ncu and .ncu-rep files"),
        ("nvidia-smi", shutil.which("nvidia-smi"), "a look at the GPU by hand"),
    ):
        if path is None:
            checks.append(
                Check(name, MISSING, f"not on PATH; only needed for {purpose}", f"put the folder of {name} on PATH")
            )
            continue
        try:
            option = "--version" if name == "ncu" else "-L"
            done = subprocess.run([path, option], capture_output=True, text=True, timeout=_PROGRAM_SECONDS, check=False)
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            checks.append(
                Check(
                    name,
                    OK if done.returncode == 0 else NOTE,
                    f"{path}: {lines[-1].strip() if lines else done.returncode}",
                )
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            checks.append(Check(name, NOTE, f"{path} cannot be run: {_line(error)}", "reinstall it"))
    return checks


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
