"""Which measured runs of TensorRT-LLM's experts may have had tiles that were tuned for another run, or none.

Mental model: a run is one network shared out in one way, with one distribution of its tokens, at all numbers of tokens.
The collector of 1.3's rows tunes once and keeps what it found in a file that is named by format, hidden size, inner
width and experts of one GPU; a run reads any file whose name *begins* with its own ("..._1" finds "..._16" and
"..._128") and then tunes nothing (ai-dynamo/aiconfigurator, collector/trtllm/collect_moe.py). The tuner looks tiles up
by choices a token and by how many GPUs share the network out, too: what it reads from another network's file it does
not find, and it takes whatever comes first. So a run's tiles are surely its own where no run of other choices or shares
has a name that begins with its name. Of the others, which of two tiles a run had is told by its rows of the learning
half (:func:`with_first_tile`); which are the others no measured time is asked (tools/experts_runs.py asks them: of
1,110 such runs of fp8 none took longer than more work did, of 468 others 153).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pandas as pd

#: A row took longer than more work did by such a factor, so many of a run's rows did.
LONGER, SHARE = 1.5, 0.2
#: Rows of a run that tell its tile.
TELLING = 5
_NETWORK = ["hidden_size", "inter_size", "topk", "num_experts"]
_SHARED_OUT = ["moe_tp_size", "moe_ep_size"]
RUN = [*_NETWORK, *_SHARED_OUT, "distribution"]
_WORK = (*_SHARED_OUT, "num_tokens")
#: Versions whose collector keeps files, and formats whose kernels' tiles are tuned (1.0's forgets before every run;
#: those of scales for blocks are chosen by a rule, those of MXFP4 by triton_kernels).
_KEPT_VERSIONS, _TUNED_FORMATS = "1.3", ("bfloat16", "fp8")


def over_more_work(shapes: pd.DataFrame) -> np.ndarray:
    """Of each row: its time over the least that no less work of the same network and distribution took, by the same
    version; NaN where no such row is."""
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


def untuned(shapes: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """Whether the tiles of each of ``shapes`` may be another run's; ``table``: all rows of their format on their GPU,
    whatever the half and the network."""
    kept = cast(
        "pd.DataFrame",
        table[
            (table.framework == "trtllm")
            & table.version.str.startswith(_KEPT_VERSIONS)
            & table.moe_dtype.isin(_TUNED_FORMATS)
        ],
    )
    runs = cast("pd.DataFrame", kept[[*_NETWORK, *_SHARED_OUT, "kernel_source"]]).drop_duplicates()
    looked_up = set(
        zip(_names(runs), runs.topk, *(runs[name] for name in (*_SHARED_OUT, "kernel_source")), strict=True)
    )
    names = {name: len({each[1:] for each in looked_up if each[0].startswith(name)}) for name, *_ in looked_up}
    of_kept = shapes.version.str.startswith(_KEPT_VERSIONS).to_numpy(bool)
    return np.array([names.get(name, 1) > 1 for name in _names(shapes)], bool) & of_kept


def with_first_tile(
    shapes: pd.DataFrame, learning: pd.DataFrame, errors: Callable[[pd.DataFrame], np.ndarray]
) -> pd.DataFrame:
    """``shapes`` with a column ``first_tile``: whether the run's tuner chose nothing, so that its kernels have the
    first tile of their list. Told by up to :data:`TELLING` rows of ``learning`` of the same run, whose ``errors`` are
    less with that tile; of runs whose tiles are surely their own no row is asked."""
    found = shapes.assign(first_tile=False)
    asked = found.loc[found.untuned, RUN].drop_duplicates()
    if not len(asked):
        return found
    rows = learning.merge(asked, on=RUN).groupby(RUN, group_keys=False).head(TELLING).reset_index(drop=True)
    off = {first: np.abs(np.log1p(errors(rows.assign(first_tile=first)))) for first in (False, True)}
    told = rows[RUN].assign(nearer=off[False] - off[True]).groupby(RUN).nearer.sum().reset_index()
    first = found[RUN].merge(told, on=RUN, how="left").nearer.to_numpy() > 0.0
    return found.assign(first_tile=first & found.untuned.to_numpy(bool))


def with_own_tiles(shapes: pd.DataFrame) -> pd.DataFrame:
    """Those of ``shapes`` (column ``untuned``, which :func:`untuned` says) whose tiles are surely their own; of other
    kinds than experts all."""
    own = shapes[~shapes["untuned"].to_numpy(bool)]
    return cast("pd.DataFrame", own).reset_index(drop=True)


def _names(rows: pd.DataFrame) -> list[str]:
    """Of the file that a run's tiles are kept in, without its format."""
    own = (rows.hidden_size, rows.inter_size // rows.moe_tp_size, rows.num_experts // rows.moe_ep_size)
    return [f"{hidden}_{inner}_{experts}" for hidden, inner, experts in zip(*own, strict=True)]
