"""Times on the GPU: CUPTI's records join the launches that made them, and whatever CUPTI does, launches are counted."""

from __future__ import annotations

import subprocess
import tempfile
import time
from math import exp, log
from pathlib import Path

import pytest
from recorded import COMPILER, environment, fake_cupti, injected, stub_folder

from gpusim.collect.once import recorded
from gpusim.collect.totals import Total
from gpusim.record.sketch import quantile_ns
from gpusim.record.wire import MOST_BINS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")


def rows(what: str, wrong: str = "", settings=environment, **more: str) -> tuple[int, list[Total]]:
    """Exit code, and rows as they came, of the program that does ``what`` where CUPTI has what is ``wrong``."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    path = folder / "s"
    own = settings(path, GPUSIM_RECORD_CUPTI=str(fake_cupti()), FAKE_CUPTI=wrong, **more)
    program = [stub_folder() / "program", what]
    code, totals, _ = recorded(folder, path, lambda: subprocess.run(program, env=own, timeout=20).returncode)
    return code, list(totals)


def run(what: str, wrong: str = "", settings=environment, **more: str) -> tuple[int, dict[tuple[str, str, int], Total]]:
    """(exit code, totals by kernel, kind and blocks) of ``rows``."""
    code, totals = rows(what, wrong, settings, **more)
    found: dict[tuple[str, str, int], Total] = {}
    for total in totals:
        key = (total.what.kernel, total.what.kind, total.what.grid[0])
        if key in found:
            found[key].add(total)
        else:
            found[key] = total
    return code, found


def test_times_join_their_launches() -> None:
    code, totals = run("times", RANK="2")
    assert code == 0 and set(totals) == {
        ("alpha", "launch", 5), ("alpha", "launch", 3), ("", "graph", 0), ("in_graph", "in graph", 3),
        ("in_graph", "in graph", 4), ("alpha", "captured", 8),
    }  # fmt: skip
    first = totals["alpha", "launch", 5]
    assert (first.launches, first.timed, first.sum_ns, first.least_ns, first.most_ns) == (100, 100, 500_000, 5000, 5000)
    assert (first.what.block, first.what.dynamic_shared_bytes, first.what.gpu) == ((64, 1, 1), 128, "40" * 16)
    other = totals["alpha", "launch", 3]
    assert (other.launches, other.timed, other.sum_ns) == (20, 20, 60_000)


def test_a_time_that_comes_before_its_launch_waits_for_it() -> None:
    """CUPTI has given the record out, the thread has not yet noted that the call succeeded."""
    split = [total for total in rows("times", wrong="b")[1] if total.what.grid[0] == 5]
    assert [(total.launches, total.timed) for total in split] == [(100, 100)]


def test_kernels_of_a_graph_are_counted_by_their_times() -> None:
    totals = run("times")[1]
    assert (totals["", "graph", 0].launches, totals["", "graph", 0].timed) == (4, 0)
    for blocks in (3, 4):
        kernel = totals["in_graph", "in graph", blocks]
        assert (kernel.launches, kernel.timed, kernel.sum_ns) == (4, 4, 4000 * blocks)
        assert kernel.what.gpu == "41" * 16  # the record's own device, whose UUID nobody had asked for


def test_without_callbacks_times_join_by_kernel_and_shape() -> None:
    totals = run("times", GPUSIM_RECORD_CALLBACKS="0")[1]
    assert (totals["alpha", "launch", 5].launches, totals["alpha", "launch", 5].sum_ns) == (100, 500_000)
    assert totals["in_graph", "in graph", 3].launches == 4


def test_who_has_subscribed_before_keeps_cupti() -> None:
    """Its buffers are registered too: records of the recorder's would be taken from it."""
    totals = run("times", wrong="s")[1]
    assert (totals["alpha", "launch", 5].launches, totals["alpha", "launch", 5].timed) == (100, 0)
    assert totals["", "graph", 0].launches == 4 and ("in_graph", "in graph", 3) not in totals


