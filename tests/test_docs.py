"""What README and docs show is true: commands run, examples run, links lead somewhere, written tables are up to date.

Mental model: pages are read in the navigation's order and share one folder, as a reader's shell would. Blocks marked
``sh`` are run line by line; ``python``, ``toml`` and ``cuda`` blocks whose first line is a file's name are written
there, other ``python`` blocks are run as programs; ``text`` blocks are output. A line that ends in ``# exit code N``
must exit with N. What an earlier page has run is not run again.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import docs_outputs
import pytest
import write_docs
from forked_commands import gpusim as forked

from gpusim import cli

ROOT = Path(__file__).parents[1]
NAVIGATION = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1])
#: Pages whose examples need a package that an extra brings.
EXTRAS = {"docs/how-to/triton.md": "triton"}
PAGES = {"README.md": ROOT / "README.md", **{f"docs/{name}": ROOT / "docs" / name for name in NAVIGATION}}
#: Commands that share out their work over processes, which other tests ask for: here they run in this one.
WITH_JOBS = {"compare", "explore"}
#: Pages whose commands run at night only: what they show is asked of the same commands by tests of their own, and takes
#: a third of all pages' time.
AT_NIGHT = {"docs/how-to/explore.md", "docs/how-to/production.md", "docs/how-to/project.md", "docs/how-to/project-models.md", "docs/how-to/replay.md", "docs/how-to/run-a-program.md", "docs/how-to/triton.md", "docs/tutorial/exploring.md"}  # fmt: skip
#: `make test` runs these tests; the others are for readers.
MAKE_TARGETS = {"make compare", "make test", "make check", "make docs", "make bench", "make setup"}
FILE_NAME = re.compile(r"(?:#|//) ([\w.-]+\.(?:py|toml|cu))$")
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page].read_text(), re.MULTILINE | re.DOTALL)


def named(text: str) -> str:
    """The file that a block is, by its first line; empty if it is none."""
    found = FILE_NAME.match(text.split("\n")[0])
    return found[1] if found else ""


def commands(page: str) -> list[tuple[str, int]]:
    """The command lines that a page shows, each with the exit code that it says."""
    shown = []
    for line in (line for block in blocks(page, "sh") for line in block.splitlines()):
        code = EXIT_CODE.search(line)
        if line.split("  #")[0].strip():
            shown.append((line.split("  #")[0].strip(), int(code[1]) if code else 0))
    return shown


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """The reader's folder, and what has been run in it."""
    return tmp_path_factory.mktemp("reader"), set()


def skip_without_extra(page: str) -> None:
    if page in EXTRAS and find_spec(EXTRAS[page]) is None:
        pytest.skip(f"{page} needs the package {EXTRAS[page]}, which is not installed")


