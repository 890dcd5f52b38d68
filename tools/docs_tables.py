"""The tables of docs/validation and README.md that follow from recorded data: how far the model is from silicon.

Mental model: ``traces/published/model_error.json`` is what ``tools/record_model_error.py`` last wrote (mean errors of
each published series), ``traces/published/manifest.json`` says where the measurements come from and what was fitted to
them. Each function makes one table of Markdown; ``write_docs.py`` puts it into the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from validation.coverage import LEFT_OUT, Held, Judged, by_part, cell_of, held, judged_by, left_out, settled_rule
from validation.intervals import calibration, set_of
from validation.residuals import load_residuals
from validation.sets import FINAL, described_as
from validation.sheet_errors import sheet_errors

from gpusim.gpus.describe import evidence_of_gpu
from gpusim.gpus.load import KINDS, list_gpus, load_gpu
from gpusim.tile.bands import OPERATOR_REGIONS
from gpusim.tile.library import FRAMEWORKS
from gpusim.uncertainty.limiters import CLASSES
from gpusim.uncertainty.table import table as interval_table

PUBLISHED = Path(__file__).parents[1] / "traces" / "published"
EXTERNAL = Path(__file__).parents[1] / "traces" / "external"
TILE = Path(__file__).parents[1] / "gpusim" / "tile"
#: What the tile level's tools record, a file each: products, attention, other operators, and GPUs with figures that
#: their generation's rows did not set.
TILE_ERRORS = ("gemm", "attention", "operator", "other_figures")


def tile_errors(name: str) -> dict[str, Any]:
    """What was recorded of one of :data:`TILE_ERRORS`."""
    return json.loads((TILE / f"{name}_errors.json").read_text("utf-8"))


def _cell(value: Any) -> str:
    """``value`` as a table's cell: a bar is no column's edge. In a code span Python-Markdown takes it as it stands."""
    parts = re.split(r"(`[^`]*`)", str(value))
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)


def table(head: list[str], rows: list[list[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A Markdown table; the columns ``numbers`` are set to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join("| " + " | ".join(map(_cell, cells)) + " |" for cells in (head, rule, *rows))


def accuracy() -> str:
    """Mean absolute error, mean signed error and number of points of each series and GPU."""
    document = json.loads((PUBLISHED / "model_error.json").read_text("utf-8"))
    errors, bias, points = document["gpus"], document["mean_signed_percent"], document["points"]
    series = list(dict.fromkeys(name for gpu in errors.values() for name in gpu))
    rows = []
    for name in series:
        cells = [
            f"{errors[gpu][name]:.2f} % ({bias[gpu][name]:+.1f}), {points[gpu][name]}" if name in errors[gpu] else ""
            for gpu in errors
        ]
        rows.append([f"`{name}`", *cells])
    return table(["series", *(f"`{gpu}`" for gpu in errors)], rows)


def held_out() -> str:
    """Published series by GPU: how many points, which were fitted, which are held out, and the source."""
    manifest = json.loads((PUBLISHED / "manifest.json").read_text("utf-8"))
    rows = []
    for entry in manifest["tables"]:
        for gpu, facts in entry["gpus"].items():
            fitted = [f"`{name}`" for name in entry["kernels"] if name in facts.get("fitted", ())]
            rest = [f"`{name}`" for name in entry["kernels"] if name not in facts.get("fitted", ())]
            source = {**entry["source"], **facts.get("source", {})}
            place = f"[{source['repository'].split('//')[1]}]({source['repository']}) at {source['commit']}"
            rows.append([f"`{entry['file']}`", f"`{gpu}`", ", ".join(fitted), ", ".join(rest), place])
    return table(["file", "GPU", "the description was set from", "held out", "source"], rows)


def gpus() -> str:
    """The described GPUs with the evidence of their values."""
    rows = []
    for name in list_gpus():
        spec = load_gpu(name)
        kinds = evidence_of_gpu(name)
        capability = "{}.{}".format(*spec.capability)
        rows.append([f"`{name}`", spec.title, capability, spec.sm_count, *(kinds[kind] for kind in KINDS)])
    return table(["GPU", "what it is", "capability", "SMs", *KINDS], rows, frozenset(range(3, 9)))


def external_figures() -> str:
    """Errors, rank correlation and regret of each half of each set that was predicted."""
    head = ["set", "half", "rows", "mean", "signed", "worst", "rank", "regret", "of five", "noise"]
    rows = []
    for each in json.loads((EXTERNAL / "results.json").read_text("utf-8"))["summaries"]:
        of = f"{each['rows']} of {each['of_rows']}"
        if not each["rows"]:
            rows.append([f"`{each['set']}`", each["half"], of, *[""] * 7])
            continue
        percents = [
            "" if each.get(name) is None else form.format(each[name])
            for name, form in (
                ("mape_percent", "{:.1f} %"), ("signed_percent", "{:+.1f} %"), ("worst_percent", "{:+.1f} %"), ("rank", "{:.2f}"),
                ("regret_percent", "{:.1f} %"), ("regret_of_five_percent", "{:.1f} %"), ("noise_percent", "{:.1f} %"),
            )
        ]  # fmt: skip
        rows.append([f"`{each['set']}`", each["half"], of, *percents])
    return table(head, rows, frozenset(range(2, 10)))


def external_sets() -> str:
    """The sets with their provenance, each fact as the manifest has it."""
    facts = ("method", "cache", "clocks", "compiler", "noise", "status")
    parts = []
    for name, entry in json.loads((EXTERNAL / "manifest.json").read_text("utf-8"))["sets"].items():
        source = entry["source"]
        place = (
            f"[{source['repository'].split('//')[1]}]({source['repository']}) at {source['commit']}, `{source['path']}`"
        )
        lines = [f"**{entry['title']}** (`{name}`)", "", f"- source: {place} ({source['date']}; {source['licence']})"]
        predicted = " ".join(f"`{each}`" for each in described_as(entry))
        lines.append(
            f"- measured on: {entry['measured_on']}; predicted on: {predicted}; made smaller by: {entry['reduce']}"
        )
        lines += [f"- {fact}: {entry[fact]}" for fact in facts]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def intervals() -> str:
    """The factors by kind of description and limiter, with whose errors they are."""
    rows = [
        [
            row["kind"], row["limiter"], f"{row['factor']:.2f}", row["basis"] + (" (not validated)" if row["coarser"] else ""),
            row["sets"], row["kernels"], row["series"], row["points"],
        ]
        for row in interval_table()["rows"]
    ]  # fmt: skip
    return table(
        ["description", "bound by", "factor", "from the errors of", "sets", "kernels", "series", "points"],
        rows,
        frozenset((2, 4, 5, 6, 7)),
    )


@cache
def _left_out(name: str) -> list[Judged]:
    return left_out(calibration(load_residuals()), *LEFT_OUT[name][0], rule=settled_rule(interval_table()["rows"]))


def interval_coverage() -> str:
    """How often intervals hold for what they were not made from, and how wide they are: a set, a GPU, both, a limiter
    left out."""
    columns: list[dict[tuple[str, str], Held]] = [
        {(each.kind, each.limiter): each for each in held(_left_out(name), part)}
        for name, (_, part) in LEFT_OUT.items()
    ]
    rows = []
    for key, first in columns[0].items():
        shares = [f"{each[key].inside_parts_percent:.0f} % ({each[key].inside_percent:.0f})" for each in columns]
        rows.append(
            [*key, first.parts, first.points, *shares, f"{columns[2][key].half_width_percent:.0f} %", f"{columns[2][key].score:.0f} %"]
        )  # fmt: skip
    head = [
        "description",
        "bound by",
        "sets",
        "points",
        *(f"{name} left out" for name in LEFT_OUT),
        "half-width",
        "score",
    ]
    return table(head, rows, frozenset(range(2, len(head))))


def how_sure() -> str:
    """A line a limiter and kind of description: what an interval allows, and how often it held with set and GPU left
    out."""
    held_rows = {(each.kind, each.limiter): each for each in held(_left_out("set and GPU"), cell_of)}
    rows = []
    for row in interval_table()["rows"]:
        found = held_rows.get((row["kind"], row["limiter"]))
        rows.append(
            [
                row["limiter"], row["kind"], f"{100 / row['factor'] - 100:.0f} to +{100 * row['factor'] - 100:.0f} %",
                "not validated" if row["coarser"] else f"{row['sets']} sets, {row['points']} points",
                f"{found.inside_parts_percent:.0f} % of {found.parts}" if found else "",
            ]
        )  # fmt: skip
    rows.sort(key=lambda row: CLASSES.index(row[0]))
    return table(
        ["bound by", "description", "a measurement lies within", "known from", "held, set and GPU left out"], rows
    )


def how_sure_projected() -> str:
    """A line an operator: the narrowest and widest factor of its regions on each generation that was measured, and on
    another, which takes one's figures."""
    products, attention, operators, borrowed = map(tile_errors, TILE_ERRORS)
    kinds = {"gemm": products["generations"], "generation": attention["generation"]["generations"], "context": attention["context"]["generations"]}  # fmt: skip
    kinds |= {name: operators[name]["generations"] for name in OPERATOR_REGIONS if name in operators}
    names = ("ampere", "hopper", "blackwell")
    rows = [
        [f"`{kind}`", *(_factors(known.get(name, {})) for name in names), _factors(borrowed["operators"].get(kind, {}))]
        for kind, known in kinds.items()
    ]
    return table(["operator", *names, "another generation"], rows)


