/* What launches add up to: a row for each kernel, shape, stream, NVTX range, GPU and minute. Only the background thread is here.
 *
 * The table is bounded: when it is full, a launch counts in its minute's row "other" of its GPU, for which the last rows are kept;
 * when these are full too, it is lost, and counted as such. Durations are a DDSketch of 1 % (Masson, Rim and Lee 2019) of at most
 * BINS bins.
 */
#include "internal.h"
#include <math.h>
#include <string.h>

enum { INDEX = 16384, KEPT_FOR_OTHER = 64, STREAMS = 256, NO_STREAM = 0xFFFF, NO_ROW = 0xFFFF };
static const double LOG_GAMMA = 0.020000666706669544; /* ln(1.01 / 0.99) */

struct key {
    uint32_t minute, kernel, grid_x;
    uint16_t grid_y, grid_z, block_x, block_y, block_z, range;
    uint32_t shared_bytes;
    uint16_t stream;
    uint8_t device, kind;
};
_Static_assert(sizeof(struct key) == 32, "a key is 32 bytes, without padding");
struct row {
    struct key key;
    uint64_t launches, timed, sum_ns, least_ns, most_ns;
    uint8_t bins;
    int16_t bin[BINS + 1]; /* one more, until two are joined */
    uint32_t count[BINS + 1];
};

static struct row rows[ROWS];
static uint16_t slots[INDEX];
static uint32_t used, minute_now;
static uint32_t streams[STREAMS];
static uint16_t stream_count;
static _Atomic uint64_t launches, lost;

void rows_set_minute(uint32_t minute) { minute_now = minute; }
uint32_t rows_minute(void) { return minute_now; }
uint32_t rows_waiting(void) { return used; }
uint64_t rows_launches(void) { return atomic_load(&launches); }
uint64_t rows_lost(void) { return atomic_load(&lost); }

static size_t slot_of(const struct key *key) {
    uint64_t word[4], hash = 0;
    memcpy(word, key, sizeof word);
    for (int i = 0; i < 4; i++) hash = (hash ^ word[i]) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash >> 32 & (INDEX - 1);
}

static struct row *row_of(const struct key *key, uint32_t room) {
    size_t at = slot_of(key);
    for (; slots[at]; at = (at + 1) % INDEX)
        if (!memcmp(&rows[slots[at] - 1].key, key, sizeof *key)) return &rows[slots[at] - 1];
    if (used >= room) return NULL;
    struct row *row = &rows[used++];
    slots[at] = (uint16_t)used;
    memset(row, 0, sizeof *row);
    row->key = *key;
    row->least_ns = UINT64_MAX;
    return row;
}

static uint16_t stream_number(uint32_t folded) {
    for (uint16_t i = 0; i < stream_count; i++)
        if (streams[i] == folded) return i;
    if (stream_count == STREAMS) return NO_STREAM;
    streams[stream_count] = folded;
    return stream_count++;
}

static struct row *row_for(const struct event *event, uint32_t minute) {
    struct key key = {minute, event->kernel, event->grid_x, event->grid_y, event->grid_z, event->block_x, event->block_y, event->block_z,
                      event->range, event->shared_bytes, stream_number(event->stream), event->device, event->kind};
    struct row *row = row_of(&key, ROWS - KEPT_FOR_OTHER);
    if (row) return row;
    struct key other = {.minute = minute, .stream = NO_STREAM, .device = event->device, .kind = OTHER};
    return row_of(&other, ROWS);
}

/* Of `times` launches, one unless they were counted where they happened. */
void rows_event(const struct event *event, uint32_t times) {
    struct row *row = row_for(event, minute_now);
    atomic_store_explicit(&launches, atomic_load_explicit(&launches, memory_order_relaxed) + times, memory_order_relaxed);
    if (row) row->launches += times;
    else atomic_fetch_add_explicit(&lost, times, memory_order_relaxed);
    if (event->joins) join_keep(event, minute_now);
    if (event->time_ns) events_launch(event);
}

