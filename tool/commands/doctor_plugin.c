/*
 * doctor_plugin.c - finding LMC's HDF5 plugin as HDF5 does (docs/hdf5-filter.md, section 4), and loading it in a
 * process of its own.
 */
#define _XOPEN_SOURCE 700 /* realpath, strdup */

#include "tool/commands/doctor_plugin.h"

#include "tool/child.h"
#include "tool/cli.h"
#include "tool/path.h"
#include "tool/text.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <lmc_h5.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN_NAME "libh5lmc.so"
#define SHOWN_NBYTES 160

void doctor_problem(doctor_problems *problems, const char *format, ...)
{
    va_list arguments;
    if (problems->count == DOCTOR_PROBLEMS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(problems->texts[problems->count++], DOCTOR_PROBLEM_NBYTES, format, arguments);
    va_end(arguments);
}

/* ---- this program's own ---- */

#ifdef LMC_PLUGIN_DIR_FROM_BIN
/* Looks where the plugin lies as installed, and as built. A place that is not relative was asked for so. */
static void find_own(doctor_plugin *plugin)
{
    static const char *const places[] = {LMC_PLUGIN_DIR_FROM_BIN, LMC_PLUGIN_DIR_FROM_BUILD};
    char program[PATH_MAX] = "";
    char path[2 * PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *const slash = length > 0 ? strrchr(program, '/') : NULL;
    if (slash)
        slash[1] = '\0'; /* the directory of the program */
    plugin->why_not = slash ? "not where this program looks for it: the program was moved alone"
                            : "not known: the system does not tell where this program lies";
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int is_absolute = places[i][0] == '/';
        if (!slash && !is_absolute)
            continue;
        snprintf(path, sizeof path, "%s%s/" PLUGIN_NAME, is_absolute ? "" : program, places[i]);
        if (realpath(path, plugin->path) && cli_is_file(plugin->path))
            return;
        plugin->path[0] = '\0';
    }
}
#else
static void find_own(doctor_plugin *plugin)
{
    plugin->why_not = "none: built without it (LMC_BUILD_FILTER)";
}
#endif

/* ---- is a file LMC's plugin? ---- */

static int have_equal_content(const char *path, const char *other)
{
    FILE *const a = fopen(path, "rb");
    FILE *const b = fopen(other, "rb");
    int is_equal = a && b;
    for (int byte = 0; is_equal && byte != EOF;) {
        byte = getc(a);
        is_equal = getc(b) == byte;
    }
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return is_equal;
}

/* What loading a library gives. */
typedef struct loaded {
    int filter_id;
    char cause[400]; /* why it is no filter plugin; "": it is one */
} loaded;

/* In the child: loads the library as HDF5 does. */
static int load_plugin(void *user, void *answer)
{
    struct filter_class { /* the begin of HDF5's H5Z_class2_t */
        int version, id;
    };
    enum { PLUGIN_TYPE_FILTER = 0, FILTER_CLASS_VERSION = 1 };
    const char *const path = user;
    loaded *const loaded = answer;
    int (*get_type)(void) = NULL;
    const void *(*get_info)(void) = NULL;
    void *const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        const char *cause = dlerror();
        const size_t length = strlen(path);
        cause = cause ? cause : "unknown cause";
        cause += strncmp(cause, path, length) == 0 && cause[length] == ':' ? length + 2 : 0;
        snprintf(loaded->cause, sizeof loaded->cause, "%s", cause);
        return 1;
    }
    void *const type_symbol = dlsym(library, "H5PLget_plugin_type");
    void *const info_symbol = dlsym(library, "H5PLget_plugin_info");
    memcpy(&get_type, &type_symbol, sizeof get_type);
    memcpy(&get_info, &info_symbol, sizeof get_info);
    const int is_filter = get_type && get_info && get_type() == PLUGIN_TYPE_FILTER;
    const struct filter_class *const class = is_filter ? get_info() : NULL;
    if (!is_filter)
        snprintf(loaded->cause, sizeof loaded->cause, "it is no plugin with an HDF5 filter");
    else if (!class || class->version != FILTER_CLASS_VERSION)
        snprintf(loaded->cause, sizeof loaded->cause, "its filter is of a kind unknown here");
    else
        loaded->filter_id = class->id;
    return 1;
}

/* Adds a problem unless the file is a plugin for LMC's filter. Returns CLI_OK, or the exit status when a signal ended
 * this process or the system has no process left. */
