"""What a kernel's code uses of its thread-block cluster.

Mental model: blocks of a cluster run here as if there were none. That is right for a kernel that is only launched in clusters and
never looks at them; the code says which one that is. Compilers read the block's place in its cluster also to form addresses of
the block's own shared memory (shifted left by 24 bits), which is no use of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusim.isa.form import Instruction

#: Instructions of the cluster: its barrier, and addresses of other blocks' shared memory.
_MNEMONICS = frozenset({"UCGABAR_ARV", "UCGABAR_WAIT", "CGABAR", "MAPA", "UMAPA", "UBLKCP", "UTMACMDFLUSH"})
_SPECIAL = re.compile(r"SR_(Cluster|CLUSTER)\w*|SR_CgaSize")
_RANK = re.compile(r"\b(?:S2R|S2UR|CS2R)\s+(U?R\d+), SR_CgaCtaId")
_TARGET = re.compile(r"^(?:@!?U?P\w+ )?[\w.]+ (U?R\d+)\b")
_ADDRESS = re.compile(r"\bU?LEA\s+U?R\w+, (U?R\d+)[\w.]*, [^,]+, 0x18\b")


def cluster_use(instructions: Sequence[Instruction]) -> str:
    """The first instruction that uses the cluster, empty if none does."""
    rank = ""
    for each in instructions:
        text = each.text.strip()
        if each.mnemonic in _MNEMONICS or _SPECIAL.search(text):
            return text
        found = _RANK.search(text)
        if found:
            rank = found[1]
            continue
        if rank and re.search(rf"\b{rank}\b", text):
            target = _TARGET.match(text)
            is_address = (address := _ADDRESS.search(text)) and address[1] == rank
            sources = text.split(",", 1)[1] if target and "," in text else text
            if not is_address and re.search(rf"\b{rank}\b", sources):
                return text
            if target and target[1] == rank:
                rank = ""
    return ""
