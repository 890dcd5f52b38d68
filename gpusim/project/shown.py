"""What stands for a projection where one step has to: of a request the step of its middle token, of a server the kind
of steps that takes most of its time.

Mental model: breakdowns, limits and remedies are of one step; a projection of many steps names the one to look at.
"""

from __future__ import annotations

from gpusim.project.requests import RequestProjection
from gpusim.project.serving import ServingProjection
from gpusim.project.whole import ModelProjection

Projected = ModelProjection | RequestProjection | ServingProjection


def step_of(found: Projected) -> ModelProjection:
    """Whose operators are shown."""
    if isinstance(found, RequestProjection):
        return found.middle
    return found.heaviest if isinstance(found, ServingProjection) else found


def first_of(found: Projected) -> ModelProjection:
    """Whose network, GPU and memory are shown: of a request its prompts' step."""
    if isinstance(found, RequestProjection):
        return found.first
    return found.heaviest if isinstance(found, ServingProjection) else found


def listed(found: Projected, names: dict[str, str]) -> str:
    """What the operators that are shown are of, in words; ``names``: of steps by phase."""
    if isinstance(found, RequestProjection):
        return "while generating"
    if isinstance(found, ServingProjection):
        return "in the steps that take most of the time"
    return names[found.plan.phase]
