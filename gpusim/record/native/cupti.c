/* Times on the GPU, from CUPTI's activity API where a libcupti is there. Without it durations are unknown, counts are not.
 *
 * Own declarations of the documented ABI: the fields read stand at these offsets in every CUpti_ActivityKernel from 4 on
 * (cupti_activity.h of 11.8 to 13.0). CUPTI is given BUFFERS buffers and no more: without a free one it drops records, and its
 * kernels are counted without a time.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { CONCURRENT_KERNEL = 10, KERNEL = 3, BUFFERS = 8, BUFFER_BYTES = 1 << 17, FLUSH_EVERY = 100 };
enum { REGISTERS_AT = 6, START_AT = 16, END_AT = 24, DEVICE_AT = 40, STREAM_AT = 48, SHAPE_AT = 52, STATIC_AT = 76, DYNAMIC_AT = 80,
       CORRELATION_AT = 92, NAME_AT = 104, GRAPH_AT = 156, RECORD_BYTES = 160 };
enum { FREE, GIVEN, FULL };

static struct { _Alignas(64) uint8_t bytes[BUFFER_BYTES]; size_t valid; _Atomic int state; } buffers[BUFFERS];
static int (*flush)(uint32_t), (*next_record)(uint8_t *, size_t, uint8_t **);
static _Atomic int begun, active;
static bool by_injection;

static void requested(uint8_t **buffer, size_t *bytes, size_t *records) {
    *buffer = NULL, *bytes = 0, *records = 0;
    for (int i = 0; i < BUFFERS && !*buffer; i++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&buffers[i].state, &state, GIVEN)) *buffer = buffers[i].bytes, *bytes = BUFFER_BYTES;
    }
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].bytes == buffer) {
            buffers[i].valid = valid <= BUFFER_BYTES ? valid : 0;
            atomic_store_explicit(&buffers[i].state, FULL, memory_order_release);
        }
}

/* `graph` is read only where the record is long enough to have it (CUPTI 11.8 on). */
static void take(const uint8_t *record) {
    uint64_t start, end;
    uint32_t kind, device, stream, correlation, graph;
    int32_t shape[6], fixed, dynamic;
    uint16_t registers;
    const char *name;
    memcpy(&kind, record, 4);
    if (kind != CONCURRENT_KERNEL && kind != KERNEL) return;
    memcpy(&registers, record + REGISTERS_AT, 2); memcpy(&start, record + START_AT, 8); memcpy(&end, record + END_AT, 8);
    memcpy(&device, record + DEVICE_AT, 4); memcpy(&stream, record + STREAM_AT, 4); memcpy(shape, record + SHAPE_AT, 24);
    memcpy(&fixed, record + STATIC_AT, 4); memcpy(&dynamic, record + DYNAMIC_AT, 4); memcpy(&name, record + NAME_AT, 8);
    memcpy(&correlation, record + CORRELATION_AT, 4); memcpy(&graph, record + GRAPH_AT, 4);
    if (!start || end < start) return;
    /* A launch that a hook has counted is timed in the row of its name and shape; its stream number is CUPTI's, so that it has none. */
    bool counted = hooks_used() && !by_injection && !graph;
    struct event event = {
        .kernel = kernel_by_name(name, registers, (uint32_t)fixed), .grid_x = (uint32_t)shape[0], .grid_y = (uint16_t)shape[1],
        .grid_z = (uint16_t)shape[2], .block_x = (uint16_t)shape[3], .block_y = (uint16_t)shape[4], .block_z = (uint16_t)shape[5],
        .shared_bytes = (uint32_t)dynamic, .stream = counted ? 0 : stream, .correlation = correlation,
        .device = device < DEVICES ? (uint8_t)device : NO_DEVICE, .kind = graph ? IN_GRAPH : LAUNCH,
    };
    rows_timed(&event, end - start, !counted);
}

void cupti_poll(void) {
    static int steps;
    if (!atomic_load(&active)) return;
    if (++steps % FLUSH_EVERY == 0) flush(0);
    for (int i = 0; i < BUFFERS; i++) {
        if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) != FULL) continue;
        uint8_t *record = NULL, *start = buffers[i].bytes;
        for (size_t most = buffers[i].valid / 8; most && !next_record(start, buffers[i].valid, &record); most--) {
            if (record < start || record + RECORD_BYTES > start + buffers[i].valid) break;
            take(record);
        }
        atomic_store_explicit(&buffers[i].state, FREE, memory_order_release);
    }
}

void cupti_start(bool injected) {
    const char *path = getenv("GPUSIM_RECORD_CUPTI");
    if (injected) by_injection = !hooks_used();
    if ((path && !strcmp(path, "0")) || atomic_load_explicit(&begun, memory_order_relaxed)) return;
    /* Only NVIDIA's own driver has export tables: an emulated one would be asked for what it has not. */
    if (!(path && *path == '/') && !real_function("cuGetExportTable")) return;
    if (atomic_exchange(&begun, 1)) return;
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    void *library = path && *path == '/' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int i = 0; i < 3 && !library && !(path && *path == '/'); i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)) =
        (int (*)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)))library_symbol(library, "cuptiActivityRegisterCallbacks");
    int (*enable)(int) = (int (*)(int))library_symbol(library, "cuptiActivityEnable");
    flush = (int (*)(uint32_t))library_symbol(library, "cuptiActivityFlushAll");
    next_record = (int (*)(uint8_t *, size_t, uint8_t **))library_symbol(library, "cuptiActivityGetNextRecord");
    if (!callbacks || !enable || !flush || !next_record || callbacks(requested, completed) || enable(CONCURRENT_KERNEL)) return;
    atomic_store(&active, 1);
}
