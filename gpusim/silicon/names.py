"""Which of gpusim's descriptions a GPU is, by the name that its driver gives it.

Mental model: a product line has variants (form factor, memory) that differ in clock and bandwidth, so a name maps to
a description only where that very variant is described; an unknown one maps to nothing rather than to a similar one.
The names are those that ``nvidia-smi -L`` prints.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.names import called

#: Pattern of the whole name, without "NVIDIA " and in lower case -> name of the description.
_PATTERNS = (
    (r"(tesla )?v100-sxm2-32gb", "v100"),
    (r"titan v", "titan_v"),
    (r"(tesla )?t4", "t4"),
    (r"(geforce )?rtx 2080 ti", "rtx2080ti"),
    (r"(geforce )?rtx 2070 super", "rtx2070_super"),
    (r"(geforce )?rtx 2070", "rtx2070"),
    (r"titan rtx", "titan_rtx"),
    (r"a100-sxm4-40gb", "a100_40gb"),
    (r"a100-pcie-40gb", "a100_pcie_40gb"),
    (r"a100-sxm4-80gb|a100-sxm-80gb", "a100_80gb"),
    (r"a10", "a10"),
    (r"a10g", "a10g"),
    (r"a30", "a30"),
    (r"a40", "a40"),
    (r"rtx a4000", "rtx_a4000"),
    (r"rtx a6000", "rtx_a6000"),
    (r"rtx 6000 ada generation", "rtx_6000_ada"),
    # No "rtx 3060", no "rtx 3080" and no "rtx 4070": boards with other SMs or another memory bear the same names.
    (r"(geforce )?rtx 3070", "rtx3070"),
    (r"(geforce )?rtx 3070 ti laptop gpu", "rtx3070ti_laptop"),
    (r"(geforce )?rtx 3080 ti", "rtx3080ti"),
    (r"(geforce )?rtx 3090", "rtx3090"),
    (r"l4", "l4"),
    (r"l20", "l20"),
    (r"l40", "l40"),
    (r"l40s", "l40s"),
    (r"(geforce )?rtx 4060 ti", "rtx4060ti"),  # of 8 and 16 GB, which are as fast
    (r"(geforce )?rtx 4070 super", "rtx4070_super"),
    (r"(geforce )?rtx 4070 ti super", "rtx4070ti_super"),
    (r"(geforce )?rtx 4080", "rtx4080"),
    (r"(geforce )?rtx 4090", "rtx4090"),
    (r"h100( sxm5)?( 80gb hbm3)?", "h100"),
    (r"h100 pcie", "h100_pcie"),
    (r"h100 nvl", "h100_nvl"),
    (r"h20", "h20"),
    (r"h20-3e", "h20_141gb"),
    (r"h800", "h800"),
    (r"h200", "h200"),
    (r"gh200( 480gb)?( 96gb)?( hbm3)?", "gh200"),
    (r"b200", "b200"),
    (r"(geforce )?rtx 5060 ti", "rtx5060ti"),  # of 8 and 16 GB, which are as fast
    (r"(geforce )?rtx 5070", "rtx5070"),
    (r"(geforce )?rtx 5070 ti", "rtx5070ti"),
    (r"(geforce )?rtx 5080", "rtx5080"),
    (r"(geforce )?rtx 5080 laptop gpu", "rtx5080_laptop"),
    (r"(geforce )?rtx 5090", "rtx5090"),
)


def gpu_of_device(device_name: str) -> str:
    """The description of the GPU called ``device_name``, or "" if none is of that very variant."""
    text = " ".join(device_name.lower().split()).removeprefix("nvidia ")
    for pattern, name in _PATTERNS:
        if re.fullmatch(pattern, text):
            return name
    return _titles().get(device_name, "")  # an emulated device bears its description's title


@lru_cache(maxsize=1024)
def gpu_called(name: str) -> str:
    """The description that a table's column ``gpu`` means: what ``--gpu`` would take, ``H200 SXM`` as well as ``h200``;
    ``name`` itself where no built-in one, or more than one, is called so."""
    if name in list_gpus():
        return name
    found = called(name, {described: title for title, described in _titles().items()})
    return found[0] if len(found) == 1 else name


@lru_cache(maxsize=1)
def _titles() -> dict[str, str]:
    return {load_gpu(name).title: name for name in list_gpus()}
