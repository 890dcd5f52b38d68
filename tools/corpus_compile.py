"""Compile a corpus of kernels for some architectures, with no GPU, and survey each.

Mental model: the installed package's test methods run as they are, but on a stand-in device: compiling is real,
launching does nothing, arrays stay on the host, and every assertion holds, so that a method goes on to its last
kernel. Each kernel that Numba finishes is linked there and then; all of an architecture are decoded and surveyed
together at the end. Nothing of the package is copied. Each architecture is given with its modules and has a process of
its own, forked from one that has imported Numba and set it up; they run one after the other and print one JSON object a
line::

    python tools/corpus_compile.py --every 20 --pick 3 sm_90=suite,numba.cuda.tests.cudapy.test_math sm_80=suite

``suite`` stands for the kernels of the project's own suite, which are built for their small shapes. With ``--most N`` a
test method is left when it has compiled N kernels: some compile one kernel for each of fifty types.

Each line names its "architecture". Lines are ``{"kernel", "test", "sha256", "instructions", "forms": [[form, refused,
count]...], "examples"}`` for a kernel, ``{"failed", "test", "reason"}`` for one that does not link, ``{"module",
"skipped"}`` for a module that cannot be imported, ``{"module", "methods"}`` for one that can.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import importlib
import io
import json
import math
import multiprocessing.process
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import types as python_types
import unittest
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar
from unittest import mock

#: Set before Numba is imported: what the tests ask to be cached must not land in the installed package.
os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="gpusim-corpus-")
atexit.register(shutil.rmtree, os.environ["NUMBA_CACHE_DIR"], ignore_errors=True)
#: What an earlier process has built would not be compiled, and so not be surveyed.
os.environ["GPUSIM_CACHE_DIR"] = ""

import numpy as np
from _pytest import outcomes
from numba import cuda
from numba.cuda import api, dispatcher
from numba.cuda.cudadrv import devices

from gpusim.cases.names import general_names
from gpusim.cases.suite import make_case
from gpusim.frontend.numba.build import argument_types, build
from gpusim.isa.architectures import SURVEYED, nearest
from gpusim.isa.binary import disassembler
from gpusim.isa.binary.cubin import KernelImage, load_kernel
from gpusim.isa.survey import survey
from gpusim.isa.target import make_target
from tools import decode_batch

#: A test method that takes more (of the processor's time, of the clock's) is left.
METHOD_CPU_SECONDS, METHOD_SECONDS = 120, 900
#: A larger array has its longest axes cut to this many elements in all: no kernel runs, so nobody reads what is in it,
#: and a kernel is compiled for a type, which has no extents.
MOST_ELEMENTS = 1 << 22
SUITE = "suite"
POPEN = subprocess.Popen


class HostArray(np.ndarray):
    """What ``cuda.to_device`` gives here: a host array with a device array's methods."""

    def copy_to_host(self, ary: np.ndarray | None = None, stream: object = 0) -> np.ndarray:
        if ary is None:
            return np.array(self)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: np.ndarray, stream: object = 0) -> None:
        self[...] = ary

    def split(self, section: int, stream: object = 0) -> Iterator[np.ndarray]:
        return (self[i : i + section] for i in range(0, len(self), section))

    def is_c_contiguous(self) -> bool:
        return self.flags.c_contiguous


class Anything:
    """Streams, events, contexts and whatever else a test only holds in its hands."""

    def __init__(self, **known: Any):
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def __iter__(self) -> Iterator:
        return iter(())

    def __int__(self) -> int:
        return 0

    __index__ = __int__


def stand_in(capability: tuple[int, int]) -> Anything:
    """The runtime of a machine with one device that knows its capability and a few round numbers."""
    device = Anything(
        compute_capability=capability, id=0, name=b"stand-in", WARP_SIZE=32, MULTIPROCESSOR_COUNT=8,
        MAX_THREADS_PER_BLOCK=1024, MAX_BLOCK_DIM_X=1024, MAX_SHARED_MEMORY_PER_BLOCK=49152,
        supports_float16=True, supports_bfloat16=True,
    )  # fmt: skip
    context = Anything(device=device)
    return Anything(get_or_create_context=lambda number=None: context, ensure_context=contextlib.nullcontext)


