"""The house speaks the field's language: retired words stay away, and the glossary is in order and true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "gpusim").rglob("*.py"))
GLOSSARY = ROOT / "docs" / "glossary.md"
#: Where a word is retired: in sentences and as a part of identifiers; as a part of identifiers; as a whole identifier;
#: as the name of a file. What is ordinary English is retired as a name only.
Where = Literal["anywhere", "part", "name", "file"]


@dataclass(frozen=True)
class Retired:
    """A word that is not used any more, and what is said instead."""

    word: str
    instead: str
    where: Where = "anywhere"

    def __str__(self) -> str:
        return f"{self.word}-{self.where}"


RETIRED = (
    Retired("vain", "false prediction"),
    Retired("foretold", "predicted"),
    Retired("foretell", "predict"),
    Retired("foretells", "predicts"),
    Retired("climbed", "targeted"),
    Retired("casebook", "case simulator"),
    Retired("oddities", "anomalies"),
    Retired("stickiness", "autocorrelation"),
    Retired("sticky", "autocorrelated"),
    Retired("dial", "unit cost"),
    Retired("dials", "unit costs"),
    Retired("Look", "LaunchPrediction or candidate", "name"),
    Retired("Guess", "Prediction", "name"),
    Retired("CaseBook", "CaseSimulator", "name"),
    Retired("Side", "Comparand", "name"),
    Retired("open_sides", "open_comparands", "name"),
    Retired("run_again", "rerun", "name"),
    Retired("Law", "Relation (a metamorphic relation)", "name"),
    Retired("LAWS", "RELATIONS", "name"),
    Retired("Likeness", "ShapeDistance", "name"),
    Retired("Experiment", "Counterfactual or SimulationInput", "name"),
    Retired("EXPERIMENTS", "COUNTERFACTUALS", "name"),
    Retired("side", "comparand", "file"),
    Retired("opening", "open_comparand", "file"),
    Retired("again", "rerun", "file"),
    Retired("common", "shared_behaviour", "file"),
    Retired("likeness", "shape_distance", "file"),
    Retired("holes", "coverage_holes", "file"),
    Retired("laws", "metamorphic", "file"),
    Retired("counted", "trace_counts", "file"),
    Retired("around", "network_shapes", "file"),
    Retired("choices", "property_registry", "file"),
    Retired("against_rows", "measured_rows", "file"),
    Retired("experiments", "counterfactuals", "file"),
)
#: Words of emulator, model and engine.
RETIRED_INSIDE = (
    Retired("standstill", "livelock"),
    Retired("orchestra", "the graph of parts"),
    Retired("conductor", "the scheduler of parts"),
    Retired("desk", "block scheduler"),
    Retired("seat", "part"),
    Retired("seats", "parts"),
    Retired("company", "lockstep group"),
    Retired("companies", "lockstep groups"),
    Retired("families", "dispatch", "file"),
    Retired("teams", "lockstep groups", "part"),
    Retired("team", "lockstep group", "part"),
    Retired("turns", "lockstep", "file"),
    Retired("residents", "block scheduler", "part"),
    Retired("flights", "instructions in flight (MSHR)", "part"),
    Retired("waiters", "requesters of an MSHR", "part"),
    Retired("miss_table", "mshr", "file"),
    Retired("STRAIGHT", "one name for each of its three meanings", "name"),
    Retired("WIDE", "all warps", "name"),
    Retired("hand", "what is handed over, by its name", "name"),
)


@dataclass(frozen=True)
class Words:
    """What a file says: its identifiers, and the words of its docstrings and comments, each with its line."""

    identifiers: tuple[tuple[int, str], ...]
    words: tuple[tuple[int, str], ...]
    #: All words of both, and whole identifiers, in lower and in their own case: where a retired word is not among them,
    #: it need not be looked for line by line.
    all: frozenset[str]


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def lower_text_of(path: Path) -> str:
    return text_of(path).lower()


def mentions(path: Path, retired: Retired) -> bool:
    """Whether the letters of a retired word stand anywhere in a file, or in its name: most files hold none, and need
    not be taken apart."""
    if retired.where == "name":
        text = text_of(path)
        return retired.word in text and re.search(rf"\b_*{retired.word}\b", text) is not None
    word = retired.word.lower()
    return word in lower_text_of(path) or word in path.stem.lower()


@cache
def words_of(path: Path) -> Words:
    text = text_of(path)
    tree = ast.parse(text, str(path))
    said = [(line, comment) for line, row in enumerate(text.splitlines(), 1) for comment in re.findall(r"#(.*)", row)]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            said.append((getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or ""))
    words = [(line, word.lower()) for line, sentence in said for word in re.findall(r"[A-Za-z]+", sentence)]
    identifiers = tuple(identifiers_of(tree))
    every = {word for _, word in words} | {name.lstrip("_") for _, name in identifiers}
    every |= {part for name in {name for _, name in identifiers} for part in parts_of(name)}
    return Words(identifiers, tuple(words), frozenset(every))


def identifiers_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a file names itself: classes, functions, arguments, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def parts_of(identifier: str) -> list[str]:
    """``LaunchPrediction`` and ``launch_prediction`` as lower-case words."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def uses(path: Path, retired: Retired) -> list[str]:
    """Where a file uses a retired word."""
    if retired.where == "file":
        return [f"{path.name} itself"] if path.stem == retired.word else []
    if not mentions(path, retired):
        return []
    word, found = retired.word.lower(), words_of(path)
    if not found.all & {word, retired.word} and word not in parts_of(path.stem):
        return []
    if retired.where == "name":
        return [f"line {line}: {name}" for line, name in found.identifiers if name.lstrip("_") == retired.word]
    lines = [f"line {line}: {name}" for line, name in found.identifiers if word in parts_of(name)]
    lines += [f"{path.name} itself"] if word in parts_of(path.stem) else []
    if retired.where == "anywhere":
        lines += [f"line {line}: {said}" for line, said in found.words if said == word]
    return lines


