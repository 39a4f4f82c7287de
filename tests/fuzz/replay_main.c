/*
 * replay_main.c - runs stored inputs through a fuzz target, without a fuzzer.
 *
 * Arguments are files, tables of inputs (.tsv) and directories, which are read recursively. Each input has a process of
 * its own, so that a crash is counted and the rest still runs. The last line is "N passed, N failed".
 */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/input_table.h"

#define SECONDS_PER_INPUT 20

static unsigned passed_count, failed_count;

/* The whole file in a block of exactly its size. */
static uint8_t *read_file(const char *path, size_t nbytes)
{
    uint8_t *const data = fuzz_malloc(nbytes);
    FILE *const file = fopen(path, "rb");
    if (file == NULL || fread(data, 1, nbytes, file) != nbytes) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return data;
}

/* Frees `data`. */
static void replay_input(const char *name, uint8_t *data, size_t nbytes)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_PER_INPUT);
        LLVMFuzzerTestOneInput(data, nbytes);
        free(data);
        exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(2);
    }
    if (status == 0) {
        passed_count++;
    } else {
        failed_count++;
        printf("FAIL %s (wait status 0x%x)\n", name, (unsigned)status);
    }
    free(data);
}

static void replay_table(const char *path)
{
    size_t count;
    input_line *const lines = input_table_read(path, &count);
    for (size_t i = 0; i < count; i++) {
        size_t nbytes;
        uint8_t *const data = input_bytes(lines[i].input, &nbytes);
        replay_input(lines[i].name, data, nbytes);
    }
    input_table_free(lines);
}

static void replay(const char *path)
{
    struct stat about;
    const char *const suffix = strrchr(path, '.');
    if (stat(path, &about) != 0) {
        perror(path);
        failed_count++;
        return;
    }
    if (!S_ISDIR(about.st_mode) && suffix != NULL && strcmp(suffix, ".tsv") == 0) {
        replay_table(path);
        return;
    }
    if (!S_ISDIR(about.st_mode)) {
        replay_input(path, read_file(path, (size_t)about.st_size), (size_t)about.st_size);
        return;
    }
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char below[4096];
        const int length = snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof(below))
            replay(below);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u passed, %u failed\n", passed_count, failed_count);
    return passed_count == 0 || failed_count > 0;
}
