#!/usr/bin/env python
"""How long the dashboard's pages take on a store of millions of launches, and for many readers at once.

    tools/watch_scale.py fill --store URL [--launches 10000000]   a year of a kernel library, made by the database itself
    tools/watch_scale.py pages --store URL                        each page: first and again, wall and CPU; queries that read a whole table
    tools/watch_scale.py load --store URL [--readers 50]          readers at once against `gpusim serve`: latencies, CPU a request

A year here is 1,460 commits (four a day) of 137 kernels with two shapes of five launches each on five GPUs: 6,850
series, each with three steps, and an alert a step of a kernel. Every point has a launch of its own, which a real year
has not (what comes out the same is kept once): the worst case. The launches' JSON texts and instructions are short.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, text

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.serve import address, pages
from gpusim.serve.address import ServerLinks
from gpusim.serve.board import Board
from gpusim.store import Instruction
from gpusim.store.coding import pack
from gpusim.store.schema import (
    alert_events,
    alert_series,
    alerts,
    cells,
    commits,
    documents,
    launches,
    method_facts,
    points,
    refusals,
    runs,
    series,
)
from gpusim.store.store import Store, open_store

KERNELS, SHAPES, LAUNCHES, STEPS, COMMITS = 137, 2, 5, 3, 1460
GPUS = ("a100_80gb", "a40", "b200", "gh200", "h200")
SERIES = KERNELS * SHAPES * LAUNCHES * len(GPUS)
PLAN, BEGUN, QUARTER_DAY = "year", 1_760_000_000, 21_600
NIGHTS = 365


def step_position(kernel: int, step: int, commits_count: int) -> int:
    """At which commit a kernel makes its ``step``th step."""
    return (kernel * 53 + step * 401 + 200) % max(commits_count, 1)


def fill(store: Store, launches_count: int) -> None:
    """Make the year, of as many commits as ``launches_count`` takes."""
    count = max(20, min(COMMITS * 10, round(launches_count / SERIES)))
    store.prepare()
    with store.new_run(PLAN, command="watch run") as run:
        pass
    bulk = (launches, points, cells)
    with store.writing() as c:
        postgres = c.dialect.name == "postgresql"
        if postgres:
            c.execute(text("SET session_replication_role = replica"))  # foreign keys hold by construction
        for table in bulk:
            for index in table.indexes:
                index.drop(c)
    if not postgres:
        with store._engine.connect() as c:
            c.exec_driver_sql("COMMIT")
            c.exec_driver_sql("PRAGMA foreign_keys=OFF")
            c.exec_driver_sql("PRAGMA synchronous=OFF")
            c.exec_driver_sql("BEGIN")
            _fill(c, run.id, count, postgres)
            c.exec_driver_sql("COMMIT")
            c.exec_driver_sql("BEGIN")
    else:
        with store.writing() as c:
            c.execute(text("SET LOCAL session_replication_role = replica"))
            _fill(c, run.id, count, postgres)
    begun = time.monotonic()
    with store.writing() as c:
        if postgres:
            c.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
        for table in bulk:
            for index in table.indexes:
                index.create(c)
    print(f"indexes: {time.monotonic() - begun:.0f} s", flush=True)
    with store._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.execute(text("VACUUM ANALYZE" if postgres else "ANALYZE"))  # what a server does by itself within minutes
    _documents(store)
    _sequences(store)


def _fill(c: Connection, run_id: int, count: int, postgres: bool) -> None:
    c.execute(commits.insert(), [
        {"id": p + 1, "plan": PLAN, "hash": f"{p:08x}" * 5, "position": p, "time": BEGUN + p * QUARTER_DAY, "author": f"author {p % 20}",
         "subject": f"change {p}: a line about what it does to the kernels"} for p in range(count)
    ])  # fmt: skip
    rows = [
        {"plan": PLAN, "kernel": f"kernel_{kernel:03}", "shape": f"m={1024 << shape},n=4096", "launch": launch, "gpu": gpu,
         "toolchain": "default", "mode": "simulated", "unit": "cycles", "file": f"kernels/k{kernel:03}.py"}
        for kernel in range(KERNELS) for shape in range(SHAPES) for launch in range(LAUNCHES) for gpu in GPUS
    ]  # fmt: skip
    c.execute(series.insert(), [{"id": number + 1, **row} for number, row in enumerate(rows)])
    c.execute(method_facts.insert(), [
        {"id": kernel * (STEPS + 1) + step + 1, "hash": f"{kernel}.{step}", "facts": json.dumps({
            "compiler": "nvrtc 13.0", "model_hash": "ab" * 32, "gpusim_version": "0.1.0", "source_hash": f"{kernel}.{step}", "python": "3.11"})}
        for kernel in range(KERNELS) for step in range(STEPS + 1)
    ])  # fmt: skip
    # What is a number in both dialects: a row a series and commit, by number arithmetic alone.
    ticks = f"generate_series(0, {count - 1}) AS t(p)" if postgres else "t"
    head = "" if postgres else f"WITH RECURSIVE t(p) AS (SELECT 0 UNION ALL SELECT p + 1 FROM t WHERE p < {count - 1})"
    per_kernel = SHAPES * LAUNCHES * len(GPUS)
    kernel = f"((s.id - 1) / {per_kernel})"
    done = " + ".join(
        f"(CASE WHEN p >= ({kernel} * 53 + {step * 401 + 200}) % {count} THEN 1 ELSE 0 END)" for step in range(STEPS)
    )
    base = "(20000 + (s.id * 7919) % 90000)"
    value = f"({base} + ({done}) * ({base} / 25))"
    launch_id = f"(p * {SERIES} + s.id)"
    code = f"('{{h}}' || ({kernel} * 4 + {done}))"
    cubin, trace = code.replace("{h}", "c" * 58), code.replace("{h}", "e" * 58)
    blobs = [pack(_instructions(step)) for step in range(2)]
    texts = {
        "facts": json.dumps({"grid": [512, 1, 1], "block": [256, 1, 1], "registers_per_thread": 64, "shared_bytes": 0}),
        "stalls": json.dumps({"selected": 900, "long_scoreboard": 30_000, "wait": 900}),
        "counters": json.dumps({"dram__bytes_read.sum": 4_194_304.0}),
        "least_cycles": json.dumps({"issue": 900.0}),
    }
    columns = ", ".join(column.name for column in launches.columns)
    _timed(c, "launches", f"""INSERT INTO launches ({columns}) {head} SELECT {launch_id}, {run_id}, s.kernel, s.shape, s.launch, s.kernel, s.gpu,
        :gpu, {cubin}, {trace}, {value}, 1.98e9, :facts, :stalls, :counters, :least_cycles,
        CASE WHEN ({done}) > 0 THEN :slow ELSE :fast END FROM series s CROSS JOIN {ticks}""",
        {**texts, "gpu": "a" * 64, "fast": blobs[0], "slow": blobs[1]})  # fmt: skip
    names = "id, series_id, run_id, launch_id, commit_id, position, method, repetition, value, low, high, cubin_hash, gpu_hash, clock_hz, facts_id"
    _timed(c, "points", f"""INSERT INTO points ({names}) {head} SELECT {launch_id}, s.id, {run_id}, {launch_id}, p + 1, p, :method, 0, {value}, {value},
        {value}, {cubin}, :gpu, 1.98e9, {kernel} * {STEPS + 1} + {done} + 1 FROM series s CROSS JOIN {ticks}""",
        {"method": "d" * 64, "gpu": "a" * 64})  # fmt: skip
    _timed(c, "cells", f"""INSERT INTO cells (id, run_id, commit_id, request, gpu, toolchain, mode, method) {head}
        SELECT {launch_id}, {run_id}, p + 1, s.kernel || ':' || s.shape, s.gpu, 'default', 'simulated', :method
        FROM series s CROSS JOIN {ticks} WHERE s.launch = 0""", {"method": "d" * 64})  # fmt: skip
    c.execute(refusals.insert(), [
        {"run_id": run_id, "plan": PLAN, "commit_id": p + 1, "request": f"broken_{n}", "gpu": "h200", "toolchain": "default",
         "kind": "CompileError", "message": "no such name"} for p in range(count) for n in range(3)
    ])  # fmt: skip
    _alerts(c, count)


def _alerts(c: Connection, count: int) -> None:
    per_kernel = SHAPES * LAUNCHES * len(GPUS)
    heads, moved, events = [], [], []
    order = sorted(
        (step_position(kernel, step, count), kernel, step) for kernel in range(KERNELS) for step in range(STEPS)
    )
    for number, (position, kernel, _) in enumerate(order, 1):
        state = "open" if position > count - 60 else "verified" if number % 3 else "fixed"
        heads.append({
            "id": number, "plan": PLAN, "key": str(number), "state": state, "verdict": "", "reason": "", "expiry": "",
            "owner": f"@team-{kernel % 12}", "cause": "commit", "who": f"{position:08x}" * 5, "commit_id": position + 1,
            "position": position, "unseen": "[]", "direction": "slower", "opened": "2026-06-23T06:10:00+00:00", "size_percent": 4.0,
            "found": "", "sentence": f"kernel_{kernel:03} takes 4.0 % longer on five GPUs: it waits longer for global memory",
            "attribution": json.dumps({"by_stall": [{"stall": "long_scoreboard", "cycles": 800, "unit": "memory"}] * 12}),
        })  # fmt: skip
        events += [{"alert_id": number, "sequence": n, "time": "2026-06-23T06:10:00+00:00", "who": "gpusim", "kind": kind, "before": "",
                    "after": "", "text": ""} for n, kind in enumerate(("opened", "owner", "note"), 1)]  # fmt: skip
        for series_id in range(kernel * per_kernel + 1, (kernel + 1) * per_kernel + 1) if position else ():
            base = 20_000 + series_id * 7919 % 90_000
            moved.append({"alert_id": number, "series_id": series_id, "key": str(number), "commit_id": position + 1, "position": position,
                          "before_position": position - 1, "before": base, "after": base * 1.04,
                          "before_launch_id": (position - 1) * SERIES + series_id, "after_launch_id": position * SERIES + series_id,
                          "state": "moved"})  # fmt: skip
    for table, rows in ((alerts, heads), (alert_series, moved), (alert_events, events)):
        c.execute(table.insert(), rows)


def _instructions(slow: int) -> list[Instruction]:
    return [Instruction(16 * i, "kernels/k.py", 7 + i, f"FFMA R{i}, R{i + 1}, R2, R3", {"selected": 40, "wait": 300 + 90 * slow * (i == 3)}, {})
            for i in range(4)]  # fmt: skip


def _documents(store: Store) -> None:
    random.seed(1)
    for night in range(NIGHTS):
        with store.new_run(f"night-{night}", command="compare") as run:
            lines = [{"key": f"{gpu} series_{n}", "verdict": "SAME", "error_percent": random.gauss(0, 5), "simulated": None}
                     for gpu in GPUS for n in range(32)]  # fmt: skip
            run.add_document("comparison", {"lines": lines})
        if night % 7 == 0:
            with store.new_run("suite", command="cover") as run:
                run.add_document("coverage", {
                    "launches": 100, "points": [{"point": f"point {n}", "bins": 20, "hit": 10 + night % 9, "percent": 50.0, "holes": "a, b"}
                                                for n in range(40)],
                    "holes": [{"point": f"point {n % 40}", "bin": f"bin {n}", "try": "saxpy", "because": "near", "fills": 1} for n in range(150)],
                })  # fmt: skip


def _sequences(store: Store) -> None:
    """Numbers that were given by hand are not given again."""
    with store.writing() as c:
        if c.dialect.name == "postgresql":
            for table in (
                launches,
                points,
                cells,
                commits,
                series,
                method_facts,
                alerts,
                alert_series,
                alert_events,
                documents,
                runs,
            ):
                c.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), (SELECT max(id) FROM {table.name}))"
                    )
                )


def _timed(c: Connection, name: str, statement: str, values: dict) -> None:
    begun = time.monotonic()
    c.execute(text(statement), values)
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)


def page_makers(board: Board) -> dict[str, Callable[[], str | None]]:
    """Each kind of page, at places in the middle of the year."""
    links = ServerLinks()
    with board.store.reading() as c:
        assert c is not None
        alert, series_id, position = c.execute(
            text("SELECT alert_id, series_id, position FROM alert_series ORDER BY id DESC LIMIT 1")
        ).one()
    return {
        "today": lambda: pages.today(board, links), "today, an owner's": lambda: pages.today(board, links, "@team-3"),
        "alerts": lambda: pages.alerts(board, links), "alert": lambda: pages.alert(board, links, alert),
        "kernels": lambda: pages.kernels(board, links, PLAN), "kernels, page 60": lambda: pages.kernels(board, links, PLAN, 60),
        "kernels, filtered": lambda: pages.kernels(board, links, PLAN, 1, "kernel_09 n=4096", "h200"),
        "series": lambda: pages.series(board, links, series_id), "change": lambda: pages.change(board, links, series_id, position),
        "gpus": lambda: pages.gpus(board, links, PLAN), "gpu pair": lambda: pages.gpu_pair(board, links, PLAN, "h200", "b200"),
        "coverage": lambda: pages.coverage(board, links, PLAN), "accuracy": lambda: pages.accuracy(board, links),
    }  # fmt: skip


def measure_pages(store: Store, rounds: int) -> None:
    """Print each page's time when nothing is remembered, and again (never from the cache of whole pages)."""
    print(
        f"{'page':20} {'first, ms':>10} {'CPU':>7} {'again, ms':>10} {'CPU':>7} {'kB':>6}   (CPU: of this process and its server's)"
    )
    for name in page_makers(Board(store)):
        make = page_makers(Board(store))[name]
        server = _database_processes(store)[:1]
        with store.one_reading():  # as the server makes them
            first, again = _clocked(make, server), [_clocked(make, server) for _ in range(rounds)]
        assert first[2] is not None, name
        wall, cpu = (statistics.median(each[n] for each in again) for n in (0, 1))
        print(
            f"{name:20} {first[0]:10.0f} {first[1]:7.0f} {wall:10.0f} {cpu:7.0f} {len(first[2]) / 1e3:6.0f}", flush=True
        )


