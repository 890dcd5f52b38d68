/* Times on the GPU, from CUPTI's activity API where a libcupti is there. Without it durations are unknown, counts are not.
 *
 * The background thread flushes and reads; CUPTI is given BUFFERS buffers and no more: without a free one it drops records, and
 * their kernels are counted without a time. At exit all is flushed once more, for FLUSH_MS at most, from a handler that is registered
 * after the driver has been loaded and so runs before its end.
 *
 * A time may come before its launch: the kernel has ended and its record is flushed before the launching thread has put its event into the
 * ring. Such a record is kept (`early`) until its launch is known, for EARLY_MS at most.
 */
#define _GNU_SOURCE
#include "cupti_layout.h"
#include "internal.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 8, BUFFER_BYTES = 1 << 17, EARLY = 1024, EARLY_MS = 1000, FLUSH_EVERY_MS = 1000, FLUSH_MS = 100, POLL_NS = 500000 };
enum { FREE, GIVEN, FULL };
enum { OFF, ACTIVE, ENDING, FLUSHED, ENDED };

/* Each an allocation of its own: a program that takes CUPTI over unseen is handed what CUPTI still holds, and may free it. */
static struct { uint8_t *bytes; size_t valid; _Atomic int state; } buffers[BUFFERS];
static int (*flush)(uint32_t), (*next_record)(uint8_t *, size_t, uint8_t **), (*disable)(int), (*ask_dropped)(void *, uint32_t, size_t *);
static _Atomic int begun, phase;
static _Atomic bool taken; /* by the program */
static _Atomic uint64_t dropped;
static struct { uint64_t since_ns; uint8_t record[RECORD_BYTES]; } early[EARLY]; /* the background thread's */
static int early_count;

uint64_t cupti_dropped(void) { return atomic_load(&dropped); }

static void requested(uint8_t **buffer, size_t *bytes, size_t *records) {
    *buffer = NULL, *bytes = 0, *records = 0;
    for (int i = 0; i < BUFFERS && !*buffer; i++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&buffers[i].state, &state, GIVEN)) *buffer = buffers[i].bytes, *bytes = BUFFER_BYTES;
    }
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)bytes;
    size_t lost = 0;
    int full = 0;
    if (ask_dropped && !ask_dropped(context, stream, &lost)) atomic_fetch_add(&dropped, lost);
    for (int i = 0; i < BUFFERS; i++) {
        if (buffers[i].bytes == buffer) {
            buffers[i].valid = valid <= BUFFER_BYTES ? valid : 0;
            atomic_store_explicit(&buffers[i].state, FULL, memory_order_release);
        }
        full += atomic_load_explicit(&buffers[i].state, memory_order_relaxed) == FULL;
    }
    if (full == BUFFERS / 2) wake_background();
}

/* A launch that somebody has counted is timed in its own row, found by its correlation id; where that is not known, in the row of its
 * kernel and shape without a stream. A graph's kernels were counted by nobody: they have the graph launch's stream and range.
 * `waits`: a record whose launch is not known yet may be kept. */
static void take(const uint8_t *record, bool waits) {
    uint64_t start, end, node;
    uint32_t kind, device, stream, correlation, graph;
    int32_t shape[6], fixed, dynamic;
    uint16_t registers;
    const char *name;
    memcpy(&kind, record + KIND_AT, 4);
    if (kind != ACTIVITY_CONCURRENT_KERNEL && kind != ACTIVITY_KERNEL) return;
    memcpy(&registers, record + REGISTERS_AT, 2); memcpy(&start, record + START_AT, 8); memcpy(&end, record + END_AT, 8);
    memcpy(&device, record + DEVICE_AT, 4); memcpy(&stream, record + STREAM_AT, 4); memcpy(shape, record + SHAPE_AT, 24);
    memcpy(&fixed, record + STATIC_AT, 4); memcpy(&dynamic, record + DYNAMIC_AT, 4); memcpy(&name, record + NAME_AT, 8);
    memcpy(&correlation, record + CORRELATION_AT, 4); memcpy(&graph, record + GRAPH_AT, 4); memcpy(&node, record + GRAPH_NODE_AT, 8);
    if (!start || end < start) return;
    bool in_graph = graph || node;
    const struct join *launch = join_find(correlation);
    bool counted = !in_graph && (launch || launches_noted());
    if (waits && !launch && correlation && callbacks_on() && early_count < EARLY) {
        early[early_count].since_ns = now_ns();
        memcpy(early[early_count++].record, record, RECORD_BYTES);
        return;
    }
    struct event event = {
        .kernel = launch && !in_graph && launch->kernel ? launch->kernel : kernel_by_name(name, registers, (uint32_t)fixed),
        .grid_x = (uint32_t)shape[0], .grid_y = (uint16_t)shape[1],
        .grid_z = (uint16_t)shape[2], .block_x = (uint16_t)shape[3], .block_y = (uint16_t)shape[4], .block_z = (uint16_t)shape[5],
        .shared_bytes = (uint32_t)dynamic, .stream = launch ? launch->stream : counted ? 0 : stream, .correlation = correlation,
        .range = launch ? launch->range : 0, .device = device < DEVICES ? (uint8_t)device : NO_DEVICE,
        .kind = in_graph ? IN_GRAPH : launch ? launch->kind : LAUNCH,
    };
    if (event.device != NO_DEVICE) identity_gpu(event.device);
    events_time(&event, start, end - start, launch ? launch->captured : atomic_load(&hot.capture_until_s) != 0);
    rows_timed(&event, launch ? launch->minute : rows_minute(), end - start, !counted);
}

