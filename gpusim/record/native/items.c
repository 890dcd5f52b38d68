/* Items of a frame: what a row or an event names is told before it, once a frame. Only the background thread is here. */
#include "internal.h"
#include <string.h>

void put_bytes(struct writer *w, const void *data, size_t bytes) { memcpy(w->at, data, bytes); w->at += bytes; }

void writer_begin(struct writer *w, uint8_t *out, size_t room) {
    w->at = out, w->end = out + room;
    memset(w->told_kernels, 0, sizeof w->told_kernels);
    memset(w->told_ranges, 0, sizeof w->told_ranges);
    uint64_t gpus = atomic_load(&identity.known_gpus);
    for (uint8_t device = 0; device < DEVICES; device++)
        if (gpus >> device & 1) { *w->at++ = 'G'; *w->at++ = device; put_bytes(w, identity.gpus[device], 16); }
}

bool writer_has_room(const struct writer *w, size_t bytes) {
    enum { NAMES = 1 + 30 + NAME_BYTES + 1 + 4 + 256 };
    return (size_t)(w->end - w->at) >= NAMES + bytes;
}

static bool first_time(uint8_t *told, uint32_t at) {
    bool first = !(told[at / 8] >> at % 8 & 1);
    told[at / 8] |= (uint8_t)(1u << at % 8);
    return first;
}

void put_names(struct writer *w, uint32_t kernel, uint16_t range) {
    if (kernel && first_time(w->told_kernels, kernel)) {
        const struct kernel *k = kernel_at(kernel);
        *w->at++ = 'K';
        PUT(w, kernel); PUT(w, k->name_hash); PUT(w, k->code_hash); PUT(w, k->registers);
        PUT(w, k->static_shared_bytes); PUT(w, k->name_bytes);
        put_bytes(w, name_at(k->name_at), k->name_bytes);
    }
    if (range && first_time(w->told_ranges, range)) {
        uint16_t bytes;
        const char *text = range_text(range, &bytes);
        *w->at++ = 'R';
        PUT(w, range); PUT(w, bytes);
        put_bytes(w, text, bytes);
    }
}
