"""A comparison as one self-contained HTML page: no network; charts as SVG, and a few lines of script that sort the
tables.

Mental model: the template (``comparison.html``) is the page, this file picks what goes into it. All texts of the
document, which may come from anywhere, are escaped by the template engine; the charts' texts by Matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from gpusim import __version__
from gpusim.errors import ToolchainError
from gpusim.io.percent import signed_percent
from gpusim.report.comparison_charts import error_chart, gap_chart, judged, scatter_chart, stall_chart

try:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the HTML report needs matplotlib and jinja2: pip install 'gpusim[report]'") from error


def render_comparison(documents: Sequence[dict[str, Any]], against: str) -> str:
    """The page of documents as :func:`gpusim.report.comparison.comparison_document` makes them, one a GPU."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["figure"] = _figure
    template = environment.from_string(files("gpusim.report").joinpath("comparison.html").read_text("utf-8"))
    parts = [
        {
            "d": document,
            "numbers": _numbers(document),
            "launches": judged(document),
            "differing": [
                (launch, c) for launch in document["launches"] for c in launch["counters"] if not c["agrees"]
            ],
            "charts": {
                name: Markup(chart(document)) if judged(document) else ""
                for name, chart in (
                    ("scatter", scatter_chart),
                    ("error", error_chart),
                    ("gap", gap_chart),
                    ("stall", stall_chart),
                )
            },
        }
        for document in documents
    ]
    return template.render(parts=parts, against=against, version=__version__)


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.4g}"


def _numbers(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures on top."""
    overall = document["overall"]
    patterns = (
        ("launches", "launches compared", "{:.0f}".format),
        ("mape_percent", "mean absolute error", "{:.1f} %".format),
        ("bias_percent", "mean signed error", signed_percent),
        ("geometric_mean_ratio", "simulated over measured (geometric mean)", "{:.3f}".format),
        ("spearman", "rank correlation", "{:.3f}".format),
        ("not_compared", "not compared", "{:.0f}".format),
    )
    return [(text, "-" if overall[key] is None else pattern(overall[key])) for key, text, pattern in patterns]
