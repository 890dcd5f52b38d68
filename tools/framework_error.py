"""How far projected requests and servers of vLLM, SGLang and llama.cpp are from what was published of them.

    python tools/framework_error.py                     a row a measurement of the learning half, and means
    python tools/framework_error.py --final             rows of the final half
    python tools/framework_error.py --final --record    and keep the means for the pages (traces/library/framework_errors.json), and what widens intervals, which the learning half says (gpusim/project/errors.json)

Rows (traces/library/served_elsewhere.csv; where each comes from is in the README beside it) are in halves by a hash. Lengths are what requests were given, where the source draws them from a range or a set of conversations
the mean. "request_tokens_per_s": tokens that one request generates over its time, prompt included; "output_tokens_per_s": of all requests at once, or so many at a time; "tpot_ms": between two tokens of a sequence; "prompt_tokens_per_s": of a prompt over the
time until its first token. Rows of llama.cpp, one network on many GPUs, are in halves by the GPU.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.bands import products_measured, served_factor
from gpusim.project.plan import LLAMA_CPP, Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.server import as_many_as_fit
from gpusim.project.serving import project_serving
from gpusim.project.whole import project_model
from gpusim.report.tables import FORMATS, format_records
from tools.model_error import BANDS, network, summary
from tools.served_bands import calibration, cells

ROWS = ROOT / "traces" / "library" / "served_elsewhere.csv"
RECORD = ROWS.parent / "framework_errors.json"
#: Sources of a board that is not said and runs at half of what the GPU that they name does (docs/validation/projections/models.md): intervals of that GPU do not follow from them. In the final half they count.
OTHER_BOARDS = ("gpustack-lab-h100",)

_OF_PROMPTS = "prompt_tokens_per_s"


def learns(row: Any) -> bool:
    """Whether constants may be set by the row."""
    key = f"{row.source} {row.gpu} {row.model} {row.dtype} {row.concurrency} {row.sequence} {row.output}"
    if row.framework == LLAMA_CPP:
        key = f"{row.framework} {row.gpu}"
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 0


def projected(row: Any, prices: Prices) -> tuple[float, float, float]:
    """Seconds of what was measured: all of a request or a server's run, or one token; low, high."""
    plan = Plan(
        "request", batch=max(1, row.concurrency), sequence=row.sequence, output=row.output, tensor_parallel=row.tp, dtype=row.dtype, experts_dtype=row.experts_dtype,
        framework=row.framework, engine=row.engine, launch=row.launch,
    )  # fmt: skip
    config = network(row.model)
    if row.metric == _OF_PROMPTS:
        whole = project_model(prices, config, replace(plan, phase="prefill", output=0)).step
    elif row.metric == "request_tokens_per_s" or row.requests == row.concurrency or row.concurrency == 1:
        request = project_request(prices, config, plan)
        whole = request.per_token if row.metric == "tpot_ms" else request.seconds
    else:
        batch = row.concurrency or as_many_as_fit(1)
        served = project_serving(prices, config, _serve(plan, batch), row.requests)
        whole = served.per_token if row.metric == "tpot_ms" else served.seconds
    return whole.seconds, whole.low_seconds, whole.high_seconds


def _serve(plan: Plan, batch: int) -> Plan:
    return replace(plan, phase="serve", batch=batch)


def measured_seconds(row: Any) -> float:
    """Of the same."""
    if row.metric == "tpot_ms":
        return row.measured / 1e3
    if row.metric == _OF_PROMPTS:
        return row.sequence / row.measured
    return (1 if row.metric == "request_tokens_per_s" else row.requests) * row.output / row.measured


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with projected and measured milliseconds; ``error_percent``: positive is too slow."""
    machines: dict[str, Prices] = {}
    found = []
    with task("projecting", len(rows), "rows") as progress:
        row: Any
        for number, row in enumerate(rows.itertuples(index=False)):
            prices = machines.setdefault(str(row.gpu), Prices(load_gpu(str(row.gpu))))
            middle, low, high = projected(row, prices)
            measured = measured_seconds(row)
            found.append(
                {
                    "measured_ms": float(f"{1e3 * measured:.4g}"),
                    "projected_ms": float(f"{1e3 * middle:.4g}"),
                    "error_percent": round(100 * (middle / measured - 1), 1),
                    "inside": bool(low <= measured <= high),
                    "experts": network(row.model).experts is not None,
                    "known": products_measured(prices.spec.generation),
                }
            )
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--final", is_flag=True, help="Rows of the final half.")
@click.option("--source", "sources", multiple=True, help="Rows of this source; may be repeated.")
@click.option("--record", is_flag=True, help="Keep the means for the pages.")
def main(form: str, final: bool, sources: tuple[str, ...], record: bool) -> None:
    """Print the rows and the means."""
    if record and (sources or not final):
        raise click.UsageError("--record keeps the whole final half: give --final and leave --source out")
    rows = pd.read_csv(ROWS, keep_default_na=False)
    learning = pd.Series([learns(row) for row in rows.itertuples(index=False)])
    whole, rows = rows, rows.loc[(learning != final) & (rows["source"].isin(sources) | (not sources))]
    if rows.empty:
        raise click.UsageError("no such rows: see traces/library/served_elsewhere.csv for sources")
    factors: dict[str, Any] = {}
    if record:
        with shown():
            factors = _set_bands(errors(whole.loc[learning & ~whole["source"].isin(OTHER_BOARDS)]))
    with shown():
        found = errors(rows)
    by_source, by_metric = summary(found, "framework", "source", "gpu"), summary(found, "framework", "metric")
    if record:
        write_whole(
            RECORD,
            (
                json.dumps(
                    {"by_source": by_source, "by_metric": by_metric, "calibration": calibration(found, factors)},
                    indent=1,
                )
                + "\n"
            ).encode(),
        )
    columns = ["source", "gpu", "gpus", "model", "dtype", "concurrency", "sequence", "output", "metric", "measured_ms", "projected_ms", "error_percent", "inside"]  # fmt: skip
    click.echo(format_records(found.loc[:, columns].to_dict("records"), form))
    if form in ("table", "md"):
        click.echo("\n" + format_records(by_source, form))
        click.echo("\n" + format_records(by_metric, form))
        if factors:
            click.echo("\n" + format_records(calibration(found, factors), form))


def _set_bands(learning: pd.DataFrame) -> dict[str, Any]:
    """The factors of the frameworks' cells, kept for projections."""
    document = json.loads(BANDS.read_text(encoding="utf-8"))
    factors = cells(learning, sorted(set(learning["framework"])))
    document.setdefault("served", {}).update(factors)
    write_whole(BANDS, (json.dumps(document, indent=1) + "\n").encode())
    served_factor.cache_clear()
    return factors


if __name__ == "__main__":
    main()
