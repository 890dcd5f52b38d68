"""What is asked of a running daemon over its socket."""

from __future__ import annotations

import socket
from pathlib import Path

from gpusim.errors import CollectError
from gpusim.record import wire

_PATIENCE_S = 10.0


def asked_to_capture(path: Path, seconds: int) -> int:
    """How many processes were told to send every launch for that many seconds. Raises CollectError: no daemon, or not
    this user's."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE_S)
        try:
            connection.connect(str(path))
            connection.sendall(wire.numbered(wire.CAPTURE, seconds))
            while len(answer) < 2 * wire.HEADER_BYTES:
                more = connection.recv(2 * wire.HEADER_BYTES - len(answer))
                if not more:
                    raise CollectError(f"the collector at {path} does not take orders of this user")
                answer += more
        except OSError as error:
            raise CollectError(f"no collector at {path}: {error.strerror or error}") from error
    return wire.number_of(answer[wire.HEADER_BYTES :])
