/* A libcuda that does nothing: every launch succeeds at once. Programs are recorded and measured on it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
static char functions[64];
static int launches;

API int stub_launches(void) { return launches; }
/* As NVIDIA's driver does, which loads the library that this variable names, into a scope of its own. */
API int cuInit(unsigned flags) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    (void)flags;
    return begin && !begin() ? 999 : 0;
}
/* A context's device is told by its address; once one has ended, its address comes again and means the next device. */
static __thread void *current;
static int ended;
API int cuCtxSetCurrent(void *context) { current = context; return 0; }
API int cuCtxDestroy_v2(void *context) { (void)context; ended++; return 0; }
API int cuCtxGetDevice(int *device) { *device = current ? (int)((uintptr_t)current / 16 + (unsigned)ended) % 4 : 0; return 0; }
API int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0x40 + device, 16); return 0; }
API int cuModuleLoadData(void **module, const void *image) { (void)image; *module = functions; return 0; }
API int cuModuleUnload(void *module) { (void)module; return 0; }
API int cuModuleGetFunction(void **f, void *module, const char *name) {
    (void)module;
    *f = functions + 16 * (1 + (size_t)(name[0] % 3));
    return 0;
}
API int cuFuncGetAttribute(int *value, int attribute, void *f) { (void)f; *value = attribute == 4 ? 40 : attribute == 1 ? 1024 : 0; return 0; }
/* A CUPTI of the tests sets this: it hears of every launch as it begins and as it ends, under the number of the driver function. */
API void (*stub_listener)(unsigned call, int ends, const void *parameters, const int *result);
static void tell(unsigned call, int ends, const void *parameters, const int *result) { if (stub_listener) stub_listener(call, ends, parameters, result); }
/* Static: what is exported would be interposed within this library too. */
static int done(unsigned gx) {
    launches++;
    return gx == 0; /* as a driver refuses an empty grid */
}
struct launch_parameters { void *f; unsigned grid[3], block[3], shared; void *stream; };
#define LAUNCH(name, call) \
    API int name(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, \
                 void **parameters, void **extra) { \
        (void)parameters, (void)extra; \
        struct launch_parameters told = {f, {gx, gy, gz}, {bx, by, bz}, shared, stream}; \
        if (call) tell(call, 0, &told, NULL); \
        int result = done(gx); \
        if (call) tell(call, 1, &told, &result); \
        return result; \
    }
LAUNCH(cuLaunchKernel, 307)
LAUNCH(cuLaunchKernel_ptsz, 442)
LAUNCH(stub_launch, 0) /* under a name that no recorder knows */
struct config { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; };
API int cuLaunchKernelEx(const struct config *c, void *f, void **parameters, void **extra) {
    (void)f, (void)parameters, (void)extra;
    return done(c->grid[0]);
}
API int cuGraphLaunch(void *graph, void *stream) {
    void *told[2] = {graph, stream};
    int result = 0;
    tell(514, 0, told, NULL);
    tell(514, 1, told, &result);
    return 0;
}
static int capturing;
API int cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)stream, (void)mode;
    tell(539, 0, &stream, NULL);
    capturing = 1;
    tell(539, 1, &stream, &(int){0});
    return 0;
}
API int cuStreamEndCapture(void *stream, void **graph) {
    tell(497, 0, &stream, NULL);
    capturing = 0, *graph = functions;
    tell(497, 1, &stream, &(int){0});
    return 0;
}
API int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = capturing; return 0; }
API int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, void *status) {
    (void)version, (void)status;
    *address = !strcmp(name, "cuLaunchKernel") ? (flags & 2 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel)
               : !strcmp(name, "cuModuleGetFunction") ? (void *)cuModuleGetFunction
               : !strcmp(name, "cuLaunchKernelEx") ? (void *)cuLaunchKernelEx : NULL;
    return *address ? 0 : 500;
}
