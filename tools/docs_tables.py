"""The tables of docs/validation and README.md that follow from recorded data: how far the model is from silicon.

Mental model: ``traces/published/model_error.json`` is what ``tools/record_model_error.py`` last wrote (mean errors of each
published series), ``traces/published/manifest.json`` says where the measurements come from and what was fitted to them.
Each function makes one table of Markdown; ``write_docs.py`` puts it into the pages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpusim.gpus.describe import describe_gpu
from gpusim.gpus.load import list_gpus, load_gpu

PUBLISHED = Path(__file__).parents[1] / "traces" / "published"
EXTERNAL = Path(__file__).parents[1] / "traces" / "external"
KINDS = ("datasheet", "measured", "paper", "fitted", "guess")


def table(head: list[str], rows: list[list[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A Markdown table; the columns ``numbers`` are set to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in (head, rule, *rows))


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
        kinds = Counter(value.kind for value in describe_gpu(name))
        capability = "{}.{}".format(*spec.capability)
        rows.append([f"`{name}`", spec.title, capability, spec.sm_count, *(kinds[kind] for kind in KINDS)])
    return table(["GPU", "what it is", "capability", "SMs", *KINDS], rows, frozenset(range(3, 9)))


def external_figures() -> str:
    """Errors, rank correlation and regret of each half of each set that was predicted."""
    head = ["set", "half", "rows", "mean", "signed", "worst", "rank", "regret", "noise"]
    rows = []
    for each in json.loads((EXTERNAL / "results.json").read_text("utf-8"))["summaries"]:
        of = f"{each['rows']} of {each['of_rows']}"
        if not each["rows"]:
            rows.append([f"`{each['set']}`", each["half"], of, *[""] * 6])
            continue
        percents = [
            "" if each[name] is None else form.format(each[name])
            for name, form in (
                ("mape_percent", "{:.1f} %"), ("signed_percent", "{:+.1f} %"), ("worst_percent", "{:+.1f} %"),
                ("rank", "{:.2f}"), ("regret_percent", "{:.1f} %"), ("noise_percent", "{:.1f} %"),
            )
        ]  # fmt: skip
        rows.append([f"`{each['set']}`", each["half"], of, *percents])
    return table(head, rows, frozenset(range(2, 9)))


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
        predicted = " ".join(f"`{each}`" for each in (entry["gpu"], *entry["settings"]))
        lines.append(
            f"- measured on: {entry['measured_on']}; predicted on: {predicted}; made smaller by: {entry['reduce']}"
        )
        lines += [f"- {fact}: {entry[fact]}" for fact in facts]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


TABLES: Mapping[str, Callable[[], str]] = {
    "accuracy": accuracy,
    "published series": held_out,
    "gpus": gpus,
    "external figures": external_figures,
    "external sets": external_sets,
}
