"""What a product's datasheet says of a GPU, as a small TOML file.

Mental model: a datasheet counts and rates (SMs, clock, memory, peak arithmetic); it says nothing of latencies or
queues. :mod:`gpusim.gpus.make` turns one into a GPU file on top of a description of a related GPU.

    title = "NVIDIA RTX A6000"
    source = "NVIDIA RTX A6000 datasheet"
    capability = [8, 6]
    sm_count = 84
    boost_clock_mhz = 1800
    l2_mib = 6
    board_watts = 300
    [memory]
    kind = "GDDR6"
    gib = 48
    bus_bits = 384
    gb_per_s = 768
    [dense_tflops]
    f16 = 154.8
    [links]
    pcie_gb_per_s = 64

Raises :class:`SpecError` naming file and key.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from gpusim.errors import SpecError

_MOST_BYTES = 1 << 20
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Count = Annotated[int, msgspec.Meta(gt=0, le=1 << 20)]
_Words = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``kind``: GDDR6, GDDR6X, GDDR7, HBM2, HBM2e, HBM3, HBM3e, HBM4, LPDDR5 or LPDDR5X; ``bus_bits`` wide,
    ``gb_per_s`` at its pins; ``codes_in_line``: whether error codes lie among the data, as the board is delivered
    (GDDR6 and GDDR7 have no pins for them, HBM has)."""

    kind: _Words
    gib: _Positive
    bus_bits: _Count
    gb_per_s: _Positive
    codes_in_line: bool = False


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Peak rates without sparsity, in 10^12 operations a second, a multiply-add counting two; absent where it is not
    said.

    ``fp32`` and ``fp64`` are the cores'; the others are the tensor cores', by what they multiply (``f16``, ``fp8`` with
    FP32 sums, ``f16_f16``, ``fp8_f16`` with FP16 sums). ``exponentials``: of the special function units, each counting
    one."""

    fp32: _Positive | None = None
    fp64: _Positive | None = None
    f16: _Positive | None = None
    f16_f16: _Positive | None = None
    tf32: _Positive | None = None
    f64: _Positive | None = None
    int8: _Positive | None = None
    int4: _Positive | None = None
    fp8: _Positive | None = None
    fp8_f16: _Positive | None = None
    exponentials: _Positive | None = None


class Links(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What connects the GPU to others, in GB/s of both directions together, as datasheets have it; ``gpus``: behind one
    NVSwitch (8 where it is not said)."""

    nvlink_gb_per_s: _Positive | None = None
    pcie_gb_per_s: _Positive | None = None
    gpus: Annotated[int, msgspec.Meta(gt=0, le=1 << 14)] | None = None


class Datasheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One product. ``capability`` and ``generation`` may be left out where they are those of the GPU that it is like;
    ``board_watts``: what it may take at most."""

    title: _Words
    source: _Words
    sm_count: _Count
    boost_clock_mhz: _Positive
    l2_mib: _Positive
    memory: Memory
    dense_tflops: Rates = Rates()
    capability: tuple[int, int] | None = None
    generation: _Words | None = None
    links: Links | None = None
    board_watts: _Positive | None = None


#: Table of a datasheet -> what stands in it.
_TABLES: dict[str, type[msgspec.Struct]] = {"memory": Memory, "dense_tflops": Rates, "links": Links}


def _fields(error: str) -> str:
    """What may stand where ``error`` says that something is wrong (msgspec: "... - at `$.memory`")."""
    named = next((name for name in _TABLES if f"`$.{name}" in error), None)
    kind = _TABLES[named] if named else Datasheet
    return f"{f'[{named}] of a datasheet' if named else 'a datasheet'} has {', '.join(kind.__struct_fields__)}"


def read_datasheet(path: Path) -> Datasheet:
    """The datasheet in the file at ``path``."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SpecError(f"{path}: larger than {_MOST_BYTES} bytes, not a datasheet")
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        sheet = msgspec.convert(table, Datasheet)
    except (OSError, RecursionError) as error:
        raise SpecError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except msgspec.ValidationError as error:
        raise SpecError(f"{path}: {error}; {_fields(str(error))}") from None
    except ValueError as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from None
    for text in (sheet.title, sheet.source):
        if not text.isprintable():
            raise SpecError(f"{path}: {text!r} is not one line of text")
    numbers = (sheet.boost_clock_mhz, sheet.l2_mib, sheet.memory.gib, sheet.memory.gb_per_s)
    if not all(map(math.isfinite, numbers)):
        raise SpecError(f"{path}: a number is not finite")
    return sheet
