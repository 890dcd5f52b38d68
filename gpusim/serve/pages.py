"""The pages: each a function from the board and what is asked to a page's text; None where there is no such thing.

Mental model: a page reads, draws and renders; it knows neither server nor files: :class:`gpusim.serve.address.Links`
says how it refers to another page. All texts of the store are escaped by the template engine, those of a drawing by the
drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from gpusim.errors import UnknownAlertError
from gpusim.regress.align import Change
from gpusim.serve import address
from gpusim.serve.address import Links
from gpusim.serve.attribution import read_attribution
from gpusim.serve.board import Board
from gpusim.serve.charts import history_chart, pair_chart, stall_chart, trend_chart
from gpusim.serve.history import SeriesChange, read_history
from gpusim.serve.missing_values import read_holes
from gpusim.serve.newest import read_key, read_siblings
from gpusim.serve.overview import ALERTS_A_PAGE, newest_alerts, read_alerts, read_today
from gpusim.serve.pairs import geometric_mean, gpu_pairs, kernel_ratios, mean_ratios
from gpusim.serve.trends import ComparedRun, seconds_of
from gpusim.watch.alerts.read import read_with_events
from gpusim.watch.alerts.record import STATES, VERDICTS, VERIFIED

SERIES_A_PAGE = 100
MOST_LINES, MOST_INSTRUCTIONS, MOST_CHANGES, MOST_SIBLINGS, MOST_ALERT_SERIES, MOST_PAIRS = 25, 40, 200, 200, 100, 100
LONGEST_FILTER = 200


@dataclass(frozen=True)
class Editor:
    """Who may change alerts, and what a form of theirs must hold. ``said``: why the last thing that they asked for was
    not done."""

    name: str
    csrf: str
    said: str = ""


def today(board: Board, links: Links, owner: str = "") -> str:
    """What is open, whose it is, what happened lately."""
    return board.render("today.html", links, {"today": read_today(board.store, owner[:LONGEST_FILTER]), "owner": owner,
                                              **_frame(board, "today")})  # fmt: skip


def alerts(board: Board, links: Links, number: int = 1, state: str = "", plan: str = "") -> str | None:
    """All alerts, newest first."""
    state = state if state in STATES else ""
    lines, count = read_alerts(board.store, number, state, plan[:LONGEST_FILTER])
    if not lines and number > 1:
        return None
    return board.render("alerts.html", links, {
        "lines": lines, "count": count, "number": number, "last": -(-count // ALERTS_A_PAGE), "state": state,
        "plan": plan, "states": STATES, **_frame(board, "alerts"),
    })  # fmt: skip


def alert(board: Board, links: Links, number: int, editor: Editor | None = None) -> str | None:
    """One alert: its series, its attribution, all that was done about it."""
    try:
        found, moved, events = read_with_events(board.store, number)
    except UnknownAlertError:
        return None
    chart = ""
    if moved:
        key = read_key(board.store, moved[0].series_id)
        if key is not None:
            chart = history_chart(read_history(board.store, key), _to_change(links, key.id), moved[0].position)
    return board.render("alert.html", links, {
        "alert": found, "moved": moved[:MOST_ALERT_SERIES], "moved_count": len(moved), "events": events,
        "chart": Markup(chart), "editor": editor, "states": [each for each in STATES if each != VERIFIED],
        "verdicts": VERDICTS[1:], **_frame(board, "alerts"),
    })  # fmt: skip


def kernels(
    board: Board, links: Links, plan_part: str, number: int = 1, kernel: str = "", gpu: str = "", toolchain: str = ""
) -> str | None:
    """The series of a plan with their newest values."""
    plan = _plan(board, plan_part)
    if plan is None:
        return None
    state = board.state(plan)
    words = kernel[:LONGEST_FILTER].lower().split()
    chosen = [
        each for each in state.newest
        if all(word in f"{each.key.kernel}:{each.key.shape}".lower() for word in words)
        and gpu in ("", each.key.gpu) and toolchain in ("", each.key.toolchain)
    ]  # fmt: skip
    shown = chosen[(number - 1) * SERIES_A_PAGE : number * SERIES_A_PAGE]
    if not shown and number > 1:
        return None
    changes = newest_alerts(board.store, [each.key.id for each in shown])
    return board.render("kernels.html", links, {
        "state": state, "shown": shown, "changes": changes, "count": len(chosen), "number": number,
        "last": -(-len(chosen) // SERIES_A_PAGE), "page_of": lambda page: address.kernels(plan, page), "kernel": kernel, "gpu": gpu, "toolchain": toolchain,
        **_frame(board, "kernels", plan),
    })  # fmt: skip


def series(board: Board, links: Links, number: int) -> str | None:
    """A kernel's history over commits, with its changes."""
    key = read_key(board.store, number)
    if key is None:
        return None
    history = read_history(board.store, key)
    siblings = [each for each in read_siblings(board.store, key) if each.id != key.id]
    return board.render("series.html", links, {
        "key": key, "history": history, "chart": Markup(history_chart(history, _to_change(links, number))),
        "changes": history.changes[: -MOST_CHANGES - 1 : -1], "siblings": siblings[:MOST_SIBLINGS],
        "more_siblings": len(siblings) > MOST_SIBLINGS, **_frame(board, "kernels", key.plan),
    })  # fmt: skip


