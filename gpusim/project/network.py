"""The network that a word of the command line stands for: one that the workloads know, or a ``config.json``."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.io.sibling import load_sibling
from gpusim.project.config_file import decoder_of_file
from gpusim.project.decoder import Decoder, decoder_of_fields


def decoder_of(word: str) -> Decoder:
    """Raises UsageError for a name that is none, or a network that is no decoder."""
    if word.endswith(".json"):
        return decoder_of_file(Path(word))
    load_sibling("workloads", "the workloads")
    configs = importlib.import_module("gpusim.workloads.networks.configs")
    projected = importlib.import_module("gpusim.workloads.networks.projected")
    every = configs.CONFIGS | projected.PROJECTED
    known = [name for name, config in every.items() if isinstance(config, configs.Decoder)]
    config = every.get(word)
    if config is None:
        raise UsageError(f"no network is called {word!r} (a config.json's path ends in .json); {hint(word, known)}")
    if not isinstance(config, configs.Decoder):
        raise UsageError(f"{word} is no decoder, and only decoders are projected: {', '.join(known)}, or a config.json")
    return decoder_of_fields(asdict(config))
