/* The driver's functions as programs see them: each calls the real one and, where that succeeded, notes what it did.
 *
 * Declarations follow the documented driver API (cuda.h); handles are opaque pointers.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <string.h>

typedef void *handle;
struct launch_config { unsigned grid[3], block[3], shared_bytes; handle stream; void *attributes; unsigned count; };

#define HOOKS(X) \
    X(cuLaunchKernel) X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) X(cuLaunchCooperativeKernel) \
    X(cuLaunchCooperativeKernel_ptsz) X(cuGraphLaunch) X(cuGraphLaunch_ptsz) X(cuModuleLoadData) X(cuModuleLoadDataEx) \
    X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLibraryLoadData) X(cuLibraryUnload) \
    X(cuLibraryGetKernel) X(cuLibraryGetModule) X(cuKernelGetFunction) X(cuCtxSetCurrent) X(cuCtxPushCurrent_v2) \
    X(cuCtxPopCurrent_v2) X(cuCtxCreate_v2) X(cuCtxCreate_v3) X(cuCtxCreate_v4) X(cuCtxDestroy_v2) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) X(cuStreamBeginCapture_v2) X(cuStreamBeginCapture_v2_ptsz) \
    X(cuStreamEndCapture) X(cuStreamEndCapture_ptsz) X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCaptureToGraph_ptsz) X(cuGetProcAddress) X(cuGetProcAddress_v2)
#define NUMBER(name) AT_##name,
enum { HOOKS(NUMBER) HOOK_COUNT };
_Static_assert(HOOK_COUNT <= HOOKS_AT_MOST, "hot.real has a place for each");

static __attribute__((noinline)) void *find_real(int at, const char *name) {
    void *found = library_symbol(RTLD_NEXT, name);
    if (!found || is_hook(found)) found = real_function(name);
    if (found && is_hook(found)) found = NULL;
    if (found) atomic_store_explicit(&hot.real[at], found, memory_order_release);
    return found;
}
static inline void *real_of(int at, const char *name) {
    void *found = atomic_load_explicit(&hot.real[at], memory_order_acquire);
    return LIKELY(found != NULL) ? found : find_real(at, name);
}
#define CALL(name, types, ...) \
    int (*call) types = (int (*) types)real_of(AT_##name, #name); \
    if (!call) return 3 /* CUDA_ERROR_NOT_INITIALIZED: there is no driver */; \
    int result = call(__VA_ARGS__)
/* CUPTI's callback, where there is one, leaves the launch's correlation id behind. */
#define LAUNCH_CALL(name, types, ...) \
    thread_state.inside = true, thread_state.cupti = 0; \
    int (*call) types = (int (*) types)real_of(AT_##name, #name); \
    int result = call ? call(__VA_ARGS__) : 3; \
    thread_state.inside = false

#define LAUNCH_TYPES (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **)
#define LAUNCH_HOOK(name, per_thread) \
    EXPORT HOT int name(handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
                    handle stream, void **parameters, void **extra) { \
        unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz}; \
        uint32_t counter = counter_at(f, grid, block, shared, stream); \
        expect(counter); \
        LAUNCH_CALL(name, LAUNCH_TYPES, f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra); \
        if (!result) note_call(LAUNCH, f, grid, block, shared, stream, per_thread, counter); \
        return result; }
LAUNCH_HOOK(cuLaunchKernel, false)
LAUNCH_HOOK(cuLaunchKernel_ptsz, true)

#define LAUNCH_EX_HOOK(name, per_thread) \
    EXPORT HOT int name(const struct launch_config *config, handle f, void **parameters, void **extra) { \
        uint32_t counter = config ? counter_at(f, config->grid, config->block, config->shared_bytes, config->stream) : 0; \
        expect(counter); \
        LAUNCH_CALL(name, (const void *, handle, void **, void **), config, f, parameters, extra); \
        if (!result) note_call(LAUNCH, f, config->grid, config->block, config->shared_bytes, config->stream, per_thread, counter); \
        return result; }
LAUNCH_EX_HOOK(cuLaunchKernelEx, false)
LAUNCH_EX_HOOK(cuLaunchKernelEx_ptsz, true)

