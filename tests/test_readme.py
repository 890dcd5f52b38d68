"""What the README shows is true: its commands run, its example runs, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpusim import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
#: `make test` runs these tests, `make compare` is what continuous integration's reader runs by hand.
MAKE_TARGETS = {"make compare", "make test", "make bench"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


#: Programs that a shown command runs: their first line is the file's name.
NAMED_EXAMPLES = [text for text in blocks("python") if re.match(r"# \w+\.py$", text.split("\n")[0])]


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def test_the_readme_has_commands_an_example_and_real_output() -> None:
    assert {"make compare", "make test"} <= set(commands())
    assert blocks("python")
    assert blocks("text")


def test_every_make_target_that_is_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = {line for line in commands() if line.startswith("make ")}
    assert shown <= MAKE_TARGETS
    assert all(re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE) for line in shown)


def test_every_gpusim_command_that_is_shown_runs(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (*blocks("toml"), *NAMED_EXAMPLES):  # the first line names the file
        (tmp_path / text.split("\n")[0].removeprefix("#").strip()).write_text(text)
    shown = [line for line in commands() if not line.startswith("make ")]
    for line in shown:
        words = shlex.split(line)
        if words[1] == "report" and find_spec("matplotlib") is None:
            continue  # an extra
        assert words[0] == "gpusim", f"{line!r} is neither gpusim nor a make target"
        if words[1] == "run":  # the emulated driver is for a whole process
            command = [sys.executable, "-m", "gpusim.cli", *words[1:]]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            ran = subprocess.run(command, capture_output=True, text=True, env=environment)
            code, out, err = ran.returncode, ran.stdout, ran.stderr
        else:
            code = cli.run(words[1:])
            out, err = capsys.readouterr()
        assert code == 0, f"{line}: {err}"
        assert out.strip(), f"{line} printed nothing"


@pytest.mark.parametrize("example", [text for text in blocks("python") if text not in NAMED_EXAMPLES])
def test_the_python_example_runs(example: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


def test_links_inside_the_repository_lead_somewhere() -> None:
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if "://" not in target:
            assert (ROOT / target).exists(), f"README links to {target}"
