/*
 * doctor_load.c - see commands/doctor_load.h.
 */
#include "tool/commands/doctor_load.h"

#include "safetensors/os/dir.h"
#include "tool/child.h"
#include "tool/cli.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLUGIN_TYPE_FILTER 0 /* H5PL_TYPE_FILTER */
#define FILTER_CLASS_VERSION 1

/* The begin of HDF5's H5Z_class2_t. */
typedef struct filter_class {
    int version;
    int id;
} filter_class;

typedef struct load_task {
    const char *path;
    doctor_loaded *loaded;
} load_task;

static void inspect(void *library, doctor_loaded *loaded)
{
    int (*get_type)(void) = NULL;
    const void *(*get_info)(void) = NULL;
    void *const type_symbol = dlsym(library, "H5PLget_plugin_type");
    void *const info_symbol = dlsym(library, "H5PLget_plugin_info");
    memcpy(&get_type, &type_symbol, sizeof(get_type));
    memcpy(&get_info, &info_symbol, sizeof(get_info));
    if (get_type == NULL || get_info == NULL || get_type() != PLUGIN_TYPE_FILTER) {
        snprintf(loaded->cause, sizeof(loaded->cause), "it is no plugin with an HDF5 filter");
        return;
    }
    const filter_class *const class = get_info();
    if (class == NULL || class->version != FILTER_CLASS_VERSION) {
        snprintf(loaded->cause, sizeof(loaded->cause), "its filter is of a kind unknown here");
        return;
    }
    loaded->filter_id = class->id;
}

/* A library that waits when it is loaded is ended by SIGALRM. */
#define LOAD_SECONDS 10

_Static_assert(sizeof(doctor_loaded) <= CLI_RECORD_NBYTES_MAX, "records of a child");

/* cli_child.work */
static int load(void *user, int pipe_fd)
{
    const load_task *const task = user;
    doctor_loaded loaded = {0, ""};
    cli_child_confine();
    cli_child_goes_on();
    alarm(LOAD_SECONDS);
    void *const library = dlopen(task->path, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        const char *cause = dlerror();
        const size_t length = strlen(task->path);
        cause = cause != NULL ? cause : "unknown cause";
        cause += strncmp(cause, task->path, length) == 0 && cause[length] == ':' ? length + 2 : 0;
        snprintf(loaded.cause, sizeof(loaded.cause), "%s", cause);
    } else {
        inspect(library, &loaded);
    }
    return cli_send(pipe_fd, &loaded, sizeof(loaded)) ? CLI_OK : CLI_SYSTEM;
}

/* cli_child.take */
static void take(void *user, const void *record)
{
    memcpy(((load_task *)user)->loaded, record, sizeof(doctor_loaded));
}

int doctor_load(const char *path, doctor_loaded *loaded)
{
    load_task task = {path, loaded};
    const cli_child child = {
        .work = load, .take = take, .record_nbytes = sizeof(doctor_loaded), .user = &task};
    int status = 0;
    if (!os_is_file(path)) { /* to open a pipe would wait for a writer, here as in HDF5 */
        snprintf(loaded->cause, sizeof(loaded->cause), "it is not a regular file");
        return CLI_OK;
    }
    snprintf(loaded->cause, sizeof(loaded->cause), "nothing is known of it");
    const int failure = cli_run_child(&child, &status);
    if (failure == CLI_OK && WIFSIGNALED(status)) {
        snprintf(loaded->cause, sizeof(loaded->cause), "it kills the process that loads it (signal %d)",
                 WTERMSIG(status));
    }
    return failure;
}
