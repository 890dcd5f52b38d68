"""Is the store whole after kills, full disks and damage, and is each refusal one line with its exit code?"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from store_examples import example_launch, example_row
from store_writers import LAUNCHES_AT_ONCE, kill

from gpusim.errors import StoreError, StoreFormatError
from gpusim.store import migrations, open_store
from gpusim.store import store as store_module
from gpusim.store.schema import VERSION

WRITERS = 2
NOBODY = 65534


def filled(path: Path) -> Path:
    """A store of one finished run, its log folded in."""
    with open_store(path) as store, store.new_run("base", command="test") as run:
        run.add_launches([example_launch(index) for index in range(20)])
        run.add_measurements([example_row()])
    return path


def as_another_process(work: Callable[[], str], *, as_nobody: bool = False) -> str:
    """What ``work`` returns in a process of its own; ``as_nobody``: one that is not root, who may write everything."""
    heard, told = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            if as_nobody and os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(told, work().encode())
        except BaseException as error:
            os.write(told, repr(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(number, 0)
    with os.fdopen(heard) as stream:
        return stream.read()


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.nightly)])
def test_no_kill_loses_a_committed_row(tmp_path, kills):
    """SIGKILL at random moments, of writers that begin with creating the store; a row that was acknowledged stays."""
    path = tmp_path / "store.sqlite"
    promised = kill(str(path), kills, WRITERS, seed=1)
    assert sum(promised.values()) >= kills // 2
    with open_store(path) as store:
        infos = store.list_runs()
        torn = [info for info in infos if info.launches % LAUNCHES_AT_ONCE]
        assert not torn
        kept = {info.id: info.launches // LAUNCHES_AT_ONCE + info.measurements for info in infos}
        lost = {run: rows for run, rows in promised.items() if kept.get(run, 0) < rows}
        assert not lost
        assert store.damage() == ""
        for run in promised:
            store.load_run(run)
        with store.new_run("after", command="test") as run:
            run.add_launches([example_launch()])
        assert store.load_run("after").launches == (example_launch(),)


def test_a_killed_creation_leaves_an_empty_store(tmp_path, monkeypatch):
    """Nothing of the schema is there before all of it is."""

    def killed(connection, name):
        migrate(connection, name)
        raise KeyboardInterrupt

    migrate = store_module.migrate
    monkeypatch.setattr(store_module, "migrate", killed)
    with open_store(tmp_path / "s.sqlite") as store, pytest.raises(KeyboardInterrupt):
        store.new_run(command="test")
    with open_store(tmp_path / "s.sqlite") as store:
        assert store.list_runs() == []
    monkeypatch.undo()
    filled(tmp_path / "s.sqlite")


def test_a_full_disk_is_one_line_and_the_store_stays(tmp_path):
    """A file that may not grow stands for a disk that is full."""
    path = filled(tmp_path / "s.sqlite")

    def write_much() -> str:
        with open_store(path) as store:
            run = store.new_run("big", command="test")
            resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
            with pytest.raises(StoreError) as caught:
                run.add_launches([example_launch(index) for index in range(500)])
        return f"{caught.value.exit_code} {caught.value}"

    refusal = as_another_process(write_much)
    assert refusal.startswith("3 ") and "\n" not in refusal
    assert str(path) in refusal and "GPUSIM_STORE" in refusal
    with open_store(path) as store:
        assert store.damage() == ""
        assert len(store.load_run("base").launches) == 20
        assert [info.launches for info in store.list_runs("big")] == [0]


def test_a_full_file_system_says_so(tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", mounted]).returncode:
        pytest.skip("a file system of its own needs the right to mount one")
    try:
        with open_store(mounted / "s.sqlite") as store:
            run = store.new_run("big", command="test")
            with pytest.raises(StoreError, match="disk is full") as caught:
                for _ in range(100):
                    run.add_launches([example_launch(i) for i in range(100)])
            assert "\n" not in str(caught.value)
            assert store.damage() == ""
            store.load_run(run.id)
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_refused_or_read_but_never_a_crash(tmp_path, seed):
    path = filled(tmp_path / "s.sqlite")
    data = bytearray(path.read_bytes())
    chance = random.Random(seed)
    if seed == 0:
        data[:] = b"not a database, though long enough to be one" * 100
    elif seed == 1:
        del data[len(data) // 2 :]
    else:
        for _ in range(40):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
    path.write_bytes(data)
    before = path.read_bytes()
    with open_store(path) as store:
        try:
            store.load_run("base")
        except (StoreFormatError, StoreError) as error:
            assert str(path) in str(error) or "run 1" in str(error)
            assert "\n" not in str(error)
        else:
            assert seed > 1
    assert path.read_bytes() == before, "reading changes nothing"


def test_a_store_with_a_corrupt_page_is_not_written_to(tmp_path):
    path = filled(tmp_path / "s.sqlite")
    data = bytearray(path.read_bytes())
    with sqlite3.connect(path) as connection:
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='launches'").fetchone()[0]
    data[(root - 1) * page_bytes : root * page_bytes] = b"\xa5" * page_bytes
    path.write_bytes(data)
    with open_store(path) as store:
        for _ in range(2):
            with pytest.raises(StoreFormatError, match="damaged") as caught:
                store.new_run("more", command="test")
            assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert path.read_bytes() == bytes(data), "a damaged file is left alone"


def test_a_store_on_a_read_only_file_system_is_read_with_its_log(tmp_path):
    """Its newest rows lie in the write-ahead log, whose index cannot be made there."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    try:
        path = filled(tmp_path / "s.sqlite")
        held = sqlite3.connect(path)
        held.execute("SELECT count(*) FROM runs").fetchone()
        with open_store(path) as store:
            store.new_run("newest", command="test").finish()
            for end in ("", "-wal"):
                shutil.copyfile(f"{path}{end}", f"{mounted / path.name}{end}")
        held.close()
        assert Path(f"{mounted / path.name}-wal").stat().st_size
        subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
        with open_store(mounted / path.name) as store:
            assert [run.name for run in store.list_runs()][-1] == "newest"
            with pytest.raises(StoreError, match="may not be written"):
                store.new_run(command="test")
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE launches SET cycles=-1", "cycles should be a whole number of at least 1, not -1"),
        ("UPDATE launches SET instructions=x'00'", "instructions are damaged"),
        ('UPDATE launches SET stalls=\'{"wait": "x"}\'', "stalls: wait should be a whole number, not 'x'"),
        ("UPDATE launches SET counters='[1'", "counters"),
        ("UPDATE launches SET facts='{}'", "grid"),
        ("UPDATE runs SET arguments='7'", "arguments"),
        ("UPDATE measurements SET row='{}'", "measurement: it lacks 'kernel'"),
        ("ALTER TABLE launches RENAME COLUMN stalls TO stills", "damaged, or not a gpusim store"),
        ("ALTER TABLE measurements RENAME TO measures", "damaged, or not a gpusim store"),
        ("UPDATE gpusim_store SET version=0", "its version is"),
        ("DELETE FROM gpusim_store", "its version is"),
        (f"UPDATE gpusim_store SET version={VERSION + 1}", "newer gpusim"),
    ],
)
def test_a_store_from_elsewhere_is_checked(tmp_path, change, words):
    path = filled(tmp_path / "s.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    with open_store(path) as store, pytest.raises(StoreFormatError, match=words) as caught:
        store.load_run("base")
    assert caught.value.exit_code == 2
    if "gpusim_store" in change:
        with open_store(path) as store, pytest.raises(StoreFormatError, match=words):
            store.new_run(command="test")


def test_what_a_damaged_store_makes_sqlite_say_stays_one_line(tmp_path):
    path = filled(tmp_path / "s.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        text = f'CREATE TABLE launches (id, "a TEXT,\n\x1b[31m{"b" * 2000}'
        connection.execute("UPDATE sqlite_master SET sql=? WHERE name='launches'", (text,))
    with open_store(path) as store:
        for use in (lambda: store.load_run("base"), lambda: store.new_run(command="test")):
            with pytest.raises(StoreFormatError, match=r"damaged.*unrecognized token") as caught:
                use()
            assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def version_one(path: Path) -> Path:
    """The store as gpusim of schema 1 wrote it."""
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parent / "store_version_1.sql").read_text())
    return path


def test_a_store_of_version_1_is_migrated_with_all_its_runs(tmp_path):
    path = version_one(tmp_path / "old.sqlite")
    with open_store(path) as store:
        kept = store.load_run("base")
        assert [launch.cycles for launch in kept.launches] == [1000, 2000]
        assert kept.launches[0] == replace(example_launch(), source=()) and kept.measurements == (example_row(),)
        assert [info.state for info in store.list_runs()] == ["finished", "open"]
        with store.new_run("new", command="test") as run:
            run.add_document("comparison", 7)
        assert store.load_run("new").documents == {"comparison": 7}
        assert store.damage() == ""
    new = filled(tmp_path / "new.sqlite")
    assert _schema(path) == _schema(new)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version FROM gpusim_store").fetchall() == [(VERSION,)]


def _schema(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master"))


def test_a_migration_that_breaks_off_leaves_the_old_store(tmp_path, monkeypatch):
    path = version_one(tmp_path / "old.sqlite")
    before = _schema(path)

    def killed(connection):
        step(connection)
        raise KeyboardInterrupt

    step = migrations.STEPS[1]
    monkeypatch.setitem(migrations.STEPS, 1, killed)
    with open_store(path) as store, pytest.raises(KeyboardInterrupt):
        store.list_runs()
    assert _schema(path) == before
    monkeypatch.undo()
    with open_store(path) as store:
        assert len(store.load_run("base").launches) == 2


def test_an_old_store_that_may_only_be_read_says_what_to_do(tmp_path, monkeypatch):
    path = version_one(tmp_path / "old.sqlite")
    monkeypatch.setattr(store_module, "may_write", lambda path: False)
    with open_store(path) as store, pytest.raises(StoreError, match="schema 1.*copy it"):
        store.list_runs()


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    with open_store(path) as store:
        with pytest.raises(StoreFormatError, match="another program"):
            store.new_run(command="test")
        with pytest.raises(StoreFormatError, match="another program"):
            store.list_runs()
    with sqlite3.connect(path) as connection:
        assert [row[0] for row in connection.execute("SELECT name FROM sqlite_master")] == ["bookmarks"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_store_that_may_only_be_read_is_read(what):
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own is closed to other users
    path = filled(folder / "s.sqlite")
    path.chmod(0o444)
    folder.chmod(0o555 if what == "folder" else 0o777)

    def read_then_write() -> str:
        with open_store(path) as store:
            rows = len(store.load_run("base").launches)
            with pytest.raises(StoreError) as caught:
                store.new_run(command="test")
        return f"{rows}\n{caught.value.exit_code} {caught.value}"

    try:
        rows, *refusal = as_another_process(read_then_write, as_nobody=True).splitlines()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert rows == "20"
    assert len(refusal) == 1 and refusal[0].startswith("3 ")
    assert str(path) in refusal[0] and "GPUSIM_STORE" in refusal[0]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with open_store(tmp_path / "file" / "s.sqlite") as store:
        assert store.list_runs() == []
        with pytest.raises(StoreError, match="folder cannot be made.*GPUSIM_STORE"):
            store.new_run(command="test")


def test_a_folder_is_no_store_and_the_file_to_name_is_said(tmp_path):
    said = "is a folder; name a file in it with GPUSIM_STORE, such as .*store.sqlite"
    with pytest.raises(StoreError, match=said), open_store(tmp_path) as store:
        store.list_runs()


def test_a_server_that_is_not_there_is_one_line():
    pytest.importorskip("psycopg")
    with open_store("postgresql://me:secret@127.0.0.1:1/db") as store, pytest.raises(StoreError) as caught:
        store.list_runs()
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)
    assert "me:***@127.0.0.1" in str(caught.value) and caught.value.exit_code == 3