@pytest.mark.parametrize(("what", "timed"), [("profiles first", 0), ("profiles later", 100)])
def test_a_program_that_profiles_itself_gets_its_records_in_its_own_buffers(what: str, timed: int) -> None:
    """It loads its libcupti itself and asks it with dlsym, as XLA does; the recorder counts on."""
    code, totals = run(what)
    assert (code, totals["alpha", "launch", 5].launches, totals["alpha", "launch", 5].timed) == (0, 100, timed)


@pytest.mark.parametrize("what", ["profiles first", "profiles later"])
def test_a_program_that_the_recorder_does_not_see_is_not_refused(what: str) -> None:
    """Loaded by the driver alone, the recorder keeps no subscription. A buffer of its own may end with the program,
    which may free it."""
    assert run(what, settings=injected)[0] in (0, 9)


def test_the_driver_loads_the_recorder() -> None:
    """CUDA_INJECTION64_PATH alone: nothing is interposed, and CUPTI's times tell the launches."""
    code, totals = run("times", settings=injected)
    launch = totals["alpha", "launch", 5]
    assert (code, launch.launches, launch.timed, launch.sum_ns) == (0, 100, 100, 500_000)
    assert (launch.what.registers, launch.what.gpu) == (40, "40" * 16)
    assert totals["in_graph", "in graph", 3].launches == 4


def test_the_driver_loads_the_recorder_with_callbacks() -> None:
    """Where they are asked for, they tell streams, ranges, graphs and captures too."""
    code, totals = run("times", settings=injected, GPUSIM_RECORD_CALLBACKS="1")
    launch = totals["alpha", "launch", 5]
    assert (code, launch.launches, launch.timed, launch.sum_ns) == (0, 100, 100, 500_000)
    assert (launch.what.registers, launch.what.gpu) == (40, "40" * 16)
    assert totals["", "graph", 0].launches == totals["in_graph", "in graph", 3].launches == 4
    assert (totals["alpha", "captured", 8].launches, totals["alpha", "captured", 8].timed) == (1, 0)


def test_preloaded_and_injected_counts_once() -> None:
    def both(path: Path, **more: str) -> dict[str, str]:
        return {**injected(path), **environment(path, **more)}

    assert run("plain", settings=both)[1]["alpha", "launch", 5].launches == 100


def test_times_that_come_only_where_they_are_forced_come_at_exit() -> None:
    code, totals = run("plain", wrong="h")
    assert (code, totals["alpha", "launch", 5].timed) == (0, 100)


@pytest.mark.parametrize("wrong", list("veoxdw"))
def test_whatever_cupti_does_launches_are_counted(wrong: str) -> None:
    began = time.monotonic()
    code, totals = run("fork" if wrong == "v" else "plain", wrong)
    assert (code, totals["alpha", "launch", 5].launches) == (0, 100)
    assert time.monotonic() - began < 15  # a flush that never ends is not waited for


def test_a_record_that_comes_again_and_again_ends() -> None:
    code, totals = run("plain", wrong="r")
    assert (code, totals["alpha", "launch", 5].launches) == (0, 100)


def test_a_program_that_profiles_itself_has_cupti_for_itself() -> None:
    code, totals = run("subscribes")
    assert code == 0 and totals["alpha", "launch", 5].launches == 100
    assert (totals["alpha", "launch", 9].launches, totals["alpha", "launch", 9].timed) == (10, 0)


def test_quantiles_over_six_decades() -> None:
    """A batch with more different times than it has bins: the sketch stays near at every quantile."""
    total = run("threads", wrong="l", GPUSIM_RECORD_PERIOD_MS="60000")[1]["alpha", "launch", 7]
    times = sorted(1000 * exp(log(1e6) * (number * 0.6180339887498949 % 1)) for number in range(1101, 5101))
    # The last launches may come in a batch of their own.
    assert total.timed == len(times) and len(total.bins) <= 2 * MOST_BINS
    for share in (0.1, 0.5, 0.9, 0.99):
        found = quantile_ns(total.bins, share)
        assert found is not None and abs(found / times[int(share * (len(times) - 1))] - 1) < 0.2
