"""Launches of real networks by name: the workloads package as values that commands can print and run.

Mental model: ``workloads/networks`` holds the sizes and unrolls forward passes; it is reached by name only (see
:mod:`gpusim.io.sibling`), and what it refuses becomes a UsageError.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cases.names import refuse_unknown_request
from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.io.sibling import load_sibling


@dataclass(frozen=True)
class Network:
    """``kind``: decoder, encoder, residual, or "decoder, projected only" (with layers that no kernel of the suite is
    of); ``source``: where its sizes were published."""

    name: str
    kind: str
    layers: int
    source: str


def networks() -> list[Network]:
    """The networks whose sizes are known, in reading order."""
    package = _package()
    found = (package.CONFIGS | package.PROJECTED).values()
    return [Network(c.name, _kind(c), _layers(c), c.source) for c in found]


def _kind(config: Any) -> str:
    return "decoder, projected only" if config.name in _package().PROJECTED else type(config).__name__.lower()


def network_launches(name: str, **step: Any) -> list[Any]:
    """The launches of one forward pass of ``name``: layer, operator, kernel, shape, count, note. ``step``: phase,
    batch, sequence, tensor_parallel, precision. Raises UsageError for what does not exist."""
    refuse_unknown_network(name)
    try:
        return list(_package().launches(name, **step))
    except ValueError as error:
        raise UsageError(str(error)) from None


def refuse_unknown_network(name: str) -> None:
    """Raise for a name that no network has."""
    package = _package()
    known = package.CONFIGS | package.PROJECTED
    if name not in known:
        raise UsageError(f"no network is called {name!r}; {hint(name, known)}")


def pinned_suites() -> dict[str, tuple[tuple[str, dict[str, Any]], ...]]:
    """The pinned suites: name -> (kernel, shape) pairs."""
    load_sibling("workloads", "the workloads")
    return importlib.import_module("gpusim.workloads.pinned").SUITES


def refuse_unknown_suite(name: str) -> None:
    """Raise for a name that is neither a file's nor a pinned suite's."""
    if not Path(name).is_file() and name not in pinned_suites():
        raise UsageError(f"no file and no pinned suite is called {name!r}; {hint(name, pinned_suites())}")


def refuse_unknown_workloads(texts: Iterable[str]) -> None:
    """Raise for the first of ``texts`` that is no suite's name or file, no entry of the suite and no function in a
    file."""
    for text in texts:
        if not (text.endswith(".json") and Path(text).is_file()) and text not in pinned_suites():
            refuse_unknown_request(text)


def _package() -> Any:
    load_sibling("workloads", "the workloads")
    return importlib.import_module("gpusim.workloads.networks")


def _layers(config: Any) -> int:
    stages = getattr(config, "stages", ())
    # Of a residual network those with weights: three convolutions a block, the stem and the classifier.
    return 3 * sum(stage.blocks for stage in stages) + 2 if stages else config.layers
