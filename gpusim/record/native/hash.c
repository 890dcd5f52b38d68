/* Hashes: XXH64 names kernels and code images (fast: a framework's image is 100 MB), SipHash-2-4 hides names behind a salt.
 *
 * XXH64: Y. Collet's published algorithm, seed 0. SipHash: Aumasson and Bernstein 2012, here with 128 bits of output.
 */
#include "internal.h"
#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t left(uint64_t x, int by) { return x << by | x >> (64 - by); }
static uint64_t read64(const uint8_t *at) { uint64_t v; memcpy(&v, at, 8); return v; }
static uint32_t read32(const uint8_t *at) { uint32_t v; memcpy(&v, at, 4); return v; }
static uint64_t turn(uint64_t sum, uint64_t word) { return left(sum + word * P2, 31) * P1; }

uint64_t xxh64(const void *data, size_t bytes) {
    const uint8_t *at = data, *end = at + bytes;
    uint64_t hash = P5;
    if (bytes >= 32) {
        uint64_t v[4] = {P1 + P2, P2, 0, 0 - P1};
        for (; at + 32 <= end; at += 32)
            for (int i = 0; i < 4; i++) v[i] = turn(v[i], read64(at + 8 * i));
        hash = left(v[0], 1) + left(v[1], 7) + left(v[2], 12) + left(v[3], 18);
        for (int i = 0; i < 4; i++) hash = (hash ^ turn(0, v[i])) * P1 + P4;
    }
    hash += bytes;
    for (; at + 8 <= end; at += 8) hash = left(hash ^ turn(0, read64(at)), 27) * P1 + P4;
    if (at + 4 <= end) { hash = left(hash ^ read32(at) * P1, 23) * P2 + P3; at += 4; }
    for (; at < end; at++) hash = left(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}

#define ROUND(v) do { \
    v[0] += v[1]; v[1] = left(v[1], 13) ^ v[0]; v[0] = left(v[0], 32); v[2] += v[3]; v[3] = left(v[3], 16) ^ v[2]; \
    v[0] += v[3]; v[3] = left(v[3], 21) ^ v[0]; v[2] += v[1]; v[1] = left(v[1], 17) ^ v[2]; v[2] = left(v[2], 32); } while (0)

void siphash128(const uint8_t key[16], const void *data, size_t bytes, uint64_t out[2]) {
    uint64_t k0 = read64(key), k1 = read64(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    const uint8_t *at = data;
    size_t whole = bytes / 8;
    for (size_t i = 0; i <= whole; i++) {
        uint64_t word = 0;
        if (i < whole) word = read64(at + 8 * i);
        else { memcpy(&word, at + 8 * whole, bytes % 8); word |= (uint64_t)bytes << 56; }
        v[3] ^= word; ROUND(v); ROUND(v); v[0] ^= word;
    }
    for (int half = 0; half < 2; half++) {
        if (half) v[1] ^= 0xdd; else v[2] ^= 0xee;
        for (int i = 0; i < 4; i++) ROUND(v);
        out[half] = v[0] ^ v[1] ^ v[2] ^ v[3];
    }
}

/* Byte for byte, so that nothing is read after the first that differs: a text may be shorter than any header. */
static bool begins(const uint8_t *at, const char *with, int bytes) {
    int i = 0;
    while (i < bytes && at[i] == (uint8_t)with[i]) i++;
    return i == bytes;
}

/* Bytes of a code image as its own header tells, 0 for a form that is not known; `*image` moves past a fat binary's wrapper.
 * The driver has accepted it before: this reads no further than the driver has. */
size_t image_bytes(const void **image) {
    const uint8_t *at = *image;
    if (begins(at, "\xb1\x43\x62\x46", 4)) { /* __fatBinC_Wrapper_t: magic, version, data */
        const void *inner;
        memcpy(&inner, at + 8, sizeof inner);
        if (!inner) return 0;
        *image = at = inner;
    }
    if (begins(at, "\x50\xed\x55\xba", 4)) { /* fat binary: header bytes at 6, bytes of what follows at 8 */
        uint16_t header;
        memcpy(&header, at + 6, 2);
        return header + read64(at + 8);
    }
    if (begins(at, "\177ELF\2", 5)) { /* section headers and program headers stand after the contents in a cubin */
        uint64_t sections = read64(at + 40), programs = read64(at + 32);
        uint16_t h[5]; /* e_phentsize e_phnum e_shentsize e_shnum e_shstrndx */
        memcpy(h, at + 54, sizeof h);
        uint64_t one = sections + (uint64_t)h[2] * h[3], other = programs + (uint64_t)h[0] * h[1];
        return one > other ? one : other;
    }
    if (at[0] == '/' || at[0] == '.' || at[0] == '\n') return strlen((const char *)at); /* PTX is text */
    return 0;
}
