"""The trace file: a zip of coded chunks under a JSON header that names and hashes each of them.

Mental model: a file is either wholly there or not there. It is written chunk by chunk to a temporary
neighbour and renamed over the target at the end; it is read chunk by chunk, and every member is
checked for size, hash, dtype, shape and indices before the engine sees it. Nothing in it is executed:
no pickle, no eval.

Members. ``instructions.npy`` INSTRUCTION[n]; ``program.json`` with the SASS texts and source files;
``chunk000000`` and so on, coded as in :mod:`gpusim.trace.coding`; ``header.json`` (written last, since it
holds the sha256 and size of the others): magic, version, launch, chunk table (first block, blocks, open
blocks, warp instructions). Members are deflated at level 1 and carry no dates, so equal traces give equal
files.

Raises :class:`TraceFormatError`, one line that names the file and what is wrong with it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.io.records import read_json
from gpusim.io.whole_file import replacing
from gpusim.trace.coding import decode_chunk, encode_chunk
from gpusim.trace.layout import INSTRUCTION, TRACE_VERSION, Chunk, Launch, Program
from gpusim.trace.regular import RegularBlocks
from gpusim.trace.regular_file import arrays_of, header_of, read_regular
from gpusim.trace.regular_file import members as regular_members
from gpusim.trace.validate import check_chunk, check_launch, check_program, refuse

MAGIC = "gpusim-trace"
#: Versions that can be read: one of version 4 says how often warps polled as the emulator made them do; those of
#: versions 4 and 5 have no clusters and no bulk copies.
VERSIONS = (4, 5, TRACE_VERSION)
#: INSTRUCTION before version 7, whose flags were fewer.
_EARLIER_INSTRUCTION = np.dtype(
    [(name, "<u2" if name == "flags" else INSTRUCTION[name]) for name in INSTRUCTION.names or ()]
)
#: One of these versions holds a few blocks, from which all others follow (:mod:`gpusim.trace.regular_file`).
REGULAR_VERSIONS = (6, 8)
HEADER = "header.json"
PROGRAM = "program.json"
INSTRUCTIONS = "instructions.npy"
#: Ceilings on what a file may ask us to hold at once; a real chunk is some megabytes.
MAX_HEADER_BYTES = 64 << 20
MAX_PROGRAM_BYTES = 256 << 20
MAX_ARRAY_BYTES = 64 << 20
MAX_CHUNK_BYTES = 512 << 20
#: What reading foreign bytes can throw at us through zipfile, zlib, json and NumPy.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    UnicodeError,
    RuntimeError,  # of zipfile, for an encryption or a compression that it lacks; of json, for what is nested too deeply
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    OverflowError,
    SyntaxError,
    tokenize.TokenError,  # NumPy's reader of an array's header
)
TABLE_COLUMNS = ("first_block", "blocks", "open_blocks", "warp_instructions")
_LAUNCH_TYPES = {
    "kernel": str,
    "capability": (int, 2),
    "grid": (int, 3),
    "block": (int, 3),
    "registers_per_thread": int,
    "shared_bytes": int,
    "local_bytes": int,
    "cubin_sha256": str,
    "gpu": str,
    "toolchain": str,
    "shared_window": int,
    "local_window": int,
    "allocations": [(int, 2)],
    "cooperative": bool,
    "cluster": (int, 3),
    "dependent": bool,
}


class NewArchive(zipfile.ZipFile):
    """A zip file that is being written, and that nothing but its ``with`` completes.

    The library's own completes itself when it is collected as well: one that a signal stopped half-way would do so
    after its stream has been closed, and Python would report that as an exception nobody can catch.
    """

    def __del__(self) -> None:
        pass


def write(path: str | os.PathLike[str], program: Program, launch: Launch, chunks: Iterable[Chunk]) -> None:
    """Write a trace file, pulling ``chunks`` one by one; atomic, or the old file stays as it was."""
    target = Path(path)
    check_launch(launch)
    check_program(program)
    with replacing(target) as stream, NewArchive(stream, "w") as archive:
        members: dict[str, dict] = {}
        _put_array(archive, members, INSTRUCTIONS, program.instructions)
        texts = {"texts": list(program.texts), "files": list(program.files)}
        _put(archive, members, PROGRAM, [json.dumps(texts).encode()])
        table, block, open_blocks = [], 0, 0
        for index, chunk in enumerate(chunks):
            check_chunk(chunk, launch, program, block, open_blocks)
            block, open_blocks = chunk.first_block + chunk.blocks - chunk.open_blocks, chunk.open_blocks
            _put(archive, members, _member(index), [encode_chunk(chunk, program)])
            table.append([getattr(chunk, name) for name in TABLE_COLUMNS])
        if block != launch.blocks:
            raise refuse(f"the chunks hold {block} blocks of a grid of {launch.blocks}")
        header = {
            "magic": MAGIC,
            "version": TRACE_VERSION,
            "launch": launch.facts(),
            "chunks": table,
            "members": members,
        }
        _put(archive, {}, HEADER, [json.dumps(header).encode()])


def write_regular(path: str | os.PathLike[str], program: Program, launch: Launch, regular: RegularBlocks) -> None:
    """Write a trace file that holds the blocks of ``regular``; atomic, as :func:`write`."""
    check_launch(launch)
    check_program(program)
    with replacing(Path(path)) as stream, NewArchive(stream, "w") as archive:
        members: dict[str, dict] = {}
        _put_array(archive, members, INSTRUCTIONS, program.instructions)
        texts = {"texts": list(program.texts), "files": list(program.files)}
        _put(archive, members, PROGRAM, [json.dumps(texts).encode()])
        for name, array in arrays_of(regular):
            _put_array(archive, members, name, array)
        header = {
            "magic": MAGIC, "version": REGULAR_VERSIONS[-1], "launch": launch.facts(), "regular": header_of(regular),
            "members": members,
        }  # fmt: skip
        _put(archive, {}, HEADER, [json.dumps(header).encode()])


def read(path: str | os.PathLike[str]) -> tuple[Program, Launch, StoredChunks | RegularBlocks]:
    """Open a trace file: its program and launch, checked, and its chunks, to be read on demand, or the few blocks that
    it holds for all."""
    source = Path(path)
    with naming(source):
        archive = zipfile.ZipFile(source)
        try:
            header = _read_header(archive)
            launch = _launch(header["launch"])
            check_launch(launch)
            members = header["members"]
            code = _instructions(archive, members, header["version"])
            texts = read_json(bytes(_get(archive, members, PROGRAM, MAX_PROGRAM_BYTES)))
            program = Program(code, _strings(texts["texts"]), _strings(texts["files"]))
            check_program(program)
            if header["version"] in REGULAR_VERSIONS:

                def get(name: str, dtype: np.dtype) -> np.ndarray:
                    return _get_array(archive, members, name, dtype)

                regular = read_regular(header["regular"], get, program, launch)
                archive.close()
                return program, launch, regular
            chunks = StoredChunks(source, archive, program, launch, header)
        except BaseException:
            archive.close()
            raise
    return program, launch, chunks


class StoredChunks:
    """The chunks of an open trace file: iterating reads, checks and yields them one at a time.

    Holds the file open, so that the trace stays readable when its name is replaced. Iterating again
    starts over.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, program: Program, launch: Launch, header: dict) -> None:
        self._path, self._archive, self._program, self._launch = path, archive, program, launch
        self._members, self._version = header["members"], header["version"]
        self._table = [_table_row(row) for row in header["chunks"]]
        if sum(blocks - open_blocks for _, blocks, open_blocks, _ in self._table) != launch.blocks:
            raise refuse(f"its chunks do not make up the grid of {launch.blocks} blocks")

    @property
    def warp_instructions(self) -> int:
        """Warp instructions of all chunks, as the header says; each chunk is held to it when it is read."""
        return sum(instructions for *_, instructions in self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Chunk]:
        block, before = 0, 0
        for index, row in enumerate(self._table):
            with naming(self._path):
                payload = _get(self._archive, self._members, _member(index), MAX_CHUNK_BYTES)
                chunk = decode_chunk(payload, self._program, self._version)
                check_chunk(chunk, self._launch, self._program, block, before)
                if tuple(getattr(chunk, name) for name in TABLE_COLUMNS) != row:
                    raise refuse(f"chunk {index} is not the one that the header's table describes")
            block, before = chunk.first_block + chunk.blocks - chunk.open_blocks, chunk.open_blocks
            yield chunk


