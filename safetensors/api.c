/*
 * api.c - the public calls on files and directories: each gives the caller's structs the fields that they have, and
 * hands the work to the module for a single file or for a directory.
 */
#include "lmc_st_experimental.h"

#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/archive/frame.h"
#include "safetensors/base/search.h"
#include "safetensors/common/options.h"
#include "safetensors/common/st_common.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/read/view.h"
#include "safetensors/restore/read_many.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/directory.h"

/* ---- an open file ---- */

/* The diagnostic of a call: the library's own, of which the caller gets as much as the caller's struct holds. */
typedef struct answer {
    lmc_st_diag diag;
    lmc_st_diag *given; /* NULL: not wanted */
} answer;

/* Returns 0 for a struct that the library does not know. */
static int answer_begin(answer *answer, const char *path, lmc_st_diag *given)
{
    answer->given = given;
    st_diag_init(&answer->diag, path);
    return !given || lmc_struct_is_known(given, sizeof *given);
}

static lmc_status answer_end(const answer *answer, lmc_status status)
{
    if (answer->given)
        lmc_struct_copy(answer->given, &answer->diag, lmc_struct_size(answer->given));
    return status;
}

lmc_status lmc_st_open(const char *path, const lmc_st_open_options *given, lmc_st_file **file,
                       lmc_st_diag *diag)
{
    answer answer;
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    *file = NULL;
    if (!answer_begin(&answer, path, diag) || (given && !lmc_struct_is_known(given, sizeof *given)))
        return LMC_ERR_ARG;
    if (given)
        lmc_struct_copy(&options, given, lmc_struct_size(given));
    const st_open how = {.path = path,
                         .fd = -1,
                         .read = options.read,
                         .user = options.read_user,
                         .nbytes = options.file_nbytes,
                         .allocator = options.allocator,
                         .is_raw_allowed = options.raw != 0};
    return answer_end(&answer, st_file_open(&how, file, &answer.diag));
}

lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor)
{
    lmc_st_tensor found = LMC_INIT(lmc_st_tensor);
    if (!lmc_struct_is_known(tensor, sizeof *tensor))
        return LMC_ERR_ARG;
    const lmc_status status = st_file_describe_listed(file, index, &found);
    lmc_struct_copy(tensor, &found, lmc_struct_size(tensor));
    return status;
}

lmc_status lmc_st_tensor_mode(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_st_diag *diag)
{
    answer answer;
    *mode = LMC_ST_MODE_STORED;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    st_listed listed;
    const int is_known = st_file_find_listed(file, index, &listed);
    return answer_end(&answer, st_frame_mode(file, is_known ? listed.tensor : index, mode, &answer.diag));
}

lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                             size_t nbytes, void *dst, lmc_st_diag *diag)
{
    answer answer;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    return answer_end(&answer, st_read_range(file, ctx, index, first_byte, nbytes, dst, &answer.diag));
}

lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst, size_t dst_capacity,
                       lmc_st_diag *diag)
{
    answer answer;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    return answer_end(&answer, st_read(file, ctx, index, dst, dst_capacity, &answer.diag));
}

uint64_t lmc_st_skeleton_nbytes(const lmc_st_file *file)
{
    return file->skeleton.nbytes;
}

lmc_status lmc_st_skeleton_read(const lmc_st_file *file, uint64_t offset, size_t nbytes, void *dst,
                                lmc_st_diag *diag)
{
    answer answer;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    return answer_end(&answer, st_read_skeleton(file, offset, nbytes, dst, &answer.diag));
}

lmc_status lmc_st_read_many(const lmc_st_file *file, const uint64_t *indices, void *const *dsts, size_t count,
                            const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, options, NULL, diag);
    call.options.allocator = &file->memory;
    const st_wanted_tensors wanted = {indices, dsts, count};
    if (status == LMC_OK)
        status = st_read_many(file, &wanted, &call.options, call.diag);
    return st_call_end(&call, status);
}

int lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base)
{
    lmc_st_base found = LMC_INIT(lmc_st_base);
    if (!lmc_struct_is_known(base, sizeof *base))
        return 0;
    const int has_base = st_base_info(file, &found);
    lmc_struct_copy(base, &found, lmc_struct_size(base));
    return has_base;
}

lmc_status lmc_st_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                           size_t base_dir_count, lmc_st_diag *diag)
{
    answer answer;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    return answer_end(&answer, st_file_set_base(file, base, base_dirs, base_dir_count, &answer.diag));
}

lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    answer answer;
    *base = NULL;
    if (!answer_begin(&answer, file->path, diag))
        return LMC_ERR_ARG;
    st_file_retry_base(file);
    return answer_end(&answer, st_file_open_base(file, base, &answer.diag));
}

/* ---- whole files and directories ---- */

lmc_status lmc_st_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, result, diag);
    const os_place out = os_place_of(out_path);
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_convert(in_path, out_path, 1, &call.options, call.result, call.diag)
                     : st_convert_file(in_path, &out, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, result, diag);
    const os_place out = os_place_of(out_path);
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_restore(in_path, out_path, &call.options, call.result, call.diag)
                     : st_restore_file(in_path, &out, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                         lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, result, diag);
    call.options.salvage = 0;
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_verify(in_path, &call.options, call.result, call.diag)
                     : st_verify_file(in_path, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_compare(const char *archive_path, const char *plain_path, const lmc_st_options *options,
                          lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, archive_path, options, NULL, diag);
    if (status == LMC_OK)
        status = st_is_directory(archive_path, &call.options)
                     ? st_tree_compare(archive_path, plain_path, &call.options, call.diag)
                     : st_compare_files(archive_path, -1, plain_path, &call.options, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_visit_archives(const char *in_path, const lmc_st_options *options,
                                 int (*visit)(void *user, const lmc_st_file *file), void *user,
                                 lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, NULL, diag);
    if (status == LMC_OK)
        status = st_tree_visit(in_path, &call.options, visit, user, call.diag);
    return st_call_end(&call, status);
}
