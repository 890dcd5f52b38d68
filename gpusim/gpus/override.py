"""A GPU that differs from a described one in a few values: the what-if of the command line.

Mental model: ``key=value`` with a GPU file's dotted key and a TOML value, checked exactly as a file is; the
result's name tells the difference, so that no output of a what-if can be taken for the real GPU's.
"""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Iterable
from dataclasses import replace

from gpusim.errors import SpecError
from gpusim.gpus.clock import at_clock
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.load import ALL_KEYS, checked, hints_of, known_keys
from gpusim.gpus.spec import GpuSpec, value_of
from gpusim.io.nearest import hint


def override_gpu(spec: GpuSpec, settings: Iterable[str]) -> GpuSpec:
    """A GPU that differs from ``spec`` in ``settings``: ``key=value`` texts with a GPU file's dotted keys
    and TOML values, e.g. ``l2.hit_latency_ns=60``, or with a factor of what the GPU has,
    ``dram.peak_bytes_per_ns=*1.5``. With ``clock_hz`` crossbar and L2 follow the clock (:mod:`gpusim.gpus.clock`) where
    no setting, in whatever order, says otherwise.

    The name tells the difference (``h200[l2.hit_latency_ns=60]``). Raises :class:`SpecError` as
    :func:`load_gpu` does, and for a text that is no setting, sets what another has set, or a unit that the GPU does not
    have.
    """
    seen = set()
    for setting in sorted(settings, key=lambda text: _key(text) != "clock_hz"):  # the others as they are given
        key, equals, text = _key(setting), *setting.partition("=")[1:]
        where = f"setting {setting!r}"
        if key in seen:
            raise SpecError(f"{where}: {key} is set twice")
        seen.add(key)
        if not equals:
            raise SpecError(f"{where}: write key=value, e.g. l2.hit_latency_ns=60")
        known = known_keys()
        if key not in known:
            raise SpecError(f"{where}: unknown key; {hint(key, known, ALL_KEYS)}")
        _check_unit(spec, where, key)
        value = _multiplied(spec, where, key, text) if text.lstrip().startswith("*") else _toml(where, text)
        changed = _with_value(spec, where, key, value)
        if key == "clock_hz":
            changed = replace(at_clock(spec, changed.clock_hz), name=changed.name)
        spec = changed
    check_consistency(spec, spec.name)
    return spec


def _toml(where: str, text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise SpecError(f"{where}: not a TOML value: {error}") from error


def _multiplied(spec: GpuSpec, where: str, key: str, text: str) -> float:
    """What ``*1.5`` makes of the GPU's own value: whole where that is."""
    factor, own = typing.cast(typing.Any, _toml(where, text.strip()[1:])), value_of(spec, key)
    for each, whose in ((factor, "a factor"), (own, f"{key}, of which {spec.name} has {own!r},")):
        if isinstance(each, bool) or not isinstance(each, (int, float)):
            raise SpecError(f"{where}: {whose} is no number that could be multiplied")
    try:
        # 3350.0000000000005 is nobody's.
        return round(own * factor) if isinstance(own, int) else float(f"{own * factor:.12g}")
    except (ValueError, OverflowError):
        raise SpecError(f"{where}: {own} times {factor} is no number of a GPU") from None


#: Sections of what not every GPU has: the key that is 0 where it has none, its name, one that has it.
_UNITS = {
    "tma": ("queue_entries", "tensor memory accelerator", "h200"),
    "tensor_memory": ("columns_per_cycle", "tensor memory", "b200"),
}


def _check_unit(spec: GpuSpec, where: str, key: str) -> None:
    """Raise SpecError for a key of a unit that the GPU does not have: no figure makes it one that has."""
    section = key.partition(".")[0]
    if section in _UNITS:
        presence, unit, example = _UNITS[section]
        if not getattr(getattr(spec, section), presence):
            raise SpecError(f"{where}: {spec.name} has no {unit}; take a GPU that has one, e.g. {example}")


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _with_value(spec: GpuSpec, where: str, key: str, value: object) -> GpuSpec:
    *sections, name = key.split(".")
    chain: list[typing.Any] = [spec]
    for section in sections:
        owner = chain[-1]
        chain.append(owner[section] if isinstance(owner, dict) else getattr(owner, section))
    hint = hints_of(type(chain[-1]))[name]
    changed: object = checked(where, key, hint, value)
    for owner, part in zip(reversed(chain), reversed([*sections, name]), strict=True):
        changed = {**owner, part: changed} if isinstance(owner, dict) else replace(owner, **{part: changed})
    return replace(typing.cast(GpuSpec, changed), name=f"{spec.name}[{key}={value}]")
