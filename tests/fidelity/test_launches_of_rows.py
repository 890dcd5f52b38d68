"""Does a row of a table launch the grid and block that it says was timed?"""

from __future__ import annotations

import numpy as np
import pytest
from validation.sets import load_sets

from workloads.external.families import FAMILIES


@pytest.mark.parametrize("name", ["study_h100", "operators_rtx5080_laptop"])
def test_each_row_launches_what_its_columns_say(name: str) -> None:
    (chosen,) = load_sets([name])
    for row in chosen.rows:
        timed = FAMILIES[chosen.entry["family"]](row.values, None)
        assert int(np.prod(timed.grid)) == int(row.values["blocks"]), row.identity
        assert int(np.prod(timed.block or ())) == int(row.values["threads"]), row.identity
