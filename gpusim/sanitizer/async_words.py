"""What the asynchronous check says of each thing that it finds: the tool in compute-sanitizer's words, a title, and the
remedy.

Mental model: hazards are named as racecheck names them, misuse of mbarriers and allocation as synccheck does, reads of
what nothing has written as initcheck does.
"""

from __future__ import annotations

from gpusim.sanitizer import async_tables as t
from gpusim.sanitizer.group_registers import READ, UNFENCED, WRITTEN

HAZARD, _OBJECT, _UNWRITTEN = "racecheck", "synccheck", "initcheck"
_GROUP = "cp.async.wait_group of the copying warp, and a barrier after it, have to come first"
_WAIT = "let it wait for the mbarrier's phase first"
#: What is found: tool, title, detail ({place}: shared address in bytes, {value}, {extra}) with the remedy.
SAID = {
    t.READ_UNFILLED: (HAZARD, "Shared memory read before the bulk load into it is complete", f"byte {{place}}: {_WAIT}"),
    t.WRITE_UNFILLED: (HAZARD, "Shared memory written while a bulk load fills it", f"byte {{place}}: {_WAIT}"),
    t.READ_COPIED: (HAZARD, "Shared memory read before the cp.async into it is complete", f"byte {{place}}: {_GROUP}"),
    t.WRITE_COPIED: (HAZARD, "Shared memory written while a cp.async fills it", f"byte {{place}}: {_GROUP}"),
    t.COPY_COPIED: (HAZARD, "Two copies of cp.async fill the same shared memory", f"byte {{place}}: {_GROUP}"),
    t.LOAD_OVER_LOAD: (HAZARD, "Two bulk loads fill the same shared memory", f"byte {{place}}: {_WAIT}"),
    t.LOAD_OVER_READ: (
        HAZARD, "Bulk load overwrites shared memory that a warp may still read",
        "byte {place}: the reader has to arrive at a barrier for which the issuing thread waits",
    ),
    t.LOAD_OVER_WRITE: (
        HAZARD, "Bulk load and store into the same shared memory", "byte {place}: no barrier between the writer and the issuing thread",
    ),
    t.OVER_COPY: (
        HAZARD, "Shared memory overwritten while a bulk store reads it",
        "byte {place}: the issuing thread needs cp.async.bulk.wait_group.read, and a barrier after it",
    ),
    t.OVER_PRODUCT: (
        HAZARD, "Shared memory overwritten while the tensor core reads it",
        "byte {place}: wgmma.wait_group of the reading warp group, and a barrier after it, have to come first",
    ),
    t.OVER_TENSOR: (
        HAZARD, "Shared memory overwritten while the tensor core reads it",
        "byte {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come first",
    ),
    t.UNORDERED: (
        HAZARD, "Asynchronous read of shared memory that a warp may still write",
        "byte {place}: no barrier between the writer and the issuing thread",
    ),
    t.UNFENCED: (
        HAZARD, "Missing fence between proxies",
        "byte {place} was written by an ordinary store: fence.proxy.async has to follow it, before the barrier",
    ),
    t.RACE_WRITE_WRITE: (HAZARD, "Write-write hazard on __shared__ memory", "byte {place}, no barrier between"),
    t.RACE_READ_WRITE: (HAZARD, "Read-write hazard on __shared__ memory", "byte {place}, no barrier between"),
    t.READ_UNWRITTEN: (
        _UNWRITTEN, "Uninitialized __shared__ memory read of size {value} bytes", "byte {place} was never written",
    ),
    t.NO_OBJECT: (_OBJECT, "mbarrier used that is not initialised", "at byte {place}: mbarrier.init has to come first"),
    t.OBJECT_UNSEEN: (
        _OBJECT, "mbarrier used before its initialisation is visible",
        "at byte {place}: no barrier between mbarrier.init and this use",
    ),
    t.OBJECT_AGAIN: (
        _OBJECT, "mbarrier initialised again", "at byte {place}, in phase {value}: mbarrier.inval has to come first",
    ),
    t.OBJECT_OVERWRITTEN: (_OBJECT, "mbarrier overwritten by a store", "at byte {place}: mbarrier.inval has to come first"),
    t.TOO_MANY: (
        _OBJECT, "More arrivals than the mbarrier expects", "at byte {place}, phase {extra}: initialised for {value}",
    ),
    t.BYTES_TOO_MANY: (
        _OBJECT, "More bytes arrive at the mbarrier than are expected",
        "at byte {place}, phase {extra}: {value} bytes too many; raise the count of expect_tx",
    ),
    t.BYTES_TOO_FEW: (
        _OBJECT, "Fewer bytes arrive at the mbarrier than are expected",
        "at byte {place}, phase {extra}: {value} bytes have not come when the block ends; lower the count of expect_tx",
    ),
    t.BYTES_RANGE: (
        _OBJECT, "Transaction count of the mbarrier out of range", "at byte {place}: {value}, beyond 2^20 - 1",
    ),
    t.COUNT_RANGE: (
        _OBJECT, "mbarrier initialised for a count out of range", "at byte {place}: counts are 1 to 2^20 - 1",
    ),
    t.WRONG_PARITY: (
        HAZARD, "Wait for the wrong parity: what a bulk load fills is used before it is complete",
        "byte {place}: that wait ended at once, in phase {extra} of the mbarrier, which the load completes: the other parity waits for it",
    ),
    t.ENDS_LOADING: (
        HAZARD, "Block ends while a bulk load fills its shared memory", f"byte {{place}}: {_WAIT}",
    ),
    t.ENDS_MULTIPLYING: (
        HAZARD, "Block ends while the tensor core reads its shared memory",
        "byte {place}: wgmma.wait_group, or tcgen05.commit to an mbarrier and a wait for its phase, has to come first",
    ),
    t.ENDS_ACCESSED: (
        HAZARD, "Block ends while another of its cluster may still access its shared memory",
        "byte {place}: a barrier of the cluster has to come between that access and the end",
    ),
    t.TENSOR_UNFILLED: (
        HAZARD, "Tensor memory read before the work that writes it is complete",
        "column {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come first",
    ),
    t.TENSOR_UNWRITTEN: (
        _UNWRITTEN, "Uninitialized tensor memory read",
        "column {place} was never written since it was allocated",
    ),
    t.TENSOR_OVER_WORK: (
        HAZARD, "Tensor memory overwritten while the tensor core uses it",
        "column {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come first",
    ),
    t.TENSOR_OVER_READ: (
        HAZARD, "Tensor core overwrites tensor memory that a warp may still read",
        "column {place}: the reader has to arrive, after tcgen05.wait::ld, at a barrier for which the issuing thread waits",
    ),
    t.TENSOR_OVER_STORE: (
        HAZARD, "Tensor core uses tensor memory that a warp may still write",
        "column {place}: no barrier between the writer and the issuing thread",
    ),
    t.TENSOR_UNSTORED: (
        HAZARD, "Missing tcgen05.wait::st", "column {place}: the storing warp has to wait for its stores before the barrier",
    ),
    t.TWO_PRODUCTS: (
        HAZARD, "Two warps' work of the tensor core writes the same tensor memory",
        "column {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come between",
    ),
    t.ALLOCATED_LATE: (
        _OBJECT, "Tensor memory allocated after relinquish_alloc_permit", "tcgen05.alloc has to come before it",
    ),
    t.ALLOCATION_UNSEEN: (
        HAZARD,
        "Tensor memory used before its allocation is visible",
        "column {place}: no barrier lies between the allocation and the use",
    ),
    t.FREED_BUSY: (
        HAZARD, "Tensor memory freed while the tensor core uses it",
        "column {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come first",
    ),
    t.FREED_READ: (
        HAZARD, "Tensor memory freed that a warp may still access",
        "column {place}: a barrier has to come between that access and tcgen05.dealloc",
    ),
}  # fmt: skip
#: What is found of registers that belong to a product of a warp group: title and remedy.
REGISTERS_SAID = {
    READ: ("Accumulator of a wgmma read before its wait", "wgmma.wait_group has to come first"),
    WRITTEN: ("Register of a wgmma written before its wait", "wgmma.wait_group has to come first"),
    UNFENCED: ("Missing wgmma.fence", "wgmma.fence has to come between the write and the product"),
}
