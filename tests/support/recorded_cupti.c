/* A libcupti that is none: tells of the stub driver's launches as CUPTI does, by callbacks and in activity buffers.
 *
 * A kernel takes as many microseconds as its grid has blocks in x; a graph launch runs two kernels, "in_graph" with 3 and with 4 blocks, on device 1.
 * Fields that the recorder should not need are 0xA5. FAKE_CUPTI says what is wrong, one letter each: `v` an old version, `s` another has
 * subscribed, `e` kernels cannot be enabled, `h` records come only where they are forced out, `o` one record lies outside of its buffer,
 * `r` one comes again and again, `x` reading fails, `d` every record is dropped, `w` the flush waits for ever, `l` kernels
 * take from 1 us to 1 s, as many in each decade, `b` the first records are given out before their launches have returned,
 * which takes 40 ms more.
 */
#define _GNU_SOURCE
#include "cupti_layout.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, MAX_LIMIT = 12, NOT_PERMITTED = 35, SUBSCRIBED = 39, KEPT = 1 << 20 };
struct call_data { uint32_t site; const char *function; const void *parameters, *result; const char *symbol; void *context; uint32_t context_id; uint64_t *data; uint32_t correlation; };
typedef void (*request_t)(uint8_t **, size_t *, size_t *);
typedef void (*complete_t)(void *, uint32_t, uint8_t *, size_t, size_t);
static request_t request;
static complete_t complete;
static void (*callback)(void *, int, uint32_t, const void *);
static uint8_t kept[KEPT], *next_kept = kept, *given;
static size_t given_bytes;
static size_t dropped;
static int enabled, calls_enabled[1024];
static uint32_t last_correlation = 1000;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int wrong(char what) { const char *text = getenv("FAKE_CUPTI"); return text && strchr(text, what) != NULL; }

static void record(uint32_t correlation, const char *name, const unsigned *grid, const unsigned *block, int dynamic, uint32_t graph) {
    uint32_t kind = ACTIVITY_CONCURRENT_KERNEL, device = graph ? 1 : 0, stream = 7;
    uint64_t start = 1000, end = 1000 + 1000 * (uint64_t)grid[0], node = graph ? 5 : 0;
    uint16_t registers = 40;
    int32_t fixed = 1024;
    if (wrong('l')) end = 1000 + (uint64_t)(1000 * exp(log(1e6) * fmod(correlation * 0.6180339887498949, 1)));
    if (!given && request) { size_t most = 0; request(&given, &given_bytes, &most); } /* held until it is flushed, by whoever listens then */
    if (wrong('d') || next_kept + RECORD_BYTES > kept + KEPT) { dropped++; return; }
    uint8_t *at = next_kept;
    memset(at, 0xA5, RECORD_BYTES);
#define PUT(where, value) memcpy(at + where, &(value), sizeof(value))
    PUT(KIND_AT, kind); PUT(REGISTERS_AT, registers); PUT(START_AT, start); PUT(END_AT, end); PUT(DEVICE_AT, device); PUT(STREAM_AT, stream);
    memcpy(at + SHAPE_AT, grid, 12); memcpy(at + SHAPE_AT + 12, block, 12);
    PUT(STATIC_AT, fixed); PUT(DYNAMIC_AT, dynamic); PUT(CORRELATION_AT, correlation); PUT(NAME_AT, name); PUT(GRAPH_AT, graph); PUT(GRAPH_NODE_AT, node);
    next_kept += RECORD_BYTES;
}

int cuptiActivityFlushAll(uint32_t flag);

static void listener(unsigned call, int ends, const void *parameters, const int *result) {
    static __thread uint32_t correlation;
    struct { void *f; unsigned grid[3], block[3], shared; } const *launch = parameters;
    static const unsigned one[3] = {3, 1, 1}, other[3] = {4, 1, 1}, block[3] = {32, 1, 1};
    static int capturing;
    pthread_mutex_lock(&mutex);
    if (ends && (call == CALL_CAPTURE || call == CALL_CAPTURE_ENDS)) capturing = call == CALL_CAPTURE;
    if (!ends) correlation = ++last_correlation;
    if (ends && !*result && enabled && !capturing && call == CALL_LAUNCH) record(correlation, "alpha", launch->grid, launch->block, (int)launch->shared, 0);
    if (ends && enabled && call == CALL_GRAPH) record(correlation, "in_graph", one, block, 0, 9), record(correlation, "in_graph", other, block, 0, 9);
    pthread_mutex_unlock(&mutex);
    static int late;
    if (ends && wrong('b') && late++ < 3) cuptiActivityFlushAll(0), usleep(40000);
    struct call_data data = {(uint32_t)ends, "cuLaunchKernel", parameters, result, "alpha", NULL, 0, NULL, correlation};
    if (callback && calls_enabled[call]) callback(NULL, DOMAIN_DRIVER, call, &data);
}

static void listen_to_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    void (**place)(unsigned, int, const void *, const int *) = driver ? (void (**)(unsigned, int, const void *, const int *))dlsym(driver, "stub_listener") : NULL;
    if (place) *place = listener;
}

API int cuptiGetVersion(uint32_t *version) { *version = wrong('v') ? 17 : 130500; return SUCCESS; }
API int cuptiActivityRegisterCallbacks(request_t r, complete_t c) { request = r, complete = c; return SUCCESS; }
API int cuptiActivityEnable(int kind) { if (wrong('e')) return NOT_PERMITTED; enabled = kind; listen_to_driver(); return SUCCESS; }
API int cuptiActivityDisable(int kind) { (void)kind; enabled = 0; return SUCCESS; }
API int cuptiSubscribe(void **one, void (*function)(void *, int, uint32_t, const void *), void *data) {
    (void)data;
    if (wrong('s') || callback) return SUBSCRIBED;
    callback = function, *one = kept;
    listen_to_driver();
    return SUCCESS;
}
API int cuptiUnsubscribe(void *one) { (void)one; callback = NULL; return SUCCESS; }
API int cuptiEnableCallback(uint32_t on, void *one, int domain, uint32_t call) { (void)one; if (domain != DOMAIN_DRIVER || call >= 1024) return 1; calls_enabled[call] = (int)on; return SUCCESS; }

API int cuptiActivityFlushAll(uint32_t flag) {
    if (wrong('h') && !flag) return SUCCESS;
    if (wrong('w') && flag) for (;;) pause();
    pthread_mutex_lock(&mutex);
    for (uint8_t *from = kept; from < next_kept;) {
        uint8_t *buffer = given;
        size_t bytes = given_bytes, most = 0, rest = (size_t)(next_kept - from);
        given = NULL;
        if (!buffer) request(&buffer, &bytes, &most);
        if (!buffer) { dropped += rest / RECORD_BYTES; break; }
        size_t fits = bytes / RECORD_BYTES * RECORD_BYTES;
        if (rest < fits) fits = rest;
        memcpy(buffer, from, fits);
        from += fits;
        complete(NULL, 0, buffer, bytes, fits);
    }
    if (given && flag) complete(NULL, 0, given, given_bytes, 0), given = NULL;
    next_kept = kept;
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **found) {
    uint8_t *next = *found ? *found + RECORD_BYTES : buffer;
    if (wrong('o')) { *found = buffer - 64; return SUCCESS; }
    if (wrong('r') && *found) return SUCCESS;
    if (wrong('x')) return 999;
    if (next >= buffer + valid) return MAX_LIMIT;
    *found = next;
    return SUCCESS;
}
API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *records) { (void)context, (void)stream; *records = dropped; dropped = 0; return SUCCESS; }
