"""How far projected requests and servers of vLLM, SGLang and llama.cpp are from what was published of them.

    python tools/framework_error.py                     a row a measurement of the learning half, and means
    python tools/framework_error.py --final             rows of the final half
    python tools/framework_error.py --final --record    and keep the means for the pages (traces/library/framework_errors.json), and what widens intervals, which the learning half says (gpusim/project/errors.json)

Rows (traces/library/served_elsewhere.csv; where each comes from is in the README beside it) are in halves by a hash.
Lengths are what requests were given, where the source draws them from a range or a set of conversations the mean.
"request_tokens_per_s": tokens that one request generates over its time, prompt included; "output_tokens_per_s": of all
requests at once, or so many at a time; "tpot_ms": between two tokens of a sequence; "prompt_tokens_per_s": of a prompt
over the time until its first token. Rows of llama.cpp, one network on many GPUs, are in halves by the GPU.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.bands import products_measured, served_factor, widened
from gpusim.project.frameworks import framework_of, pages_held
from gpusim.project.part import Interval
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
#: Sources of a board that is not said and runs at half of what the GPU that they name does
#: (docs/validation/projections/models.md): intervals of that GPU do not follow from them. In the final half they count.
OTHER_BOARDS = ("gpustack-lab-h100",)

_OF_PROMPTS = "prompt_tokens_per_s"


@dataclass(frozen=True)
class Conversations:
    """What a source sends that draws prompts and answers from conversations: ``prompt`` tokens in the mean, whose
    logarithm spreads by ``spread``; of those that a sequence in progress has generated the mean, in shares of an
    answer's mean (long answers are in progress for longer: half of 1 + cv^2); ``sampling``: as its client asks for."""

    prompt: int
    spread: float
    generated_share: float
    sampling: str


#: ML.ENERGY (ml-energy/benchmark, mlenergy/llm/datasets.py, run.py): lmarena-ai/arena-human-preference-100k, each turn
#: with all turns before it; prompts' lengths are not published: 275 from what the arena's paper says of turns, prompts
#: and answers, 340 and their spread from how much longer than the median the 90th to 99th of a hundred steps take;
#: answers' lengths are (cv 0.96 to 0.98). Its client asks for top_p 0.95 at temperature 0.8.
CONVERSATIONS = {"ml-energy": Conversations(300, 1.18, 0.97, "top")}

#: SGLang's sources whose version draws the most probable token by a sort, too (0.2,
#: sglang/srt/managers/schedule_batch.py: _top_p_top_k).
SORTED = ("sglang-1008",)


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
    if row.source in SORTED:
        plan = replace(plan, sampling="top")
    known = CONVERSATIONS.get(row.source)
    if known is not None:
        return _of_conversations(row, prices, plan, known)
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


def _of_conversations(row: Any, prices: Prices, plan: Plan, known: Conversations) -> tuple[float, float, float]:
    """Seconds between two tokens in a server that is never without requests, low, high: the median step, in which
    others' prompts begin where that is more likely than not."""
    config, count = network(row.model), row.concurrency
    keys = known.prompt + round(known.generated_share * row.output)
    groups = [(count, 1, keys)]
    none = math.exp(-count / row.output)
    if none < 0.5:  # the median step begins a prompt, one of the shorter
        place = (0.5 - none) / (none * count / row.output)
        begun = round(known.prompt * math.exp(known.spread * NormalDist().inv_cdf(place) - known.spread**2 / 2))
        groups.append((1, begun, begun))
    step = replace(
        plan, phase="mixed" if groups[1:] else "decode", batch=sum(group[0] for group in groups), sequence=keys, output=0, groups=tuple(groups), sampling=known.sampling,
    )  # fmt: skip
    found = project_model(prices, config, step)
    held = pages_held(groups, plan.page_tokens), plan.tensor_parallel > 1
    waited = framework_of(plan).step_of(found.step.seconds, count, prices.spec.name, found.launch_seconds, *held)
    share = waited / found.step.seconds
    whole = Interval(waited, share * found.step.low_seconds, share * found.step.high_seconds, found.step.validated)
    factor = served_factor(plan.framework, config.experts is not None, prices.spec.generation)
    whole = widened(whole, factor)
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
                    "generation": prices.spec.generation,
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
