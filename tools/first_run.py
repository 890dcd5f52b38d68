"""How long a newcomer waits: ``gpusim simulate saxpy`` in a fresh clone, with nothing compiled, and once more.

    python tools/first_run.py [--kernel saxpy] [--repeat 3] [--keep FOLDER]

The committed tree is cloned into a new folder (what is not committed is not measured) and run from there with this
interpreter's packages. Printed are, for the first command and for the best of ``--repeat`` further ones, seconds on the
clock, CPU seconds of the command and of the processes it starts, and for the warm one where they go: importing, and the
rest. Nothing here is a test: the figures depend on the machine and on what else it does, which is printed beside them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
COMMAND = "import sys; from gpusim.cli import main; main(sys.argv[1:])"


def seconds(arguments: list[str], folder: Path) -> tuple[float, float]:
    """(seconds on the clock, CPU seconds of the process and its children) of one Python process in ``folder``."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    environment["PYTHONPATH"] = str(folder)
    environment["GPUSIM_STORE"] = str(folder / "store.sqlite")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"error: {arguments[-1]} ended with exit code {done.returncode}; its message stands above")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(kernel: str, repeat: int, folder: Path) -> None:
    """Clone, run and print."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(clone)], check=True)
    command = ["-c", COMMAND, "simulate", kernel]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    rows = [("first, nothing compiled", *seconds(command, clone))]
    rows.append(("warm, best", *min(seconds(command, clone) for _ in range(repeat))))
    imports = ["-c", "import gpusim.commands.simulating"]
    rows.append(("  of that, importing", *min(seconds(imports, clone) for _ in range(repeat))))
    print(f"{'gpusim simulate ' + kernel:<32} {'wall_s':>8} {'cpu_s':>8}")
    for name, wall, cpu in rows:
        print(f"{name:<32} {wall:>8.1f} {cpu:>8.1f}")


def main() -> None:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="saxpy", help="what to simulate, as gpusim simulate takes it")
    parser.add_argument("--repeat", type=int, default=3, help="warm runs, of which the best counts")
    parser.add_argument("--keep", type=Path, help="an empty folder to clone into, and to leave there")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        measure(options.kernel, max(1, options.repeat), options.keep.resolve())
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(options.kernel, max(1, options.repeat), Path(folder))


if __name__ == "__main__":
    main()
