"""Does a store give back what was put into it, whichever database keeps it and however many write at once?"""

from __future__ import annotations

import math
import os
import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_examples import example_launch, example_row, postgres_server
from store_writers import many
from trace_examples import example_trace

from gpusim.engine.gpu import simulate
from gpusim.errors import UnknownRunError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.store import Instruction, gpu_hash, hashes, launch_record, open_store, schema, trace_hash
from gpusim.store.coding import pack, unpack
from gpusim.store.connection import open_engine
from gpusim.store.known_runs import refuse_unknown_runs
from gpusim.store.location import store_url
from gpusim.store.place import default_path
from gpusim.trace.record import Trace

WRITERS, ROUNDS = 4, 10


@pytest.fixture(scope="module")
def server():
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        where = tmp_path / "folder" / "store.sqlite"
    else:
        where = request.getfixturevalue("server")
    with open_store(where) as opened:
        opened.delete_runs([info.id for info in opened.list_runs()])
        yield opened


def test_a_run_comes_back_as_it_was(store):
    launches, rows = [example_launch(0), example_launch(1, 2**40)], [example_row(0), example_row(1)]
    with store.new_run("base", command="simulate", arguments=["saxpy", "--gpu", "h200"]) as run:
        run.add_launches(launches[:1])
        run.add_launches(launches[1:])
        run.add_measurements(rows)
        run.add_document("comparison", {"old": 1})
        run.add_document("comparison", [{"verdict": "SAME", "percent": 0.25}, None])
        run.add_gpu(load_gpu("h200"))
        run.add_gpu(replace(load_gpu("h200"), name="again"))
    kept = store.load_run("base")
    assert kept == store.load_run(run.id)
    assert kept.documents == {"comparison": [{"verdict": "SAME", "percent": 0.25}, None]}
    assert kept.gpus == {}, "only of the machines that its launches ran on"
    assert list(kept.launches) == launches and list(kept.measurements) == rows
    info = kept.info
    assert (info.name, info.state, info.command, info.arguments) == (
        "base", "finished", "simulate", ("saxpy", "--gpu", "h200"),
    )  # fmt: skip
    assert (info.launches, info.measurements) == (2, 2)
    assert info.environment["numba"] and info.gpusim_version and len(info.model_hash) == 64
    assert info.started <= info.finished
    assert store.list_runs() == [info] and store.damage() == ""


def test_the_figures_of_a_machine_come_back_by_its_hash(store):
    spec = load_gpu("h200")
    with store.new_run("base", command="simulate") as run:
        run.add_gpu(spec)
        run.add_launches([replace(example_launch(), gpu_hash=gpu_hash(spec))])
    figures = store.load_run("base").gpus[gpu_hash(spec)]
    assert figures["l2.hit_latency_ns"] == spec.l2.hit_latency_ns
    assert figures["pipes.fma.interval_cycles"] == spec.pipes["fma"].interval_cycles
    assert figures["capability"] == [9, 0] and "name" not in figures


def test_a_server_of_version_1_is_migrated(server):
    engine = open_engine(store_url(server))
    old = [schema.gpusim_store, schema.runs, schema.launches, schema.measurements]
    with engine.begin() as connection:
        schema.metadata.drop_all(connection)
        schema.metadata.create_all(connection, tables=old)
        connection.execute(schema.gpusim_store.insert().values(version=1))
    engine.dispose()
    with open_store(server) as store:
        with store.new_run("new", command="test") as run:
            run.add_document("comparison", 7)
        assert store.load_run("new").documents == {"comparison": 7}
    with engine.begin() as connection:
        assert connection.execute(schema.gpusim_store.select()).scalars().all() == [schema.VERSION]
    engine.dispose()


def test_a_name_stands_for_its_newest_finished_run(store):
    for cycles in (100, 200):
        with store.new_run("base", command="test") as run:
            run.add_launches([example_launch(cycles=cycles)])
    with pytest.raises(ZeroDivisionError), store.new_run("base", command="test") as broken:
        broken.add_launches([example_launch(cycles=300)])
        raise ZeroDivisionError
    store.new_run("killed", command="test").add_measurements([example_row()])
    assert store.load_run("base").launches[0].cycles == 200
    assert store.load_run(broken.id).launches[0].cycles == 300
    assert [info.state for info in store.list_runs("base")] == ["finished", "finished", "failed"]
    with pytest.raises(UnknownRunError, match="was finished.*runs show"):
        store.load_run("killed")
    with pytest.raises(UnknownRunError, match="did you mean base"):
        store.load_run("bases")
    with pytest.raises(UnknownRunError, match="no run 999999"):
        store.load_run(999999)


