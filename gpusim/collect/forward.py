"""To the next collector: numbered messages, one at a time, until each is acknowledged.

Mental model: what is to go lies in the ledger, not here. A connection that ends, for whatever reason, is made again
after a while, and the oldest message that nobody has acknowledged is sent again; the next collector knows by source and
number whether it has it. While it does not answer, messages wait, at most MOST_WAITING; then totals add up in the
ledger without becoming messages.
"""

from __future__ import annotations

import asyncio

from gpusim.collect.message import forwarded
from gpusim.collect.server import read_frame
from gpusim.collect.writer import Writer
from gpusim.errors import CollectError, WireError
from gpusim.record import wire

MOST_WAITING = 64
RETRY_S, ANSWER_S = 1.0, 30.0


class Forwarder:
    """Sends to ``target``, "HOST:PORT" or a Unix socket's path, every ``period_s``."""

    def __init__(self, writer: Writer, target: str, token: bytes | None, period_s: float):
        self.writer, self.target, self.token, self.period_s = writer, target, token, period_s
        self.sent = self.sent_bytes = self.waiting = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._connected()
            except (OSError, WireError, CollectError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(RETRY_S)

    async def _connected(self) -> None:
        reader, out = await self._open()
        try:
            while True:
                if self.waiting < MOST_WAITING:
                    self.waiting = await self.writer.ask(self.writer.ledger.seal)
                while (message := await self.writer.ask(self.writer.ledger.first_message)) is not None:
                    await self._send(reader, out, *message)
                self.waiting = 0
                await asyncio.sleep(self.period_s)
        finally:
            out.close()

    async def _send(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, number: int, body: bytes) -> None:
        data = forwarded(self.writer.ledger.source, number, body, self.token)
        out.write(data)
        await out.drain()
        kind, payload = await asyncio.wait_for(read_frame(reader), ANSWER_S)
        if kind != wire.ACKNOWLEDGED or wire.number_of(payload) != number:
            raise WireError(f"the next collector answers message {number} with type {kind}")
        await self.writer.ask(self.writer.ledger.acknowledged, number)
        self.sent += 1
        self.sent_bytes += len(data)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, colon, port = self.target.rpartition(":")
        if colon and port.isdigit():
            return await asyncio.open_connection(host.strip("[]"), int(port))
        return await asyncio.open_unix_connection(self.target)
