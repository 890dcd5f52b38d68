/* Which launch a time on the GPU belongs to: CUPTI's correlation id -> what the launch's row is. Only the background thread is here.
 *
 * The table is a fixed one, addressed by the id's low bits: ids count up, so that a launch stays until JOINS later calls have come.
 * A time that finds its launch no more is added to the row of its kernel and shape.
 */
#include "internal.h"

enum { JOINS = 1 << 16 };
static struct join joins[JOINS];
static bool used;

void join_keep(const struct event *event, uint32_t minute) {
    used = true;
    joins[event->correlation % JOINS] = (struct join){event->correlation, minute, event->kernel, event->stream, event->range, event->device, event->kind, event->time_ns != 0};
}

const struct join *join_find(uint32_t correlation) {
    const struct join *found = &joins[correlation % JOINS];
    return correlation && found->correlation == correlation ? found : NULL;
}

void joins_after_fork(void) {
    for (int i = 0; used && i < JOINS; i++) joins[i].correlation = 0;
    used = false;
}
