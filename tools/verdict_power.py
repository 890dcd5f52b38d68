"""How often the verdict on two samples of timings is wrong: false alarms of A/A comparisons, slowdowns that are missed.

Run ``python tools/verdict_power.py``; ``--rows measured.jsonl`` draws the noise from recorded samples instead of from
the published sizes in tools/noise.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.compare.error import Verdict
from gpusim.compare.statistics import compare_samples
from gpusim.errors import GpusimError
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.row import SiliconRow
from tools.noise import HELD_OUT_SEED, REGIMES, TUNING_SEED, RecordedNoise, trials


@click.command()
@click.option("--count", default=200, show_default=True, help="Comparisons of each kind and regime.")
@click.option("--slowdown", "slowdowns", multiple=True, default=(0.0, 1.0, 2.0, 3.0, 5.0), help="Percent; 0 is A/A.")
@click.option("--rows", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Rows with raw samples.")
@click.option(
    "--seed",
    default=HELD_OUT_SEED,
    show_default=True,
    help=f"Rules were tuned on {TUNING_SEED} alone; this one was held out.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(count: int, slowdowns: tuple[float, ...], rows: Path | None, seed: int, form: str) -> None:
    """Print, by regime of noise and size of the slowdown, how often each verdict is given: of two runs without and
    with the clock read beside each sample, and of samples taken in turns."""
    regimes = REGIMES
    if rows is not None:
        read = [SiliconRow.from_json(line) for line in rows.read_text("utf-8").splitlines() if line.strip()]
        regimes = (RecordedNoise.of(read),)
    records = []
    for interleaved, clocks in ((False, False), (False, True), (True, True)):
        for slowdown in slowdowns:
            for regime in regimes:
                drawn = trials([regime], count, slowdown_percent=slowdown, interleaved=interleaved, seed=seed)
                verdicts = Counter(
                    compare_samples(
                        t.base_us, t.head_us, interleaved=interleaved, clocks_mhz=t.clocks_mhz if clocks else None
                    ).verdict
                    for t in drawn
                )
                records.append(
                    {
                        "measured": "in turns" if interleaved else "in two runs",
                        "clock": "read" if clocks else "not read",
                        "noise": regime.name,
                        "slowdown_percent": slowdown,
                        **{
                            f"{v.lower()}_percent": 100.0 * verdicts[v] / count
                            for v in (Verdict.SAME, Verdict.SLOWER, Verdict.FASTER, Verdict.AMBIGUOUS)
                        },
                    }
                )
    click.echo(format_records(records, form))


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except GpusimError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