#define COOPERATIVE_HOOK(name, per_thread) \
    EXPORT int name(handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
                    handle stream, void **parameters) { \
        LAUNCH_CALL(name, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **), \
             f, gx, gy, gz, bx, by, bz, shared, stream, parameters); \
        unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz}; \
        if (!result) note_call(COOPERATIVE, f, grid, block, shared, stream, per_thread, counter_at(f, grid, block, shared, stream)); \
        return result; }
COOPERATIVE_HOOK(cuLaunchCooperativeKernel, false)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, true)

#define GRAPH_HOOK(name, per_thread) \
    EXPORT int name(handle graph, handle stream) { \
        LAUNCH_CALL(name, (handle, handle), graph, stream); \
        if (!result) note_graph(stream, per_thread); \
        return result; }
GRAPH_HOOK(cuGraphLaunch, false)
GRAPH_HOOK(cuGraphLaunch_ptsz, true)

EXPORT int cuModuleLoadData(handle *module, const void *image) {
    CALL(cuModuleLoadData, (handle *, const void *), module, image);
    if (!result && recording()) module_loaded(*module, image);
    return result;
}
EXPORT int cuModuleLoadFatBinary(handle *module, const void *image) {
    CALL(cuModuleLoadFatBinary, (handle *, const void *), module, image);
    if (!result && recording()) module_loaded(*module, image);
    return result;
}
EXPORT int cuModuleLoadDataEx(handle *module, const void *image, unsigned count, int *options, void **values) {
    CALL(cuModuleLoadDataEx, (handle *, const void *, unsigned, int *, void **), module, image, count, options, values);
    if (!result && recording()) module_loaded(*module, image);
    return result;
}
EXPORT int cuLibraryLoadData(handle *library, const void *code, int *jit, void **jit_values, unsigned jits, int *options, void **values, unsigned count) {
    CALL(cuLibraryLoadData, (handle *, const void *, int *, void **, unsigned, int *, void **, unsigned), library, code, jit, jit_values, jits, options, values, count);
    if (!result && recording()) module_loaded(*library, code);
    return result;
}
EXPORT int cuModuleUnload(handle module) {
    if (recording()) module_unloaded(module); /* before: afterwards another thread may be given the handle again */
    CALL(cuModuleUnload, (handle), module);
    return result;
}
EXPORT int cuLibraryUnload(handle library) {
    if (recording()) module_unloaded(library);
    CALL(cuLibraryUnload, (handle), library);
    return result;
}
EXPORT int cuModuleGetFunction(handle *f, handle module, const char *name) {
    CALL(cuModuleGetFunction, (handle *, handle, const char *), f, module, name);
    if (!result && recording()) kernel_named(*f, module, name, false);
    return result;
}
EXPORT int cuLibraryGetKernel(handle *kernel, handle library, const char *name) {
    CALL(cuLibraryGetKernel, (handle *, handle, const char *), kernel, library, name);
    if (!result && recording()) kernel_named(*kernel, library, name, true);
    return result;
}
EXPORT int cuLibraryGetModule(handle *module, handle library) {
    CALL(cuLibraryGetModule, (handle *, handle), module, library);
    return result;
}
EXPORT int cuKernelGetFunction(handle *f, handle kernel) {
    CALL(cuKernelGetFunction, (handle *, handle), f, kernel);
    if (!result && recording()) kernel_same(*f, kernel);
    return result;
}

static void forget_context(const void *context) {
    thread_state.device = -1, thread_state.context = context;
    thread_state.contexts = atomic_load_explicit(&hot.contexts, memory_order_relaxed);
}
/* Programs set the context that they have before each launch (XLA does): its device need not be asked again, unless contexts have come or
 * gone, whose addresses are used anew. */
EXPORT int cuCtxSetCurrent(handle context) {
    CALL(cuCtxSetCurrent, (handle), context);
    if (result || !context || context != thread_state.context || thread_state.contexts != atomic_load_explicit(&hot.contexts, memory_order_relaxed)) forget_context(context);
    return result;
}
#define CONTEXT_HOOK(name, types, parameters, ...) \
    EXPORT int name parameters { CALL(name, types, __VA_ARGS__); forget_context(NULL); return result; }
/* Before the call, since another thread may be given the address again, and after it, since one may have set it meanwhile. */
#define ENDING_HOOK(name, types, parameters, ...) \
    EXPORT int name parameters { atomic_fetch_add(&hot.contexts, 1); CALL(name, types, __VA_ARGS__); atomic_fetch_add(&hot.contexts, 1); forget_context(NULL); return result; }
