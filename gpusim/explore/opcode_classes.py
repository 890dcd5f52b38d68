"""Which kinds of instruction there are: SASS mnemonics sorted into classes, for the cover point ``opcode``.

Mental model: a class is what a person would call the instruction whatever its modifiers, width or datapath (the uniform
twin UIADD3 is an integer add too; the cover point ``pipe`` says where it ran). Shuffles are told apart by how lanes are
chosen, since each way has its own rule for lanes that have no partner.
"""

from __future__ import annotations

from functools import lru_cache

from gpusim.isa.binary.text import opcode_parts

OTHER = "other"
_SHUFFLE = "shuffle"

#: Class -> mnemonics without the U of the uniform datapath.
CLASSES: dict[str, tuple[str, ...]] = {
    "integer add": ("IADD", "IADD3", "VIADD", "LEA", "VABSDIFF", "VABSDIFF4", "IABS"),
    "integer multiply": ("IMAD", "IDP"),
    "integer compare": ("ISETP", "IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX"),
    "logic and shift": ("LOP3", "SHF", "BMSK", "SGXT"),
    "bit count": ("POPC", "FLO", "BREV"),
    "move and select": ("MOV", "SEL", "FSEL", "PRMT", "R2UR"),
    "predicate logic": ("PLOP3", "P2R", "P2UR", "R2P", "R2UP"),
    "float32 add or multiply": ("FADD", "FMUL", "FADD2", "FMUL2", "FHADD"),
    "float32 fma": ("FFMA", "FFMA2", "FHFMA"),
    "float32 compare": ("FSETP", "FSET", "FMNMX", "FMNMX3", "FCHK"),
    "float16 arithmetic": ("HADD2", "HMUL2", "HFMA2"),
    "float16 compare": ("HSETP2", "HSET2", "HMNMX2", "VHMNMX"),
    "float64 arithmetic": ("DADD", "DMUL", "DFMA"),
    "float64 compare": ("DSETP", "DMNMX"),
    "transcendental": ("MUFU",),
    "convert": ("F2I", "I2F", "I2FP", "F2F", "FRND", "F2FP", "F2IP", "I2I", "I2IP"),
    "matrix multiply": ("HMMA", "QMMA", "IMMA", "BMMA", "DMMA"),
    "matrix move": ("MOVM", "LDSM", "STSM"),
    "load": ("LDG", "LD", "LDS", "LDL"),
    "store": ("STG", "ST", "STS", "STL"),
    "atomic": ("ATOM", "ATOMG", "ATOMS"),
    "reduction": ("RED", "REDG", "REDS"),
    "async copy": ("LDGSTS", "LDGDEPBAR"),
    "constant load": ("LDC", "LDCU"),
    "shuffle.idx": (),
    "shuffle.up": (),
    "shuffle.down": (),
    "shuffle.bfly": (),
    "vote": ("VOTE", "VOTEU", "ELECT"),
    "match": ("MATCH",),
    "warp reduction": ("REDUX", "CREDUX"),
    "branch": ("BRA", "JMP", "EXIT", "BPT"),
    "indirect branch": ("BRX", "BRXU", "JMX", "JMXU"),
    "call": ("CALL", "RET", "LEPC", "RPCMOV"),
    "reconvergence": ("BSSY", "BSYNC", "BREAK", "BMOV", "WARPSYNC", "YIELD"),
    "block barrier": ("BAR", "B2R", "SYNCS"),
    "fence": ("MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR", "CCTL", "CCTLL", "CCTLT"),
    "wait": ("DEPBAR", "NANOSLEEP"),
    "special register": ("S2R", "S2UR", "CS2R", "CS2UR", "QSPC"),
    OTHER: ("NOP", "PMTRIG", "ACQBULK", "PREEXIT", "WARPGROUP", "ENDCOLLECTIVE"),
}
_CLASS_OF = {mnemonic: name for name, mnemonics in CLASSES.items() for mnemonic in mnemonics}


@lru_cache(maxsize=1 << 16)
def opcode_class(text: str) -> str:
    """The class of an instruction by its SASS text (``@!P0 SHFL.DOWN PT, R3, ...``); ``other`` for a mnemonic that has
    none."""
    mnemonic, *modifiers = opcode_parts(text)
    if mnemonic == "SHFL":
        how = f"{_SHUFFLE}.{modifiers[0].lower()}" if modifiers else OTHER
        return how if how in CLASSES else OTHER
    return _CLASS_OF.get(mnemonic) or _CLASS_OF.get(mnemonic.removeprefix("U"), OTHER)


__all__ = ["CLASSES", "OTHER", "opcode_class"]
