"""Write the tables of README.md and docs/ that come from code and recorded data, each between its two markers.

Mental model: a page says where a table goes and what it is called::

    <!-- written by tools/write_docs.py: NAME -->
    (the table)
    <!-- end: NAME -->

and this program fills it from the function of that name in ``docs_tables.py``, ``docs_summaries.py``,
``docs_reference.py`` or ``docs_suite.py``. Tables that take minutes to measure stand between ``<!-- measured by COMMAND
-->`` and ``<!-- end: measured -->``; they are left as they are unless ``--measure WORD`` runs the commands that contain
WORD again.

    python tools/write_docs.py                     write what has changed
    python tools/write_docs.py --check             exit 1 if something would change (a test runs this)
    python tools/write_docs.py --measure corpus    run that command and put its table in (minutes)
    python tools/write_docs.py --outputs           run the commands whose output pages show (docs_outputs.py)
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from docs_outputs import OUTPUT, printed_again
from docs_reference import REFERENCE
from docs_suite import SUITE
from docs_summaries import SUMMARIES
from docs_tables import TABLES

GENERATORS: Mapping[str, Callable[[], str]] = {**TABLES, **SUMMARIES, **REFERENCE, **SUITE}
WRITTEN = re.compile(r"(<!-- written by tools/write_docs\.py: (.+?) -->\n)(.*?)(<!-- end: \2 -->)", re.DOTALL)
MEASURED = re.compile(r"(<!-- measured by (.+?) -->\n)(.*?)(<!-- end: measured -->)", re.DOTALL)


def pages(root: Path = ROOT) -> list[Path]:
    """README.md and every page under docs/."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """``text`` with what the generators write today; KeyError names a marker that has no generator."""
    return WRITTEN.sub(lambda found: f"{found[1]}\n{GENERATORS[found[2]]().strip()}\n\n{found[4]}", text)


def measured(text: str, word: str) -> str:
    """``text`` with the tables of the commands that contain ``word`` measured again."""

    def run(found: re.Match[str]) -> str:
        if word not in found[2]:
            return found[0]
        print(found[2], file=sys.stderr)
        command = [sys.executable, *shlex.split(found[2])]
        table = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        return f"{found[1]}\n{table.strip()}\n\n{found[4]}"

    return MEASURED.sub(run, text)


def unpaired(text: str) -> int:
    """Markers without their partner: what they enclose would silently grow old."""
    opening = len(re.findall(r"<!-- (?:(?:written|measured) by |output of: )", text))
    pairs = sum(len(each.findall(text)) for each in (WRITTEN, MEASURED, OUTPUT))
    return opening + text.count("<!-- end: ") - 2 * pairs


def _printed(command: str) -> str:
    """What the line prints, whatever it exits with."""
    print(command, file=sys.stderr)
    program, *words = shlex.split(command)
    line = [str(Path(sys.executable).with_name(program)), *words]
    return subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


@click.command(help=__doc__.split("\n")[0] if __doc__ else None)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a page is out of date.")
@click.option("--measure", "word", default="", help="Run the measuring commands that contain this word again.")
@click.option("--outputs", is_flag=True, help="Run the commands whose output pages show again.")
def main(check: bool, word: str, outputs: bool) -> None:
    stale = []
    for page in pages():
        text = page.read_text("utf-8")
        name = str(page.relative_to(ROOT))
        if unpaired(text):
            raise click.ClickException(f"{name}: a marker has no partner of the same name")
        new = filled(measured(text, word) if word else text)
        new = printed_again(new, _printed) if outputs else new
        if new != text:
            stale.append(name)
            if not check:
                page.write_text(new, "utf-8")
    for name in stale:
        print(f"{name}: {'is out of date; run python tools/write_docs.py' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
