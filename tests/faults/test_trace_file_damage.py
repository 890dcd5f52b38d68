"""A damaged trace file is refused in one line; a write that fails leaves what was there before."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import textwrap
import tty
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_examples import assert_same_trace, example_trace

import gpusim
from gpusim.errors import TraceFormatError, UsageError
from gpusim.io.whole_file import replacing
from gpusim.trace import coding, file
from gpusim.trace.record import Chunk, Trace
from gpusim.trace.validate import check_chunk

TRACE = example_trace(blocks=2, instructions=3, seed=7)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "t.trace"
    TRACE.save(path)
    return path.read_bytes()


def loads_equal_or_refuses(path: Path) -> bool:
    """True if the file was refused properly, False if it loaded equal; anything else fails."""
    try:
        loaded = Trace.load(path)
        assert_same_trace(TRACE, loaded)
    except TraceFormatError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return True
    return False


def test_every_truncation_is_refused(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    for length in range(0, len(saved), 7):
        path.write_bytes(saved[:length])
        assert loads_equal_or_refuses(path), f"cut at {length} of {len(saved)} bytes"


def test_every_missing_piece_is_refused(saved: bytes, tmp_path: Path) -> None:
    # The directory at the end then says that members begin elsewhere, before the file even.
    path = tmp_path / "t.trace"
    for start in range(0, len(saved) - 25, 97):
        path.write_bytes(saved[:start] + saved[start + 25 :])
        assert loads_equal_or_refuses(path), f"without bytes {start} to {start + 25} of {len(saved)}"


@given(data=st.data())
def test_a_flipped_bit_is_refused_or_harmless(data, saved: bytes, tmp_path_factory) -> None:
    bits = data.draw(st.lists(st.integers(0, len(saved) * 8 - 1), min_size=1, max_size=8))
    damaged = bytearray(saved)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("flip") / "t.trace"
    path.write_bytes(damaged)
    loads_equal_or_refuses(path)


def test_most_flipped_bytes_are_noticed(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    places = range(0, len(saved), 11)
    noticed = 0
    for place in places:
        damaged = bytearray(saved)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        noticed += loads_equal_or_refuses(path)
    # What may go unnoticed is what does not matter: dates, attributes, local copies of sizes.
    assert noticed > 0.7 * len(places)


@given(junk=st.binary(max_size=300))
def test_any_bytes_that_are_no_trace_are_refused(junk: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("junk") / "t.trace"
    path.write_bytes(junk)
    with pytest.raises(TraceFormatError):
        Trace.load(path)


def rewritten(saved: bytes, path: Path, change: Callable[[dict], object]) -> Path:
    """Write the file again with ``change(header)`` applied to its header, hashes left as they are."""
    source = zipfile.ZipFile(io.BytesIO(saved))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            data = source.read(name)
            if name == file.HEADER:
                header = json.loads(data)
                change(header)
                data = json.dumps(header).encode()
            target.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(version=99), "version 99"),
        (lambda h: h.update(magic="other"), "magic"),
        (lambda h: h["launch"].update(grid=[0, 1, 1]), "grid"),
        (lambda h: h["launch"].update(grid=[2**40, 1, 1]), "grid"),
        (lambda h: h["launch"].update(block=[2048, 1, 1]), "block"),
        (lambda h: h["launch"].update(grid=[True, 1, 1]), "grid"),
        (lambda h: h["launch"].update(kernel=3), "kernel"),
        (lambda h: h["launch"].update(extra=3), "keys"),
        (lambda h: h["launch"].pop("grid"), "keys"),
        (lambda h: h["launch"].update(allocations=[[0]]), "allocations"),
        (lambda h: h.update(chunks=h["chunks"][:1] * 2), "members"),
        (lambda h: h.update(chunks=[[0, 2**61, 0, 1]]), "grid"),
        (lambda h: h.update(chunks=[["0", 2, 0, 1]]), "count"),
        (lambda h: h.update(chunks=[[0, 2]]), "counts"),
        (lambda h: h["chunks"][0].__setitem__(3, 5), "table"),
        (lambda h: h.update(version=2), "version 2, .*capture the kernel again"),
        (lambda h: h["members"][file.INSTRUCTIONS].update(bytes=2**40), "bytes"),
        (lambda h: h["members"][file.INSTRUCTIONS].update(sha256="0"), "hash"),
        (lambda h: h.update(more=1), "keys"),
        (lambda h: h.update(members=[]), "members"),
    ],
)
def test_a_header_that_lies_is_refused(change, message: str, saved: bytes, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "t.trace", change)
    with pytest.raises(TraceFormatError, match=message):
        list(Trace.load(path).chunks())


def test_a_pickle_in_place_of_an_array_is_not_opened(saved: bytes, tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    path = _with_member(saved, tmp_path / "t.trace", file.INSTRUCTIONS, stream.getvalue())
    with pytest.raises(TraceFormatError, match="instructions"):
        Trace.load(path)


def test_a_bomb_is_refused_before_it_is_unpacked(saved: bytes, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(file, "MAX_ARRAY_BYTES", 1 << 16)
    path = _with_member(saved, tmp_path / "t.trace", file.INSTRUCTIONS, b"\0" * (1 << 20))
    with pytest.raises(TraceFormatError, match="bytes"):
        Trace.load(path)


def _with_member(saved: bytes, path: Path, member: str, data: bytes) -> Path:
    """The file with one member's content replaced and its hash and size made to agree."""
    source = zipfile.ZipFile(io.BytesIO(saved))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name == member:
                content = data
            if name == file.HEADER:
                header = json.loads(content)
                entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                header["members"][member] = entry
                content = json.dumps(header).encode()
            target.writestr(name, content)
    return path


