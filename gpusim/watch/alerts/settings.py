"""What a plan says of its alerts, kept with its runs, so that whoever reads the history later goes by the same
rules."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select

from gpusim.errors import StoreFormatError
from gpusim.io.records import NotNegative, parse_record
from gpusim.store.schema import documents, runs
from gpusim.store.store import RunWriter, Store
from gpusim.watch.alerts.expectations import FILE, Expectation, load_expectations
from gpusim.watch.owners import OwnerRule
from gpusim.watch.plan import LEAST_PERCENT, Plan

_KIND = "watch alerts"


@dataclass(frozen=True)
class AlertSettings:
    """``owners``: whose a kernel is; ``least_percent``: no smaller change opens an alert; ``expectations``: what was
    agreed on."""

    owners: tuple[OwnerRule, ...] = ()
    least_percent: NotNegative = LEAST_PERCENT
    expectations: tuple[Expectation, ...] = ()

    def ended(self) -> list[Expectation]:
        """The expectations whose last day has passed."""
        today = datetime.now(UTC).date()
        return [rule for rule in self.expectations if rule.ended(today)]


def plan_settings(plan: Plan) -> AlertSettings:
    """The settings of ``plan``, with the expectations that lie beside it. Raises ExpectationError."""
    path = plan.folder / (plan.expect_file or FILE)
    expected = load_expectations(path) if plan.expect_file or path.is_file() else ()
    return AlertSettings(plan.owners, plan.least_percent, expected)


def keep_settings(run: RunWriter, settings: AlertSettings) -> None:
    """Keep them with a run of the plan."""
    run.add_document(_KIND, dataclasses.asdict(settings))


def stored_settings(store: Store, plan: str) -> AlertSettings:
    """Those of the newest run of ``plan``; the usual ones where it has none."""
    query = (
        select(documents.c.id, documents.c.content)
        .join(runs, runs.c.id == documents.c.run_id)
        .where(runs.c.name == plan, documents.c.kind == _KIND)
        .order_by(documents.c.id.desc())
        .limit(1)
    )
    with store.reading() as connection:
        row = None if connection is None else connection.execute(query).first()
    if row is None:
        return AlertSettings()
    return parse_record(AlertSettings, row[1], f"{store.name}: document {row[0]}: damaged", StoreFormatError)


def known_owners(settings: AlertSettings) -> list[str]:
    """Everybody whom a rule names."""
    return sorted({owner for rule in settings.owners for owner in rule.owners})
