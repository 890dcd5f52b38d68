"""Is a recording of another source confirmed by a probe only where no recorded digit moved, and noted as no more than
that?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import record_validation
from click.testing import CliRunner
from validation.recordings import OTHER, PROBED, SAME, Key, Probe, digest_of, key_of, known_probes, name_of, recordings
from validation.residuals import Residual

from gpusim.errors import UsageError


def row(gpu: str, point: str, ratio: float, cpu_s: float) -> Residual:
    return Residual("published", "fitted", gpu, "l1_read", point, "L1", 1, "", ratio, cpu_s)


ROWS = [row("a40", "n=1", 1.23456, 9.0), row("a40", "n=2", 0.5, 2.0), row("l40", "n=1", 2.0, 5.0), row("t4", "n=1", 1.0, 500.0)]  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Which (GPU, point) were predicted; today's model gives the recorded ratios, but for those of the L40, in the last
    digit."""
    predicted: list[tuple[str, str]] = []

    def made_anew(key: Key, count: int, only: set[tuple[str, str]]) -> Iterator[Residual]:
        for each in ROWS:
            if key_of(each) == key and (each.series, each.point) in only:
                predicted.append((each.gpu, each.point))
                yield each if each.gpu != "l40" else row(each.gpu, each.point, each.time_ratio + 0.00002, 0.0)

    path = tmp_path / "probed.json"
    monkeypatch.setattr(record_validation, "made_anew", made_anew)
    monkeypatch.setattr(record_validation, "load_residuals", lambda: ROWS)
    monkeypatch.setattr(record_validation, "known_digests", dict)
    monkeypatch.setattr(record_validation, "known_probes", lambda: known_probes(path))
    noted = record_validation.note_probe
    monkeypatch.setattr(record_validation, "note_probe", lambda key, count: noted(key, count, path))
    yield predicted


def confirm(*words: str) -> int:
    return CliRunner().invoke(record_validation.main, ["published", "--probe", "1", "--confirm", *words]).exit_code


def states(path: Path) -> dict[str, tuple[str, int]]:
    return {
        each.gpu: (each.state, each.probed)
        for each in recordings(ROWS, {}, known_probes(path))
        if each.source == "published"
    }


def test_the_cheapest_row_confirms_a_recording_and_one_that_moved_by_a_digit_does_not(
    asked: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "probed.json"
    assert confirm("--minutes", "1") == 1  # one has moved, one was left: its row takes 500 s
    assert asked == [("a40", "n=2"), ("l40", "n=1")]
    assert states(path) == {"a40": (PROBED, 1), "l40": (OTHER, 0), "t4": (OTHER, 0)}
    asked.clear()
    assert confirm() == 1 and asked == [("l40", "n=1"), ("t4", "n=1")]  # goes on behind what it noted
    stale = CliRunner().invoke(record_validation.main, ["published", "--stale", "--format", "csv"])
    assert stale.exit_code == 1 and "l40" in stale.output and "a40" not in stale.output
    asked.clear()
    assert confirm("--gpu", "a40", "--probe", "2") == 0 and sorted(asked) == [("a40", "n=1"), ("a40", "n=2")]
    assert states(path)["a40"] == (PROBED, 2)


def test_a_probe_holds_for_the_source_it_was_made_with_and_yields_to_a_recording() -> None:
    (key,) = {key_of(each) for each in ROWS if each.gpu == "l40"}
    today = digest_of(key)

    def state(known: dict[str, str], probe: str) -> str:
        (found,) = [each for each in recordings(ROWS, known, {name_of(key): Probe(probe, 1)}) if each.key == key]
        return found.state

    assert state({}, today) == PROBED
    assert state({}, "0") == OTHER
    assert state({name_of(key): today}, today) == SAME


def test_without_confirm_a_probe_notes_nothing_and_confirm_asks_for_a_probe(
    asked: list[tuple[str, str]], tmp_path: Path
) -> None:
    said = CliRunner().invoke(record_validation.main, ["published", "--probe", "1", "--gpu", "a40"])
    assert said.exit_code == 0 and asked == [("a40", "n=2")] and not (tmp_path / "probed.json").exists()
    alone = CliRunner().invoke(record_validation.main, ["published", "--confirm"])
    assert alone.exit_code == UsageError.exit_code and "--probe 1 --confirm" in alone.output
