"""A copy of gpusim that holds all planted faults at once, each behind a switch.

Mental model: compiling gpusim takes minutes, a search seconds. So the copy is made and compiled once ("mutant
schemata", Untch, Offutt and Harrold, ISSTA 1993): where mutant 7 differs, the copy says ``if planted(7): <its lines>
else: <the lines that stood there>``, which is checked to be the same program where nothing is on. ``planted`` reads one
number of the process, which GPUSIM_PLANTED sets; compiled code reads it from an external symbol, so that Numba's cache
serves all mutants. Number 0 is the control.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path

from mutant_list import CodeMutant

from gpusim.commands.compiled_parts import COMPILED_PARTS

ROOT = Path(__file__).parents[1]
#: A search that takes so long goes round for ever.
LIMIT_SECONDS = 1800
VARIABLE = "GPUSIM_PLANTED"
#: What lies beside the package in a source tree and is found there by name.
BESIDE = ("kernels", "workloads", "traces")

_SWITCH = f'''"""Which planted fault is on in this process: see tools/mutant_copy.py."""

import ctypes
import os

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

_number = ctypes.c_int64(int(os.environ.get("{VARIABLE}", "0")))
llvm.add_symbol("gpusim_planted_fault", ctypes.addressof(_number))


@intrinsic
def _switch(typingctx):
    def generate(context, builder, signature, args):
        cell = builder.module.globals.get("gpusim_planted_fault")
        if cell is None:
            cell = ir.GlobalVariable(builder.module, ir.IntType(64), "gpusim_planted_fault")
            cell.linkage = "external"
        return builder.load(cell)

    return types.int64(), generate


def switch_on(number):
    _number.value = number


def planted(number):
    return _number.value == number


@overload(planted)
def _planted(number):
    return lambda number: _switch() == number
'''


def plant(text: str, mutant: CodeMutant, number: int) -> str:
    """``text`` with the mutant's lines beside those that they replace. ValueError unless those stand there once."""
    lines, old = text.split("\n"), mutant.old.split("\n")
    places = []
    for at in range(len(lines) - len(old) + 1):
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        if [indent + line if line else line for line in old] == lines[at : at + len(old)]:
            places.append((at, indent))
    if len(places) != 1:
        raise ValueError(f"{mutant.name}: its lines stand {len(places)} times in {mutant.file}, not once")
    at, indent = places[0]
    both = f"if planted({number}):\n{textwrap.indent(mutant.new, '    ')}\nelse:\n{textwrap.indent(mutant.old, '    ')}"
    lines[at : at + len(old)] = textwrap.indent(both, indent).split("\n")
    return "\n".join(lines)


class _Unplanted(ast.NodeTransformer):
    """Puts what stands under ``else`` in the place of each planted fault."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test).startswith("planted(") else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "gpusim.planted" else node


def is_control(text: str, original: str) -> bool:
    """Whether planted ``text`` with nothing switched on is the program ``original``."""
    kept = ast.unparse(_Unplanted().visit(ast.parse(text)))
    return kept == ast.unparse(ast.parse(original))


def make_copy(folder: Path, mutants: Sequence[CodeMutant]) -> dict[str, str]:
    """Write the copy into ``folder``; mutant ``i`` of the sequence has number ``i + 1``. What is there already and the
    same stays, with its compiled code. Returns name -> why of the mutants that cannot be planted any more."""
    package = folder / "gpusim"
    written = {package / "planted.py": _SWITCH}
    for source in (ROOT / "gpusim").rglob("*"):
        if source.is_file() and "__pycache__" not in source.parts and source.suffix != ".py":
            target = package / source.relative_to(ROOT / "gpusim")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for source in (ROOT / "gpusim").rglob("*.py"):
        written[package / source.relative_to(ROOT / "gpusim")] = source.read_text()
    outdated, sources = {}, dict(written)
    for number, mutant in enumerate(mutants, start=1):
        path = package / mutant.file
        try:
            text = plant(written[path], mutant, number)
            if not is_control(text, sources[path]):
                raise ValueError(f"{mutant.name}: its lines are no whole statements in {mutant.file}")
        except ValueError as error:
            outdated[mutant.name] = str(error)
            continue
        line = "from gpusim.planted import planted\n"
        if line not in text:
            text = text.replace(
                "from __future__ import annotations\n", f"from __future__ import annotations\n\n{line}", 1
            )
        written[path] = text
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for name in BESIDE:
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    return outdated


def environment(folder: Path) -> dict[str, str]:
    """Of a process that imports the package in ``folder``."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def compile_copy(folder: Path) -> None:
    """Fill Numba's cache of the copy, all parts side by side. CalledProcessError if one does not compile."""
    started = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", *part], env=environment(folder), cwd=folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for part in COMPILED_PARTS
    ]  # fmt: skip
    for process in started:
        said = process.communicate()[1]
        if process.returncode:
            error = subprocess.CalledProcessError(process.returncode, process.args, stderr=said)
            error.add_note(said[-2000:])  # what it says is not among what is shown of it
            raise error


_SERVE = """
import contextlib, importlib.util, io, json, sys
from gpusim.cli import run
answers = sys.stdout
for line in sys.stdin:
    number, arguments = json.loads(line)
    if importlib.util.find_spec("gpusim.planted"):
        importlib.import_module("gpusim.planted").switch_on(number)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    answers.write(json.dumps([code, out.getvalue(), err.getvalue()]) + "\\n")
    answers.flush()
"""


class Server:
    """A process that imports the package in ``folder`` and runs command lines, with the kernels that it has compiled
    once; it is started again when a fault has brought it down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None

    def run(self, number: int, arguments: Sequence[str]) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of ``gpusim`` with fault ``number`` on; exit code -1 if the process died, or was
        killed because a fault made it go round for ever."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE], env=environment(self.folder),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        limit = threading.Timer(LIMIT_SECONDS, self._process.kill)
        limit.start()
        try:
            self._process.stdin.write(json.dumps([number, list(arguments)]) + "\n")
            self._process.stdin.flush()
            return tuple(json.loads(self._process.stdout.readline()))
        except (OSError, ValueError):
            code = self._process.wait()
            self._process = None
            return -1, "", f"the process died with {code}"
        finally:
            limit.cancel()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None