/* Those whose launches have come since, and those that have waited for long enough: nobody has noted their launches. */
static void take_early(bool all) {
    uint64_t now = now_ns();
    int kept = 0;
    for (int i = 0; i < early_count; i++) {
        uint32_t correlation;
        memcpy(&correlation, early[i].record + CORRELATION_AT, 4);
        if (!all && !join_find(correlation) && now - early[i].since_ns < (uint64_t)EARLY_MS * 1000000) early[kept++] = early[i];
        else take(early[i].record, false);
    }
    early_count = kept;
}

static void read_buffers(bool waits) {
    for (int i = 0; i < BUFFERS; i++) {
        if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) != FULL) continue;
        uint8_t *record = NULL, *start = buffers[i].bytes;
        for (size_t most = buffers[i].valid / 8; most && !next_record(start, buffers[i].valid, &record); most--) {
            if (record < start || record + RECORD_BYTES > start + buffers[i].valid) break;
            take(record, waits);
        }
        atomic_store_explicit(&buffers[i].state, FREE, memory_order_release);
    }
}

int cupti_phase(void) { return atomic_load(&phase); }

/* `now` is the phase before the rings were drained: what was flushed at the end is read after its launches. */
void cupti_poll(int now) {
    static uint64_t flushed_ms;
    uint64_t now_ms = now_ns() / 1000000;
    if (now != ACTIVE && now != FLUSHED) return;
    take_early(now == FLUSHED);
    if (now == ACTIVE && now_ms - flushed_ms >= FLUSH_EVERY_MS) flushed_ms = now_ms, flush(0);
    read_buffers(now == ACTIVE);
    if (now == FLUSHED) atomic_store(&phase, ENDED);
}

static void *flush_once(void *unused) {
    int now = ENDING;
    flush(FLUSH_FORCED);
    atomic_compare_exchange_strong(&phase, &now, FLUSHED);
    return unused;
}

/* On the exiting thread, while the driver is still there. A thread of its own flushes: should that never end, the background thread
 * still has its last words, and the program its end. */
static void at_exit(void) {
    int now = ACTIVE;
    if (!background_runs() || (!atomic_compare_exchange_strong(&phase, &now, ENDING) && now != FLUSHED)) return;
    if (now == FLUSHED || start_thread(flush_once)) { /* flushed: the program has taken CUPTI over, just now */
        bool woken = false;
        for (uint64_t end = now_ns() + (uint64_t)FLUSH_MS * 1000000; (now = atomic_load(&phase)) != ENDED && now_ns() < end;) {
            struct timespec pause = {0, POLL_NS};
            if (now == FLUSHED && !woken) woken = true, wake_background();
            nanosleep(&pause, NULL);
        }
    }
    atomic_store(&phase, OFF);
}

/* The program is about to use CUPTI itself, which serves one at a time: all buffers come back, and from here on launches are counted.
 * Where the recorder has not begun with CUPTI yet, it never will. */
void cupti_give_way(void) {
    int now = ACTIVE, unread = ENDING;
    atomic_store(&taken, true);
    if (!atomic_compare_exchange_strong(&phase, &now, ENDING)) return;
    callbacks_end();
    disable(ACTIVITY_CONCURRENT_KERNEL);
    flush(FLUSH_FORCED);
    atomic_compare_exchange_strong(&phase, &unread, FLUSHED);
}

/* CUPTI does not work in a forked child of a process that has used the driver: the child counts. */
void cupti_after_fork(void) { atomic_store(&phase, OFF); early_count = 0; }

#define FIND(pointer, name) (*(void **)&(pointer) = library_symbol(library, name))

static void begin(void *library) {
    int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)), (*enable)(int), (*ask_version)(uint32_t *);
    uint32_t version = 0;
    FIND(ask_version, "cuptiGetVersion");
    FIND(callbacks, "cuptiActivityRegisterCallbacks");
    FIND(enable, "cuptiActivityEnable");
    FIND(disable, "cuptiActivityDisable");
    FIND(flush, "cuptiActivityFlushAll");
    FIND(next_record, "cuptiActivityGetNextRecord");
    FIND(ask_dropped, "cuptiActivityGetNumDroppedRecords");
    if (!ask_version || !callbacks || !enable || !disable || !flush || !next_record) return;
    if (ask_version(&version) || version < LEAST_CUPTI_VERSION) return;
    for (int i = 0; i < BUFFERS; i++)
        if (posix_memalign((void **)&buffers[i].bytes, 64, BUFFER_BYTES)) return;
    /* Who is refused as a subscriber leaves everything as it is: buffers that it registered would take those of the one before it. */
    if (!callbacks_start(library)) return;
    if (callbacks(requested, completed) || enable(ACTIVITY_CONCURRENT_KERNEL)) { callbacks_end(); return; }
    atexit(at_exit);
    atomic_store(&phase, ACTIVE);
    if (atomic_load(&taken)) cupti_give_way(); /* meanwhile, on another thread */
}

void cupti_start(void) {
    const char *path = getenv("GPUSIM_RECORD_CUPTI");
    if ((path && !strcmp(path, "0")) || atomic_load_explicit(&begun, memory_order_relaxed) || atomic_load(&taken)) return;
    /* Only NVIDIA's own driver has export tables: an emulated one would be asked for what it has not. */
    bool named = path && *path == '/';
    if (!named && !real_function("cuGetExportTable")) return;
    if (atomic_exchange(&begun, 1)) return;
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
    void *library = named ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int i = 0; i < 4 && !library && !named; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) begin(library);
}
