"""What other packages add to gpusim: importers, front ends and explore properties, found by name.

Mental model: an extension point is a group of entry points (``gpusim.importers``). A package that declares one in its
metadata is found with no change in gpusim; gpusim's own stand in ``pyproject.toml`` in the same way, and in a table of
the code that asks, so that a source tree without metadata knows them too. Finding imports nothing: a plugin's module is
imported when somebody wants that plugin, and what goes wrong then is said with the entry point and the distribution
that declares it.

Format: Python Packaging User Guide, "Entry points specification".
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gpusim.errors import PluginError

OWN = "gpusim"


@dataclass(frozen=True)
class Plugin:
    """An object that a package offers under ``name``: ``target`` ("module:attribute") says where it stands."""

    group: str
    name: str
    target: str
    distribution: str

    def __str__(self) -> str:
        return f"entry point {self.name} = {self.target} ({self.group}) of distribution {self.distribution}"

    def load(self) -> Any:
        """The object itself, its module imported. Raises PluginError where that fails, whatever the module raises."""
        module, _, path = self.target.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for attribute in path.split(".") if path else ():
                found = getattr(found, attribute)
        except (Exception, SystemExit) as error:  # a stranger's code: it may raise anything
            raise self.broken(f"cannot be loaded: {type(error).__name__}: {error}") from error
        return found

    def broken(self, why: str) -> PluginError:
        """The error that says ``why`` this plugin does not work, and what the user can do."""
        text = " ".join(why.split())
        remedy = "reinstall gpusim" if self.distribution == OWN else f"update or uninstall {self.distribution}"
        return PluginError(f"{self}: {text}; {remedy}")


def plugins(group: str, fallback: Mapping[str, str]) -> dict[str, Plugin]:
    """The plugins of ``group`` by name: gpusim's own (``fallback``, name -> "module:attribute") in their order, then
    those of installed packages by name.

    Raises PluginError where two distributions, gpusim among them, declare the same name for different objects.
    """
    found = {name: Plugin(group, name, target, OWN) for name, target in fallback.items()}
    declared = [(entry.name, _owner(entry), entry.value) for entry in entry_points(group=group)]
    for name, owner, value in sorted(declared):
        if owner.lower() == OWN:
            continue  # the table is this very version's; metadata may be an older one's
        plugin = Plugin(group, name, value.split("[")[0].strip(), owner)
        other = found.setdefault(name, plugin)
        if other != plugin:
            raise PluginError(
                f"two distributions declare {name!r} in {group}: {other.distribution} ({other.target}) and"
                f" {owner} ({plugin.target}); uninstall {owner if other.distribution == OWN else 'one of them'}"
            )
    return found


def _owner(entry: EntryPoint) -> str:
    """The distribution that declares ``entry``."""
    return "(unnamed)" if entry.dist is None else entry.dist.metadata["Name"] or "(unnamed)"
