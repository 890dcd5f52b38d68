"""Processes that write to one store at once, or that are killed while they write.

They are forked, so that a process costs milliseconds; each opens the store anew, and does nothing else.
"""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from store_examples import example_launch, example_row

from gpusim.store import model_hash, open_store
from gpusim.store.environment import environment

ACKNOWLEDGEMENT = struct.Struct("<qq")  # number of the run, rows of it that have been committed
MOST_SECONDS_TO_LIVE = 0.015
#: One transaction of so many launches spans many pages of the file: a torn one would show.
LAUNCHES_AT_ONCE = 10


def child(work: Callable[[], object]) -> int:
    """Fork a process that does ``work`` and nothing else; its number."""
    environment(), model_hash()  # looked up once, not by every child
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def write_runs(where: str, writer: int, runs: int) -> None:
    with open_store(where) as store:
        for number in range(runs):
            with store.new_run(f"writer-{writer}", command="test", arguments=[str(number)]) as run:
                run.add_launches([example_launch(index) for index in range(3)])
                run.add_measurements([example_row()])


def many(where: str, writers: int, runs: int) -> int:
    """``writers`` processes keep ``runs`` runs each, of three launches and a row; how many of them failed."""
    numbers = [child(lambda w=writer: write_runs(where, w, runs)) for writer in range(writers)]
    return sum(os.waitpid(number, 0)[1] != 0 for number in numbers)


def write_until_killed(where: str, told: int) -> None:
    """Keep runs of ever more rows; say of each committed transaction, in one write, that it is there."""
    with open_store(where) as store:
        while True:
            with store.new_run("killed", command="test") as run:
                for rows in range(1, 6):
                    if rows % 2:
                        run.add_launches([example_launch(i) for i in range(LAUNCHES_AT_ONCE)])
                    else:
                        run.add_measurements([example_row(rows)])
                    os.write(told, ACKNOWLEDGEMENT.pack(run.id, rows))


def kill(where: str, kills: int, writers: int, seed: int) -> dict[int, int]:
    """Transactions by run that were acknowledged before the writers died, each of SIGKILL at a random moment."""
    chance = random.Random(seed)
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    alive: list[int] = []
    promised: dict[int, int] = {}
    for number in range(kills):
        while len(alive) < writers:
            alive.append(child(lambda: write_until_killed(where, told)))
        if number % 2:  # however slow the machine, half of the kills come after something was kept
            select.select([heard], [], [])
        time.sleep(chance.uniform(0.0, MOST_SECONDS_TO_LIVE))
        victim = alive.pop(chance.randrange(len(alive)))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        _listen(heard, promised)
    for victim in alive:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    _listen(heard, promised)
    return promised


def _listen(heard: int, promised: dict[int, int]) -> None:
    with suppress(BlockingIOError):
        while data := os.read(heard, 256 * ACKNOWLEDGEMENT.size):
            for run, rows in ACKNOWLEDGEMENT.iter_unpack(data):
                promised[run] = rows