static int try_plugin(char *path, doctor_lmc *lmc, doctor_problems *problems)
{
    char shown[SHOWN_NBYTES];
    char cause[SHOWN_NBYTES];
    loaded loaded = {
        0, "it is not a regular file"}; /* to open a pipe would wait for a writer, here as in HDF5 */
    int status = CLI_OK;
    if (cli_is_file(path)) {
        int outcome = 0;
        status = cli_ask_child(load_plugin, path, &loaded, sizeof loaded, &outcome);
        if (outcome == CLI_CHILD_SILENT)
            snprintf(loaded.cause, sizeof loaded.cause, "nothing is known of it");
        else if (outcome != CLI_CHILD_ANSWERED)
            snprintf(loaded.cause, sizeof loaded.cause, "it kills the process that loads it (signal %d)",
                     outcome);
    }
    cli_shown(shown, sizeof shown, path);
    *lmc = DOCTOR_LMC_BROKEN;
    if (loaded.cause[0] != '\0')
        doctor_problem(problems, "%s cannot be used: %s", shown,
                       cli_shown(cause, sizeof cause, loaded.cause));
    else if (loaded.filter_id != LMC_H5_FILTER_ID)
        doctor_problem(problems, "%s is for filter %d, this LMC has filter %d", shown, loaded.filter_id,
                       LMC_H5_FILTER_ID);
    else
        *lmc = DOCTOR_LMC_OTHER;
    return status;
}

/* ---- entries of HDF5_PLUGIN_PATH ---- */

/* HDF5 opens every file of such a name. */
static int is_library(const struct dirent *file)
{
    return strncmp(file->d_name, "lib", 3) == 0 && strstr(file->d_name, ".so") != NULL;
}

/* Looks at the libraries of an entry, which HDF5 would open. Of the names of LMC's plugin the first one is tried. */
static int look_at_libraries(const doctor_plugin *plugin, doctor_entry *entry, struct dirent **files,
                             int count, doctor_problems *problems)
{
    char shown[SHOWN_NBYTES];
    char dangling[SHOWN_NBYTES];
    char path[PATH_MAX];
    char lmc_path[PATH_MAX] = "";
    cli_shown(shown, sizeof shown, entry->directory);
    for (int i = 0; i < count; i++) {
        struct stat found;
        const char *const name = files[i]->d_name;
        if (snprintf(path, sizeof path, "%s/%s", entry->directory, name) >= (int)sizeof path)
            continue;
        if (stat(path, &found) != 0) {
            entry->dangling++;
            cli_shown(dangling, sizeof dangling, name);
        } else if (!S_ISDIR(found.st_mode)) {
            entry->libraries++;
            if (lmc_path[0] == '\0' && strncmp(name, PLUGIN_NAME, strlen(PLUGIN_NAME)) == 0)
                strcpy(lmc_path, path);
        }
    }
    if (entry->dangling != 0)
        doctor_problem(problems,
                       "HDF5_PLUGIN_PATH has %s: %s leads nowhere%s; HDF5 1.10 then gives up its search",
                       shown, dangling, entry->dangling > 1 ? ", others too" : "");
    if (entry->libraries == 0)
        doctor_problem(problems, "HDF5_PLUGIN_PATH has %s: there is no lib*.so in it", shown);
    if (lmc_path[0] == '\0')
        return CLI_OK;
    const int status = try_plugin(lmc_path, &entry->lmc, problems);
    if (entry->lmc == DOCTOR_LMC_OTHER && have_equal_content(lmc_path, plugin->path))
        entry->lmc = DOCTOR_LMC_THIS;
    return status;
}

static int look_at_entry(const doctor_plugin *plugin, doctor_entry *entry, doctor_problems *problems)
{
    char shown[SHOWN_NBYTES];
    struct dirent **files = NULL;
    const int count = scandir(entry->directory, &files, is_library, alphasort);
    if (count < 0) {
        entry->os_errno = errno;
        doctor_problem(problems, "HDF5_PLUGIN_PATH has %s: %.60s; HDF5 1.10 then looks at no further entry",
                       cli_shown(shown, sizeof shown, entry->directory), strerror(entry->os_errno));
        return CLI_OK;
    }
    const int status = look_at_libraries(plugin, entry, files, count, problems);
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return status;
}

/* Looks at each entry of HDF5_PLUGIN_PATH. As in HDF5, empty entries are none. */
static int look_at_path(doctor_plugin *plugin, const char *text, doctor_problems *problems)
{
    int status = CLI_OK;
    int is_found = 0;
    char *state = NULL;
    plugin->is_path_set = 1;
    plugin->path_text = strdup(text);
    if (!plugin->path_text)
        return cli_fail_nomem();
    char *directory = strtok_r(plugin->path_text, ":", &state);
    for (; directory && status == CLI_OK && plugin->entry_count < DOCTOR_ENTRIES_MAX;
         directory = strtok_r(NULL, ":", &state)) {
        doctor_entry *const entry = &plugin->entries[plugin->entry_count++];
        entry->directory = directory;
        status = look_at_entry(plugin, entry, problems);
        is_found |= entry->lmc != DOCTOR_LMC_NONE;
    }
    if (directory)
        doctor_problem(problems, "HDF5_PLUGIN_PATH has more than %d entries; the others were not looked at",
                       DOCTOR_ENTRIES_MAX);
    if (!is_found)
        doctor_problem(problems, "HDF5_PLUGIN_PATH is set, but " PLUGIN_NAME " is in none of its entries");
    return status;
}

