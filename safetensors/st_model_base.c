/*
 * st_model_base.c - st_model_dir.h: the bases of a directory's files.
 */
#include "os_dir.h"
#include "st_model_dir.h"

#include <string.h>

lmc_status st_model_dir_base(const lmc_st_options *options, const char *path, char **base, lmc_st_diag *diag)
{
    static const char *const suffixes[] = {"", ST_ARCHIVE_SUFFIX};
    const lmc_allocator *const memory = options->allocator;
    *base = NULL;
    if (options->base == NULL) {
        return LMC_OK;
    }
    char *const name = st_duplicate(memory, path);
    if (name == NULL) {
        return st_fail_nomem(diag);
    }
    if (st_is_archive_name(name)) {
        name[strlen(name) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    }
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < 2 && *base == NULL && status == LMC_OK; i++) {
        char *const candidate = os_path_join(memory, options->base, name, suffixes[i]);
        if (candidate == NULL) {
            status = st_fail_nomem(diag);
        } else if (os_is_file(candidate)) {
            *base = candidate;
        } else {
            st_release(memory, candidate);
        }
    }
    st_release(memory, name);
    return status;
}

lmc_status st_model_dir_check_base(const lmc_st_options *options, lmc_st_diag *diag)
{
    if (options->base == NULL || os_is_directory(options->base)) {
        return LMC_OK;
    }
    st_diag_set_file(diag, options->base);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the base of a directory must be a directory");
}