CONTEXT_HOOK(cuCtxPushCurrent_v2, (handle), (handle context), context)
CONTEXT_HOOK(cuCtxPopCurrent_v2, (handle *), (handle *context), context)
/* Its versions differ in their arguments, and cuGetProcAddress gives any of them: all are integers or pointers, at most five, and
 * six of those go through registers on x86-64 and AArch64, so six are handed on. */
#define SIX (uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
#define CREATE_HOOK(name) CONTEXT_HOOK(name, (uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t), SIX, a, b, c, d, e, f)
CREATE_HOOK(cuCtxCreate_v2)
CREATE_HOOK(cuCtxCreate_v3)
CREATE_HOOK(cuCtxCreate_v4)
ENDING_HOOK(cuCtxDestroy_v2, (handle), (handle context), context)
ENDING_HOOK(cuDevicePrimaryCtxRelease_v2, (int), (int device), device)
ENDING_HOOK(cuDevicePrimaryCtxReset_v2, (int), (int device), device)

/* A count that is too low would hide captures, one that is too high costs a question a launch: it never goes below none. */
void capture_counts(int by) {
    int before = atomic_load(&hot.captures);
    while (before + by >= 0 && !atomic_compare_exchange_weak(&hot.captures, &before, before + by)) {}
}
#define CAPTURE_HOOKS(begin, into, end) \
    EXPORT int begin(handle stream, int mode) { LAUNCH_CALL(begin, (handle, int), stream, mode); if (!result) capture_counts(1); return result; } \
    EXPORT int into(handle stream, handle graph, handle *after, void *edges, size_t count, int mode) { \
        LAUNCH_CALL(into, (handle, handle, handle *, void *, size_t, int), stream, graph, after, edges, count, mode); \
        if (!result) capture_counts(1); \
        return result; } \
    EXPORT int end(handle stream, handle *graph) { LAUNCH_CALL(end, (handle, handle *), stream, graph); if (!result) capture_counts(-1); return result; }
CAPTURE_HOOKS(cuStreamBeginCapture_v2, cuStreamBeginCaptureToGraph, cuStreamEndCapture)
CAPTURE_HOOKS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCaptureToGraph_ptsz, cuStreamEndCapture_ptsz)

enum { PER_THREAD_STREAM = 2, TWELVE = 12000 };

/* The hook under which the driver would have answered: "_v2" and "_ptsz" are not part of the asked name. */
static void *substitute(const char *symbol, void *found, int version, uint64_t flags) {
    char name[64];
    if (!symbol || strnlen(symbol, 40) >= 40) return found;
    if (!strcmp(symbol, "cuGetProcAddress")) return hook_for(version >= TWELVE ? "cuGetProcAddress_v2" : symbol, found);
    static const char *const endings[] = {"_v2_ptsz", "_ptsz", "_v2", ""};
    for (int i = flags & PER_THREAD_STREAM ? 0 : 2; i < 4; i++) {
        strcpy(name, symbol);
        strcat(name, endings[i]);
        void *hook = hook_for(name, found);
        if (hook != found) return hook;
    }
    return found;
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags, void *status) {
    CALL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, void *), symbol, address, version, flags, status);
    if (!result && recording() && address && *address) *address = substitute(symbol, *address, version, flags);
    return result;
}
EXPORT int cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags) {
    CALL(cuGetProcAddress, (const char *, void **, int, uint64_t), symbol, address, version, flags);
    if (!result && recording() && address && *address) *address = substitute(symbol, *address, version, flags);
    return result;
}

#define ENTRY(name) {#name, (void *)name},
static const struct { const char *name; void *hook; } table[] = {HOOKS(ENTRY)};

bool is_hook(const void *address) {
    for (int i = 0; i < HOOK_COUNT; i++)
        if (table[i].hook == address) return true;
    return false;
}

/* The hook of that name, which from now on calls `found`; `found` itself where there is none. */
void *hook_for(const char *name, void *found) {
    for (int i = 0; i < HOOK_COUNT; i++)
        if (!strcmp(table[i].name, name)) {
            if (!is_hook(found)) {
                if (atomic_exchange(&hot.real[i], found) != found) forget_questions();
                start_background();
                cupti_start();
            } else if (!real_of(i, name)) return NULL; /* asked for among all libraries, and there is no driver */
            return table[i].hook;
        }
    return found;
}
