"""What all tests share: the Hypothesis profiles, and a home for caches that no user's files enter.

``HYPOTHESIS_PROFILE=nightly`` draws many more, different examples; the default ``ci`` profile always
draws the same ones, so that a red run is red for everybody.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path

import cpu_counter
import day_share
import kept_compiled
import night_share
import pytest
import row_counter
import shared_statements
from hypothesis import HealthCheck, settings

from gpusim.commands.compiled_parts import COMPILED_PARTS
from gpusim.errors import ToolchainError
from gpusim.explore.draw import without_constants_of_source_files
from gpusim.io import progress
from gpusim.isa.architectures import BUILT
from gpusim.isa.binary import disassembler

# The matrices of the tests are small: a second thread, which waits for its share by spinning, takes twenty times the
# processor time of the product. For workers and for processes that tests start, which read it as NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Each kernel that Numba compiles, and each import, wakes the garbage collector many times with Python's own thresholds:
# it would take a fifth of the tests' time.
gc.set_threshold(50_000, 20, 50)
settings.register_profile(
    "ci",
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
#: Commands that tests call in this process speak of their progress only where a test wants it, however busy the machine
#: is.
progress.SILENT_SECONDS = float("inf")

#: The files that take longest, or whose first test does: begun last, one of them would leave all workers but its own
#: with nothing to do. Tensor memory is among them for its unit, which takes seconds to compile: two workers that came
#: to it at once would each do so.
LONGEST_FIRST = (
    "tests/fidelity/test_against_silicon.py",
    "tests/test_docs.py",
    "tests/semantics/test_corpus.py",
    "tests/property/test_explore.py",
    "tests/differential/test_numba_cuda_suite.py",
    "tests/property/test_explore_properties.py",
    "tests/faults/test_async_tensor_checks.py",
    "tests/faults/test_standard_streams.py",
    "tests/property/test_mutants.py",
    "tests/fidelity/test_measure.py",
    "tests/differential/test_random_kernels.py",
    "tests/differential/test_engine_invariance.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nights")
    group.addoption(
        "--nights",
        type=int,
        metavar="N",
        help="Run a N-th of the nightly tests, another one each day: N nights run all.",
    )
    group.addoption(
        "--night", type=int, metavar="K", help="With --nights: number K in place of today's, to run a night again."
    )


def pytest_configure(config: pytest.Config):
    """Count what is asked for: which rows of the instruction table the tests run (``row_counter.py``), and what
    processor time they take (``cpu_counter.py``). Let Hypothesis draw no numbers that stand in source files, but where
    it draws others each time: what it drew would depend on which modules a worker has imported by then."""
    if folder := os.environ.get(row_counter.VARIABLE):
        row_counter.install(Path(folder).resolve())
    if folder := os.environ.get(cpu_counter.VARIABLE):
        config.pluginmanager.register(cpu_counter.CpuCounter(Path(folder).resolve()))
    if settings.get_current_profile_name() == "ci":
        constants = contextlib.ExitStack()
        constants.enter_context(without_constants_of_source_files())
        config.add_cleanup(constants.close)


@pytest.hookimpl(trylast=True)  # when all parameters are known
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no items of cases that ``-m "not nightly"`` leaves out again, where all of the day is asked for: they are as
    many as those that run."""
    config = metafunc.config
    some = config.getoption("keyword") or any("::" in str(argument) for argument in config.args)
    if config.getoption("markexpr") == "not nightly" and not some:
        metafunc._calls = day_share.calls_by_day(metafunc)


def pytest_collection_finish() -> None:
    """What is there once all test files are imported stays: the collector need not look through it again."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nor through what the tests left, as pytest would five times over before it ends. What workers have compiled is
    kept for other checkouts of these sources."""
    if session.config.pluginmanager.has_plugin("dsession") and (store := kept_compiled.kept_folder()):
        kept_compiled.keep(kept_compiled.ROOT, store, kept_compiled.versions())
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Make nightly what ``by_day`` leaves to the night, leave what is other nights' out, and put the longest files
    first; ``--no-loadscope-reorder`` keeps xdist from putting those with most tests there."""
    for item in day_share.nightly_by_day(items):
        item.add_marker(pytest.mark.nightly)
    nights, night = config.getoption("nights"), config.getoption("night")
    if nights:
        night = night_share.today() if night is None else night
        others = [
            item
            for item in items
            if item.get_closest_marker("nightly") and not night_share.runs_tonight(item.nodeid, nights, night)
        ]
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
    last = len(LONGEST_FIRST)
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], last))


@pytest.fixture(autouse=True, scope="session")
def own_store(tmp_path_factory):
    """No test finds, or writes into, the runs that the user has kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSIM_STORE", str(tmp_path_factory.mktemp("store") / "store.sqlite"))
        yield


@pytest.fixture(autouse=True, scope="session")
def statements_compiled_once():
    with shared_statements.shared_statements():
        yield


@pytest.fixture(autouse=True, scope="session")
def kernels_listed_by_one_start():
    """The disassembler stands ready from an architecture's first kernel on, not from its second: a process of the tests
    has many of each."""
    with contextlib.suppress(ToolchainError):  # a machine without it
        for architecture in BUILT:
            disassembler.is_quick(architecture.capability[0] * 10 + architecture.capability[1])
    yield


@pytest.fixture(scope="module")
def without_source_lines():
    """For modules whose tests look at results and cycles of kernels of their own: Numba compiles a kernel a second time
    for the lines of its source, which takes longer than the first. Not where commands, or processes that the test
    starts, ask for the same kernels: they want lines, and a build that is kept serves all who come after."""
    from gpusim.frontend.numba.frontend import NumbaFrontEnd

    plain = NumbaFrontEnd.compile

    def compile(self, kernel, args, capability, *, lines=False):
        return plain(self, kernel, args, capability, lines=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumbaFrontEnd, "compile", compile)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Before the workers of ``pytest -n`` start: compile emulator and engine side by side, once, through
    Numba's cache on disk, but for what another checkout has kept; workers that all find it cold would each do so. A
    part that fails here fails again, with its message, in the tests that need it."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return
    if store := kept_compiled.kept_folder():
        kept_compiled.restore(kept_compiled.ROOT, store, kept_compiled.versions())
    parts = list(COMPILED_PARTS)
    if not any(Path(__file__).parent.glob("**/__pycache__/test_*-pytest-*.pyc")):
        # The byte code of tests and libraries, three quarters of the time that collection takes, once for all workers.
        parts.append(("pytest", "--collect-only", "-q", "-p", "no:cacheprovider"))
    running = [
        subprocess.Popen([sys.executable, "-m", *part], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for part in parts
    ]
    for process in running:
        process.wait()
