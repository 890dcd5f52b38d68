"""A kernel's name taken apart: its path, its template's arguments, its words.

Mental model: one pass over at most MOST_LETTERS letters, without backtracking, since names come from other people's
files. A declaration (``void ns::f<int, 4>(float*)``) gives the path ``ns, f``, the text between the angle brackets and
that between the parentheses. A mangled symbol (``_ZN2ns1fILi4EEEvPf``) gives the path and the names and numbers in it,
since the identifiers of the Itanium C++ ABI stand in it with their length before them; what it abbreviates is not
resolved here. Other names are a path of one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: More of a name is not read.
MOST_LETTERS = 16_384
_WORD = re.compile(r"[A-Za-z_$][\w$]*|\d+")
#: Each alternative begins with another letter or ends at its first other one: linear.
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+")
#: ``(int)128``, as Nsight writes a number among a template's arguments.
_CAST = re.compile(r"\((?:int|uint|long|ulong|short|ushort|char|schar|uchar|bool)\)(?=-?\d)")
#: What profilers end a name with that they have cut.
_CUT = ("...", "…")
_NO_NAMESPACE = ("(anonymous namespace)::", "<unnamed>::", "_GLOBAL__N__", "{anonymous}::")
_TWO_WORDS = (
    ("unsigned long long", "ulong"), ("unsigned long", "ulong"), ("unsigned int", "uint"), ("unsigned char", "uchar"),
    ("unsigned short", "ushort"), ("signed char", "schar"), ("long long", "long"),
)  # fmt: skip


@dataclass(frozen=True)
class SplitName:
    """``text``: as read, cut; ``path``: namespaces and the function; ``words``: names and numbers of the template's
    arguments in order; ``parameters``: those of the function's parameters."""

    text: str
    path: tuple[str, ...]
    words: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def function(self) -> str:
        """The last of the path."""
        return self.path[-1] if self.path else ""

    @property
    def scope(self) -> str:
        """The first of the path, "" for a name without namespace."""
        return self.path[0] if len(self.path) > 1 else ""


def split_name(name: str) -> SplitName:
    """Take ``name`` apart."""
    text = name[:MOST_LETTERS].strip()
    if text.startswith("_Z"):
        path, words = _mangled(text)
        return SplitName(text, path, words, ())
    for there, instead in _TWO_WORDS:
        text = text.replace(there, instead)
    plain = _CAST.sub("", text)
    for each in _NO_NAMESPACE:
        plain = plain.replace(each, "")
    begin, template, parameters = _declared(plain)
    path = tuple(part for part in begin.split("::") if part)
    words, last = _WORD.findall(template), _WORD.findall(parameters)
    if text.endswith(_CUT):  # the last word may be half of one
        (last or words)[-1:] = []
    return SplitName(text, path, tuple(words), tuple(last))


def parts_of(identifier: str) -> list[str]:
    """``LayerNorm_fwd2`` as ``layer, norm, fwd, 2``."""
    return [part.lower() for part in _PARTS.findall(identifier)]


def _declared(text: str) -> tuple[str, str, str]:
    """The qualified name, what stands in its angle brackets, and what in its parentheses. The name of a member of a
    template is what follows the last brackets before the parentheses."""
    depth, begin, opened = 0, 0, -1
    name = ""
    inside: list[str] = []
    for at, letter in enumerate(text):
        if letter in "<[{" or (letter == "(" and depth):
            if depth == 0:
                name, opened = name or text[begin:at], at + 1
            depth += 1
        elif letter in ">]})" and depth:
            depth -= not (letter == ">" and text[at - 1] == "-")
            if depth == 0:
                inside.append(text[opened:at])
                if text[at + 1 : at + 3] == "::":
                    begin = at + 1  # a member of a template: of whom, its own name does not matter
                    name = ""
        elif depth == 0 and letter == "(":
            return name or text[begin:at], " ".join(inside), text[at + 1 :]
        elif depth == 0 and letter == " " and not name:
            begin = at + 1  # what stood before was the type that is returned
    if depth and opened >= 0:  # cut off within the brackets
        return name, " ".join((*inside, text[opened:])), ""
    return (name or text[begin:] or text), " ".join(inside), ""


def _mangled(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Path and words of an Itanium symbol: identifiers with their lengths, literals (``Li128E``), nothing else."""
    path: list[str] = []
    words: list[str] = []
    at, in_path = 2, True
    while at < len(text):
        letter = text[at]
        if letter.isdigit() and letter.isascii():
            end = at
            while end < len(text) and end - at < 6 and text[end] in "0123456789":
                end += 1
            identifier = text[end : end + int(text[at:end])]
            at = max(end + len(identifier), end)
            if not identifier.startswith("_GLOBAL__N"):
                (path if in_path else words).append(identifier)
        elif letter in "ST" and at + 1 < len(
            text
        ):  # a substitution or a template's parameter: digits in it are no length
            end = at + 1
            while end < len(text) and end - at < 8 and (text[end] in "0123456789" or text[end].isupper()):
                end += 1
            at = end + 1 if end < len(text) and text[end] == "_" else at + 2
        elif letter == "L" and at + 1 < len(text) and text[at + 1].islower():
            end = at + 2
            while end < len(text) and end - at < 24 and text[end] in "0123456789n":
                end += 1
            if end > at + 2:
                words.append(text[at + 2 : end].replace("n", "-"))
            at = end
            in_path = False
        else:
            in_path = in_path and (letter == "N" or letter in "LKrV")
            at += 1
    return tuple(path), tuple(words)
