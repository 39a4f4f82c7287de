/*
 * tool_path.c - paths: their text, and what they lead to.
 */
#include "tool/tool_path.h"

#include "common/own_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *cli_copy(const char *text, size_t nbytes)
{
    char *const copy = malloc(nbytes + 1);
    if (copy) {
        memcpy(copy, text, nbytes);
        copy[nbytes] = '\0';
    }
    return copy;
}

int cli_is_similar(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

int cli_is_same_state(const os_state *a, const os_state *b, int is_renamed)
{
    return os_is_same_file(a, b) && a->nbytes == b->nbytes && a->modified_s == b->modified_s &&
           a->modified_ns == b->modified_ns &&
           (is_renamed || (a->changed_s == b->changed_s && a->changed_ns == b->changed_ns));
}

int cli_is_own_directory(const char *path)
{
    os_state found;
    char *const text = cli_copy(path, lmc_path_length(path)); /* a slash at the end would follow a link */
    if (!text)
        return 0;
    const char *const name = lmc_last_component(text);
    const int is_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                       os_lstat(OS_HERE, text, &found) == 0 && found.kind == OS_FOLDER;
    free(text);
    return is_own;
}

char *cli_own_name(const char *path)
{
    char *text = cli_copy(path, lmc_path_length(path));
    const char *name = text ? lmc_last_component(text) : "";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        char *const real = os_real_path(path);
        if (real) {
            free(text);
            text = real;
            name = lmc_last_component(text);
        }
    }
    char *const copy = text ? strdup(name) : NULL;
    free(text);
    return copy;
}

/* Archives in a folder. */
typedef struct archives {
    const char *folder;
    char *found; /* the path of the first */
    size_t count;
} archives;

static int visit_archive(void *user, const char *name)
{
    archives *const archives = user;
    char *const path =
        lmc_is_archive_name(name) ? lmc_path_join(&lmc_memory_default, archives->folder, name, "") : NULL;
    if (path && os_is_file(path) && archives->count++ == 0)
        archives->found = path;
    else
        free(path);
    return archives->count > 1;
}

char *cli_archive_of_step(const char *folder)
{
    archives archives = {.folder = folder};
    char *const list = lmc_path_join(&lmc_memory_default, folder, "../" LMC_RUN_LIST, "");
    char *const text = cli_copy(folder, lmc_path_length(folder));
    if (list && text) { /* "RUN/STEP" where RUN has a list of steps */
        const char *const name = lmc_last_component(text);
        if (name[0] != '\0' && name[strspn(name, "0123456789")] == '\0' && os_is_file(list))
            (void)os_visit_path(folder, visit_archive, &archives);
    }
    free(text);
    free(list);
    if (archives.count == 1)
        return archives.found;
    free(archives.found);
    return NULL;
}
