"""Mutations of a trace file below its hashes: what its members say changes, and their sizes and SHA-256 are mended.

Mental model: a damaged trace is stopped by its hashes, so that byte mutations of the file test little but the zip
reader. Here the archive is opened, a field of the header, a field of an instruction, a count or a number of a coded
chunk, or a field of a decoded chunk becomes another, and the archive is closed again as :mod:`gpusim.trace.file` would.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from fuzzing.byte_mutations import WHOLE, mutate_bytes
from fuzzing.json_mutations import mutate_value
from gpusim.trace import coding
from gpusim.trace.file import HEADER, INSTRUCTIONS, PROGRAM, TABLE_COLUMNS
from gpusim.trace.layout import INSTRUCTION, Chunk, Program
from gpusim.trace.varint import LONGEST_BYTES, pack, unpack

_COUNTS = len(coding.COUNTS)
_PREFIX_BYTES = 8 * (_COUNTS + len(coding.COLUMNS))
#: Bytes of the header that NumPy writes before an array of one dimension.
_LARGEST_CHUNK = 1 << 16


def mutate_trace(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another trace whose hashes hold; a tenth of the time other bytes."""
    if rng.random() < 0.1:
        return mutate_bytes(data, rng, others)
    try:
        members = _members(data)
        header = json.loads(members[HEADER])
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            rng.choice(_MUTATIONS)(members, header, rng)
        return _archive(members, header, rng)
    except Exception:  # no trace any more: whatever a reader of damaged bytes raises
        return mutate_bytes(data, rng, others)


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(info.file_size for info in archive.infolist()) > 4 << 20:
            raise ValueError("too large to play with")
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(members: dict[str, bytes], header: dict, rng: Random) -> bytes:
    told = header.get("members")
    if isinstance(told, dict):
        for name, content in members.items():
            if isinstance(told.get(name), dict):
                told[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), json.dumps(header) if name == HEADER else content)
    return out.getvalue()


def _launch(members: dict[str, bytes], header: dict, rng: Random) -> None:
    """A fact of the launch, as a capture might state it, or anything."""
    launch = header["launch"]
    if rng.random() < 0.5:
        mutate_value(launch, rng)
        return
    name = rng.choice(
        ("grid", "block", "registers_per_thread", "shared_bytes", "local_bytes", "allocations", "cooperative")
    )
    if name in ("grid", "block"):
        launch[name][rng.randrange(3)] = rng.choice((0, 1, 2, 3, 4, 31, 33, 64, 1023, 65535, *WHOLE))
    elif name == "allocations":
        launch[name].append([rng.choice(WHOLE), rng.choice(WHOLE)])
    elif name == "cooperative":
        launch[name] = not launch[name]
    else:
        launch[name] = rng.choice((0, 1, 16, 255, 256, 1024, 49152, 65536, 166912, 232448, 1 << 20))


def _header(members: dict[str, bytes], header: dict, rng: Random) -> None:
    mutate_value(header, rng)


def _texts(members: dict[str, bytes], header: dict, rng: Random) -> None:
    texts = json.loads(members[PROGRAM])
    mutate_value(texts, rng)
    members[PROGRAM] = json.dumps(texts).encode()


def _instruction(members: dict[str, bytes], header: dict, rng: Random) -> None:
    """A field of an instruction, mostly to a value that some instruction might have."""
    prefix, code = _code(members)
    rows = code.view(np.uint8).reshape(len(code), -1)
    row = rng.randrange(len(code))
    what = rng.random()
    if what < 0.7:
        name = rng.choice(INSTRUCTION.names or ())
        code[name].reshape(len(code), -1)[row] = _fitting(code.dtype[name].base, rng)
    elif what < 0.8:
        rows[row, rng.randrange(rows.shape[1])] = rng.randrange(256)
    elif what < 0.9:
        code[row] = code[rng.randrange(len(code))]
    else:
        rows = rows[: rng.randrange(len(code))]
    members[INSTRUCTIONS] = (mutate_bytes(prefix, rng, ()) if rng.random() < 0.05 else prefix) + rows.tobytes()


def _fitting(kind: np.dtype, rng: Random) -> int:
    limits = np.iinfo(kind)
    value = rng.choice((rng.randrange(20), rng.randrange(256), int(limits.max), int(limits.min), rng.choice(WHOLE), -1))
    return min(max(value, int(limits.min)), int(limits.max))