def on_host(array: Any, *args: Any, **kwargs: Any) -> Any:
    return np.array(array).view(HostArray)


def new_array(shape: Any, dtype: Any = np.float64, *args: Any, **kwargs: Any) -> HostArray:
    extents = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    while math.prod(extents) > MOST_ELEMENTS:
        longest = extents.index(max(extents))
        extents[longest] = (extents[longest] + 1) // 2
    return np.ones(extents, dtype).view(HostArray)


def like(array: np.ndarray, *args: Any, **kwargs: Any) -> HostArray:
    return np.ones_like(array).view(HostArray)


@contextlib.contextmanager
def same_arrays(*arrays: Any, **kwargs: Any) -> Iterator[Any]:
    yield arrays[0] if len(arrays) == 1 else arrays


HOST_API = {
    "to_device": on_host,
    "as_cuda_array": lambda obj, *a, **k: on_host(getattr(obj, "_arr", obj)),
    "from_cuda_array_interface": lambda *a, **k: new_array(8),
    "is_cuda_array": lambda obj: isinstance(obj, HostArray),
    "synchronize": lambda: None,
    "is_available": lambda: True,
    "detect": lambda: True,
    "pinned": same_arrays,
    "mapped": same_arrays,
    "defer_cleanup": contextlib.nullcontext,
    "close": lambda: None,
    **{name: new_array for name in ("device_array", "managed_array", "pinned_array", "mapped_array")},
    **{name: like for name in ("device_array_like", "pinned_array_like", "mapped_array_like")},
    **{
        name: lambda *a, **k: Anything()
        for name in (
            "stream", "event", "default_stream", "legacy_default_stream", "per_thread_default_stream",
            "external_stream", "select_device",
        )
    },
}  # fmt: skip


class Raised:
    """``assertRaises`` that is content with anything, nothing included."""

    exception = warning = Exception("")
    output: ClassVar[list[str]] = [""]
    records: ClassVar[list] = []

    def __enter__(self) -> Raised:
        return self

    def __exit__(self, *exc_info: object) -> bool:
        return exc_info[0] is None or issubclass(exc_info[0], Exception)


def content(self: Any, *args: Any, **kwargs: Any) -> Raised:
    """Stands for every assertion; calls what ``assertRaises(error, f, ...)`` would call."""
    for position, argument in enumerate(args):
        if position and callable(argument) and not isinstance(argument, type):
            with contextlib.suppress(Exception):
                argument(*args[position + 1 :])
            break
    return Raised()


def run_source(command: Any, *args: Any, **kwargs: Any) -> subprocess.CompletedProcess:
    """Programs that a test would start as ``python -c source`` run right here; others do not run."""
    if isinstance(command, (list, tuple)) and len(command) > 2 and command[1] == "-c":
        with contextlib.suppress(Exception, SystemExit):
            exec(compile(command[2], "<test program>", "exec"), {"__name__": "__main__"})
    return subprocess.CompletedProcess(command, 0, b"", b"")


def no_process(*args: Any, **kwargs: Any) -> None:
    raise unittest.SkipTest("other processes would not have the stand-in device")


def assertions() -> dict[str, Any]:
    return {name: content for name in dir(unittest.TestCase) if name.startswith("assert")} | {"fail": content}


class Enough(BaseException):
    """Leaves a test method that has compiled as many kernels as were asked for; no test catches it."""