CHUNK = "chunk000000"


def chunk_payload(saved: bytes) -> bytearray:
    return bytearray(zipfile.ZipFile(io.BytesIO(saved)).read(CHUNK))


@pytest.mark.parametrize("name", coding.COUNTS)
@pytest.mark.parametrize("value", [-1, 0, 3, 2**31, 2**62])
def test_a_chunk_whose_counts_lie_is_refused(name: str, value: int, saved: bytes, tmp_path: Path) -> None:
    """With a hash that agrees: what is checked is the content."""
    payload = chunk_payload(saved)
    counts = np.frombuffer(payload, "<i8", len(coding.COUNTS)).copy()
    if counts[coding.COUNTS.index(name)] == value:
        value += 1
    counts[coding.COUNTS.index(name)] = value
    payload[: counts.nbytes] = counts.tobytes()
    path = _with_member(saved, tmp_path / "t.trace", CHUNK, bytes(payload))
    with pytest.raises(TraceFormatError):
        list(Trace.load(path).chunks())


@given(data=st.data())
def test_a_chunk_with_changed_bytes_is_refused_or_consistent(data, saved: bytes, tmp_path_factory) -> None:
    """Whatever a forger puts into the columns, the engine's indices stay inside their arrays."""
    payload = chunk_payload(saved)
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=6)):
        payload[place] = data.draw(st.integers(0, 255))
    path = _with_member(saved, tmp_path_factory.mktemp("forged") / "t.trace", CHUNK, bytes(payload))
    with contextlib.suppress(TraceFormatError):
        trace = Trace.load(path)
        block = 0
        for chunk in trace.chunks():
            check_chunk(chunk, trace.launch, trace.program, block)
            block += chunk.blocks


