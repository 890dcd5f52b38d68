"""Install gpusim as a stranger would: build its sdist and wheel, and try both in empty environments.

    python tools/install_check.py                             with each Python 3.11 to 3.14 that is found
    python tools/install_check.py --python /opt/py/bin/python3.13 --from sdist
    python tools/install_check.py --sizes                     and what the installed packages weigh

Each environment is new, lies outside the repository, and gets gpusim with its dependencies and nothing else. Then
``gpusim --version``, ``gpusim gpus list``, ``gpusim simulate saxpy`` and the replay of a recorded trace must succeed in
an empty folder. One row an environment; exit code 1 if one fails. The packages come from the index that pip is
configured for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from tabulate import tabulate

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
#: What is tried in an empty folder; the trace is one that gpusim brings.
COMMANDS = (["--version"], ["gpus", "list"], ["simulate", "saxpy", "--gpu", "h200"], ["simulate", "TRACE"])
#: MB of each distribution, and where gpusim keeps its recorded traces, as the environment's own Python knows them.
_MEASURE = """
import importlib.metadata as m, json, pathlib, gpusim.traces
sizes = {d.metadata["Name"]: sum(p.stat().st_size for f in d.files or () if (p := pathlib.Path(d.locate_file(f))).is_file())
         for d in m.distributions()}
traces = sorted(next(iter(gpusim.traces.__path__)) and pathlib.Path(next(iter(gpusim.traces.__path__))).glob("recorded/*.trace"))
print(json.dumps([sizes, str(next(t for t in traces if "h200" in t.name))]))
"""


def find_pythons() -> dict[str, str]:
    """Version -> interpreter, of those on PATH or under pyenv that can make a virtual environment."""
    found = {}
    for version in VERSIONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for candidate in (*map(str, kept), shutil.which(f"python{version}")):
            if candidate and _runs(
                candidate, "import sys, venv; assert '%d.%d' % sys.version_info[:2] == " + repr(version)
            ):
                found[version] = candidate
                break
    return found


def _runs(python: str, code: str) -> bool:
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def build(into: Path) -> dict[str, Path]:
    """Build sdist and wheel of the repository, from a copy: "sdist" and "wheel" -> file. Raises CalledProcessError."""
    source = into / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    dist = into / "dist"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(source)]
    subprocess.run(command, check=True, capture_output=True)  # the wheel is built from the sdist
    return {"sdist": next(dist.glob("*.tar.gz")), "wheel": next(dist.glob("*.whl"))}


def try_install(python: str, package: Path, folder: Path) -> tuple[str, dict[str, float]]:
    """("ok" or what failed, MB of each distribution) of ``package`` in a new environment of ``python`` in
    ``folder``."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    home = folder / "home"
    home.mkdir(parents=True)
    environment["GPUSIM_STORE"] = str(home / "store.sqlite")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)

    inside = folder / "venv" / "bin"
    for step in (
        (python, "-m", "venv", str(folder / "venv")),
        (str(inside / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package)),
    ):
        done = run(*step)
        if done.returncode:
            return f"{' '.join(step[1:4])}: {_last(done.stderr)}", {}
    measured = run(str(inside / "python"), "-c", _MEASURE)
    if measured.returncode:
        return f"import: {_last(measured.stderr)}", {}
    sizes, trace = json.loads(measured.stdout)
    for words in COMMANDS:
        words = [trace if word == "TRACE" else word for word in words]
        done = run(str(inside / "gpusim"), *words)
        if done.returncode or not done.stdout.strip():
            return f"gpusim {words[0]} exited with {done.returncode}: {_last(done.stderr)}", {}
    return "ok", {name: size / 1e6 for name, size in sizes.items()}


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--python", "pythons", multiple=True, help="An interpreter to try; default: all of 3.11 to 3.14 found.")
@click.option("--from", "kind", type=click.Choice(["wheel", "sdist"]), default="wheel", show_default=True)
@click.option("--sizes", is_flag=True, help="List what was installed by size, those above 5 MB.")
def main(pythons: tuple[str, ...], kind: str, sizes: bool) -> None:
    """Build gpusim and try it in empty environments."""
    chosen = {python: python for python in pythons} or find_pythons()
    rows, heavy = [], {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        package = build(Path(scratch))[kind]
        for number, (name, python) in enumerate(chosen.items()):
            click.echo(f"trying {package.name} with {python}", err=True)
            said, megabytes = try_install(python, package, Path(scratch) / str(number))
            rows.append((name, kind, said, round(sum(megabytes.values())) or ""))
            heavy = megabytes or heavy
    for version in VERSIONS if not pythons else ():
        if version not in chosen:
            rows.append((version, kind, "not tried: no such Python here", ""))
    click.echo(tabulate(rows, ("python", "from", "result", "installed_MB"), tablefmt="github"))
    if sizes:
        large = sorted(((mb, name) for name, mb in heavy.items() if mb > 5), reverse=True)
        click.echo(
            "\n" + tabulate([(name, round(mb)) for mb, name in large], ("distribution", "MB"), tablefmt="github")
        )
    failed = [row for row in rows if row[2] != "ok" and not str(row[2]).startswith("not tried")]
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main()
