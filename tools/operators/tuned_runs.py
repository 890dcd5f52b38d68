"""Which measured runs of experts have a tuned tile: by their times alone, whatever is projected of them.

Mental model: a run is one network shared out in one way, with one distribution of its tokens, at all numbers of tokens; a framework that tunes picks tiles once a run. For no fewer tokens, no fewer experts on the GPU and no
narrower ones there is no less work: a run whose rows often take longer than such rows was measured with a tile that nothing chose.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd

#: A row took longer by such a factor, so many of a run's rows did.
LONGER, SHARE = 1.5, 0.2
_NETWORK = ["hidden_size", "inter_size", "topk", "num_experts"]
RUN = [*_NETWORK, "moe_tp_size", "moe_ep_size", "distribution"]
_WORK = ("moe_tp_size", "moe_ep_size", "num_tokens")


def over_more_work(shapes: pd.DataFrame) -> np.ndarray:
    """Of each row: its time over the least that no less work of the same network and distribution took, by the same version; NaN where no such row is."""
    found = np.full(len(shapes), np.nan)
    same = [*_NETWORK, "distribution", "version"]
    for places in shapes.reset_index(drop=True).groupby(same).indices.values():
        tp, ep, tokens = (shapes[name].to_numpy()[places] for name in _WORK)
        us = shapes["us"].to_numpy()[places]
        more = (tp[None] <= tp[:, None]) & (ep[None] <= ep[:, None]) & (tokens[None] >= tokens[:, None])
        np.fill_diagonal(more, False)
        least = np.where(more, us[None], np.inf).min(axis=1)
        found[places] = np.where(np.isfinite(least), us / least, np.nan)
    return found


def untuned(shapes: pd.DataFrame) -> np.ndarray:
    """Whether each row is of a run of which :data:`SHARE` or more of the rows took over :data:`LONGER` times what no less work took; ``shapes``: all rows of a half."""
    times = pd.Series(over_more_work(shapes))
    longer = times.gt(LONGER).astype(float).where(times.notna())
    share = cast("pd.Series", longer.groupby([shapes[column].to_numpy() for column in RUN]).transform("mean"))
    return (share >= SHARE).to_numpy()
