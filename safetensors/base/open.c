/*
 * open.c - files with the library's own search for bases.
 */
#include "safetensors/base/open.h"

#include "safetensors/base/search.h"

lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    return st_file_open_with(how, st_search_base, file, diag);
}

lmc_status st_file_open_input(const char *path, const lmc_st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag)
{
    const st_open how = {.path = path,
                         .fd = options->in_fd,
                         .cancel = options->cancel,
                         .allocator = options->allocator,
                         .may_be_short = options->salvage,
                         .is_raw_allowed = options->raw};
    lmc_status status = st_file_open(&how, file, diag);
    if (status == LMC_OK)
        status = st_file_set_base(*file, options->base, options->base_dirs, options->base_dir_count, diag);
    if (status != LMC_OK) {
        lmc_st_close(*file);
        *file = NULL;
    }
    return status;
}
