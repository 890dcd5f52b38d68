"""The house stands as drawn: who may import whom, where imports stand, how long a file may be."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Part of gpusim -> floor. A file imports lower floors, or its own part.
FLOORS = {
    "errors": 0,
    "large_pages": 0,
    "io": 1,
    "workers": 2,
    "cluster": 2,
    "state_tables": 1,
    "gpus": 2,
    "trace": 2,
    "isa": 3,
    "uncertainty": 3,
    "launch": 4,
    "model": 3,
    "frontend": 5,
    "emulator": 5,
    "energy": 3,
    "engine": 4,
    "theory": 4,
    "tile": 4,
    "collective": 5,
    "execution": 6,
    "project": 10,
    "silicon": 4,
    "sanitizer": 6,
    "tuning": 6,
    "capture_arrays": 6,
    "capturing": 7,
    "driver": 8,
    "cudart": 11,
    "store": 8,
    "record": 3,
    "collect": 9,
    "cases": 9,
    "benchmarking": 10,
    "benchmark_file": 10,
    "search": 12,
    "compare": 10,
    "measure": 10,
    "why": 10,
    "explore": 11,
    "report": 11,
    "doctor": 11,
    "regress": 12,
    "production": 12,
    "watch": 13,
    "notebook": 12,
    "bisect": 14,
    "claims": 12,
    "pytest_benchmarks": 11,
    "pytest_plugin": 12,
    "serve": 14,
    "commands": 15,
    "cli": 16,
    "__main__": 17,
}
CEILING_LINES = 500
#: What a file holds that evaluates texts or allows pickles.
EVALUATES = re.compile(r"\b(eval|exec|allow_pickle)\b")
SOURCES = sorted((ROOT / "gpusim").rglob("*.py"))
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))
WORKLOADS = sorted((ROOT / "workloads").rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a file, a class, a function or a statement, outer before inner: expressions, which are most of
    a file, import nothing."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT / "gpusim")
    return relative.parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted module) of every import; ``from a import b`` gives both ``a`` and ``a.b``."""
    package = path.relative_to(ROOT).with_suffix("").parts
    found = []
    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found += [(node.lineno, module), *((node.lineno, f"{module}.{alias.name}") for alias in node.names)]
    return found


def gpusim_part(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "gpusim" and len(parts) > 1 else None


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def wrong_floor(path: Path) -> Iterator[str]:
    """Imports of a file that are neither of a lower floor nor of its own part."""
    own = part_of(path)
    if own == "__init__":
        return
    if own not in FLOORS:
        yield f"{named(path)} belongs to no floor"
        return
    for line, module in imports(path):
        part = gpusim_part(module)
        if module.split(".")[0] in ("kernels", "workloads"):
            yield f"{named(path)}:{line} imports {module}"
        elif part is None or part == own or part == "__version__":
            continue
        elif part not in FLOORS:
            yield f"{named(path)}:{line} imports {module}, which stands on no floor"
        elif FLOORS[part] >= FLOORS[own]:
            yield f"{named(path)}:{line} imports {module}: not a lower floor"


def late_imports(path: Path) -> Iterator[str]:
    for node in statements(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [n for n in statements(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            yield from (f"{named(path)}:{each.lineno} imports inside {node.name}()" for each in inner)


def pickled_or_evaluated(path: Path) -> Iterator[str]:
    for line, module in imports(path):
        if module.split(".")[0] in ("pickle", "marshal", "shelve"):
            yield f"{named(path)}:{line} imports {module}"
    if not EVALUATES.search(path.read_text()):
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
            yield f"{named(path)}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.literal_eval(node.value) is not False:
            yield f"{named(path)}:{node.value.lineno} allows pickles"


def test_files_import_only_lower_floors_or_their_own_part() -> None:
    assert [found for path in SOURCES for found in wrong_floor(path)] == []


def test_imports_stand_at_the_top() -> None:
    assert [found for path in SOURCES for found in late_imports(path)] == []


def test_no_part_has_an_import_circle_inside() -> None:
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in SOURCES}
    graph = {name: {m for _, m in imports(path) if m in names and m != name} for name, path in names.items()}
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) != 1, f"import circle: {' -> '.join((*trail, name))}"
        if name not in state:
            state[name] = 1
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            state[name] = 2

    for name in names:
        visit(name, ())


def test_kernels_and_workloads_know_nothing_of_gpusim() -> None:
    found = [(path, line, module) for path in (*KERNELS, *WORKLOADS) for line, module in imports(path)]
    assert found
    assert [f"{named(path)}:{line}" for path, line, module in found if module.split(".")[0] == "gpusim"] == []


def test_files_are_short_enough_to_read() -> None:
    others = (path for folder in ("tests", "tools") for path in sorted((ROOT / folder).rglob("*.py")))
    lengths = {named(path): len(path.read_text().splitlines()) for path in (*SOURCES, *KERNELS, *WORKLOADS, *others)}
    long = {name: lines for name, lines in lengths.items() if lines > CEILING_LINES}
    assert not long, f"more than {CEILING_LINES} lines: split {long}"


def test_nothing_is_pickled_or_evaluated() -> None:
    assert [found for path in (*SOURCES, *KERNELS) for found in pickled_or_evaluated(path)] == []


def test_what_is_forbidden_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule on a file that breaks it: several findings in one file are all listed."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "gpusim" / "trace").mkdir(parents=True)
    path = tmp_path / "gpusim" / "trace" / "wrong.py"
    path.write_text(
        "import kernels.copy, gpusim.attic, gpusim.trace.record\nfrom gpusim.cli import run\nimport pickle\n"
        "def f():\n    import os\n    eval('1')\n    g(allow_pickle=True)\n"
    )
    at = "gpusim/trace/wrong.py"
    assert [found.split(" ")[0] for found in wrong_floor(path)] == [f"{at}:1", f"{at}:1", f"{at}:2", f"{at}:2"]
    assert list(late_imports(path)) == [f"{at}:5 imports inside f()"]
    assert sorted(pickled_or_evaluated(path)) == [
        f"{at}:3 imports pickle",
        f"{at}:6 calls eval",
        f"{at}:7 allows pickles",
    ]
    attic = tmp_path / "gpusim" / "attic.py"
    attic.write_text("")
    assert list(wrong_floor(attic)) == ["gpusim/attic.py belongs to no floor"]


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in SOURCES if p.name == "__init__.py"}
    beside = {p.parent.relative_to(ROOT) for p in (*KERNELS, *WORKLOADS) if p.name == "__init__.py"}
    assert listed == found | {"gpusim.traces"} | {".".join(("gpusim", *path.parts)) for path in beside}
