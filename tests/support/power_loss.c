/* Notes what a program writes to the files of one folder and when it asks for them to be on the disk.
 *
 * Loaded before a program (LD_PRELOAD), it passes every call on and appends a record to the log: kind, length of the name,
 * offset, length of the data; the file's name; the data. tests/support/power_loss.py reads it. GPUSIM_DISK_FOLDER is the folder,
 * GPUSIM_DISK_LOG the log.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, SYNC = 3, UNLINK = 4 };

struct head {
    uint32_t kind, name_bytes;
    uint64_t offset, bytes;
};

#define NEXT(name, type, ...)                                       \
    static type (*next)(__VA_ARGS__);                               \
    if (!next) next = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t plain_write(int fd, const void *data, size_t bytes) {
    NEXT("write", ssize_t, int, const void *, size_t);
    return next(fd, data, bytes);
}

static void note_path(const char *path, uint32_t kind, uint64_t offset, const void *data, uint64_t bytes) {
    static int log = -2;
    const char *folder = getenv("GPUSIM_DISK_FOLDER"), *to = getenv("GPUSIM_DISK_LOG");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || !to || strncmp(path, folder, length) || path[length] && path[length] != '/') return;
    if (log == -2) log = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char *name = path[length] ? path + length + 1 : ""; /* the folder itself: its entries */
    struct head head = {kind, (uint32_t)strlen(name), offset, data ? bytes : 0};
    if (kind == TRUNCATE) head.offset = bytes;
    char *record = malloc(sizeof head + head.name_bytes + head.bytes);
    if (!record) abort();
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, name, head.name_bytes);
    if (data) memcpy(record + sizeof head + head.name_bytes, data, head.bytes);
    if (plain_write(log, record, sizeof head + head.name_bytes + head.bytes) < 0) abort();
    free(record);
}

static void note(int fd, uint32_t kind, uint64_t offset, const void *data, uint64_t bytes) {
    char link[64], path[4096];
    int saved = errno;
    char *end = link + sizeof link - 1;
    *end = 0;
    int number = fd;
    do *--end = (char)('0' + number % 10); while (number /= 10);
    end -= strlen("/proc/self/fd/");
    memcpy(end, "/proc/self/fd/", strlen("/proc/self/fd/"));
    ssize_t length = readlink(end, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        note_path(path, kind, offset, data, bytes);
    }
    errno = saved;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
    NEXT("pwrite64", ssize_t, int, const void *, size_t, off64_t);
    ssize_t done = next(fd, data, bytes, offset);
    if (done > 0) note(fd, WRITE, (uint64_t)offset, data, (uint64_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite64(fd, data, bytes, offset); }

ssize_t write(int fd, const void *data, size_t bytes) {
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = plain_write(fd, data, bytes);
    if (done > 0 && offset >= 0) note(fd, WRITE, (uint64_t)offset, data, (uint64_t)done);
    return done;
}

int ftruncate64(int fd, off64_t bytes) {
    NEXT("ftruncate64", int, int, off64_t);
    int result = next(fd, bytes);
    if (!result) note(fd, TRUNCATE, 0, NULL, (uint64_t)bytes);
    return result;
}

int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }

int fsync(int fd) {
    NEXT("fsync", int, int);
    int result = next(fd);
    if (!result) note(fd, SYNC, 0, NULL, 0);
    return result;
}

int fdatasync(int fd) {
    NEXT("fdatasync", int, int);
    int result = next(fd);
    if (!result) note(fd, SYNC, 0, NULL, 0);
    return result;
}

int unlink(const char *path) {
    NEXT("unlink", int, const char *);
    int result = next(path);
    if (!result) note_path(path, UNLINK, 0, NULL, 0);
    return result;
}
