/* Programs that a test records: the first argument says what happens. Launches go through what dlsym gives, as a runtime's do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*launch_type)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static launch_type launch;
static void *f, *module;

static void open_driver(const char *kernel) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    ((int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData"))(&module, "//");
    ((int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction"))(&f, module, kernel);
    launch = (launch_type)dlsym(driver, "cuLaunchKernel");
}
static void *find(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
static int heard;
static void subscribed(void *context, int domain, unsigned call, const void *data) { (void)context, (void)domain, (void)call, (void)data; heard++; }
static void launches(int count, unsigned grid) {
    for (int i = 0; i < count; i++) launch(f, grid, 2, 3, 64, 1, 1, 128, NULL, NULL, NULL);
}
/* It profiles itself with a libcupti of its own loading, as XLA does: subscribes, then gives buffers. */
static void *cupti;
static int mine, of_others, refused, told;
static void requested(unsigned char **buffer, size_t *bytes, size_t *records) { *buffer = aligned_alloc(64, *bytes = 1 << 16), *records = 0, mine++; memset(*buffer, 0, 64); *(void **)(*buffer + *bytes - 8) = &mine; }
static void completed(void *context, uint32_t stream, unsigned char *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream;
    if (bytes != 1 << 16 || *(void **)(buffer + bytes - 8) != &mine) of_others++;
    for (size_t at = 0; at < valid; at += 200) told++;
    free(buffer);
}
static void profiles_itself(void) {
    dlopen("libcuda.so.1", RTLD_NOW); /* CUPTI needs it */
    cupti = dlopen(getenv("GPUSIM_RECORD_CUPTI"), RTLD_NOW | RTLD_LOCAL);
    int (*subscribe)(void **, void *, void *) = (int (*)(void **, void *, void *))dlsym(cupti, "cuptiSubscribe");
    int (*take)(void *, void *) = (int (*)(void *, void *))dlsym(cupti, "cuptiActivityRegisterCallbacks"), (*enable)(int) = (int (*)(int))dlsym(cupti, "cuptiActivityEnable");
    void *one;
    refused = subscribe(&one, (void *)subscribed, NULL);
    if (!refused) refused = take((void *)requested, (void *)completed) || enable(10);
}
/* 0: all kernels from then on were told to it, in its own buffers; 9: others too, or in buffers of another. */
static int has_profiled(int kernels) {
    ((int (*)(uint32_t))dlsym(cupti, "cuptiActivityFlushAll"))(1);
    return refused ? 10 + refused : told < kernels ? 8 : of_others || told > kernels ? 9 : 0;
}
static void *thread(void *count) { launches((int)(intptr_t)count, 7); return NULL; }
static void *ends(void *context) { ((int (*)(void *))find("cuCtxDestroy_v2"))(context); return NULL; }
static void settle(void) { usleep(200000); } /* two periods of the tests: what was launched has been sent */

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "plain";
    if (!strcmp(what, "profiles first")) profiles_itself();
    open_driver("alpha");
    launches(100, 5);
    if (!strcmp(what, "profiles first")) return has_profiled(100);
    if (!strcmp(what, "profiles later")) { profiles_itself(); launches(10, 9); return has_profiled(10); }
    if (!strcmp(what, "fork")) {
        if (fork() == 0) { launches(10, 9); return 0; }
        int status; wait(&status); return status;
    }
    if (!strcmp(what, "exec")) { settle(); execl(argv[0], argv[0], "plain", NULL); }
    if (!strcmp(what, "crash")) { settle(); raise(SIGSEGV); }
    if (!strcmp(what, "_exit")) { settle(); _exit(7); }
    if (!strcmp(what, "threads"))
        for (int i = 0; i < 40; i++) { /* more than there are rings, each ends with its ring not empty */
            pthread_t t;
            pthread_create(&t, NULL, thread, (void *)(intptr_t)100);
            pthread_join(t, NULL);
        }
    if (!strcmp(what, "crowd")) {
        pthread_t t[40];
        for (int i = 0; i < 40; i++) pthread_create(&t[i], NULL, thread, (void *)(intptr_t)50);
        for (int i = 0; i < 40; i++) pthread_join(t[i], NULL);
    }
    if (!strcmp(what, "refused")) launches(50, 0);
    if (!strcmp(what, "reloaded")) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
        dlclose(driver); dlclose(driver);
        if (dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW)) return 9; /* the recorder holds the driver */
        open_driver("beta");
        launches(30, 6);
    }
    if (!strcmp(what, "renamed")) { /* the driver gives the address of a kernel that is gone to another */
        ((int (*)(void *))find("cuModuleUnload"))(module);
        open_driver("delta");
        launches(30, 5);
    }
    if (!strcmp(what, "shapes")) { /* more than there are counters, and then others */
        for (int set = 0; set < 2; set++)
            for (int again = 0; again < 4; again++, usleep(50000))
                for (unsigned i = 0; i < 700; i++) launches(1, 10000u * (unsigned)(set + 1) + i);
        settle();
    }
    if (!strcmp(what, "resolved")) {
        int (*ask)(const char *, void **, int, uint64_t, void *) =
            (int (*)(const char *, void **, int, uint64_t, void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
        launch_type one, other;
        ask("cuLaunchKernel", (void **)&one, 12000, 0, NULL);
        ask("cuLaunchKernel", (void **)&other, 12000, 2, NULL);
        one(f, 11, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        other(f, 12, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    }
    if (!strcmp(what, "times")) { /* 3 us each, on two streams, then graphs and a launch that is captured */
        int (*graph)(void *, void *) = (int (*)(void *, void *))find("cuGraphLaunch");
        int (*begin)(void *, int) = (int (*)(void *, int))find("cuStreamBeginCapture_v2"), (*end)(void *, void **) = (int (*)(void *, void **))find("cuStreamEndCapture");
        void *made;
        for (int i = 0; i < 20; i++) launch(f, 3, 1, 1, 64, 1, 1, 0, (void *)0x1000, NULL, NULL);
        for (int i = 0; i < 4; i++) graph(NULL, NULL);
        begin(NULL, 0);
        launch(f, 8, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
        end(NULL, &made);
    }
    if (!strcmp(what, "contexts")) { /* of devices 1 and 2; then the first ends, and its address comes again */
        int (*set)(void *) = (int (*)(void *))find("cuCtxSetCurrent");
        pthread_t t;
        for (int i = 0; i < 3; i++) set((void *)16), launches(1, 1), set((void *)32), launches(1, 2), set((void *)32), launches(1, 2);
        set((void *)16), launches(1, 1);
        pthread_create(&t, NULL, ends, (void *)16);
        pthread_join(t, NULL);
        set((void *)16), launches(1, 3), set((void *)16), launches(1, 3);
    }
    if (!strcmp(what, "spins")) /* long enough for an order to come, and for CUPTI to be asked */
        for (int i = 0; i < 130; i++) { launches(1, 5); usleep(10000); }
    if (!strcmp(what, "subscribes")) { /* it profiles itself, from here on */
        int (*subscribe)(void **, void *, void *) = (int (*)(void **, void *, void *))dlsym(RTLD_DEFAULT, "cuptiSubscribe");
        void *one;
        if (!subscribe || subscribe(&one, (void *)subscribed, NULL)) return 6;
        launches(10, 9);
        return heard == 20 ? 0 : 7;
    }
    if (!strcmp(what, "next")) return dlsym(RTLD_NEXT, "usleep") == (void *)usleep && !dlsym(RTLD_DEFAULT, "cuNothing") ? 0 : 8;
    return 0;
}
