"""The house stands as drawn: who may import whom, where imports stand, how long a file may be."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Part of gpusim -> floor. A file imports lower floors, or its own part.
FLOORS = {
    "errors": 0,
    "io": 1,
    "workers": 2,
    "state_tables": 1,
    "gpus": 2,
    "trace": 2,
    "isa": 3,
    "launch": 4,
    "model": 3,
    "frontend": 5,
    "emulator": 5,
    "engine": 4,
    "theory": 4,
    "silicon": 4,
    "sanitizer": 6,
    "tuning": 6,
    "capturing": 7,
    "driver": 8,
    "cudart": 11,
    "store": 8,
    "cases": 9,
    "benchmarking": 10,
    "benchmark_file": 10,
    "tuning_search": 10,
    "compare": 10,
    "measure": 10,
    "why": 10,
    "explore": 11,
    "report": 11,
    "doctor": 11,
    "regress": 12,
    "notebook": 12,
    "pytest_benchmarks": 11,
    "pytest_plugin": 12,
    "commands": 13,
    "cli": 14,
}
CEILING_LINES = 500
SOURCES = sorted((ROOT / "gpusim").rglob("*.py"))
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))
WORKLOADS = sorted((ROOT / "workloads").rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT / "gpusim")
    return relative.parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import; ``from a import b`` gives both ``a`` and ``a.b``."""
    package = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def gpusim_part(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "gpusim" and len(parts) > 1 else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_imports_only_lower_floors_or_its_own_part(path: Path) -> None:
    own = part_of(path)
    if own == "__init__":
        return
    assert own in FLOORS, f"{path} belongs to no floor"
    for line, module in imports(path):
        assert module.split(".")[0] not in ("kernels", "workloads"), f"{path}:{line} imports {module}"
        part = gpusim_part(module)
        if part is None or part == own or part == "__version__":
            continue
        assert part in FLOORS, f"{path}:{line} imports {module}, which stands on no floor"
        assert FLOORS[part] < FLOORS[own], f"{path}:{line} imports {module}: not a lower floor"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_stand_at_the_top(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            assert not inner, f"{path}:{inner[0].lineno} imports inside {node.name}()"


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


@pytest.mark.parametrize("path", [*KERNELS, *WORKLOADS], ids=lambda p: str(p.relative_to(ROOT)))
def test_kernels_and_workloads_know_nothing_of_gpusim(path: Path) -> None:
    for line, module in imports(path):
        assert module.split(".")[0] != "gpusim", f"{path}:{line} imports {module}"


@pytest.mark.parametrize(
    "path",
    [*SOURCES, *KERNELS, *WORKLOADS, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "tools").rglob("*.py"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= CEILING_LINES, f"{path} has {lines} lines, more than {CEILING_LINES}: split it"


@pytest.mark.parametrize("path", [*SOURCES, *KERNELS], ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_pickled_or_evaluated(path: Path) -> None:
    for line, module in imports(path):
        assert module.split(".")[0] not in ("pickle", "marshal", "shelve"), f"{path}:{line}"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec"), f"{path}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.literal_eval(node.value) is False, f"{path}:{node.value.lineno}"


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in SOURCES if p.name == "__init__.py"}
    beside = {p.parent.relative_to(ROOT) for p in (*KERNELS, *WORKLOADS) if p.name == "__init__.py"}
    assert listed == found | {"gpusim.traces"} | {".".join(("gpusim", *path.parts)) for path in beside}
