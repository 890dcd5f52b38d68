"""Report files of Nsight Compute, made by hand: what ``ncu -o`` writes, as far as a launch and its metrics go.

The container is a magic word, a length and a FileHeader, then blocks: a length and a BlockHeader (counts, table of
strings, bytes that follow), and each source and result behind its own length. Messages are protocol buffers; the
numbers below are those of their fields (ProfilerReport.proto and ProfilerResultsCommon.proto, which come with Nsight
Compute in extras/FileFormat). NVIDIA's own module ncu_report reads these files.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAGIC, VERSION = b"NVR\0", 1 << 16  # 1.0


@dataclass(frozen=True)
class Launch:
    """``metrics``: name -> text, whole number or float, in base units."""

    name: str
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    metrics: Mapping[str, str | int | float] = field(default_factory=dict)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: int | bytes | str | float) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _three(values: Sequence[int]) -> bytes:
    return b"".join(_field(i, value) for i, value in enumerate(values, start=1))


def _metric(name_id: int, value: str | int | float) -> bytes:
    kind = {str: 1, float: 3, int: 5}[type(value)]
    return _field(1, name_id) + _field(2, _field(kind, value))


def _result(launch: Launch, names: Sequence[str]) -> bytes:
    fields = [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
        (5, f"_Z{len(launch.name)}{launch.name}"),
        (6, launch.name),
        (7, f"{launch.name}(int)"),
    ]
    fields += [(8, 3), (9, _three((0, 0, 0))), (10, _three(launch.grid)), (11, _three(launch.block))]
    fields += [(13, _metric(names.index(name), value)) for name, value in launch.metrics.items()]
    return b"".join(_field(number, value) for number, value in [*fields, (15, b"")])


def report(launches: Sequence[Launch]) -> bytes:
    """The bytes of a ``.ncu-rep`` of these launches."""
    names = list(dict.fromkeys(name for launch in launches for name in launch.metrics))
    results = [_result(launch, names) for launch in launches]
    payload = b"".join(struct.pack("<I", len(result)) + result for result in results)
    table = b"".join(_field(1, name) for name in names)
    block = _field(1, 0) + _field(2, len(results)) + _field(4, table) + _field(5, len(payload))
    header = _field(1, VERSION)
    return MAGIC + b"".join(struct.pack("<I", len(part)) + part for part in (header, block)) + payload
