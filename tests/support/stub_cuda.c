/* A libcuda that does nothing: every launch succeeds at once. Programs are recorded and measured on it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default")))
static char functions[64];
static int launches;

API int stub_launches(void) { return launches; }
API int cuInit(unsigned flags) { (void)flags; return 0; }
API int cuCtxGetDevice(int *device) { *device = 0; return 0; }
API int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0x40 + device, 16); return 0; }
API int cuModuleLoadData(void **module, const void *image) { (void)image; *module = functions; return 0; }
API int cuModuleUnload(void *module) { (void)module; return 0; }
API int cuModuleGetFunction(void **f, void *module, const char *name) {
    (void)module;
    *f = functions + 16 * (1 + (size_t)(name[0] % 3));
    return 0;
}
API int cuFuncGetAttribute(int *value, int attribute, void *f) { (void)f; *value = attribute == 4 ? 40 : attribute == 1 ? 1024 : 0; return 0; }
/* Static: what is exported would be interposed within this library too. */
static int done(unsigned gx) {
    launches++;
    return gx == 0; /* as a driver refuses an empty grid */
}
#define LAUNCH(name) \
    API int name(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, \
                 void **parameters, void **extra) { \
        (void)f, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters, (void)extra; \
        return done(gx); \
    }
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernel_ptsz)
LAUNCH(stub_launch) /* under a name that no recorder knows */
struct config { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; };
API int cuLaunchKernelEx(const struct config *c, void *f, void **parameters, void **extra) {
    (void)f, (void)parameters, (void)extra;
    return done(c->grid[0]);
}
API int cuGraphLaunch(void *graph, void *stream) { (void)graph, (void)stream; return 0; }
API int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, void *status) {
    (void)version, (void)status;
    *address = !strcmp(name, "cuLaunchKernel") ? (flags & 2 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel)
               : !strcmp(name, "cuModuleGetFunction") ? (void *)cuModuleGetFunction
               : !strcmp(name, "cuLaunchKernelEx") ? (void *)cuLaunchKernelEx : NULL;
    return *address ? 0 : 500;
}
