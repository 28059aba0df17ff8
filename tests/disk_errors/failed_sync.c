// A disk whose sync fails the way Linux lets it fail: what was not written stays in the page cache as if it
// were. To be preloaded (LD_PRELOAD). The file SHADOW has what the disk of nanoclaw.redb has. While the file
// TRIGGER exists, syncs of the store fail, one for each byte in it; what was written since the last good
// sync never reaches SHADOW. A direct read of the store reads SHADOW. Before it, the cached pages are gone,
// unless the file KEEP exists: a kernel that does not drop them. If the file DRIVE exists, direct reads see
// what was not written, too: a drive answers them from its own cache, which a power loss empties.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct change {
    off_t at;
    size_t bytes; // 0: the new length of the file is `at`
    char *data;
    struct change *next;
};

static struct change *first, **last = &first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int ends_as_store(const char *path) {
    const char *name = "nanoclaw.redb";
    size_t length = strlen(path), suffix = strlen(name);
    return length >= suffix && !strcmp(path + length - suffix, name);
}

static int is_store(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return ends_as_store(path);
}

static int is_there(const char *variable) {
    struct stat found;
    const char *path = getenv(variable);
    return path && !stat(path, &found);
}

static int shadow(void) { return REAL(open64)(getenv("SHADOW"), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }

// Makes one file like the other.
static void copy(int from, int to) {
    static char block[1 << 16];
    off_t at = 0;
    ssize_t count;
    while ((count = pread(from, block, sizeof block, at)) > 0) {
        if (REAL(pwrite64)(to, block, count, at) != count) abort();
        at += count;
    }
    if (REAL(ftruncate64)(to, at)) abort();
}

static void remember(int fd, off_t at, const void *data, size_t bytes) {
    if (!is_store(fd)) return;
    struct change *change = malloc(sizeof *change);
    *change = (struct change){at, bytes, memcpy(malloc(bytes + 1), data, bytes), 0};
    pthread_mutex_lock(&lock);
    *last = change;
    last = &change->next;
    pthread_mutex_unlock(&lock);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    int fd = REAL(open64)(path, flags & ~O_DIRECT, mode);
    if (fd < 0 || !ends_as_store(path)) return fd;
    int disk = shadow();
    struct stat found;
    if (!(flags & O_DIRECT) || is_there("DRIVE")) {
        if ((flags & O_ACCMODE) == O_RDWR && !fstat(disk, &found) && found.st_size == 0) copy(fd, disk);
        close(disk);
        return fd;
    }
    if (!is_there("KEEP")) {
        int cache = REAL(open64)(path, O_RDWR | O_CLOEXEC);
        copy(disk, cache);
        close(cache);
    }
    close(fd);
    return disk;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) {
    ssize_t count = REAL(pwrite64)(fd, data, bytes, at);
    if (count > 0) remember(fd, at, data, count);
    return count;
}

int ftruncate64(int fd, off_t bytes) {
    int outcome = REAL(ftruncate64)(fd, bytes);
    if (!outcome) remember(fd, bytes, "", 0);
    return outcome;
}

// Uses up one byte of TRIGGER.
static int fails(void) {
    struct stat found;
    const char *trigger = getenv("TRIGGER");
    if (stat(trigger, &found)) return 0;
    return found.st_size <= 1 ? !unlink(trigger) : !truncate(trigger, found.st_size - 1);
}

static int sync_store(void) {
    pthread_mutex_lock(&lock);
    int has_failed = fails(), disk = shadow();
    while (first) {
        struct change *change = first;
        if (!has_failed && change->bytes) REAL(pwrite64)(disk, change->data, change->bytes, change->at);
        if (!has_failed && !change->bytes && REAL(ftruncate64)(disk, change->at)) abort();
        first = change->next;
        free(change->data);
        free(change);
    }
    last = &first;
    close(disk);
    pthread_mutex_unlock(&lock);
    errno = EIO;
    return has_failed ? -1 : 0;
}

int fdatasync(int fd) { return is_store(fd) ? sync_store() : REAL(fdatasync)(fd); }
int fsync(int fd) { return is_store(fd) ? sync_store() : REAL(fsync)(fd); }
