/* Launches that come again: each thread counts them where it launches, so that no event crosses to the background thread's core.
 *
 * A table a ring, written by its thread alone; an entry is one cache line: what a launch was, and how many there were, which only grows.
 * The background thread reads the counts and keeps how many of each it has taken. An entry whose launch comes no more is given back where
 * other launches found no room, in steps that one side takes each: USED -> RETIRING (background: it was idle) -> YIELDED (thread: another
 * launch wants it, and it will count no more here) -> UNUSED (background: the last of it is taken). Until then that other launch is an event.
 */
#include "internal.h"

/* Of a launch that neither of the pair counts. False: an event must tell of it. */
bool counter_begin(struct counter *pair, const union launch *launch, const void *handle, uint32_t meanings) {
    for (struct counter *at = pair; at < pair + 2; at++) {
        uint32_t state = atomic_load_explicit(&at->state, memory_order_acquire);
        if (state == UNUSED) {
            at->launch = *launch, at->handle = handle, at->meanings = meanings;
            atomic_store_explicit(&at->count, atomic_load_explicit(&at->count, memory_order_relaxed) + 1, memory_order_relaxed);
            atomic_store_explicit(&at->state, USED, memory_order_release);
            return true;
        }
        if (state == RETIRING) {
            atomic_store_explicit(&at->state, YIELDED, memory_order_release);
            return false;
        }
    }
    return false;
}

/* `wanted`: launches have found no room. `ended`: the thread is gone, or has not begun. */
void counters_drain(struct counter *counters, uint32_t *taken, bool wanted, bool ended, void (*take)(const struct event *, uint32_t)) {
    for (int i = 0; i < COUNTERS; i++) {
        struct counter *at = &counters[i];
        uint32_t state = atomic_load_explicit(&at->state, memory_order_acquire);
        if (state == UNUSED) continue;
        uint32_t count = atomic_load_explicit(&at->count, memory_order_acquire), more = count - taken[i];
        if (more) {
            struct event event = event_of(&at->launch);
            take(&event, more);
            taken[i] = count;
        }
        if (ended || state == YIELDED) atomic_store_explicit(&at->state, UNUSED, memory_order_release);
        else if (!more && wanted && state == USED) atomic_store_explicit(&at->state, RETIRING, memory_order_release);
    }
}

/* In the child, whose only thread is this one. */
void counters_after_fork(struct counter *counters, uint32_t *taken) {
    for (int i = 0; counters && i < COUNTERS; i++) {
        atomic_store_explicit(&counters[i].state, UNUSED, memory_order_relaxed);
        taken[i] = atomic_load_explicit(&counters[i].count, memory_order_relaxed);
    }
}