def _clocked(make: Callable[[], str | None], server: list[int]) -> tuple[float, float, str | None]:
    wall, cpu = time.perf_counter(), time.process_time() + _cpu_seconds(server)
    page = make()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() + _cpu_seconds(server) - cpu), page


def _database_processes(store: Store) -> list[int]:
    """The processes of a PostgreSQL server of this machine that answer now, this program's own first; none of
    SQLite."""
    with store.reading() as c:
        if c is None or c.dialect.name != "postgresql":
            return []
        own = c.execute(text("SELECT pg_backend_pid()")).scalar_one()
        every = c.execute(text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")).scalars()
        return [own, *(pid for pid in every if pid != own)]


#: Tables whose rows grow with the history: none of them may be read as a whole.
LARGE = ("points", "launches", "cells", "refusals", "alert_series", "documents")


def explain(store: Store) -> None:
    """Print every statement of the pages that reads a large table by anything else than an index; and how many
    statements there were."""
    seen: dict[str, object] = {}

    def note(connection, cursor, statement, parameters, context, many) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            seen.setdefault(statement, parameters)

    from sqlalchemy import event

    board = Board(store)
    event.listen(store._engine, "before_cursor_execute", note)
    for make in page_makers(board).values():
        make()
    event.remove(store._engine, "before_cursor_execute", note)
    scans = []
    with store.reading() as c:
        assert c is not None
        for statement, parameters in seen.items():
            word = "EXPLAIN" if c.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
            rows = [str(row[-1]) for row in c.exec_driver_sql(f"{word} {statement}", parameters)]
            for row in rows:
                whole = [
                    t for t in LARGE if f"Seq Scan on {t}" in row or row.startswith(f"SCAN {t}") and "INDEX" not in row
                ]
                if whole:
                    scans.append((row.strip(), " ".join(statement.split())[:160]))
    print(f"{len(seen)} statements, {len(scans)} read a large table as a whole")
    for row, statement in scans:
        print(" ", row, "|", statement)


async def _reader(
    host: str, port: int, paths: list[str], weights: list[float], until: float, pause_s: float, times: list, bad: list
) -> None:
    """One who opens a page, looks at it for about ``pause_s``, and opens another one."""
    reader, writer = await asyncio.open_connection(host, port)
    await asyncio.sleep(random.random() * pause_s)
    while time.monotonic() < until:
        path = random.choices(paths, weights)[0]
        begun = time.perf_counter()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append((path, 1e3 * (time.perf_counter() - begun)))
        if b" 200 " not in head[:20]:
            bad.append((path, head[:40]))
        if pause_s:
            await asyncio.sleep(random.expovariate(1 / pause_s))
    writer.close()


async def _keep_runs(store: Store, until: float, every_s: float) -> None:
    """A run kept every ``every_s``: whatever the server remembers belongs to an older store from then on."""
    while every_s and time.monotonic() + every_s < until:
        await asyncio.sleep(every_s)
        with store.new_run(command="simulate"):
            pass


def load(
    store: Store, where: str, readers: int, seconds: float, pause_s: float, processes: int, run_every_s: float
) -> None:
    """Print the latencies of ``readers`` at once: half of what they open are the pages of everybody, half any
    kernel's."""
    rng = random.Random(2)
    with store.reading() as c:
        assert c is not None
        changes = [
            tuple(row)
            for row in c.execute(text("SELECT series_id, position FROM alert_series WHERE id % 7 = 0 LIMIT 2000"))
        ]
        last_alert = c.execute(text("SELECT max(id) FROM alerts")).scalar_one()
    popular = [address.TODAY, address.ALERTS, address.kernels(PLAN), address.gpus(PLAN), address.gpu_pair(PLAN, "h200", "b200"),
               address.coverage(PLAN), address.ACCURACY]  # fmt: skip
    tail = [address.series(rng.randint(1, SERIES)) for _ in range(2000)] + [address.change(*each) for each in changes]
    tail += [address.alert(n) for n in range(1, last_alert + 1)]
    paths = popular + tail
    weights = [0.5 / len(popular)] * len(popular) + [0.5 / len(tail)] * len(tail)
    environment = {**os.environ, "GPUSIM_STORE": where}
    command = [sys.executable, "-m", "gpusim.cli", "serve", "--port", "0", "--processes", str(processes)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stderr is not None
        port = int(server.stderr.readline().split("127.0.0.1:")[1].split("/")[0])
        asyncio.run(_warm(port, [*popular, *tail[:1], *tail[2000:2001], *tail[-1:]]))
        before, before_database = _family_seconds(server.pid), _cpu_seconds(_database_processes(store))
        begun = time.monotonic()
        times: list[tuple[str, float]] = []
        bad: list = []

        async def run() -> None:
            until = time.monotonic() + seconds
            await asyncio.gather(
                _keep_runs(store, until, run_every_s),
                *(_reader("127.0.0.1", port, paths, weights, until, pause_s, times, bad) for _ in range(readers)),
            )

        asyncio.run(run())
        wall = time.monotonic() - begun
        cpu, database = _family_seconds(server.pid) - before, _cpu_seconds(_database_processes(store)) - before_database
    finally:
        server.terminate()
        server.wait()
    ordered = sorted(each for _, each in times)
    quantile = {q: ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.9, 0.99)}
    print(f"{readers} readers, {processes} processes, a pause of {pause_s:g} s, {f'a new run every {run_every_s:g} s' if run_every_s else 'no new run'}: {len(ordered)} pages in {wall:.0f} s ({len(ordered) / wall:.0f}/s), "
          f"{len(set(p for p, _ in times))} different; {len(bad)} not well; {1e3 * cpu / len(ordered):.1f} ms CPU a page in the server, {1e3 * database / len(ordered):.1f} in its database")  # fmt: skip
    print(
        "latency, ms: "
        + ", ".join(f"p{100 * q:g} {value:.0f}" for q, value in quantile.items())
        + f", most {ordered[-1]:.0f}; load average {os.getloadavg()[0]:.1f}"
    )
    slowest = Counter(path.split("/")[1] or "today" for path, took in times if took >= quantile[0.99])
    print("the slowest hundredth: " + ", ".join(f"{count} of {kind}" for kind, count in slowest.most_common()))


async def _warm(port: int, paths: list[str]) -> None:
    """Each page of everybody's, and one of each other kind, in each process: as after the first minute of a morning."""
    until = time.monotonic() + 60
    while True:
        try:
            for path in paths * 8:  # whichever process answers: all of two in 99 % of cases
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                await reader.read()
                writer.close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)


