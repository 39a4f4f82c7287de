/*
 * cat.c - content in order: what a program makes of a file, and the original of a file to a stream.
 */
#include "safetensors/base/search.h"
#include "safetensors/common/options.h"
#include "safetensors/files/kept.h"
#include "safetensors/restore/restore.h"

/* What a program gives to be written. */
typedef struct given_content {
    lmc_read_fn read;
    void *user;
    int read_has_failed; /* it has said why */
} given_content;

static lmc_status read_given(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    given_content *const given = user;
    const lmc_status status = given->read(given->user, offset, dst, nbytes);
    given->read_has_failed |= status != LMC_OK;
    return status;
}

/* Writes `content`, which is the source's own or made from it. */
static lmc_status write_copy(const lmc_st_file *source, const st_input *content, const char *out_path,
                             const st_call *call)
{
    st_output output;
    const st_place place = st_place_of(out_path);
    const st_options *const options = &call->options;
    LMC_TRY(st_kept_check_output(options, out_path, call->diag));
    LMC_TRY(st_file_check_output(source, out_path, options->out_fd, call->diag));
    LMC_TRY(st_output_open(&output, options, &place, &source->input, 1, call->diag));
    lmc_status status = st_output_copy(&output, content, options, call->diag);
    if (status == LMC_OK)
        status = st_input_check_unchanged(&source->input, call->diag);
    return st_output_close(&output, options, status, call->diag);
}

lmc_status lmc_st_write_content(const lmc_st_file *source, const char *out_path, uint64_t nbytes,
                                lmc_read_fn read, void *user, const lmc_st_output_options *options,
                                lmc_st_diag *diag)
{
    st_call call;
    given_content given = {.read = read, .user = user};
    st_input content;
    st_input_open_from(&content, read_given, &given, nbytes);
    lmc_status status = st_call_begin_output(&call, source->path, options, NULL, diag);
    if (status == LMC_OK)
        status = write_copy(source, &content, out_path, &call);
    if (given.read_has_failed)
        call.given_diag = NULL;
    return st_call_end(&call, status);
}

lmc_status lmc_st_cat(const char *in_path, const lmc_st_restore_options *options, lmc_st_result *result,
                      lmc_st_diag *diag)
{
    static const char out_path[] = "standard output";
    st_call call;
    lmc_st_file *source = NULL;
    lmc_status status = st_call_begin_restore(&call, in_path, options, result, diag);
    if (status == LMC_OK && call.options.out_fd < 0)
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no descriptor to write to");
    if (status == LMC_OK)
        status = st_file_open_input(in_path, &call.options, &source, call.diag);
    if (status == LMC_OK && source->is_archive) {
        const st_place place = st_place_of(out_path);
        /* a stream was collected in a temporary file, which is read again */
        call.options.in_fd = call.options.in_fd < 0 ? -1 : source->input.fd;
        status = st_restore_file(in_path, &place, &call.options, call.result, call.diag);
    } else if (status == LMC_OK) {
        status = write_copy(source, &source->input, out_path, &call);
    }
    lmc_st_close(source);
    return st_call_end(&call, status);
}
