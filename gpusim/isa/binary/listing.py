"""NVIDIA's disassembler and what it said: the text of each kernel's instructions, kept on disk.

Mental model: nvdisasm takes a quarter of a second to start, whatever it is given. So its text is kept by the hash of the code
(:mod:`gpusim.io.kept_files`), with function names replaced by their addresses (Numba puts a per-process counter into them);
a damaged or missing file is only a slower start. Whoever is about to decode many kernels calls
:func:`gpusim.isa.binary.listing_together.list_together` first: one start an architecture.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

try:
    from cuda import pathfinder
except ImportError:  # a machine that only simulates trace files; whoever disassembles is told what to install
    pathfinder = None

from gpusim.errors import CompileError, ToolchainError
from gpusim.io.cache_folder import cache_folder
from gpusim.io.kept_files import keep, read_kept
from gpusim.io.whole_file import naming_file
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.cubin_tables import cubin_tables
from gpusim.isa.binary.elf import SYMBOL_FUNCTION

CACHE_VERSION = 3
FUNCTION_PREFIX = "@"  # "@0x1f0": the function at that flat address
#: Mnemonics whose hexadecimal operand is a code address.
TARGETED = {"BRA", "BSSY", "CALL", "RET", "BRX", "JMP", "JMX", "JMXU", "BRXU", "LEPC", "PRET", "SSY"}
#: Architectures from which kernels are built for, and disassembled as, the specific target ("SM90a").
ARCHITECTURE_SPECIFIC_FROM = 90

#: Section base -> [guard, opcode, operands] of each instruction.
Texts = dict[int, list[list[str]]]


def find_nvdisasm() -> str:
    """Path of nvdisasm (wheel, toolkit or PATH); raises ToolchainError with the pip command."""
    try:
        path = None if pathfinder is None else pathfinder.find_nvidia_binary_utility("nvdisasm")
    except Exception:  # the finder's own errors all mean "not there"
        path = None
    if path is None:
        raise ToolchainError("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")
    return path


def code_texts(image: KernelCode, cubin: bytes, use_cache: bool = True) -> Texts:
    """The texts of all of ``image``, from the cache or from nvdisasm. Raises ToolchainError, and CompileError for what is
    missing from the listing."""
    path = kept_texts_path(image) if use_cache else None
    if path is not None:
        known = _read_cache(path, image)
        if known is not None:
            return known
    listing = _listed_alone(image, cubin) if len(cubin) > _LARGE_BYTES else None
    texts = _texts_of(image, image.sections, _listing(cubin) if listing is None else listing)
    if path is not None:
        keep_texts(path, texts)
    return texts


def section_texts(image: KernelCode, sections: Iterable[tuple[str, int, int]], cubin: bytes) -> Texts:
    """The texts of these ``sections`` of ``image`` alone; what is kept is that of the whole cubin."""
    return _texts_of(image, sections, _kept_listing(cubin))


#: Processor time that nvdisasm has, and the bytes of a cubin for which it has a second more: 13.0 took 0.1 s, and a second for 1.6 MB.
#: There are damaged cubins of a few kilobytes with which it does not end.
LISTING_SECONDS, _LISTING_RATE = 5, 100_000


#: A cubin is large if nvdisasm takes more than half a second for it: PyTorch's have up to 10 MB and some hundred kernels, of which a
#: program launches a few. One function alone takes a fifteenth of the time that all of 8 MB do.
_LARGE_BYTES, _MOST_ALONE = 1 << 20, 12

#: Function -> [guard, opcode, operands] of each instruction, as nvdisasm gives them.
_Listing = dict[str, list[list[str]]]


@lru_cache(maxsize=1)
def _listing(cubin: bytes) -> _Listing:
    """What nvdisasm says of all of a cubin at once: kernels are asked for one after another."""
    return dict(_run(cubin, (), "damaged cubin"))


def _listed_alone(image: KernelCode, cubin: bytes) -> _Listing | None:
    """What nvdisasm says of the functions of ``image``; None once so many kernels of the cubin have been asked for that all of it
    at once takes less."""
    asked = _kernels_asked(cubin)
    if len(image.sections) > _MOST_ALONE or len(asked) >= _MOST_ALONE:
        return None
    asked.append(image.name)
    elf = cubin_tables(cubin).elf
    wanted = {name for name, _, _ in image.sections}
    sections = {section.index for section in elf.sections if section.name in wanted}
    symbols = [symbol.index for symbol in elf.symbols if symbol.kind == SYMBOL_FUNCTION and symbol.section in sections]
    return dict(_run(cubin, ("-fun", ",".join(map(str, symbols))), "damaged cubin"))


@lru_cache(maxsize=8)
def _kernels_asked(cubin: bytes) -> list[str]:
    """Those of a large cubin that have been listed alone, to append to."""
    return []


def raw_rows(code: bytes, architecture: int) -> list[list[str]]:
    """[guard, opcode, operands] of each 16-byte word of ``code``, a stretch of machine code for ``architecture``, e.g. 90. Targets
    count from its first byte.

    Raises ToolchainError when nvdisasm is missing or does not know the architecture, CompileError when its
    listing does not cover the code.
    """
    if not code:
        return []
    target = f"SM{architecture}{'a' if architecture >= ARCHITECTURE_SPECIFIC_FROM else ''}"
    rows = [row for _, rows in _run(code, ("-b", target), "code of no sense") for row in rows]
    if len(rows) * INSTRUCTION_BYTES != len(code):
        raise CompileError(f"nvdisasm listed {len(rows)} instructions, not all of them")
    return rows


def _run(content: bytes, options: Sequence[str], damage: str) -> list[tuple[str, list[list[str]]]]:
    """(name, rows) of each function of a file that holds ``content``."""
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder) / "kernel.cubin"
        with naming_file(path):
            path.write_bytes(content)
        seconds = LISTING_SECONDS + len(content) // _LISTING_RATE
        try:
            done = _run_for([tool, "-json", *options, str(path)], seconds)
        except OSError as error:
            raise ToolchainError(f"nvdisasm cannot be run ({error.strerror or error}): {tool}") from error
    if done.returncode == -signal.SIGXCPU:
        raise CompileError(f"{damage}: nvdisasm has come to no end of it within {seconds} s of processor time")
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ToolchainError(f"nvdisasm failed: {reason[0]}")
    try:
        return [
            (
                entry["function-name"],
                [
                    [row.get("predicate", ""), row["opcode"], row.get("operands", "")]
                    for row in entry["sass-instructions"]
                ],
            )
            for entry in json.loads(done.stdout)[1]
        ]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ToolchainError(f"nvdisasm's listing could not be read ({error})") from error


def _run_for(command: list[str], seconds: int) -> subprocess.CompletedProcess[bytes]:
    """Run a program that the system ends after so much processor time."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C at the terminal is for whoever waits here
    ) as process:
        with contextlib.suppress(OSError, AttributeError):  # it has ended already; no Linux
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@lru_cache(maxsize=1)
def _kept_listing(cubin: bytes) -> _Listing:
    """The same, from the cache where it is known."""
    path = _kept_path(b"listing", cubin)
    known = None if path is None else _stored(path)
    if known is not None and all(map(_are_rows, known.values())):
        return known
    listing = _listing(cubin)
    if path is not None:
        keep_texts(path, listing)
    return listing


