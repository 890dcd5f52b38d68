/* Where functions come from: dlsym as programs call it, which hands out hooks, and the real one, for ourselves.
 *
 * A call that is not of the driver's ends in a jump to the real dlsym, so that RTLD_NEXT still sees the caller's library: the
 * file must be compiled with sibling calls optimised (tests hold that).
 */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <string.h>

typedef void *(*dlsym_type)(void *, const char *);
static _Atomic(dlsym_type) real_dlsym;

static dlsym_type the_real(void) {
    dlsym_type found = atomic_load_explicit(&real_dlsym, memory_order_acquire);
    if (LIKELY(found != NULL)) return found;
    /* The versions under which glibc has had it: before 2.34 (x86-64, AArch64), and since. */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (int i = 0; i < 3 && !found; i++) found = (dlsym_type)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    atomic_store_explicit(&real_dlsym, found, memory_order_release);
    return found;
}

void *library_symbol(void *handle, const char *name) {
    dlsym_type look = the_real();
    return look ? look(handle, name) : NULL;
}

/* Of the driver that is loaded, which is not held: the program may unload it. */
void *real_function(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!driver) return NULL;
    void *found = library_symbol(driver, name);
    dlclose(driver);
    return is_hook(found) ? NULL : found;
}

static __attribute__((noinline)) void *of_driver(void *handle, const char *name) {
    void *found = library_symbol(handle, name);
    return found && recording() ? hook_for(name, found) : found;
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name) {
    dlsym_type look = the_real();
    if (!look) return NULL;
    if (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' && handle != RTLD_NEXT)
        return of_driver(handle, name);
    if (name[0] == 'c' && name[1] == 'u' && !strncmp(name, "cupti", 5) && handle != RTLD_NEXT && recording()) return cupti_hook(handle, name);
    return look(handle, name);
}
