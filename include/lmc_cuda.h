/*
 * lmc_cuda.h - decoding frames on a GPU: the public interface of liblmc_cuda.
 *
 * EXPERIMENTAL: calls may change in any minor version. docs/gpu.md says what has been tested. A default build leaves
 * the library out.
 *
 * A batch holds frames of many tensors. The host verifies and reads head, plan and tail of each frame and makes
 * descriptors of its blocks. The device decodes the blocks and verifies the hash of each. Blocks that the kernels do
 * not decode are decoded on the host afterwards. So a batch takes three steps (docs/gpu.md):
 *
 *     lmc_cuda_batch_create(NULL, &batch);
 *     for each tensor: lmc_cuda_prepare(batch, &frame);            // error handling omitted
 *     lmc_cuda_batch_info(batch, &info);                           // sizes of image, results and scratch
 *     lmc_cuda_write_image(batch, image, image_capacity);          // copy it to the device, with the frames
 *     lmc_cuda_decode(batch, &launch);                             // only enqueues work on the stream
 *     ... copy the results to the host, wait for the stream ...
 *     lmc_cuda_finish(batch, results, results_nbytes, &memory, &report);
 *     lmc_cuda_batch_free(batch);
 *
 * Content may be used after lmc_cuda_finish() has returned LMC_OK, not before.
 *
 * The conventions of lmc.h hold. One thread at a time may use a batch.
 */
#ifndef LMC_CUDA_H
#define LMC_CUDA_H

#include "lmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device addresses of content, image, results and scratch are multiples of this. Frames may lie at any address. */
#define LMC_CUDA_ALIGNMENT 16

typedef struct lmc_cuda_batch lmc_cuda_batch;

/* Creates an empty batch. allocator: NULL for calloc and free; the struct is copied.
 * Errors: LMC_ERR_NOMEM, LMC_ERR_ARG. Free with lmc_cuda_batch_free(). */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_batch_create(const lmc_allocator *allocator,
                                                       lmc_cuda_batch **batch);

/* NULL is allowed. No work on the device may use the batch's image any more. */
LMC_API void lmc_cuda_batch_free(lmc_cuda_batch *batch);

/* Takes all frames out of the batch and keeps its memory. */
LMC_API void lmc_cuda_batch_clear(lmc_cuda_batch *batch);

/* The diagnostic of the batch's latest call, as lmc_ctx_diag(). Owned by the batch. */
LMC_API const lmc_diag *lmc_cuda_diag(const lmc_cuda_batch *batch);

/* ---- prepare ------------------------------------------------------------------------------------ */

/* One tensor: where its frame lies, and where its content goes. */
typedef struct lmc_cuda_frame {
    size_t struct_size; /* sizeof(lmc_cuda_frame); set by LMC_INIT() */
    /* The tensor's name, for lmc_cuda_failure; may be NULL. Must stay valid as long as the frame. */
    const char *name;
    /* The whole frame in the host's memory. Must stay valid until the batch has finished. */
    const void *frame;
    size_t frame_nbytes;
    /* The base of a delta frame, in the host's memory; else ignored. Must stay valid as long as the frame. */
    const void *base;
    size_t base_nbytes;
    uint64_t device_frame;     /* device address of a copy of the whole frame; not used for a delta frame */
    uint64_t device_content;   /* device address of room for the content, a multiple of LMC_CUDA_ALIGNMENT */
    uint64_t content_capacity; /* bytes there: at least the content's size, else LMC_ERR_DST_SMALL */
} lmc_cuda_frame;

/* Adds a frame to the batch. Verifies its check and reads head, plan and tail in the host's memory; the copy to the
 * device may still be in progress. After a failure nothing was added, and the batch may be used further.
 * Errors: those of lmc_frame_create(); LMC_ERR_ARG (also for addresses that are not aligned); LMC_ERR_DST_SMALL;
 * LMC_ERR_BASE for a delta frame whose base is missing or has a wrong length; LMC_ERR_LIMIT for descriptors of 4 GiB.
 */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_prepare(lmc_cuda_batch *batch, const lmc_cuda_frame *frame);

/* What the frames of a batch need. */
typedef struct lmc_cuda_info {
    size_t struct_size; /* sizeof(lmc_cuda_info); set by LMC_INIT() */
    uint64_t frame_count;
    uint64_t block_count;    /* of all frames */
    uint64_t content_nbytes; /* of all frames */
    /* Blocks that the host must decode: of delta frames, and of forms that the kernels do not decode. */
    uint64_t host_block_count;
    size_t image_nbytes;         /* descriptors; lmc_cuda_write_image() writes them */
    size_t results_nbytes;       /* what the device reports about each block */
    size_t scratch_nbytes_least; /* scratch for one thread block; more of them work with multiples of it */
} lmc_cuda_info;

/* Describes the batch. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_batch_info(const lmc_cuda_batch *batch, lmc_cuda_info *info);

/* Writes the descriptors, lmc_cuda_info.image_nbytes bytes, to the host's memory. They are valid for the frames that
 * are in the batch now. Errors: LMC_ERR_ARG, LMC_ERR_DST_SMALL. */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_write_image(lmc_cuda_batch *batch, void *dst, size_t dst_capacity);

/* ---- decode ------------------------------------------------------------------------------------- */

/* The kernels that the library was built with, such as "sm_80 sm_90 sm_100 compute_80": machine code for devices of
 * these compute capabilities, and PTX that a driver compiles for all later ones. "none: " and why, if it was built
 * without. Static storage. */
LMC_API const char *lmc_cuda_kernels_text(void);

