"""The configurations of a search: all combinations of values, or those that are listed, without what restrictions rule
out.

Mental model: a restriction is what autotuners take for one: a function of the parameters that it names, a function of
the whole configuration (``lambda p: p["block"] <= 256``), or a formula as a text; several of them must all hold. What
the case function does not take is told before anything runs.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpusim.cases.formulas import Formula
from gpusim.errors import UsageError
from gpusim.io.nearest import hint

#: A search's values, name by name, or its configurations.
Space = Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]
Restriction = str | Formula | Callable[..., Any]
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
Condition = Callable[[Mapping[str, Any]], Any]


def configurations(
    case: Callable[..., Any], name: str, space: Space, restrict: Restriction | Sequence[Restriction] | None
) -> list[dict[str, Any]]:
    """The configurations of ``space`` that ``restrict`` leaves, each once. Raises UsageError for one that ``case``,
    called ``name``, does not take, for a restriction of something else, and where none is left."""
    everything = _unrepeated(_combinations(space))
    _refuse_parameters(case, name, everything)
    if not everything:
        raise UsageError(f"{name}: no configuration is in the space")
    among = [restrict] if isinstance(restrict, str) or callable(restrict) else list(restrict or ())
    known = list(dict.fromkeys(parameter for each in everything for parameter in each))
    conditions = [_condition(each, known) for each in among]
    left = [each for each in everything if all(condition(each) for condition in conditions)]
    if not left:
        raise UsageError(f"{name}: of {len(everything)} configurations none is left by restrict")
    return left


def applied(function: Callable[..., Any], values: Mapping[str, Any], known: Sequence[str]) -> Any:
    """What ``function`` gives for a configuration: called with those of ``values`` that its parameters name, else with
    the configuration itself. Raises UsageError for a parameter that is none of ``known``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a callable that does not say
        return function(dict(values))
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return function(**values)
    named = [each.name for each in parameters if each.kind in _NAMED and each.name in values]
    needed = [each.name for each in parameters if each.default is each.empty and each.name not in values]
    if len(needed) == 1 and not named:
        return function(dict(values))
    if needed:
        raise UsageError(
            f"{getattr(function, '__name__', function)!r} takes {needed[0]}, which is no parameter; {hint(needed[0], list(known))}"
        )
    return function(**{name: values[name] for name in named})


def _condition(restriction: Restriction, known: Sequence[str]) -> Condition:
    if isinstance(restriction, (str, Formula)):
        formula = Formula(restriction) if isinstance(restriction, str) else restriction
        formula.refuse_unknown(known)
        return formula
    if not callable(restriction):
        raise UsageError(f"a restriction is a function of a configuration or a formula, not {restriction!r:.80}")
    return lambda values: applied(restriction, values, known)


def _combinations(space: Space) -> Iterator[dict[str, Any]]:
    if not isinstance(space, Mapping):
        for each in space:
            yield {str(name): value for name, value in each.items()}
        return
    for name, values in space.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise UsageError(f"{name} has {values!r:.80}, which is no list of values: write {name!r}: [{values!r:.40}]")
    if not space:
        return
    for values in itertools.product(*space.values()):
        yield {str(name): value for name, value in zip(space, values, strict=True)}


def _unrepeated(configurations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each configuration once: a value that is listed twice is one value."""
    return list({tuple((name, repr(value)) for name, value in each.items()): each for each in configurations}.values())


def _refuse_parameters(case: Callable[..., Any], name: str, configurations: Sequence[Mapping[str, Any]]) -> None:
    """Raises UsageError for the first configuration that the case function does not take."""
    try:
        taken = inspect.signature(case)
    except (TypeError, ValueError):  # a callable that does not say
        return
    for each in configurations:
        try:
            taken.bind(**each)
        except TypeError as error:
            unknown = [parameter for parameter in each if parameter not in taken.parameters]
            told = (
                f"has no parameter {unknown[0]}; {hint(unknown[0], list(taken.parameters))}" if unknown else str(error)
            )
            raise UsageError(f"{name} {told}") from None
