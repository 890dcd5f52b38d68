"""The recorder in a program: what it counts, and that the program does not feel it, whatever happens to either."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from recorded import COMPILER, environment, stub_folder

from gpusim.collect.once import recorded
from gpusim.collect.totals import Total
from gpusim.record.library import NATIVE

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")


def run(what: str, folder: Path, **more: str) -> tuple[int, list[Total], int]:
    """(exit code, totals, dropped) of the program that does ``what``."""
    path = folder / "s"
    settings = environment(path, **more)
    return recorded(
        folder, path, lambda: subprocess.run([stub_folder() / "program", what], env=settings, timeout=20).returncode
    )


#: XXH64 of "//", the stub's code.
CODE = "358fa1d949bab267"


def by_grid(totals: list[Total]) -> dict[int, int]:
    found: dict[int, int] = {}
    for total in totals:
        found[total.what.grid[0]] = found.get(total.what.grid[0], 0) + total.launches
    return found


@pytest.fixture
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="r"))  # short: a socket's path has 107 bytes


def test_a_launch_is_told_with_all_its_facts(folder: Path) -> None:
    code, totals, dropped = run("plain", folder, RANK="3")
    what = totals[0].what
    assert (code, dropped, by_grid(totals)) == (0, 0, {5: 100})
    assert (what.kernel, what.grid, what.block, what.registers) == ("alpha", (5, 2, 3), (64, 1, 1), 40)
    assert (what.static_shared_bytes, what.dynamic_shared_bytes, what.gpu, what.rank) == (1024, 128, "40" * 16, 3)
    assert (what.name_hash, what.code_hash) == ("c758e1011dda5848", CODE)
    assert totals[0].timed == 0  # no CUPTI: unknown


@pytest.mark.parametrize(
    ("what", "code", "counted"),
    [
        ("fork", 0, {5: 100, 9: 10}),
        ("exec", 0, {5: 200}),
        ("crash", -11, {5: 100}),
        ("_exit", 7, {5: 100}),
        ("threads", 0, {5: 100, 7: 4000}),
        ("refused", 0, {5: 100}),
        ("reloaded", 0, {5: 100, 6: 30}),
        ("resolved", 0, {5: 100, 11: 1, 12: 1}),
        ("next", 0, {5: 100}),
    ],
)
def test_whatever_the_program_does(what: str, code: int, counted: dict[int, int], folder: Path) -> None:
    ended, totals, dropped = run(what, folder)
    assert (ended, by_grid(totals), dropped) == (code, counted, 0)


def test_more_threads_than_rings_lose_nothing_silently(folder: Path) -> None:
    _, totals, dropped = run("crowd", folder)
    assert sum(by_grid(totals).values()) + dropped == 2100


def test_more_shapes_than_counters_are_counted_each(folder: Path) -> None:
    """A thread counts 512 launches in place; the others are events, until counters that are idle are given back."""
    _, totals, dropped = run("shapes", folder)
    counted = by_grid(totals)
    assert (counted.pop(5), dropped, len(counted), set(counted.values())) == (100, 0, 1400, {4})


def test_a_handle_that_comes_again_is_another_kernel(folder: Path) -> None:
    """Although the same launch of the same address was counted before."""
    totals = run("renamed", folder)[1]
    assert {total.what.kernel: total.launches for total in totals} == {"alpha": 100, "delta": 30}


def test_a_launch_is_on_the_gpu_of_its_context(folder: Path) -> None:
    """Whose device is asked once, and again where its address may mean another context."""
    totals = run("contexts", folder)[1]
    on = {(total.what.grid[0], total.what.gpu[:2]): total.launches for total in totals}
    assert on == {(5, "40"): 100, (1, "41"): 4, (2, "42"): 6, (3, "42"): 2}


def test_one_variable_turns_it_off(folder: Path) -> None:
    assert run("resolved", folder, GPUSIM_RECORD="0") == (0, [], 0)


def test_names_hide_behind_a_salt(folder: Path) -> None:
    one = run("plain", folder, GPUSIM_RECORD_SALT="a")[1][0].what
    other = run("plain", Path(tempfile.mkdtemp(prefix="r")), GPUSIM_RECORD_SALT="b")[1][0].what
    assert one.kernel.startswith("#") and len(one.kernel) == 33 and one.kernel != other.kernel
    assert one.code_hash != other.code_hash and one.name_hash != other.name_hash


def test_hashes_are_the_published_ones(folder: Path) -> None:
    """Vectors of the reference implementations of XXH64 and SipHash-2-4 with 128 bits."""
    source = NATIVE / "hash.c"
    subprocess.run([COMPILER, "-std=c11", "-O1", "-shared", "-fPIC", "-o", folder / "hash.so", source], check=True)
    library = ctypes.CDLL(str(folder / "hash.so"))
    library.xxh64.restype = ctypes.c_uint64
    library.xxh64.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    texts = (b"", b"a", b"abc", b"Nobody inspects the spammish repetition")
    expected = ["ef46db3751d8e999", "d24ec4f1a98c6e5b", "44bc2cf5ad770999", "fbcea83c8a378bf1"]
    assert [f"{library.xxh64(text, len(text)):016x}" for text in texts] == expected
    out = (ctypes.c_uint8 * 16)()
    library.siphash128(bytes(range(16)), b"", ctypes.c_size_t(0), out)
    assert bytes(out).hex() == "a3817f04ba25a8e66df67214c7550293"


def test_no_collector_and_a_stuck_one(folder: Path) -> None:
    """A program ends as ever where nobody listens, and where somebody does and reads nothing."""
    program = [stub_folder() / "program", "threads"]
    assert subprocess.run(program, env=environment(folder / "nobody"), timeout=20).returncode == 0
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(folder / "stuck"))
        stuck.listen(1)
        done = subprocess.run(program, env=environment(folder / "stuck"), capture_output=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_collector_of_another_kind_is_told_nothing_more(folder: Path) -> None:
    """Whoever answers with what is no answer is hung up on; the program goes on."""
    with socket.socket(socket.AF_UNIX) as wrong:
        wrong.bind(str(folder / "wrong"))
        wrong.listen(8)
        program = subprocess.Popen([stub_folder() / "program", "exec"], env=environment(folder / "wrong"))
        peer, _ = wrong.accept()
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.settimeout(5)
        while peer.recv(1 << 16):
            pass
        peer.close()
        assert program.wait(20) == 0


def test_who_ends_the_command_ends_the_program_and_still_gets_the_list(folder: Path) -> None:
    """As an init or a batch system does, which knows the command alone."""
    command = [
        sys.executable,
        "-c",
        "from gpusim.cli import main; main()",
        "record",
        "--format",
        "csv",
        "--",
        stub_folder() / "program",
        "spins",
    ]
    settings = {
        **os.environ,
        "LD_LIBRARY_PATH": str(stub_folder()),
        "GPUSIM_RECORD_PERIOD_MS": "50",
        "TMPDIR": str(folder),
    }
    process = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while (
        time.monotonic() < end
        and process.poll() is None
        and not list(folder.glob("gpusim-record-*/collect.sqlite-wal"))
    ):
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while time.monotonic() < end and process.poll() is None and not children.read_text():
        time.sleep(0.02)
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert ",".join(("alpha", "launch", "5x2x3")) in out
    assert not list(folder.glob("gpusim-record-*"))
