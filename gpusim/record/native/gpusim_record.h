/* The recorder's C ABI: stable within GPUSIM_RECORD_ABI.
 *
 * The library is loaded by LD_PRELOAD (it interposes the driver API) or by CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH
 * (the driver and NVTX call the Initialize functions). Nothing need be called; these functions are for programs that want to ask.
 */
#ifndef GPUSIM_RECORD_H
#define GPUSIM_RECORD_H
#include <stdint.h>

#define GPUSIM_RECORD_ABI 1

struct gpusim_record_stats {
    uint64_t launches; /* aggregated so far */
    uint64_t dropped;  /* events that found no room */
    uint64_t batches;  /* acknowledged by a collector */
    uint64_t waiting;  /* rows of the table that no batch holds yet */
    uint64_t bytes;    /* memory that the recorder has mapped or set aside */
};

int gpusim_record_abi(void);
void gpusim_record_stats(struct gpusim_record_stats *stats);
/* Send every launch as an event for that many seconds; 0 ends it. */
void gpusim_record_capture(unsigned seconds);
/* Called by the driver (CUDA_INJECTION64_PATH) and by NVTX 3 (NVTX_INJECTION64_PATH). */
int InitializeInjection(void);
int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t));
#endif
