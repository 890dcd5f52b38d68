"""``gpusim watch``: performance over a history of commits, GPUs and toolchains; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option
from gpusim.errors import UsageError


@click.group(context_settings=HELP)
def watch() -> None:
    """Performance over a history: which commit, toolchain or method changed it, and by how much.

    \b
    Example:
      gpusim watch changes history.csv
    """


@watch.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--plan", metavar="NAME", help="In place of FILE: what the store holds of this plan.")
@click.option("--measured", is_flag=True, help="The values of FILE have noise: what it explains is no change.")
@click.option("--unit", default="", metavar="UNIT", help="Of FILE's values; us says how noisy launches so short are.")
@click.option(
    "--expect",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --plan: changes that were agreed on.  [default: those of the plan's last run]",
)
@click.option("--no-alerts", is_flag=True, help="With --plan: list, and leave the alerts of the store as they are.")
@format_option()
@done_by("watching")
def changes(
    file: Path | None, plan: str | None, measured: bool, unit: str, expect: Path | None, no_alerts: bool, form: str
) -> None:
    """List every change in the histories of a plan, or of FILE, a CSV with a row a point, oldest first.

    Columns of FILE: commit and value (empty where a commit gave none); optional series, cubin (hash of the machine code), and the
    method: toolchain, gpu_hash, model, gpusim, driver, host, device, clock, timer. A change of method is named as the cause instead
    of the commit. Changes of one cause have one alert's number. Simulated values repeat exactly, so every difference counts.
    Measured ones have noise: a change has a confidence and the commits in which it may lie (candidates), and is a
    step, a drift, or another share of the points in one of two modes. Those of a plan are kept as alerts: gpusim alerts list.

    \b
    Examples:
      gpusim watch changes history.csv
      gpusim watch changes times.csv --measured --unit us
      gpusim watch changes history.csv --format json
      gpusim watch changes --plan nightly
    """
    if (file is None) == (plan is None):
        raise UsageError("give a FILE or --plan NAME, one of them")
    if file is None and (measured or unit):
        raise UsageError("--measured and --unit are of a FILE; a plan knows what its values are")
    if plan is None and (expect or no_alerts):
        raise UsageError("--expect and --no-alerts are for --plan NAME: a file has no alerts")


@watch.command()
@click.argument("plan", required=False, default="gpusim-watch.toml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", default="nightly", show_default=True, help="What its history is to be filed under.")
@done_by("watch_plans")
def init(plan: Path, name: str) -> None:
    """Write a PLAN to begin with, each key with what it means.

    \b
    Examples:
      gpusim watch init
      gpusim watch init ci/kernels.toml --name kernels
    """
    if plan.exists():
        raise UsageError(f"{plan} is there already; nothing was written")


@watch.command()
@click.argument("plan", default="gpusim-watch.toml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--commit", default="HEAD", show_default=True, metavar="REV", help="The newest commit to run.")
@click.option("--since", metavar="REV", help="Also the commits of its first-parent line after this one.")
@click.option("--newest", type=click.IntRange(min=1), metavar="N", help="Of these only the newest N.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes at a time.  [default: the cores]")
@click.option("--dask", metavar="ADDRESS", help="Run the cells on the Dask cluster of this scheduler (gpusim[dask]).")
@format_option()
@done_by("watch_plans")
def run(
    plan: Path, commit: str, since: str | None, newest: int | None, jobs: int | None, dask: str | None, form: str
) -> None:
    """Give every cell of PLAN (case, GPU, toolchain) its value at a commit, and keep it in the store.

    What is kept already is left out, so that a run that was killed goes on where it stood. Exit codes: 0, 1 a case that has no
    value (it does not compile, its result is wrong), 3 nothing could be run, or another run of this plan is under way.

    \b
    Examples:
      gpusim watch run
      gpusim watch run ci/kernels.toml --since v1.2 --jobs 2
      gpusim watch run --commit 1a2b3c4 --format json
      gpusim watch run --since HEAD~20 --dask tcp://scheduler:8786
    """
    if not plan.is_file():
        raise UsageError(f"there is no plan {plan}; gpusim watch init writes one")


@watch.command()
@click.argument("plan", required=False, metavar="[NAME]")
@click.option(
    "--newest", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Commits to show."
)
@format_option()
@done_by("watch_plans")
def status(plan: str | None, newest: int, form: str) -> None:
    """What the store holds of the plan NAME: its newest commits, how many of their cells have values, and which have none and why.

    \b
    Examples:
      gpusim watch status
      gpusim watch status nightly --format json
    """


@watch.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@done_by("serving")
def export(folder: Path) -> None:
    """Write the pages of `gpusim serve` into FOLDER as files that need no server; an earlier export there is replaced in one step.

    \b
    Examples:
      gpusim watch export site
    """


@watch.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(("reader", "editor")), default="reader", show_default=True, help="What it allows."
)
@click.option(
    "--tokens", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE", help="Made if need be."
)
@click.option("--revoke", is_flag=True, help="Take the token of NAME away instead.")
@done_by("serving")
def token(name: str, role: str, tokens: Path, revoke: bool) -> None:
    """Make a token for NAME, which `gpusim serve --tokens FILE` then knows. It is printed once; FILE keeps its hash.

    \b
    Examples:
      gpusim watch token ada --role editor --tokens tokens.json
      gpusim watch token ada --revoke --tokens tokens.json
    """


@watch.command()
@click.argument("service", type=click.Choice(("github", "gitlab")))
@click.argument("plan", default="gpusim-watch.toml", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--install",
    required=True,
    metavar="PACKAGE",
    help="What pip is to install there: a requirement, a wheel's or a git+https:// address.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: what the service reads]"
)
@done_by("watch_plans")
def ci(service: str, plan: Path, install: str, output: Path | None) -> None:
    """Write a pipeline for SERVICE that runs PLAN every night, keeps its store, and fails while an alert waits for somebody.

    For github .github/workflows/gpusim-watch.yml, for gitlab gpusim-watch.gitlab-ci.yml, in the plan's repository.

    \b
    Examples:
      gpusim watch ci github --install "git+https://example.org/gpusim.git"
      gpusim watch ci gitlab ci/kernels.toml --install gpusim==0.1.0
    """
    if not plan.is_file():
        raise UsageError(f"there is no plan {plan}; gpusim watch init writes one")
    if output is not None and output.exists():
        raise UsageError(f"{output} is there already; nothing was written")
