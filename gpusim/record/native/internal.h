/* What the recorder's parts share: events on their way from the launching threads to the background thread. */
#ifndef GPUSIM_RECORD_INTERNAL_H
#define GPUSIM_RECORD_INTERNAL_H
#include "gpusim_record.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
/* On the way of every launch: the compiler puts these functions side by side, on few pages. */
#define HOT __attribute__((hot))

enum { RINGS = 16, RING_EVENTS = 8192, COUNTERS = 512, ROWS = 4096, KERNELS = 4096, HANDLES = 16384, RANGES = 1024, DEVICES = 64 };
enum { HOOKS_AT_MOST = 61 };
enum { NAME_BYTES = 2048, ARENA_BYTES = 1 << 20, BATCH_BYTES = 1 << 19, BINS = 64, NO_DEVICE = 255 };
enum kind { LAUNCH = 0, COOPERATIVE = 1, GRAPH = 2, IN_GRAPH = 3, CAPTURED = 4, OTHER = 5 };
enum frame { HELLO = 1, BATCH = 2, EVENTS = 3, ACKNOWLEDGED = 4, CAPTURE = 5 };

/* One launch; 48 bytes. `time_ns`, of Unix time, is set while a capture runs, 0 otherwise: reading a clock costs more than all the rest. */
struct event {
    uint64_t time_ns;
    uint32_t kernel, grid_x;
    uint16_t grid_y, grid_z, block_x, block_y, block_z, range;
    uint32_t shared_bytes, stream, correlation;
    uint8_t device, kind;
    uint16_t joins; /* the correlation is CUPTI's */
    uint32_t zero;  /* no padding: what leaves the process is what was written */
};
_Static_assert(sizeof(struct event) == 48, "an event is 48 bytes");

/* What launches that add up to one row have in common. Made and compared as words: a word that is read right after its parts were stored
 * waits for them. */