def change(board: Board, links: Links, number: int, position: int) -> str | None:
    """A change of a series, with what it is made of."""
    key = read_key(board.store, number)
    if key is None:
        return None
    history = read_history(board.store, key)
    found = next((each for each in history.changes if each.position == position), None)
    if found is None:
        return None
    old, new = history.points[found.from_index], history.points[found.index]
    parts = read_attribution(board.store, old.launch_id, new.launch_id)
    instructions = [] if parts is None else [
        term for term in parts.instructions if term.cycles or term.pair.change != Change.SAME
    ]  # fmt: skip
    return board.render("change.html", links, {
        "key": key, "change": found, "old": old, "new": new, "commits": history.commits, "attribution": parts,
        "chart": Markup(history_chart(history, _to_change(links, number), position)),
        "stalls": Markup(stall_chart(parts.stalls) if parts else ""), "lines": parts.lines[:MOST_LINES] if parts else (),
        "instructions": instructions[:MOST_INSTRUCTIONS], "instruction_count": len(instructions),
        **_frame(board, "kernels", key.plan),
    })  # fmt: skip


def gpus(board: Board, links: Links, plan_part: str) -> str | None:
    """GPU against GPU: how each pair of a plan stands."""
    plan = _plan(board, plan_part)
    if plan is None:
        return None
    state = board.state(plan)
    return board.render(
        "gpus.html", links, {"state": state, "ratios": mean_ratios(state), **_frame(board, "gpus", plan)}
    )


def gpu_pair(board: Board, links: Links, plan_part: str, first_part: str, second_part: str) -> str | None:
    """GPU against GPU: one pair, by kernel and by launch."""
    plan = _plan(board, plan_part)
    if plan is None:
        return None
    state = board.state(plan)
    first, second = (_named(state.gpus, each) for each in (first_part, second_part))
    if first is None or second is None:
        return None
    pairs = gpu_pairs(state, first, second)
    rows = kernel_ratios(pairs)
    chart = pair_chart(rows, first, second, lambda row: links.page(address.series(row.series)))
    half = MOST_PAIRS // 2
    shown = pairs if len(pairs) <= MOST_PAIRS else [*pairs[:half], *pairs[-half:]]
    return board.render("gpu_pair.html", links, {
        "first": first, "second": second, "rows": rows, "pairs": shown, "count": len(pairs),
        "mean": geometric_mean([pair.ratio for pair in pairs]), "chart": Markup(chart), **_frame(board, "gpus", plan),
    })  # fmt: skip


def coverage(board: Board, links: Links, plan_part: str) -> str | None:
    """Coverage and holes: of the plan's cells, and of behaviours."""
    plan = _plan(board, plan_part)
    if plan is None:
        return None
    covered = board.coverage.read(board.store)
    lines: dict[str, list[tuple[float, float]]] = {}
    for run in covered:
        lines.setdefault(run.name or "unnamed", []).append((seconds_of(run.started), run.percent))
    return board.render("coverage.html", links, {
        "holes": read_holes(board.store, board.state(plan)), "covered": covered[-1] if covered else None,
        "chart": Markup(trend_chart({name: sorted(each) for name, each in lines.items()}, "Bins of behaviour that were hit, over time") if len(covered) > 1 else ""),
        **_frame(board, "coverage", plan),
    })  # fmt: skip


def accuracy(board: Board, links: Links) -> str:
    """Errors against silicon over time."""
    compared = board.accuracy.read(board.store)
    lines: dict[str, list[tuple[float, float]]] = {}
    newest: dict[str, ComparedRun] = {}
    for run in compared:
        for gpu, (mean, _) in run.mean_percent.items():
            lines.setdefault(gpu, []).append((seconds_of(run.started), mean))
            newest[gpu] = run
    return board.render("accuracy.html", links, {
        "chart": Markup(trend_chart({gpu: sorted(each) for gpu, each in sorted(lines.items())}, "Mean absolute error of each GPU over time")),
        "newest": dict(sorted(newest.items())), "runs": compared[: -MOST_CHANGES - 1 : -1], **_frame(board, "accuracy"),
    })  # fmt: skip


def _frame(board: Board, here: str, plan: str = "") -> dict[str, object]:
    """What every page has: which one it is, and the plan that its neighbours speak of."""
    plans = board.plans()
    return {"here": here, "plan_here": plan or (plans[0] if plans else ""), "plans": plans}


def _to_change(links: Links, series_id: int):
    def link(change: SeriesChange) -> str:
        return links.page(address.change(series_id, change.position))

    return link


def _plan(board: Board, plan_part: str) -> str | None:
    return _named(board.plans(), plan_part)


def _named(names, wanted: str) -> str | None:
    """Which of ``names`` a part of a path stands for."""
    return next((name for name in names if address.part(name) == wanted), None)