def _table_row(row: object) -> tuple[int, ...]:
    if not isinstance(row, list) or len(row) != len(TABLE_COLUMNS):
        raise refuse(f"{row!r} where a chunk's {len(TABLE_COLUMNS)} counts are needed")
    return tuple(_whole(value) for value in row)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one TraceFormatError that names ``path``."""
    try:
        yield
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from None
    except DAMAGE as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceFormatError(f"{path}: not a readable trace file ({detail})") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # the disk's own trouble
            raise
        raise TraceFormatError(f"{path}: not a readable trace file (it leads outside of itself)") from None
    except MemoryError:
        raise TraceFormatError(f"{path}: asks for more memory than there is") from None


def _member(index: int) -> str:
    return f"chunk{index:06d}"


def _put(archive: zipfile.ZipFile, members: dict, name: str, parts: Iterable[bytes]) -> None:
    """Write one member from byte strings or buffers and note its size and hash."""
    info = zipfile.ZipInfo(name)  # its default date is constant
    info.compress_type = zipfile.ZIP_DEFLATED
    # ZipInfo has no public way to choose the level of one member before Python 3.13.
    info._compresslevel = 1
    digest, size = hashlib.sha256(), 0
    with archive.open(info, "w", force_zip64=True) as stream:
        for part in parts:
            stream.write(part)
            digest.update(part)
            size += len(part)
    members[name] = {"bytes": size, "sha256": digest.hexdigest()}


def _put_array(archive: zipfile.ZipFile, members: dict, name: str, array: np.ndarray) -> None:
    prefix = io.BytesIO()
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(prefix, np.lib.format.header_data_from_array_1_0(array))
    body = memoryview(array.reshape(-1).view(np.uint8)) if array.nbytes else b""
    _put(archive, members, name, [prefix.getvalue(), body])


def _read_header(archive: zipfile.ZipFile) -> dict:
    header = read_json(bytes(_get(archive, None, HEADER, MAX_HEADER_BYTES)))
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise refuse("not a gpusim trace (no magic in its header)")
    if header.get("version") not in (*VERSIONS, *REGULAR_VERSIONS) or type(header["version"]) is not int:
        raise refuse(
            f"trace version {header.get('version')!r}, this gpusim reads versions {VERSIONS[0]} to {REGULAR_VERSIONS[-1]}: "
            "capture the kernel again"
        )
    content = "regular" if header["version"] in REGULAR_VERSIONS else "chunks"
    if set(header) != {"magic", "version", "launch", content, "members"}:
        raise refuse(f"header has the keys {sorted(header)}")
    expected = {PROGRAM, INSTRUCTIONS}
    if content == "regular":
        expected |= set(regular_members(len(header["regular"]["classes"])))
    else:
        expected |= {_member(i) for i in range(len(header["chunks"]))}
    names = archive.namelist()
    if set(header["members"]) != expected or sorted(names) != sorted(expected | {HEADER}):
        raise refuse("its members are not the ones that its header lists")
    return header


def _get(archive: zipfile.ZipFile, members: dict | None, name: str, limit: int) -> bytearray:
    """The bytes of one member, of the size and hash that the header says (when there is one)."""
    info = archive.getinfo(name)
    size = info.file_size if members is None else _whole(members[name]["bytes"])
    if size != info.file_size or size > limit:
        raise refuse(f"{name} has {info.file_size} bytes; {min(size, limit)} are allowed")
    data = bytearray(size)
    with archive.open(info) as stream:
        view, filled = memoryview(data), 0
        while filled < size:
            got = stream.readinto(view[filled:])
            if not got:
                raise refuse(f"{name} ends after {filled} of {size} bytes")
            filled += got
        if stream.read(1):
            raise refuse(f"{name} is longer than the {size} bytes it declares")
    if members is not None and hashlib.sha256(data).hexdigest() != members[name]["sha256"]:
        raise refuse(f"{name} does not have the content that the header's hash names")
    return data


def _get_array(archive: zipfile.ZipFile, members: dict, name: str, dtype: np.dtype) -> np.ndarray:
    data = _get(archive, members, name, MAX_ARRAY_BYTES)
    prefix = io.BytesIO(data[:65536])
    if np.lib.format.read_magic(prefix) != (1, 0):
        raise refuse(f"{name} is not a version 1.0 .npy array")
    shape, _, found = np.lib.format.read_array_header_1_0(prefix)
    if found != dtype or len(shape) != 1:
        raise refuse(f"{name} holds {found}{list(shape)}, not {dtype}")
    if _whole(shape[0]) * dtype.itemsize != len(data) - prefix.tell():
        raise refuse(f"{name} declares shape {shape} for {len(data) - prefix.tell()} bytes")
    # frombuffer on a bytearray is writable, as are captured arrays: jitted code sees one type only.
    return np.frombuffer(data, dtype, offset=prefix.tell())


def _instructions(archive: zipfile.ZipFile, members: dict, version: int) -> np.ndarray:
    if version in (TRACE_VERSION, REGULAR_VERSIONS[-1]):
        return _get_array(archive, members, INSTRUCTIONS, INSTRUCTION)
    return _get_array(archive, members, INSTRUCTIONS, _EARLIER_INSTRUCTION).astype(INSTRUCTION)


def _launch(entry: dict) -> Launch:
    entry = {"cluster": [1, 1, 1], "dependent": False, **entry}  # from before clusters; most depend on none
    if set(entry) != {f.name for f in fields(Launch)}:
        raise refuse(f"launch has the keys {sorted(entry)}")
    return Launch(**{name: _typed(name, entry[name], kind) for name, kind in _LAUNCH_TYPES.items()})


def _typed(name: str, value: object, kind: object) -> object:
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise refuse(f"launch {name} is {value!r}")
        return tuple(_typed(name, item, kind[0]) for item in value)
    if isinstance(kind, tuple):
        if not isinstance(value, list) or len(value) != kind[1]:
            raise refuse(f"launch {name} is {value!r}")
        return tuple(_typed(name, item, kind[0]) for item in value)
    if type(value) is not kind:  # bool is an int, and must not pass for one
        raise refuse(f"launch {name} is {value!r}")
    return value


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise refuse(f"{value!r} where a count is needed")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refuse("program.json holds something else than lists of strings")
    return tuple(value)
