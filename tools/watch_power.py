"""How well `gpusim watch changes` tells a change of measured times from noise: annotated series, false alarms, power,
delay, grouping.

Run ``python tools/watch_power.py`` (about ten minutes), or one part: ``annotated``, ``false-alarms``, ``chain``,
``power``, ``delay``, ``grouping``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.report.tables import FORMATS, format_records
from gpusim.watch.change import COMMIT, DRIFT, alert_numbers
from gpusim.watch.change import STEP as STEP_KIND
from gpusim.watch.changes import all_changes
from gpusim.watch.detect import analyse
from gpusim.watch.history import History, Point
from gpusim.watch.measured import measured_changes
from gpusim.watch.side_by_side import MOST_PAIRS, REFUTED, UNSETTLED, noise_of, weigh
from tools.watch_annotated import PUBLISHED_DEFAULT, PUBLISHED_ORACLE, Annotated, f1, read_annotated
from tools.watch_series import DRIFTING, NULLS, stays

#: Rules were set on this seed; figures are printed of another one.
TUNING_SEED, HELD_OUT_SEED = 7, 20262
#: Relative noise of a point, and a step of the same size: what is asked for.
NOISE = STEP = 0.005
WITHIN = 5
#: Noise that each measurement has anew, in that of a point: of a level that wanders the rest is the level's. Elsewhere
#: all of it counts as new, also where neighbours resemble each other.
ANEW = {"level that wanders": 0.7}


def annotated(folder: Path, half: str) -> Iterator[dict[str, object]]:
    """F1 of every series and their means, of the steps found in each variable."""
    scores: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for each in read_annotated(folder):
        if half != "all" and each.learning != (half == "learning"):
            continue
        found = sorted(_steps_of(each))
        score = f1(each.marks, found), f1(each.marks, [])
        scores[each.learning].append(score)
        yield _score_row(each.name, each.learning, score, " ".join(map(str, found)))
    for learning, rows in scores.items():
        if rows:
            yield _score_row("mean", learning, tuple(np.mean(rows, axis=0)), "")
    if half == "all":
        whole = tuple(np.mean([row for rows in scores.values() for row in rows], axis=0))
        published = f"published, 22 of 24 series: {PUBLISHED_DEFAULT} by default, {PUBLISHED_ORACLE} tuned per series"
        yield {"series": "mean", "half": "all", "f1": whole[0], "f1_of_none": whole[1], "found": published}


def _score_row(name: str, learning: bool, score: tuple[float, ...], found: str) -> dict[str, object]:
    half = "learning" if learning else "held out"
    return {"series": name, "half": half, "f1": score[0], "f1_of_none": score[1], "found": found}


def _steps_of(series: Annotated) -> set[int]:
    """Where the level, or the share of two levels, changed in any variable; a drift has no place."""
    found: set[int] = set()
    for values in series.values.T:
        at = np.flatnonzero(~np.isnan(values))
        found |= {int(at[each.index]) for each in analyse(values[at]).changes if each.kind != DRIFT}
    return found


def false_alarms(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Of ``count`` histories of each kind and length, the percentage in which anything at all is called a change; of
    drifting ones, a step."""
    for kinds, counted in ((NULLS, "any change"), (DRIFTING, "steps")):
        for name, draw in kinds.items():
            row: dict[str, object] = {"history": name, "counted": counted}
            for n in (30, 100, 300):
                random = np.random.default_rng([seed, n])
                drawn = (analyse(100 + 0.5 * draw(random, n)).changes for _ in range(count))
                alarms = sum(any(kinds is NULLS or each.kind != DRIFT for each in found) for found in drawn)
                row[f"percent_of_{n}_points"] = 100 * alarms / count
            yield row