class Collector:
    """Surveys every kernel that Numba finishes compiling; ``most`` of one method, if not 0."""

    def __init__(self, architecture: str, most: int, out: Any):
        self.out, self.architecture, self.most = out, architecture, most
        self.capability = capability = make_target(architecture).capability
        self.test, self.compiled = "", 0
        self.link = (*capability, nearest(capability).suffix)
        self.seen: set[str] = set()
        self.waiting: list[tuple[str, str, KernelImage]] = []
        self._compile = dispatcher._Kernel.__init__

    def begin(self, test: str) -> None:
        """What is compiled from here on is of ``test``."""
        self.test, self.compiled = test, 0

    def emit(self, **record: Any) -> None:
        print(json.dumps({"architecture": self.architecture, **record}), file=self.out, flush=True)

    def hook(self) -> Any:
        """Replaces the constructor of Numba's kernels."""

        def compiled(kernel: Any, py_func: Any, argtypes: Any, *args: Any, **kwargs: Any) -> None:
            if self.most and self.compiled == self.most:
                raise Enough
            self.compiled += 1
            if kwargs.get("link"):
                kwargs["link"] = list(kwargs["link"])
            self._compile(kernel, py_func, argtypes, *args, **kwargs)
            try:
                cubin = bytes(kernel._codelibrary.get_cubin(cc=self.link).code)
                image = load_kernel(cubin, kernel.entry_name)
            except Exception as error:  # a kernel that does not link is part of the statement
                self.emit(failed=py_func.__name__, test=self.test, reason=f"{type(error).__name__}: {error}"[:300])
                return
            if image.sha256 not in self.seen:
                self.seen.add(image.sha256)
                self.waiting.append((py_func.__name__, self.test, image))

        return compiled

    def flush(self) -> None:
        """Survey what has been compiled: with one start of the disassembler, which takes longer than its work."""
        codes = [b"".join(i.code[base : base + size] for _, base, size in i.sections) for _, _, i in self.waiting]
        decoded = decode_batch.decode_codes(codes, self.capability[0] * 10 + self.capability[1])
        for (name, test, image), instructions in zip(self.waiting, decoded, strict=True):
            found = survey(image, instructions, name)
            self.emit(
                kernel=name,
                test=test,
                sha256=image.sha256,
                instructions=found.instructions,
                forms=[[form.text, form.refused, count] for form, count in found.counts.items()],
                examples={form.text: place for form, place in found.examples.items()},
            )
        self.waiting.clear()


def out_of_time(*_: Any) -> None:
    raise TimeoutError(f"no end after {METHOD_CPU_SECONDS} s")


def cases_of(module: python_types.ModuleType) -> Iterator[unittest.TestCase]:
    """The test methods that ``module`` itself defines, flattened."""
    todo = [unittest.defaultTestLoader.loadTestsFromModule(module)]
    while todo:
        for item in todo.pop():
            if isinstance(item, unittest.TestSuite):
                todo.append(item)
            elif type(item).__module__ == module.__name__:
                yield item


def run_suite(collector: Collector, every: int, pick: int) -> None:
    """Build the kernels of Numba that the suite's entries launch; others are compiled and run by their own tests."""
    entries = [name for name in general_names() if zlib.crc32(name.encode()) % every == pick]
    for name in entries:
        collector.begin(name)
        for launch in make_case(name, {}, small=True).launches:
            if isinstance(launch.kernel, dispatcher.CUDADispatcher):
                build(launch.kernel, argument_types(launch.kernel, launch.args), collector.capability, lines=False)
    collector.emit(module=SUITE, methods=len(entries))


def run_module(name: str, collector: Collector, every: int, pick: int) -> None:
    """Run the methods of module ``name`` whose name's hash is ``pick`` modulo ``every``."""
    try:
        collector.begin(name)
        module = importlib.import_module(name)
    except (Exception, outcomes.OutcomeException) as error:  # pytest's skipping is no Exception
        collector.emit(module=name, skipped=f"{type(error).__name__}: {error}"[:200])
        return
    methods = 0
    for case in cases_of(module):
        if zlib.crc32(case.id().encode()) % every != pick:
            continue
        methods += 1
        collector.begin(case.id().removeprefix("numba.cuda.tests."))
        signal.setitimer(signal.ITIMER_PROF, METHOD_CPU_SECONDS)
        signal.alarm(METHOD_SECONDS)
        try:
            with mock.patch.multiple(type(case), **assertions()):
                case.run(unittest.TestResult())
        except Enough:
            pass
        except Exception as error:  # the loader's own stand-ins for broken classes raise
            collector.emit(failed=case.id(), test=collector.test, reason=str(error)[:200])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    collector.emit(module=name, methods=methods)


