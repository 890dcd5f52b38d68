/* CUPTI's callbacks around launches: they tell the correlation id under which a kernel's time will come, and, where nothing is
 * interposed (CUDA_INJECTION64_PATH), the launch itself.
 *
 * A launch through the runtime has one id for both APIs, so that the driver's callbacks are enough. CUPTI has one subscriber before
 * CUDA 13: a program that subscribes through the dynamic linker takes CUPTI over (the recorder goes back to counting), one that has
 * subscribed before keeps it, and times then join launches by kernel and shape.
 */
#define _GNU_SOURCE
#include "cupti_layout.h"
#include "internal.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
struct launch_parameters { handle f; unsigned grid[3], block[3], shared_bytes; handle stream; };
struct launch_config { unsigned grid[3], block[3], shared_bytes; handle stream; };
struct extended_parameters { const struct launch_config *config; handle f; };
struct graph_parameters { handle graph, stream; };

static handle subscriber;
static int (*unsubscribe)(handle);
static _Atomic bool subscribed;

bool callbacks_on(void) { return atomic_load_explicit(&subscribed, memory_order_relaxed); }

static void *pointer_at(const uint8_t *data, size_t at) {
    void *pointer;
    memcpy(&pointer, data + at, sizeof pointer);
    return pointer;
}

static void launched(uint32_t call, const void *parameters, const char *symbol) {
    const struct launch_parameters *plain = parameters;
    const struct extended_parameters *extended = parameters;
    const struct graph_parameters *graph = parameters;
    bool per_thread = call == CALL_LAUNCH_PTSZ || call == CALL_COOPERATIVE_PTSZ || call == CALL_LAUNCH_EX_PTSZ || call == CALL_GRAPH_PTSZ;
    switch (call) {
    case CALL_LAUNCH: case CALL_LAUNCH_PTSZ: case CALL_COOPERATIVE: case CALL_COOPERATIVE_PTSZ: {
        enum kind kind = call == CALL_LAUNCH || call == CALL_LAUNCH_PTSZ ? LAUNCH : COOPERATIVE;
        note_launch(kind, plain->f, symbol, plain->grid, plain->block, plain->shared_bytes, plain->stream, per_thread);
        break;
    }
    case CALL_LAUNCH_EX: case CALL_LAUNCH_EX_PTSZ:
        if (extended->config)
            note_launch(LAUNCH, extended->f, symbol, extended->config->grid, extended->config->block, extended->config->shared_bytes, extended->config->stream, per_thread);
        break;
    case CALL_GRAPH: case CALL_GRAPH_PTSZ: note_graph(graph->stream, per_thread); break;
    case CALL_CAPTURE_ENDS: case CALL_CAPTURE_ENDS_PTSZ: capture_counts(-1); break;
    default: capture_counts(1);
    }
}

static void on_call(void *context, int domain, uint32_t call, const uint8_t *data) {
    (void)context;
    uint32_t site;
    if (domain != DOMAIN_DRIVER) return;
    memcpy(&site, data + SITE_AT, 4);
    if (site == SITE_ENTER) {
        memcpy(&thread_state.cupti, data + CALL_CORRELATION_AT, 4);
        return;
    }
    if (thread_state.inside) return; /* its hook notes it */
    const int *result = pointer_at(data, RESULT_AT);
    const void *parameters = pointer_at(data, PARAMETERS_AT);
    if (site == SITE_EXIT && parameters && !(result && *result)) launched(call, parameters, pointer_at(data, SYMBOL_AT));
    thread_state.cupti = 0;
}

void callbacks_start(void *library) {
    static const uint32_t calls[] = {CALL_LAUNCH, CALL_LAUNCH_PTSZ, CALL_COOPERATIVE, CALL_COOPERATIVE_PTSZ,
                                     CALL_GRAPH, CALL_GRAPH_PTSZ, CALL_LAUNCH_EX, CALL_LAUNCH_EX_PTSZ};
    static const uint32_t captures[] = {CALL_CAPTURE, CALL_CAPTURE_PTSZ, CALL_CAPTURE_TO, CALL_CAPTURE_TO_PTSZ, CALL_CAPTURE_ENDS, CALL_CAPTURE_ENDS_PTSZ};
    const char *text = getenv("GPUSIM_RECORD_CALLBACKS");
    int (*subscribe)(handle *, void (*)(void *, int, uint32_t, const uint8_t *), void *), (*enable)(uint32_t, handle, int, uint32_t);
    *(void **)&subscribe = library_symbol(library, "cuptiSubscribe");
    *(void **)&enable = library_symbol(library, "cuptiEnableCallback");
    *(void **)&unsubscribe = library_symbol(library, "cuptiUnsubscribe");
    if ((text && !strcmp(text, "0")) || !subscribe || !enable || !unsubscribe || subscribe(&subscriber, on_call, NULL)) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (enable(1, subscriber, DOMAIN_DRIVER, calls[i])) {
            unsubscribe(subscriber);
            return;
        }
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) enable(1, subscriber, DOMAIN_DRIVER, captures[i]);
    atomic_store(&subscribed, true);
}

void callbacks_end(void) {
    if (atomic_exchange(&subscribed, false)) unsubscribe(subscriber);
}

/* What a program calls when it begins to use CUPTI; a library that the driver loads (no preload) does not see this. */
static void *real_cupti(const char *name) {
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
    void *found = library_symbol(RTLD_NEXT, name);
    for (int i = 0; i < 4 && !found; i++) {
        void *library = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
        if (library) found = library_symbol(library, name), dlclose(library);
    }
    return found;
}
enum { CUPTI_NOT_INITIALIZED = 15 };
#define GIVES_WAY(name, parameters, ...) \
    EXPORT int name parameters { \
        int (*call) parameters; \
        cupti_give_way(); \
        *(void **)&call = real_cupti(#name); \
        return call ? call(__VA_ARGS__) : CUPTI_NOT_INITIALIZED; }
GIVES_WAY(cuptiSubscribe, (handle *one, void *callback, void *data), one, callback, data)
GIVES_WAY(cuptiSubscribe_v2, (handle *one, void *callback, void *data, void *parameters), one, callback, data, parameters)
GIVES_WAY(cuptiActivityRegisterCallbacks, (void *request, void *complete), request, complete)
