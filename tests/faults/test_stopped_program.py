"""A program that is cloned where it opens its input does what it does when it is started; where it cannot be, it is
started."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numba import cuda

from gpusim.frontend.registry import front_end_of
from gpusim.io import stopped_program
from gpusim.io.stopped_program import CannotStopError, StoppedProgram
from gpusim.isa.binary import disassembler, listing
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.kernel_texts import Texts

CAPABILITY = (8, 0)
#: Says the first word of its input; goes round for ever if that is "endless", is ended by a signal if it is "killed".
SAYS = """
read -r word < "$0"
while [ "$word" = endless ]; do :; done
[ "$word" = killed ] && kill -TERM $$
echo "$word" of $$; echo error >&2; exit 7
"""


@pytest.fixture(scope="module")
def says() -> Iterator[StoppedProgram]:
    try:
        program = StoppedProgram(("sh", "-c", SAYS), b"first", 1, 5)
    except CannotStopError as error:
        pytest.skip(f"no process can be traced here: {error}")
    yield program
    program.close()


def test_each_clone_reads_its_own_input_and_says_what_it_says(says: StoppedProgram) -> None:
    for word in ("one", "a longer one", "two"):
        done = says.run(f"{word}\n".encode(), 5)
        # $$ is what the shell was when it started
        assert done.stdout.decode().split(" of ")[0] == word
        assert (done.stderr, done.returncode) == (b"error\n", 7)


def test_a_clone_that_is_ended_leaves_the_program_as_it_stands(says: StoppedProgram) -> None:
    assert says.run(b"endless\n", 1).returncode == -signal.SIGXCPU
    assert says.run(b"again\n", 5).returncode == 7


def test_no_clone_is_left_behind(says: StoppedProgram) -> None:
    before = len(os.listdir(f"/proc/{os.getpid()}/fd"))
    says.run(b"one\n", 5)
    children = [path for path in os.listdir("/proc") if path.isdigit() and _parent(path) == os.getpid()]
    assert not [path for path in children if _state(path) == "Z"]
    assert len(os.listdir(f"/proc/{os.getpid()}/fd")) == before


def _stat(process: str) -> list[str]:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return ["", "0"]


def _state(process: str) -> str:
    return _stat(process)[0]


def _parent(process: str) -> int:
    return int(_stat(process)[1])


@pytest.mark.parametrize(
    "command", [("false",), ("/nowhere/program",), ("sh", "-c", "exit 3"), ("sh", "-c", "kill $$")]
)
def test_a_program_that_does_not_come_there_is_told(command: tuple[str, ...], says: StoppedProgram) -> None:
    with pytest.raises(CannotStopError):
        StoppedProgram(command, b"", 1, 5)


def test_what_is_not_there_any_more_cannot_be_cloned(says: StoppedProgram) -> None:
    program = StoppedProgram(("cat",), b"", 1, 5)
    assert program.run(b"text", 5).stdout == b"text"
    os.kill(program._pid, signal.SIGKILL)
    time.sleep(0.05)
    with pytest.raises(CannotStopError):
        program.run(b"text", 5)
    program.close()


def texts_of(kernel: tuple[KernelImage, bytes]) -> Texts:
    listing._listings.clear()
    return listing.code_texts(*kernel, use_cache=False)


def _kernel(i: int) -> tuple[KernelImage, bytes]:
    @cuda.jit
    def scaled(x, y):
        place = cuda.grid(1)
        if place < x.size:
            y[place] = x[place] * i + i

    binary = front_end_of(scaled).compile(scaled, (np.ones(4), np.ones(4)), CAPABILITY, lines=False)
    return binary.image, binary.cubin


@pytest.fixture(scope="module")
def kernels() -> list[tuple[KernelImage, bytes]]:
    return [_kernel(i) for i in range(2)]


@pytest.fixture(scope="module")
def by_file(kernels: list[tuple[KernelImage, bytes]]) -> list[Texts]:
    """Their texts as everybody has them who asks for one kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "is_quick", lambda architecture: False)
        return [texts_of(kernel) for kernel in kernels]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the disassembler has been started by itself; it is as if the process had not asked for anything yet."""
    started: list[str] = []
    run = disassembler._run_for
    monkeypatch.setattr(
        disassembler, "_run_for", lambda command, seconds: started.append(command[0]) or run(command, seconds)
    )
    monkeypatch.setattr(disassembler, "_asked", set())
    monkeypatch.setattr(disassembler, "_cannot_stop", set())
    return started


def test_all_but_the_first_kernel_are_listed_without_a_start(
    kernels: list[tuple[KernelImage, bytes]], by_file: list[Texts], starts: list[str], says: StoppedProgram
) -> None:
    assert [texts_of(kernel) for kernel in kernels] == by_file
    assert len(starts) == 1


@pytest.mark.by_day(2)
@pytest.mark.parametrize("where", ["another processor", "a container that forbids it", "killed"])
def test_where_none_can_be_stopped_it_is_started(
    where: str,
    kernels: list[tuple[KernelImage, bytes]],
    by_file: list[Texts],
    starts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    says: StoppedProgram,
) -> None:
    stopped: dict = {}
    monkeypatch.setattr(disassembler, "_stopped", stopped)
    if where == "another processor":
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    elif where == "a container that forbids it":
        monkeypatch.setattr(stopped_program, "_SEIZE", 0x7777)
    found = [texts_of(kernel) for kernel in kernels]
    if where == "killed":
        assert len(starts) == 1
        (program,) = stopped.values()
        os.kill(program._pid, signal.SIGKILL)
        found = [texts_of(kernel) for kernel in reversed(kernels)][::-1]
        assert not program._files and not program._pid  # nothing of it is left
    assert found == by_file
    assert len(starts) > 1


def test_a_forked_process_has_its_own(
    kernels: list[tuple[KernelImage, bytes]], by_file: list[Texts], says: StoppedProgram
) -> None:
    assert [texts_of(kernel) for kernel in kernels] == by_file
    child = os.fork()
    if child == 0:
        try:
            same = [texts_of(kernel) for kernel in [*kernels, kernels[0]]][:2] == by_file
            os._exit(0 if same and len(disassembler._stopped) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert [texts_of(kernel) for kernel in kernels] == by_file
