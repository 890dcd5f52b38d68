"""From machine code to :class:`~gpusim.isa.form.Instruction` s, with NVIDIA's own disassembler.

Mental model: nvdisasm turns the 128-bit words into text (``-json``: opcode, operands, guard); this file
splits the text into typed operands. What text cannot carry exactly is taken from the word itself: the
control fields, and the bits of immediates that are written in decimal (bits 32..63). The disassembler
costs a quarter of a second, so its text is kept on disk by the hash of the code (:mod:`gpusim.io.kept_files`), with
function names replaced by their addresses (Numba puts a per-process counter into them). A damaged or missing cache file
is only a slower start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterable
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
from gpusim.isa.binary.control import decode_control
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.cubin_tables import cubin_tables
from gpusim.isa.binary.elf import SYMBOL_FUNCTION
from gpusim.isa.form import Instruction, Kind, Operand

CACHE_VERSION = 3
FUNCTION_PREFIX = "@"  # "@0x1f0": the function at that flat address

_REGISTER = re.compile(r"^(U?)R(Z|\d{1,4})((?:\.[A-Za-z0-9_]+)*)$")
_PREDICATE = re.compile(r"^(U?)P(T|\d{1,4})((?:\.[A-Za-z0-9_]+)*)$")
_BARRIER = re.compile(r"^B(\d{1,4})$")
_SCOREBOARD = re.compile(r"^SB(\d{1,4})$")
_HEX = re.compile(r"^([+-]?)0x([0-9a-fA-F]+)((?:\.[A-Za-z0-9_]+)*)$")
_FUNCTION = re.compile(r"^@0x([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"^[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|INF|QNAN|SNAN|NAN)(\.H[01])?$")
_CONSTANT = re.compile(r"^(c|cx)\[([^\]]+)\]\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
_MEMORY = re.compile(r"^(?:desc\[UR(\d{1,4}|Z)\])?\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
#: Before Hopper the two addresses of an asynchronous copy stand side by side: "[R5][R2.64]", "[R5]desc[UR4][R2.64]".
_TWO_ADDRESSES = re.compile(r"^(\[[^\]]*\])(?=\[|desc)")
#: Ampere's accesses with a descriptor are printed with the comma misplaced: "R8desc,[UR6][R2.64]".
_MISPLACED_COMMA = re.compile(r"\b(R\w+)desc,\[")
#: The half that is taken of an immediate stands behind a comma: "R7,R4,4.57e-41,H0".
_APART_SELECTOR = re.compile(r"([\d.e+-]+),(H[01])$")
_RELOCATED = re.compile(r"^(?:32|fun)@(?:lo|hi)?\(")
#: Mnemonics whose hexadecimal operand is a code address.
_TARGETED = {"BRA", "BSSY", "CALL", "RET", "BRX", "JMP", "JMX", "JMXU", "BRXU", "LEPC", "PRET", "SSY"}
_PACKED_HALF = {"HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2"}


def decode(image: KernelCode, cubin: bytes, use_cache: bool = True) -> tuple[Instruction, ...]:
    """Decode all instructions of ``image`` (a kernel and what it calls, in flat address order).

    Raises ToolchainError when nvdisasm is missing or fails, CompileError when its output does not cover
    the code. Words between functions (padding) are left out.
    """
    return _instructions(image, image.sections, _texts(image, cubin, use_cache))


def decode_sections(image: KernelCode, cubin: bytes, names: Iterable[str]) -> dict[str, tuple[Instruction, ...]]:
    """As :func:`decode`, of these code sections of ``image`` alone. What nvdisasm says of the whole cubin is kept on disk, so
    that a file of many kernels takes one look, not one a kernel."""
    wanted = set(names)
    sections = [section for section in image.sections if section[0] in wanted]
    texts = _texts_of(image, sections, _kept_listing(cubin))
    return {section[0]: _instructions(image, [section], texts) for section in sections}


def _instructions(
    image: KernelCode, sections: Iterable[tuple[str, int, int]], texts: dict[int, list[list[str]]]
) -> tuple[Instruction, ...]:
    files = {file: i for i, file in enumerate(source_files(image))}
    instructions = []
    for name, base, size in sections:
        rows = texts.get(base)
        if rows is None or len(rows) * INSTRUCTION_BYTES != size:
            raise CompileError(f"nvdisasm gave no full listing of {name}")
        for i, (guard, opcode, operands) in enumerate(rows):
            address = base + i * INSTRUCTION_BYTES
            word = int.from_bytes(image.code[address : address + INSTRUCTION_BYTES], "little")
            file, line = image.lines.get(address, ("", 0))
            instructions.append(
                parse_instruction(address, guard, opcode, operands, word, base, line=line, file=files.get(file, -1))
            )
    return tuple(instructions)


def source_files(image: KernelCode) -> tuple[str, ...]:
    """Source files that ``image.lines`` names, in order of first use."""
    return tuple(dict.fromkeys(file for file, _ in image.lines.values() if file))


def parse_instruction(
    address: int,
    guard: str,
    opcode: str,
    operands: str,
    word: int,
    section_base: int = 0,
    line: int = 0,
    file: int = -1,
) -> Instruction:
    """Build one Instruction from nvdisasm's pieces; ``section_base`` is added to branch targets."""
    mnemonic, *modifiers = opcode.split(".")
    if guard and not guard.startswith("@"):
        # "PR P2R R16, RZ, 0x20": nvdisasm takes the predicate file, the second operand, for the guard
        first, _, rest = operands.partition(",")
        guard, operands = "", f"{first},{guard},{rest}"
    operands = _MISPLACED_COMMA.sub(r"\1,desc[", operands)
    operands = _APART_SELECTOR.sub(r"\1.\2", operands)
    if mnemonic == "LDGSTS":
        operands = _TWO_ADDRESSES.sub(r"\1,", operands)
    wide = mnemonic in ("MOV", "UMOV") and "64" in modifiers  # the one form with a 64-bit immediate
    parsed = [_operand(text, word, mnemonic, section_base, wide) for text in _split(operands)]
    if mnemonic in _PACKED_HALF:
        parsed = _split_packed(parsed, word)
    text = " ".join(part for part in (guard, opcode, operands.replace(",", ", ")) if part)
    return Instruction(
        address=address,
        mnemonic=mnemonic,
        modifiers=tuple(modifiers),
        operands=tuple(parsed),
        guard=_operand(guard.removeprefix("@"), word, "", 0) if guard else None,
        control=decode_control(word),
        text=text,
        word=word,
        line=line,
        file=file,
    )


