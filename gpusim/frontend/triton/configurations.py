"""What ``triton.autotune`` and ``triton.heuristics`` add to a launch, outside in, as their own ``run`` adds it.

Mental model: a kernel is a ``triton.jit`` function in layers. Each layer adds keywords: a configuration's values, or
what a heuristic computes of the arguments. :func:`unwrap` walks through them and ends with the function and all its
keywords; of several configurations one must have been chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpusim.errors import UsageError
from gpusim.frontend.protocol import Choice
from gpusim.frontend.triton.installed import is_autotuner, is_heuristics, is_interpreted, is_jit
from gpusim.frontend.triton.kernels import TritonKernel, name_of


def unwrap(kernel: TritonKernel, args: tuple) -> tuple[Any, dict[str, Any]]:
    """The ``triton.jit`` function inside, and the keywords of a launch with ``args``. Runs the ``pre_hook`` of a
    configuration, as a launch does. Where nobody has chosen among configurations it is the first that is worth trying.
    Raises UsageError."""
    given = dict(kernel.given)
    for layer in _layers(kernel.function):
        if is_autotuner(layer):
            configs = _configurations(layer, kernel, args, given)
            given.update(configs[0].all_kwargs())
            if configs[0].pre_hook is not None:
                configs[0].pre_hook({**dict(zip(layer.arg_names, args)), **given})
        elif is_heuristics(layer):
            for name, value_of in layer.values.items():
                given[name] = value_of({**dict(zip(layer.arg_names, args)), **given})
        elif is_jit(layer):
            return layer, given
        elif is_interpreted(layer):
            raise UsageError(
                f"{name_of(layer)} belongs to Triton's interpreter: unset TRITON_INTERPRET before importing triton"
            )
    raise UsageError(f"{name_of(kernel.function)} is no triton.jit function, nor wrapped around one")


def inner_function(kernel: TritonKernel) -> Any:
    """The ``triton.jit`` function inside."""
    *_, last = _layers(kernel.function)
    return last


def choice_of(kernel: TritonKernel, args: tuple) -> Choice | None:
    """The configurations among which a launch of ``kernel`` chooses, None where there is nothing to choose."""
    given = dict(kernel.given)
    for layer in _layers(kernel.function):
        if not is_autotuner(layer):
            continue
        configs = _configurations(layer, kernel, args, given)
        if len(configs) == 1:
            return None
        named = {**dict(zip(layer.arg_names, args)), **given}
        values = [named[name] for name in layer.keys if name in named]
        dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        key = layer, repr(values), tuple(dtypes), repr(sorted(given.items(), key=lambda item: item[0]))
        return Choice(
            name_of(layer), key, {_told(each): TritonKernel(kernel.function, kernel.given, each) for each in configs}
        )
    return None


def _layers(function: Any) -> Iterator[Any]:
    """The function and what it wraps, from outside in."""
    yield function
    while not is_jit(function) and hasattr(function, "fn"):
        function = function.fn
        yield function


def _configurations(layer: Any, kernel: TritonKernel, args: tuple, given: Mapping[str, Any]) -> list[Any]:
    """Those of an autotuner that ``kernel`` allows, at least one: the one that it names, or what the autotuner's own
    pruning leaves."""
    if kernel.config is not None:
        return [_named(layer, kernel.config)]
    taken = [name for config in layer.configs for name in config.kwargs if name in given]
    if taken:
        raise UsageError(
            f"{name_of(layer)} is autotuned over {taken[0]}: leave it out, or name a configuration: config="
        )
    before, layer.nargs = layer.nargs if hasattr(layer, "nargs") else None, dict(zip(layer.arg_names, args))
    try:
        return list(layer.prune_configs(dict(given)))
    finally:
        layer.nargs = before


def _named(layer: Any, config: Any) -> Any:
    name, count = name_of(layer), len(layer.configs)
    if hasattr(config, "all_kwargs"):
        return config
    if isinstance(config, int) and not isinstance(config, bool):
        if not 0 <= config < count:
            raise UsageError(f"{name} has configurations 0 to {count - 1}, not {config}")
        return layer.configs[config]
    if not isinstance(config, Mapping):
        raise UsageError(f"config of {name} must be a number, a triton.Config or a mapping, not {config!r}")
    fits = [each for each in layer.configs if config.items() <= each.all_kwargs().items()]
    if len(fits) != 1:
        known = "; ".join(map(_told, layer.configs))
        raise UsageError(f"{len(fits)} configurations of {name} have {dict(config)}: name one of {known}")
    return fits[0]


def _told(config: Any) -> str:
    """A configuration in words: its own values, warps and stages."""
    return ", ".join(
        f"{name}={value}" for name, value in config.all_kwargs().items() if (name, value) != ("num_ctas", 1)
    )
