"""What a user may write next: an example of a launch of a CUDA C++ kernel, made from its declaration.

Mental model: the source is read as pieces, without a compiler (:mod:`gpusim.frontend.native.cpp_pieces`), so that a
command line that lacks its launch is answered at once. A type that the text does not explain stands in the example as
it is written.
"""

from __future__ import annotations

import re

from gpusim.cases.native_arguments import SMALL_FLOATS, TYPES
from gpusim.frontend.native.cpp_pieces import Piece, at_commas, kernels, names_of, pieces

#: What a declaration says of a parameter beside its type.
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|restrict|__restrict__|__restrict|__grid_constant__|typename|struct|std)\b|::|&"
)
_LENGTH = 1024


def launch_hint(source: str, file: str, entry: str) -> tuple[str, list[str]]:
    """The declaration of kernel ``entry`` and an example of each argument, ``float:2``, ``float[1024]``; of a template
    without arguments, or a kernel that the text has not, what there is instead, and no example."""
    plain = entry.partition("<")[0].rpartition("::")[2].strip()
    found = [piece for piece in pieces(source) if piece.kernel.rpartition("::")[2] == plain]
    if not found:
        there = list(dict.fromkeys(kernels(source)))
        return (f"{file} itself has no kernel {plain}; it has {', '.join(there)}" if there else ""), []
    piece = found[0]
    declared = _declared(source, piece)
    if declared is None:
        return "", []
    types = {}
    if piece.template is not None:
        names = names_of(piece.template)
        if "<" not in entry:
            return f"{plain} is a template: name it with its arguments, {file}:{plain}<{', '.join(names)}>", []
        types = dict(zip(names, at_commas(entry.partition("<")[2].rpartition(">")[0]), strict=False))
    parameters = [each for each in at_commas(declared) if each.strip() not in ("", "void")]
    return f"{plain}({' '.join(declared.split())})", [_argument(each, types) for each in parameters]


def _declared(source: str, piece: Piece) -> str | None:
    """What stands in the parentheses behind the kernel's name."""
    text = source[piece.start : piece.end]
    start = re.search(rf"\b{re.escape(piece.kernel.rpartition('::')[2])}\s*\(", text)
    depth = 0
    for place in range(start.end() - 1 if start else len(text), len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return text[start.end() : place] if start else None
    return None


def _argument(parameter: str, types: dict[str, str]) -> str:
    """The example for one parameter: ``float[1024]`` for ``const float *__restrict__ x``."""
    text = parameter.partition("=")[0].partition("[")[0]
    pointers = text.count("*") + ("[" in parameter.partition("=")[0])
    words = [types.get(word, word).strip() for word in _QUALIFIERS.sub(" ", text.replace("*", " ")).split()]
    known = {*TYPES, *SMALL_FLOATS}
    written = next((" ".join(words[:count]) for count in (3, 2, 1) if " ".join(words[:count]) in known), "")
    written = {"__half": "half", "__nv_bfloat162": "bf16", "__half2": "half"}.get(words[0] if words else "", written)
    kind = written or (words[0] if words else "TYPE")
    if pointers == 1:
        return f"{kind}[{_LENGTH}]"
    if pointers:
        return f"{kind}*[8,{_LENGTH}]"
    if not written:
        return f"{{...}} (a {kind})"
    floats = written in SMALL_FLOATS or TYPES[written].kind == "f"
    return f"{kind}:{'true' if kind == 'bool' else 2 if floats else _LENGTH}"
