"""The collector: what it has acknowledged is there, once, whatever happens; what is no message is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import collect_kills
import fuzz_wire
import msgspec
import pytest
from collect_sender import batch

from gpusim.collect.ageing import HOUR, Ages, age
from gpusim.collect.ledger import Incoming, Ledger
from gpusim.collect.message import MOST_BODY_BYTES, forwarded, read_forwarded
from gpusim.collect.totals import Total, of_process, summed
from gpusim.commands.collecting import listed
from gpusim.errors import CollectError, WireError
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
    """9 launches of 10 ns in one that is recorded, and one of 1000 ns: 1090 ns. The mean weight, 5, would make it
    5050."""
    (what,) = {total.what for total in totals(1, 1, 7)}
    many, one = Total(what, 1, 1, 10, 10, 10, {115: 1}, 9.0, 90.0), Total(what, 1, 1, 1000, 1000, 1000, {346: 1})
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(many), type=Total)
    for first, second in ((decoded, one), (one, many)):
        both = summed([first, second])[what.digest()]
        assert (both.weighted_launches, both.weighted_ns, both.sum_ns) == (10, 1090, 1010) and both.is_sound()
    of_old = msgspec.msgpack.decode(msgspec.msgpack.encode([what, 2, 1, 10, 10, 10, {115: 1}, 3.0]), type=Total)
    assert (of_old.weighted_launches, of_old.weighted_ns) == (6, 30)


def test_what_a_recorded_launch_stands_for_orders_the_list() -> None:
    first, second = (total.what for total in totals(2, 1, 7))
    many, long = Total(first, 1, 1, 10, 10, 10, {115: 1}, 9.0, 90.0), Total(second, 1, 1, 50, 50, 50, {195: 1})
    rows = listed([long, many])
    assert [(row["grid"], row["launches"], row["weighted_launches"], row["time_us"]) for row in rows] == [
        ("1x1x1", 1, 9, 0.09),
        ("2x1x1", 1, 1, 0.05),
    ]


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


def test_ageing_reads_only_what_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    minutes = [10 * HOUR - 1, *range(3)]
    ledger.add([Incoming(b"s", number, totals(5, 1, minute)) for number, minute in enumerate(minutes, 1)])
    read: list[tuple[int, int, int]] = []
    whole = Ledger.span
    monkeypatch.setattr(Ledger, "span", lambda self, *span: read.append(span) or whole(self, *span))
    for _ in range(2):
        age(ledger, 10 * HOUR, Ages(to_hours=HOUR, closed=-1))
    assert read == [(1, 0, HOUR - 1)]
    age(ledger, 100 * HOUR, Ages(to_hours=HOUR, forgotten=95 * HOUR))
    assert {total.what.minute for total in ledger.totals()} == {9 * HOUR}


def test_no_process_is_ahead_of_its_collector(tmp_path: Path) -> None:
    (row,) = wire.read_batch(batch(1, 1, 1, 2**31)[8:]).rows
    assert of_process(row, 1, "", -1, latest_minute=70).what.minute == 70


def test_a_coarse_message_says_what_was_launched_and_not_where(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, forwards=True, coarse=True)
    rows = wire.read_batch(batch(1, 3, 2, 7)[8:]).rows
    for number, gpu in enumerate(("a", "b"), 1):
        here = [of_process(replace(row, gpu=gpu), 1, gpu, number) for row in rows]
        ledger.add([Incoming(b"s", number, here)])
    assert ledger.seal() == 1
    number, body = ledger.first_message() or (0, b"")
    told = read_forwarded(wire.FORWARD_COMPRESSED, forwarded(b"c" * 16, number, body, None)[8:], None)[2]
    assert sorted(total.launches for total in told) == [4, 4, 4]
    assert {(total.what.gpu, total.what.container, total.what.rank) for total in told} == {("", "", -1)}
    assert len(list(ledger.totals())) == 6  # here, all details are kept


def test_a_message_of_a_collector_before_compression_is_read() -> None:
    some = totals(3, 2, 7)
    frame = fuzz_wire.signed(wire.FORWARD, msgspec.msgpack.encode(some))
    assert read_forwarded(wire.FORWARD, frame[8:], fuzz_wire.TOKEN)[2] == some
    with pytest.raises(WireError, match="another token"):  # its type is no matter of its own
        read_forwarded(wire.FORWARD_COMPRESSED, frame[8:], fuzz_wire.TOKEN)


def test_a_message_that_unpacks_to_more_than_it_may_is_refused() -> None:
    for frame in fuzz_wire.refused():
        with pytest.raises(WireError):
            read_forwarded(frame[4], frame[8:], fuzz_wire.TOKEN)
    body = bytes(MOST_BODY_BYTES + 1)
    with pytest.raises(WireError, match="when unpacked"):
        read_forwarded(wire.FORWARD_COMPRESSED, forwarded(b"c" * 16, 1, body, None)[8:], None)


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