def test_retired_words_are_not_used() -> None:
    found = {
        f"say {retired.instead} instead of {retired.word}": uses_there
        for retired in RETIRED + RETIRED_INSIDE
        if (uses_there := [f"{path.relative_to(ROOT)} {use}" for path in SOURCES for use in uses(path, retired)])
    }
    assert found == {}


def test_a_word_is_found_wherever_it_is_retired(tmp_path: Path) -> None:
    path = tmp_path / "vain.py"
    path.write_text('"""In vain."""\n#: Vain hopes.\nclass Look:\n    in_vain = look = 1\n')
    assert len(uses(path, Retired("vain", ""))) == 4 and len(uses(path, Retired("vain", "", "part"))) == 2
    assert uses(path, Retired("Look", "", "name")) == ["line 3: Look"] and uses(path, Retired("vain", "", "file"))
    assert not uses(path, Retired("Vain", "", "name")) and not uses(path, Retired("hope", ""))


def entries() -> dict[str, str]:
    """Term -> text of the glossary."""
    found = re.findall(r"^- \*\*(.+?)\*\*: (.+?)(?=^- |\Z)", GLOSSARY.read_text("utf-8"), re.M | re.S)
    assert len(found) == len(dict(found)), "a term stands in the glossary twice"
    return dict(found)


def test_the_glossary_is_alphabetical() -> None:
    terms = [term.casefold() for term in entries()]
    assert terms and terms == sorted(terms), [b for a, b in pairwise(terms) if a > b]


def test_the_glossary_names_what_there_is() -> None:
    missing = [finding for term, text in entries().items() for finding in unknown_names(term, text)]
    assert missing == []


def unknown_names(term: str, text: str) -> Iterator[str]:
    """Names in an entry of the glossary that gpusim does not have."""
    for name in re.findall(r"`(gpusim\.[\w.]+)`", text):
        if name != "gpusim.explore_properties" and not exists(name):  # that is a group of entry points
            yield f"{term}: there is no {name}"
    for counter in re.findall(r"`([a-z0-9]+__[\w.]+)`", text):
        if counter.startswith("smsp__average_warps_issue_stalled_"):
            continue
        if not any(counter in text_of(path) for path in SOURCES):
            yield f"{term}: gpusim knows no counter {counter}"


def test_a_name_that_is_not_there_is_found() -> None:
    said = "`gpusim.trace.nothing`, `gpusim.trace.record` and `sm__nothing.sum`"
    assert list(unknown_names("term", said)) == [
        "term: there is no gpusim.trace.nothing", "term: gpusim knows no counter sm__nothing.sum"
    ]  # fmt: skip


def exists(dotted: str) -> bool:
    """Whether a module, or a name that is defined in one (of a class: one of its members), is there."""
    folder, parts = ROOT, dotted.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder = folder / parts.pop(0)
    if not parts:
        return True
    path = folder / f"{parts.pop(0)}.py"
    if not path.is_file():
        return False
    body = ast.parse(path.read_text("utf-8")).body
    for part in parts:
        node = next((node for node in body if part in defined_by(node)), None)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


def defined_by(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