def run_in_process(words: list[str], folder: Path) -> tuple[int, str, str]:
    """``gpusim run``, which emulates the driver for a whole process."""
    ran = forked(*words[1:], cwd=folder)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.nightly if page in AT_NIGHT else ()) for page in PAGES if commands(page)],
)
def test_every_command_that_is_shown_runs(
    page: str, reader: tuple[Path, set[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_extra(page)
    folder, done = reader
    monkeypatch.chdir(folder)
    for text in (block for language in ("toml", "python", "cuda") for block in blocks(page, language)):
        if named(text):
            (folder / named(text)).write_text(text)
    for line, expected in commands(page):
        words = shlex.split(line)
        extra = words[1] == "report" and find_spec("matplotlib") is None
        if line in done or extra or words[0] == "make":
            continue
        assert words[0] == "gpusim", f"{line!r} is neither gpusim nor a make target"
        if words[1] == "run":
            code, out, err = run_in_process(words, folder)
        else:
            code = cli.run([*words[1:], *(["--jobs", "1"] if words[1] in WITH_JOBS and "--jobs" not in words else [])])
            out, err = capsys.readouterr()
        assert code == expected, f"{line}: {err}"
        for block in docs_outputs.stale(PAGES[page].read_text(), line, out):
            pytest.fail(f"{page} shows another output (python tools/write_docs.py --outputs):\n{block}\n{out}")
        assert out.strip() or "--check" in words, f"{line} printed nothing"  # a check without findings has no data
        done.add(line)


@pytest.mark.parametrize("page", [page for page in PAGES if not all(map(named, blocks(page, "python")))])
def test_every_python_example_runs(
    page: str, reader: tuple[Path, set[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_extra(page)
    folder, done = reader
    for number, text in enumerate(blocks(page, "python")):
        if named(text) or text in done:
            continue
        script = folder / f"example_{number}.py"
        script.write_text(text)
        runpy.run_path(str(script), run_name="__main__")
        out = capsys.readouterr().out
        assert out.strip()
        if page == "README.md":
            assert out in blocks(page, "text"), f"README.md shows another output than {out}"
        done.add(text)


def test_the_readme_has_commands_an_example_and_real_output() -> None:
    assert {"make compare", "make test"} <= {line for line, _ in commands("README.md")}
    assert blocks("README.md", "python") and blocks("README.md", "text")


def test_every_make_target_that_is_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = {line for page in PAGES for line, _ in commands(page) if line.startswith("make ")}
    assert shown <= MAKE_TARGETS
    assert all(re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE) for line in MAKE_TARGETS)


def test_tools_and_files_that_are_named_exist() -> None:
    for page, path in PAGES.items():
        for name in re.findall(
            r"(?<![\w/.-])(?:tools|tests|gpusim|traces|kernels|workloads)/[\w/]+\.\w+", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{page} names {name}"


def test_written_tables_are_up_to_date() -> None:
    """``python tools/write_docs.py`` writes them; ``make docs`` runs it."""
    for page in write_docs.pages():
        text = page.read_text("utf-8")
        assert write_docs.unpaired(text) == 0, f"{page}: a marker has no partner"
        assert write_docs.filled(text) == text, f"{page} is out of date: run python tools/write_docs.py"


def test_a_marker_without_a_partner_is_seen() -> None:
    opening, end = "<!-- written by tools/write_docs.py: gpus -->\n", "<!-- end: gpus -->"
    assert write_docs.unpaired(opening + end) == 0
    assert write_docs.unpaired(opening) == write_docs.unpaired(end) == 1
    assert write_docs.unpaired(opening + "<!-- end: gpu -->") == 2


def test_an_output_is_held_against_what_was_printed_and_may_be_shortened() -> None:
    page = "<!-- output of: gpusim x; lines 1, 3-4 -->\nold\n<!-- end: output -->\n"
    shown = docs_outputs.printed_again(page, lambda _: "a\nb\nc  \nd\ne\n")
    assert "\n```text\na\n...\nc\nd\n...\n```\n" in shown and write_docs.unpaired(shown) == 0
    assert not list(docs_outputs.stale(shown, "gpusim x", "a\nother\nc\nd\nlast\n"))
    assert list(docs_outputs.stale(shown, "gpusim x", "a\nb\nC\nd\ne\n"))
    with pytest.raises(ValueError, match="lines 3-4 are not behind line 1 of 3"):
        docs_outputs.printed_again(page, lambda _: "a\nb\nc\n")


def test_every_page_is_in_the_navigation() -> None:
    found = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert found == set(NAVIGATION)


@pytest.mark.nightly
def test_the_documentation_builds_strictly(tmp_path: Path) -> None:
    """As ``make docs`` does, and ``make check`` has it run: broken links, missing anchors and pages outside the
    navigation are errors. With ``--quiet`` mkdocs does not count the warnings that make ``--strict`` fail."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install 'gpusim[docs]'")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr
    api = (tmp_path / "site" / "reference" / "api.html").read_text("utf-8")
    assert 'id="gpusim.capture"' in api and ":func:" not in api and ":class:" not in api


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_inside_the_repository_lead_somewhere(page: str) -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (ROOT / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_every_row_of_a_table_has_the_columns_of_its_heading(page: str) -> None:
    """A cell too many is dropped by the renderer, one too few leaves its neighbours under the wrong heading."""
    prose = re.sub(r"^```.*?^```", "", PAGES[page].read_text(), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE):
        rows = [re.sub(r"`[^`]*`", "", row).replace("\\|", "") for row in table.splitlines()]
        wrong = [row for row in rows if row.count("|") != rows[0].count("|")]
        assert not wrong, f"{page}: {wrong[0][:120]}"


def test_the_readme_is_short() -> None:
    """One screen and a half."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
