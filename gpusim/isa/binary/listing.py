"""What NVIDIA's disassembler said of each kernel's instructions, kept on disk.

Mental model: nvdisasm takes a quarter of a second to start, whatever it is given. So its text is kept by the hash of
the code (:mod:`gpusim.io.kept_files`), with function names replaced by their addresses (Numba puts a per-process
counter into them); a damaged or missing file is only a slower start. A process that asks for several kernels of an
architecture gets all but the first from one start (:mod:`gpusim.isa.binary.disassembler`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpusim.errors import CompileError, ToolchainError
from gpusim.io.cache_folder import cache_folder
from gpusim.io.kept_files import keep, read_kept
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.cubin_tables import cubin_tables
from gpusim.isa.binary.disassembler import Rows, is_quick, listed, raw_rows
from gpusim.isa.binary.elf import SYMBOL_FUNCTION
from gpusim.isa.binary.kernel_texts import Texts, is_flat, texts_of_raw, with_addresses

CACHE_VERSION = 3
#: A cubin is large if nvdisasm takes more than half a second for it: PyTorch's have up to 10 MB and some hundred
#: kernels, of which a program launches a few. One function alone takes a fifteenth of the time that all of 8 MB do.
_LARGE_BYTES, _MOST_ALONE = 1 << 20, 12

#: Function -> [guard, opcode, operands] of each instruction, as nvdisasm gives them.
_Listing = dict[str, Rows]
#: That of the last cubin that was listed as a whole.
_listings: dict[bytes, _Listing] = {}


def code_texts(image: KernelCode, cubin: bytes, use_cache: bool = True) -> Texts:
    """The texts of all of ``image``, from the cache or from nvdisasm. Raises ToolchainError, and CompileError for what
    is missing from the listing."""
    path = _kept_texts_path(image) if use_cache else None
    if path is not None:
        known = _read_cache(path, image)
        if known is not None:
            return known
    texts = None if cubin in _listings else _quickly(image)
    if texts is None:
        listing = _listed_alone(image, cubin) if len(cubin) > _LARGE_BYTES else None
        texts = _texts_of(image, image.sections, _listing(cubin) if listing is None else listing)
    if path is not None:
        _keep_texts(path, texts)
    return texts


def _quickly(image: KernelCode) -> Texts | None:
    """The texts of its flat code, where that is quick; None where it is not, and where its file says more, or what is
    wrong."""
    if not is_flat(image) or not is_quick(image.architecture):
        return None
    try:
        return texts_of_raw(image, raw_rows(image.code, image.architecture))
    except (CompileError, ToolchainError):
        return None


def section_texts(image: KernelCode, sections: Iterable[tuple[str, int, int]], cubin: bytes) -> Texts:
    """The texts of these ``sections`` of ``image`` alone; what is kept is that of the whole cubin."""
    return _texts_of(image, sections, _kept_listing(cubin))


def _listing(cubin: bytes) -> _Listing:
    """What nvdisasm says of all of a cubin at once: kernels are asked for one after another."""
    if cubin not in _listings:
        listing = dict(listed(cubin, (), "damaged cubin"))
        _listings.clear()
        _listings[cubin] = listing
    return _listings[cubin]


def _listed_alone(image: KernelCode, cubin: bytes) -> _Listing | None:
    """What nvdisasm says of the functions of ``image``; None once so many kernels of the cubin have been asked for that
    all of it at once takes less."""
    asked = _kernels_asked(cubin)
    if len(image.sections) > _MOST_ALONE or len(asked) >= _MOST_ALONE:
        return None
    asked.append(image.name)
    elf = cubin_tables(cubin).elf
    wanted = {name for name, _, _ in image.sections}
    sections = {section.index for section in elf.sections if section.name in wanted}
    symbols = [symbol.index for symbol in elf.symbols if symbol.kind == SYMBOL_FUNCTION and symbol.section in sections]
    return dict(listed(cubin, ("-fun", ",".join(map(str, symbols))), "damaged cubin"))


@lru_cache(maxsize=8)
def _kernels_asked(cubin: bytes) -> list[str]:
    """Those of a large cubin that have been listed alone, to append to."""
    return []


@lru_cache(maxsize=1)
def _kept_listing(cubin: bytes) -> _Listing:
    """The same, from the cache where it is known."""
    path = _kept_path(b"listing", cubin)
    known = None if path is None else _stored(path)
    if known is not None and all(map(_are_rows, known.values())):
        return known
    listing = _listing(cubin)
    if path is not None:
        _keep_texts(path, listing)
    return listing


def _texts_of(image: KernelCode, sections: Iterable[tuple[str, int, int]], listing: _Listing) -> Texts:
    """Section base -> its rows of ``listing``, with the addresses of functions for their names."""
    names = {name: address for name, address, _ in image.functions}
    texts = {}
    for section, base, _ in sections:
        rows = listing.get(section.removeprefix(".text."))
        if rows is None:
            raise CompileError(f"nvdisasm gave no listing of {section}")
        texts[base] = [[guard, opcode, with_addresses(operands, names)] for guard, opcode, operands in rows]
    return texts


def _kept_texts_path(image: KernelCode) -> Path | None:
    """Where the texts of ``image`` are kept; None where nothing is."""
    parts = [image.architecture, image.sections[0][2]], [address for _, address, _ in image.functions]
    return _kept_path(*(repr(part).encode() for part in parts), image.code)


def _kept_path(*parts: bytes) -> Path | None:
    """Where the texts of what ``parts`` say are kept."""
    folder = cache_folder()
    if folder is None:
        return None
    digest = hashlib.sha256(repr(CACHE_VERSION).encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return folder / "sass" / f"{digest.hexdigest()}.json"


def _read_cache(path: Path, image: KernelCode) -> Texts | None:
    try:
        texts = {int(base): rows for base, rows in (_stored(path) or {}).items()}
        for _, base, size in image.sections:
            rows = texts[base]
            if not _are_rows(rows) or len(rows) * INSTRUCTION_BYTES != size:
                return None
    except (ValueError, KeyError):
        return None
    return texts


def _stored(path: Path) -> dict[str, Any] | None:
    try:
        stored = json.loads(read_kept(path) or b"")
    except (ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


def _are_rows(rows: object) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(text, str) for text in row) for row in rows
    )


def _keep_texts(path: Path, texts: Texts | _Listing) -> None:
    """Keep the texts; without a cache where they cannot be kept."""
    keep(path, json.dumps(texts, separators=(",", ":")).encode())
