/* Texts as they may leave the process: names of kernels, and NVTX ranges as numbers; and the flag under which tables are written.
 *
 * With a salt, a text leaves as "#" and its keyed hash, whoever names it.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <sched.h>
#include <string.h>

static char arena[ARENA_BYTES];
static _Atomic uint32_t arena_used = 1;
static struct { _Atomic uint64_t hash; uint32_t at; uint16_t bytes; } ranges[RANGES];
static atomic_flag busy = ATOMIC_FLAG_INIT;

bool tables_enter(int patience) {
    for (int i = 0; atomic_flag_test_and_set_explicit(&busy, memory_order_acquire); i++) {
        if (i >= patience) return false;
        sched_yield();
    }
    return true;
}
void tables_leave(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }
void tables_after_fork(void) { tables_leave(); }

/* Text as it may leave the process: itself, or behind a salt "#" and 32 hexadecimal digits. Returns its bytes. */
size_t name_told(const char *text, size_t bytes, char *out, size_t room, uint64_t *hash) {
    const uint8_t *salt = identity_salt();
    if (salt) {
        uint64_t hidden[2];
        siphash128(salt, text, bytes, hidden);
        out[0] = '#';
        for (int i = 0; i < 32; i++) out[1 + i] = "0123456789abcdef"[hidden[i / 16] >> (60 - i % 16 * 4) & 15];
        *hash = xxh64(out, 33);
        return 33;
    }
    *hash = xxh64(text, bytes);
    if (bytes > room) bytes = room;
    memcpy(out, text, bytes);
    return bytes;
}

uint64_t hidden_hash(uint64_t hash) {
    uint64_t out[2] = {hash, 0};
    if (hash && identity_salt()) siphash128(identity_salt(), &hash, sizeof hash, out);
    return out[0];
}

uint32_t name_keep(const char *text, size_t bytes) {
    if (arena_used + bytes > ARENA_BYTES) return 0;
    uint32_t at = arena_used;
    memcpy(arena + at, text, bytes);
    arena_used = at + (uint32_t)bytes;
    return at;
}

const char *name_at(uint32_t at) { return arena + at; }

uint16_t range_of(const char *text, size_t bytes) {
    uint64_t hash = xxh64(text, bytes);
    if (!hash) hash = 1;
    for (size_t i = 0, at = hash % (RANGES - 1); i < 16; i++, at = (at + 1) % (RANGES - 1)) {
        uint64_t there = atomic_load_explicit(&ranges[at].hash, memory_order_acquire);
        if (there == hash) return (uint16_t)(at + 1);
        if (there) continue;
        if (!tables_enter(0)) return 0;
        if (!atomic_load(&ranges[at].hash)) {
            char out[256];
            uint64_t unused;
            size_t length = name_told(text, bytes, out, sizeof out, &unused);
            uint32_t kept = name_keep(out, length);
            if (kept) {
                ranges[at].at = kept, ranges[at].bytes = (uint16_t)length;
                atomic_store_explicit(&ranges[at].hash, hash, memory_order_release);
            }
        }
        tables_leave();
        return atomic_load(&ranges[at].hash) == hash ? (uint16_t)(at + 1) : 0;
    }
    return 0;
}

const char *range_text(uint16_t range, uint16_t *bytes) {
    *bytes = range ? ranges[range - 1].bytes : 0;
    return range ? arena + ranges[range - 1].at : "";
}
