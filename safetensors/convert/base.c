/*
 * base.c - opens the file that is coded against (convert/conversion.h), and says why it cannot be a base.
 */
#include "safetensors/base/open.h"
#include "safetensors/common/names.h"
#include "safetensors/convert/conversion.h"

#include <string.h>

/* The name of what the base is or restores to: its file's, without ".lmc" if it is an archive. */
static lmc_status set_base_name(st_conversion *conversion, lmc_st_diag *diag)
{
    const lmc_st_file *const base = conversion->base;
    const char *const slash = strrchr(base->path, '/');
    const char *const name = !slash ? base->path : slash + 1;
    const size_t suffix_nbytes = strlen(ST_ARCHIVE_SUFFIX);
    size_t nbytes = strlen(name);
    if (base->is_archive && nbytes > suffix_nbytes &&
        strcmp(name + nbytes - suffix_nbytes, ST_ARCHIVE_SUFFIX) == 0)
        nbytes -= suffix_nbytes;
    if (!st_base_name_is_valid(name, nbytes))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "cannot be a base: its name must be UTF-8 of at most %d bytes",
                       LMC_ST_BASE_NAME_NBYTES_MAX);
    memcpy(conversion->base_name, name, nbytes);
    conversion->base_name[nbytes] = '\0';
    return LMC_OK;
}

/* What base/search.c will find when the archive is read. The chain is open. */
static lmc_status check_headers(const st_conversion *conversion, lmc_st_diag *diag)
{
    const st_header *const source = conversion->source->header;
    const lmc_st_file *last = conversion->base;
    while (last->base && last->base->file)
        last = last->base->file;
    uint64_t nbytes = st_file_headers_nbytes(last) + source->text_nbytes;
    for (const lmc_st_file *file = last; file; file = file->dependent)
        if (!file->header.is_shared && file->header.text_nbytes == source->text_nbytes &&
            memcmp(file->header.text, source->text, source->text_nbytes) == 0)
            nbytes -= source->text_nbytes;
    return nbytes <= LMC_ST_CHAIN_HEADER_NBYTES_MAX
               ? LMC_OK
               : st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                         "cannot be a base: with this file's header, those of its chain, equal ones counted "
                         "once, would have more than %d bytes",
                         LMC_ST_CHAIN_HEADER_NBYTES_MAX);
}

static lmc_status check_base(st_conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const lmc_st_file *const base = conversion->base;
    const int out_fd = conversion->options->out_fd;
    size_t count = 0;
    lmc_status status = set_base_name(conversion, diag);
    if (status == LMC_OK)
        status = st_file_chain_count(base, &count, diag);
    if (status == LMC_OK && count >= LMC_ST_CHAIN_MAX)
        status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                         "cannot be a base: it ends a chain of %d files, the most that there may be",
                         LMC_ST_CHAIN_MAX);
    if (status == LMC_OK)
        status = check_headers(conversion, diag);
    if (status == LMC_OK && os_input_is(&base->input, out_path, out_fd)) {
        st_diag_set_file(diag, out_path);
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is the base");
    }
    return status == LMC_OK ? st_file_check_output(base, out_path, out_fd, diag) : status;
}

lmc_status st_convert_open_base(st_conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const lmc_st_options *const options = conversion->options;
    if (!options->base)
        return LMC_OK;
    lmc_st_diag cause;
    const st_open how = {
        .path = options->base, .fd = -1, .allocator = options->allocator, .is_raw_allowed = options->raw};
    lmc_status status = st_file_open(&how, &conversion->base, &cause);
    if (status == LMC_OK)
        status =
            st_file_set_base(conversion->base, NULL, options->base_dirs, options->base_dir_count, &cause);
    if (status == LMC_OK)
        status = check_base(conversion, out_path, &cause);
    if (status != LMC_OK)
        *diag = cause;
    return status;
}

lmc_status st_convert_check_base(const st_conversion *conversion, lmc_st_diag *diag)
{
    const lmc_st_file *file = conversion->base;
    while (file) {
        lmc_status status = os_input_check_unchanged(&file->input, diag);
        const lmc_st_file *next = NULL;
        if (status != LMC_OK)
            st_diag_set_file(diag, file->path);
        else
            status = st_file_open_base(file, &next, diag);
        if (status != LMC_OK)
            return status;
        file = next;
    }
    return LMC_OK;
}
