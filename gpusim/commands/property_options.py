"""The options of single properties on the command line of ``gpusim explore``, as the properties themselves declare
them.

Mental model: the command has its own options; each property that can be loaded adds those it declares
(:class:`gpusim.explore.property.Option`), every one marked with the properties that it is for. A property that cannot
be loaded, or whose option is taken, adds none and is refused when it is asked for, so that no other is disturbed.
gpusim's own say what they take without being loaded; those of other distributions are loaded to be asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import click

from gpusim.commands.options import Figure
from gpusim.errors import UsageError
from gpusim.explore.option import Option
from gpusim.explore.own_properties import OWN_PROPERTIES
from gpusim.explore.property_names import origin_of, property_names
from gpusim.io.nearest import hint

_PREFIX = "property_option_"
_META = "gpusim.commands.property_options"
_TYPES: Mapping[Any, click.ParamType] = {int: click.INT, float: Figure(), str: click.STRING}


class PropertyName(click.ParamType):
    """The name of a property; what is installed is asked when a name is given, not when the command is defined."""

    name = "property"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(property_names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        names = property_names()
        if value not in names:
            self.fail(f"no property is called {value!r}; {hint(str(value), names)}", param, ctx)
        return value


class _Value(click.ParamType):
    """What a property's own function makes of a text; its ValueError says what is wrong with it."""

    name = "text"

    def __init__(self, option: Option) -> None:
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.option.type(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _loaded(name: str) -> Any:
    """The class of the property called ``name``. Raises UsageError where there is none that can be used."""
    # What loads a property needs the simulator, which --help does not.
    return importlib.import_module("gpusim.explore.property_registry").find_property(name)


def _described(name: str) -> Any:
    """What says which ``options`` the property called ``name`` takes and what it ``asks``."""
    return OWN_PROPERTIES.get(name) or _loaded(name)


@dataclass
class Collected:
    """``options``: by their flag, each with the properties that it is for; ``unusable``: why a property cannot be
    used."""

    options: dict[str, tuple[Option, list[str]]] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)


def collect(taken: Iterable[str]) -> Collected:
    """The options of all properties beside the flags that are ``taken``. Imports those of other distributions."""
    found, taken = Collected(), set(taken)
    for name in property_names():
        try:
            options = _described(name).options
        except UsageError as error:
            found.unusable[name] = str(error)
            continue
        for option in options:
            of_another = found.options.get(option.flag)
            if option.flag in taken or (of_another and of_another[0] != option):
                whose = "property " + of_another[1][0] if of_another else "gpusim explore"
                found.unusable[name] = (
                    f"property {name} cannot be used ({origin_of(name)}): {whose} has an option {option.flag} already"
                )
        if name not in found.unusable:
            for option in options:
                found.options.setdefault(option.flag, (option, []))[1].append(name)
    return found


class PropertyCommand(click.Command):
    """A command that takes the options of all properties beside its own."""

    def collected(self, ctx: click.Context) -> Collected:
        """What the properties declare, collected once a call."""
        if _META not in ctx.meta:
            ctx.meta[_META] = collect(flag for param in super().get_params(ctx) for flag in param.opts)
        return ctx.meta[_META]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        collected = self.collected(ctx).options.values()
        return [*super().get_params(ctx), *(_as_click(option, names) for option, names in collected)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            # The option may be that of a property that could not be loaded: that is what there is to mend.
            for name, why in self.collected(ctx).unusable.items():
                if name in given or f"--property={name}" in given:
                    raise UsageError(why) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = [(str(option.name).startswith(_PREFIX), option.get_help_record(ctx)) for option in options]
        for title, of_property in (("Options", False), ("Options of single properties", True)):
            with formatter.section(title):
                formatter.write_dl([record for each, record in records if record and each is of_property])
        unusable = self.collected(ctx).unusable
        with formatter.section("Properties"):
            formatter.write_dl([(name, unusable.get(name) or _described(name).asks) for name in property_names()])


def options_given(ctx: click.Context, name: str, gpu: str, settings: Sequence[str]) -> dict[str, Any]:
    """The options of the property called ``name`` as they were given to a :class:`PropertyCommand`, and what the
    property adds to them. Raises UsageError for a property that cannot be used, and for an option that is another
    one's."""
    command = ctx.command
    assert isinstance(command, PropertyCommand)
    collected = command.collected(ctx)
    if name in collected.unusable:
        raise UsageError(collected.unusable[name])
    found: dict[str, Any] = {}
    for flag, (option, names) in collected.options.items():
        value = ctx.params.get(_PREFIX + option.name)
        given = value not in (None, ()) and not (option.type is bool and value is False)
        if given and name not in names:
            raise UsageError(f"{flag} is for --property {' and '.join(names)}, not {name}")
        if name in names:
            value = value if given else option.default
            if option.multiple and isinstance(value, (list, tuple)) and value:
                value = option.separator.join(map(str, value))
            if not isinstance(value, (str, int, float, NoneType)):
                raise UsageError(
                    f"property {name} cannot be used ({origin_of(name)}): its option {flag} gives a "
                    f"{type(value).__name__}, which no finding can hold: a text, a number or a bool is wanted"
                )
            if value not in (None, ""):
                found[option.name] = value
    return _loaded(name).complete(found, gpu, settings)


def _as_click(option: Option, names: Sequence[str]) -> click.Option:
    text = f"For --property {' and '.join(names)}: {option.help}"
    if option.default is not None and option.type is not bool:
        text += f"  [default: {option.default}]"
    declarations = [option.flag, _PREFIX + option.name]
    if option.type is bool:
        return click.Option(declarations, is_flag=True, help=text)
    kind = _TYPES.get(option.type) or _Value(option)
    return click.Option(declarations, type=kind, multiple=option.multiple, metavar=option.metavar, help=text)


__all__ = ["Collected", "PropertyCommand", "PropertyName", "collect", "options_given"]
