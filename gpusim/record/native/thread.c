/* The background thread, and what happens to it at fork, exec, exit and a crash.
 *
 * It starts with the first driver function that a program asks for, with all signals blocked, so that none of the program's
 * handlers runs on it. A forked child starts its own. Exit waits for its last words, but never longer than LAST_WORDS_MS; exec,
 * _exit and a crash wait for nothing: no handler is installed.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STEP_NS = 10000000, MOST_STEP_NS = 500000000, FEW = 256, MANY = 1024, LAST_WORDS_MS = 150, STACK_BYTES = 1 << 18, MOST_CAPTURE_S = 3600 };
enum { RUNNING, ENDING, ENDED };

static _Atomic int started;
static _Atomic uint32_t phase;
_Alignas(64) struct hot hot = {.wanted = -1};

bool recording(void) {
    int state = atomic_load_explicit(&hot.wanted, memory_order_relaxed);
    if (LIKELY(state >= 0)) return state;
    const char *text = getenv("GPUSIM_RECORD");
    state = !(text && !strcmp(text, "0"));
    atomic_store(&hot.wanted, state);
    return state;
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
uint64_t unix_ns(void) { return clock_ns(CLOCK_REALTIME); }
uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint32_t coarse_seconds(void) { return (uint32_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000000u) + 1; }

/* As long a pause as keeps a step's events few: a wakeup costs as much as many of them. A ring that fills, and CUPTI's buffers that
 * do, call by themselves. */
static long pause_ns(uint64_t taken) {
    static long pause = STEP_NS;
    long most = (long)(channel_period_ms() * 1000000 / 5);
    if (most > MOST_STEP_NS) most = MOST_STEP_NS;
    if (taken >= MANY) pause /= 2;
    else if (taken < FEW) pause *= 2;
    if (pause > most) pause = most;
    if (atomic_load(&hot.capture_until_s)) pause = STEP_NS;
    return pause > STEP_NS ? pause : STEP_NS;
}

/* How many events it took. */
static uint64_t step(bool last) {
    uint32_t until = atomic_load(&hot.capture_until_s);
    if (until && coarse_seconds() > until) atomic_store(&hot.capture_until_s, 0);
    rows_set_minute((uint32_t)(clock_ns(CLOCK_REALTIME_COARSE) / 60000000000u));
    int cupti = cupti_phase();
    uint64_t taken = rings_drain(rows_event);
    if (!last) cupti_poll(cupti); /* at the end the driver may be gone */
    channel_step(last);
    return taken;
}

static void *run(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gpusim-record");
    identity_read();
    while (atomic_load(&phase) == RUNNING) {
        struct timespec pause = {0, pause_ns(step(false))};
        syscall(SYS_futex, &phase, FUTEX_WAIT_PRIVATE, RUNNING, &pause, NULL, 0);
    }
    uint64_t end = now_ns() + (uint64_t)LAST_WORDS_MS * 1000000;
    do {
        step(true);
        if (channel_idle()) break;
        struct timespec pause = {0, STEP_NS / 20};
        nanosleep(&pause, NULL);
    } while (now_ns() < end);
    atomic_store(&phase, ENDED);
    wake_background();
    for (;;) pause(); /* what is static stays usable until the process is gone */
    return NULL;
}

bool background_runs(void) { return atomic_load(&started) && atomic_load(&phase) == RUNNING; }
void wake_background(void) { syscall(SYS_futex, &phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* Detached, and with all signals blocked. */
bool start_thread(void *(*work)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool done = !pthread_create(&thread, &attributes, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return done;
}

void start_background(void) {
    if (LIKELY(atomic_load_explicit(&started, memory_order_relaxed))) return;
    if (!recording() || atomic_exchange(&started, 1)) return;
    if (!start_thread(run)) atomic_store(&hot.wanted, 0); /* no thread: nothing is recorded */
}

/* In the child: stores and a close, as fork allows. */
void background_after_fork(void) {
    rings_after_fork();
    tables_after_fork();
    rows_after_fork();
    channel_after_fork();
    events_after_fork();
    cupti_after_fork();
    joins_after_fork();
    atomic_store(&phase, RUNNING);
    atomic_store(&started, 0);
}

static void on_signal(int number) {
    (void)number;
    gpusim_record_capture(10);
}

/* Off unless asked for: a handler is the program's business. */
static void listen_to_signal(void) {
    const char *text = getenv("GPUSIM_RECORD_SIGNAL");
    int number = text ? atoi(text) : 0;
    struct sigaction now, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (number <= 0 || number >= NSIG || sigaction(number, NULL, &now) || now.sa_handler != SIG_DFL) return;
    sigaction(number, &action, NULL);
}

__attribute__((constructor)) static void loaded(void) {
    if (!recording()) return;
    pthread_atfork(NULL, NULL, background_after_fork);
    listen_to_signal();
}

__attribute__((destructor)) static void exiting(void) {
    if (!atomic_load(&started) || !recording()) return;
    uint32_t now = RUNNING;
    if (!atomic_compare_exchange_strong(&phase, &now, ENDING)) return;
    wake_background();
    uint64_t end = now_ns() + (uint64_t)(LAST_WORDS_MS + 20) * 1000000;
    while (atomic_load(&phase) == ENDING && now_ns() < end) {
        struct timespec pause = {0, STEP_NS};
        syscall(SYS_futex, &phase, FUTEX_WAIT_PRIVATE, ENDING, &pause, NULL, 0);
    }
}

EXPORT int gpusim_record_abi(void) { return GPUSIM_RECORD_ABI; }
EXPORT void gpusim_record_capture(unsigned seconds) {
    atomic_store(&hot.capture_until_s, seconds ? coarse_seconds() + (seconds > MOST_CAPTURE_S ? MOST_CAPTURE_S : seconds) : 0);
}
EXPORT void gpusim_record_stats(struct gpusim_record_stats *stats) {
    *stats = (struct gpusim_record_stats){rows_launches(), rings_dropped() + rows_lost(), channel_acknowledged(), rows_waiting(), rings_bytes()};
}
EXPORT int InitializeInjection(void) {
    if (recording()) {
        start_background();
        cupti_start();
    }
    return 1;
}
