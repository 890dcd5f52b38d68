"""Alerts of `gpusim watch`: one a cause, opened once, mended and back again as the runs show, and every change kept."""

from __future__ import annotations

import os
import random
import shutil
import threading
from datetime import date
from pathlib import Path

import pytest
from alert_histories import GPU, Nights, hash_of
from sqlalchemy import text
from store_examples import postgres_server

from gpusim.errors import AlertStateError, StoreError, UnknownAlertError, UsageError
from gpusim.store import open_store
from gpusim.watch.alerts import sync as sync_module
from gpusim.watch.alerts import write
from gpusim.watch.alerts.expectations import Expectation
from gpusim.watch.alerts.read import alert_events, alert_series, list_alerts, read_alert
from gpusim.watch.alerts.record import BACK, MOVED
from gpusim.watch.alerts.settings import AlertSettings
from gpusim.watch.alerts.sync import sync_alerts
from gpusim.watch.alerts.write import add_note, assign, set_bisected, set_state
from gpusim.watch.owners import OwnerRule

BASE = {"softmax": 1000, "gemm": 2000}
SLOW = {"softmax": 1041, "gemm": 2200}


@pytest.fixture
def nights(tmp_path: Path):
    with open_store(tmp_path / "s.sqlite") as store:
        yield Nights(store)


def slowed(nights: Nights) -> int:
    """A history with one slowdown at commit 2; its alert."""
    nights.commit(0, BASE)
    nights.commit(1, BASE)
    nights.commit(2, SLOW)
    nights.sync()
    (alert,) = list_alerts(nights.store)
    return alert.number


