/*
 * kept.c - kept.h: runs and stores are told by what their lists and marks say of themselves, since other programs have
 * files of these names, too.
 */
#include "safetensors/files/kept.h"

#include "common/own_files.h"
#include "safetensors/files/directories.h"
#include "safetensors/files/folder.h"

#include <errno.h>
#include <string.h>

/* Of a list or mark, from its start: the format stands there. */
#define START_NBYTES 4096

/* 1 if the start of the file has the format. What cannot be read may have it. */
static int has_format(int folder_fd, const char *name, const char *format)
{
    char text[START_NBYTES + 1];
    uint64_t nbytes = 0;
    if (!st_folder_file_nbytes(folder_fd, name, &nbytes))
        return 0;
    const int fd = os_open(folder_fd, name);
    if (fd < 0)
        return errno != ENOENT;
    const int64_t got = os_read_at(fd, 0, text, START_NBYTES);
    (void)os_close(fd);
    if (got < 0)
        return 1;
    text[got] = '\0';
    return strstr(text, format) != NULL;
}

/* A folder that may not be looked into is none. */
static lmc_store_kind kind_of(const char *folder)
{
    const int fd = os_open_folder(folder);
    if (fd < 0)
        return LMC_STORE_NONE;
    const int is_run = has_format(fd, LMC_RUN_LIST, "\"" LMC_RUN_FORMAT "\"");
    const int is_store = !is_run && has_format(fd, LMC_STORE_MARK, "\"" LMC_STORE_FORMAT "\"");
    (void)os_close(fd);
    return is_run ? LMC_STORE_RUN : is_store ? LMC_STORE_MODELS : LMC_STORE_NONE;
}

int st_kept_find(const lmc_allocator *memory, const char *path, st_kept *kept)
{
    *kept = (st_kept){.root = st_true_path(memory, path)};
    if (!kept->root)
        return errno != ENOMEM;
    for (;;) {
        kept->kind = kind_of(kept->root);
        char *const slash = kept->kind == LMC_STORE_NONE ? strrchr(kept->root, '/') : NULL;
        if (!slash || !memchr(kept->root, '/', (size_t)(slash - kept->root))) /* "C:" is no root */
            break;
        *slash = '\0';
        kept->depth++;
    }
    if (kept->kind == LMC_STORE_NONE) {
        st_release(memory, kept->root);
        *kept = (st_kept){0};
    }
    return 1;
}

lmc_status st_kept_check_output(const st_options *options, const char *out_path, lmc_st_diag *diag)
{
    os_state found;
    st_kept kept;
    if (!options->force || options->out_fd >= 0 || os_lstat(OS_HERE, out_path, &found) != 0)
        return LMC_OK;
    if (!st_kept_find(options->allocator, out_path, &kept))
        return st_fail_nomem(diag);
    if (!kept.root)
        return LMC_OK;
    const char *const kind = kept.kind == LMC_STORE_RUN ? "run" : "store";
    st_diag_set_file(diag, out_path);
    if (kept.depth == 0)
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is a %s, which no output replaces", kind);
    else
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is in the %s %.400s, where no output replaces anything",
                kind, kept.root);
    st_release(options->allocator, kept.root);
    return LMC_ERR_ARG;
}

lmc_status lmc_store_locate(const char *path, lmc_store_kind *kind, unsigned *depth)
{
    st_kept kept;
    const int has_memory = st_kept_find(&lmc_memory_default, path, &kept);
    *kind = kept.kind;
    *depth = kept.depth;
    st_release(&lmc_memory_default, kept.root);
    return has_memory ? LMC_OK : LMC_ERR_NOMEM;
}
