"""The collector: what it has acknowledged is there, once, whatever happens; what is no message is refused."""

from __future__ import annotations

from pathlib import Path

import collect_kills
import fuzz_wire
import msgspec
import pytest
from collect_sender import batch

from gpusim.collect.ageing import HOUR, Ages, age
from gpusim.collect.ledger import Incoming, Ledger
from gpusim.collect.totals import Total, of_process, summed
from gpusim.errors import CollectError
from gpusim.record import wire


def totals(rows: int, launches: int, minute: int) -> list[Total]:
    return [of_process(row, 1, "", -1) for row in wire.read_batch(batch(1, rows, launches, minute)[8:]).rows]


def launches(ledger: Ledger) -> int:
    return sum(total.launches for total in ledger.totals())


def test_a_batch_that_comes_again_counts_once(tmp_path: Path) -> None:
    one, two = (Incoming(b"s", number, totals(3, 2, 7)) for number in (1, 2))
    ledger = Ledger(tmp_path)
    assert [ledger.add([one]), ledger.add([one, two, two]), ledger.add([one])] == [1, 1, 0]
    ledger.close()
    assert launches(Ledger(tmp_path)) == 12
    assert (tmp_path / "collect.sqlite").stat().st_mode & 0o777 == 0o600


def test_weights_are_added_and_not_averaged() -> None:
    """9 launches of 10 ns in one that is recorded, and one of 1000 ns: 1090 ns. The mean weight, 5, would make it 5050."""
    (what,) = {total.what for total in totals(1, 1, 7)}
    many, one = Total(what, 1, 1, 10, 10, 10, {115: 1}, 9.0, 90.0), Total(what, 1, 1, 1000, 1000, 1000, {346: 1})
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(many), type=Total)
    for first, second in ((decoded, one), (one, many)):
        both = summed([first, second])[what.digest()]
        assert (both.weighted_launches, both.weighted_ns, both.sum_ns) == (10, 1090, 1010) and both.is_sound()
    of_old = msgspec.msgpack.decode(msgspec.msgpack.encode([what, 2, 1, 10, 10, 10, {115: 1}, 3.0]), type=Total)
    assert (of_old.weighted_launches, of_old.weighted_ns) == (6, 30)


def test_a_full_disk_takes_all_of_a_batch_or_nothing(tmp_path: Path) -> None:
    ledger, taken = Ledger(tmp_path, forwards=True, most_pages=40), 0
    with pytest.raises(CollectError, match="full"):
        for number in range(1, 1000):
            ledger.add([Incoming(b"s", number, totals(20, 1, number))])
            taken = number
    ledger.close()
    after = Ledger(tmp_path)
    assert taken > 0 and launches(after) == 20 * taken
    assert after.add([Incoming(b"s", taken + 1, totals(20, 1, taken + 1))]) == 1


def test_old_minutes_become_hours_and_small_ones_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add([Incoming(b"s", minute + 1, totals(5, 1, minute)) for minute in range(HOUR)])
    age(ledger, 10 * HOUR, Ages(to_hours=HOUR, most_keys=2))
    kept = list(ledger.totals())
    assert {total.what.minutes for total in kept} == {HOUR} and sum(total.launches for total in kept) == 5 * HOUR
    assert sorted(total.launches for total in kept) == [HOUR, HOUR, 3 * HOUR]


def test_damaged_messages_are_refused() -> None:
    outcomes, most = fuzz_wire.run(1500, seed=3)
    assert set(outcomes) == {"taken", "refused"} and most <= fuzz_wire.LIMIT_BYTES


def test_a_killed_collector_loses_and_repeats_nothing() -> None:
    acknowledged, leaf, head, _ = collect_kills.run(2, processes=2, seed=5)
    assert acknowledged == leaf == head > 0


@pytest.mark.nightly
def test_two_hundred_kills() -> None:
    acknowledged, leaf, head, _ = collect_kills.run(200, processes=3, seed=1)
    assert acknowledged == leaf == head > 0
