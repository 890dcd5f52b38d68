"""One task writes: batches of all connections, many in one transaction.

Mental model: connections put batches into a short queue and wait for their commit; a full queue makes them wait before
they read on, which the sender feels as a full socket, and a recorder as rows that add up where they are. A commit that
fails acknowledges nothing: its connections end, and their batches come again.
"""

from __future__ import annotations

import asyncio
import time

from gpusim.collect.ageing import Ages, age
from gpusim.collect.ledger import Incoming, Ledger
from gpusim.collect.meter import Meter
from gpusim.errors import CollectError

QUEUE, GROUP = 256, 64
AGE_EVERY_S = 300.0


class Writer:
    """The ledger's only user while the daemon runs. ``on_error`` is told what the disk said."""

    def __init__(self, ledger: Ledger, ages: Ages, on_error=lambda message: None):
        self.ledger, self.ages, self.on_error = ledger, ages, on_error
        self.batches = self.repeated = self.failed = 0
        self.meter = Meter()
        self._queue: asyncio.Queue[tuple[Incoming, asyncio.Future]] = asyncio.Queue(QUEUE)
        self._lock = asyncio.Lock()

    async def commit(self, batch: Incoming) -> None:
        """Returns when the batch is on the disk. Raises CollectError when it is not."""
        done = asyncio.get_running_loop().create_future()
        await self._queue.put((batch, done))
        await done

    async def run(self) -> None:
        """Until it is cancelled."""
        aged = time.monotonic()
        while True:
            group = [await self._queue.get()]
            while len(group) < GROUP and not self._queue.empty():
                group.append(self._queue.get_nowait())
            try:
                taken = list[Incoming]()
                new = await self.ask(self.ledger.add, [batch for batch, _ in group], taken)
            except CollectError as error:
                self.failed += len(group)
                self.on_error(str(error))
                for _, done in group:
                    if not done.done():
                        done.set_exception(CollectError(str(error)))
                continue
            self.meter.add(taken)
            self.batches += new
            self.repeated += len(group) - new
            for _, done in group:
                if not done.done():
                    done.set_result(None)
            if time.monotonic() - aged > AGE_EVERY_S:
                aged = time.monotonic()
                try:
                    await self.ask(age, self.ledger, int(time.time() // 60), self.ages)
                except CollectError as error:
                    self.on_error(str(error))

    async def ask(self, work, *arguments):
        """Do something with the ledger on a thread, one at a time: the loop never waits for the disk."""
        async with self._lock:
            return await asyncio.to_thread(work, *arguments)
