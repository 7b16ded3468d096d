/* Preloaded into the server: while the file named by FAILING_DISK exists, every read of an HDF5 file fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd) {
    const char *switch_file = getenv("FAILING_DISK");
    char link[64], path[4096];
    if (!switch_file || access(switch_file, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 3 && memcmp(path + length - 3, ".h5", 3) == 0;
}

ssize_t pread64(int fd, void *into, size_t bytes, off64_t at) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    if (!next) next = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    return next(fd, into, bytes, at);
}

ssize_t pread(int fd, void *into, size_t bytes, off_t at) { return pread64(fd, into, bytes, at); }