def test_deleting_a_run_deletes_its_rows_and_never_gives_its_number_again(store):
    with store.new_run(command="test") as first:
        first.add_launches([example_launch()])
    assert store.delete_runs([first.id, 10**9]) == 1
    store.compact()
    with store.new_run(command="test") as second:
        pass
    assert second.id > first.id
    assert store.load_run(second.id).launches == ()


def test_processes_that_write_at_once_lose_nothing(store):
    """Also the store itself is created by all of them at once."""
    where = str(store.url.database)
    if store.url.get_backend_name() != "sqlite":
        where = store.url.set(drivername="postgresql").render_as_string(hide_password=False)
    assert many(where, WRITERS, ROUNDS) == 0
    infos = store.list_runs()
    assert len(infos) == WRITERS * ROUNDS
    assert {(info.state, info.launches, info.measurements) for info in infos} == {("finished", 3, 1)}
    for writer in range(WRITERS):
        assert [info.arguments for info in store.list_runs(f"writer-{writer}")] == [(str(n),) for n in range(ROUNDS)]
    assert store.damage() == ""


def test_a_store_that_does_not_exist_reads_as_empty_and_is_not_made(tmp_path):
    path = tmp_path / "no" / "store.sqlite"
    with open_store(path) as store:
        assert store.list_runs() == [] and store.damage() == ""
        with pytest.raises(UnknownRunError, match="nothing has been kept"):
            store.load_run("base")
    assert not path.parent.exists()


@pytest.mark.parametrize("name", ["", "12", "a b", "-x", "a" * 101, "ünï", "a\nb", "../x", "now"])
def test_a_name_that_cannot_be_asked_for_is_refused(tmp_path, name):
    with open_store(tmp_path / "s.sqlite") as store:
        if not name:
            assert store.new_run(name, command="test").id == 1
            return
        with pytest.raises(UsageError, match="cannot be called"):
            store.new_run(name, command="test")


def test_a_number_that_is_none_never_enters(tmp_path):
    with open_store(tmp_path / "s.sqlite") as store:
        run = store.new_run(command="test")
        with pytest.raises(ValueError):
            run.add_launches([example_launch(), replace(example_launch(), counters={"x": math.nan})])
        assert store.load_run(run.id).launches == ()


counts = st.dictionaries(st.sampled_from(["", "a.sum", "\\0\\ud7ff"]), st.integers(0, 2**62 - 1))
instructions = st.builds(
    Instruction, st.integers(0, 2**32), st.text(max_size=9), st.integers(0, 2**31), st.text(max_size=40), counts, counts
)


@given(st.lists(instructions, max_size=4))
def test_instructions_come_back_from_their_blob(rows):
    assert unpack(pack(rows)) == tuple(rows)


@given(st.binary(max_size=64), st.integers(0, 200))
def test_a_damaged_blob_is_a_value_error(noise, place):
    blob = pack(example_launch().instructions)
    broken = blob[: place % len(blob)] + noise
    try:
        unpack(broken)
    except ValueError:
        return
    assert broken == blob


def test_a_simulated_launch_is_kept_with_all_its_warp_cycles():
    result = simulate([example_trace()], load_gpu("h200"))
    record = launch_record(result.launches[0], result.spec, kernel="suite", shape="n=1", launch=3)
    assert (record.kernel, record.function, record.launch) == ("suite", result.kernel, 3)
    assert record.cycles == result.cycles and record.time_us == pytest.approx(result.time_us)
    for reason, cycles in result.stalls.items():
        assert sum(i.stalls.get(reason, 0) for i in record.instructions) == cycles
    assert record.warp_cycles == sum(i.warp_cycles for i in record.instructions)