def _factors(regions: dict[str, Any]) -> str:
    found = [row["factor"] for row in regions.values() if isinstance(row, dict)]
    return f"{min(found):.2f} to {max(found):.2f}" if found else ""


def interval_sets() -> str:
    """Each set beside the intervals that all others make."""
    return _by_part("set")


def interval_gpus() -> str:
    """Each GPU beside the intervals that all others make."""
    return _by_part("GPU")


def _by_part(name: str) -> str:
    part = LEFT_OUT[name][1]
    rows = [
        [each.part, each.kind, each.points, f"{each.error_percent:.1f} %", f"{each.holds_percent:.1f} %", f"{each.inside_percent:.0f} %"]
        for each in by_part(_left_out(name), part)
    ]  # fmt: skip
    head = [f"{name} left out", "description", "points", "median error", "80 % of them within", "inside"]
    return table(head, rows, frozenset((2, 3, 4, 5)))


def interval_halves() -> str:
    """How often the table's intervals hold for what set nothing of them: final halves of external sets, and curves that
    set the descriptions."""
    residuals = load_residuals()
    made = interval_table()["rows"]
    groups = {
        "final halves of external sets": [row for row in residuals if row.half == FINAL],
        "curves that the descriptions were set from": [row for row in residuals if not row.held_out],
    }
    rows = []
    for name, own in groups.items():
        total = [each for each in held(judged_by(made, own), set_of) if (each.kind, each.limiter) == ("all", "all")]
        rows += [
            [name, each.parts, each.points, f"{each.inside_parts_percent:.0f} % ({each.inside_percent:.0f})"]
            for each in total
        ]
    return table(["rows", "sets", "points", "inside"], rows, frozenset((1, 2, 3)))


