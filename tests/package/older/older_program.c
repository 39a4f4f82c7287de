/* older_program.c - a program that was built against smaller structs runs with the library of today: its calls succeed,
 * and what stands behind its structs stays as it was. Its interface (older_lmc.h) is the first one that is promised. */
#include "older_lmc.h"

#include <stdio.h>
#include <string.h>

#define VALUE_COUNT 3000
#define GUARD 0x5aa55aa55aa55aa5u
#define BF16 14    /* LMC_DTYPE_BF16 */
#define DELTA 3    /* LMC_FRAME_DELTA */
#define ERR_BASE 8 /* LMC_ERR_BASE */

static int failed;

static void check(int is_right, const char *what)
{
    if (!is_right)
        printf("FAIL %s\n", what);
    failed += !is_right;
}

static int read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const char *)user + offset, nbytes);
    return 0;
}

static void encode_and_decode(void)
{
    static uint16_t content[VALUE_COUNT], base[VALUE_COUNT], decoded[VALUE_COUNT];
    static unsigned char frame[sizeof content + 100000];
    struct {
        lmc_params params;
        uint64_t guard;
    } settings = {.guard = GUARD};
    struct {
        lmc_info info;
        uint64_t guard;
    } found = {.info = {.struct_size = sizeof found.info}, .guard = GUARD};
    struct {
        lmc_diag diag;
        uint64_t guard;
    } fault = {.diag = {.struct_size = sizeof fault.diag}, .guard = GUARD};
    for (unsigned i = 0; i < VALUE_COUNT; i++) {
        base[i] = (uint16_t)(0x3f80 + i * i % 97);
        content[i] = (uint16_t)(base[i] + (i % 50 == 0));
    }
    lmc_params_init_sized(&settings.params, sizeof settings.params);
    check(settings.params.row_nbytes == 0 && settings.guard == GUARD, "lmc_params_init_sized");
    settings.params.dtype = BF16;

    lmc_ctx *ctx = NULL;
    lmc_plan *plan = NULL;
    size_t bound = 0, frame_nbytes = 0, decoded_nbytes = 0;
    check(lmc_ctx_create(NULL, &ctx) == 0 && lmc_ctx_set_thread_count(ctx, 2) == 0, "lmc_ctx_create");
    check(lmc_encode_bound(&settings.params, sizeof content, &bound) == 0 && bound <= sizeof frame,
          "lmc_encode_bound");
    check(lmc_encode(ctx, &settings.params, content, sizeof content, frame, sizeof frame, &frame_nbytes) == 0,
          "lmc_encode");
    check(lmc_frame_read_info(frame, frame_nbytes, &found.info, &fault.diag) == 0 && fault.diag.status == 0,
          "lmc_frame_read_info");
    check(found.info.content_nbytes == sizeof content && found.info.dtype == BF16 && found.guard == GUARD,
          "what lmc_frame_read_info() writes");
    check(lmc_frame_read_info(frame, 3, &found.info, &fault.diag) == fault.diag.status &&
              fault.diag.status != 0 && fault.guard == GUARD,
          "what lmc_frame_read_info() writes of a fault");
    check(lmc_decode(ctx, frame, frame_nbytes, decoded, sizeof decoded, &decoded_nbytes) == 0 &&
              decoded_nbytes == sizeof content && memcmp(decoded, content, sizeof content) == 0,
          "lmc_decode");

    check(lmc_encode_delta(ctx, &settings.params, content, sizeof content, base, sizeof base, frame,
                           sizeof frame, &frame_nbytes) == 0,
          "lmc_encode_delta");
    check(lmc_frame_read_info(frame, frame_nbytes, &found.info, NULL) == 0 && found.info.mode == DELTA,
          "a delta");
    check(lmc_decode(ctx, frame, frame_nbytes, decoded, sizeof decoded, &decoded_nbytes) == ERR_BASE,
          "lmc_decode of a delta");
    memset(decoded, 0, sizeof decoded);
    check(lmc_decode_delta(ctx, frame, frame_nbytes, base, sizeof base, decoded, sizeof decoded,
                           &decoded_nbytes) == 0 &&
              decoded_nbytes == sizeof content && memcmp(decoded, content, sizeof content) == 0,
          "lmc_decode_delta");

    check(lmc_plan_create(ctx, &settings.params, sizeof content, read_content, content, &plan) == 0,
          "lmc_plan_create");
    memset(&found.info, 0, sizeof found.info);
    found.info.struct_size = sizeof found.info;
    check(lmc_plan_info(plan, &found.info) == 0 && found.info.content_nbytes == sizeof content &&
              found.guard == GUARD,
          "lmc_plan_info");
    lmc_plan_free(plan);
    lmc_ctx_free(ctx);
}

/* Converts and verifies a file, and fails to convert it once more. */
static void convert_and_verify(const char *in_path, const char *out_path)
{
    /* what stands behind the structs would be fields of a newer one */
    struct {
        lmc_st_convert_options options;
        uint64_t guard;
    } settings = {.options = {.struct_size = sizeof settings.options}, .guard = GUARD};
    struct {
        lmc_st_verify_options options;
        uint64_t guard;
    } verifying = {.options = {.struct_size = sizeof verifying.options}, .guard = GUARD};
    struct {
        lmc_st_result result;
        uint64_t guard;
    } seen = {.result = {.struct_size = sizeof seen.result}, .guard = GUARD};
    struct {
        lmc_st_diag diag;
        uint64_t guard;
    } fault = {.diag = {.struct_size = sizeof fault.diag}, .guard = GUARD};
    check(lmc_st_convert(in_path, out_path, &settings.options, &seen.result, &fault.diag) == 0 &&
              fault.diag.status == 0 && seen.result.tensor_count > 0,
          "lmc_st_convert");
    check(lmc_st_verify(out_path, &verifying.options, &seen.result, &fault.diag) == 0, "lmc_st_verify");
    check(seen.guard == GUARD && fault.guard == GUARD, "what a success writes");
    check(lmc_st_convert(in_path, out_path, &settings.options, &seen.result, &fault.diag) ==
                  fault.diag.status &&
              fault.diag.status != 0 && strcmp(fault.diag.file, out_path) == 0,
          "lmc_st_convert, output exists");
    check(seen.guard == GUARD && fault.guard == GUARD, "what a failure writes");
    (void)remove(out_path);
}

/* older_program FILE.safetensors ARCHIVE: ARCHIVE is made and removed. */
int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    (void)remove(argv[2]);
    encode_and_decode();
    convert_and_verify(argv[1], argv[2]);
    printf("LMC-TESTS passed=%d failed=%d\n", failed == 0, failed);
    return failed != 0;
}