/* The device of a context, and the kernels that were chosen for it. */
typedef struct lmc_cuda_device {
    size_t struct_size; /* sizeof(lmc_cuda_device); set by LMC_INIT() */
    unsigned capability_major, capability_minor;
    unsigned multiprocessor_count;
    unsigned thread_block_count; /* that run at once: more scratch than for so many is not used */
    const char *kernels;         /* one word of lmc_cuda_kernels_text(). Static storage. */
} lmc_cuda_device;

/* Loads the driver, and the kernels into the calling thread's current context of CUDA, unless an earlier call has done
 * so. This allocates and waits; PTX takes seconds to compile. Without it the first lmc_cuda_decode() in a context does
 * so. Threads may call this at once. device, diag: may be NULL.
 * The driver is libcuda.so.1, or the library that LMC_CUDA_DRIVER names in the environment.
 * Errors: LMC_ERR_UNSUPPORTED (the library has no kernels; there is no driver, or one before CUDA 12, or no device; no
 * kernel fits the device); LMC_ERR_ARG (no context is current); LMC_ERR_IO for another error of the driver. */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_init(lmc_cuda_device *device, lmc_diag *diag);

/* Memory on the device, and the stream of the work. Addresses are multiples of LMC_CUDA_ALIGNMENT. */
typedef struct lmc_cuda_launch {
    size_t struct_size; /* sizeof(lmc_cuda_launch); set by LMC_INIT() */
    void *stream; /* a CUstream or cudaStream_t of the calling thread's current context; NULL: its default */
    uint64_t image;          /* device address of a copy of the image */
    uint64_t results;        /* device address of lmc_cuda_info.results_nbytes bytes; they are written */
    uint64_t scratch;        /* device address of scratch */
    uint64_t scratch_nbytes; /* at least lmc_cuda_info.scratch_nbytes_least */
} lmc_cuda_launch;

/* Enqueues the decoding of all blocks on the stream. Allocates nothing and waits for nothing, once lmc_cuda_init() has
 * loaded the kernels. Everything that the launch names must stay valid until the stream has done the work.
 * Errors: LMC_ERR_ARG; LMC_ERR_DST_SMALL for too little scratch; those of lmc_cuda_init(). */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_decode(lmc_cuda_batch *batch, const lmc_cuda_launch *launch);

/* ---- finish ------------------------------------------------------------------------------------- */

/* Why the host decodes a block. Pinned values. */
typedef enum lmc_cuda_reason LMC_OF_INT {
    LMC_CUDA_REASON_DELTA = 1,   /* it belongs to a delta frame */
    LMC_CUDA_REASON_PENDING = 2, /* the device has not reported it */
    LMC_CUDA_REASON_FORM = 3     /* its frame has narrow elements or a rANS code, which no kernel decodes */
} lmc_cuda_reason;
#define LMC_CUDA_REASON_COUNT 4 /* one more than the last reason */

/* A short English phrase for a reason, "unknown reason" for other values. Static storage, never NULL. */
LMC_API const char *lmc_cuda_reason_text(lmc_cuda_reason reason);

/* Copies content that the host has decoded to the device. `write` returns LMC_OK, or the status with which
 * lmc_cuda_finish() is to fail. */
typedef struct lmc_cuda_memory {
    lmc_status (*write)(void *user, uint64_t device_address, const void *src, size_t nbytes);
    void *user;
} lmc_cuda_memory;

/* The result of a batch. */
typedef struct lmc_cuda_report {
    size_t struct_size; /* sizeof(lmc_cuda_report); set by LMC_INIT() */
    uint64_t block_count;
    uint64_t device_block_count; /* decoded and verified by the device */
    uint64_t host_block_count;   /* decoded and verified by the host */
    uint64_t failed_block_count;
    uint64_t device_nbytes; /* content of these blocks */
    uint64_t host_nbytes;
    uint64_t reason_count[LMC_CUDA_REASON_COUNT]; /* blocks left to the host, by lmc_cuda_reason */
} lmc_cuda_report;

/* A block that was not decoded correctly. */
typedef struct lmc_cuda_failure {
    size_t struct_size;   /* sizeof(lmc_cuda_failure); set by LMC_INIT() */
    const char *name;     /* of the tensor, as it was given */
    uint64_t frame_index; /* the frame's place in the batch */
    uint64_t block_index; /* the block's place in the frame */
    uint64_t offset;      /* of the block in the frame */
    int found_by_device;
    lmc_status status; /* LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED, LMC_ERR_CHECKSUM, LMC_ERR_BASE */
} lmc_cuda_failure;

/* Reads what the device reports about all blocks. Decodes the remaining blocks on the host and writes each to the
 * device, as a whole, once it is verified. Verifies the content hash of stored frames.
 *  results: a copy of the results in the host's memory, made after the device has done its work.
 *  memory: may be NULL if the host decodes no block.
 *  report: may be NULL.
 * Returns LMC_OK if the content of every block is correct, else the status of the first failure;
 * lmc_cuda_failed_block() gives all of them. The content of all other tensors is then correct. Other errors:
 * LMC_ERR_ARG, LMC_ERR_NOMEM, what write returns. */
LMC_NODISCARD LMC_API lmc_status lmc_cuda_finish(lmc_cuda_batch *batch, const void *results,
                                                 size_t results_nbytes, const lmc_cuda_memory *memory,
                                                 lmc_cuda_report *report);

/* Failure `index` of the latest lmc_cuda_finish(), in the order of frames and blocks. All blocks of a stored frame,
 * which has one hash, fail as block 0. Returns 0 if there are fewer, or for a struct_size that the library does not
 * know.
 */
LMC_API int lmc_cuda_failed_block(const lmc_cuda_batch *batch, uint64_t index, lmc_cuda_failure *failure);

#ifdef __cplusplus
}
#endif
#endif