def _texts_of(image: KernelCode, sections: Iterable[tuple[str, int, int]], listing: _Listing) -> Texts:
    """Section base -> its rows of ``listing``, with the addresses of functions for their names."""
    names = {name: address for name, address, _ in image.functions}
    texts = {}
    for section, base, _ in sections:
        rows = listing.get(section.removeprefix(".text."))
        if rows is None:
            raise CompileError(f"nvdisasm gave no listing of {section}")
        texts[base] = [[guard, opcode, _with_addresses(operands, names)] for guard, opcode, operands in rows]
    return texts


def _with_addresses(operands: str, names: dict[str, int]) -> str:
    parts = split_operands(operands)
    for i, part in enumerate(parts):
        if part in names:
            parts[i] = f"{FUNCTION_PREFIX}0x{names[part]:x}"
        elif part.startswith(("32@", "fun@")):
            parts[i] = f"{part[:5]}(address)"
    return ",".join(parts)


def split_operands(operands: str) -> list[str]:
    """Split at commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(operands):
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(operands[start:i].strip())
            start = i + 1
    last = operands[start:].strip()
    return [*parts, last] if last else parts


def kept_texts_path(image: KernelCode) -> Path | None:
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


def keep_texts(path: Path, texts: Texts | _Listing) -> None:
    """Keep the texts; without a cache where they cannot be kept."""
    keep(path, json.dumps(texts, separators=(",", ":")).encode())
