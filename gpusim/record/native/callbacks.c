/* CUPTI's callbacks around launches: they tell the correlation id under which a kernel's time will come, and, where nothing is
 * interposed (CUDA_INJECTION64_PATH), the launch itself, if asked for.
 *
 * A launch through the runtime has one id for both APIs, so that the driver's callbacks are enough. CUPTI serves one subscriber, and its
 * clients are to subscribe before they register buffers (cupti_callbacks.h). So the recorder subscribes first, and has nothing to do with
 * CUPTI where another has: that one's buffers are its own. A program that comes later and is seen (taking.c) takes CUPTI over. One that
 * cannot be seen must not be refused for the recorder's sake: there the subscription is given back as soon as it was had.
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

/* Whether CUPTI is there for the recorder. */
bool callbacks_start(void *library) {
    static const uint32_t calls[] = {CALL_LAUNCH, CALL_LAUNCH_PTSZ, CALL_COOPERATIVE, CALL_COOPERATIVE_PTSZ,
                                     CALL_GRAPH, CALL_GRAPH_PTSZ, CALL_LAUNCH_EX, CALL_LAUNCH_EX_PTSZ};
    static const uint32_t captures[] = {CALL_CAPTURE, CALL_CAPTURE_PTSZ, CALL_CAPTURE_TO, CALL_CAPTURE_TO_PTSZ, CALL_CAPTURE_ENDS, CALL_CAPTURE_ENDS_PTSZ};
    const char *text = getenv("GPUSIM_RECORD_CALLBACKS");
    bool wanted = text && *text ? strcmp(text, "0") != 0 : taking_is_seen();
    int (*subscribe)(handle *, void (*)(void *, int, uint32_t, const uint8_t *), void *), (*enable)(uint32_t, handle, int, uint32_t);
    *(void **)&subscribe = library_symbol(library, "cuptiSubscribe");
    *(void **)&enable = library_symbol(library, "cuptiEnableCallback");
    *(void **)&unsubscribe = library_symbol(library, "cuptiUnsubscribe");
    if (!subscribe || !enable || !unsubscribe || subscribe(&subscriber, on_call, NULL)) return false;
    for (size_t i = 0; wanted && i < sizeof calls / sizeof *calls; i++) wanted = !enable(1, subscriber, DOMAIN_DRIVER, calls[i]);
    if (!wanted) { unsubscribe(subscriber); return true; }
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) enable(1, subscriber, DOMAIN_DRIVER, captures[i]);
    atomic_store(&subscribed, true);
    return true;
}

void callbacks_end(void) {
    if (atomic_exchange(&subscribed, false)) unsubscribe(subscriber);
}