def test_hashes_say_what_is_the_same(tmp_path):
    h200 = load_gpu("h200")
    changed = override_gpu(h200, ["l2.hit_latency_ns=1"])
    assert gpu_hash(h200) == gpu_hash(replace(h200, name="other", title="other")) != gpu_hash(changed)
    trace = example_trace()
    trace.save(tmp_path / "t.trace")
    assert trace_hash(trace) == trace_hash(Trace.load(tmp_path / "t.trace"))
    moved = replace(trace.program, files=tuple(f"/elsewhere/{file}" for file in trace.program.files))
    assert trace_hash(replace(trace, program=moved)) == trace_hash(trace)
    code = trace.program.instructions.copy()
    code["stall_cycles"][0] += 1
    assert trace_hash(replace(trace, program=replace(trace.program, instructions=code))) != trace_hash(trace)


def test_the_model_s_hash_is_of_each_source_file_that_decides_cycles(monkeypatch, tmp_path):
    names = [tmp_path / name for name in ("engine/__init__.py", "engine/sampled/steady.py", "model/__init__.py")]
    found = set()
    for changed in (None, *names):
        for name in names:
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_text("changed" if name == changed else "")
        monkeypatch.setattr(hashes.gpusim.engine, "__file__", str(names[0]))
        monkeypatch.setattr(hashes.gpusim.model, "__file__", str(names[2]))
        hashes.model_hash.cache_clear()
        found.add(hashes.model_hash())
    hashes.model_hash.cache_clear()
    assert len(found) == len(names) + 1 and "" not in found


def test_where_the_store_is(monkeypatch, tmp_path):
    for variable in ("GPUSIM_STORE", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local/share/gpusim/store.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_path() == tmp_path / ".local/share/gpusim/store.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert store_url().database == str(tmp_path / "data/gpusim/store.sqlite")
    monkeypatch.setenv("GPUSIM_STORE", "~/x.sqlite")
    assert store_url().database == str(tmp_path / "x.sqlite")
    monkeypatch.setenv("GPUSIM_STORE", "postgresql://me:secret@host/db")
    with open_store() as store:
        assert store.url.drivername == "postgresql+psycopg"
        assert store.name == "postgresql://me:***@host/db"
    for wrong in ("mysql://host/db", "postgresql+asyncpg://host/db", "postgresql://host:port/db"):
        monkeypatch.setenv("GPUSIM_STORE", wrong)
        with pytest.raises(UsageError, match="GPUSIM_STORE"):
            open_store()


def test_what_its_file_alone_tells_of_a_run_is_what_the_store_says(tmp_path, monkeypatch):
    """And looking leaves nothing beside the file."""
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("GPUSIM_STORE", str(path))
    with open_store() as store:
        store.new_run("base", command="measure").finish()
        store.new_run("broken", command="measure")
        for key in ("base", "1", "2", "3", "broken", "bose", "now", "\udc80"):
            said = []
            for find in (store.find_run, lambda key: refuse_unknown_runs([key])):
                try:
                    find(key)
                    said.append("")
                except UnknownRunError as error:
                    said.append(str(error))
            assert said[0] == said[1] and (said[0] == "") == (key in ("base", "1", "2")), said
    assert [each.name for each in tmp_path.iterdir()] == ["store.sqlite"]
    refuse_unknown_runs(["base"])
    assert [each.name for each in tmp_path.iterdir()] == ["store.sqlite"]
    for contents in (b"", b"no database"):
        path.write_bytes(contents)
        refuse_unknown_runs(["base"])  # what is wrong with it, the store says


@pytest.mark.parametrize("change", ["writes", "logs"])
def test_a_store_that_is_written_while_its_file_is_read_refuses_nothing(change, tmp_path, monkeypatch):
    """Nothing locks the file then: what was read may be half of what was written."""
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("GPUSIM_STORE", str(path))
    with open_store() as store:
        store.new_run("base", command="measure").finish()
    connect = sqlite3.connect

    def meanwhile(*args, **options):
        found = connect(*args, **options)
        if change == "logs":
            path.with_name(f"{path.name}-wal").touch()
        else:
            os.utime(path, ns=(1, 1))
        return found

    with pytest.raises(UnknownRunError):
        refuse_unknown_runs(["other"])
    monkeypatch.setattr("gpusim.store.known_runs.sqlite3.connect", meanwhile)
    refuse_unknown_runs(["other"])