int doctor_plugin_find(doctor_plugin *plugin, doctor_problems *problems)
{
    const char *const text = getenv("HDF5_PLUGIN_PATH");
    const char *const preload = getenv("HDF5_PLUGIN_PRELOAD");
    int status = CLI_OK;
    doctor_lmc own;
    find_own(plugin);
    if (plugin->path[0] != '\0')
        status = try_plugin(plugin->path, &own, problems);
    if (preload && strcmp(preload, "::") == 0)
        doctor_problem(problems, "HDF5_PLUGIN_PRELOAD is \"::\": HDF5 loads no plugin");
    return text && status == CLI_OK ? look_at_path(plugin, text, problems) : status;
}

void doctor_plugin_free(doctor_plugin *plugin)
{
    free(plugin->path_text);
}

/* ---- output ---- */

static void show_entry(const doctor_plugin *plugin, const doctor_entry *entry)
{
    char shown[SHOWN_NBYTES];
    cli_shown(shown, sizeof shown, entry->directory);
    printf("HDF5 path:     %s: ", shown);
    if (entry->os_errno != 0) {
        printf("%s\n", strerror(entry->os_errno));
        return;
    }
    printf("%u librar%s", entry->libraries, entry->libraries == 1 ? "y" : "ies");
    switch (entry->lmc) {
    case DOCTOR_LMC_NONE: printf("\n"); break;
    case DOCTOR_LMC_THIS: printf(", LMC\n"); break;
    case DOCTOR_LMC_OTHER: printf(", LMC%s\n", plugin->path[0] != '\0' ? " of another build" : ""); break;
    case DOCTOR_LMC_BROKEN: printf(", " PLUGIN_NAME " that does not work\n"); break;
    }
}

/* The line that makes HDF5 find the plugin. */
static void show_export(const char *path)
{
    char shown[PATH_MAX];
    const size_t length = (size_t)(strrchr(path, '/') - path);
    const size_t plain = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-");
    const char *const quote = plain < length ? "'" : "";
    cli_escape(shown, sizeof shown, path, length);
    printf("HDF5 path:     HDF5_PLUGIN_PATH is not set; HDF5 programs find LMC after\n"
           "               export HDF5_PLUGIN_PATH=%s%s%s\n",
           quote, shown, quote);
}

void doctor_plugin_show(const doctor_plugin *plugin)
{
    char shown[PATH_MAX];
    printf("HDF5 filter:   %d\n", LMC_H5_FILTER_ID);
    cli_shown(shown, sizeof shown, plugin->path);
    printf("HDF5 plugin:   %s\n", plugin->path[0] != '\0' ? shown : plugin->why_not);
    if (plugin->path[0] != '\0' && !plugin->is_path_set)
        show_export(plugin->path);
    else if (!plugin->is_path_set)
        printf("HDF5 path:     HDF5_PLUGIN_PATH is not set\n");
    for (int i = 0; i < plugin->entry_count; i++)
        show_entry(plugin, &plugin->entries[i]);
}

static const char *status_name(const doctor_entry *entry)
{
    return entry->os_errno != 0    ? "unusable"
           : entry->dangling != 0  ? "dangling link"
           : entry->libraries == 0 ? "no library"
                                   : "ok";
}

void doctor_plugin_show_json(const doctor_plugin *plugin)
{
    static const char *const lmc_names[] = {"none", "this", "other", "broken"};
    printf(",\"filter_id\":%d,\"plugin_path\":", LMC_H5_FILTER_ID);
    cli_json_text(plugin->path[0] != '\0' ? plugin->path : NULL);
    printf(",\"plugin_path_entries\":%s", plugin->is_path_set ? "[" : "null");
    for (int i = 0; i < plugin->entry_count; i++) {
        const doctor_entry *const entry = &plugin->entries[i];
        printf("%s{\"directory\":", i == 0 ? "" : ",");
        cli_json_text(entry->directory);
        printf(",\"status\":\"%s\",\"libraries\":%u,\"has_lmc\":%s,\"lmc\":\"%s\"}", status_name(entry),
               entry->libraries,
               entry->lmc == DOCTOR_LMC_THIS || entry->lmc == DOCTOR_LMC_OTHER ? "true" : "false",
               lmc_names[entry->lmc]);
    }
    if (plugin->is_path_set)
        printf("]");
}
