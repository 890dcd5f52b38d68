"""A decoder's sizes from the ``config.json`` that model repositories carry (Hugging Face transformers' keys).

Mental model: a small untrusted JSON file; keys that say the sizes are read and checked, what is not understood is
refused by name rather than guessed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpusim.errors import UsageError
from gpusim.project.decoder import Decoder, Experts, LatentAttention, LinearAttention

_MOST_BYTES = 1 << 20
_MOST = 1 << 24
#: Keys under which families keep the same figure.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
#: Families whose feed-forward block has no gate.
_UNGATED = (
    "gpt2", "gptj", "gpt_neo", "gpt_neox", "gpt_bigcode", "opt", "bloom", "falcon", "starcoder2", "phi", "mpt", "nemotron", "arcee", "apertus",
)  # fmt: skip
#: Families whose attention and feed-forward block frameworks sum over GPUs together (TensorRT-LLM since 0.6,
#: models/falcon/model.py: neither sums where attention is parallel, and one all-reduce follows; vLLM's falcon.py
#: likewise), if not said otherwise by the keys of transformers' FalconConfig. GPT-J's and GPT-NeoX's are parallel too,
#: but both frameworks sum each.
_SUMMED_ONCE = ("falcon", "RefinedWeb", "RefinedWebModel")
_PER_TOKEN = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token")


def decoder_of_file(path: Path) -> Decoder:
    """The network of a ``config.json``. Raises UsageError for what is no such file, or lacks a size."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: larger than {_MOST_BYTES} bytes, which no config.json is")
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no JSON: {error}") from error
    if isinstance(table, dict) and isinstance(table.get("text_config"), dict):
        table = table["text_config"]  # of models that see as well as read
    if not isinstance(table, dict):
        raise UsageError(f"{path}: no object of keys, as a config.json is")
    return _decoder(_Table(path, table), path)


class _Table:
    """Checked figures of one file."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self._path, self._table = path, table

    def whole(self, *keys: str, default: int | None = None) -> int:
        """The first of ``keys`` that is there, a whole number of at least 1 (or what ``default`` is)."""
        for key in keys:
            value = self._table.get(key)
            if value is None:
                continue
            if (
                not isinstance(value, int)
                or isinstance(value, bool)
                or not (default == 0 or value >= 1)
                or not 0 <= value <= _MOST
            ):
                raise UsageError(f"{self._path}: {key} is {value!r}, no whole number between 1 and {_MOST}")
            return value
        if default is None:
            raise UsageError(f"{self._path}: {' or '.join(keys)} is missing")
        return default

    def get(self, key: str) -> Any:
        """As it is, or None."""
        return self._table.get(key)


def _decoder(table: _Table, path: Path) -> Decoder:
    hidden, heads = table.whole("hidden_size", "n_embd"), table.whole("num_attention_heads", "n_head")
    feed_forward = table.whole("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * hidden)
    experts = None
    if table.whole(*_EXPERTS, default=0) > 1:
        width = table.whole("moe_intermediate_size", default=feed_forward)
        experts = Experts(
            table.whole(*_EXPERTS), table.whole(*_PER_TOKEN), width, _shared(table, width), table.whole("first_k_dense_replace", default=0)
        )  # fmt: skip
    latent = None
    if table.whole("kv_lora_rank", default=0):
        latent = LatentAttention(
            table.whole("q_lora_rank", default=hidden), table.whole("kv_lora_rank"), table.whole("qk_nope_head_dim"),
            table.whole("qk_rope_head_dim"), table.whole("v_head_dim"),
        )  # fmt: skip
    linear = _linear(table, path)
    kinds = table.get("layer_types")
    banded = isinstance(kinds, list) and "sliding_attention" in kinds
    window = table.whole("sliding_window", default=0) if banded else 0
    kv_heads = table.whole("num_key_value_heads", "num_kv_heads", default=heads)
    if heads % kv_heads:
        raise UsageError(f"{path}: {heads} heads are no multiple of {kv_heads} key/value heads")
    name = table.get("_name_or_path") or table.get("model_type") or path.stem
    return Decoder(
        name=str(name)[:80], source=path.name, layers=table.whole("num_hidden_layers", "n_layer"), hidden=hidden, heads=heads, kv_heads=kv_heads,
        head_dim=table.whole("head_dim", default=max(1, hidden // heads)), feed_forward=feed_forward, vocabulary=table.whole("vocab_size"),
        gated=table.get("model_type") not in _UNGATED, experts=experts, latent=latent, normalises_heads=str(table.get("model_type")).startswith("qwen3"), window=window,
        linear=linear, gates_heads=linear is not None and table.get("attn_output_gate") is not False,
        sums_once=table.get("model_type") in _SUMMED_ONCE and bool(table.get("new_decoder_architecture") or table.get("parallel_attn") is not False),
    )  # fmt: skip


def _linear(table: _Table, path: Path) -> LinearAttention | None:
    """The layers of linear attention that Qwen3-Next's family names, all but each so-many-th. Raises UsageError for
    another order of layers."""
    if not table.whole("linear_num_value_heads", default=0):
        return None
    every, kinds = table.whole("full_attention_interval", default=4), table.get("layer_types")
    if isinstance(kinds, list) and "full_attention" in kinds:
        every = kinds.index("full_attention") + 1
        full = [kind == "full_attention" for kind in kinds]
        if full != [(layer + 1) % every == 0 for layer in range(len(kinds))]:
            raise UsageError(f"{path}: layer_types has full attention elsewhere than in each {every}th layer")
    found = LinearAttention(
        table.whole("linear_num_key_heads"), table.whole("linear_num_value_heads"), table.whole("linear_key_head_dim"),
        table.whole("linear_value_head_dim"), table.whole("linear_conv_kernel_dim"), every,
    )  # fmt: skip
    if found.value_heads % found.key_heads:
        raise UsageError(f"{path}: {found.value_heads} value heads are no multiple of {found.key_heads} key heads")
    return found


def _shared(table: _Table, width: int) -> int:
    """Shared experts, in experts' widths."""
    columns = table.whole("shared_expert_intermediate_size", default=0)
    return -(-columns // width) if columns else table.whole("n_shared_experts", default=0)