/* Two neighbours become one, where the fewer launches go to the more: those that this costs least, in launches times distance. So a few
 * launches of any length do not take the bins of the many, as they do where the lowest bins are put together. */
static void join_bins(struct row *row) {
    int at = 0;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i + 1 < row->bins; i++) {
        uint64_t fewer = row->count[i] < row->count[i + 1] ? row->count[i] : row->count[i + 1];
        uint64_t cost = fewer * (uint64_t)(row->bin[i + 1] - row->bin[i]);
        if (cost < least) least = cost, at = i;
    }
    if (row->count[at] > row->count[at + 1]) row->bin[at + 1] = row->bin[at];
    row->count[at + 1] += row->count[at];
    row->bins--;
    memmove(row->bin + at, row->bin + at + 1, (size_t)(row->bins - at) * sizeof *row->bin);
    memmove(row->count + at, row->count + at + 1, (size_t)(row->bins - at) * sizeof *row->count);
}

static void add_to_sketch(struct row *row, uint64_t ns) {
    int16_t bin = (int16_t)(ns < 2 ? 0 : ceil(log((double)ns) / LOG_GAMMA));
    int at = 0, end = row->bins;
    while (at < end) { /* ascending */
        int middle = (at + end) / 2;
        if (row->bin[middle] < bin) at = middle + 1;
        else end = middle;
    }
    if (at < row->bins && row->bin[at] == bin) { row->count[at]++; return; }
    memmove(row->bin + at + 1, row->bin + at, (size_t)(row->bins - at) * sizeof *row->bin);
    memmove(row->count + at + 1, row->count + at, (size_t)(row->bins - at) * sizeof *row->count);
    row->bin[at] = bin, row->count[at] = 1;
    if (++row->bins > BINS) join_bins(row);
}

/* A kernel's time on the GPU. `counts`: nobody has counted its launch before. */
void rows_timed(const struct event *event, uint32_t minute, uint64_t ns, bool counts) {
    struct row *row = row_for(event, minute);
    if (counts) atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    if (!row) { if (counts) atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed); return; }
    row->launches += counts;
    row->timed++;
    row->sum_ns += ns;
    if (ns < row->least_ns) row->least_ns = ns;
    if (ns > row->most_ns) row->most_ns = ns;
    add_to_sketch(row, ns);
}

static void put_row(struct writer *w, const struct row *row) {
    *w->at++ = 'W';
    PUT(w, row->key); PUT(w, row->launches); PUT(w, row->timed); PUT(w, row->sum_ns); PUT(w, row->least_ns); PUT(w, row->most_ns);
    PUT(w, row->bins);
    for (int i = 0; i < row->bins; i++) { PUT(w, row->bin[i]); PUT(w, row->count[i]); }
}

/* Move as many rows as there is room for into a batch; the bytes written. */
size_t rows_seal(uint8_t *out, size_t room, uint32_t *sealed) {
    static struct writer w;
    writer_begin(&w, out, room);
    uint32_t done = 0;
    for (; done < used && writer_has_room(&w, 1 + sizeof(struct row)); done++) {
        put_names(&w, rows[done].key.kernel, rows[done].key.range);
        put_row(&w, &rows[done]);
    }
    memmove(rows, rows + done, (used - done) * sizeof *rows);
    used -= done;
    memset(slots, 0, sizeof slots);
    for (uint32_t i = 0; i < used; i++) {
        size_t at = slot_of(&rows[i].key);
        while (slots[at]) at = (at + 1) % INDEX;
        slots[at] = (uint16_t)(i + 1);
    }
    *sealed = done;
    return (size_t)(w.at - out);
}

void rows_after_fork(void) {
    used = 0, stream_count = 0;
    memset(slots, 0, sizeof slots);
    atomic_store(&launches, 0);
    atomic_store(&lost, 0);
}
