/* Launches on whatever libcuda.so.1 is found, and tells what each took: for tools/record_cost.py.
 *
 * record_launches COUNT RATE ROUNDS: COUNT timed launches in each of ROUNDS, at RATE a second (0: back to back). On stdout, one
 * line a round: process CPU seconds, the launching thread's CPU seconds, wall seconds; then COUNT*ROUNDS int32 of nanoseconds
 * to the file in RECORD_COST_FILE.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*launch_type)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long count = atol(argv[1]), rate = atol(argv[2]), rounds = atol(argv[3]);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *f, *module;
    if (!driver) return 3;
    launch_type launch = (launch_type)dlsym(driver, "cuLaunchKernel");
    int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) = (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
    load(&module, "//");
    get(&f, module, "kernel");
    int32_t *took = calloc((size_t)(count * rounds), sizeof *took);
    for (long i = 0; i < 10000; i++) launch(f, 1 + i % 16, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
    for (long round = 0; round < rounds; round++) {
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), thread = seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        int64_t start = now();
        for (long i = 0; i < count; i++) {
            if (rate && i % 100 == 0) { /* in groups of 100: sleeping, so that the thread's own time is that of launches */
                int64_t due = start + i * 1000000000ll / rate, left = due - now();
                if (left > 0) nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
            }
            int64_t before = now();
            launch(f, 1 + i % 16, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
            took[round * count + i] = (int32_t)(now() - before);
        }
        printf("%.6f %.6f %.6f\n", seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, seconds(CLOCK_THREAD_CPUTIME_ID) - thread, seconds(CLOCK_MONOTONIC) - wall);
    }
    const char *path = getenv("RECORD_COST_FILE");
    FILE *file = path ? fopen(path, "wb") : NULL;
    if (file) { fwrite(took, sizeof *took, (size_t)(count * rounds), file); fclose(file); }
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) if (!strncmp(line, "VmRSS", 5)) fputs(line, stdout);
    void (*stats)(uint64_t *) = (void (*)(uint64_t *))dlsym(RTLD_DEFAULT, "gpusim_record_stats");
    uint64_t told[5] = {0};
    if (stats) stats(told);
    printf("launches %llu dropped %llu\n", (unsigned long long)told[0], (unsigned long long)told[1]);
    return 0;
}
