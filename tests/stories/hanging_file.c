/* Preloaded into the server: while the file named by HANGING_FILE exists, reads of files whose names end in "stuck.h5" do
 * not return. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_meant(int fd) {
    static const char end[] = "stuck.h5";
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    const ssize_t tail = sizeof end - 1;
    return length > tail && memcmp(path + length - tail, end, tail) == 0;
}

ssize_t pread64(int fd, void *into, size_t bytes, off64_t at) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    const char *switch_file = getenv("HANGING_FILE");
    if (switch_file && access(switch_file, F_OK) == 0 && is_meant(fd))
        while (access(switch_file, F_OK) == 0) usleep(10000);
    if (!next) next = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    return next(fd, into, bytes, at);
}

ssize_t pread(int fd, void *into, size_t bytes, off_t at) { return pread64(fd, into, bytes, at); }
