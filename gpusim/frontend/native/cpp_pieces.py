"""The declarations of a CUDA C++ source, by their outermost braces and semicolons, without a compiler.

Mental model: a file is a row of pieces at namespace level (functions, types, variables), each marked by what it is for:
one with ``__global__`` or ``__device__`` is device code, one without may be the host's. Comments, strings and
directives are seen as such; of ``#if ... #else`` each branch is taken to open and close the same braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: More than any source by hand; a longer one has no pieces.
MOST_LETTERS = 8 << 20
_TOKEN = re.compile(
    r"""//(?:[^\\\n]|\\.)* | /\*(?:.*?\*/|.*\Z)
      | R"(?P<raw>[^()\s\\"]{0,16})\((?:.*?\)(?P=raw)"|.*\Z) | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:[^\\\n]|\\.)*
      | [A-Za-z_]\w* | [0-9](?:[\w.]|'[0-9a-fA-F])* | :: | [^\s]""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)  # fmt: skip
_SPACES = ("__global__", "__device__", "__constant__", "__shared__", "__managed__")
_MACRO = re.compile(r"\s*#\s*define\s+(\w+)\b(?:\([^)]*\))?(.*)", re.DOTALL)
_TYPES = ("struct", "class", "union", "enum", "typedef")
#: What has parentheses before a function's name, or behind it.
_WITH_PARENTHESES = ("__launch_bounds__", "__align__", "__attribute__", "__declspec__", "alignas", "decltype", "__cluster_dims__",
                     "__block_size__", "__maxnreg__", "__nv_pure__", "noexcept", "requires", "explicit")  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """Text from ``start`` up to ``end``, on lines ``first`` to ``last`` (from 1). ``marked``: with a memory or
    execution space.
    ``kernel``: the name of the ``__global__`` function that it is, with its namespaces, else empty; ``template``: its
    template's parameters, as written, None where it is none. ``launches``: it has ``<<<``."""

    start: int
    end: int
    first: int
    last: int
    marked: bool
    launches: bool
    kernel: str = ""
    template: str | None = None


@dataclass
class _Open:
    """A piece that is being read: its ``words``, the innermost braces and parentheses open."""

    start: int = -1
    braces: int = 0
    parentheses: int = 0
    words: list[str] = field(default_factory=list)
    launches: bool = False


def pieces(text: str) -> list[Piece]:
    """The pieces of ``text`` in order; what cannot be told apart is part of the piece before it."""
    return list(_read(text)) if len(text) <= MOST_LETTERS else []


def without(text: str, left_out: set[Piece]) -> str:
    """``text`` with the pieces ``left_out`` as white space, its lines and directives where they were."""
    made, place = [], 0
    for piece in sorted(left_out, key=lambda each: each.start):
        made += [text[place : piece.start], _blank(text[piece.start : piece.end])]
        place = piece.end
    return "".join([*made, text[place:]])


def _blank(text: str) -> str:
    """The directives of ``text``, an ``#endif`` among them, and otherwise its line ends."""
    return "\n".join(line if line.lstrip().startswith("#") else "" for line in text.split("\n"))


def kernels(text: str) -> list[str]:
    """What the kernels of a source may be called: ``ns::axpy<T, N>`` of a template."""
    return [
        piece.kernel + (f"<{', '.join(names_of(piece.template))}>" if piece.template is not None else "")
        for piece in pieces(text)
        if piece.kernel
    ]


def names_of(parameters: str) -> list[str]:
    """The names of a template's ``parameters``: ``T, N`` of ``typename T, int N = 4``."""
    names = []
    for each in at_commas(parameters):
        words = re.findall(r"[A-Za-z_]\w*", each.partition("=")[0])
        names.append(words[-1] if words else each.strip())
    return names


def at_commas(text: str) -> Iterator[str]:
    """The parts of ``text`` between the commas that stand in no bracket."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _read(text: str) -> Iterator[Piece]:
    now = _Open()
    marks: set[str] = set(_SPACES)
    scopes: list[str] = []
    branches: list[tuple[int, int, int]] = []
    line, seen, before = 1, 0, ""
    first = 1
    for found in _TOKEN.finditer(text):
        token, at = found[0], found.start()
        line += text.count("\n", seen, at)
        seen = at
        if token.startswith(("//", "/*")):
            continue
        if token.lstrip().startswith("#") and token not in ("#",):
            _directive(token, now, marks, branches, len(scopes))
            continue
        if now.start < 0:
            if token == "}":
                scopes = scopes[:-1]
                continue
            if token == ";":
                continue
            now.start, first = at, line
        now.launches = now.launches or token == "<" and text.startswith("<<<", at)
        if now.braces == 0:
            now.words.append(token)
        now.parentheses += (token == "(") - (token == ")")
        opened = token == "{"
        now.braces += opened - (token == "}")
        ended = token == ";" and now.braces == 0 and now.parentheses <= 0
        if opened and now.braces == 1 and now.parentheses <= 0:
            scope = _scope(now.words)
            if scope is not None:
                scopes.append(scope)
                now = _Open()
                continue
        if token == "}" and now.braces == 0 and now.parentheses <= 0:
            ended = _is_function(now.words)
        if token == "}" and now.braces < 0:
            # The scope's end; macros without a semicolon (a template's instances) may stand before it.
            yield _piece(now, at, first, line, marks, scopes)
            scopes, now = scopes[:-1], _Open()
            continue
        if ended:
            end = found.end()
            yield _piece(now, end, first, line + text.count("\n", at, end), marks, scopes)
            now = _Open()
        before = token
    if now.start >= 0 and before:
        yield _piece(now, len(text), first, line, marks, scopes)


def _directive(token: str, now: _Open, marks: set[str], branches: list[tuple[int, int, int]], depth: int) -> None:
    name = re.match(r"\s*#\s*(\w*)", token)
    word = name[1] if name else ""
    if word == "define":
        macro = _MACRO.match(token)
        if macro and any(re.search(rf"\b{re.escape(mark)}\b", macro[2]) for mark in marks):
            marks.add(macro[1])
    elif word in ("if", "ifdef", "ifndef"):
        branches.append((now.braces, now.parentheses, depth))
    elif word in ("else", "elif", "elifdef", "elifndef") and branches:
        if now.start >= 0 and branches[-1][2] == depth:
            now.braces, now.parentheses = branches[-1][:2]
    elif word == "endif" and branches:
        branches.pop()


def _scope(words: list[str]) -> str | None:
    """The name of the namespace that a brace behind ``words`` opens, empty for a linkage or one without a name; None
    for no scope."""
    plain = [word for word in words[:-1] if word != "inline"]
    if plain[:1] == ["namespace"]:
        return "".join(plain[1:])
    return "" if plain[:1] == ["extern"] and len(plain) == 2 and plain[1].startswith('"') else None


def _is_function(words: list[str]) -> bool:
    """Whether a closing brace ends what ``words``, those outside of braces, declare; else a semicolon follows."""
    head = words[: words.index("{")] if "{" in words else words
    plain = _behind_template(head)
    if "=" in _outside(plain) and "operator" not in plain:
        return False
    is_type = any(word in _TYPES for word in plain[:3])
    return not is_type or "typedef" not in plain and bool(plain) and plain[-1] in (")", "const", "noexcept")


def _outside(words: list[str]) -> list[str]:
    """Those of ``words`` that stand in no parentheses."""
    depth, found = 0, []
    for word in words:
        depth += word == "("
        found += [word] * (depth == 0)
        depth -= word == ")"
    return found


def _behind_template(words: list[str]) -> list[str]:
    while words[:1] == ["template"]:
        words = words[1 + _parameters(words[1:]) :]
    return words


def _parameters(words: list[str]) -> int:
    """How many of ``words`` are a template's parameters and their brackets."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "<") - (word == ">")
        if depth <= 0:
            return place + 1
    return len(words)


def _piece(now: _Open, end: int, first: int, last: int, marks: set[str], scopes: list[str]) -> Piece:
    words = now.words
    marked = any(word in marks for word in words)
    kernel, template = "", None
    if "__global__" in words and "(" in words and "{" in words:
        if words[0] == "template":
            template = " ".join(words[2 : _parameters(words[1:])])
        name = _name(_behind_template(words))
        kernel = "::".join([*filter(None, scopes), name]) if name else ""
    return Piece(now.start, end, first, last, marked, now.launches, kernel, template)


def _name(words: list[str]) -> str:
    """The function's: what stands before its parentheses."""
    depth, skipping = 0, False
    for place, word in enumerate(words):
        if word == "(":
            if depth == 0 and place:
                skipping = words[place - 1] in _WITH_PARENTHESES
                if not skipping and re.match(r"[A-Za-z_]\w*$", words[place - 1]):
                    return words[place - 1]
            depth += 1
        depth -= word == ")"
    return ""
