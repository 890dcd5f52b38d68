/* NVTX ranges: the innermost push of the launching thread, through NVTX 3's own injection (NVTX_INJECTION64_PATH).
 *
 * Tables and numbers are those of nvtxTypes.h: an array of pointers to function pointers, which the injected library fills.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <string.h>

enum { CALLBACKS = 1, CORE = 1, CORE2 = 5, PUSH_EX = 8, PUSH_A = 9, POP = 11, DOMAIN_PUSH_EX = 4, DOMAIN_POP = 5,
       DOMAIN_REGISTER_A = 10 };
enum { ASCII = 1, REGISTERED = 3, DEPTH = 32, TEXT_BYTES = 256, HANDLE = 1 << 16 };
struct attributes { uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color; int32_t payload_type, reserved;
                    uint64_t payload; int32_t message_type, pad; const char *message; };
struct export_table { size_t bytes; int (*functions)(int module, void ***table, unsigned *count); };

static __thread uint16_t stack[DEPTH] __attribute__((tls_model("initial-exec")));
static __thread int depth __attribute__((tls_model("initial-exec")));

static int now_at(int after) {
    depth = after;
    thread_state.range = depth ? stack[(depth <= DEPTH ? depth : DEPTH) - 1] : 0;
    return depth;
}
static int push_range(uint16_t range) {
    if (depth < DEPTH) stack[depth] = range;
    return now_at(depth + 1) - 1;
}
static int push(const char *text) {
    return push_range(text ? range_of(text, strnlen(text, TEXT_BYTES)) : 0);
}
static int pop(void) { return depth > 0 ? now_at(depth - 1) : -2; }
static int push_ascii(const char *text) { return push(text); }
/* A registered text's handle is its range's number: never null, and no address. */
static void *register_text(void *domain, const char *text) {
    (void)domain;
    return (void *)(uintptr_t)(HANDLE | (text ? range_of(text, strnlen(text, TEXT_BYTES)) : 0));
}
static int push_extended(const struct attributes *a) {
    if (!a || a->size < sizeof *a) return push_range(0);
    if (a->message_type == REGISTERED && (uintptr_t)a->message >> 16 == 1) return push_range((uint16_t)(uintptr_t)a->message);
    return push(a->message_type == ASCII ? a->message : NULL);
}
static int push_of_domain(void *domain, const struct attributes *a) { (void)domain; return push_extended(a); }
static int pop_of_domain(void *domain) { (void)domain; return pop(); }

static void fill(void **table[], unsigned count, unsigned at, void *function) { if (at < count && table[at]) *table[at] = function; }

EXPORT int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t)) {
    const struct export_table *exports = get_export_table ? get_export_table(CALLBACKS) : NULL;
    void **slots;
    unsigned count;
    if (!recording() || !exports || exports->bytes < sizeof *exports) return 0;
    if (exports->functions(CORE, &slots, &count)) {
        void ***table = (void ***)slots;
        fill(table, count, PUSH_EX, (void *)push_extended);
        fill(table, count, PUSH_A, (void *)push_ascii);
        fill(table, count, POP, (void *)pop);
    }
    if (exports->functions(CORE2, &slots, &count)) {
        void ***table = (void ***)slots;
        fill(table, count, DOMAIN_PUSH_EX, (void *)push_of_domain);
        fill(table, count, DOMAIN_POP, (void *)pop_of_domain);
        fill(table, count, DOMAIN_REGISTER_A, (void *)register_text);
    }
    return 1;
}
