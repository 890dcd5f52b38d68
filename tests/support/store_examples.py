"""Material for tests of the store: runs made by hand, and a PostgreSQL server of one's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store import Instruction, SimulatedLaunch

START_SECONDS = 60.0


def example_launch(index: int = 0, cycles: int = 1000, text: str = "LDG.E R2, [R4.64]") -> SimulatedLaunch:
    """A launch of two instructions whose warp-cycles add up."""
    instructions = (
        Instruction(0, "k.py", 7, text, {"selected": 4, "long_scoreboard": 90}, {"l1tex__t_sectors.sum": 16}),
        Instruction(16, "", 0, "EXIT", {"selected": 4}, {}),
    )
    return SimulatedLaunch(
        kernel="k\u00e9rnel",
        shape="n=64",
        launch=index,
        function="kernel",
        gpu="h200",
        gpu_hash="a" * 64,
        cubin_hash="b" * 64,
        trace_hash="c" * 64,
        cycles=cycles,
        clock_hz=1.98e9,
        grid=(2, 1, 1),
        block=(64, 2, 1),
        registers_per_thread=16,
        shared_bytes=128,
        stalls={"selected": 8, "long_scoreboard": 90},
        counters={"sm__cycles_elapsed.max": float(cycles), "dram__bytes_read.sum": 0.5},
        least_cycles={"issue": 2.5},
        instructions=instructions,
        source=(("k.py", 7, "y[i] = x[i]  # né"),),
    )


def example_row(index: int = 0) -> SiliconRow:
    """A measurement with something in each kind of field."""
    return SiliconRow(
        "kernel", "n=64", launch=index, grid=(2, 1, 1), gpu="h200", method="events", cache="warm", n=3,
        time_us=Estimate(2.0, 1.9, 2.2), samples_us=(2.0, 1.9, 2.2), counters={"a.sum": 1.5}, flags=("clock_drift",),
    )  # fmt: skip


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a new, empty PostgreSQL server, stopped and removed afterwards; skips where none can be had."""
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed: pip install 'gpusim[postgres]'")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    search = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    programs = {name: shutil.which(name, path=search) for name in ("initdb", "postgres", "pg_isready")}
    if not programs["initdb"] or not programs["postgres"]:
        pytest.skip("no PostgreSQL server on this machine (initdb and postgres are not on PATH)")
    # The server refuses to run as root, and pytest's folders are closed to others.
    account = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="gpusim-pg-", dir="/tmp"))
    environment = {"PATH": search, "LC_ALL": "C", "HOME": str(home)}
    server = None
    try:
        if account:
            try:
                shutil.chown(home, account["user"], account["group"])
            except LookupError as error:
                pytest.skip(f"PostgreSQL refuses to run as root, and there is no other user here: {error}")
        data = home / "data"
        made = subprocess.run(
            [programs["initdb"], "-D", data, "-U", "gpusim", "--auth=trust", "--no-sync", "-E", "UTF8"],
            capture_output=True, text=True, env=environment, cwd=home, **account,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"initdb does not work here: {' '.join(made.stderr.split())[:300]}")
        with open(home / "log", "w") as log:
            server = subprocess.Popen(
                [programs["postgres"], "-D", data, "-k", home, "-h", "", "-F"],
                stdout=log, stderr=log, env=environment, cwd=home, **account,
            )  # fmt: skip
        until = time.monotonic() + START_SECONDS
        while "ready to accept connections" not in (home / "log").read_text():
            if server.poll() is not None or time.monotonic() > until:
                pytest.fail(f"the PostgreSQL server did not start: {(home / 'log').read_text()[-500:]}")
            time.sleep(0.05)
        yield f"postgresql://gpusim@/postgres?host={home}"
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        shutil.rmtree(home, ignore_errors=True)
