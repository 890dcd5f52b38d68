"""Say which instruction forms of the PTX ISA's machine code no declaration accepts, architecture by architecture.

Mental model: ``tests/support/ptx_isa.py`` writes the ISA down statement by statement. For each architecture nvJitLink
assembles all that it takes, each statement a kernel of its own (what it does not take is counted as not there),
nvdisasm lists the machine code, and every instruction is put to the table::

    python tools/ptx_forms.py                                   # every architecture: half a minute of CPU time each
    python tools/ptx_forms.py --arch sm_100 --section float
    python tools/ptx_forms.py --arch sm_80 --option -O0 --option -maxrregcount=32 lib.cubin

Cubins named behind the options are put to the table as well, whatever compiled them (nvcc, NVRTC, Triton). The table
goes to stdout; on stderr stands each unsupported form with the statement, or kernel, that it was met in. Exit code 0
when every form is supported, 5 otherwise (as ``gpusim sass survey``).
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile

from gpusim.errors import ToolchainError
from gpusim.frontend.native.link import KINDS, run_linker
from gpusim.isa.architectures import BUILT, architecture
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.binary.disassembler import find_nvdisasm
from gpusim.isa.form import Instruction
from gpusim.isa.survey import form_of
from gpusim.isa.table import supported, why_refused
from gpusim.isa.target import make_target
from gpusim.report.tables import format_records

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import ptx_isa

NAMES = tuple(row.name for row in BUILT)
#: A function by its name, here or elsewhere: what is neither a register, a predicate, a number nor a bank of constants.
_FUNCTION = re.compile(r"(?<![\w$@.])(?!(?:U?R(?:\d+|Z)|U?P(?:\d+|T))\b)[A-Za-z_$][\w$.]*(?![\w$.\[])")


@dataclass
class Found:
    """What one architecture's code is made of: ``forms``: each form -> why it is refused, or nothing; ``examples``: an
    instruction and where it stands, for each refused form; ``left_out``: statement -> what the assembler said."""

    forms: dict[str, str] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    instructions: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    statements: int = 0

    def take(self, instruction: Instruction, place: str) -> None:
        """Count in one instruction."""
        self.instructions += 1
        form = form_of(instruction)
        if form not in self.forms:
            self.forms[form] = "" if supported(instruction) else why_refused(instruction)
        if self.forms[form]:
            self.examples.setdefault(form, f"{instruction.text}: {place}")

    def row(self, name: str) -> dict:
        """One line of the table."""
        refused = sum(map(bool, self.forms.values()))
        return {
            "architecture": name, "statements": self.statements, "not_there": len(self.left_out),
            "instructions": self.instructions, "forms": len(self.forms), "unsupported": refused,
        }  # fmt: skip


def link(text: str, target: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """(the cubin of a PTX text, nothing), or (nothing, what nvJitLink said)."""
    done = run_linker([f"-arch={target}", *options], [(KINDS[".ptx"], "forms", text.encode())])
    return done.cubin, done.error


def assemble(
    groups: Sequence[Sequence[str]], target: str, options: Sequence[str] = ()
) -> tuple[bytes, list[list[str]], dict[str, str]]:
    """(cubin, statements of each kernel ``form_0``, ``form_1`` ..., those that the assembler refuses and why).

    Raises ToolchainError when it refuses something else."""
    kept, refused = [list(group) for group in groups], {}
    while True:
        text, places = ptx_isa.module(kept, target)
        cubin, log = link(text, target, options)
        if cubin:
            return cubin, kept, refused
        wrong = {}
        for match in re.finditer(r"line (\d+); \w+\s*: (.*)", log):
            if int(match.group(1)) in places:
                wrong.setdefault(places[int(match.group(1))], match.group(2))
        if not wrong:
            raise ToolchainError(f"nvJitLink refuses the module for {target}: {log[:500]}")
        refused |= {kept[i][k]: reason for (i, k), reason in wrong.items()}
        kept = [[line for k, line in enumerate(group) if (i, k) not in wrong] for i, group in enumerate(kept)]


def instructions(cubin: bytes) -> Iterator[tuple[str, Instruction]]:
    """Every instruction of every function of a cubin, with the function's name. Raises ToolchainError."""
    elf = ELFFile(io.BytesIO(cubin))
    code = {s.name.removeprefix(".text."): s.data() for s in elf.iter_sections() if s.name.startswith(".text.")}
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder) / "forms.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([find_nvdisasm(), "-json", str(path)], capture_output=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"nvdisasm failed: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")
    for function in json.loads(done.stdout)[1]:
        words = code[function["function-name"]]
        for i, row in enumerate(function["sass-instructions"]):
            word = int.from_bytes(words[16 * i : 16 * i + 16], "little")
            operands = row.get("operands", "")
            if row["opcode"].startswith("CALL"):  # functions stand by their names
                operands = _FUNCTION.sub("@0x0", operands)
            yield (
                function["function-name"],
                parse_instruction(16 * i, row.get("predicate", ""), row["opcode"], operands, word),
            )


def survey(name: str, sections: Sequence[str], options: Sequence[str] = ()) -> Found:
    """What architecture ``name`` makes of the statements of ``sections``."""
    lines = [line for section in sections for line in ptx_isa.lines(section)]
    target = architecture(make_target(name).capability).target
    cubin, groups, refused = assemble([[line] for line in lines], target, options)
    found = Found(left_out=refused, statements=len(lines) - len(refused))
    for function, instruction in instructions(cubin):
        number = function.removeprefix("form_")
        found.take(instruction, groups[int(number)][0] if number.isdigit() and groups[int(number)] else function)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubins", nargs="*", type=Path, help="machine code to put to the table as well")
    parser.add_argument("--arch", action="append", choices=NAMES, help="may be repeated (default: all)")
    parser.add_argument("--section", action="append", choices=tuple(ptx_isa.SECTIONS), help="may be repeated")
    parser.add_argument("--option", action="append", default=[], help="of nvJitLink: -O0, -ftz=1 ...; may be repeated")
    parser.add_argument("--format", choices=("table", "md", "csv", "json"), default="table")
    asked = parser.parse_args()
    rows, refused = [], False
    for name in asked.arch or NAMES:
        found = survey(name, asked.section or tuple(ptx_isa.SECTIONS), asked.option)
        rows.append(found.row(name))
        refused |= bool(found.examples)
        for form, place in sorted(found.examples.items()):
            print(f"{name}: {form}: {found.forms[form]}: {place}", file=sys.stderr)
    for path in asked.cubins:
        found = Found()
        for function, instruction in instructions(path.read_bytes()):
            found.take(instruction, function)
        rows.append(found.row(path.name))
        refused |= bool(found.examples)
        for form, place in sorted(found.examples.items()):
            print(f"{path.name}: {form}: {found.forms[form]}: {place}", file=sys.stderr)
    print(format_records(rows, asked.format))
    return 5 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
