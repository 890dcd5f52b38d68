/* What handles mean: function handle -> kernel, module -> hash of its code.
 *
 * A launch reads the table of handles without a lock: keys are written once, their meaning is one atomic word. Writers take a
 * flag; a launch of a handle that nobody has registered tries the flag once and otherwise counts as kernel 0, "unknown".
 */
#define _GNU_SOURCE
#include "internal.h"
#include <string.h>

enum { UNKNOWN = 0, PROBES = 64, MODULES = 4096, PATIENCE = 10000 };
/* Of a handle that the driver had no name for: it is not asked again at every launch. */
enum { NAMELESS = KERNELS, SEEN = 1024 };
/* In a handle's word: its kernel's attributes are there, so that a launch need not look at the kernel. */
enum { COMPLETE = 1 << 30 };
enum { SHARED_SIZE = 1, NUM_REGS = 4 }; /* CUfunction_attribute */

static struct { _Atomic(void *) key; _Atomic uint32_t kernel; void *module; bool of_library; } handles[HANDLES];
static struct { void *key; uint64_t hash; } modules[MODULES];
static struct kernel kernels[KERNELS];
static _Atomic uint32_t kernel_count = 1;

static size_t at_of(const void *key, size_t size) { return ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u >> 32 & (size - 1); }

static uint32_t kernel_for(const char *name, uint64_t code, uint32_t registers, uint32_t shared, bool known) {
    char text[NAME_BYTES];
    uint64_t hash;
    size_t bytes = name_told(name, strnlen(name, 1 << 16), text, sizeof text, &hash);
    for (uint32_t i = 1; i < kernel_count; i++)
        if (kernels[i].name_hash == hash && (known ? kernels[i].registers == registers && kernels[i].static_shared_bytes == shared
                                                   : kernels[i].code_hash == code))
            return i; /* CUPTI, which tells no code, finds the kernel that a launch has made known */
    if (kernel_count >= KERNELS) return UNKNOWN;
    uint32_t at = name_keep(text, bytes), slot = kernel_count;
    if (!at) return UNKNOWN;
    struct kernel *kernel = &kernels[slot];
    kernel->name_hash = hash, kernel->code_hash = code, kernel->name_at = at, kernel->name_bytes = (uint16_t)bytes;
    kernel->registers = (uint16_t)registers, kernel->static_shared_bytes = shared;
    atomic_store(&kernel->ready, known);
    atomic_store_explicit(&kernel_count, slot + 1, memory_order_release);
    return slot;
}

static void meaning(void *handle, void *module, uint32_t kernel, bool of_library) {
    size_t at = at_of(handle, HANDLES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % HANDLES) {
        void *key = atomic_load_explicit(&handles[at].key, memory_order_relaxed);
        if (key && key != handle) continue;
        bool other = key && (atomic_load(&handles[at].kernel) & ~(uint32_t)COMPLETE) != kernel;
        handles[at].module = module, handles[at].of_library = of_library;
        atomic_store_explicit(&handles[at].kernel, kernel, memory_order_release);
        atomic_store_explicit(&handles[at].key, handle, memory_order_release);
        if (other) atomic_fetch_add(&hot.meanings, 1);
        return;
    }
}

static uint64_t code_of(void *module) {
    size_t at = at_of(module, MODULES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % MODULES)
        if (modules[at].key == module) return modules[at].hash;
    return 0;
}

void kernel_named(void *handle, void *module, const char *name, bool of_library) {
    if (!handle || !name || !tables_enter(PATIENCE)) return;
    meaning(handle, module, kernel_for(name, code_of(module), 0, 0, false), of_library);
    tables_leave();
}

/* A second handle of the same kernel. */
void kernel_same(void *handle, void *of) {
    if (!handle || !of || !tables_enter(PATIENCE)) return;
    size_t at = at_of(of, HANDLES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % HANDLES)
        if (atomic_load(&handles[at].key) == of) {
            meaning(handle, handles[at].module, atomic_load(&handles[at].kernel) & ~(uint32_t)COMPLETE, false);
            break;
        }
    tables_leave();
}

void module_loaded(void *module, const void *image) {
    if (!module || !image) return;
    size_t bytes = image_bytes(&image);
    uint64_t hash = bytes ? hidden_hash(xxh64(image, bytes)) : 0;
    if (!tables_enter(PATIENCE)) return;
    size_t at = at_of(module, MODULES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % MODULES)
        if (!modules[at].key || modules[at].key == module) {
            modules[at].key = module, modules[at].hash = hash;
            break;
        }
    tables_leave();
}

/* Its handles may come again and mean something else. */
void module_unloaded(void *module) {
    if (!module || !tables_enter(PATIENCE)) return;
    for (size_t i = 0; i < HANDLES; i++)
        if (handles[i].module == module && atomic_load(&handles[i].key)) atomic_store(&handles[i].kernel, UNKNOWN);
    for (size_t i = 0; i < MODULES; i++)
        if (modules[i].key == module) modules[i].hash = 0;
    atomic_fetch_add(&hot.meanings, 1);
    tables_leave();
}

