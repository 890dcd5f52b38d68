"""The tables of the store, as they are in the version of the schema that this gpusim writes.

Mental model: a run has launches (simulated), measurements (of silicon) and documents (what a command wants to find
again, such as the verdicts of a comparison); the figures of each GPU stand once, under their hash. What is looked for or sorted by is a
column; the rest is JSON text, so that a new counter needs no new schema; the attribution to instructions, the only
large thing, is a compressed blob. :mod:`gpusim.store.migrations` brings an older store here.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

#: SQLite's application_id of a gpusim store ("gpsm"), so that no other program's database is taken for one.
APPLICATION_ID = 0x6770736D
VERSION = 2

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
    Column("facts", Text, nullable=False),  # JSON: grid, block, registers_per_thread, shared_bytes
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
