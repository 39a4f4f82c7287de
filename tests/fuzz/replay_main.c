/*
 * replay_main.c - runs stored inputs through a fuzz target, without a fuzzer.
 *
 * Arguments are files, tables of inputs (.tsv) and directories, which are read recursively. Inputs run in a child, many
 * after each other; if it fails, each of them runs again in a child of its own, so that a crash is counted and the rest
 * still runs. The last line is "N passed, N failed".
 */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/input_table.h"

#define SECONDS_PER_INPUT 20
#define INPUTS_PER_CHILD 32

typedef struct replay_input {
    char *name;
    uint8_t *data;
    size_t nbytes;
} replay_input;

static replay_input waiting[INPUTS_PER_CHILD];
static size_t waiting_count;
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

/* Runs inputs after each other in a child, which looks for leaks at its end if it is built to. Returns its status. */
static int run_inputs(const replay_input *inputs, size_t count)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < count; i++) {
            alarm(SECONDS_PER_INPUT);
            LLVMFuzzerTestOneInput(inputs[i].data, inputs[i].nbytes);
        }
        exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(2);
    }
    return status;
}

static void count_input(const char *name, int status)
{
    if (status == 0) {
        passed_count++;
    } else {
        failed_count++;
        printf("FAIL %s (wait status 0x%x)\n", name, (unsigned)status);
    }
}

/* Runs and frees the inputs that wait. If they fail only together, the last one is counted as failed. */
static void run_waiting(void)
{
    const int together = waiting_count > 0 ? run_inputs(waiting, waiting_count) : 0;
    int is_found = together == 0;
    for (size_t i = 0; i < waiting_count; i++) {
        int status = together == 0 ? 0 : run_inputs(&waiting[i], 1);
        is_found |= status != 0;
        if (i + 1 == waiting_count && !is_found)
            status = together;
        count_input(waiting[i].name, status);
        free(waiting[i].name);
        free(waiting[i].data);
    }
    waiting_count = 0;
}

/* Takes `data`. */
static void add_input(const char *name, uint8_t *data, size_t nbytes)
{
    char *const copy = fuzz_malloc(strlen(name) + 1);
    strcpy(copy, name);
    waiting[waiting_count++] = (replay_input){copy, data, nbytes};
    if (waiting_count == INPUTS_PER_CHILD)
        run_waiting();
}

static void replay_table(const char *path)
{
    size_t count;
    input_line *const lines = input_table_read(path, &count);
    for (size_t i = 0; i < count; i++) {
        size_t nbytes;
        uint8_t *const data = input_bytes(lines[i].input, &nbytes);
        add_input(lines[i].name, data, nbytes);
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
        add_input(path, read_file(path, (size_t)about.st_size), (size_t)about.st_size);
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
    run_waiting();
    printf("%u passed, %u failed\n", passed_count, failed_count);
    return passed_count == 0 || failed_count > 0;
}