static void ask_attributes(uint32_t slot, void *handle, bool of_library) {
    struct kernel *kernel = &kernels[slot];
    int registers = 0, shared = 0;
    if (of_library) {
        int (*ask)(int *, int, void *, int) = (int (*)(int *, int, void *, int))real_function("cuKernelGetAttribute");
        int device = thread_state.device < 0 ? 0 : thread_state.device;
        if (ask && (ask(&registers, NUM_REGS, handle, device) || ask(&shared, SHARED_SIZE, handle, device))) registers = shared = 0;
    } else {
        int (*ask)(int *, int, void *) = (int (*)(int *, int, void *))real_function("cuFuncGetAttribute");
        if (ask && (ask(&registers, NUM_REGS, handle) || ask(&shared, SHARED_SIZE, handle))) registers = shared = 0;
    }
    kernel->registers = registers < 0 || registers > 0xFFFF ? 0 : (uint16_t)registers;
    kernel->static_shared_bytes = shared < 0 ? 0 : (uint32_t)shared;
    atomic_store_explicit(&kernel->ready, 1, memory_order_release);
}

/* First launch of a handle: who it is, and its attributes, asked on the thread that has its context. */
static __attribute__((noinline)) uint32_t first_launch(void *handle, uint32_t slot, bool of_library) {
    if (!tables_enter(0)) return slot;
    if (slot == UNKNOWN) {
        const char *name = NULL;
        int (*ask)(const char **, void *) = (int (*)(const char **, void *))real_function("cuFuncGetName");
        if (ask && (ask(&name, handle) || !name)) name = NULL;
        if (name) slot = kernel_for(name, 0, 0, 0, false);
        meaning(handle, NULL, slot == UNKNOWN ? NAMELESS : slot, false);
    }
    if (slot != UNKNOWN && !atomic_load(&kernels[slot].ready)) ask_attributes(slot, handle, of_library);
    tables_leave();
    return slot;
}

/* `settled`: nothing is left to ask, so that it stays so until `hot.meanings` changes. */
uint32_t kernel_of(void *handle, bool *settled) {
    size_t at = at_of(handle, HANDLES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % HANDLES) {
        void *key = atomic_load_explicit(&handles[at].key, memory_order_acquire);
        if (key == handle) {
            uint32_t slot = atomic_load_explicit(&handles[at].kernel, memory_order_acquire);
            *settled = slot & COMPLETE || slot == NAMELESS;
            if (LIKELY(slot & COMPLETE)) return slot & ~(uint32_t)COMPLETE;
            if (slot == NAMELESS) return UNKNOWN;
            uint32_t found = first_launch(handle, slot, handles[at].of_library);
            if (found == slot && slot && atomic_load(&kernels[slot].ready))
                *settled = atomic_compare_exchange_strong(&handles[at].kernel, &slot, slot | COMPLETE);
            return found;
        }
        if (!key) break;
    }
    *settled = false;
    return first_launch(handle, UNKNOWN, false);
}

/* A name from elsewhere for a handle that has none. */
void kernel_symbol(void *handle, const char *name) {
    if (!handle || !name) return;
    size_t at = at_of(handle, HANDLES);
    for (int i = 0; i < PROBES; i++, at = (at + 1) % HANDLES) {
        void *key = atomic_load_explicit(&handles[at].key, memory_order_acquire);
        if (key == handle && atomic_load_explicit(&handles[at].kernel, memory_order_relaxed) % NAMELESS) return; /* COMPLETE is a multiple of NAMELESS, and never alone */
        if (!key || key == handle) break;
    }
    if (!tables_enter(0)) return;
    meaning(handle, NULL, kernel_for(name, 0, 0, 0, false), false);
    tables_leave();
}

/* CUPTI tells name and attributes with each time; only the background thread asks, and remembers what it was told. */
uint32_t kernel_by_name(const char *name, uint32_t registers, uint32_t shared) {
    static struct { uint64_t hash; uint32_t registers, shared, slot; } seen[SEEN];
    if (!name) return UNKNOWN;
    uint64_t hash = xxh64(name, strnlen(name, 1 << 16));
    size_t at = (hash ^ hash >> 32 ^ registers * 31u ^ shared) % SEEN;
    if (seen[at].slot && seen[at].hash == hash && seen[at].registers == registers && seen[at].shared == shared) return seen[at].slot;
    if (!tables_enter(PATIENCE)) return UNKNOWN;
    uint32_t slot = kernel_for(name, 0, registers, shared, true);
    tables_leave();
    seen[at].hash = hash, seen[at].registers = registers, seen[at].shared = shared, seen[at].slot = slot;
    return slot;
}

const struct kernel *kernel_at(uint32_t slot) { return &kernels[slot < KERNELS ? slot : 0]; }
