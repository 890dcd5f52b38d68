"""Which of NVML's readings of board power are the power of the launches beside them.

Mental model: a reading is a mean over about a second, so that of a run of a second after a pause still holds a part of
the pause. Two tests tell, neither of which asks a model of energy: shorter runs at the same rate that read less
(:func:`settled`), and launches of the same kernels that compute and move no more each second and read more
(:func:`contradicted`): no launch takes less power for more work.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

#: A run must last as long as NVML's own mean.
LEAST_RUN_MS = 900.0
#: Runs that are compared with those long enough: at least so long, at least at so much of their rate, reading at least
#: so much of their power where it has settled.
SHORT_RUN_MS, SAME_RATE, SETTLED = 300.0, 0.8, 0.9
#: Launches that do no more: of so many, so many times a row's own rates at most, whose quantile a reading must come to
#: so much of. A quantile, as a reading after heavier launches holds some of these.
LEAST_SLOWER, NO_MORE, QUANTILE, STANDS = 5, 1.1, 0.9, 0.9
#: From so many queries on a context's scores are nearly those that its mask leaves.
LONG_CONTEXT = 1024
#: Bytes of an element of products' operands and of attention's, as the rows call them.
_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625}
Rates = tuple[list[pd.Series], list[pd.Series]]


def settled(table: pd.DataFrame) -> pd.Series:
    """Of products: whether runs below LEAST_RUN_MS with the same dtype, rows and columns, at the rate of the longer
    ones, read what these do. A reading that is a mean over the last second still rises in a run of a second after a
    pause, in proportion to the run's length (fp8 products scaled by blocks: 400 W in 480 ms, 470 in 620, 540 in 880, up
    to 680 in more, at one rate); which runs begin after a pause goes by rows and columns of the result. Where no
    shorter run tells, it is not known."""
    rate = table.m.astype(float) * table.n * table.k / table.latency_ms
    own = [table[name] for name in ("framework", "gemm_dtype", "m", "n")]
    long = table.est_run_ms >= LEAST_RUN_MS
    long_rate = rate.where(long).groupby(own).transform("median")
    short = (table.est_run_ms >= SHORT_RUN_MS) & ~long & (rate >= SAME_RATE * long_rate)
    ratio = table.power_w.where(short).groupby(own).transform("median") / table.power_w.where(long).groupby(
        own
    ).transform("median")
    return ratio >= SETTLED


def contradicted(watts: pd.Series, rates: list[pd.Series], own: list[pd.Series]) -> pd.Series:
    """Whether rows of the same ``own`` values whose ``rates`` (operations, bytes a second) are all no higher than a
    row's read more ``watts`` than it, bool[rows]."""
    found, numbers, read = np.zeros(len(watts), bool), [each.to_numpy(float) for each in rates], watts.to_numpy(float)
    table = pd.concat([each.rename(str(place)) for place, each in enumerate(own)], axis=1)
    for inside in table.groupby(list(table.columns), sort=False).indices.values():
        for at in inside:
            slower = np.logical_and.reduce([rate[inside] <= NO_MORE * rate[at] for rate in numbers]) & (inside != at)
            if slower.sum() >= LEAST_SLOWER:
                found[at] = read[at] < STANDS * np.quantile(read[inside[slower]], QUANTILE)
    return pd.Series(found, watts.index)


def product_rates(table: pd.DataFrame) -> Rates:
    """Operations and bytes of operands a second, and what rows of the same kernels have in common."""
    elements = (table.m.astype(float) + table.n) * table.k
    rates = [table.m.astype(float) * table.n * table.k, elements * table.gemm_dtype.map(_BYTES).astype(float)]
    return [each / table.latency_ms for each in rates], [table.framework, table.gemm_dtype]


def attention_rates(table: pd.DataFrame, l2_bytes: float, generation: bool) -> Rates:
    """The same of attention, of one query token a sequence (``generation``) or of many: scores, and bytes of keys and
    values; apart are keys and values that an L2 of ``l2_bytes`` cannot hold, and contexts whose mask takes much
    away."""
    length = table.step + 1 if generation else table.isl
    keys = np.where(table.window_size > 0, np.minimum(table.window_size, length), length)
    queries = 1.0 if generation else length
    met = keys if generation else keys - keys * (keys - 1.0) / (2.0 * length)
    scores = table.batch_size * table.num_heads * queries * met
    kept = 2.0 * table.batch_size * table.num_key_value_heads * (keys if generation else length) * table.head_dim
    kept = kept * table.kv_cache_dtype.map(_BYTES).astype(float)
    apart = kept > 2 * l2_bytes if generation else length >= LONG_CONTEXT
    own = [table[name] for name in ("framework", "attn_dtype", "kv_cache_dtype", "head_dim")]
    return [scores / table.latency_ms, kept / table.latency_ms], [*own, apart]