def _payload(members: dict[str, bytes], header: dict, rng: Random) -> None:
    """A count, or a number of a column, of a coded chunk."""
    name = _chunk_name(members, rng)
    payload = members[name]
    prefix = np.frombuffer(payload[:_PREFIX_BYTES], "<i8").copy()
    counts: dict[str, int] = dict(zip(coding.COUNTS, map(int, prefix), strict=False))
    columns, place = {}, _PREFIX_BYTES
    for column, length in zip(coding.COLUMNS, map(int, prefix[_COUNTS:]), strict=True):
        columns[column] = payload[place : place + length]
        place += length
    if rng.random() < 0.3:
        i = rng.randrange(len(prefix))
        prefix[i] = rng.choice((int(prefix[i]) + 1, int(prefix[i]) - 1, 0, -1, rng.choice(WHOLE[:-2])))
        members[name] = prefix.tobytes() + payload[_PREFIX_BYTES:]
        return
    column = rng.choice([each for each in columns if columns[each]] or list(columns))
    if rng.random() < 0.3:
        columns[column] = mutate_bytes(columns[column], rng, ())[: LONGEST_BYTES * len(payload)]
    else:
        values = unpack(np.frombuffer(columns[column], np.uint8), counts[coding.COLUMNS[column]], column)  # pyright: ignore[reportArgumentType] - a TypedDict
        if len(values):
            i = rng.randrange(len(values))
            values[i] = rng.choice(
                (values[i] + 1, values[i] - 1, 0, -values[i], rng.choice(WHOLE[:-2]), rng.randrange(64))
            )
        columns[column] = pack(values)
    prefix[_COUNTS:] = [len(each) for each in columns.values()]
    members[name] = prefix.tobytes() + b"".join(columns.values())


def _chunk(members: dict[str, bytes], header: dict, rng: Random) -> None:
    """A field of a decoded chunk, coded again, with the header's table and paths that still add up."""
    name = _chunk_name(members, rng)
    program = Program(_code(members)[1], ())
    chunk = coding.decode_chunk(members[name], program)
    what = rng.choice(("mask", "stride", "address", "path", "run", "open_blocks", "lanes"))
    if what in ("mask", "stride", "address") and len(chunk.accesses):
        rows = rng.choice((slice(None), rng.randrange(len(chunk.accesses))))
        limits = np.iinfo(chunk.accesses.dtype[what])
        value = rng.choice((0, 1, 4, 128, rng.randrange(1 << 20), int(limits.max), rng.choice(WHOLE)))
        chunk.accesses[what][rows] = min(value, int(limits.max))
    elif what == "path":
        paths = len(chunk.path_start) - 1
        chunk = _with_paths(chunk, [rng.randrange(paths) for _ in chunk.warps], program)
    elif what == "run" and len(chunk.runs):
        chunk.runs["mask"][rng.randrange(len(chunk.runs))] = rng.choice((0, 1, 0xFFFF, 0xFFFFFFFF))
    elif what == "open_blocks":
        chunk = replace(chunk, open_blocks=rng.randrange(chunk.blocks + 1))
    elif len(chunk.scattered):
        chunk.scattered[rng.randrange(len(chunk.scattered)), rng.randrange(32)] = rng.choice(WHOLE)
    members[name] = coding.encode_chunk(chunk, program)
    table = header["chunks"][int(name.removeprefix("chunk"))]
    table[:] = [getattr(chunk, column) for column in TABLE_COLUMNS]


def _with_paths(chunk: Chunk, paths: list[int], program: Program) -> Chunk:
    wanted = coding.records_by_path(chunk.runs, chunk.path_start, program.instructions)[paths]
    if int(wanted.sum()) > len(chunk.accesses):
        return chunk
    warps = chunk.warps.copy()
    warps["path"], warps["access_count"] = paths, wanted
    warps["access_start"] = np.cumsum(wanted) - wanted
    return replace(chunk, warps=warps, accesses=chunk.accesses[: int(wanted.sum())])


def _blocks(members: dict[str, bytes], header: dict, rng: Random) -> None:
    """One more chunk, or one fewer: a copy of one that there is."""
    table = header["chunks"]
    if rng.random() < 0.5 and len(table) > 1:
        table.pop()
        name = f"chunk{len(table):06d}"
        members.pop(name, None)
        header["members"].pop(name, None)
    else:
        name = f"chunk{len(table):06d}"
        members[name] = members[_chunk_name(members, rng)]
        header["members"][name] = {}
        table.append(list(rng.choice(table)))


def _chunk_name(members: dict[str, bytes], rng: Random) -> str:
    return rng.choice([name for name in members if name.startswith("chunk") and len(members[name]) < _LARGEST_CHUNK])


def _code(members: dict[str, bytes]) -> tuple[bytes, np.ndarray]:
    """The header of the array of instructions, and the array."""
    content = members[INSTRUCTIONS]
    start = 10 + int.from_bytes(content[8:10], "little")
    return content[:start], np.frombuffer(bytearray(content[start:]), INSTRUCTION)


_MUTATIONS = (_launch, _header, _texts, _instruction, _instruction, _payload, _payload, _chunk, _chunk, _blocks)
