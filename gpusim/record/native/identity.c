/* Who this process is, as far as it leaves it: a random source number, its rank, its container's short id, its GPUs' UUIDs.
 *
 * Of the environment only the rank is read, a number, besides the recorder's own settings. Command lines are not read.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { CONTAINER_DIGITS = 12, ID_DIGITS = 64 };
struct identity identity;
static uint8_t salt[16];
static bool has_salt;

const uint8_t *identity_salt(void) { return has_salt ? salt : NULL; }

static bool hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* The id that Docker, containerd, CRI-O and Podman put into the cgroup's path: 64 hexadecimal digits. */
static void read_container(void) {
    char text[4096];
    int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text);
    if (file >= 0) close(file);
    for (ssize_t i = 0, run = 0; i < bytes; i++) {
        run = hexadecimal(text[i]) ? run + 1 : 0;
        if (run == ID_DIGITS) {
            memcpy(identity.container, text + i + 1 - ID_DIGITS, CONTAINER_DIGITS);
            identity.container[CONTAINER_DIGITS] = 0;
        }
    }
}

void identity_read(void) {
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    if (getrandom(identity.source, sizeof identity.source, GRND_NONBLOCK) != sizeof identity.source) {
        uint64_t seed[3] = {now_ns(), (uint64_t)getpid(), (uintptr_t)&seed}, other[2];
        siphash128((const uint8_t *)seed, seed, sizeof seed, other);
        memcpy(identity.source, other, sizeof identity.source);
    }
    identity.rank = -1;
    for (int i = 0; i < 4 && identity.rank < 0; i++) {
        const char *text = getenv(ranks[i]);
        char *end = NULL;
        long value = text ? strtol(text, &end, 10) : -1;
        if (text && end != text && !*end && value >= 0 && value < 1 << 30) identity.rank = (int32_t)value;
    }
    read_container();
}

/* Before anything is named. */
__attribute__((constructor(101))) static void read_salt(void) {
    static const uint8_t zero[16];
    const char *text = getenv("GPUSIM_RECORD_SALT");
    uint64_t key[2];
    if (!text || !*text) return;
    siphash128(zero, text, strlen(text), key);
    memcpy(salt, key, sizeof salt);
    has_salt = true;
}

void identity_gpu(uint8_t device) {
    uint64_t bit = 1ull << device;
    if (device >= DEVICES || atomic_load_explicit(&identity.known_gpus, memory_order_relaxed) & bit) return;
    int (*ask)(uint8_t *, int) = (int (*)(uint8_t *, int))real_function("cuDeviceGetUuid_v2");
    if (!ask) ask = (int (*)(uint8_t *, int))real_function("cuDeviceGetUuid");
    uint8_t uuid[16];
    if (!ask || ask(uuid, device)) return;
    memcpy(identity.gpus[device], uuid, sizeof uuid); /* two threads at once write the same */
    atomic_fetch_or(&identity.known_gpus, bit);
}
