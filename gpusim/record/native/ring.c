/* Rings: each launching thread owns one and never waits; the background thread empties all. What comes again is counted beside the ring
 * (counters.c); events are launches that find no counter, and those of which each is told.
 *
 * A thread claims a free ring at its first launch and leaves it behind when it ends, full or not: the background thread takes
 * what is in it and frees it. Threads beyond RINGS share the last ring, one producer at a time by an atomic flag that they
 * try a few times; who does not get it drops its event, and the drop is counted.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <pthread.h>
#include <sys/mman.h>

enum { FREE, OWNED, LEFT };
enum { TRIES = 64 };

static struct ring rings[RINGS];
static atomic_flag shared_busy = ATOMIC_FLAG_INIT;
static _Atomic uint64_t mapped_bytes, lost;
static pthread_key_t end_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
__thread struct thread_state thread_state __attribute__((tls_model("initial-exec"))) = {.device = -1};

static void thread_ended(void *ring) {
    struct ring *mine = ring;
    if (thread_state.generation == atomic_load(&hot.generation) && mine != &rings[RINGS - 1])
        atomic_store_explicit(&mine->state, LEFT, memory_order_release);
    thread_state.ring = NULL, thread_state.counters = NULL;
    thread_state.none = true; /* a launch in a later destructor of this thread is dropped */
}

static void make_key(void) { pthread_key_create(&end_of_thread, thread_ended); }

static bool mapped(struct ring *ring) {
    if (atomic_load_explicit(&ring->events, memory_order_acquire)) return true;
    size_t of_events = RING_EVENTS * sizeof(struct event), of_counters = COUNTERS * sizeof(struct counter);
    size_t bytes = of_events + of_counters + COUNTERS * sizeof *ring->taken;
    /* Present at once: a page fault costs the launch more than the event. */
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return false;
    struct event *none = NULL;
    if (ring != &rings[RINGS - 1]) { /* its thread alone maps it; the shared one counts nothing */
        ring->counters = (struct counter *)((char *)at + of_events);
        ring->taken = (uint32_t *)((char *)at + of_events + of_counters);
    }
    if (!atomic_compare_exchange_strong(&ring->events, &none, at)) munmap(at, bytes);
    else atomic_fetch_add(&mapped_bytes, bytes);
    return true;
}

struct ring *ring_of_thread(void) {
    struct thread_state *mine = &thread_state;
    uint32_t now = atomic_load_explicit(&hot.generation, memory_order_relaxed);
    if (LIKELY(mine->ring && mine->generation == now)) return mine->ring;
    if (mine->generation == now && mine->none) return NULL;
    pthread_once(&once, make_key);
    *mine = (struct thread_state){.generation = now, .device = -1, .cupti = mine->cupti, .range = mine->range, .inside = mine->inside}; /* this launch is under way */
    for (int i = 0; i < RINGS; i++) {
        uint32_t free_one = FREE;
        if (i == RINGS - 1) { /* the one that is shared */
            if (mapped(&rings[i])) mine->ring = &rings[i];
        } else if (atomic_compare_exchange_strong(&rings[i].state, &free_one, OWNED)) {
            if (mapped(&rings[i])) mine->ring = &rings[i];
            else atomic_store(&rings[i].state, FREE);
        }
        if (mine->ring) {
            mine->counters = mine->ring->counters;
            pthread_setspecific(end_of_thread, mine->ring);
            start_background();
            return mine->ring;
        }
    }
    mine->none = true;
    atomic_fetch_add(&lost, 1);
    return NULL;
}

/* Every 2048th launch looks, and calls the background thread where half of the ring waits: at ten million launches a second. */
static __attribute__((noinline)) void wake_if_filling(struct ring *ring, uint32_t head) {
    ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (head - ring->seen_tail >= RING_EVENTS / 2) wake_background();
}

static HOT bool put(struct ring *ring, const struct event *event) {
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - ring->seen_tail >= RING_EVENTS) {
        ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->seen_tail >= RING_EVENTS) {
            uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
            atomic_store_explicit(&ring->dropped, dropped + 1, memory_order_relaxed); /* one writer: no locked instruction */
            return false;
        }
    }
    struct event *events = atomic_load_explicit(&ring->events, memory_order_relaxed);
    events[head % RING_EVENTS] = *event;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    thread_state.next = &events[(head + 1) % RING_EVENTS];
    if (__builtin_expect((head + 1) % (RING_EVENTS / 4) == 0, 0)) wake_if_filling(ring, head + 1);
    return true;
}

bool ring_put(struct ring *ring, const struct event *event) {
    if (LIKELY(ring != &rings[RINGS - 1])) return put(ring, event);
    for (int i = 0; i < TRIES; i++)
        if (!atomic_flag_test_and_set_explicit(&shared_busy, memory_order_acquire)) {
            bool done = put(ring, event);
            atomic_flag_clear_explicit(&shared_busy, memory_order_release);
            return done;
        }
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return false;
}

/* How many events there were. */
uint64_t rings_drain(void (*take)(const struct event *, uint32_t)) {
    uint64_t sum = 0;
    for (int i = 0; i < RINGS; i++) {
        struct ring *ring = &rings[i];
        struct event *events = atomic_load_explicit(&ring->events, memory_order_acquire);
        if (!events) continue;
        uint32_t left = atomic_load_explicit(&ring->state, memory_order_acquire); /* before the head: all it has put is seen */
        uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        if (ring->counters) counters_drain(ring->counters, ring->taken, tail != head, left == LEFT, take);
        sum += head - tail;
        for (; tail != head; tail++) take(&events[tail % RING_EVENTS], 1);
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
        if (left == LEFT) atomic_store_explicit(&ring->state, FREE, memory_order_release);
    }
    return sum;
}

uint64_t rings_dropped(void) {
    uint64_t sum = atomic_load(&lost);
    for (int i = 0; i < RINGS; i++) sum += atomic_load_explicit(&rings[i].dropped, memory_order_relaxed);
    return sum;
}

uint64_t rings_bytes(void) { return atomic_load(&mapped_bytes); }

/* In the child, whose only thread is this one: what the rings hold is the parent's. */
void rings_after_fork(void) {
    atomic_fetch_add(&hot.generation, 1);
    atomic_flag_clear(&shared_busy);
    atomic_store(&lost, 0);
    for (int i = 0; i < RINGS; i++) {
        atomic_store(&rings[i].head, 0);
        atomic_store(&rings[i].tail, 0);
        atomic_store(&rings[i].dropped, 0);
        atomic_store(&rings[i].state, FREE);
        rings[i].seen_tail = 0;
        counters_after_fork(rings[i].counters, rings[i].taken);
    }
}
