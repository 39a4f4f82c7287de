/*
 * st_base_file.c - the base of an open archive: what is recorded of it, where it is looked for, opening it.
 */
#include "st_file.h"

int lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base)
{
    (void)file;
    (void)base;
    return 0;
}

int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place,
                       uint64_t *base_index)
{
    (void)file;
    (void)index;
    (void)place;
    (void)base_index;
    return 0;
}

lmc_status lmc_st_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                           size_t base_dir_count, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    (void)st_file_begin(file, diag, &unused);
    (void)base;
    (void)base_dirs;
    (void)base_dir_count;
    return LMC_OK;
}

lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    (void)st_file_begin(file, diag, &unused);
    *base = NULL;
    return LMC_OK;
}
