"""A trace that is well formed but makes no sense gives a gpusim error, or a result: never anything else.

The chunks here pass :func:`gpusim.trace.validate.check_chunk`; what they say of the launch is what no capture says.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_examples import example_trace

from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError, TraceFormatError
from gpusim.trace import coding, file
from gpusim.trace.record import Chunk, Trace
from gpusim.trace.validate import check_chunk, records_by_path
from gpusim.trace.varint import pack

TRACE = example_trace(blocks=4, blocks_per_chunk=4, seed=3)


def without_runs(chunk: Chunk, paths: int) -> Chunk:
    """The chunk with ``paths`` paths of no run, which all its warps take."""
    warps = chunk.warps.copy()
    warps["path"] = np.arange(len(warps)) % paths
    warps["access_start"] = warps["access_count"] = 0
    return replace(
        chunk,
        warps=warps,
        runs=chunk.runs[:0],
        path_start=np.zeros(paths + 1, np.int64),
        accesses=chunk.accesses[:0],
        scattered=chunk.scattered[:0],
    )


def simulated_or_refused(chunks: list[Chunk]) -> None:
    block = open_before = 0
    for chunk in chunks:
        check_chunk(chunk, TRACE.launch, TRACE.program, block, open_before)
        block, open_before = chunk.first_block + chunk.blocks - chunk.open_blocks, chunk.open_blocks
    try:
        assert simulate(Trace(TRACE.program, TRACE.launch, chunks), gpu="h200").cycles > 0
    except GpusimError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("open_blocks", [0, 1, 4])
def test_a_first_chunk_without_a_run_is_refused_or_simulated(open_blocks: int) -> None:
    (chunk,) = TRACE.chunks()
    empty = replace(without_runs(chunk, 2), open_blocks=open_blocks)
    follows = replace(
        chunk,
        first_block=4 - open_blocks,
        blocks=open_blocks,
        warps=chunk.warps[: open_blocks * TRACE.launch.warps_per_block],
    )
    simulated_or_refused([empty, follows] if open_blocks else [empty])


@settings(max_examples=25)
@given(st.data())
def test_parts_in_any_order_and_of_any_length_are_refused_or_simulated(data) -> None:
    (chunk,) = TRACE.chunks()
    per_block, chunks, first, carried = TRACE.launch.warps_per_block, [], 0, 0
    by_path = records_by_path(chunk.runs, chunk.path_start, TRACE.program.instructions)
    while first < 4:
        blocks = data.draw(st.integers(max(1, carried), 4 - first))
        open_blocks = data.draw(st.integers(0, blocks)) if len(chunks) < 5 else 0
        warps = chunk.warps[: blocks * per_block].copy()
        warps["path"] = data.draw(st.lists(st.integers(0, len(by_path) - 1), min_size=len(warps), max_size=len(warps)))
        warps["access_count"] = by_path[warps["path"]]
        warps["access_start"] = 0
        part = replace(chunk, first_block=first, blocks=blocks, warps=warps, open_blocks=open_blocks)
        if data.draw(st.booleans()):
            part = without_runs(part, 1)
        if len(part.accesses) < int(part.warps["access_count"].max(initial=0)):
            continue
        chunks.append(part)
        first, carried = first + blocks - open_blocks, open_blocks
    simulated_or_refused(chunks)


def saved(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    path = tmp_path / "t.trace"
    TRACE.save(path)
    archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    return path, {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("header", [b"{'descr': (((\n", b"{'descr'\x00: 1}\n", b"\\\n", b"'''\n", b"{'shape': (1,)}\n"])
def test_an_array_header_that_python_cannot_read_is_refused(header: bytes, monkeypatch, tmp_path: Path) -> None:
    """NumPy's reader of a .npy header raises what Python's tokenizer does."""
    path, members = saved(tmp_path)
    monkeypatch.setattr(file, "_get", lambda archive, listed, name, limit: forged if "npy" in name else members[name])
    forged = bytearray(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(TraceFormatError, match=r"t\.trace"):
        Trace.load(path)


def test_lanes_without_patterns_are_refused_before_they_are_unpacked(monkeypatch) -> None:
    """A column that no array of the chunk bounds: 800 KB of deflated zeros asked for 11 GiB."""
    (chunk,) = TRACE.chunks()
    payload = coding.encode_chunk(chunk, TRACE.program)
    prefix = np.frombuffer(payload, "<i8", len(coding.COUNTS) + len(coding.COLUMNS)).copy()
    lanes = 1 << 20
    prefix[coding.COUNTS.index("pattern_lanes")] += lanes
    prefix[-1] += lanes
    monkeypatch.setattr(coding, "unpack", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(TraceFormatError, match="pattern_lanes"):
        coding.decode_chunk(
            prefix.tobytes() + payload[prefix.nbytes :] + pack(np.zeros(lanes, np.int64)), TRACE.program
        )