def datasheet_errors() -> str:
    """Errors of GPUs described from datasheets alone, beside those of their own descriptions."""
    rows = []
    for line in sheet_errors(load_residuals()):
        series = "**all**" if line.series == "all" else f"`{line.series}`"
        own = "" if line.shipped_percent is None else f"{line.shipped_percent:.1f} %"
        rows.append(
            [
                f"`{line.gpu}`",
                f"`{line.like}`",
                series,
                line.points,
                f"{line.datasheet_percent:.1f} %",
                f"{line.worst_percent:+.0f} %",
                own,
            ]
        )
    head = ["GPU", "described like", "series", "points", "from the datasheet", "worst", "its own description"]
    return table(head, rows, frozenset((3, 4, 5, 6)))


def projection_errors() -> str:
    """A row a GPU and region of rows: errors of projected products, from what tools/tile_gemm.py recorded."""
    recorded = tile_errors("gemm")["regions"]
    rows = [
        [f"`{each['gpu']}`", each["m"], each["shapes"], f"{each['mean_error_percent']:.1f} %",
         f"{each['signed_percent']:+.1f} %", f"{each['within_10_percent']} %", f"{each['frameworks_apart_percent']:.1f} %"]
        for each in recorded
    ]  # fmt: skip
    head = ["GPU", "rows of the result", "shapes", "mean error", "signed", "within 10 %", "apart"]
    return table(head, rows, frozenset({2, 3, 4, 5, 6}))