def _split(operands: str) -> list[str]:
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


@lru_cache(maxsize=65536)
def _plain_operand(text: str) -> Operand | None:
    """Parse an operand that needs neither the word nor the position; None when it does."""
    body, negated, inverted, absolute = text, False, False, False
    while body[:1] in ("-", "~", "!", "|") and not _DECIMAL.match(body) and not _HEX.match(body):
        if body[0] == "-":
            negated = True
        elif body[0] == "|":
            absolute = True
            close = body.find("|", 1)
            if close < 0:
                return None
            body = body[:close] + body[close + 1 :]
        else:
            inverted = True
        body = body[1:]
    flags = {"negated": negated, "inverted": inverted, "absolute": absolute, "text": text}
    if match := _REGISTER.match(body):
        uniform, number, suffix = match.groups()
        kind = Kind.UNIFORM if uniform else Kind.REGISTER
        return Operand(kind, 255 if number == "Z" else int(number), modifiers=_modifiers(suffix), **flags)
    if match := _PREDICATE.match(body):
        uniform, number, suffix = match.groups()
        kind = Kind.UNIFORM_PREDICATE if uniform else Kind.PREDICATE
        return Operand(kind, 7 if number == "T" else int(number), modifiers=_modifiers(suffix), **flags)
    if match := _CONSTANT.match(body):
        return _constant(match, flags)
    if match := _MEMORY.match(body):
        descriptor, inside, suffix = match.groups()
        number = -1 if descriptor is None else 255 if descriptor == "Z" else int(descriptor)
        return _address(inside, Kind.MEMORY, number, _modifiers(suffix), flags)
    if match := _BARRIER.match(body):
        return Operand(Kind.BARRIER, int(match.group(1)), **flags)
    if match := _SCOREBOARD.match(body):
        return Operand(Kind.SCOREBOARD, int(match.group(1)), **flags)
    if body.startswith("SR"):
        return Operand(Kind.SPECIAL, **flags)
    return None


def _operand(text: str, word: int, mnemonic: str, section_base: int, wide: bool = False) -> Operand:
    plain = _plain_operand(text)
    if plain is not None:
        return plain
    if match := _FUNCTION.match(text):
        return Operand(Kind.LABEL, value=int(match.group(1), 16), text=text)
    if match := _HEX.match(text):
        sign, digits, suffix = match.groups()
        value = -int(digits, 16) if sign == "-" else int(digits, 16)
        if mnemonic in _TARGETED:
            return Operand(Kind.LABEL, value=value + section_base, text=text)
        bits = 64 if wide or len(digits) > 8 else 32
        return Operand(Kind.IMMEDIATE, value=value & ((1 << bits) - 1), modifiers=_modifiers(suffix), text=text)
    if _DECIMAL.match(text) or _RELOCATED.match(text):
        half = text[-2:] if text.endswith((".H0", ".H1")) else ""
        return Operand(Kind.IMMEDIATE, value=(word >> 32) & 0xFFFFFFFF, modifiers=_modifiers(half), text=text)
    return Operand(Kind.OTHER, text=text)


def _modifiers(suffix: str) -> tuple[str, ...]:
    return tuple(part for part in suffix.split(".") if part and part != "reuse")


def _constant(match: re.Match, flags: dict) -> Operand:
    form, bank, inside, suffix = match.groups()
    if form == "c" and (number := _HEX.match(bank)):
        return _address(inside, Kind.CONSTANT, -1, _modifiers(suffix), flags, int(number.group(2), 16))
    register = _REGISTER.match(bank)
    if register and register.group(1):
        index = 255 if register.group(2) == "Z" else int(register.group(2))
        return _address(inside, Kind.CONSTANT, index, _modifiers(suffix), flags, -1)
    return Operand(Kind.OTHER, **flags)


