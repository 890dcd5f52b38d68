"""A collector for the time of one program, within this process: ``gpusim record`` without a daemon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from gpusim.collect.ageing import Ages
from gpusim.collect.ledger import Ledger
from gpusim.collect.server import Connections, listening_socket
from gpusim.collect.totals import Total
from gpusim.collect.writer import Writer

#: How long what is on its way at the program's end may take to come.
REST_S = 0.3


def recorded(folder: Path, socket: Path, program: Callable[[], int]) -> tuple[int, list[Total], int]:
    """(exit code of ``program``, what it launched, launches dropped); the collector listens while it runs."""
    ledger = Ledger(folder)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ending = asyncio.Event()

    async def collect() -> None:
        writer = Writer(ledger, Ages())
        connections = Connections(writer, None)
        server = await asyncio.start_unix_server(connections.process, sock=listening_socket(socket, False))
        task = asyncio.create_task(writer.run())
        ready.set()
        await ending.wait()
        deadline = loop.time() + REST_S
        while connections.processes and loop.time() < deadline:
            await asyncio.sleep(0.01)
        server.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(collect()), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        code = program()
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
    totals, dropped = list(ledger.totals()), ledger.fact("dropped")
    ledger.close()
    return code, totals, dropped
