"""Does the store keep what it promised when the power goes at any moment, and would this test see it if it did not?"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from power_loss import STORE, SYNC, Event, after_crash, compiler, promised, watched_writer, what_is_wrong

from gpusim.store import open_store

CRASHES = 100
#: How much of what was written and not synced comes through: nothing, all, or any sectors of it.
SURVIVES = (0.0, 1.0, 0.5, 0.5)

pytestmark = pytest.mark.skipif(compiler() is None, reason="a C compiler is needed to watch what reaches the disk")


def crash_everywhere(folder: Path, pragma: str) -> tuple[Counter, list[Event]]:
    """What was wrong after each of CRASHES losses of power, spread over the whole life of the writer, and its
    events."""
    events = watched_writer(folder, pragma)
    assert any(event.name == STORE for event in events), "the writes of SQLite were not seen"
    chance = random.Random(5)
    found: Counter = Counter()
    for number in range(CRASHES):
        crash = chance.randrange(1, len(events) + 1)
        left = folder / f"crash-{number}"
        left.mkdir()
        after_crash(events, crash, SURVIVES[number % len(SURVIVES)], chance, left)
        found[what_is_wrong(left, promised(events, crash)).partition(":")[0]] += 1
    return found, events


def test_a_hundred_losses_of_power_lose_no_committed_row(tmp_path) -> None:
    found, events = crash_everywhere(tmp_path, "")
    assert found == {"": CRASHES}
    (tmp_path / "last").mkdir()
    end = max(index for index, event in enumerate(events) if event.kind == SYNC)
    after_crash(events, end, 0.5, random.Random(1), tmp_path / "last")
    with open_store(tmp_path / "last" / STORE) as store:  # and it goes on from there
        assert store.damage() == ""
        with store.new_run("after", command="test"):
            pass
        assert store.load_run("after").info.state == "finished"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("pragma", "seen"),
    [
        ("synchronous=OFF", {"lost", "damaged", "unreadable", "the store is gone"}),
        ("journal_mode=OFF", {"lost", "half a transaction", "damaged"}),
    ],
)
def test_a_store_that_asks_for_less_is_caught(tmp_path, pragma, seen) -> None:
    found, _ = crash_everywhere(tmp_path, pragma)
    assert found[""] < CRASHES and seen & set(found), found
