"""All families of measured kernels, and which file makes the launches of each.

Mental model: a family takes a row's columns and gives a :class:`Timed` (:mod:`workloads.external.launches`), or a
launch of the suite. A family's file and ``launches.py`` are all that its launches depend on beside their kernels'
sources, so that another family is no reason to predict these anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

from .gems_families import GEMS_FAMILIES
from .grid_families import GRID_FAMILIES
from .instruction_families import INSTRUCTION_FAMILIES
from .intensity_families import INTENSITY_FAMILIES
from .laptop_families import LAPTOP_FAMILIES
from .launches import Row, SuiteLaunch, Timed
from .layer_families import LAYER_FAMILIES
from .memory_families import MEMORY_FAMILIES
from .notes_families import NOTES_FAMILIES
from .operator_families import OPERATOR_FAMILIES
from .pattern_families import PATTERN_FAMILIES
from .product_families import PRODUCT_FAMILIES
from .relaxation_families import RELAXATION_FAMILIES
from .study_families import STUDY_FAMILIES
from .teaching_families import TEACHING_FAMILIES
from .template_families import TEMPLATE_FAMILIES
from .transform_families import TRANSFORM_FAMILIES
from .vector_families import VECTOR_FAMILIES
from .wgmma_families import WGMMA_FAMILIES

Maker = Callable[[Row, Path | None], Timed | SuiteLaunch]
#: Family -> what makes a launch of one of its rows, given a checkout of the original or None.
FAMILIES: Mapping[str, Maker] = {
    **GEMS_FAMILIES,
    **GRID_FAMILIES,
    **INSTRUCTION_FAMILIES,
    **INTENSITY_FAMILIES,
    **LAPTOP_FAMILIES,
    **LAYER_FAMILIES,
    **MEMORY_FAMILIES,
    **NOTES_FAMILIES,
    **OPERATOR_FAMILIES,
    **PATTERN_FAMILIES,
    **PRODUCT_FAMILIES,
    **RELAXATION_FAMILIES,
    **STUDY_FAMILIES,
    **TEACHING_FAMILIES,
    **TEMPLATE_FAMILIES,
    **TRANSFORM_FAMILIES,
    **VECTOR_FAMILIES,
    **WGMMA_FAMILIES,
}


def file_of(family: str) -> Path:
    """What makes the launches of ``family``. Raises KeyError for one that there is not."""
    return Path(inspect.getfile(FAMILIES[family]))
