"""The tables of the store, as they are in the version of the schema that this gpusim writes.

Mental model: a run has launches (simulated), measurements (of silicon) and documents (what a command wants to find
again, such as the verdicts of a comparison); the figures of each GPU stand once, under their hash. What is looked for
or sorted by is a column; the rest is JSON text, so that a new counter needs no new schema; the attribution to
instructions, the only large thing, is a compressed blob. :mod:`gpusim.store.migrations` brings an older store here.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text

#: SQLite's application_id of a gpusim store ("gpsm"), so that no other program's database is taken for one.
APPLICATION_ID = 0x6770736D
VERSION = 5

metadata = MetaData()
# SQLite keeps an integer primary key in 64 bits already, and only INTEGER may count up by itself.
_KEY = BigInteger().with_variant(Integer, "sqlite")


def _parent() -> Column:
    return Column("run_id", _KEY, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True)


#: One row: the version of the schema.
gpusim_store = Table("gpusim_store", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, index=True),  # empty: not named
    Column("state", Text, nullable=False),  # open, finished or failed
    Column("command", Text, nullable=False),
    Column("arguments", Text, nullable=False),  # JSON: [text]
    Column("started", Text, nullable=False),  # UTC, ISO 8601 to the second
    Column("finished", Text, nullable=False),  # empty while open
    Column("gpusim_version", Text, nullable=False),
    Column("model_hash", Text, nullable=False),
    Column("host_hash", Text, nullable=False),
    Column("environment", Text, nullable=False),  # JSON: {name: version}
    sqlite_autoincrement=True,  # a number is never given twice, not even after deleting
)

launches = Table(
    "launches",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    _parent(),
    Column("kernel", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("launch", Integer, nullable=False),
    Column("function", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("gpu_hash", Text, nullable=False),
    Column("cubin_hash", Text, nullable=False, index=True),
    Column("trace_hash", Text, nullable=False),
    Column("cycles", BigInteger, nullable=False),
    Column("clock_hz", Float(53), nullable=False),
    Column(
        "facts", Text, nullable=False
    ),  # JSON: grid, block, registers_per_thread, shared_bytes, source [[file, line, text]]
    Column("stalls", Text, nullable=False),  # JSON: {reason: warp-cycles}
    Column("counters", Text, nullable=False),  # JSON: {Nsight Compute's name: value}
    Column("least_cycles", Text, nullable=False),  # JSON: {unit: cycles}
    Column("instructions", LargeBinary, nullable=False),  # gpusim.store.coding
)

measurements = Table(
    "measurements",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    _parent(),
    Column("kernel", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("cubin_hash", Text, nullable=False, index=True),
    Column("method", Text, nullable=False),
    Column("row", Text, nullable=False),  # JSON of gpusim.silicon.row.SiliconRow
)

#: Since version 2. The figures of every GPU that a launch names, so that two runs' machines can be laid side by side.
gpus = Table(
    "gpus",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("figures", Text, nullable=False),  # JSON: {dotted key: value}
)

#: Since version 2.
documents = Table(
    "documents",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    _parent(),
    Column("kind", Text, nullable=False),
    Column("content", Text, nullable=False),  # JSON
)

#: Since version 3. The commits that a plan's history is made of; ``position`` counts along the first-parent line.
commits = Table(
    "commits",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("plan", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),  # seconds since 1970
    Column("author", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Index("commits_of_plan", "plan", "hash", unique=True),
    Index("commits_in_order", "plan", "position"),
)

#: Since version 3. What has one value a commit: a launch of a case on a GPU by a toolchain, in cycles or microseconds.
series = Table(
    "series",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("plan", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("launch", Integer, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("toolchain", Text, nullable=False),
    Column("mode", Text, nullable=False),  # simulated or measured
    Column("unit", Text, nullable=False),  # cycles or us
    Column("file", Text, nullable=False),  # in which the case stands, relative to the repository; empty: the suite
    Index("series_of_plan", "plan", "kernel", "shape", "launch", "gpu", "toolchain", "mode", "unit", unique=True),
)

#: Since version 3. The values of the series. ``method`` is a hash of what decides a value besides kernel and GPU
#: (gpusim's model, the compiler, the driver, the host of a measurement); ``repetition`` counts reruns of a measurement.
points = Table(
    "points",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("series_id", _KEY, ForeignKey("series.id", ondelete="CASCADE"), nullable=False),
    _parent(),
    Column("launch_id", _KEY, ForeignKey("launches.id", ondelete="SET NULL"), nullable=True, index=True),
    Column("commit_id", _KEY, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("position", BigInteger, nullable=False),  # the commit's, so that a history is one look into an index
    Column("method", Text, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("value", Float(53), nullable=False),
    Column("low", Float(53), nullable=False),  # of a measurement's interval; a simulation's value
    Column("high", Float(53), nullable=False),
    Column("cubin_hash", Text, nullable=False),
    Column("gpu_hash", Text, nullable=False),
    Column("clock_hz", Float(53), nullable=False),  # 0 where nobody knows it
    Column("facts_id", _KEY, ForeignKey("method_facts.id"), nullable=False),
    Index("points_once", "series_id", "position", "method", "repetition", unique=True),
    # Since version 5. Points of a series lie as far apart as its commits: its steps are found in the index alone.
    Index("points_history", "series_id", "position", "value"),
)

#: Since version 3. What a point's ``method`` is the hash of, and the hash of the kernel's source: the same for most
#: points of a run.
method_facts = Table(
    "method_facts",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("facts", Text, nullable=False),  # JSON: {name: text}
)

#: Since version 3. Cells that have no value: what the case, its compiler or its process said.
refusals = Table(
    "refusals",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    _parent(),
    Column("plan", Text, nullable=False),
    Column("commit_id", _KEY, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("request", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("toolchain", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("message", Text, nullable=False),
)

#: Since version 3. The cells that are done, whatever came of them: what a resumed run leaves out.
cells = Table(
    "cells",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    _parent(),
    Column("commit_id", _KEY, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False),
    Column("request", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("toolchain", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("method", Text, nullable=False),
    Index("cells_once", "commit_id", "request", "gpu", "toolchain", "mode", "method", unique=True),
)

#: Since version 4. Changes that somebody is told of: one a cause, however many series moved. ``key`` says the cause, so
#: that it is opened once.
alerts = Table(
    "alerts",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("plan", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("state", Text, nullable=False),  # gpusim.watch.alerts.record.STATES
    Column("verdict", Text, nullable=False),  # gpusim.watch.alerts.record.VERDICTS
    Column("reason", Text, nullable=False),
    Column("expiry", Text, nullable=False),  # of an acceptance, an ISO date; empty: none
    Column("owner", Text, nullable=False),  # separated by blanks where there are several
    Column("cause", Text, nullable=False),  # commit, or what changed of the method
    Column("who", Text, nullable=False),  # the commit, or "old -> new"
    Column("commit_id", _KEY, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("position", BigInteger, nullable=False),
    Column("unseen", Text, nullable=False),  # JSON: [hash]
    Column("direction", Text, nullable=False),  # slower or faster
    Column("opened", Text, nullable=False),  # UTC, ISO 8601 to the second
    Column("size_percent", Float(53), nullable=False),
    Column("found", Text, nullable=False),  # what a bisection found to be first bad; empty: none was done
    Column("sentence", Text, nullable=False),
    Column("attribution", Text, nullable=False),  # JSON, as gpusim.regress.records.document has it
    Index("alerts_once", "plan", "key", unique=True),
    Index("alerts_by_state", "plan", "state"),
    sqlite_autoincrement=True,  # a number is never given twice
)

#: Since version 4. Which series an alert speaks of, a row a change of a series; a change belongs to one alert.
alert_series = Table(
    "alert_series",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("alert_id", _KEY, ForeignKey("alerts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("series_id", _KEY, ForeignKey("series.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),  # the cause of this change: the alert's, or of its return
    Column("commit_id", _KEY, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("position", BigInteger, nullable=False),
    Column("before_position", BigInteger, nullable=False),
    Column("before", Float(53), nullable=False),
    Column("after", Float(53), nullable=False),
    Column("before_launch_id", _KEY, ForeignKey("launches.id", ondelete="SET NULL"), nullable=True, index=True),
    Column("after_launch_id", _KEY, ForeignKey("launches.id", ondelete="SET NULL"), nullable=True, index=True),
    Column("state", Text, nullable=False),  # moved, or back where later runs showed the old level
    Index("alert_series_once", "series_id", "position", "key", unique=True),
)

#: Since version 4. Every change of an alert. ``sequence`` counts from 1 within the alert: a clock that jumps back
#: disorders nothing.
alert_events = Table(
    "alert_events",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("alert_id", _KEY, ForeignKey("alerts.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("time", Text, nullable=False),  # UTC, ISO 8601 to the second, by the clock of the machine that wrote it
    Column("who", Text, nullable=False),
    Column("kind", Text, nullable=False),  # gpusim.watch.alerts.record.KINDS
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index("alert_events_once", "alert_id", "sequence", unique=True),
)

#: Since version 4. Up to which point a plan's history has been judged for its alerts.
alert_marks = Table(
    "alert_marks",
    metadata,
    Column("plan", Text, primary_key=True),
    Column("point_id", BigInteger, nullable=False),
)

#: Since version 4. What webhooks' receivers were told, or are yet to be told, of events.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("event_id", _KEY, ForeignKey("alert_events.id", ondelete="CASCADE"), nullable=False),
    Column("url_hash", Text, nullable=False),  # where to: an address may hold a secret, and is not kept
    Column("state", Text, nullable=False),  # waiting, delivered, refused, or passed over
    Column("attempts", Integer, nullable=False),
    Column("next_time", BigInteger, nullable=False),  # not before: seconds since 1970
    Column("said", Text, nullable=False),  # what the last attempt came to
    Index("deliveries_once", "event_id", "url_hash", unique=True),
    Index("deliveries_waiting", "url_hash", "state", "next_time"),
)
