"""The calls of a measurement and their answers as a file: recorded where there is a GPU, replayed where there is none.

Mental model: a session is the list of calls that a measurement made, each with its answer. :class:`RecordingDriver`
stands before any driver and writes the list; :class:`ReplayDriver` is a driver that gives the recorded answers and
refuses a call that the recording does not have next. So the same code measures on silicon and in a test.

One JSON value a line: a header, then ``[method, arguments, answer]``. Machine code is kept as its hash, other bytes
that go to the GPU as size and SHA-256, bytes that come back as base64 of deflated data. Raises MeasurementFormatError
with the line for a damaged file, SiliconError for a run that leaves the recording.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, TextIO, get_type_hints

import numpy as np

from gpusim.errors import MeasurementFormatError, SiliconError
from gpusim.io.owned_names import owned_path
from gpusim.io.records import as_record, nested_beyond, parse_record
from gpusim.io.shown import shown
from gpusim.io.whole_file import naming_file
from gpusim.isa.binary.cubin import load_kernel
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.measure.driver import DeviceFacts, Driver

FORMAT, VERSION = "gpusim-driver-session", 2
MAX_FILE_BYTES = 512 << 20
MAX_ARRAY_BYTES = 256 << 20
#: Nesting of a call's arguments and answer.
MOST_LEVELS = 20
#: Everything that a Driver does, but for close().
METHODS = (
    "facts", "now_seconds", "allocate", "free", "upload", "download", "copy", "fill", "load", "bind", "launch",
    "event", "record", "has_passed", "elapsed_us", "synchronize", "throttle_reasons", "profile", "trace", "traced",
)  # fmt: skip

#: A line of a session: method, arguments, answer.
_Call = tuple[str, list[Any], Any]


class RecordingDriver:
    """A Driver that passes every call on to ``driver`` and writes it down; ``close`` ends both."""

    def __init__(self, driver: Driver, path: Path):
        self._driver, self._path = driver, path
        self._part = owned_path(path, ".part")  # takes the name when the session is whole
        self._stream: TextIO = open(self._part, "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._write({"format": FORMAT, "version": VERSION})
        for name in METHODS:
            setattr(self, name, self._recording(name))

    def _recording(self, name: str) -> Any:
        method = getattr(self._driver, name)

        def call(*arguments: Any) -> Any:
            answer = method(*arguments)
            self._write([name, _noted(name, arguments), _answered(answer)])
            return answer

        return call

    def _write(self, value: Any) -> None:
        with naming_file(self._path):
            self._stream.write(json.dumps(value) + "\n")

    def close(self) -> None:
        try:
            with naming_file(self._path):
                self._stream.close()
            os.replace(self._part, self._path)
        except OSError:
            self._part.unlink(missing_ok=True)
            raise
        finally:
            self._driver.close()


class ReplayDriver:
    """A Driver that answers as the session in ``path`` did."""

    def __init__(self, path: Path):
        self._path, self._next = path, 0
        self._calls = _read(path)
        for name in METHODS:
            setattr(self, name, self._answering(name))

    def _answering(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            given = json.loads(json.dumps(_noted(name, arguments)))
            place = f"{self._path}, call {self._next + 1}"
            if self._next == len(self._calls):
                raise SiliconError(f"{place}: the session ends before {name}: record it again with --record-session")
            expected, arguments_then, answer = self._calls[self._next]
            self._next += 1
            if expected != name or arguments_then != given:
                now, then = f"{name}{_brief(given)}", f"{expected}{_brief(arguments_then)}"
                raise SiliconError(f"{place}: this run calls {now}, the session has {then}: record it again")
            try:
                return _restored(name, answer)
            except (TypeError, ValueError, KeyError, zlib.error, binascii.Error, MeasurementFormatError) as error:
                raise MeasurementFormatError(f"{place}: the answer to {name} is damaged: {error}") from None

        return call

    def close(self) -> None:
        """Nothing to free."""

    @property
    def has_traces(self) -> bool:
        """Whether the recorded run asked for the driver's records of kernels."""
        return any(name == "trace" for name, _, _ in self._calls)

    @property
    def calls_left(self) -> int:
        """How many recorded calls have not been made yet."""
        return len(self._calls) - self._next


def _noted(name: str, arguments: tuple) -> list:
    if name == "load":
        # Numba numbers a kernel's symbol by the order of compilation: what is loaded is told by its code.
        cubin, entry, dynamic_shared_bytes = arguments
        return [load_kernel(cubin, entry).sha256, dynamic_shared_bytes]
    if name == "bind":
        return [_noted_launch(*arguments)]
    return [_given(value) for value in arguments]


def _noted_launch(function: int, launch: KernelLaunch) -> dict[str, Any]:
    return {
        "function": function,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.dynamic_shared_bytes,
        "bank": _given(launch.parameters),
        "offsets": [parameter.offset for parameter in launch.image.parameters],
        "cooperative": launch.binary.cooperative,
    }


def _given(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, tuple):
        return list(value)
    return value


def _answered(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"bytes": value.nbytes, "zlib": base64.b64encode(zlib.compress(value.tobytes(), 6)).decode()}
    return dataclasses.asdict(value) if isinstance(value, DeviceFacts) else value


def _restored(name: str, answer: Any) -> Any:
    if name == "download":
        size = int(answer["bytes"])
        if not 0 <= size <= MAX_ARRAY_BYTES:
            raise ValueError(size)
        data = zlib.decompressobj().decompress(base64.b64decode(answer["zlib"], validate=True), size + 1)
        if len(data) != size:
            raise ValueError(size)
        return np.frombuffer(data, np.uint8).copy()
    if name == "facts":
        return as_record(DeviceFacts, answer, "the GPU's facts", MeasurementFormatError, closed=True)
    return as_record(_answers()[name], answer, "it", MeasurementFormatError)


@functools.lru_cache(maxsize=1)
def _answers() -> dict[str, Any]:
    """What each method of a driver gives."""
    return {name: get_type_hints(getattr(Driver, name))["return"] for name in METHODS}


def _brief(arguments: list) -> str:
    text = ", ".join(json.dumps(value) for value in arguments)
    return f"({text if len(text) <= 200 else text[:197] + '...'})"


def _read(path: Path) -> list[_Call]:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise MeasurementFormatError(f"{path}: more than {MAX_FILE_BYTES} bytes are no session")
    calls: list[_Call] = []
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            where = f"{path}, line {number}: damaged session"
            if number == 1:
                _check_header(path, parse_record(Any, line, where, MeasurementFormatError))
                continue
            call = parse_record(_Call, line, where, MeasurementFormatError)
            if call[0] not in METHODS:
                raise MeasurementFormatError(f"{where}: a driver has no call {call[0]!r:.60}")
            if nested_beyond(list(call[1:]), MOST_LEVELS):
                raise MeasurementFormatError(f"{where}: {call[0]} is nested too deeply")
            calls.append(call)
    if not calls:
        raise MeasurementFormatError(f"{path}: an empty session")
    return calls


def _check_header(path: Path, header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise MeasurementFormatError(f"{path}: not a recorded driver session")
    if header.get("version") != VERSION:
        raise MeasurementFormatError(f"{path}: session of version {shown(header.get('version'))}, not {VERSION}")
