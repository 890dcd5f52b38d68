/* The way to the collector: a Unix stream socket that never makes anybody wait. Only the background thread is here.
 *
 * One batch is on its way at a time. It stays here, with its number, until the collector has acknowledged it, and is sent again
 * on a new connection: the collector knows by source and number what it has. While there is no collector, rows keep adding up.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HEADER = 8, PREFIX = 24, RETRY_MS = 1000, EVENT_BYTES = 1 << 18, VERSION = 1, DEFAULT_PERIOD_MS = 10000 };
#define DEFAULT_SOCKET "/run/gpusim/collect.sock"

static int channel = -1;
static bool greeted;
static uint8_t out[HEADER + PREFIX + BATCH_BYTES], hello[HEADER + 16 + 8 + 1 + 64], in[64];
static size_t out_bytes, out_sent, hello_bytes, hello_sent, in_bytes;
static bool waiting; /* `out` holds a batch that is not acknowledged */
static uint64_t number, told_dropped;
static _Atomic uint64_t acknowledged;
static uint64_t tried_ms, sealed_ms;
static uint8_t events_out[HEADER + EVENT_BYTES];
static size_t events_bytes, events_sent;
static uint64_t told_unread; /* records that CUPTI has dropped */

uint64_t channel_acknowledged(void) { return atomic_load(&acknowledged); }
bool channel_idle(void) { return channel < 0 || (!waiting && !rows_waiting() && !events_bytes && !events_waiting()); }

static void header(uint8_t *at, uint32_t bytes, uint8_t type) {
    memcpy(at, &bytes, 4);
    at[4] = type, at[5] = VERSION, at[6] = at[7] = 0;
}

static void hang_up(void) {
    if (channel >= 0) close(channel);
    channel = -1, greeted = false, in_bytes = 0, out_sent = 0, events_bytes = 0;
}

/* Only a collector of root or of this user gets anything. */
static bool trusted(int socket_fd) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes)) return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

static void call_up(void) {
    const char *path = getenv("GPUSIM_RECORD_SOCKET");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!path || !*path) path = DEFAULT_SOCKET;
    if (strlen(path) >= sizeof name.sun_path) return;
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    if (connect(fd, (struct sockaddr *)&name, sizeof name) || !trusted(fd)) { close(fd); return; }
    channel = fd;
    uint32_t pid = (uint32_t)getpid();
    uint8_t length = (uint8_t)strlen(identity.container), *at = hello + HEADER;
    memcpy(at, identity.source, 16);
    memcpy(at + 16, &pid, 4);
    memcpy(at + 20, &identity.rank, 4);
    at[24] = length;
    memcpy(at + 25, identity.container, length);
    header(hello, 25u + length, HELLO);
    hello_bytes = HEADER + 25u + length, hello_sent = 0;
}

/* True: all is sent. */
static bool push(const uint8_t *data, size_t bytes, size_t *sent) {
    while (*sent < bytes) {
        ssize_t done = send(channel, data + *sent, bytes - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done > 0) *sent += (size_t)done;
        else if (done < 0 && errno == EINTR) continue;
        else {
            if (!(done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) hang_up();
            return false;
        }
    }
    return true;
}

static bool answer(uint8_t type, const uint8_t *payload, uint32_t bytes) {
    uint64_t value;
    if (bytes != 8) return false;
    memcpy(&value, payload, 8);
    if (type == ACKNOWLEDGED && value <= number) {
        if (waiting && value == number) { waiting = false; atomic_fetch_add(&acknowledged, 1); }
        return true;
    }
    if (type == CAPTURE && value <= 3600) { gpusim_record_capture((unsigned)value); return true; }
    return false;
}

static void listen_to_it(void) {
    for (;;) {
        ssize_t got = recv(channel, in + in_bytes, sizeof in - in_bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) { hang_up(); return; }
        if (got < 0) return;
        in_bytes += (size_t)got;
        while (in_bytes >= HEADER + 8) {
            uint32_t bytes;
            memcpy(&bytes, in, 4);
            if (bytes != 8 || in[5] != VERSION || !answer(in[4], in + HEADER, bytes)) { hang_up(); return; }
            in_bytes -= HEADER + 8;
            memmove(in, in + HEADER + 8, in_bytes);
        }
    }
}

uint64_t channel_period_ms(void) {
    static uint64_t period;
    if (period) return period;
    const char *text = getenv("GPUSIM_RECORD_PERIOD_MS");
    long value = text ? atol(text) : 0;
    return period = value >= 10 && value <= 60000 ? (uint64_t)value : DEFAULT_PERIOD_MS;
}

static void seal(void) {
    uint32_t rows;
    uint64_t dropped = rings_dropped() + rows_lost(), more = dropped - told_dropped;
    if (!rows_waiting() && !more) return;
    uint64_t unread = cupti_dropped(), lost_events = events_lost() + unread - told_unread;
    told_unread = unread;
    size_t bytes = PREFIX + rows_seal(out + HEADER + PREFIX, BATCH_BYTES, &rows);
    number++;
    told_dropped = dropped;
    memcpy(out + HEADER, &number, 8);
    memcpy(out + HEADER + 8, &more, 8);
    memcpy(out + HEADER + 16, &lost_events, 8);
    header(out, (uint32_t)bytes, BATCH);
    out_bytes = HEADER + bytes, out_sent = 0, waiting = true;
}

/* They are not acknowledged, and go with their connection. */
static void send_events(void) {
    if (!events_bytes && events_waiting()) {
        size_t bytes = events_seal(events_out + HEADER, EVENT_BYTES);
        header(events_out, (uint32_t)bytes, EVENTS);
        events_bytes = HEADER + bytes, events_sent = 0;
    }
    if (events_bytes && push(events_out, events_bytes, &events_sent)) events_bytes = 0;
}

void channel_step(bool last) {
    uint64_t now_ms = now_ns() / 1000000;
    if (channel < 0 && (last || now_ms - tried_ms >= RETRY_MS)) {
        tried_ms = now_ms;
        call_up();
    }
    if (channel < 0) return;
    listen_to_it();
    if (channel < 0 || (!greeted && !(greeted = push(hello, hello_bytes, &hello_sent)))) return;
    if (!waiting && !events_bytes && (last || now_ms - sealed_ms >= channel_period_ms())) {
        sealed_ms = now_ms;
        seal();
    }
    if (waiting && out_sent < out_bytes && !events_bytes) push(out, out_bytes, &out_sent);
    if (channel >= 0 && (!waiting || out_sent == out_bytes)) send_events();
}

void channel_after_fork(void) {
    if (channel >= 0) close(channel);
    channel = -1, greeted = waiting = false;
    in_bytes = out_sent = out_bytes = events_bytes = 0;
    number = told_dropped = 0, tried_ms = sealed_ms = 0;
    atomic_store(&acknowledged, 0);
}
