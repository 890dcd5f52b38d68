/* Full capture: single launches, and times on the GPU, on their way to the collector. Only the background thread is here.
 *
 * Events are best effort: they are not acknowledged, what finds no room is lost and counted, and what was on its way goes with its
 * connection. A capture begins when somebody asks (gpusim_record_capture, the collector, a signal) or when a kernel takes longer than
 * GPUSIM_RECORD_ABOVE_US, the latter once in PAUSE_S at most.
 */
#include "internal.h"
#include <stdlib.h>

enum { KEPT = 4096, PAUSE_S = 600, CAPTURE_S = 10 };
#define NO_TIME UINT64_MAX
static struct { struct event event; uint64_t duration_ns; } kept[KEPT];
static uint32_t count;
static uint64_t lost;

static void keep(const struct event *event, uint64_t duration_ns) {
    if (count == KEPT) { lost++; return; }
    kept[count].event = *event, kept[count++].duration_ns = duration_ns;
}

void events_launch(const struct event *event) { keep(event, NO_TIME); }

static void watch(uint64_t duration_ns) {
    static uint64_t above_ns = 1;
    static uint32_t last_s;
    if (above_ns == 1) {
        const char *text = getenv("GPUSIM_RECORD_ABOVE_US");
        above_ns = text && atol(text) > 0 ? (uint64_t)atol(text) * 1000 : 0;
    }
    if (!above_ns || duration_ns <= above_ns || (last_s && coarse_seconds() - last_s < PAUSE_S)) return;
    last_s = coarse_seconds();
    gpusim_record_capture(CAPTURE_S);
}

void events_time(const struct event *event, uint64_t start_ns, uint64_t duration_ns, bool of_captured) {
    watch(duration_ns);
    if (!of_captured) return;
    struct event told = *event;
    told.time_ns = start_ns;
    keep(&told, duration_ns);
}

uint64_t events_lost(void) {
    uint64_t now = lost;
    lost = 0;
    return now;
}

bool events_waiting(void) { return count > 0; }

/* As many as there is room for; the bytes written. */
size_t events_seal(uint8_t *out, size_t room) {
    static struct writer w;
    uint32_t done = 0;
    writer_begin(&w, out, room);
    for (; done < count && writer_has_room(&w, 1 + sizeof kept[0]); done++) {
        const struct event *event = &kept[done].event;
        put_names(&w, event->kernel, event->range);
        *w.at++ = kept[done].duration_ns == NO_TIME ? 'E' : 'T';
        PUT(&w, *event);
        if (kept[done].duration_ns != NO_TIME) PUT(&w, kept[done].duration_ns);
    }
    for (uint32_t i = done; i < count; i++) kept[i - done] = kept[i];
    count -= done;
    return (size_t)(w.at - out);
}

void events_after_fork(void) { count = 0, lost = 0; }