union launch {
    uint64_t word[4];
    struct { uint32_t kernel, grid_x; uint16_t grid_y, grid_z, block_x, block_y, block_z, range; uint32_t shared_bytes, stream; uint8_t device, kind; uint16_t zero; };
};
_Static_assert(sizeof(union launch) == 32 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words hold the parts from their low end on");

/* `handle`: the function that was launched, which is the launch's kernel as long as no handle has changed its meaning since (`meanings`). */
struct counter { _Alignas(64) union launch launch; const void *handle; _Atomic uint32_t count, state; uint32_t meanings; };
_Static_assert(sizeof(struct counter) == 64, "a cache line each");
enum counter_state { UNUSED, USED, RETIRING, YIELDED };

static inline struct event event_of(const union launch *launch) {
    return (struct event){
        .kernel = launch->kernel, .grid_x = launch->grid_x, .grid_y = launch->grid_y, .grid_z = launch->grid_z,
        .block_x = launch->block_x, .block_y = launch->block_y, .block_z = launch->block_z, .range = launch->range,
        .shared_bytes = launch->shared_bytes, .stream = launch->stream, .device = launch->device, .kind = launch->kind,
    };
}

/* Single producer, single consumer; the two sides write different cache lines. */
struct ring {
    _Alignas(64) _Atomic uint32_t head; /* the producer's */
    uint32_t seen_tail;
    _Atomic uint64_t dropped;
    struct event *_Atomic events;
    struct counter *counters; /* behind the events; NULL: several threads share the ring */
    _Alignas(64) _Atomic uint32_t tail; /* the consumer's */
    uint32_t *taken; /* of each counter */
    _Alignas(64) _Atomic uint32_t state;
};

struct kernel {
    uint64_t name_hash, code_hash;
    uint32_t name_at; /* in the arena */
    uint16_t name_bytes, registers;
    uint32_t static_shared_bytes;
    _Atomic uint32_t ready; /* its attributes have been asked for */
};

/* ring.c */
struct ring *ring_of_thread(void) HOT;
bool ring_put(struct ring *ring, const struct event *event) HOT;
uint64_t rings_drain(void (*take)(const struct event *, uint32_t launches));
uint64_t rings_dropped(void);
void rings_after_fork(void);
uint64_t rings_bytes(void);

/* counters.c: a launch may be in either of the two that lie beside each other */
static inline bool counter_again(struct counter *pair, const union launch *launch, const void *handle, uint32_t meanings) {
    for (struct counter *at = pair; at < pair + 2; at++) {
        uint32_t state = atomic_load_explicit(&at->state, memory_order_acquire);
        if (at->handle != handle || (state != USED && state != RETIRING) || at->meanings != meanings || at->launch.grid_x != launch->grid_x ||
            (at->launch.word[1] ^ launch->word[1]) | (at->launch.word[2] ^ launch->word[2]) | (at->launch.word[3] ^ launch->word[3])) continue;
        atomic_store_explicit(&at->count, atomic_load_explicit(&at->count, memory_order_relaxed) + 1, memory_order_release); /* one writer */
        return true;
    }
    return false;
}
bool counter_begin(struct counter *pair, const union launch *launch, const void *handle, uint32_t meanings);
void counters_drain(struct counter *counters, uint32_t *taken, bool wanted, bool ended, void (*take)(const struct event *, uint32_t));
void counters_after_fork(struct counter *counters, uint32_t *taken);

/* kernels.c */
uint32_t kernel_of(void *handle, bool *settled);
void kernel_named(void *handle, void *module, const char *name, bool is_library_kernel);
void kernel_symbol(void *handle, const char *name);
void kernel_same(void *handle, void *of);
void module_loaded(void *module, const void *image);
void module_unloaded(void *module);
uint32_t kernel_by_name(const char *name, uint32_t registers, uint32_t static_shared_bytes);
const struct kernel *kernel_at(uint32_t slot);

/* names.c: written under the flag of the tables */
bool tables_enter(int patience);
void tables_leave(void);
void tables_after_fork(void);
size_t name_told(const char *text, size_t bytes, char *out, size_t room, uint64_t *hash);
uint32_t name_keep(const char *text, size_t bytes);
uint64_t hidden_hash(uint64_t hash);
const char *range_text(uint16_t range, uint16_t *bytes);
uint16_t range_of(const char *text, size_t bytes);
const char *name_at(uint32_t at);

/* hash.c */
uint64_t xxh64(const void *data, size_t bytes);
void siphash128(const uint8_t key[16], const void *data, size_t bytes, uint64_t out[2]);
size_t image_bytes(const void **image);

/* noting.c */
void note_call(enum kind kind, void *f, const unsigned *grid, const unsigned *block, unsigned shared, void *stream, bool per_thread, uint32_t counter) HOT;
void note_launch(enum kind kind, void *f, const char *symbol, const unsigned *grid, const unsigned *block, unsigned shared, void *stream, bool per_thread);
void note_graph(void *stream, bool per_thread);
bool launches_noted(void);
void forget_questions(void);

/* hooks.c, resolve.c */
void *real_function(const char *name);
void *library_symbol(void *handle, const char *name);
void *hook_for(const char *name, void *real);
bool is_hook(const void *address);
void capture_counts(int by);

/* thread.c */
bool recording(void) HOT;
bool start_thread(void *(*work)(void *));
void start_background(void);
void wake_background(void);
void background_after_fork(void);
bool background_runs(void);
uint64_t now_ns(void);
uint64_t unix_ns(void);
uint32_t coarse_seconds(void);

/* rows.c: only the background thread */
void rows_event(const struct event *event, uint32_t launches);
void rows_timed(const struct event *event, uint32_t minute, uint64_t ns, bool counts);
uint32_t rows_minute(void);
size_t rows_seal(uint8_t *out, size_t room, uint32_t *rows);
uint32_t rows_waiting(void);
uint64_t rows_launches(void);
uint64_t rows_lost(void);
void rows_set_minute(uint32_t minute);
void rows_after_fork(void);

/* items.c, events.c: only the background thread */
struct writer { uint8_t *at, *end, told_kernels[KERNELS / 8], told_ranges[RANGES / 8 + 1]; };
void writer_begin(struct writer *w, uint8_t *out, size_t room);
bool writer_has_room(const struct writer *w, size_t bytes);
void put_bytes(struct writer *w, const void *data, size_t bytes);
void put_names(struct writer *w, uint32_t kernel, uint16_t range);
#define PUT(w, value) put_bytes(w, &(value), sizeof(value))
void events_launch(const struct event *event);
void events_time(const struct event *event, uint64_t start_ns, uint64_t duration_ns, bool of_captured);
size_t events_seal(uint8_t *out, size_t room);
bool events_waiting(void);
uint64_t events_lost(void);
void events_after_fork(void);

/* channel.c: only the background thread */
void channel_step(bool last);
bool channel_idle(void);
uint64_t channel_period_ms(void);
uint64_t channel_acknowledged(void);
void channel_after_fork(void);

/* identity.c */
struct identity { uint8_t source[16]; int32_t rank; char container[65]; uint8_t gpus[DEVICES][16]; _Atomic uint64_t known_gpus; };
extern struct identity identity;
void identity_read(void);
void identity_gpu(uint8_t device);
const uint8_t *identity_salt(void);

/* cupti.c */
void cupti_start(void);
int cupti_phase(void);
void cupti_poll(int);
void cupti_give_way(void);
void cupti_after_fork(void);
uint64_t cupti_dropped(void);

/* callbacks.c */
bool callbacks_start(void *library);
void callbacks_end(void);
bool callbacks_on(void);

/* taking.c */
void *cupti_hook(void *library, const char *name);
bool taking_is_seen(void);

/* joins.c: only the background thread */
struct join { uint32_t correlation, minute, kernel, stream; uint16_t range; uint8_t device, kind; bool captured; };
void join_keep(const struct event *event, uint32_t minute);
const struct join *join_find(uint32_t correlation);
void joins_after_fork(void);

/* What a thread's launches touch, in one cache line. `counters`: of this thread's ring; `next`: where its next event goes; `device`: of `context`,
 * as long as no context has ended since (`contexts`), -1: not asked; `cupti`: the correlation id of the launch that is under way; `range`: the
 * innermost NVTX range; `inside`: it came through a hook; `told`: by an event, as the one before. */
struct thread_state { _Alignas(64) struct ring *ring; struct counter *counters; struct event *next; const void *context; uint32_t contexts, generation, correlation, cupti; int16_t device; uint16_t range; bool none, inside, told; };
extern __thread struct thread_state thread_state;

/* What every launch reads, and what seldom changes, in one cache line: after a pause of the program each line that a launch touches comes
 * from memory, which is most of what it then takes. `wanted`: whether to record, -1 before it is asked; `used`: a hook has noted a launch;
 * `captures`: streams that are being captured; `capture_until_s`: of a full capture, by CLOCK_MONOTONIC_COARSE, 0: none; `generation`: of
 * forks; `contexts`: how many have begun or ended; `meanings`: how often a handle has changed its own. Then the driver's own functions, which hooks.c numbers: those that launch are the first. */
struct hot { _Atomic int wanted; _Atomic bool used; _Atomic int captures; _Atomic uint32_t capture_until_s, generation, contexts, meanings; _Atomic(void *) real[HOOKS_AT_MOST]; };
extern struct hot hot;

/* Where a launch is counted, known before the driver is called: its line comes while the driver works. Of a launch after a pause what comes
 * from memory is most of what the recorder costs it. */
static inline uint32_t counter_at(void *f, const unsigned *grid, const unsigned *block, unsigned shared, void *stream) {
    uint64_t a = (uintptr_t)f ^ (uint64_t)grid[0] << 40, b = (uintptr_t)stream ^ (uint64_t)thread_state.range << 48 ^ (uint64_t)grid[1] << 20 ^ grid[2];
    uint64_t c = (uint64_t)shared << 32 ^ (uint64_t)block[0] << 16 ^ (uint64_t)block[1] << 8 ^ block[2];
    a = a * 0x9E3779B97F4A7C15u ^ b * 0xC2B2AE3D27D4EB4Fu ^ c * 0x165667B19E3779F9u;
    return (uint32_t)((a ^ a >> 32) * 0x9E3779B97F4A7C15u >> 48) & (COUNTERS - 2); /* the first of a pair */
}
static inline void expect(uint32_t counter) {
    if (thread_state.told) {
        __builtin_prefetch(thread_state.ring, 1);
        __builtin_prefetch(thread_state.next, 1);
        __builtin_prefetch((const char *)thread_state.next + sizeof(struct event) - 1, 1);
    } else if (thread_state.counters) __builtin_prefetch(&thread_state.counters[counter], 1);
}
#endif
