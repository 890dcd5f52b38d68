"""Where processes and other collectors connect: a Unix socket with peer credentials, and TCP with a shared token.

Mental model: whoever speaks is known before it is believed. On the Unix socket the kernel tells the user, which becomes
part of every source and every total: a process can neither claim to be another user's nor read anything, since nothing
but acknowledgements is ever sent back. On TCP each message carries an HMAC-SHA256 under the token that both collectors
were given.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import time
from pathlib import Path

from gpusim.collect.capture import Captures
from gpusim.collect.ledger import Incoming
from gpusim.collect.message import read_forwarded
from gpusim.collect.totals import of_process
from gpusim.collect.writer import Writer
from gpusim.errors import CollectError, WireError
from gpusim.record import wire

_UCRED = struct.Struct("iII")
#: A connection that says nothing within this time of its greeting is ended.
GREETING_S = 10.0
MOST_CONNECTIONS = 4096
#: As the recorder has it.
MOST_CAPTURE_S = 3600


def peer_user(writer: asyncio.StreamWriter) -> int:
    """The user at the other end, as the kernel knows it."""
    connection = writer.get_extra_info("socket")
    return _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]


def listening_socket(path: Path, all_users: bool) -> socket.socket:
    """A Unix socket of mode 0600 (0666 for ``all_users``), in the place of one that nobody listens at.

    Raises CollectError where another collector listens, or where the path is no socket."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if all_users else 0o700)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if path.exists():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise CollectError(f"{path} is there and no socket: name another path with --socket")
        try:
            found.connect(str(path))
        except OSError:
            path.unlink()
        else:
            found.close()
            raise CollectError(f"another collector listens at {path}: end it, or name another path with --socket")
        found.close()
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # never open to others, not for a moment
    try:
        found.bind(str(path))
    except OSError as error:
        raise CollectError(f"{path} cannot be listened at: {error.strerror}") from error
    finally:
        os.umask(before)
    if all_users:
        path.chmod(0o666)
    return found


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """(type, payload) of the next frame. Raises WireError, IncompleteReadError at the end."""
    count, kind = wire.header(await reader.readexactly(wire.HEADER_BYTES))
    return kind, await reader.readexactly(count)


class Connections:
    """What is connected, and what is done with what it says."""

    def __init__(self, writer: Writer, token: bytes | None, captures: Captures | None = None):
        self.writer, self.token, self.captures = writer, token, captures
        self.processes: dict[asyncio.StreamWriter, wire.Hello] = {}
        self.refused = 0

    async def process(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """A connection of the Unix socket."""
        hello, user = None, -1
        try:
            if len(self.processes) >= MOST_CONNECTIONS:
                raise WireError(f"{MOST_CONNECTIONS} connections are open")
            user = peer_user(out)
            kind, payload = await asyncio.wait_for(read_frame(reader), GREETING_S)
            if kind in wire.FORWARDS:
                await self._forwarded(reader, out, kind, payload, user)
            if kind == wire.CAPTURE and user in (0, os.geteuid()):
                out.write(wire.numbered(wire.ACKNOWLEDGED, self.capture(min(wire.number_of(payload), MOST_CAPTURE_S))))
                await out.drain()
                return
            if kind != wire.HELLO:
                raise WireError(f"a connection that begins with type {kind}")
            hello = wire.read_hello(payload)
            self.processes[out] = hello
            while True:
                kind, payload = await read_frame(reader)
                if kind == wire.BATCH:
                    batch = wire.read_batch(payload)
                    latest = int(time.time() // 60) + 1
                    totals = [of_process(row, user, hello.container, hello.rank, latest) for row in batch.rows]
                    source = hello.source + user.to_bytes(4, "little")
                    await self.writer.commit(Incoming(source, batch.number, totals, batch.dropped))
                    out.write(wire.numbered(wire.ACKNOWLEDGED, batch.number))
                    await out.drain()
                elif kind == wire.EVENTS:
                    events = wire.read_events(payload)
                    if self.captures is not None:
                        await self._capture(self.captures, hello, user, events)
                else:
                    raise WireError(f"a process says type {kind}")
        except (WireError, CollectError, TimeoutError):
            self.refused += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.processes.pop(out, None)
            if hello is not None and self.captures is not None:
                with contextlib.suppress(OSError):
                    self.captures.end(hello, user)
            out.close()

    async def _capture(self, captures: Captures, hello: wire.Hello, user: int, events: list[wire.Event]) -> None:
        try:
            await self.writer.ask(captures.take, hello, user, events)
        except OSError as error:  # a full disk: counts go on
            self.writer.on_error(f"captured launches cannot be written: {error.strerror}")

    async def collector(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """A connection of another collector over TCP."""
        try:
            kind, payload = await asyncio.wait_for(read_frame(reader), GREETING_S)
            await self._forwarded(reader, out, kind, payload, None)
        except (WireError, CollectError, TimeoutError):
            self.refused += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            out.close()

    async def _forwarded(
        self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, kind: int, payload: bytes, user: int | None
    ) -> None:
        while True:
            if kind not in wire.FORWARDS:
                raise WireError(f"a collector says type {kind}")
            source, number, totals = read_forwarded(kind, payload, self.token)
            if self.token is None:  # a collector without a token speaks for its own user only, unless it is root
                own = user in (0, os.geteuid())
                if not own and any(total.what.user != user for total in totals):
                    raise WireError(f"user {user} tells totals of others")
            await self.writer.commit(Incoming(b"c" + source + (user or 0).to_bytes(4, "little"), number, totals))
            out.write(wire.numbered(wire.ACKNOWLEDGED, number))
            await out.drain()
            kind, payload = await read_frame(reader)

    def capture(self, seconds: int) -> int:
        """Tell every process to send its launches as events; how many were told."""
        for out in self.processes:
            out.write(wire.numbered(wire.CAPTURE, seconds))
        return len(self.processes)