def _cpu_seconds(processes: list[int]) -> float:
    """Of processes of this machine; what another machine's have used is not known here."""
    total = 0
    for pid in processes:
        path = Path(f"/proc/{pid}/schedstat")  # in nanoseconds, where a tick of stat is ten milliseconds
        total += int(path.read_text().split()[0]) if path.exists() else 0
    return total / 1e9


def _family_seconds(pid: int) -> float:
    """Of a process and its children, with threads that have ended."""
    total = 0
    for each in _family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    """A process and all that come of it."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(each) for task in tasks for each in (task / "children").read_text().split()]
    return [pid, *(each for child in children for each in _family(child))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fill", "pages", "explain", "load"))
    parser.add_argument("--store", required=True, help="an SQLite file or a PostgreSQL URL, for this tool alone")
    parser.add_argument("--launches", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument(
        "--pause", type=float, default=1.0, help="seconds that a reader looks at a page, on average; 0: none"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--run-every", type=float, default=0.0, help="keep a new run in the store every so many seconds; 0: none"
    )
    given = parser.parse_args()
    with open_store(given.store) as store:
        if given.what == "fill":
            fill(store, given.launches)
        elif given.what == "pages":
            measure_pages(store, given.rounds)
        elif given.what == "explain":
            explain(store)
        else:
            load(store, given.store, given.readers, given.seconds, given.pause, given.processes, given.run_every)


if __name__ == "__main__":
    main()
