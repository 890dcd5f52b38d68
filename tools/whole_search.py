"""What `gpusim.tune` loses by predicting parts first: both stages of every configuration of a space, and the search.

    python tools/whole_search.py FILE [--configurations 224] [--gpu t4] [--replay] [--subsets 300]

The space is that of the tuned 15 x 15 convolution (workloads/external/convolution.cu) over a small image, so that all
of its configurations can be simulated whole. Each is predicted from a part (coarse) and whole (exact), in an order
drawn by a fixed seed, and kept in FILE, a JSON object a line; a run that was broken off goes on. Then the search that
`tune` makes is replayed on what is kept: how many configurations it would have simulated whole, and how much longer the
one that it finds takes than the best of all (*regret*, of predicted times: what silicon says of them is
docs/validation/external.md's). Spaces of half of the configurations, drawn at random, say how much of that is luck.
``--replay`` predicts nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.search.kept import KeptPredictions, Predicted, as_text
from gpusim.search.predict import COARSE, EXACT, predict, spec_of
from gpusim.search.tune import _Search, _whole

SOURCE = Path(__file__).parents[1] / "workloads" / "external" / "convolution.cu"
#: Rows and columns of the image, and what the source says of them.
IMAGE, MEASURED = 768, 4096
SEED = 1


@dataclass(frozen=True)
class Both:
    """A configuration's two predictions, and what each cost in seconds of this machine (0: the same run)."""

    coarse: Predicted
    exact: Predicted
    coarse_s: float
    exact_s: float


@dataclass(frozen=True)
class Searched:
    """What a search over ``rows`` configurations did: it ran ``whole`` of them whole, and found one that takes
    ``regret`` (a share) longer than the best."""

    rows: int
    whole: int
    regret: float


class _Replayed(_Search):
    """A search whose predictions are known."""

    def predictions(self, configurations: list[dict[str, Any]], stage: str) -> Iterator[Predicted]:
        known = {as_text(each.exact.parameters): each for each in self.case}  # type: ignore[union-attr]
        for each in configurations:
            both = known[as_text(each)]
            yield both.exact if stage == EXACT else both.coarse


def convolution(bx: int, by: int, tx: int, ty: int) -> tuple[Any, tuple[int, int], tuple[int, int], tuple]:
    """A launch of ``bx`` x ``by`` threads a block and ``tx`` x ``ty`` outputs a thread, as :func:`gpusim.tune` takes
    it."""
    text = SOURCE.read_text().replace(f"SIZE = {MEASURED}", f"SIZE = {IMAGE}")
    kernel = gpusim.cuda_cpp(text, f"convolution<{bx}, {by}, {tx}, {ty}, false, true>")
    arrays = np.zeros((IMAGE, IMAGE), np.float32), np.zeros((IMAGE + 14, IMAGE + 14), np.float32)
    return kernel, (-(-IMAGE // (bx * tx)), -(-IMAGE // (by * ty))), (bx, by), arrays


def space() -> list[dict[str, int]]:
    """Blocks of 32 to 512 threads and up to 16 outputs a thread, in an order drawn once."""
    axes = itertools.product((16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4), (1, 2, 3, 4))
    found = [{"bx": bx, "by": by, "tx": tx, "ty": ty} for bx, by, tx, ty in axes if 32 <= bx * by <= 512]
    np.random.default_rng(SEED).shuffle(found)  # type: ignore[arg-type]
    return found


def searched(rows: Sequence[Both], exact: int | None = None) -> Searched:
    """The search of `tune` over ``rows``, all of which can run; ``exact`` as `tune` has it."""
    able = sorted((each.coarse for each in rows), key=_time)
    search = _Replayed(rows, spec_of("t4"), 1, False, KeptPredictions(None, ""))  # type: ignore[arg-type]
    whole, rest = _whole(search, able, exact)
    done = [*whole, *(each for each in rest if each.stage == EXACT)]
    best = min(_time(each.exact) for each in rows)
    return Searched(len(rows), len(done), min(map(_time, done)) / best - 1)


def _time(row: Predicted) -> float:
    return row.time_us or float("inf")


def read(path: Path) -> list[Both]:
    """What FILE holds; configurations that cannot run are left out."""
    found = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        coarse, exact = (
            Predicted(row["parameters"], us, stage, why) for us, stage, why, _ in (row[COARSE], row[EXACT])
        )
        if exact.time_us is not None:
            found.append(Both(coarse, exact, row[COARSE][3], row[EXACT][3]))
    return found


def extend(path: Path, gpu: str, count: int) -> None:
    """Predict the first ``count`` configurations of the space that FILE lacks."""
    known = {as_text(json.loads(line)["parameters"]) for line in path.read_text().splitlines()} if path.exists() else ()
    for parameters in space()[:count]:
        if as_text(parameters) in known:
            continue
        row: dict[str, Any] = {"parameters": parameters}
        for stage in (COARSE, EXACT):
            started = time.perf_counter()
            made, _ = predict(convolution, parameters, gpu, stage)
            row[stage] = [made.time_us, made.stage, made.why, time.perf_counter() - started]
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--configurations", type=int, default=len(space()))
    parser.add_argument("--gpu", default="t4")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--subsets", type=int, default=300)
    asked = parser.parse_args()
    if not asked.replay:
        extend(asked.file, asked.gpu, asked.configurations)
    rows = read(asked.file)
    off = [_time(each.exact) / _time(each.coarse) - 1 for each in rows if each.coarse.stage == COARSE]
    print(f"{len(rows)} configurations, of {len(rows) - len(off)} no part stands for the whole")
    mean = statistics.fmean(map(abs, off))
    print(f"exact over coarse time: {min(off):+.1%} to {max(off):+.1%}, mean of the absolute {mean:.1%}")
    coarse_s, exact_s = (sum(map(took, rows)) for took in (lambda each: each.coarse_s, lambda each: each.exact_s))
    print(f"seconds: {coarse_s:.0f} coarse, compilation included, {exact_s:.0f} exact")
    all_of_them = searched(rows)
    print(f"the search: {all_of_them.whole} simulated whole, regret {all_of_them.regret:.2%}")
    drawn = random.Random(SEED)
    halves = [drawn.sample(rows, max(2, len(rows) // 2)) for _ in range(asked.subsets)]
    for what, exact in (("searched", None), ("by the best part alone", 1)):
        found = [searched(each, exact) for each in halves]
        whole, regrets = statistics.fmean(each.whole for each in found), [each.regret for each in found]
        mean, most = statistics.fmean(regrets), max(regrets)
        print(f"{len(halves)} halves {what}: {whole:.1f} simulated whole, regret mean {mean:.2%}, worst {most:.2%}")


if __name__ == "__main__":
    main()