def _address(
    inside: str, kind: Kind, descriptor: int, modifiers: tuple[str, ...], flags: dict, bank: int = 0
) -> Operand:
    """Parse ``R2.64+UR4+0x10``: modifiers of the vector register as they are, those of the uniform one
    with the prefix "UR."."""
    index, uniform, value = 255, 255, 0
    for part in filter(None, inside.replace("+-", "+~").split("+")):
        sign, part = (-1, part[1:]) if part.startswith("~") else (1, part)
        if part.startswith("-"):
            sign, part = -1, part[1:]
        if match := _HEX.match(part):
            value += sign * int(match.group(2), 16)
        elif match := _REGISTER.match(part):
            number = 255 if match.group(2) == "Z" else int(match.group(2))
            if match.group(1):
                uniform = number
                modifiers += tuple(f"UR.{m}" for m in _modifiers(match.group(3)))
            else:
                index = number
                modifiers = _modifiers(match.group(3)) + modifiers
        else:
            return Operand(Kind.OTHER, **flags)
    return Operand(
        kind, index, value, modifiers=modifiers, bank=bank, uniform_index=uniform, descriptor=descriptor, **flags
    )


def _split_packed(operands: list[Operand], word: int) -> list[Operand]:
    """A packed-half immediate is printed as two decimals, the high half first: give each its 16 bits."""
    decimal = [i for i, o in enumerate(operands) if o.kind == Kind.IMMEDIATE and _DECIMAL.match(o.text)]
    if len(decimal) == 2:
        for i, shift in zip(decimal, (48, 32), strict=True):
            operands[i] = Operand(Kind.IMMEDIATE, value=(word >> shift) & 0xFFFF, text=operands[i].text)
    return operands


# ---- nvdisasm and its cache ----------------------------------------------------------------------


def find_nvdisasm() -> str:
    """Path of nvdisasm (wheel, toolkit or PATH); raises ToolchainError with the pip command."""
    try:
        path = None if pathfinder is None else pathfinder.find_nvidia_binary_utility("nvdisasm")
    except Exception:  # the finder's own errors all mean "not there"
        path = None
    if path is None:
        raise ToolchainError("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")
    return path


def _texts(image: KernelCode, cubin: bytes, use_cache: bool) -> dict[int, list[list[str]]]:
    """Section base -> [guard, opcode, operands] of each instruction, from the cache or from nvdisasm."""
    path = _cache_path(image) if use_cache else None
    if path is not None:
        known = _read_cache(path, image)
        if known is not None:
            return known
    texts = _disassemble(image, cubin)
    if path is not None:
        keep(path, json.dumps(texts, separators=(",", ":")).encode())
    return texts


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
    return _listed(cubin, [])


def _listed(cubin: bytes, options: list[str]) -> _Listing:
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder) / "kernel.cubin"
        with naming_file(path):
            path.write_bytes(cubin)
        try:
            done = _run_for(
                [tool, "-json", *options, str(path)], seconds := LISTING_SECONDS + len(cubin) // _LISTING_RATE
            )
        except OSError as error:
            raise ToolchainError(f"nvdisasm cannot be run ({error.strerror or error}): {tool}") from error
    if done.returncode == -signal.SIGXCPU:
        raise CompileError(f"damaged cubin: nvdisasm has come to no end of it within {seconds} s of processor time")
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ToolchainError(f"nvdisasm failed: {reason[0]}")
    try:
        return {
            entry["function-name"]: [
                [row.get("predicate", ""), row["opcode"], row.get("operands", "")] for row in entry["sass-instructions"]
            ]
            for entry in json.loads(done.stdout)[1]
        }
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
        _write_cache(path, listing)
    return listing


def _disassemble(image: KernelCode, cubin: bytes) -> dict[int, list[list[str]]]:
    listing = _listed_alone(image, cubin) if len(cubin) > _LARGE_BYTES else None
    return _texts_of(image, image.sections, _listing(cubin) if listing is None else listing)


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
    return _listed(cubin, ["-fun", ",".join(map(str, symbols))])


@lru_cache(maxsize=8)
def _kernels_asked(cubin: bytes) -> list[str]:
    """Those of a large cubin that have been listed alone, to append to."""
    return []


def _texts_of(
    image: KernelCode, sections: Iterable[tuple[str, int, int]], listing: _Listing
) -> dict[int, list[list[str]]]:
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
    parts = _split(operands)
    for i, part in enumerate(parts):
        if part in names:
            parts[i] = f"{FUNCTION_PREFIX}0x{names[part]:x}"
        elif part.startswith(("32@", "fun@")):
            parts[i] = f"{part[:5]}(address)"
    return ",".join(parts)


def _cache_path(image: KernelCode) -> Path | None:
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


def _read_cache(path: Path, image: KernelCode) -> dict[int, list[list[str]]] | None:
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


def _write_cache(path: Path, texts: dict[int, list[list[str]]] | _Listing) -> None:
    """Keep the texts; without a cache where they cannot be kept."""
    keep(path, json.dumps(texts, separators=(",", ":")).encode())
