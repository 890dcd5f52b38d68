/* What a launch that succeeded is noted as: one more of those that its thread has counted before, or an event. */
#include "internal.h"

typedef void *handle;

/* Whether each launch is counted where it happens: by a hook, or by a callback. */
bool launches_noted(void) { return atomic_load_explicit(&hot.used, memory_order_relaxed) || callbacks_on(); }

/* Questions that a launch may ask; to look for their functions costs more than a launch may. A driver that is loaded anew is looked up
 * anew by the program too, which forgets these. */
enum { ASK_DEVICE, ASK_CAPTURE, ASK_CAPTURE_PTSZ, QUESTIONS };
static _Atomic(void *) questions[QUESTIONS];
static void *question(int at, const char *name) {
    void *found = atomic_load_explicit(&questions[at], memory_order_acquire);
    if (LIKELY(found != NULL)) return found;
    found = real_function(name);
    atomic_store_explicit(&questions[at], found, memory_order_release);
    return found;
}
void forget_questions(void) { for (int i = 0; i < QUESTIONS; i++) atomic_store(&questions[i], NULL); }

static __attribute__((noinline)) void ask_device(void) {
    int (*ask)(int *) = (int (*)(int *))question(ASK_DEVICE, "cuCtxGetDevice");
    int device = NO_DEVICE;
    if (!ask || ask(&device) || device < 0 || device >= DEVICES) device = NO_DEVICE;
    thread_state.device = (int16_t)device;
    if (device != NO_DEVICE) identity_gpu((uint8_t)device);
}

static __attribute__((noinline)) bool is_captured(handle stream, bool per_thread) {
    int (*ask)(handle, int *) = (int (*)(handle, int *))(per_thread ? question(ASK_CAPTURE_PTSZ, "cuStreamIsCapturing_ptsz") : question(ASK_CAPTURE, "cuStreamIsCapturing"));
    int status = 0;
    return ask && !ask(stream, &status) && status == 1;
}

static inline uint32_t folded(handle stream) { return (uint32_t)((uintptr_t)stream >> 3 ^ (uintptr_t)stream >> 35); }

static inline union launch launch_of(enum kind kind, uint32_t kernel, const unsigned *grid, const unsigned *block, unsigned shared, handle stream) {
    return (union launch){.word = {
        kernel | (uint64_t)grid[0] << 32,
        (uint16_t)grid[1] | (uint64_t)(uint16_t)grid[2] << 16 | (uint64_t)(uint16_t)block[0] << 32 | (uint64_t)(uint16_t)block[1] << 48,
        (uint16_t)block[2] | (uint64_t)thread_state.range << 16 | (uint64_t)shared << 32,
        folded(stream) | (uint64_t)(uint8_t)thread_state.device << 32 | (uint64_t)kind << 40,
    }};
}

/* Nearly all launches: the thread has launched the same before, and nothing has happened that asks for more than a count. */
static inline bool counted_again(enum kind kind, handle f, const unsigned *grid, const unsigned *block, unsigned shared, handle stream, uint32_t counter) {
    if (atomic_load_explicit(&hot.wanted, memory_order_relaxed) != 1 || thread_state.cupti || thread_state.device < 0 || !thread_state.counters ||
        thread_state.generation != atomic_load_explicit(&hot.generation, memory_order_relaxed) ||
        atomic_load_explicit(&hot.captures, memory_order_relaxed) || atomic_load_explicit(&hot.capture_until_s, memory_order_relaxed)) return false;
    union launch launch = launch_of(kind, 0, grid, block, shared, stream);
    if (!counter_again(&thread_state.counters[counter], &launch, f, atomic_load_explicit(&hot.meanings, memory_order_relaxed))) return false;
    thread_state.correlation++;
    return true;
}

static __attribute__((noinline)) void note(enum kind kind, handle f, const unsigned *grid, const unsigned *block, unsigned shared, handle stream, bool per_thread, uint32_t counter) {
    struct ring *ring = ring_of_thread();
    if (!ring) return;
    if (thread_state.device < 0) ask_device(); /* before the kernel's attributes are asked for */
    if (atomic_load_explicit(&hot.captures, memory_order_relaxed) > 0 && is_captured(stream, per_thread)) kind = CAPTURED;
    uint32_t meanings = atomic_load(&hot.meanings); /* before the handle is looked up */
    bool settled = true, captures = atomic_load_explicit(&hot.capture_until_s, memory_order_relaxed);
    union launch launch = launch_of(kind, f ? kernel_of(f, &settled) : 0, grid, block, shared, stream);
    uint32_t correlation = thread_state.cupti ? thread_state.cupti : ++thread_state.correlation;
    thread_state.told = thread_state.cupti || captures;
    if (!thread_state.told && settled && thread_state.counters) {
        struct counter *pair = &thread_state.counters[counter];
        if (counter_again(pair, &launch, f, meanings) || counter_begin(pair, &launch, f, meanings)) return;
    }
    struct event event = event_of(&launch);
    event.correlation = correlation, event.joins = thread_state.cupti != 0;
    if (captures) event.time_ns = unix_ns();
    ring_put(ring, &event);
}

void note_call(enum kind kind, handle f, const unsigned *grid, const unsigned *block, unsigned shared, handle stream, bool per_thread, uint32_t counter) {
    if (LIKELY(counted_again(kind, f, grid, block, shared, stream, counter)) || !recording()) return;
    if (!atomic_load_explicit(&hot.used, memory_order_relaxed)) atomic_store(&hot.used, true);
    note(kind, f, grid, block, shared, stream, per_thread, counter);
}

/* From CUPTI's callback: nothing has told the kernel's name before. */
void note_launch(enum kind kind, handle f, const char *symbol, const unsigned *grid, const unsigned *block, unsigned shared, handle stream, bool per_thread) {
    if (!recording()) return;
    kernel_symbol(f, symbol);
    note(kind, f, grid, block, shared, stream, per_thread, counter_at(f, grid, block, shared, stream));
}
/* From a hook or from CUPTI's callback: `hot.used`, that hooks note kernels, stays as it is. */
void note_graph(handle stream, bool per_thread) {
    static const unsigned none[3];
    uint32_t counter = counter_at(NULL, none, none, 0, stream);
    if (counted_again(GRAPH, NULL, none, none, 0, stream, counter) || !recording()) return;
    note(GRAPH, NULL, none, none, 0, stream, per_thread, counter);
}
