"""Keys of layers that attend to a window of them: what a framework holds."""

from __future__ import annotations

import pytest

from gpusim.project.footprint import footprint_of
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan

GPT_OSS = decoder_of("gpt_oss_120b")


@pytest.mark.parametrize(("framework", "tokens"), [("vllm", 18 * 4096 + 18 * 128), ("trtllm", 36 * 4096)])
def test_a_framework_keeps_a_windows_keys_or_all(framework, tokens):
    found = footprint_of(GPT_OSS, Plan("decode", batch=3, sequence=4096, framework=framework), 192e9)
    assert found.kv_bytes == 3 * tokens * 2 * 8 * 64 * 2


def test_within_the_window_all_frameworks_keep_the_same():
    kept = {
        footprint_of(GPT_OSS, Plan("decode", sequence=128, framework=framework), 192e9).kv_bytes
        for framework in ("vllm", "trtllm")
    }
    assert len(kept) == 1
