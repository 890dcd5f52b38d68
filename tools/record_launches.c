/* Launches on the stub libcuda.so.1 and tells what each took: for tools/record_cost.py and tools/record_load.py.
 *
 * record_launches pairs COUNT ROUNDS: in alternation COUNT launches past the recorder and COUNT through it, ROUNDS times; int32
 *   nanoseconds of all, direct before recorded in each round, to the file named in RECORD_COST_FILE.
 * record_launches contexts COUNT ROUNDS: the same, and before each launch, outside of what is timed, its context is set.
 * record_launches rate COUNT RATE: COUNT launches at RATE a second, in groups of RATE / 1000 each millisecond.
 * On stdout: CPU seconds of the process and of the launching thread, VmRSS, and what the recorder says of itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*launch_type)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static void *f;
static int (*set_context)(void *); /* before each launch, as JAX does */
static void timed(launch_type launch, long count, int32_t *took) {
    for (long i = 0; i < count; i++) {
        if (set_context) set_context(&f);
        int64_t before = clock_ns(CLOCK_MONOTONIC);
        launch(f, 1 + (unsigned)i % 16, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
        took[i] = (int32_t)(clock_ns(CLOCK_MONOTONIC) - before);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long count = atol(argv[2]), other = atol(argv[3]);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *module;
    if (!driver) return 3;
    launch_type launch = (launch_type)dlsym(driver, "cuLaunchKernel"), direct = (launch_type)dlsym(driver, "stub_launch");
    ((int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData"))(&module, "//");
    ((int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction"))(&f, module, "kernel");
    launch(f, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
    usleep(100000);
    int64_t process = clock_ns(CLOCK_PROCESS_CPUTIME_ID), thread = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!strcmp(argv[1], "pairs") || !strcmp(argv[1], "contexts")) {
        if (argv[1][0] == 'c') set_context = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
        int32_t *took = malloc((size_t)(2 * count * other) * sizeof *took);
        memset(took, 0, (size_t)(2 * count * other) * sizeof *took);
        for (long round = 0; round < other; round++) {
            timed(direct, count, took + 2 * round * count);
            timed(launch, count, took + (2 * round + 1) * count);
            usleep(20000); /* the background thread takes what there is */
        }
        FILE *file = fopen(getenv("RECORD_COST_FILE"), "wb");
        if (!file || fwrite(took, sizeof *took, (size_t)(2 * count * other), file) != (size_t)(2 * count * other)) return 4;
        fclose(file);
    } else {
        int64_t start = clock_ns(CLOCK_MONOTONIC);
        long group = other / 1000 ? other / 1000 : 1;
        for (long i = 0; i < count; i++) {
            if (i % group == 0) {
                int64_t left = start + i * 1000000000ll / other - clock_ns(CLOCK_MONOTONIC);
                if (left > 0) nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
            }
            launch(f, 1 + (unsigned)i % 16, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
        }
    }
    process = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process, thread = clock_ns(CLOCK_THREAD_CPUTIME_ID) - thread;
    usleep(600000); /* counts are added up twice a second */
    char line[256];
    long rss_kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmRSS: %ld", &rss_kb);
    void (*stats)(uint64_t *) = (void (*)(uint64_t *))dlsym(RTLD_DEFAULT, "gpusim_record_stats");
    uint64_t told[5] = {0};
    if (stats) stats(told);
    printf("%lld %lld %ld %llu %llu\n", (long long)process, (long long)thread, rss_kb, (unsigned long long)told[0], (unsigned long long)told[1]);
    return 0;
}
