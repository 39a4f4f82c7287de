/*
 * lmc_test_settings.h - one struct for the options of all calls on files, so that a test makes several calls alike.
 * Each call gets the fields that it has; tests of the structs themselves are in test_st_options.c.
 */
#ifndef LMC_TEST_SETTINGS_H
#define LMC_TEST_SETTINGS_H

#include "lmc_st_experimental.h"

typedef struct lmc_test_settings {
    lmc_st_common common;
    lmc_level level;
    int force, no_fsync;
    int has_in_fd, in_fd, has_out_fd, out_fd;
    int salvage, sha256, raw;
    lmc_st_fault_fn damage, warning;
    lmc_st_file_fn file_done;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    const lmc_st_writer *base_writer;
    const char *const *excludes;
    size_t exclude_count;
} lmc_test_settings;

#define LMC_TEST_SET_BASE(options, settings)     \
    (options).base = (settings)->base;           \
    (options).base_dirs = (settings)->base_dirs; \
    (options).base_dir_count = (settings)->base_dir_count

static inline lmc_status lmc_test_convert_as(const char *in_path, const char *out_path,
                                             const lmc_test_settings *settings, lmc_st_result *result,
                                             lmc_st_diag *diag)
{
    lmc_st_convert_options options = LMC_INIT(lmc_st_convert_options);
    options.common = settings->common;
    options.level = settings->level;
    options.force = settings->force;
    options.no_fsync = settings->no_fsync;
    options.has_in_fd = settings->has_in_fd;
    options.in_fd = settings->in_fd;
    options.has_out_fd = settings->has_out_fd;
    options.out_fd = settings->out_fd;
    LMC_TEST_SET_BASE(options, settings);
    options.raw = settings->raw;
    options.excludes = settings->excludes;
    options.exclude_count = settings->exclude_count;
    options.file_done = settings->file_done;
    options.warning = settings->warning;
    return lmc_st_convert(in_path, out_path, &options, result, diag);
}

static inline lmc_status lmc_test_restore_as(const char *in_path, const char *out_path,
                                             const lmc_test_settings *settings, lmc_st_result *result,
                                             lmc_st_diag *diag)
{
    lmc_st_restore_options options = LMC_INIT(lmc_st_restore_options);
    options.common = settings->common;
    options.force = settings->force;
    options.no_fsync = settings->no_fsync;
    options.has_in_fd = settings->has_in_fd;
    options.in_fd = settings->in_fd;
    options.has_out_fd = settings->has_out_fd;
    options.out_fd = settings->out_fd;
    LMC_TEST_SET_BASE(options, settings);
    options.salvage = settings->salvage;
    options.damage = settings->damage;
    options.file_done = settings->file_done;
    return lmc_st_restore(in_path, out_path, &options, result, diag);
}

static inline lmc_status lmc_test_verify_as(const char *in_path, const lmc_test_settings *settings,
                                            lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_verify_options options = LMC_INIT(lmc_st_verify_options);
    options.common = settings->common;
    options.has_in_fd = settings->has_in_fd;
    options.in_fd = settings->in_fd;
    LMC_TEST_SET_BASE(options, settings);
    options.sha256 = settings->sha256;
    options.damage = settings->damage;
    options.file_done = settings->file_done;
    return lmc_st_verify(in_path, &options, result, diag);
}

static inline lmc_status lmc_test_compare_as(const char *archive_path, const char *plain_path,
                                             const lmc_test_settings *settings, lmc_st_diag *diag)
{
    lmc_st_compare_options options = LMC_INIT(lmc_st_compare_options);
    options.common = settings->common;
    LMC_TEST_SET_BASE(options, settings);
    return lmc_st_compare(archive_path, plain_path, &options, diag);
}

static inline lmc_status lmc_test_writer_write_as(const lmc_st_writer *writer, const char *out_path,
                                                  const lmc_test_settings *settings, lmc_st_result *result,
                                                  lmc_st_diag *diag)
{
    lmc_st_write_options options = LMC_INIT(lmc_st_write_options);
    options.common = settings->common;
    options.level = settings->level;
    options.force = settings->force;
    options.no_fsync = settings->no_fsync;
    options.has_out_fd = settings->has_out_fd;
    options.out_fd = settings->out_fd;
    LMC_TEST_SET_BASE(options, settings);
    options.base_writer = settings->base_writer;
    return lmc_st_writer_write(writer, out_path, &options, result, diag);
}

static inline lmc_status lmc_test_writer_write_plain_as(const lmc_st_writer *writer, const char *out_path,
                                                        const lmc_test_settings *settings,
                                                        lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_output_options options = LMC_INIT(lmc_st_output_options);
    options.common = settings->common;
    options.force = settings->force;
    options.no_fsync = settings->no_fsync;
    options.has_out_fd = settings->has_out_fd;
    options.out_fd = settings->out_fd;
    return lmc_st_writer_write_plain(writer, out_path, &options, result, diag);
}

#endif