@pytest.fixture(scope="module")
def one_slowdown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of that history, made once."""
    path = tmp_path_factory.mktemp("slowdown") / "s.sqlite"
    with open_store(path) as store:
        assert slowed(Nights(store)) == 1
    return path


@pytest.fixture
def slow(one_slowdown: Path, tmp_path: Path):
    """A copy of it, whose alert is number 1."""
    with open_store(shutil.copy(one_slowdown, tmp_path / "s.sqlite")) as store:
        yield Nights(store)


def kinds(nights: Nights, number: int) -> list[str]:
    return [event.kind for event in alert_events(nights.store, number)]


def test_one_cause_is_one_alert_that_says_where_the_cycles_went_and_is_opened_once(nights) -> None:
    nights.settings = AlertSettings((OwnerRule(("@soft",), path="softmax.cu"), OwnerRule(("@gemm",), kernel="gemm")))
    number = slowed(nights)
    assert vars(nights.sync(whole=True)) == {**vars(nights.sync()), "plan": "night"}
    (alert,) = list_alerts(nights.store, "night", ["open"], "@soft")
    assert alert.sentence == (
        "gemm and softmax got up to 10.0 % slower on h200 (2 series) since commit "
        f"{hash_of(2)[:10]} (Ada: change 2): all of the added cycles are waits for shared memory, shuffles or special functions, "
        "at softmax.cu:41."
    )
    assert alert.owner == "@gemm @soft" and alert.cause == "commit" and alert.commit == hash_of(2)
    assert alert.size_percent == pytest.approx(10) and alert.series == 2 and not alert.settled
    assert alert.attribution["by_line"][0] == {
        "file": "/src/softmax.cu", "line": 41, "cycles": 200, "changed_instructions": 0, "code": "",
    }  # fmt: skip
    first, second = alert_series(nights.store, number)
    assert (first.kernel, first.before, first.after) == ("gemm", 2000, 2200) and second.percent == pytest.approx(4.1)
    assert kinds(nights, number) == ["opened"]


def test_changes_too_small_to_matter_open_nothing_and_gains_are_kept_apart(nights) -> None:
    nights.commit(0, {"a": 10_000, "b": 10_000})
    nights.commit(1, {"a": 10_009, "b": 9_000})
    assert nights.sync().opened == 0
    (gain,) = list_alerts(nights.store)
    assert gain.direction == "faster" and gain.settled and gain.size_percent == pytest.approx(-10)
    nights.commit(2, {"a": 10_020, "b": 9_000})
    assert nights.sync().opened == 1


def test_an_alert_is_verified_when_runs_show_the_old_level_and_opens_when_the_slowdown_returns(slow) -> None:
    nights, number = slow, 1
    nights.commit(3, {"softmax": 1000, "gemm": 2200})
    nights.sync()
    assert read_alert(nights.store, number).state == "open"
    assert "1 of 2 slower series are back" in read_alert(nights.store, number).sentence
    nights.commit(4, {"softmax": 1001, "gemm": 2003})  # other commits may have moved it a little
    assert nights.sync().verified == 1
    assert read_alert(nights.store, number).sentence.endswith("Later runs show the old level again.")
    nights.commit(5, {"softmax": 1001, "gemm": 2190})
    assert nights.sync().reopened == 1
    alert = read_alert(nights.store, number)
    assert alert.state == "open" and f"returned with commit {hash_of(5)[:10]}" in alert.sentence
    assert [each.number for each in list_alerts(nights.store) if not each.settled] == [number]
    nights.commit(6, BASE)
    assert nights.sync().verified == 1 and read_alert(nights.store, number).state == "verified"
    assert kinds(nights, number) == ["opened", "state", "reopened", "state"]
    assert nights.sync(whole=True) == nights.sync()


def test_a_second_slowdown_of_another_commit_is_another_alert(slow) -> None:
    nights, number = slow, 1
    nights.commit(3, {"softmax": 1041, "gemm": 2500})
    assert nights.sync().opened == 1
    nights.commit(4, {"softmax": 1041, "gemm": 2200})
    nights.sync()
    states = {each.commit: each.state for each in list_alerts(nights.store) if each.direction == "slower"}
    assert states == {hash_of(2): "open", hash_of(3): "verified"} and read_alert(nights.store, number).state == "open"


def test_a_commit_that_gets_its_value_later_takes_the_blame_that_is_its_own(nights) -> None:
    nights.commit(0, BASE)
    nights.commit(1, {})
    nights.commit(2, SLOW)
    nights.sync()
    (alert,) = list_alerts(nights.store)
    assert alert.unseen == (hash_of(1),) and "or the one before it without a value" in alert.sentence
    nights.commit(1, {"softmax": 1041})  # it was softmax's slowdown
    nights.sync()
    by_commit = {each.commit: each for each in list_alerts(nights.store)}
    assert [each.kernel for each in alert_series(nights.store, by_commit[hash_of(1)].number)] == ["softmax"]
    assert [each.kernel for each in alert_series(nights.store, by_commit[hash_of(2)].number)] == ["gemm"]
    assert "shrank" in kinds(nights, alert.number)


def test_an_alert_whose_whole_cause_is_an_earlier_commit_keeps_its_number_and_its_history(nights) -> None:
    nights.commit(0, BASE)
    nights.commit(2, SLOW)
    nights.sync()
    (alert,) = list_alerts(nights.store)
    set_state(nights.store, alert.number, "triaged", verdict="real", who="ada")
    nights.commit(1, SLOW)
    nights.sync()
    (moved,) = list_alerts(nights.store)
    assert (moved.number, moved.commit, moved.verdict) == (alert.number, hash_of(1), "real")
    assert hash_of(1)[:10] in moved.sentence and kinds(nights, moved.number)[-1] == "moved"


def test_a_change_of_method_is_recorded_as_such(nights) -> None:
    rules = (OwnerRule(("@kernels",), kernel="*"), OwnerRule(("@build",), cause="toolchain"))
    nights.settings = AlertSettings(rules)
    nights.commit(0, BASE)
    nights.commit(1, SLOW, model_hash="m2")
    nights.commit(2, {"softmax": 1100, "gemm": 2300}, model_hash="m2", compiler="ptxas 13.1")
    nights.commit(
        3,
        {"softmax": 1100, "gemm": 2400},
        model_hash="m2",
        compiler="ptxas 13.1",
        figures={**GPU, "l2.hit_latency_ns": 260.0},
    )
    nights.sync()
    by_cause = {each.cause: each for each in list_alerts(nights.store)}
    assert set(by_cause) == {"model", "toolchain", "gpu_hash"}
    assert (by_cause["model"].state, by_cause["model"].verdict, by_cause["model"].owner) == ("triaged", "method", "")
    assert (by_cause["toolchain"].state, by_cause["toolchain"].owner) == ("open", "@build")
    assert "the compiler changed (toolchain ptxas 12.9 -> ptxas 13.1)" in by_cause["toolchain"].sentence
    assert "of the GPU's figures l2.hit_latency_ns 200.0 to 260.0 (+100 cycles)" in by_cause["gpu_hash"].sentence


def test_a_commit_run_by_two_models_is_not_acquitted_by_the_newer_one(slow) -> None:
    nights, number = slow, 1
    nights.commit(2, {"softmax": 1200, "gemm": 2300}, model_hash="m2")
    nights.commit(3, {"softmax": 1200, "gemm": 2300}, model_hash="m2")
    nights.sync()
    assert read_alert(nights.store, number).cause == "commit" and read_alert(nights.store, number).state == "open"
    assert {each.cause for each in list_alerts(nights.store)} == {"commit", "model"}
    nights.commit(4, {"softmax": 1153, "gemm": 2090}, model_hash="m2")  # 1200 / 1.041, 2300 / 1.1
    nights.sync()
    assert read_alert(nights.store, number).state == "verified"


def test_what_was_agreed_on_rouses_nobody_until_its_day_has_passed(nights) -> None:
    rule = Expectation("Ada: exact exp", "2026-12-31", kernel="soft*", commit=hash_of(2)[:8], percent=(3, 5))
    nights.settings = AlertSettings(expectations=(rule,))
    nights.commit(0, BASE)
    nights.commit(2, {"softmax": 1041, "gemm": 2000})
    assert nights.sync(today=date(2026, 12, 1)).accepted == 1
    (alert,) = list_alerts(nights.store)
    assert (alert.state, alert.verdict, alert.reason, alert.expiry) == (
        "triaged", "accepted", "expected: Ada: exact exp", "2026-12-31",
    )  # fmt: skip
    assert nights.sync(today=date(2026, 12, 31)).reopened == 0
    assert nights.sync(today=date(2027, 1, 1)).reopened == 1
    assert "accepted until 2026-12-31" in alert_events(nights.store, alert.number)[-1].text
    assert nights.sync(today=date(2027, 1, 2)).reopened == 0


@pytest.mark.parametrize(
    "rule",
    [
        Expectation("a", "2026-12-31", kernel="gemm", percent=(0, 100)),  # another kernel
        Expectation("a", "2026-12-31", percent=(5, 100)),  # it is less
        Expectation("a", "2026-12-31", gpu="b200", percent=(0, 100)),
        Expectation("a", "2026-12-31", commit="0" * 7, percent=(0, 100)),
        Expectation("a", "2026-11-30", percent=(0, 100)),  # it has ended
    ],
)
def test_what_an_expectation_does_not_speak_of_is_opened(nights, rule) -> None:
    nights.settings = AlertSettings(expectations=(rule,))
    nights.commit(0, BASE)
    nights.commit(2, {"softmax": 1041, "gemm": 2000})
    assert nights.sync(today=date(2026, 12, 1)).accepted == 0
    assert list_alerts(nights.store)[0].state == "open"


def test_an_expectation_does_not_cover_what_the_commit_slows_besides(nights) -> None:
    nights.settings = AlertSettings(expectations=(Expectation("Ada", "2999-12-31", kernel="softmax", percent=(3, 5)),))
    nights.commit(0, BASE)
    nights.commit(2, {"softmax": 1041})
    assert nights.sync().accepted == 1
    nights.commit(2, {"gemm": 2060})  # comes later, from another machine
    assert list_alerts(nights.store)[0].state == "triaged"
    nights.sync()
    assert list_alerts(nights.store)[0].state == "open"


def test_an_expectation_does_not_overrule_people(slow) -> None:
    nights, number = slow, 1
    set_state(nights.store, number, "triaged", verdict="noise", who="bob")
    set_state(nights.store, number, "open", who="ada")
    nights.settings = AlertSettings(expectations=(Expectation("x", "2999-12-31", percent=(0, 100)),))
    nights.sync(whole=True)
    assert read_alert(nights.store, number).state == "open"


def test_accepted_alerts_that_grow_much_open_again(nights) -> None:
    nights.commit(0, BASE)
    nights.commit(2, {"softmax": 1041})
    nights.sync()
    (alert,) = list_alerts(nights.store)
    set_state(
        nights.store, alert.number, "triaged", verdict="accepted", reason="agreed", expiry="2999-01-01", who="ada"
    )
    nights.commit(2, {"gemm": 2800})
    assert nights.sync().reopened == 1
    assert "4.1 % were accepted" in alert_events(nights.store, alert.number)[-1].text


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("verified", {})], "runs say that it is verified"),
        ([("triaged", {})], "what was it found to be"),
        ([("triaged", {"verdict": "accepted"})], "--reason TEXT --until"),
        ([("triaged", {"verdict": "accepted", "reason": "r", "expiry": "soon"})], "no date"),
        ([("triaged", {"verdict": "accepted", "reason": "r", "expiry": "2020-01-01"})], "has passed"),
        ([("triaged", {"verdict": "noise", "expiry": "2999-01-01"})], "leave --until out"),
        ([("triaged", {"verdict": "wrong"})], "no verdict"),
        ([("fixed", {"verdict": "real"})], "leave --verdict out"),
        ([("open", {})], "gpusim alerts note 1"),
        ([("fixed", {}), ("bisected", {})], "gpusim alerts state 1 open"),
        ([("gone", {})], "no state of an alert"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_remedy(slow, steps, said) -> None:
    nights, number = slow, 1
    *before, (state, options) = steps
    for done, given in before:
        set_state(nights.store, number, done, who="ada", **given)
    events = kinds(nights, number)
    with pytest.raises((AlertStateError, UsageError)) as caught:
        set_state(nights.store, number, state, who="ada", **options)
    assert said in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2
    assert kinds(nights, number) == events


def test_every_change_is_kept_with_who_and_in_order_though_the_clock_jumps_back(slow, monkeypatch) -> None:
    nights, number = slow, 1
    times = iter(
        [
            "2026-12-01T10:00:00+00:00",
            "2026-11-01T10:00:00+00:00",
            "2026-10-01T10:00:00+00:00",
            "2026-09-01T10:00:00+00:00",
        ]
    )
    monkeypatch.setattr(write, "now", lambda: next(times))
    assign(nights.store, number, "@a  @b", who="ada")
    set_state(nights.store, number, "fixed", reason="reverted", who="bob")
    add_note(nights.store, number, "see the log", who="cem")
    set_bisected(nights.store, number, found=hash_of(2), text="in 3 runs", who="bisect")
    events = alert_events(nights.store, number)
    assert [(e.sequence, e.who, e.kind, e.before, e.after) for e in events] == [
        (1, "gpusim", "opened", "", "open"),
        (2, "ada", "owner", "", "@a @b"),
        (3, "bob", "state", "open", "fixed"),
        (4, "cem", "note", "", ""),
        (5, "bisect", "note", "", hash_of(2)),  # what is fixed stays fixed
    ]
    alert = read_alert(nights.store, number)
    assert alert.changed == events[-1].time < events[1].time and alert.revision == 5 and alert.found == hash_of(2)


def test_notes_by_nobody_or_by_the_runs_or_without_end_are_refused(slow) -> None:
    nights, number = slow, 1
    for given, who in (("", "ada"), ("x", " "), ("x", "gpusim"), ("x" * 10_001, "ada"), ("a\0b", "ada")):
        with pytest.raises(UsageError):
            add_note(nights.store, number, given, who=who)
    for missing in (2, 0, -1, 1 << 70):
        with pytest.raises(UnknownAlertError, match="alerts list"):
            read_alert(nights.store, missing)
    assert kinds(nights, number) == ["opened"]


def test_a_measured_slowdown_is_one_alert_that_keeps_its_number_while_values_come_and_is_verified(nights) -> None:
    chance = random.Random(5)

    def night(position: int, factor: float, host: str = "h") -> None:
        noise = {name: 100 * factor * (1 + 0.004 * chance.gauss(0, 1)) for name in ("a", "b", "c")}
        nights.measure(position, noise, host_hash=host)

    for position in range(55):
        night(position, 1.05 if 20 <= position < 40 else 1.0)
        if position in (19, 25, 39, 54):
            nights.sync()
        if position == 19:
            assert list_alerts(nights.store) == []
        if position == 25:
            (early,) = list_alerts(nights.store)
    slower = [alert for alert in list_alerts(nights.store) if alert.direction == "slower"]
    assert [alert.number for alert in slower] == [early.number]
    (alert,) = slower
    assert abs(alert.position - 20) <= 1 and alert.state == "verified" and alert.series == 3
    assert alert.size_percent == pytest.approx(5, abs=0.6) and "us)" not in alert.sentence
    for position in range(55, 70):
        night(position, 1.2, host="other")
    nights.sync()
    (moved,) = [each for each in list_alerts(nights.store) if each.cause == "host"]
    assert (moved.state, moved.verdict) == ("triaged", "method") and "the host changed" in moved.sentence


def picture(store) -> list[tuple]:
    """All that is said of every alert, but for its time."""
    return [
        (a.number, a.state, a.verdict, a.commit, a.sentence, [(e.kind, e.text) for e in alert_events(store, a.number)],
         [(s.name, s.position, s.state) for s in alert_series(store, a.number)])
        for a in list_alerts(store)
    ]  # fmt: skip


def test_a_process_that_is_killed_while_it_opens_alerts_has_opened_none(nights) -> None:
    nights.commit(0, BASE)
    nights.commit(2, SLOW)
    nights.store.close()
    number = os.fork()
    if number == 0:
        sync_module.insert_changes = lambda *_: os._exit(9)
        nights.sync()
        os._exit(0)
    assert os.waitpid(number, 0)[1] == 9 << 8
    assert list_alerts(nights.store) == []
    nights.sync()
    (alert,) = list_alerts(nights.store)
    assert alert.series == 2 and kinds(nights, alert.number) == ["opened"]


def test_words_that_a_killed_process_has_left_out_are_found_by_the_next(nights, monkeypatch) -> None:
    nights.commit(0, BASE)
    nights.commit(2, SLOW)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sync_module, "describe_alerts", killed)
    with pytest.raises(KeyboardInterrupt):
        nights.sync()
    assert list_alerts(nights.store)[0].sentence == ""
    monkeypatch.undo()
    assert nights.sync().opened == 0 and "softmax.cu:41" in list_alerts(nights.store)[0].sentence


def at_once(urls, count: int = 4) -> list:
    """Synchronise in so many threads, each with a store of its own, at the same time."""
    failed: list[BaseException] = []
    together = threading.Barrier(count)

    def work() -> None:
        with open_store(urls) as store:
            together.wait()
            try:
                sync_alerts(store, "night", AlertSettings())
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_several_at_once_open_an_alert_once(nights, tmp_path) -> None:
    nights.commit(0, BASE)
    nights.commit(2, SLOW)
    assert at_once(tmp_path / "s.sqlite") == []
    assert [kinds(nights, alert.number) for alert in list_alerts(nights.store)] == [["opened"]]


def test_what_another_process_wrote_meanwhile_is_not_judged_by_what_was_read_before(
    nights, tmp_path, monkeypatch
) -> None:
    nights.commit(0, BASE)
    nights.commit(2, SLOW)
    find, looked = sync_module.find_steps, []

    def slow(*arguments):
        found = find(*arguments)
        looked.append(found)
        if len(looked) == 1:
            with open_store(tmp_path / "s.sqlite") as store:
                other = Nights(store)
                other.commit(1, SLOW)
                other.sync()
        return found

    monkeypatch.setattr(sync_module, "find_steps", slow)
    nights.sync()
    (alert,) = list_alerts(nights.store)
    assert alert.commit == hash_of(1) and kinds(nights, alert.number) == ["opened"] and len(looked) == 3


def test_on_a_server_that_goes_away_nothing_is_lost_and_nothing_twice(tmp_path, monkeypatch) -> None:
    with postgres_server() as url, open_store(url) as store, open_store(tmp_path / "s.sqlite") as local:
        for each in (store, local):
            night = Nights(each)
            night.commit(0, BASE)
            night.commit(2, SLOW)
        insert = sync_module.insert_changes

        def broken(connection, *arguments):
            insert(connection, *arguments)
            number = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with open_store(url) as other, other.writing() as killer:
                killer.execute(text("SELECT pg_terminate_backend(:number)"), {"number": number})

        monkeypatch.setattr(sync_module, "insert_changes", broken)
        with pytest.raises(StoreError) as caught:
            sync_alerts(store, "night", AlertSettings())
        assert "\n" not in str(caught.value) and list_alerts(store) == []
        monkeypatch.undo()
        assert at_once(url) == []
        Nights(local).sync()
        assert [entry[1:] for entry in picture(store)] == [entry[1:] for entry in picture(local)]
        (alert,) = list_alerts(store)
        set_state(store, alert.number, "fixed", who="ada")
        night = Nights(store)
        night.commit(3, BASE)
        assert night.sync().verified == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_nights_one_by_one_and_out_of_order_come_to_what_the_whole_history_shows(tmp_path, seed) -> None:
    chance = random.Random(seed)
    levels = {"a": 1000, "b": 2000, "c": 3000}
    history = []
    for position in range(10):
        if chance.random() < 0.4:
            kernels = chance.sample(list(levels), chance.randint(1, 3))
            factor = chance.choice([1.05, 1 / 1.05, 1.2])
            levels = {name: round(value * factor) if name in kernels else value for name, value in levels.items()}
        history.append((position, dict(levels)))
    shuffled = history[:1] + chance.sample(history[1:], 9)
    with open_store(tmp_path / "a.sqlite") as one, open_store(tmp_path / "b.sqlite") as other:
        nightly, whole = Nights(one), Nights(other)
        for position, cycles in shuffled:
            nightly.commit(position, cycles)
            nightly.sync()
        for position, cycles in history:
            whole.commit(position, cycles)
        whole.sync()

        def slower(store, *states: str) -> set[tuple[str, int]]:
            every = [s for a in list_alerts(store) for s in alert_series(store, a.number)]
            return {(s.name, s.position) for s in every if s.after > s.before and s.state in states}

        # Which are one alert depends on when they were seen: a return, night by night, is two commits' at one look.
        assert slower(one, MOVED) == slower(other, MOVED)
        assert slower(one, MOVED, BACK) >= slower(other, MOVED, BACK)
        again = nightly.sync(whole=True)
        assert (again.opened, again.reopened, again.verified, again.grew) == (0, 0, 0, 0)
