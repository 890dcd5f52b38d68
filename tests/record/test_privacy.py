"""What leaves a recorded process: no secrets, names only as they may be told, nothing at all where it is off."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded import COMPILER, environment, fake_cupti, injected, stub_folder

from gpusim.record import wire

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")
SECRET = "hunter2-do-not-tell"


def sent(
    what: str, settings: Callable[..., dict[str, str]] = environment, order: int | None = None, **more: str
) -> bytes:
    """All bytes that the program ``what`` sends to whoever listens, and acknowledges."""
    path = Path(tempfile.mkdtemp(prefix="r")) / "s"
    told = b""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(4)
        listener.settimeout(0.2)
        own = settings(path, GPUSIM_RECORD_CUPTI=str(fake_cupti()), PASSWORD=SECRET, **more)
        program = subprocess.Popen([stub_folder() / "program", what, SECRET, f"--token={SECRET}"], env=own)
        peer: socket.socket | None = None
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if peer is None:
                    peer, _ = listener.accept()
                    peer.settimeout(0.2)
                    if order is not None:
                        os.kill(program.pid, order)
                more_bytes = peer.recv(1 << 20)
                told += more_bytes
                if not more_bytes:
                    break
            except TimeoutError:
                if program.poll() is not None:
                    break
        if peer is not None:
            peer.close()
        program.wait(20)
    return told


def frames(data: bytes) -> list[int]:
    """Types of the frames."""
    found = []
    while data:
        count, kind = wire.header(data[: wire.HEADER_BYTES])
        found.append(kind)
        data = data[wire.HEADER_BYTES + count :]
    return found


def test_neither_environment_nor_command_line_leave() -> None:
    told = sent("spins", order=signal.SIGUSR2, GPUSIM_RECORD_SIGNAL=str(int(signal.SIGUSR2)))
    assert {wire.HELLO, wire.EVENTS} <= set(frames(told))
    assert b"alpha" in told
    for text in (SECRET, "PASSWORD", "/program", os.environ.get("HOME", "/root") + "/"):
        assert text.encode() not in told, text


@pytest.mark.parametrize("settings", [environment, injected])
def test_behind_a_salt_no_name_leaves_on_any_way(settings: Callable[..., dict[str, str]]) -> None:
    told = sent("times", settings, GPUSIM_RECORD_SALT="pepper")
    assert wire.BATCH in frames(told) and b"#" in told
    for text in (b"alpha", b"in_graph", b"pepper"):
        assert text not in told, text


@pytest.mark.parametrize("settings", [environment, injected])
def test_off_is_off_however_it_was_loaded(settings: Callable[..., dict[str, str]]) -> None:
    assert sent("times", settings, GPUSIM_RECORD="0") == b""
