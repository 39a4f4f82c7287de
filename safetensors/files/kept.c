/*
 * kept.c - kept.h: runs and stores are told by what their lists and marks say of themselves, since other programs have
 * files of these names, too.
 */
#include "safetensors/files/kept.h"

#include "common/own_files.h"
#include "common/text.h"
#include "safetensors/files/directories.h"
#include "safetensors/files/folder.h"

#include <errno.h>
#include <string.h>

#define CHUNK_NBYTES 4096 /* of a list or mark, read at once */

/* 1 if the file has the format. What cannot be read may have it; what is larger than a list may not. */
static int has_format(int folder_fd, const char *name, const char *format)
{
    char text[CHUNK_NBYTES + 1];
    const size_t overlap_nbytes = strlen(format) - 1;
    uint64_t nbytes = 0;
    if (!st_folder_file_nbytes(folder_fd, name, &nbytes) || nbytes > LMC_RUN_LIST_NBYTES_MAX)
        return 0;
    const int fd = os_open(folder_fd, name);
    if (fd < 0)
        return errno != ENOENT;
    int64_t got = CHUNK_NBYTES;
    int is_found = 0;
    for (uint64_t at = 0; got == CHUNK_NBYTES && !is_found; at += CHUNK_NBYTES - overlap_nbytes) {
        got = os_read_at(fd, at, text, CHUNK_NBYTES);
        for (int64_t i = 0; i < got; i++)
            text[i] = (char)(text[i] == '\0' ? ' ' : text[i]); /* the format may stand after it */
        if (got >= 0)
            text[got] = '\0';
        is_found = got < 0 || strstr(text, format) != NULL;
    }
    (void)os_close(fd);
    return is_found;
}

/* A folder that cannot be opened counts as neither, and so does a converted directory, which has copies of such
 * files. */
static lmc_store_kind kind_of(const char *folder)
{
    int is_converted = 0;
    lmc_store_kind kind = LMC_STORE_NONE;
    const int fd = os_open_folder(folder);
    if (fd < 0)
        return LMC_STORE_NONE;
    (void)st_folder_has(fd, LMC_COPIES_LIST, &is_converted); /* 0 after an error */
    if (!is_converted && has_format(fd, LMC_RUN_LIST, "\"" LMC_RUN_FORMAT "\""))
        kind = LMC_STORE_RUN;
    else if (!is_converted && has_format(fd, LMC_STORE_MARK, "\"" LMC_STORE_FORMAT "\""))
        kind = LMC_STORE_MODELS;
    (void)os_close(fd);
    return kind;
}

int st_kept_find(const lmc_allocator *memory, const char *path, st_kept *kept)
{
    *kept = (st_kept){.root = os_is_folder(path) ? st_true_path(memory, path) : st_true_name(memory, path)};
    if (!kept->root)
        return errno != ENOMEM;
    const size_t top_nbytes = os_root_nbytes(kept->root);
    for (;;) {
        kept->kind = kind_of(kept->root);
        const size_t nbytes = strlen(kept->root);
        if (kept->kind != LMC_STORE_NONE || nbytes <= top_nbytes)
            break;
        const size_t parent_nbytes = nbytes - strlen(lmc_last_component(kept->root));
        kept->root[parent_nbytes > top_nbytes ? parent_nbytes - 1 : parent_nbytes] = '\0';
        kept->depth++;
    }
    if (kept->kind == LMC_STORE_NONE) {
        st_release(memory, kept->root);
        *kept = (st_kept){0};
    }
    return 1;
}

/* ---- outputs ---- */

static const char *shown_kind(lmc_store_kind kind)
{
    return kind == LMC_STORE_RUN ? "run" : "store";
}

lmc_status st_kept_check_output(const st_options *options, const char *out_path, lmc_st_diag *diag)
{
    os_state found;
    st_kept kept;
    char shown[400];
    if (!options->force || options->out_fd >= 0 || os_lstat(OS_HERE, out_path, &found) != 0)
        return LMC_OK;
    if (!st_kept_find(options->allocator, out_path, &kept))
        return st_fail_nomem(diag);
    if (!kept.root)
        return LMC_OK;
    st_diag_set_file(diag, out_path);
    lmc_text_escape(shown, sizeof shown, kept.root, strlen(kept.root));
    if (kept.depth == 0)
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is a %s, which no output replaces",
                shown_kind(kept.kind));
    else
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is in the %s %s, where no output replaces anything",
                shown_kind(kept.kind), shown);
    st_release(options->allocator, kept.root);
    return LMC_ERR_ARG;
}

lmc_status st_kept_check_below(const lmc_allocator *memory, const char *directory, lmc_st_diag *diag)
{
    st_listing tree = {.count = 0};
    char shown[400];
    const int fd = os_open_folder(directory);
    if (fd < 0)
        return LMC_OK; /* what is no directory */
    lmc_status status = st_listing_read_as_it_stands(&tree, memory, fd, directory, diag);
    (void)os_close(fd);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const char *const name = lmc_last_component(tree.entries[i].path);
        if (strcmp(name, LMC_RUN_LIST) != 0 && strcmp(name, LMC_STORE_MARK) != 0)
            continue;
        char *const file = lmc_path_join(memory, directory, tree.entries[i].path, "");
        char *const folder = file ? lmc_directory_of(memory, file) : NULL;
        const lmc_store_kind kind = folder ? kind_of(folder) : LMC_STORE_NONE;
        if (!folder)
            status = st_fail_nomem(diag);
        else if (kind != LMC_STORE_NONE) {
            lmc_text_escape(shown, sizeof shown, folder, strlen(folder));
            status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "holds the %s %s, which no output replaces",
                             shown_kind(kind), shown);
        }
        st_release(memory, folder);
        st_release(memory, file);
    }
    st_listing_free(&tree);
    return status;
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