def stand_in_for_everything() -> None:
    """Replace what needs a device, and what would check results or start programs."""
    # The text checker that Numba's test helpers import; nothing is checked here.
    for part in ("", ".matcher", ".options", ".parser", ".finput"):
        sys.modules["filecheck" + part] = mock.MagicMock()
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGPROF, out_of_time)
    devices._DeviceList.lst = property(lambda self: [devices.get_context().device])
    for name, value in HOST_API.items():
        for home in (cuda, api):
            if hasattr(home, name):
                setattr(home, name, value)
    kernel = dispatcher._Kernel
    kernel.bind = lambda self: None
    kernel.launch = lambda self, *args, **kwargs: None
    kernel.max_cooperative_grid_blocks = lambda self, *args, **kwargs: 8
    for name in (
        "regs_per_thread",
        "const_mem_size",
        "shared_mem_per_block",
        "max_threads_per_block",
        "local_mem_per_thread",
    ):
        setattr(kernel, name, 32)
    dispatcher.ForAll._compute_thread_per_block = lambda self, dispatcher: 128
    for name in [n for n in dir(np.testing) if n.startswith("assert")]:
        setattr(np.testing, name, lambda *args, **kwargs: None)
    disassembler.subprocess = python_types.SimpleNamespace(  # the disassembler does run
        Popen=POPEN, PIPE=subprocess.PIPE, CompletedProcess=subprocess.CompletedProcess
    )
    subprocess.run = run_source
    subprocess.check_output = lambda *args, **kwargs: run_source(*args).stdout
    subprocess.Popen = multiprocessing.process.BaseProcess.start = no_process


def set_up_numba() -> None:
    """Compile one kernel, for which Numba loads its tables of types and functions: the processes forked then have
    them."""
    devices._runtime = stand_in(make_target(SURVEYED[0].name).capability)
    nothing = cuda.jit(lambda array: None)
    build(nothing, argument_types(nothing, (np.zeros(1),)), make_target(SURVEYED[0].name).capability, lines=False)


def compile_share(architecture: str, names: list[str], asked: argparse.Namespace, out: Any) -> None:
    """Compile and survey modules ``names`` for ``architecture``, in this process."""
    collector = Collector(architecture, asked.most, out)
    devices._runtime = stand_in(collector.capability)
    dispatcher._Kernel.__init__ = collector.hook()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name in names:
            if name == SUITE:
                run_suite(collector, asked.every, asked.pick)
            else:
                run_module(name, collector, asked.every, asked.pick)
    collector.flush()


def in_a_fork(architecture: str, names: list[str], asked: argparse.Namespace, out: Any) -> int:
    """The exit status of a forked process that does :func:`compile_share`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        compile_share(architecture, names, asked, out)
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    out.flush()
    sys.__stderr__.flush()
    os._exit(status)  # Numba's clean-up at exit would look for a driver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shares", nargs="+", metavar="ARCH=MODULE,...", help="an architecture and its modules")
    parser.add_argument("--every", type=int, default=1, help="of each module, every N-th test method by hash")
    parser.add_argument("--pick", type=int, default=0, help="which of each N")
    parser.add_argument("--most", type=int, default=0, help="leave a test method after N kernels (0: never)")
    asked = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print is no data
    stand_in_for_everything()
    gc.set_threshold(50_000, 20, 50)  # a kernel that Numba compiles wakes the garbage collector many times otherwise
    set_up_numba()
    gc.freeze()
    for share in asked.shares:
        architecture, _, names = share.partition("=")
        if status := in_a_fork(architecture, names.split(","), asked, out):
            print(f"{architecture}: the compiling process ended with {status}", file=sys.__stderr__, flush=True)
            os._exit(1)
    out.close()
    os._exit(0)


if __name__ == "__main__":
    main()
