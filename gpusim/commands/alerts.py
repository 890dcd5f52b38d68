"""``gpusim alerts``: what changed for the worse, whose it is, and what became of it; how it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError

#: As in :mod:`gpusim.watch.alerts.record` and :mod:`gpusim.watch.alerts.exports`, which load the store's library.
STATES = ("open", "triaged", "bisected", "fixed", "verified")
VERDICTS = ("real", "method", "hardware", "noise", "accepted")
FORMS = ("github", "gitlab", "junit", "md", "sarif", "json")
URL, SECRET = "GPUSIM_WEBHOOK_URL", "GPUSIM_WEBHOOK_SECRET"


def as_option() -> Callable:
    """``--as NAME``: who does it."""
    return click.option("--as", "who", metavar="NAME", help="Who does it.  [default: this user]")


@click.group(context_settings=HELP)
def alerts() -> None:
    """What changed for the worse in the histories of `gpusim watch`, whose it is, and what became of it.

    An alert is one cause (a commit, a compiler, a GPU description), however many series moved. `gpusim watch run` opens it, verifies it when
    later runs show the old level, and opens it again when the slowdown returns.

    \b
    Examples:
      gpusim alerts list
      gpusim alerts show 3
      gpusim alerts state 3 triaged --verdict real
    """


@alerts.command("list")
@click.option("--plan", metavar="NAME", help="Only of this plan.")
@click.option(
    "--state", "states", type=click.Choice(STATES), multiple=True, help="Only in this state; may be repeated."
)
@click.option("--owner", help="Only whose owner this is.")
@click.option("--all", "every", is_flag=True, help="Also what is settled: verified, accepted, noise and the like.")
@click.option("--improvements", is_flag=True, help="Also what got faster.")
@click.option("--check", is_flag=True, help="Exit code 1 where any is listed.")
@format_option()
@done_by("alerting")
def list_(
    plan: str | None,
    states: tuple[str, ...],
    owner: str | None,
    every: bool,
    improvements: bool,
    check: bool,
    form: str,
) -> None:
    """List the alerts that wait for somebody, newest first.

    \b
    Examples:
      gpusim alerts list --owner @attention-team
      gpusim alerts list --state verified --format json
      gpusim alerts list --plan nightly --check
    """


@alerts.command()
@click.argument("number", type=click.IntRange(1))
@format_option()
@done_by("alerting")
def show(number: int, form: str) -> None:
    """Print alert NUMBER: what it says, the series that moved, where the cycles went, and all that was done about it.

    \b
    Examples:
      gpusim alerts show 3
      gpusim alerts show 3 --format json
    """


@alerts.command()
@click.argument("number", type=click.IntRange(1))
@click.argument("owner")
@click.option("--anyone", is_flag=True, help="Also somebody whom no rule of the plan names.")
@as_option()
@done_by("alerting")
def assign(number: int, owner: str, anyone: bool, who: str | None) -> None:
    """Give alert NUMBER to OWNER; '' takes it from everybody.

    \b
    Example:
      gpusim alerts assign 3 @attention-team
    """


@alerts.command()
@click.argument("number", type=click.IntRange(1))
@click.argument("state", type=click.Choice(STATES))
@click.option("--verdict", type=click.Choice(VERDICTS), help="With triaged: what it was found to be.")
@click.option("--reason", default="", help="Why; with accepted, who agreed to what.")
@click.option("--until", default="", metavar="YYYY-MM-DD", help="With accepted: its last day.")
@as_option()
@done_by("alerting")
def state(number: int, state: str, verdict: str | None, reason: str, until: str, who: str | None) -> None:
    """Bring alert NUMBER to STATE: triaged (with a verdict), bisected, fixed, or open again. Runs alone say verified.

    \b
    Examples:
      gpusim alerts state 3 triaged --verdict real
      gpusim alerts state 3 triaged --verdict accepted --reason "exact exp, agreed by Ada" --until 2027-03-31
      gpusim alerts state 3 fixed --reason "reverted in 1a2b3c4"
      gpusim alerts state 3 open
    """


@alerts.command()
@click.argument("number", type=click.IntRange(1))
@click.argument("text")
@as_option()
@done_by("alerting")
def note(number: int, text: str, who: str | None) -> None:
    """Keep TEXT beside alert NUMBER.

    \b
    Example:
      gpusim alerts note 3 "waits for the review of the revert"
    """


@alerts.command()
@click.argument("number", type=click.IntRange(1))
@click.argument("how", type=click.Choice(("fixed", *VERDICTS[1:])))
@click.option("--reason", required=True, help="Why nobody has anything more to do.")
@click.option("--until", default="", metavar="YYYY-MM-DD", help="With accepted: its last day.")
@as_option()
@done_by("alerting")
def close(number: int, how: str, reason: str, until: str, who: str | None) -> None:
    """Close alert NUMBER: fixed (later runs verify it, or it stays), or triaged as method, hardware, noise or accepted.

    \b
    Examples:
      gpusim alerts close 3 noise --reason "two clocks on that host"
      gpusim alerts close 3 accepted --reason "exact exp, agreed by Ada" --until 2027-03-31
    """


@alerts.command()
@click.argument("numbers", type=click.IntRange(1), nargs=-1, metavar="[NUMBER]...")
@click.option("--format", "form", type=click.Choice(FORMS), required=True, help="What is to read it.")
@click.option("--plan", metavar="NAME", help="Without NUMBERs: only of this plan.")
@click.option("--all", "every", is_flag=True, help="Without NUMBERs: also what is settled.")
@click.option("--title", is_flag=True, help="Of an issue: its title alone.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else stdout.")
@done_by("alerting")
def export(
    numbers: tuple[int, ...], form: str, plan: str | None, every: bool, title: bool, output: Path | None
) -> None:
    """Write alerts as the text of an issue (github, gitlab: one NUMBER), JUnit XML, Markdown, SARIF 2.1.0 or JSON.

    \b
    Examples:
      gpusim alerts export --format junit -o alerts.xml
      gpusim alerts export --format sarif -o alerts.sarif
      gpusim alerts export 3 --format github -o issue.md
      gpusim alerts export 3 --format github --title
    """
    if form in ("github", "gitlab") and len(numbers) != 1:
        raise UsageError(f"an issue is of one alert: gpusim alerts export NUMBER --format {form}")
    if title and form not in ("github", "gitlab"):
        raise UsageError(f"--title is for github and gitlab, not for {form}")
    if numbers and (plan or every):
        raise UsageError("give NUMBERs, or --plan and --all, not both")
    if output is not None:
        refuse_no_place(output)


@alerts.command()
@click.option("--url", envvar=URL, metavar="URL", help=f"Where to.  [default: {URL}]")
@click.option("--plan", metavar="NAME", help="Only of this plan.")
@click.option("--improvements", is_flag=True, help="Also of what got faster.")
@click.option("--again", is_flag=True, help="Also what was refused, and what waits for its time.")
@format_option()
@done_by("alerting")
def send(url: str | None, plan: str | None, improvements: bool, again: bool, form: str) -> None:
    """POST every change of an alert, as JSON, to a webhook that has not been told of it.

    What it does not take waits in the store, in order, for the next call. GPUSIM_WEBHOOK_SECRET signs. Exit codes: 0, 3 something waits
    or was refused.

    \b
    Examples:
      gpusim alerts send --url https://hooks.example.org/gpusim
      gpusim alerts send --plan nightly --again
    """
    if not url:
        raise UsageError(f"where to? give --url, or set {URL}")
