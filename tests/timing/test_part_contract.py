"""What every part of the machine promises: nothing early, nothing lost, windows and order not seen, quiet means
quiet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from part_traffic import TRAFFIC, Case, Log, link_traffic, play

from gpusim.engine.link import LinkPart
from gpusim.engine.machine import BUILDERS
from gpusim.model.messages import NEVER


def check_nothing_early(log: Log) -> None:
    """No message arrives sooner than its route's latency after the first thing that the part had to do in that step."""
    least = log.case.latencies
    assert min(least.values()) == log.case.part.minimum_latency_ticks
    for step in log.steps:
        for batch in step.sent:
            assert len(batch) and batch["time"].min() >= step.before.next_tick + least[batch.dtype]


def check_nothing_lost(log: Log) -> None:
    """All has been handled in its step and answered once; nobody has changed a message behind its sending."""
    for step in log.steps:
        assert step.after.next_tick >= step.until
        assert step.before.last_tick <= step.after.last_tick < step.until
        assert [batch.tobytes() for batch in step.sent] == step.copies
    log.case.settle(log.sent)


def check_quiet_means_quiet(log: Log) -> None:
    """Without work before ``until`` a step sends and changes nothing; in the end nobody waits."""
    for step in log.steps:
        if step.before.next_tick >= step.until:
            assert not step.sent and step.before == step.after
    end = log.steps[-1].after
    assert end.next_tick == NEVER and end.waiting_for == ""


def _plain(rows: np.ndarray) -> list[tuple]:
    """Rows whose fields may be arrays, as what can be compared."""
    return [tuple(field.tolist() if isinstance(field, np.ndarray) else field for field in row) for row in rows.tolist()]


def check_steps_cannot_be_seen(log: Log, other: Log) -> None:
    """Two runs of one case sent the same and ended alike."""
    assert {kind: _plain(rows) for kind, rows in log.sent.items()} == {
        kind: _plain(rows) for kind, rows in other.sent.items()
    }
    assert log.steps[-1].after == other.steps[-1].after


@pytest.mark.parametrize("kind", TRAFFIC)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_part_keeps_its_promises(kind, data, seed):
    build = data.draw(TRAFFIC[kind], "traffic")
    log = play(build(), seed)
    check_nothing_early(log)
    check_nothing_lost(log)
    check_quiet_means_quiet(log)
    check_steps_cannot_be_seen(play(build()), log)


def test_every_kind_of_part_that_a_machine_can_have_is_put_to_the_test():
    assert set(TRAFFIC) == set(BUILDERS)


class Hasty(LinkPart):
    """Its messages are there as soon as they are sent."""

    def advance(self, until):
        sent = super().advance(until)
        for batch in sent:
            batch["time"] -= self.minimum_latency_ticks
        return sent


class Forgetful(LinkPart):
    """Loses the last of several packets of a step."""

    def advance(self, until):
        return [batch[:-1] if len(batch) > 1 else batch for batch in super().advance(until)]


class Windowed(LinkPart):
    """Sends at the end of a step what came in it."""

    def advance(self, until):
        sent = super().advance(until)
        for batch in sent:
            batch["time"] = np.maximum(batch["time"], until + self.minimum_latency_ticks)
        return sent


class Restless(LinkPart):
    """Works when there is nothing to do."""

    def advance(self, until):
        self.last_tick += 1
        return super().advance(until)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Hasty, lambda build, seed: check_nothing_early(play(build(), seed))),
        (Forgetful, lambda build, seed: check_nothing_lost(play(build(), seed))),
        (Windowed, lambda build, seed: check_steps_cannot_be_seen(play(build()), play(build(), seed))),
        (Restless, lambda build, seed: check_quiet_means_quiet(play(build(), seed))),
    ],
)
def test_a_part_that_breaks_a_promise_is_found(broken, check):
    @settings(max_examples=15, phases=[Phase.generate])
    @given(build=link_traffic(), seed=st.integers(0, 2**32 - 1))
    def promise(build, seed):
        def broken_case() -> Case:
            case = build()
            case.part.__class__ = broken
            return case

        check(broken_case, seed)

    with pytest.raises(AssertionError):
        promise()
