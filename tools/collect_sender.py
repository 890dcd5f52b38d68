"""What tools and tests send to a collector in place of recorded processes: batches whose sums are known."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from gpusim.record import wire

NAME = b"kernel"


def batch(number: int, rows: int, launches: int, minute: int) -> bytes:
    """A frame with ``rows`` rows, of different grids, of ``launches`` timed launches each, of 1000 ns."""
    body = struct.pack("<QQQ", number, 0, 0) + b"K" + struct.pack("<IQQHIH", 1, 7, 8, 32, 0, len(NAME)) + NAME
    for row in range(rows):
        body += b"W" + struct.pack("<IIIHHHHHHIHBB", minute, 1, row + 1, 1, 1, 64, 1, 1, 0, 0, 0, 0, 0)
        body += struct.pack("<QQQQQB", launches, launches, 1000 * launches, 1000, 1000, 1) + struct.pack(
            "<hI", 346, launches
        )
    return wire.frame(wire.BATCH, body)


def hello(source: bytes) -> bytes:
    """The greeting of a process without rank or container."""
    return wire.frame(wire.HELLO, struct.pack("<16sIiB", source, 1, -1, 0))


class Sender:
    """A process: sends each batch until it is acknowledged, over as many connections as that takes."""

    def __init__(self, path: Path, source: bytes):
        self.path, self.source, self.number, self.connections = path, source, 0, 0
        self._socket: socket.socket | None = None

    def send(self, rows: int, launches: int, minute: int, patience_s: float = 30.0) -> None:
        """One batch. Raises TimeoutError."""
        self.number += 1
        data, end = batch(self.number, rows, launches, minute), time.monotonic() + patience_s
        while time.monotonic() < end:
            try:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX)
                    self._socket.settimeout(5)
                    self._socket.connect(str(self.path))
                    self._socket.sendall(hello(self.source))
                    self.connections += 1
                self._socket.sendall(data)
                answer = b""
                while len(answer) < 16:
                    more = self._socket.recv(16 - len(answer))
                    if not more:
                        raise ConnectionError
                    answer += more
                if wire.number_of(answer[8:]) == self.number:
                    return
            except OSError:
                self.close()
                time.sleep(0.02)
        raise TimeoutError(f"batch {self.number} was not acknowledged")

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
