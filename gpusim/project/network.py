"""The network that a word of the command line stands for: one that the workloads know, or a ``config.json``."""

from __future__ import annotations

import importlib
import re
from dataclasses import asdict
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.nearest import hint, near
from gpusim.io.sibling import load_sibling
from gpusim.project.config_file import decoder_of_file
from gpusim.project.decoder import Decoder, decoder_of_fields


def _squeezed(name: str) -> str:
    """A network's name without what does not count in it: whose it is, case, dashes, and that it was taught to
    answer."""
    own = re.sub(r"-(instruct|chat|base|hf|it)$", "", name.rpartition("/")[2].casefold())
    return re.sub(r"[^a-z0-9.]", "", own)


def decoder_of(word: str) -> Decoder:
    """The network of that name, also as its makers write it (``Qwen/Qwen2.5-7B-Instruct``), or of a ``config.json``.
    Raises UsageError for a name that is none, or a network that is no decoder."""
    if word.endswith(".json"):
        return decoder_of_file(Path(word))
    load_sibling("workloads", "the workloads")
    configs = importlib.import_module("gpusim.workloads.networks.configs")
    projected = importlib.import_module("gpusim.workloads.networks.projected")
    every = configs.CONFIGS | projected.PROJECTED
    known = [name for name, config in every.items() if isinstance(config, configs.Decoder)]
    squeezed = {_squeezed(name): name for name in known}
    config = every.get(word) or every.get(squeezed.get(_squeezed(word), ""))
    if config is None:
        close = [squeezed[each] for each in near(_squeezed(word), list(squeezed))]
        meant = f"did you mean {' or '.join(close)}?" if close else hint(word, known)
        raise UsageError(f"no network is called {word!r} (a config.json's path ends in .json); {meant}")
    if not isinstance(config, configs.Decoder):
        raise UsageError(f"{word} is no decoder, and only decoders are projected: {', '.join(known)}, or a config.json")
    return decoder_of_fields(asdict(config))
