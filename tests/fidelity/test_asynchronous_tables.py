"""Are the tables of the asynchronous units still as near to what GPUs were measured at as they are said to be?"""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.errors import ToolchainError
from tools.asynchronous_tables import TABLES

#: Table, each so-many-th row, mean absolute error in percent that it stays below.
LIMITS = [
    ("products", 1, 2.0), ("functions", 5, 5.0), ("shared", 1, 5.0), ("tensor", 66, 5.0), ("loads", 13, 9.0), ("copies", 1, 5.0),
    ("chase", 3, 4.0), ("network", 1, 20.0), ("workloads", 9, 12.0),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "every", "limit"), LIMITS)
def test_a_table_is_met(name: str, every: int, limit: float) -> None:
    try:
        errors = [100 * abs(simulated / measured - 1) for _, measured, simulated in TABLES[name](every)]
    except ToolchainError as error:  # the compiler that made the measured code
        pytest.skip(str(error))
    assert len(errors) >= 2  # the network of clusters has two rows
    assert np.mean(errors) < limit
