/*
 * content.h - the content of a tensor of an open file, wherever it stands: in a plain file, in a frame, or in
 * a frame that needs another tensor's content, which may need another one's. It serves as the base of a frame
 * that is decoded or encoded. Memory does not grow with the length of the chain: a part is decoded at its end,
 * then step by step towards the tensor that was asked for.
 */
#ifndef LMC_SAFETENSORS_BASE_CONTENT_H
#define LMC_SAFETENSORS_BASE_CONTENT_H

#include "safetensors/archive/frame.h"
#include "safetensors/base/base_file.h"

/* One tensor of the chain. */
typedef struct st_step {
    st_frame frame; /* in a plain file not open: then only its file and index are known */
    unsigned scale; /* bytes of it for one byte of the first: 2 below a BF16 or F16 copy of F32, else 1 */
    /* of its own content. What needs more of it gets zeros; what is beyond that is not needed. */
    uint64_t nbytes;
    uint32_t number; /* of the base file that it is in, among those of the step before */
} st_step;

/* Immutable once open: threads may share it. All zero: nothing to free. */
typedef struct st_content {
    st_step *steps; /* the first is the tensor that was asked for */
    size_t step_count;
    st_buffer room; /* of the steps */
    uint64_t nbytes;
    size_t unit_nbytes; /* reads of whole units, from the start on, waste nothing; a power of two, or all */
    const lmc_allocator *memory;
} st_content;

/* Room for a read; its result stands in the first. */
typedef struct st_content_room {
    const lmc_allocator *memory;
    lmc_ctx *ctx;
    st_buffer *result, *other, *stored;
} st_content_room;

/* Opens tensor `index` of `file` and all that it needs. On failure diag names the tensor and its file. Errors: as
 * st_frame_open() and lmc_st_open_base(); CORRUPT if a tensor cannot be the base it is said to be. Free with
 * st_content_free() in every case. */
lmc_status st_content_open(st_content *content, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                           const lmc_allocator *memory, lmc_st_diag *diag);

/* The same for what an open frame was coded against: nothing if it needs no other tensor (step_count is 0). */
lmc_status st_content_open_base(st_content *content, const st_frame *frame, lmc_ctx *ctx,
                                const lmc_allocator *memory, lmc_st_diag *diag);
void st_content_free(st_content *content);

/* Makes bytes [begin, end) available at *bytes, until the room is used again. Content of a frame that has no
 * index is not verified: whoever codes or decodes against it has its hash. Errors: IO, NOMEM, CORRUPT,
 * CHECKSUM, BASE; diag names the file that is at fault. */
lmc_status st_content_read(const st_content *content, const st_content_room *room, uint64_t begin,
                           uint64_t end, const unsigned char **bytes, lmc_st_diag *diag);

/* What st_content_copy() has decoded last. All zero: nothing. */
typedef struct st_content_window {
    uint64_t begin, end;
    const unsigned char *bytes;
} st_content_window;

/* Copies bytes [offset, offset + nbytes) of a content, of which some places are read in ascending order: what must be
 * decoded for one serves the next, and of a small tensor that is all. Nobody else uses the room meanwhile. Errors: as
 * st_content_read(). */
lmc_status st_content_copy(const st_content *content, const st_content_room *room, st_content_window *window,
                           uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag);

/* As st_content_read() for the base of `frame`, for these blocks of it. *bytes is NULL if it has none. */
lmc_status st_content_read_base(const st_content *base, const st_content_room *room, const st_frame *frame,
                                uint64_t first, uint64_t count, const unsigned char **bytes,
                                lmc_st_diag *diag);

/* Verifies the content of a frame that has no index; of others, each part is when it is read. */
lmc_status st_content_verify(const st_content *content, const st_content_room *room, lmc_st_diag *diag);

/* Bytes that are to be decoded at once: a block, or a unit of the base if that is larger. `info` is the frame's
 * that `base` is for. */
size_t st_content_part_nbytes(const st_content *base, const lmc_info *info);

/* What a fault while the base of tensor `index` was opened or read is to its file; LMC_OK passes. */
lmc_status st_content_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag);

/* Opens every file of the chain that a tensor needs. Errors: as lmc_st_open_base(). */
lmc_status st_content_open_files(const lmc_st_file *file, lmc_st_diag *diag);

#endif