def test_a_chunk_that_would_unpack_to_too_much_is_refused_before_it_is_allocated(
    saved: bytes, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(coding, "MAX_ARRAY_BYTES", 64)
    path = tmp_path / "t.trace"
    path.write_bytes(saved)
    with pytest.raises(TraceFormatError, match="a chunk may hold 64"):
        list(Trace.load(path).chunks())


def damaged_chunk(**fields) -> Trace:
    first, *rest = TRACE.chunks()
    return Trace(TRACE.program, TRACE.launch, [replace(first, **fields), *rest])


def changed(array: np.ndarray, field: str, value: int) -> np.ndarray:
    copy = array.copy()
    copy[field][0] = value
    return copy


@pytest.mark.parametrize(
    "make",
    [
        lambda c: {"warps": changed(c.warps, "path", 77)},
        lambda c: {"warps": changed(c.warps, "access_start", 2**64 - 1)},
        lambda c: {"warps": changed(c.warps, "access_count", 2**32 - 1)},
        lambda c: {"warps": c.warps[:-1]},
        lambda c: {"runs": changed(c.runs, "first", 2**32 - 1)},
        lambda c: {"runs": changed(c.runs, "count", 0)},
        lambda c: {"path_start": c.path_start + 1},
        lambda c: {"path_start": c.path_start.astype(np.int32)},
        lambda c: {"scattered": c.scattered[:, :16]},
        lambda c: {"first_block": 1},
        lambda c: {"blocks": 0},
        lambda c: {"open_blocks": -1},
        lambda c: {"open_blocks": c.blocks + 1},
    ],
)
def test_an_inconsistent_chunk_is_refused_by_name(make, tmp_path: Path) -> None:
    chunk: Chunk = next(TRACE.chunks())
    with pytest.raises(TraceFormatError, match="chunk at block"):
        damaged_chunk(**make(chunk)).save(tmp_path / "t.trace")
    assert not list(tmp_path.iterdir()), "nothing may be left behind"


@pytest.mark.parametrize(("field", "value"), [("pipe", 200), ("records", 9), ("write_barrier", 6), ("file", 5)])
def test_an_instruction_with_an_unknown_code_is_refused(field: str, value: int, tmp_path: Path) -> None:
    program = replace(TRACE.program, instructions=changed(TRACE.program.instructions, field, value))
    with pytest.raises(TraceFormatError, match=f"instruction 0 has {field} = {value}"):
        Trace(program, TRACE.launch, TRACE.chunk_list).save(tmp_path / "t.trace")


def test_a_trace_that_lacks_blocks_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    TRACE.save(path)
    before = path.read_bytes()
    short = Trace(TRACE.program, replace(TRACE.launch, grid=(9, 1, 1)), TRACE.chunk_list)
    with pytest.raises(TraceFormatError, match="blocks"):
        short.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_open_block_must_go_on(tmp_path: Path) -> None:
    trace = example_trace(blocks=4)
    trace.chunk_list[0] = replace(trace.chunk_list[0], open_blocks=1)
    with pytest.raises(TraceFormatError, match="chunk at block 2 follows where block 1 should"):
        trace.save(tmp_path / "t.trace")
    trace = example_trace(blocks=4)
    trace.chunk_list[1] = replace(trace.chunk_list[1], open_blocks=1)
    with pytest.raises(TraceFormatError, match="3 blocks of a grid of 4"):
        trace.save(tmp_path / "t.trace")


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "t.trace"
    TRACE.save(path)
    before = path.read_bytes()

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        example_trace(seed=11).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    TRACE.save(path)
    script = textwrap.dedent(
        """
        import os, signal, sys
        from gpusim.trace.record import Trace
        from trace_examples import example_trace
        trace = example_trace(seed=12)
        def chunks():
            for index, chunk in enumerate(trace.chunk_list):
                if index == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield chunk
        Trace(trace.program, trace.launch, chunks()).save(sys.argv[1])
        """
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'tests' / 'support'}"},
    )
    assert run.returncode == -signal.SIGKILL
    assert_same_trace(TRACE, Trace.load(path))


def test_a_missing_file_is_an_ordinary_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "none.trace")


def test_writing_into_a_folder_that_is_not_there_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="t.trace"):
        TRACE.save(tmp_path / "no" / "t.trace")


def test_a_device_is_written_to_and_never_replaced():
    """What a superuser who asks for /dev/null as the output would otherwise do to the machine."""
    reader, writer = pty.openpty()
    tty.setraw(writer)
    device = Path(os.ttyname(writer))
    try:
        with replacing(device) as stream:
            stream.write(b"whole")
        assert stat.S_ISCHR(device.stat().st_mode)
        assert os.read(reader, 100) == b"whole"
        assert not list(device.parent.glob(f".{device.name}.*"))
    finally:
        os.close(reader)
        os.close(writer)


def test_a_signal_while_a_member_begins_leaves_nothing_that_completes_the_file_later(tmp_path, monkeypatch):
    reports = []

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(str(report.exc_value)))
    with monkeypatch.context() as patch:
        patch.setattr(zipfile._ZipWriteFile, "__init__", interrupted)
        with contextlib.suppress(KeyboardInterrupt, ValueError):  # the library hides the one behind the other
            TRACE.save(tmp_path / "t.trace")
        gc.collect()
    assert reports == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["saxpy.trace", Path("saxpy.trace"), [Path("saxpy.trace")], [None]])
def test_what_is_no_trace_is_refused_with_what_opens_one(given) -> None:
    with pytest.raises(UsageError, match=r"takes traces, not .*Trace\.load"):
        gpusim.simulate(given, gpu="h200")
