"""Exports of Nsight Systems: of several versions' columns, foreign, damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpusim.errors import ProductionError
from gpusim.production.imports.importing import imported
from gpusim.production.launches import Launch, LaunchTotal

#: Process 77 of virtual machine 1.
PID = (1 << 48) + (77 << 24)
STRINGS = ["", "void k<int>(int*)", "k", "cudaLaunchKernel", "step"]
#: What versions from 2021 on have; 2024 has more columns.
OLD = {
    "StringIds": ("id integer primary key, value text", list(enumerate(STRINGS))),
    "TARGET_INFO_GPU": ("id int, name text", [(0, "NVIDIA H200"), (1, "NVIDIA H200")]),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start int, end int, globalTid int, correlationId int, nameId int",
                                    [(90, 95, PID + 5, 1, 3), (96, 99, PID + 5, 2, 3)]),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start int, end int, deviceId int, contextId int, streamId int, correlationId int, globalPid int, demangledName int, shortName int,"
        "registersPerThread int, gridX int, gridY int, gridZ int, blockX int, blockY int, blockZ int, staticSharedMemory int, dynamicSharedMemory int",
        [(100, 150, 1, 1, 7, 1, PID, 1, 2, 32, 4, 2, 1, 64, 1, 1, 16, 1024), (180, 190, 1, 1, 13, 2, PID, 1, 2, 32, 4, 2, 1, 64, 1, 1, 16, 1024)],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start int, end int, deviceId int, streamId int, correlationId int, globalPid int, bytes int, copyKind int",
                                   [(200, 201, 1, 7, 3, PID, 4096, 1)]),
    "NVTX_EVENTS": ("start int, end int, eventType int, text text, globalTid int", [(80, 95, 59, "step", PID + 5), (1, None, 34, "mark", PID + 5)]),
}  # fmt: skip


def export(path: Path, tables: dict) -> Path:
    with sqlite3.connect(path) as database:
        for name, (columns, rows) in tables.items():
            database.execute(f"create table {name} ({columns})")
            for row in rows:
                database.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
    database.close()
    return path


def with_table(name: str, columns: str, rows: list) -> dict:
    return OLD | {name: (columns, rows)}


def row(kernel: str = "k", **changes) -> Launch:
    base = dict(grid=(4, 2, 1), block=(64, 1, 1), shared_bytes=1040, registers=32, gpu="NVIDIA H200", device="1")
    return Launch(**(dict(kernel=kernel) | base | changes))


def found(path: Path) -> dict[Launch, LaunchTotal]:
    return {total.what: total for total in imported([path]).totals}


def test_an_export_is_read(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", OLD)
    production = imported([path])
    name = STRINGS[1]
    copy = Launch("Memcpy HtoD", "memcpy", gpu="NVIDIA H200", device="1", stream_kind="default")
    want = {
        row(name, stream_kind="default", phase="step"): (1, 50),
        row(name, stream_kind="other"): (1, 10),
        copy: (1, 1),
    }
    assert {total.what: (total.launches, total.sum_ns) for total in production.totals} == want
    delay = next(each for each in production.facts if each.topic == "delay")
    assert (delay.numbers["most_ns"], delay.numbers["without_call"]) == (84, 1)
    assert path.read_bytes()[:4] == b"SQLi" and sorted(each.name for each in tmp_path.iterdir()) == ["a.sqlite"]


def test_newer_columns_and_texts_by_number_are_read(tmp_path: Path) -> None:
    tables = with_table(
        "NVTX_EVENTS",
        "start int, end int, eventType int, text text, textId int, globalTid int",
        [(80, 95, 59, None, 4, PID + 5)],
    )
    tables["TARGET_INFO_GPU"] = "id int, cuDevice int, name text", [(0, 1, "NVIDIA B200"), (1, 0, "NVIDIA H200")]
    got = found(export(tmp_path / "a.sqlite", tables))
    assert row(STRINGS[1], stream_kind="default", phase="step", gpu="NVIDIA B200", device="0") in got


def test_processes_have_correlations_of_their_own(tmp_path: Path) -> None:
    """Two processes launch as number 1 at different times; each sees its own GPU as 0."""
    other = (1 << 48) + (78 << 24)
    kernel = OLD["CUPTI_ACTIVITY_KIND_KERNEL"]
    rows = [(100, 150, 0, 1, 7, 1, PID, *kernel[1][0][7:]), (100, 150, 0, 1, 7, 1, other, *kernel[1][0][7:])]
    tables = OLD | {
        "CUPTI_ACTIVITY_KIND_KERNEL": (kernel[0], rows), "CUPTI_ACTIVITY_KIND_MEMCPY": (OLD["CUPTI_ACTIVITY_KIND_MEMCPY"][0], []),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (OLD["CUPTI_ACTIVITY_KIND_RUNTIME"][0], [(90, 95, PID + 5, 1, 3), (40, 45, other + 5, 1, 3)]),
        "TARGET_INFO_CUDA_DEVICE": ("gpuId int, cudaId int, pid int", [(0, 0, 77), (1, 0, 78)]),
    }  # fmt: skip
    production = imported([export(tmp_path / "a.sqlite", tables)])
    delays = {each.device: each.numbers["most_ns"] for each in production.facts if each.topic == "delay"}
    assert delays == {"0": 10, "1": 60}


def test_columns_may_be_missing_and_values_wrong(tmp_path: Path) -> None:
    columns = "start, end, deviceId, correlationId, shortName, gridX, gridY, gridZ"
    rows = [
        (5, 9, 0, 1, 2, 1, 1, 1),
        ("five", 9, 0, 1, 2, 1, 1, 1),
        (9, 5, 0, 2, 2, 1, 1, 1),
        (20, 2**62, 0, 1, 2, -1, 1, 1),
        (5, 9, 0, 1, 9, 1, 1, 1),
    ]
    tables = {"StringIds": OLD["StringIds"], "CUPTI_ACTIVITY_KIND_KERNEL": (columns, rows)}
    production = imported([export(tmp_path / "a.sqlite", tables)])
    want = {Launch("k", grid=(1, 1, 1), device="0"): (2, 1, 4), Launch("k", device="0"): (1, 0, 0)}
    assert {t.what: (t.launches, t.timed, t.sum_ns) for t in production.totals} == want
    assert production.sources[0].damaged == 3


@pytest.mark.parametrize(
    "tables, message",
    [
        ({"StringIds": OLD["StringIds"]}, "no table CUPTI_ACTIVITY_KIND_KERNEL"),
        (with_table("CUPTI_ACTIVITY_KIND_KERNEL", "begin int", []), "lacks the column start"),
        (with_table("StringIds", "id integer primary key, text text", [(1, "k")]), "no export of Nsight Systems"),
    ],
)
def test_another_database_is_refused(tmp_path: Path, tables: dict, message: str) -> None:
    path = export(tmp_path / "a.sqlite", tables)
    with pytest.raises(ProductionError, match=message):
        imported([path])


def test_a_view_is_no_table_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = export(tmp_path / "view.sqlite", {"StringIds": OLD["StringIds"]})
    with sqlite3.connect(path) as database:
        database.execute("create view CUPTI_ACTIVITY_KIND_KERNEL as select 1 as start, 2 as end")
    database.close()
    with pytest.raises(ProductionError, match="no table"):
        imported([path])
    whole = export(tmp_path / "b.sqlite", OLD).read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ProductionError, match="cut.sqlite: damaged"):
        imported([tmp_path / "cut.sqlite"])