def chain(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Of ``count`` histories, the percentage with a step blamed on a commit; the same once the commits around it were
    measured in turn (pairs of which each value has the noise of a point, here all of it anew: a slow movement is the
    same for both); and of modes whose clock was read beside each value. Steps of 1.5, 2 and 3 standard deviations: what
    the pairs take away from what is found."""
    steps = {f"white, and a step of {size:g}": size for size in (1.5, 2.0, 3.0)}
    for name in (*NULLS, *DRIFTING, *steps):
        row: dict[str, object] = {"history": name}
        for n in (30, 100):
            random = np.random.default_rng([seed, n])
            alarms = left = clocked = 0
            for _ in range(count):
                values = {**NULLS, **DRIFTING}.get(name, NULLS["white"])(random, n)
                size = steps.get(name, 0.0)
                values = values + size * (np.arange(n) >= n // 2)
                found = [each for each in analyse(100 + 0.5 * values).changes if each.kind == STEP_KIND]
                alarms += bool(found)
                noise = noise_of(0.5 * values)
                own = 0.5 * ANEW.get(name, 1.0)
                left += any(
                    _in_turn(random, each.after - each.before, noise, 0.5 * size, own) != REFUTED for each in found
                )
                if "stays" in name:
                    clocked += _with_clock(random, n, float(name.rpartition(" ")[2]))
            row |= {f"{n}_points_percent": 100 * alarms / count, f"{n}_after_pairs": 100 * left / count}
            row[f"{n}_with_clock"] = 100 * clocked / count if "stays" in name else None
        yield row


def _in_turn(random: np.random.Generator, seen: float, noise: float, true: float, own: float) -> str:
    """What pairs of values with noise of ``own`` say of a step as large as ``seen`` that is ``true``."""
    pairs: list[tuple[float, float]] = []
    verdict = UNSETTLED
    while verdict == UNSETTLED and len(pairs) < MOST_PAIRS:
        before, after = own * random.normal(0, 1, 2)
        pairs.append((before, after + true))
        verdict = weigh(pairs, seen, noise)
    return verdict


def _with_clock(random: np.random.Generator, n: int, dwell: float) -> bool:
    """Whether a history of two modes, each at a clock of its own that is known, has a change of a commit."""
    upper = stays(random, n, dwell)
    values = 100 + 0.5 * (random.normal(0, 1, n) + 5 * upper)
    rows = tuple(
        Point(f"c{i}", float(value), {"clock": "1410 MHz" if mode else "1980 MHz"})
        for i, (value, mode) in enumerate(zip(values, upper))
    )
    return any(each.cause == COMMIT for each in measured_changes(History("m", rows, True, "us")))


def daily_false_alarms(count: int, seed: int) -> Iterator[dict[str, object]]:
    """The same when the history is looked at after each new point: a change at any look counts, though it may be gone
    at the next."""
    for name in ("white", "AR(1), 0.6", "outliers"):
        random = np.random.default_rng([seed, 1])
        alarms = looks = 0
        for _ in range(count):
            values = 100 + 0.5 * NULLS[name](random, 100)
            days = [bool(analyse(values[:day]).changes) for day in range(20, 101)]
            alarms, looks = alarms + any(days), looks + sum(days)
        yield {
            "history": name, "histories_percent": 100 * alarms / count, "looks_percent": 100 * looks / (81 * count),
        }  # fmt: skip


def power(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Of ``count`` steps of 0.5 % in histories of 0.5 % noise a measurement, the percentage that is an alert when five
    points of the new level are there, and the percentage of such sets without a step that alarm. ``series``: that the
    same commit moves; ``measurements``: of a point."""
    for series, measurements in ((1, 1), (1, 3), (1, 5), (1, 10), (5, 1), (5, 3), (10, 1), (10, 3), (40, 1)):
        random = np.random.default_rng([seed, series, measurements])
        noise = NOISE / np.sqrt(measurements)
        found = sum(_found(_fleet(random, series, 105, noise, 100, STEP), 100) for _ in range(count))
        wrong = sum(bool(all_changes(_fleet(random, series, 105, noise, 100, 0.0))) for _ in range(count))
        yield {
            "series": series, "measurements": measurements, "found_percent": 100 * found / count,
            "false_alarms_percent": 100 * wrong / count,
        }  # fmt: skip


def delay(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Points of the new level until a step is first an alert, looking after each; of single histories of one
    measurement a point."""
    for size in (1.0, 2.0, 3.0, 5.0, 10.0):
        random = np.random.default_rng([seed, int(10 * size)])
        delays = []
        for _ in range(count):
            values = 100 * (1 + NOISE * (random.normal(0, 1, 160) + size * (np.arange(160) >= 100)))
            days = (day for day in range(4, 61) if _near(analyse(values[: 100 + day]).changes, 100))
            delays.append(next(days, np.inf))
        yield {
            "step_in_noise": size, "step_percent": 100 * NOISE * size, "median_points": float(np.median(delays)),
            "within_5_percent": 100 * float(np.mean(np.array(delays) <= WITHIN)),
            "within_60_percent": 100 * float(np.mean(np.isfinite(delays))),
        }  # fmt: skip


def _near(found: Iterable, place: int) -> bool:
    return any(each.kind != DRIFT and abs(each.index - place) <= WITHIN for each in found)


def grouping(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Sets of 20 histories that a commit (2 %, half of them), another one (0.5 %, all) and a toolchain (1 %, all) move:
    how many alerts they give, how many of the causes have one with their own commit among its candidates, and how many
    alerts have no such cause."""
    random = np.random.default_rng([seed, 3])
    alerts = named = false = 0
    for _ in range(count):
        histories = []
        for i, history in enumerate(_fleet(random, 20, 150, NOISE, 110, 0.01)):
            factors = (1 + 0.02 * (i < 10) * (np.arange(150) >= 40)) * (1 + STEP * (np.arange(150) >= 75))
            points = tuple(
                Point(p.commit, p.value * f, {"toolchain": "12.9" if at < 110 else "13.1"})
                for at, (p, f) in enumerate(zip(history.points, factors))
            )
            histories.append(History(history.name, points, True, "us", history.groups))
        changes = all_changes(histories)
        numbers = alert_numbers(changes)
        alerts += len(set(numbers))
        right: set[int] = set()
        for cause in ("c40", "c75", "toolchain 12.9 -> 13.1"):
            own = {
                number
                for number, each in zip(numbers, changes)
                if (cause in each.candidates if each.cause == COMMIT else cause == each.who)
            }
            named += bool(own)
            right |= own
        false += len(set(numbers) - right)
    yield {"causes": 3 * count, "alerts": alerts, "causes_named": named, "alerts_without_cause": false}


def _fleet(random: np.random.Generator, series: int, points: int, noise: float, at: int, step: float) -> list[History]:
    """Histories of one group, of launches of 100 us to 1 ms, with a step of all at ``at``."""
    found = []
    for number in range(series):
        level = 100.0 * 10 ** random.random()
        values = level * (1 + noise * random.normal(0, 1, points)) * (1 + step * (np.arange(points) >= at))
        rows = tuple(Point(f"c{i}", float(value)) for i, value in enumerate(values))
        found.append(History(f"s{number}", rows, True, "us", ("gpu",)))
    return found


def _found(histories: list[History], at: int) -> bool:
    return any(each.cause == COMMIT and f"c{at}" in each.candidates for each in all_changes(histories))


PARTS = ("annotated", "false-alarms", "chain", "power", "delay", "grouping")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option(
    "--count", default=200, show_default=True, help="Histories of each kind; of daily looks and sets a tenth."
)
@click.option("--half", type=click.Choice(("learning", "held-out", "all")), default="all", show_default=True)
@click.option(
    "--regressions",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(__file__).parents[2] / "shared" / "regressions",
    help="The folder with tcpd/.  [default: ../shared/regressions]",
)
@click.option("--seed", default=HELD_OUT_SEED, show_default=True, help=f"Rules were set on {TUNING_SEED}.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(parts: tuple[str, ...], count: int, half: str, regressions: Path, seed: int, form: str) -> None:
    """Print the figures of PARTS, of all by default."""
    few = max(1, count // 10)
    tables = {
        "annotated": lambda: [annotated(regressions / "tcpd", half)],
        "false-alarms": lambda: [false_alarms(count, seed), daily_false_alarms(few, seed)],
        "chain": lambda: [chain(count, seed)],
        "power": lambda: [power(few, seed)],
        "delay": lambda: [delay(few, seed)],
        "grouping": lambda: [grouping(few, seed)],
    }
    for part in parts or PARTS:
        for rows in tables[part]():
            click.echo(format_records(list(rows), form))
            click.echo()


if __name__ == "__main__":
    main()
