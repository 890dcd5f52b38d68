"""Another user's process: it may tell what it launches, as itself, where all users may connect, and nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from collect_sender import Sender, batch
from recorded import COMPILER, environment, stub_folder

from gpusim.collect.ageing import Ages
from gpusim.collect.ledger import Ledger
from gpusim.collect.message import forwarded
from gpusim.collect.server import Connections, listening_socket
from gpusim.collect.totals import of_process
from gpusim.collect.writer import Writer
from gpusim.record import wire

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@contextmanager
def collector(folder: Path, all_users: bool) -> Iterator[Path]:
    """A collector on a thread; where it listens."""
    path, ready, loop = folder / "s", threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        ledger = Ledger(folder / "data")
        writer = Writer(ledger, Ages())
        server = await asyncio.start_unix_server(
            Connections(writer, None).process, sock=listening_socket(path, all_users)
        )
        task = asyncio.create_task(writer.run())
        ready.set()
        await stop.wait()
        server.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ledger.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield path
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


def as_nobody(work: Callable[[], bool]) -> bool:
    """What ``work`` says, done in a child that is another user."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, 1)
    return ended == 0


def refused(path: Path, data: bytes) -> bool:
    """Whether the collector hangs up without a word."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(20)
        one.connect(str(path))
        one.sendall(data)
        return one.recv(64) == b""


@pytest.fixture
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="r"))
    made.chmod(0o755)
    return made


def test_another_user_tells_as_itself_and_forges_nobody(folder: Path) -> None:
    with collector(folder, all_users=True) as path:
        ours = Sender(path, b"s" * 16)
        ours.send(2, 3, int(time.time() // 60))

        def theirs() -> bool:
            Sender(path, b"s" * 16).send(1, 5, int(time.time() // 60))  # the same source, the same number
            return True

        rows = wire.read_batch(batch(1, 1, 1, 7)[8:]).rows
        as_root = msgspec.msgpack.encode([of_process(rows[0], 0, "", -1)])
        as_itself = msgspec.msgpack.encode([of_process(rows[0], NOBODY, "", -1)])
        assert as_nobody(theirs)
        assert as_nobody(lambda: refused(path, forwarded(b"c" * 16, 1, as_root, None)))
        assert not as_nobody(lambda: refused(path, forwarded(b"c" * 16, 1, as_itself, None)))
        assert as_nobody(lambda: refused(path, wire.numbered(wire.CAPTURE, 5)))
        ours.close()
    found: dict[int, int] = {}
    ledger = Ledger(folder / "data")
    for total in ledger.totals():
        found[total.what.user] = found.get(total.what.user, 0) + total.launches
    ledger.close()
    assert found == {0: 6, NOBODY: 5 + 1}


def test_nothing_of_a_collector_is_readable_or_reachable_by_another_user(folder: Path) -> None:
    def denied(work: Callable[[], object]) -> bool:
        try:
            work()
        except PermissionError:
            return True
        return False

    with collector(folder, all_users=False) as path:
        assert path.stat().st_mode & 0o777 == 0o600 and (folder / "data").stat().st_mode & 0o777 == 0o700
        assert as_nobody(lambda: denied(lambda: socket.socket(socket.AF_UNIX).connect(str(path))))
        for name in ("collect.sqlite", "collect.sqlite-wal"):
            assert (folder / "data" / name).stat().st_mode & 0o777 == 0o600
            assert as_nobody(lambda path=folder / "data" / name: denied(path.read_bytes))


@pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")
def test_a_recorded_process_tells_nothing_to_a_collector_of_another_user(folder: Path) -> None:
    folder.chmod(0o777)
    path = folder / "s"
    program = subprocess.Popen([stub_folder() / "program", "spins"], env=environment(path))

    def told_nothing() -> bool:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            path.chmod(0o666)
            listener.listen(4)
            listener.settimeout(20)
            peer, _ = listener.accept()
            peer.settimeout(20)
            return peer.recv(64) == b""

    assert as_nobody(told_nothing) and program.wait(20) == 0
