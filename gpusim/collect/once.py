"""A collector for the time of one program, within this process: ``gpusim record`` without a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from gpusim.collect.ageing import Ages
from gpusim.collect.capture import Captures
from gpusim.collect.ledger import Ledger
from gpusim.collect.server import Connections, listening_socket
from gpusim.collect.totals import Total
from gpusim.collect.writer import Writer

#: How long what is on its way at the program's end may take to come.
REST_S = 0.3


class Collecting:
    """Listens at ``socket`` within a ``with``; afterwards ``totals`` is what was launched, and ``dropped`` what found
    no room."""

    def __init__(self, folder: Path, socket: Path):
        self.totals: list[Total] = []
        self.dropped = 0
        self._ledger, self._socket, self._captures = Ledger(folder), socket, Captures(folder)
        self._ready, self._ending = threading.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._connections: Connections | None = None
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._collect()), daemon=True)

    def connected(self) -> int:
        """Processes that are there."""
        return len(self._connections.processes) if self._connections is not None else 0

    def __enter__(self) -> Collecting:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(10)
        self.totals, self.dropped = list(self._ledger.totals()), self._ledger.fact("dropped")
        self._ledger.close()

    async def _collect(self) -> None:
        writer = Writer(self._ledger, Ages())
        self._connections = connections = Connections(writer, None, self._captures)
        server = await asyncio.start_unix_server(connections.process, sock=listening_socket(self._socket, False))
        task = asyncio.create_task(writer.run())
        self._ready.set()
        await self._ending.wait()
        deadline = self._loop.time() + REST_S
        while connections.processes and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        server.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(OSError):
            self._captures.end_quiet(0)


def recorded(folder: Path, socket: Path, program: Callable[[], int]) -> tuple[int, list[Total], int]:
    """(exit code of ``program``, what it launched, launches dropped); the collector listens while it runs."""
    with Collecting(folder, socket) as collecting:
        code = program()
    return code, collecting.totals, collecting.dropped
