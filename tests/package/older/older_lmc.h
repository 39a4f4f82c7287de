/*
 * older_lmc.h - what a program sees that was built with the first interface that is promised: the structs of lmc.h and
 * lmc_st.h without their last fields, and the calls that older_program.c uses. Frozen from version 1.0 on.
 */
#ifndef OLDER_LMC_H
#define OLDER_LMC_H

#include <stddef.h>
#include <stdint.h>

typedef struct lmc_ctx lmc_ctx;
typedef struct lmc_plan lmc_plan;

typedef struct lmc_diag {
    size_t struct_size;
    int status;
    uint64_t offset;
} lmc_diag;

typedef struct lmc_params {
    size_t struct_size;
    int dtype;
    int level;
    unsigned block_log2;
    uint32_t row_nbytes;
} lmc_params;

typedef struct lmc_info {
    size_t struct_size;
    unsigned version;
    int dtype;
    int mode;
    unsigned element_nbytes;
    unsigned block_log2;
    uint32_t row_nbytes;
    uint64_t content_nbytes;
} lmc_info;

typedef int (*lmc_read_fn)(void *user, uint64_t offset, void *dst, size_t nbytes);

void lmc_params_init_sized(lmc_params *params, size_t struct_size);
int lmc_ctx_create(const void *allocator, lmc_ctx **ctx);
int lmc_ctx_set_thread_count(lmc_ctx *ctx, unsigned thread_count);
void lmc_ctx_free(lmc_ctx *ctx);
int lmc_encode_bound(const lmc_params *params, size_t src_nbytes, size_t *bound);
int lmc_encode(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes, void *dst,
               size_t dst_capacity, size_t *dst_nbytes);
int lmc_encode_delta(lmc_ctx *ctx, const lmc_params *params, const void *src, size_t src_nbytes,
                     const void *base, size_t base_nbytes, void *dst, size_t dst_capacity,
                     size_t *dst_nbytes);
int lmc_decode(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, void *dst, size_t dst_capacity,
               size_t *dst_nbytes);
int lmc_decode_delta(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, const void *base,
                     size_t base_nbytes, void *dst, size_t dst_capacity, size_t *dst_nbytes);
int lmc_frame_read_info(const void *frame, size_t nbytes, lmc_info *info, lmc_diag *diag);
int lmc_plan_create(lmc_ctx *ctx, const lmc_params *params, uint64_t content_nbytes, lmc_read_fn read,
                    void *user, lmc_plan **plan);
int lmc_plan_info(const lmc_plan *plan, lmc_info *info);
void lmc_plan_free(lmc_plan *plan);

typedef struct lmc_st_diag {
    size_t struct_size;
    int status;
    int os_errno;
    int has_tensor;
    uint64_t offset;
    char file[512];
} lmc_st_diag;

typedef struct lmc_st_common {
    unsigned thread_count;
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user;
    const volatile int *cancel;
    const void *allocator;
} lmc_st_common;

typedef struct lmc_st_convert_options {
    size_t struct_size;
    lmc_st_common common;
    int level;
    int force, no_fsync;
} lmc_st_convert_options;

typedef struct lmc_st_verify_options {
    size_t struct_size;
    lmc_st_common common;
    int has_in_fd, in_fd;
} lmc_st_verify_options;

typedef struct lmc_st_result {
    size_t struct_size;
    uint64_t original_nbytes;
    uint64_t stored_nbytes;
    uint64_t tensor_count;
} lmc_st_result;

int lmc_st_convert(const char *in_path, const char *out_path, const lmc_st_convert_options *options,
                   lmc_st_result *result, lmc_st_diag *diag);
int lmc_st_verify(const char *in_path, const lmc_st_verify_options *options, lmc_st_result *result,
                  lmc_st_diag *diag);

#endif
