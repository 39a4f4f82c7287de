#include "st_model_dir.h"
#include "os_file.h"
#include <sys/stat.h>
int st_is_directory(const char *path, const lmc_st_options *options)
{
    struct stat s;
    return options->in_fd < 0 && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}
lmc_status st_model_dir_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    (void)in_path;
    (void)out_path;
    (void)options;
    (void)result;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory");
}
lmc_status st_model_dir_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    (void)in_path;
    (void)out_path;
    (void)options;
    (void)result;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory");
}
lmc_status st_model_dir_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                               lmc_st_diag *diag)
{
    (void)in_path;
    (void)options;
    (void)result;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory");
}
lmc_status st_model_dir_compare(const char *archive_path, const char *plain_path,
                                const lmc_st_options *options, lmc_st_diag *diag)
{
    (void)archive_path;
    (void)plain_path;
    (void)options;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory");
}
