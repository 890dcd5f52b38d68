/* What a program calls when it begins to use CUPTI, as it sees it: first the recorder gives way.
 *
 * Seen is what goes through the dynamic linker or dlsym while the recorder is preloaded. A library that the driver alone has loaded, and a
 * CUPTI that is linked statically, are not seen.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef void *handle;
#define TAKES(X) X(cuptiSubscribe) X(cuptiSubscribe_v2) X(cuptiActivityRegisterCallbacks)
#define NUMBER(name) AT_##name,
enum { TAKES(NUMBER) TAKE_COUNT };
enum { CUPTI_NOT_INITIALIZED = 15 };
static _Atomic(void *) real[TAKE_COUNT]; /* that dlsym has found for the program, in whichever file */

static int by_file_name(struct dl_phdr_info *info, size_t bytes, void *path) {
    (void)bytes;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libcupti")) return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

/* A function of the CUPTI that the program has loaded, whatever its wheel calls the file. */
static void *real_cupti(int at, const char *name) {
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
    void *found = atomic_load(&real[at]);
    const char *path = NULL;
    if (!found) found = library_symbol(RTLD_NEXT, name);
    for (int i = 0; i < 5 && !found; i++) {
        if (i == 4) dl_iterate_phdr(by_file_name, &path);
        void *library = i < 4 || path ? dlopen(i < 4 ? names[i] : path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
        if (library) found = library_symbol(library, name), dlclose(library);
    }
    return found;
}

#define GIVES_WAY(name, parameters, ...) \
    EXPORT int name parameters { \
        int (*call) parameters; \
        cupti_give_way(); \
        *(void **)&call = real_cupti(AT_##name, #name); \
        return call ? call(__VA_ARGS__) : CUPTI_NOT_INITIALIZED; }
GIVES_WAY(cuptiSubscribe, (handle *one, void *callback, void *data), one, callback, data)
GIVES_WAY(cuptiSubscribe_v2, (handle *one, void *callback, void *data, void *parameters), one, callback, data, parameters)
GIVES_WAY(cuptiActivityRegisterCallbacks, (void *request, void *complete), request, complete)

#define ENTRY(name) {#name, (void *)name},
static const struct { const char *name; void *hook; } table[] = {TAKES(ENTRY)};

/* What dlsym answers for a function of CUPTI. */
void *cupti_hook(void *library, const char *name) {
    void *found = library_symbol(library, name);
    for (int i = 0; i < TAKE_COUNT && found; i++)
        if (!strcmp(table[i].name, name)) {
            if (found == table[i].hook) return real_cupti(i, name) ? found : NULL; /* asked for among all libraries */
            atomic_store(&real[i], found);
            return table[i].hook;
        }
    return found;
}

/* Preloaded: the program itself finds the recorder's. */
bool taking_is_seen(void) {
    void *program = dlopen(NULL, RTLD_LAZY), *found = program ? library_symbol(program, "cuptiSubscribe") : NULL;
    if (program) dlclose(program);
    return found == (void *)cuptiSubscribe;
}
