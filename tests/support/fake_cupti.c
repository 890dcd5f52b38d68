/* A libcupti that is none: hands out the kernel records that a test has put in, as CUPTI's activity API would.
 *
 * Records are FAKE_RECORD_BYTES long, the layout's length in that CUPTI version, and all fields that the test does not set are
 * filled with 0xA5. `fake_*` are the test's own calls. It follows the headers of CUPTI, not its library.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*request_t)(uint8_t **, size_t *, size_t *);
typedef void (*complete_t)(void *, uint32_t, uint8_t *, size_t, size_t);

static request_t request;
static complete_t complete;
static uint8_t pending[1 << 16];
static size_t filled, dropped;
static int enabled, refuse_enable, held_back;
uint32_t fake_version = FAKE_VERSION;
/* What GetNextRecord returns wrongly: 1: a record before the buffer, 2: the same one again, 3: an error. */
int fake_fault;

void fake_kernel(uint32_t kind, uint64_t start, uint64_t end, const int32_t *shape) {
    uint8_t *at = pending + filled;
    memset(at, 0xA5, FAKE_RECORD_BYTES);
    memcpy(at, &kind, 4);
    memcpy(at + 16, &start, 8);
    memcpy(at + 24, &end, 8);
    memcpy(at + 52, shape, 24);
    filled += FAKE_RECORD_BYTES;
}

void fake_cut(size_t bytes) { filled -= bytes; }
void fake_drop(size_t records) { dropped = records; }
void fake_refuse(int yes) { refuse_enable = yes; }
void fake_hold_back(int yes) { held_back = yes; } /* only a forced flush gives anything */
int fake_enabled(void) { return enabled; }

int cuptiGetVersion(uint32_t *version) { *version = fake_version; return 0; }
int cuptiGetResultString(int result, const char **text) {
    *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : NULL;
    return *text ? 0 : 1;
}
int cuptiActivityRegisterCallbacks(request_t r, complete_t c) { request = r; complete = c; return 0; }
int cuptiActivityEnable(int kind) { if (refuse_enable) return 35; enabled = kind; return 0; }
int cuptiActivityDisable(int kind) { (void)kind; enabled = 0; return 0; }

int cuptiActivityFlushAll(uint32_t flag) {
    uint8_t *buffer = NULL;
    size_t bytes = 0, most = 0;
    if (!filled || (held_back && !flag)) return 0;
    request(&buffer, &bytes, &most);
    if (!buffer || (uintptr_t)buffer % 8 || bytes < filled) return 1;
    memcpy(buffer, pending, filled);
    size_t valid = filled;
    filled = 0;
    complete(NULL, 0, buffer, bytes, valid);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *next = *record && *record >= buffer && *record < buffer + valid ? *record + FAKE_RECORD_BYTES : buffer;
    if (fake_fault == 1) { *record = buffer - 64; return 0; }
    if (fake_fault == 2 && *record) return 0;
    if (fake_fault == 3) return 999;
    if (!valid || next >= buffer + valid) return 12;
    *record = next;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *records) {
    (void)context, (void)stream;
    *records = dropped;
    dropped = 0;
    return 0;
}
