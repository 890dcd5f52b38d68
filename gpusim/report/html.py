"""A saved run as one self-contained HTML page: no network, no scripts, charts as SVG in the page.

Mental model: the template (``page.html``) is the page, this file picks what goes into it. All texts of the
document, which may come from anywhere, are escaped by the template engine; the charts are our own.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from gpusim.errors import ToolchainError
from gpusim.report.charts import bandwidth_chart, roofline_chart, stall_chart, unit_chart, warp_chart
from gpusim.report.hot import hot_rows

try:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the HTML report needs matplotlib and jinja2: pip install 'gpusim[report]'") from error

TOP_LINES, TOP_INSTRUCTIONS, TOP_BOUNDS = 25, 25, 10
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def render_page(document: dict[str, Any]) -> str:
    """The page of a document that :func:`gpusim.report.saved.load_result` has accepted."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(files("gpusim.report").joinpath("page.html").read_text("utf-8"))
    launches = [
        {
            "facts": launch,
            "bandwidth": Markup(bandwidth_chart(document, launch)),
            "warps": Markup(warp_chart(document, launch)),
        }
        for launch in document["launches"]
    ]
    shares = [
        ("Hot source lines", hot_rows(document["by_line"], TOP_LINES), False),
        ("Hot instructions", hot_rows(document["by_instruction"], TOP_INSTRUCTIONS), True),
    ]
    return template.render(
        d={"why": None, **document},
        numbers=_numbers(document),
        charts={
            "stalls": Markup(stall_chart(document)),
            "units": Markup(unit_chart(document)),
            "roofline": Markup(roofline_chart(document)),
        },
        launches=launches,
        shares=[share for share in shares if share[1]],
        bounds=sorted(document["least_cycles"].items(), key=lambda item: -item[1])[:TOP_BOUNDS],
        counters=[(name, _figure(value)) for name, value in document["counters"].items()],
    )


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _time(document: dict[str, Any]) -> str:
    """The time with its interval; files of before there were any have none."""
    low, high = document.get("time_us_low"), document.get("time_us_high")
    between = "" if low is None or high is None else f" ({low:,.2f} to {high:,.2f})"
    return f"{document['time_us']:,.2f}{between}"


def _numbers(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures on top."""
    numbers = [
        ("cycles", f"{document['cycles']:,}"),
        ("microseconds", _time(document)),
        ("warp instructions", f"{document['warp_instructions']:,}"),
    ]
    traffic = document["traffic"]
    for name, label, pattern in (
        (_OCCUPANCY, "achieved occupancy", "{:.1f} %"),
        ("l1tex__t_sector_hit_rate.pct", "L1 hit rate", "{:.1f} %"),
        ("lts__t_sector_hit_rate.pct", "L2 hit rate", "{:.1f} %"),
        ("dram__bytes.sum", "bytes at DRAM", "{:,.0f}"),
    ):
        if isinstance(traffic.get(name), int | float):
            numbers.append((label, pattern.format(traffic[name])))
    return numbers
