"""What an editor's forms do to an alert.

Mental model: a form's fields become the arguments of a function of :mod:`gpusim.watch.alerts.write`, which checks them,
changes the alert and keeps an event with the editor's name; it raises what the form's page then says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpusim.serve.tokens import MOST_LETTERS
from gpusim.store.store import Store
from gpusim.watch.alerts.record import FIXED
from gpusim.watch.alerts.write import add_note, assign, set_state

Fields = Mapping[str, str]


def assign_alert(store: Store, number: int, who: str, fields: Fields) -> None:
    """Field ``owner``."""
    assign(store, number, fields.get("owner", ""), who=who[:MOST_LETTERS])


def change_state(store: Store, number: int, who: str, fields: Fields) -> None:
    """Fields ``state``, ``verdict``, ``reason``, ``expiry``."""
    verdict, reason, expiry = (fields.get(name, "").strip() for name in ("verdict", "reason", "expiry"))
    set_state(store, number, fields.get("state", ""), who=who, verdict=verdict, reason=reason, expiry=expiry)


def note_alert(store: Store, number: int, who: str, fields: Fields) -> None:
    """Field ``text``."""
    add_note(store, number, fields.get("text", ""), who=who)


def close_alert(store: Store, number: int, who: str, fields: Fields) -> None:
    """Fixed: later runs verify it or open it again."""
    set_state(store, number, FIXED, who=who, reason=fields.get("reason", ""))


ACTIONS: Mapping[str, Callable[[Store, int, str, Fields], None]] = {
    "assign": assign_alert,
    "state": change_state,
    "note": note_alert,
    "close": close_alert,
}