def attention_errors() -> str:
    """A row a phase, GPU and region: errors of projected attention, from what tools/tile_attention.py recorded; of
    frameworks beside the first one row a phase and GPU."""
    known = tile_errors("attention")
    rows = [
        [phase.replace("_fp8_queries", ", fp8 cache and queries").replace("_fp8", ", fp8 cache").replace("_", ", "), f"`{each['gpu']}`", each["region"], each["shapes"], f"{each['mean_error_percent']:.1f} %",
         f"{each['median_percent']:.1f} %", f"{each['signed_percent']:+.1f} %", f"{each['within_10_percent']} %"]
        for phase in known
        if phase != "about"
        for each in known[phase]["regions"]
        if each["region"] == "all" or not phase.endswith(FRAMEWORKS[1:])
    ]  # fmt: skip
    head = ["phase", "GPU", "keys and values, or queries", "shapes", "mean error", "median", "signed", "within 10 %"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def model_errors() -> str:
    """A row a GPU and metric: errors of projected whole models, from what tools/model_error.py recorded."""
    path = Path(__file__).parents[1] / "traces" / "library" / "model_errors.json"
    names = {
        "output_tokens_per_s_per_gpu": "throughput of a batch",
        "ttft_ms": "time to first token",
        "step_s": "training step",
    }
    rows = [
        [f"`{each['gpu']}`", names[each["metric"]], each["rows"], *_percents(each)]
        for each in json.loads(path.read_text("utf-8"))
    ]  # fmt: skip
    head = ["GPU", "of", "rows", "mean error", "signed", "worst", "inside the interval"]
    return table(head, rows, frozenset({2, 3, 4, 5, 6}))


def serving_errors() -> str:
    """A row a GPU, network and number format: errors of projected servers under full load, from what
    tools/serving_error.py recorded."""
    path = Path(__file__).parents[1] / "traces" / "library" / "serving_errors.json"
    found = json.loads(path.read_text("utf-8"))
    rows = [
        [f"`{each['gpu']}`", f"`{each['model']}`", each["dtype"], each["rows"], *_percents(each)]
        for each in found["by_network"]
    ]
    rows += [[f"`{each['gpu']}`", "all", "", each["rows"], *_percents(each)] for each in found["by_gpu"]]
    head = ["GPU", "network", "weights", "rows", "mean error", "signed", "worst", "inside the interval"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def framework_errors() -> str:
    """A row a framework, source and GPU: errors of what vLLM's and SGLang's clients see, from what
    tools/framework_error.py recorded."""
    path = Path(__file__).parents[1] / "traces" / "library" / "framework_errors.json"
    rows = [
        [each["framework"], each["source"], f"`{each['gpu']}`", each["rows"], *_percents(each)]
        for each in json.loads(path.read_text("utf-8"))["by_source"]
    ]
    head = ["framework", "source", "GPU", "rows", "mean error", "signed", "worst", "inside the interval"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def served_intervals() -> str:
    """A row a cell: what widens intervals of requests and servers, and how many rows that set nothing lie inside, from
    what tools/framework_error.py and tools/serving_error.py recorded."""
    rows = []
    for name, whose in (("serving_errors.json", "TensorRT-LLM"), ("framework_errors.json", "vLLM and SGLang")):
        path = Path(__file__).parents[1] / "traces" / "library" / name
        for each in json.loads(path.read_text("utf-8"))["calibration"]:
            cell = f"all of {whose}" if each["cell"] == "all" else each["cell"]
            factor = "" if each["factor"] is None else f"{each['factor']:.2f}"
            rows.append([cell, each["rows_that_set"], factor, each["rows"], f"{each['inside_interval_percent']} %"])
    return table(
        ["requests and servers of", "rows that set it", "factor", "other rows", "inside"], rows, frozenset({1, 2, 3, 4})
    )


def _percents(each: Mapping[str, Any]) -> list[str]:
    return [
        f"{each['mean_error_percent']:.1f} %",
        f"{each['signed_percent']:+.1f} %",
        f"{each['worst_percent']:+.1f} %",
        f"{each['inside_interval_percent']} %",
    ]


def collective_errors() -> str:
    """A row a library, GPU and range of sizes: errors of projected collectives, from what tools/collective_error.py
    recorded."""
    path = Path(__file__).parents[1] / "gpusim" / "collective" / "errors.json"
    rows = [
        [each["library"], f"`{each['gpu']}`", each["region"], each["rows"], f"{each['mean_error_percent']:.1f} %",
         f"{each['signed_percent']:+.1f} %", f"{each['worst_percent']:+.1f} %", f"{each['within_10_percent']} %"]
        for each in json.loads(path.read_text("utf-8"))["regions"]
    ]  # fmt: skip
    head = ["kernels", "GPU", "message", "rows", "mean error", "signed", "worst", "within 10 %"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def energy_errors() -> str:
    """A row a kind of operator, dtype and side of the power limit: errors of energies, from what tools/energy_error.py
    recorded."""
    recorded = json.loads((Path(__file__).parents[1] / "gpusim" / "energy" / "errors.json").read_text("utf-8"))
    rows = [
        [each["kind"], each["dtype"], each["power"], each["rows"], f"{each['given_latency_percent']:.1f} %",
         f"{each['signed_percent']:+.1f} %", f"{each['median_percent']:.1f} %", f"{each['projected_latency_percent']:.1f} %"]
        for each in recorded["regions"]
    ]  # fmt: skip
    head = ["operator", "dtype", "power", "rows", "given latency", "signed", "median", "projected latency"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def energy_left_out() -> str:
    """A row a reason: what tools/energy_error.py left out of the measured rows."""
    recorded = json.loads((Path(__file__).parents[1] / "gpusim" / "energy" / "errors.json").read_text("utf-8"))
    rows = [[each["kind"], each["rows"], each["of"], each["left_out"]] for each in recorded["left_out"] if each["rows"]]
    return table(["operator", "left out", "of", "reason"], rows, frozenset({1, 2}))


def tile_beside_exact() -> str:
    """A row a program and depth: both levels' cycles, from what tools/tile_beside_exact.py recorded."""
    path = Path(__file__).parents[1] / "traces" / "library" / "tile_beside_exact.json"

    def split(each: dict, level: str) -> str:
        step, beside = each[f"{level}_step_cycles"], each[f"{level}_beside_cycles"]
        return "" if step is None else f"{step:,.0f} and {beside:,}"

    rows = [
        [f"`{each['kernel']}`", f"`{each['gpu']}`", each["shape"], f"{each['exact_cycles']:,}", f"{each['tile_cycles']:,}", f"{each['tile_off_percent']:+.1f} %",
         split(each, "exact"), split(each, "tile")]
        for each in json.loads(path.read_text("utf-8"))
    ]  # fmt: skip
    head = ["kernel", "GPU", "shape", "exact", "tile", "off", "exact: a step, beside", "tile: a step, beside"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7}))


def operator_errors() -> str:
    """A row a kind, GPU and region: errors of the other projected operators, from what tools/tile_operators.py
    recorded."""
    known = tile_errors("operator")
    rows = [
        [kind, f"`{each['gpu']}`", each["region"], each["shapes"], f"{each['mean_error_percent']:.1f} %",
         f"{each['median_percent']:.1f} %", f"{each['signed_percent']:+.1f} %", f"{each['within_10_percent']} %",
         "" if each["others_apart_percent"] is None else f"{each['others_apart_percent']:.0f} %"]
        for kind, kept in known.items()
        for each in kept.get("regions", ())
    ]  # fmt: skip
    head = ["kind", "GPU", "region", "shapes", "mean error", "median", "signed", "within 10 %", "others apart"]
    return table(head, rows, frozenset({3, 4, 5, 6, 7, 8}))


def held_out_operators() -> str:
    """A row an operator and GPU: errors with figures that its generation's rows did not set, from what
    tools/other_figures.py recorded."""
    rows = [
        [each["operator"], f"`{each['gpu']}`", each["figures"], each["shapes"], f"{each['mean_error_percent']:.1f} %", f"{each['signed_percent']:+.1f} %"]
        for each in tile_errors("other_figures")["errors"]
    ]  # fmt: skip
    return table(["operator", "GPU", "figures", "shapes", "mean error", "signed"], rows, frozenset({3, 4, 5}))


TABLES: Mapping[str, Callable[[], str]] = {
    "accuracy": accuracy,
    "published series": held_out,
    "gpus": gpus,
    "external figures": external_figures,
    "external sets": external_sets,
    "intervals": intervals,
    "interval coverage": interval_coverage,
    "how sure": how_sure,
    "how sure projected": how_sure_projected,
    "interval sets": interval_sets,
    "interval gpus": interval_gpus,
    "interval halves": interval_halves,
    "datasheet errors": datasheet_errors,
    "projection errors": projection_errors,
    "operator errors": operator_errors,
    "held-out operators": held_out_operators,
    "attention errors": attention_errors,
    "collective errors": collective_errors,
    "model errors": model_errors,
    "serving errors": serving_errors,
    "framework errors": framework_errors,
    "served intervals": served_intervals,
    "tile beside exact": tile_beside_exact,
    "energy errors": energy_errors,
    "energy rows left out": energy_left_out,
}
