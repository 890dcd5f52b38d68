"""A sweep of a whole model as one self-contained HTML page for people who decide: the question, the front of plans that
nothing beats, all plans, how sure, what limits, what would help, sources.

Mental model: the template (``sweep.html``) is the page, this file picks what goes into it. Rows come as
:class:`gpusim.report.sweep_points.Point`; of a few plans of the front (the fastest, the one that gives most, the one
between) the page has the projection itself. Texts that may come from anywhere (names, files of rows) are escaped by the
template engine; no script, nothing from the network.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gpusim import __version__
from gpusim.errors import ToolchainError
from gpusim.gpus.load import Claim
from gpusim.project.limits import Remedy, limiters
from gpusim.project.records import STEP, not_validated, operator_records
from gpusim.project.shown import Projected, listed, step_of
from gpusim.project.text import lines_of
from gpusim.report.front_chart import front_chart
from gpusim.report.sweep_points import Point, Span

try:
    from jinja2 import Environment, StrictUndefined
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the HTML report needs matplotlib and jinja2: pip install 'gpusim[report]'") from error

#: Rows of the table of all plans, reasons why plans cannot be, and letters of an axis' values that the page has.
MOST_ROWS, MOST_REASONS, MOST_VALUES = 2000, 10, 120
#: Phases whose latency is that of a token that a user waits for.
_PER_TOKEN = ("request", "serve", "decode")
#: Axes that change what is asked for, and not how it is done.
_WORK = ("sequence", "output")


@dataclass(frozen=True)
class Chosen:
    """A plan that the page looks at: ``why``: what it is best in; ``remedies`` as
    :func:`gpusim.project.limits.remedies` finds them."""

    point: Point
    why: str
    found: Projected
    remedies: Sequence[Remedy]


def render_sweep(
    axes: Mapping[str, Sequence[Any]], points: Sequence[Point], front: Sequence[Point], chosen: Sequence[Chosen],
    refused: Sequence[str], titles: Mapping[str, str], assumed: Mapping[str, Mapping[str, Claim]], facts: Sequence[tuple[str, str]],
    limits: Sequence[str] = (),
) -> str:  # fmt: skip
    """The page. ``axes``: what was combined; ``points``: all plans that can be; ``front``: of those that fit, by
    latency; ``chosen``: of the front; ``refused``: why the others cannot be; ``titles``: GPU's name -> what its
    description calls it; ``assumed``: GPU's name -> what its file states otherwise than the built-in GPU below it;
    ``facts``: what all plans have alike; ``limits``: of times, that plans of the front keep."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"span": span, "short": short}
    template = environment.from_string(files("gpusim.report").joinpath("sweep.html").read_text("utf-8"))
    fitting = [point for point in points if point.fits]
    numbered = {point.index: number for number, point in enumerate(front, 1)}
    phase = dict(facts).get("phase", "")
    per_user = phase in _PER_TOKEN
    latency_name = STEP["decode"] if per_user else STEP.get(phase, "step")
    ordered = sorted(fitting, key=lambda point: -point.rate.middle) + [point for point in points if not point.fits]
    return template.render(
        version=__version__, limits=" and ".join(limits), name=dict(facts).get("model", ""), facts=facts, axes=[(name, _values(values)) for name, values in axes.items()], names=_telling(axes, points), lengths=[name for name in _WORK if name in axes and len(axes[name]) > 1],
        counts={"combined": len(points) + len(refused), "can": len(points), "fit": len(fitting), "front": len(front), "unvalidated": sum(not point.validated for point in front)},
        latency_name=latency_name, per_user=per_user, firsts=any(point.first_ms for point in points),
        chart=front_chart(fitting, front, numbered, latency_name) if fitting else "", front=front, numbered=numbered, rows=ordered[:MOST_ROWS], left_out=max(0, len(ordered) - MOST_ROWS),
        limiting=Counter(point.limiter for point in front).most_common(), alike=_alike(front), chosen=[_shown(each, numbered) for each in chosen],
        unknown=[(numbered[each.point.index], reason.removeprefix("not validated: "), share) for each in chosen for reason, share in not_validated(step_of(each.found))],
        refused=Counter(refused).most_common(MOST_REASONS), other_reasons=max(0, len(set(refused)) - MOST_REASONS),
        titles=sorted(titles.items()), assumed=[(gpu, sorted(claims.items())) for gpu, claims in sorted(assumed.items()) if claims],
    )  # fmt: skip


def _shown(each: Chosen, numbered: Mapping[int, int]) -> dict[str, Any]:
    """What the page says of a plan of the front."""
    step = step_of(each.found)
    operators = operator_records(step)
    lines = dict(lines_of(each.found))
    return {
        "number": numbered[each.point.index], "why": each.why, "point": each.point, "of": listed(each.found, STEP),
        "facts": [(name, lines[name]) for name in ("gpus", "memory", "time goes to", "energy", "waiting", "scheduler") if name in lines],
        "limits": limiters(step), "remedies": [(remedy.name, 100 * remedy.saved, ", ".join(remedy.settings)) for remedy in each.remedies],
        "bases": sorted({row["basis"] for row in operators if row["validated"]}),
    }  # fmt: skip


def _telling(axes: Mapping[str, Sequence[Any]], points: Sequence[Point]) -> list[str]:
    """Axes whose value differs between plans, and so tells them apart in a table."""
    return [name for name in axes if name != "gpu" and len({str(point.choice.get(name, "")) for point in points}) > 1]


def _alike(front: Sequence[Point]) -> int:
    """Neighbours on the front whose latency and whose throughput both lie within the other's interval."""
    pairs = itertools.pairwise(front)
    return sum(_within(one.latency_ms, other.latency_ms) and _within(one.rate, other.rate) for one, other in pairs)


def _within(one: Span, other: Span) -> bool:
    return one.low <= other.middle <= one.high and other.low <= one.middle <= other.high


def _values(values: Sequence[Any]) -> str:
    text = ", ".join(map(str, values))
    return text if len(text) <= MOST_VALUES else f"{text[:MOST_VALUES]}... ({len(values)} values)"


def short(value: float) -> str:
    """Three significant digits, and all before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def span(value: Span) -> str:
    """A value with its interval."""
    return f"{short(value.middle)} ({short(value.low)} to {short(value.high)})"
