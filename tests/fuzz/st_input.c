/*
 * st_input.c - see st_input.h.
 */
#include "st_input.h"

#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file without a name. */
static int open_nameless(void)
{
    char path[] = "/tmp/lmc-fuzz-XXXXXX";
    char path_in_memory[] = "/dev/shm/lmc-fuzz-XXXXXX";
    char *used = path_in_memory;
    int fd = mkstemp(used);
    if (fd < 0) {
        used = path;
        fd = mkstemp(used);
    }
    FUZZ_CLAIM(fd >= 0);
    FUZZ_CLAIM(unlink(used) == 0);
    return fd;
}

const char *fuzz_input_path(const void *data, size_t nbytes)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = open_nameless();
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    FUZZ_CLAIM(ftruncate(fd, (off_t)nbytes) == 0);
    FUZZ_CLAIM(nbytes == 0 || pwrite(fd, data, nbytes, 0) == (ssize_t)nbytes);
    return path;
}

void fuzz_directory_make(fuzz_directory *directory)
{
    strcpy(directory->path, "/dev/shm/lmc-fuzz-XXXXXX");
    if (mkdtemp(directory->path) == NULL) {
        strcpy(directory->path, "/tmp/lmc-fuzz-XXXXXX");
        FUZZ_CLAIM(mkdtemp(directory->path) != NULL);
    }
    snprintf(directory->file, sizeof(directory->file), "%s/out", directory->path);
    snprintf(directory->other_file, sizeof(directory->other_file), "%s/other", directory->path);
}

void fuzz_directory_remove(const fuzz_directory *directory)
{
    unlink(directory->file);
    unlink(directory->other_file);
    FUZZ_CLAIM(rmdir(directory->path) == 0);
}

int fuzz_file_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

void fuzz_claim_file(const char *path, const void *data, size_t nbytes)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    FUZZ_CLAIM(fd >= 0 && fstat(fd, &about) == 0);
    FUZZ_CLAIM((uint64_t)about.st_size == nbytes);
    uint8_t *const bytes = fuzz_malloc(nbytes);
    FUZZ_CLAIM(read(fd, bytes, nbytes) == (ssize_t)nbytes);
    FUZZ_CLAIM(memcmp(bytes, data, nbytes) == 0);
    free(bytes);
    close(fd);
}

void fuzz_change_file(const char *path, uint64_t offset)
{
    uint8_t byte;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    FUZZ_CLAIM(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
    byte ^= 1;
    FUZZ_CLAIM(pwrite(fd, &byte, 1, (off_t)offset) == 1);
    close(fd);
}
