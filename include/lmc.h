/*
 * lmc.h - lossless compression of tensors: the public interface of liblmc.
 *
 * A tensor goes in as bytes with a dtype. A self-contained frame comes out (docs/format.md). A frame decodes to exactly
 * the bytes that went in, or the call fails with a status: a call never gives wrong bytes with LMC_OK. Content is cut
 * into blocks. Each block is coded, checked and decoded alone.
 *
 *     lmc_ctx *ctx;                       // error handling omitted; see examples/encode_tensor.c
 *     lmc_params params;
 *     size_t bound, frame_nbytes, content_nbytes;
 *     lmc_ctx_create(NULL, &ctx);
 *     lmc_params_init(&params);
 *     params.dtype = LMC_DTYPE_BF16;
 *     lmc_encode_bound(&params, src_nbytes, &bound);
 *     void *frame = malloc(bound);
 *     lmc_encode(ctx, &params, src, src_nbytes, frame, bound, &frame_nbytes);
 *     lmc_decode(ctx, frame, frame_nbytes, dst, src_nbytes, &content_nbytes);
 *     lmc_ctx_free(ctx);
 *
 * Conventions
 *  - Sizes are in bytes unless a name says otherwise (_count, _log2, _nbits).
 *  - Results come last. After a failure, sizes are 0, handles and pointers to content are NULL, fields of structs are
 *    0 unless a comment says otherwise, and result buffers hold undefined bytes. Nothing else was written.
 *  - A call that can fail returns an lmc_status. A call that answers yes or no returns 1 or 0.
 *  - lmc_ctx_diag() describes a failure of a call with a context. Some calls without one fill the caller's lmc_diag.
 *  - Source buffers need no alignment and are never written. Source and destination must not overlap: a call that
 *    encodes or decodes content returns LMC_ERR_ARG if it would write where its content, frame or base lies. The whole
 *    destination that the call asks for counts as written. A base may overlap the content.
 *  - A pointer may be NULL only where its comment says so, or if it is that of content of 0 bytes. Any other NULL is a
 *    fault of the program, even if a call happens to return LMC_ERR_ARG.
 *  - The only global state is the choice of kernels. It is made once and is thread-safe.
 *
 * Structs that grow
 *  A struct whose first member is struct_size may gain fields at its end in a later version. The caller sets
 *  struct_size to the size that the struct has in the caller's header: lmc_params_init() does it for settings,
 *  LMC_INIT() for results. A library that is newer than the program reads and writes only these bytes. The fields
 *  that the program does not know have their defaults. A struct that is larger than the library's, or smaller than
 *  struct_size itself, is rejected with LMC_ERR_ARG. Other structs never change.
 *
 * Stability
 *  Calls of this header keep their names, signatures and meanings until the major version changes, which is in the
 *  names of the shared libraries (liblmc.so.1). lmc_experimental.h has calls that may change in any minor version: a
 *  program that uses them needs the minor version that it was built with.
 */
#ifndef LMC_H
#define LMC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LMC_VERSION_MAJOR 1
#define LMC_VERSION_MINOR 0
#define LMC_VERSION_PATCH 0

/* One number to compare: 10000 * MAJOR + 100 * MINOR + PATCH. */
#define LMC_VERSION_NUMBER (LMC_VERSION_MAJOR * 10000 + LMC_VERSION_MINOR * 100 + LMC_VERSION_PATCH)

/* Windows: LMC_STATIC for programs that link the static library, LMC_BUILDING while the library is built. */
#if defined(_WIN32) && defined(LMC_BUILDING)
#define LMC_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(LMC_STATIC)
#define LMC_API __declspec(dllimport)
#elif !defined(_WIN32) && defined(__GNUC__)
#define LMC_API __attribute__((visibility("default")))
#else
#define LMC_API
#endif

#if defined(__GNUC__)
#define LMC_NODISCARD __attribute__((warn_unused_result))
#else
#define LMC_NODISCARD
#endif

/* Enums may gain values in a later version. In C++, an enum can hold others than its own only if its type is fixed. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define LMC_OF_INT : int
#else
#define LMC_OF_INT
#endif

/* Initializes a struct with its size: lmc_info info = LMC_INIT(lmc_info); it takes C99 or C++98. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define LMC_INIT(type)                        \
    ([] {                                     \
        type lmc_init_{};                     \
        lmc_init_.struct_size = sizeof(type); \
        return lmc_init_;                     \
    }())
#elif defined(__cplusplus)
#define LMC_INIT(type) \
    {                  \
        sizeof(type)   \
    }
#else
#define LMC_INIT(type)              \
    {                               \
        .struct_size = sizeof(type) \
    }
#endif

/* ---- status ------------------------------------------------------------------------------------- */

/* Values are pinned: they never change and new ones are only appended. */
typedef enum lmc_status LMC_OF_INT {
    LMC_OK = 0,
    LMC_ERR_ARG = 1,         /* a parameter is out of its documented range, or the request cannot be met */
    LMC_ERR_NOMEM = 2,       /* the allocator returned NULL */
    LMC_ERR_DST_SMALL = 3,   /* the destination is too small; nothing is wrong with the input */
    LMC_ERR_TRUNCATED = 4,   /* the input ends early; more of it could help */
    LMC_ERR_CORRUPT = 5,     /* the input breaks a rule of its format, or has another format */
    LMC_ERR_UNSUPPORTED = 6, /* the input needs a newer library; the diagnostic names the feature */
    LMC_ERR_CHECKSUM = 7,    /* well-formed, but not what was written */
    LMC_ERR_BASE = 8,        /* the base is missing or is not the one that was encoded against */
    LMC_ERR_LIMIT = 9,       /* a documented limit is exceeded */
    LMC_ERR_IO = 10,         /* a callback or a system call failed */
    LMC_ERR_HEADER = 11,     /* a container header is malformed (lmc_st.h) */
    LMC_ERR_CANCELLED = 12   /* stopped at the caller's request */
} lmc_status;

/* A short English phrase for a status, "unknown status" for other values. Static storage, never NULL. */
LMC_API const char *lmc_status_text(lmc_status status);

/* What went wrong and where. The call that failed fills it; see lmc_ctx_diag(). */
typedef struct lmc_diag {
    size_t struct_size; /* sizeof(lmc_diag); set by LMC_INIT() */
    lmc_status status;
    uint64_t offset; /* byte offset in the input of that call at which the fault was seen */
    char text[160];  /* NUL-terminated, one line, no file or tensor name */
} lmc_diag;

/* The version of the library that runs, as "MAJOR.MINOR.PATCH" (static storage) and as LMC_VERSION_NUMBER is made. The
 * macros above are those of the header that the program was built with. */
LMC_API const char *lmc_version_text(void);
LMC_API unsigned lmc_version_number(void);

/* Name of the kernel set in use: "scalar", "avx2", "avx2-nopext", "avx512" or "neon" (static storage). The first call
 * that needs a set chooses the best one that CPU and operating system support. The environment variable LMC_KERNELS may
 * name another one that they support. Safe from any thread. */
LMC_API const char *lmc_kernels_name(void);

/* ---- element types ------------------------------------------------------------------------------ */

/* The dtypes of safetensors. Their numbers are stored in frames and never change. Types narrower than a byte (F4, F6_*)
 * are coded as packed bytes. A dtype guides compression only: content of any length and with any bits encodes and
 * restores under any dtype. */
typedef enum lmc_dtype LMC_OF_INT {
    LMC_DTYPE_U8 = 0, /* also: opaque bytes */
    LMC_DTYPE_BOOL = 1,
    LMC_DTYPE_I8 = 2,
    LMC_DTYPE_F4 = 3,
    LMC_DTYPE_F6_E2M3 = 4,
    LMC_DTYPE_F6_E3M2 = 5,
    LMC_DTYPE_F8_E5M2 = 6,
    LMC_DTYPE_F8_E4M3 = 7,
    LMC_DTYPE_F8_E8M0 = 8,
    LMC_DTYPE_F8_E4M3FNUZ = 9,
    LMC_DTYPE_F8_E5M2FNUZ = 10,
    LMC_DTYPE_I16 = 11,
    LMC_DTYPE_U16 = 12,
    LMC_DTYPE_F16 = 13,
    LMC_DTYPE_BF16 = 14,
    LMC_DTYPE_I32 = 15,
    LMC_DTYPE_U32 = 16,
    LMC_DTYPE_F32 = 17,
    LMC_DTYPE_C64 = 18, /* two F32 per element */
    LMC_DTYPE_I64 = 19,
    LMC_DTYPE_U64 = 20,
    LMC_DTYPE_F64 = 21
} lmc_dtype;
#define LMC_DTYPE_COUNT 22

/* The safetensors name of a dtype ("BF16", "F8_E4M3", ...), or NULL for an invalid number. Static storage. */
LMC_API const char *lmc_dtype_name(lmc_dtype dtype);

/* Finds a dtype by its safetensors name of `name_nbytes` bytes (no NUL needed). Returns 1 and sets
 * *dtype, or returns 0. */
LMC_API int lmc_dtype_find(const char *name, size_t name_nbytes, lmc_dtype *dtype);

/* Bits of one element: 4, 6, 8, 16, 32 or 64; 0 for an invalid dtype. */
LMC_API unsigned lmc_dtype_nbits(lmc_dtype dtype);

/* ---- settings ----------------------------------------------------------------------------------- */

/* The encoder's effort. Every decoder reads every level. Pinned values. */
typedef enum lmc_level LMC_OF_INT {
    LMC_LEVEL_DEFAULT = 0, /* joint symbols of exponent and top mantissa bits */
    LMC_LEVEL_FAST = 1,    /* exponents only, for paths that run at memory speed */
    LMC_LEVEL_MAX = 2 /* a second entropy coder, statistics of every value, and a finer search: the smallest
                              frames; encoding takes three to ten times as long, decoding 1.4 to 2.3 times */
} lmc_level;

/* Values per block as a power of two. Without a base the library chooses LMC_BLOCK_LOG2_DEFAULT; for elements of one
 * byte, for wide elements that are coded as one byte, and at level max LMC_BLOCK_LOG2_DEFAULT_BYTE. With a base it
 * chooses larger blocks, and the largest where little has changed. */
#define LMC_BLOCK_LOG2_MIN 10
#define LMC_BLOCK_LOG2_MAX 20
#define LMC_BLOCK_LOG2_DEFAULT 16
#define LMC_BLOCK_LOG2_DEFAULT_BYTE 18 /* of elements of one byte */

/* How the bytes of a base become the values that content is compared with. Pinned: the numbers are stored in frames. */
typedef enum lmc_base_form LMC_OF_INT {
    LMC_BASE_PLAIN = 0,       /* an earlier snapshot of the tensor: same dtype, same length */
    LMC_BASE_BF16_OF_F32 = 1, /* content is BF16; the base is F32, with twice as many bytes. It is rounded to
                                 BF16, to nearest, ties to even; NaN becomes 7fc0 or ffc0, by its sign. */
    LMC_BASE_F16_OF_F32 = 2,  /* content is F16; the base is F32. It is rounded to F16 likewise; NaN becomes
                                 7e00 or fe00. */
    LMC_BASE_F16_OF_BF16 = 3  /* content is F16; the base is BF16, rounded to F16 likewise */
} lmc_base_form;

#define LMC_BASE_FORM_COUNT 4

/* Limits of matrices whose columns are coded by their scale; see lmc_params.row_nbytes. */
#define LMC_ROW_COUNT_MIN 8
#define LMC_COLUMN_COUNT_MAX 61440

typedef struct lmc_params {
    size_t struct_size;  /* sizeof(lmc_params); set by lmc_params_init() */
    lmc_dtype dtype;     /* default LMC_DTYPE_U8 */
    lmc_level level;     /* default LMC_LEVEL_DEFAULT */
    unsigned block_log2; /* 0: the library chooses; else LMC_BLOCK_LOG2_MIN..MAX */
    /* Bytes of a row of a matrix: elements that far apart are in one column. 0, or not a multiple of the element's
     * bytes: unknown. Rows and columns of different scale are coded better with it. Any value is valid. It helps
     * matrices of at least LMC_ROW_COUNT_MIN rows and of 32 to LMC_COLUMN_COUNT_MAX columns. */
    uint32_t row_nbytes;
    /* How a base is read, if one is given; default LMC_BASE_PLAIN. The others require the dtype that they round to,
     * and content of whole elements. */
    lmc_base_form base_form;
} lmc_params;

/* Sets every field to its default. struct_size: sizeof *params, which the macro passes. If struct_size is unknown to
 * this library, only struct_size is set; any later call rejects the params. */
LMC_API void lmc_params_init_sized(lmc_params *params, size_t struct_size);
#define lmc_params_init(params) lmc_params_init_sized((params), sizeof *(params))

/* Memory functions. allocate(user, nbytes) returns a block aligned for any object type, or NULL;
 * release(user, pointer) frees it. Both are also called from worker threads, so they must be thread-safe. The block may
 * hold anything: no result depends on it. But kernels load whole vectors, beyond the last element written, so under
 * valgrind's memcheck allocate() should return zeros, as calloc() does. */
typedef struct lmc_allocator {
    void *(*allocate)(void *user, size_t nbytes);
    void (*release)(void *user, void *pointer);
    void *user;
} lmc_allocator;

/* ---- context ------------------------------------------------------------------------------------ */

/* Scratch memory, threads and diagnostics for calls made one after another. One thread at a time may use a context.
 * Different contexts are independent. A callback (a read, the allocator) must use another context: a call with the busy
 * one returns LMC_ERR_ARG, and the call in progress is not affected.
 * Memory for each thread: 2 to 4 MiB with blocks of LMC_BLOCK_LOG2_DEFAULT values, 6 MiB with those of
 * LMC_BLOCK_LOG2_DEFAULT_BYTE, 20 to 44 MiB with the largest ones. Planning a frame takes 4 MiB more in the context of
 * the call. It stays until lmc_ctx_free(). */
typedef struct lmc_ctx lmc_ctx;

/* Creates a context. allocator: NULL for calloc and free; the struct is copied.
 * Errors: LMC_ERR_NOMEM, LMC_ERR_ARG. Free with lmc_ctx_free(). */
LMC_NODISCARD LMC_API lmc_status lmc_ctx_create(const lmc_allocator *allocator, lmc_ctx **ctx);

/* Frees a context and its scratch. NULL is allowed. No call may be in progress with the context. */
LMC_API void lmc_ctx_free(lmc_ctx *ctx);

/* The diagnostic of the context's latest call; status LMC_OK after a success. Owned by the context, valid until its
 * next call. A call that is rejected because the context is busy leaves the diagnostic as it is. */
LMC_API const lmc_diag *lmc_ctx_diag(const lmc_ctx *ctx);

#define LMC_THREAD_COUNT_MAX 256

/* Sets how many threads a call that encodes or decodes a whole frame, or a range of one, may use with this context.
 *  thread_count: at most LMC_THREAD_COUNT_MAX; the default is 1. 0: one for each core that this process may use. Fewer
 *  are used where memory or the system does not allow more. The bytes that are written do not depend on it.
 * Calls for single blocks use only the calling thread. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_ctx_set_thread_count(lmc_ctx *ctx, unsigned thread_count);

/* ---- whole tensors ------------------------------------------------------------------------------ */

/* A frame of lmc_encode() is never larger than its content plus this many bytes, regardless of the content. A frame
 * made in pieces cannot take back what is written: it keeps its plan, of up to 64 KiB, and each of its blocks may take
 * 13 bytes more, with a base 21. */
#define LMC_FRAME_OVERHEAD_MAX 48

/* Destination capacity that lmc_encode() and lmc_encode_delta() require. It has room for every input and working slack.
 * A finished frame is smaller (LMC_FRAME_OVERHEAD_MAX).
 * Errors: LMC_ERR_ARG; LMC_ERR_LIMIT if the sum does not fit a size_t. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_bound(const lmc_params *params, size_t src_nbytes, size_t *bound);

/* Encodes src into one frame of *dst_nbytes bytes.
 *  dst_capacity: at least lmc_encode_bound(), else LMC_ERR_DST_SMALL.
 * The same input and params give the same bytes for every thread count and every kernel set; they may differ between
 * library versions.
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_DST_SMALL, LMC_ERR_LIMIT (as lmc_encode_bound()). */
LMC_NODISCARD LMC_API lmc_status lmc_encode(lmc_ctx *ctx, const lmc_params *params, const void *src,
                                            size_t src_nbytes, void *dst, size_t dst_capacity,
                                            size_t *dst_nbytes);

/* As lmc_encode(), against a base. If the base helps, the frame holds only the changes (mode LMC_FRAME_DELTA) and
 * cannot be decoded without the base. If not, the frame is that of lmc_encode().
 *  base: an earlier snapshot in the form of params->base_form; it may be src itself. NULL: as lmc_encode().
 *  base_nbytes: as lmc_base_form says, else LMC_ERR_BASE; ignored if base is NULL.
 * Errors: as lmc_encode(), and LMC_ERR_BASE. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_delta(lmc_ctx *ctx, const lmc_params *params, const void *src,
                                                  size_t src_nbytes, const void *base, size_t base_nbytes,
                                                  void *dst, size_t dst_capacity, size_t *dst_nbytes);

/* Decodes one whole frame of exactly frame_nbytes bytes; its content is *dst_nbytes bytes.
 *  dst_capacity: at least the content's size (lmc_frame_read_info()), else LMC_ERR_DST_SMALL.
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_DST_SMALL, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED,
 * LMC_ERR_CHECKSUM, LMC_ERR_LIMIT (as lmc_frame_create()); LMC_ERR_BASE for a delta frame. A frame that was cut is
 * often LMC_ERR_CHECKSUM, and LMC_ERR_TRUNCATED only if it is shorter than lmc_info.frame_nbytes_min. */
LMC_NODISCARD LMC_API lmc_status lmc_decode(lmc_ctx *ctx, const void *frame, size_t frame_nbytes, void *dst,
                                            size_t dst_capacity, size_t *dst_nbytes);

/* As lmc_decode(), for frames with and without a base.
 *  base: the base that the frame was encoded against, base_nbytes bytes. A delta frame says how long its base is
 *  (lmc_info.base_nbytes) and holds its hashes. LMC_ERR_BASE if the base is NULL, has another length (then no byte of
 *  it is read), or differs in a single bit. For other frames, base and base_nbytes are ignored. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_delta(lmc_ctx *ctx, const void *frame, size_t frame_nbytes,
                                                  const void *base, size_t base_nbytes, void *dst,
                                                  size_t dst_capacity, size_t *dst_nbytes);

/* Decodes content bytes [first_byte, first_byte + nbytes) into dst (nbytes bytes). Reads only the blocks that hold
 * them. A stored frame has one checksum and is read whole.
 * Errors: as lmc_decode(); LMC_ERR_ARG also if the range exceeds the content. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_range(lmc_ctx *ctx, const void *frame, size_t frame_nbytes,
                                                  uint64_t first_byte, size_t nbytes, void *dst);

/* As lmc_decode_range(), for frames with and without a base. base: the whole base, as in lmc_decode_delta(); only the
 * part that belongs to the blocks is read. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_delta_range(lmc_ctx *ctx, const void *frame, size_t frame_nbytes,
                                                        const void *base, size_t base_nbytes,
                                                        uint64_t first_byte, size_t nbytes, void *dst);

/* ---- what a frame says of itself ---------------------------------------------------------------- */

/* How a frame holds its content. Pinned: the numbers are stored in frames. */
typedef enum lmc_frame_mode LMC_OF_INT {
    LMC_FRAME_STORED = 0, /* content as it is */
    LMC_FRAME_CODED = 1,  /* blocks with an index */
    LMC_FRAME_SHORT = 2,  /* at most 255 bytes of content, as they are, after a short head */
    LMC_FRAME_DELTA = 3   /* as CODED, against a base */
} lmc_frame_mode;

/* A frame has fewer than this many bytes of content for each of its own bytes, regardless of its content. */
#define LMC_EXPANSION_MAX 645278

/* lmc_frame_read_info() needs at most this many bytes from a frame's start. */
#define LMC_INFO_NBYTES 32

typedef struct lmc_info {
    size_t struct_size; /* sizeof(lmc_info); set by LMC_INIT() */
    unsigned version;   /* wire format version: 1 */
    lmc_dtype dtype;
    lmc_frame_mode mode;
    unsigned element_nbytes;   /* 1, 2, 4 or 8: the unit that is split into planes */
    unsigned block_log2;       /* values per block; 0 in a short frame */
    uint32_t row_nbytes;       /* 0 unknown */
    uint64_t content_nbytes;   /* what the frame decodes to */
    uint64_t block_count;      /* ceil(content_nbytes / block_nbytes) */
    size_t block_nbytes;       /* content bytes of a block; the last one may be shorter */
    size_t head_nbytes;        /* bytes before the first block */
    uint64_t tail_nbytes;      /* bytes after the last block */
    lmc_base_form base_form;   /* of a delta frame; else LMC_BASE_PLAIN */
    uint64_t base_nbytes;      /* bytes of the base; 0 without one */
    size_t base_block_nbytes;  /* bytes of the base that belong to a block (fewer to the last); 0 without */
    uint64_t frame_nbytes_min; /* a frame with this head has at least this many bytes */
} lmc_info;

/* Reads the head of a frame; needs the first min(frame size, LMC_INFO_NBYTES) bytes. Nothing is allocated and no
 * checksum is read. The answer is unverified. A damaged or forged head may promise any content, so compare
 * frame_nbytes_min with the frame's size before you allocate memory for the content. A head that passes promises at
 * most LMC_EXPANSION_MAX times the frame; lmc_frame_create() verifies it from head and tail. diag may be NULL.
 * Errors: LMC_ERR_ARG, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED. */
LMC_NODISCARD LMC_API lmc_status lmc_frame_read_info(const void *frame, size_t nbytes, lmc_info *info,
                                                     lmc_diag *diag);

/* ---- the same in pieces: encode ----------------------------------------------------------------- */

/* A frame is head | block 0 | block 1 | ... | tail, without gaps. It can be made without the whole tensor in memory:
 *
 *     lmc_plan_create(ctx, &params, content_nbytes, read, user, &plan);
 *     lmc_plan_info(plan, &info);                              // sizes of head, blocks and tail
 *     lmc_encode_head(plan, dst, capacity, &nbytes);           // write it
 *     for each block i:                                        // any order, several threads, a context for each
 *         lmc_encode_block(ctx, plan, i, src, src_nbytes, dst, capacity, &entries[i]);    // write them in order
 *     lmc_encode_tail(plan, entries, info.block_count, dst, capacity, &nbytes);           // write it
 *     lmc_plan_free(plan); */

/* How one tensor will be coded: immutable once created, so threads may share it. */
typedef struct lmc_plan lmc_plan;

/* Writes content bytes [offset, offset + nbytes) to dst. Returns LMC_OK, or the status that the library's call is to
 * return. It may call the library, but only with another context. */
typedef lmc_status (*lmc_read_fn)(void *user, uint64_t offset, void *dst, size_t nbytes);

/* Looks at a sample of the content, or at all of small content and at level max, and decides how it will be coded.
 *  user: passed to read.
 * Free with lmc_plan_free(). Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, what read returned. */
LMC_NODISCARD LMC_API lmc_status lmc_plan_create(lmc_ctx *ctx, const lmc_params *params,
                                                 uint64_t content_nbytes, lmc_read_fn read, void *user,
                                                 lmc_plan **plan);

/* As lmc_plan_create(), with a base. The mode of the plan is LMC_FRAME_DELTA if the base helps (lmc_plan_info()).
 *  read_base: supplies the base's bytes. NULL: as lmc_plan_create().
 *  user: passed to both reads. */
LMC_NODISCARD LMC_API lmc_status lmc_plan_create_delta(lmc_ctx *ctx, const lmc_params *params,
                                                       uint64_t content_nbytes, lmc_read_fn read,
                                                       lmc_read_fn read_base, void *user, lmc_plan **plan);

/* Frees a plan. NULL is allowed. The allocator of the creating context must still work; the context may have been
 * freed. */
LMC_API void lmc_plan_free(lmc_plan *plan);

/* Describes the frame that the plan will give. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_plan_info(const lmc_plan *plan, lmc_info *info);

/* Destination capacity that is enough for every block of this plan. */
LMC_API size_t lmc_plan_block_bound(const lmc_plan *plan);

/* What the index records of one block. */
typedef struct lmc_block_entry {
    uint32_t stored_nbytes; /* bytes of the block in the frame */
    uint64_t content_hash;  /* XXH3-64 of its content */
    uint64_t base_hash;     /* of a delta frame: XXH3-64 of the bytes of the base that belong to it; else 0 */
} lmc_block_entry;

/* Writes the head (lmc_info.head_nbytes bytes). Errors: LMC_ERR_ARG, LMC_ERR_DST_SMALL. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_head(const lmc_plan *plan, void *dst, size_t dst_capacity,
                                                 size_t *dst_nbytes);

/* Encodes block `block_index`; entry->stored_nbytes bytes are written to dst.
 *  src: the block's content, block_nbytes bytes, fewer in the last block.
 *  dst_capacity: lmc_plan_block_bound() is enough for every block.
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_DST_SMALL; LMC_ERR_BASE if the mode of the plan is LMC_FRAME_DELTA. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_block(lmc_ctx *ctx, const lmc_plan *plan, uint64_t block_index,
                                                  const void *src, size_t src_nbytes, void *dst,
                                                  size_t dst_capacity, lmc_block_entry *entry);

/* As lmc_encode_block(), for plans of every mode.
 *  base: the part of the base that belongs to the block, from block_index * base_block_nbytes: base_nbytes bytes, as
 *  many for each byte of content as the whole base has. LMC_ERR_BASE if it is NULL or has another length. Ignored
 *  unless the mode is LMC_FRAME_DELTA. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_delta_block(lmc_ctx *ctx, const lmc_plan *plan,
                                                        uint64_t block_index, const void *src,
                                                        size_t src_nbytes, const void *base,
                                                        size_t base_nbytes, void *dst, size_t dst_capacity,
                                                        lmc_block_entry *entry);

/* Writes the tail (lmc_info.tail_nbytes bytes) from the entries of all blocks in order.
 * Errors: LMC_ERR_ARG, LMC_ERR_DST_SMALL. */
LMC_NODISCARD LMC_API lmc_status lmc_encode_tail(const lmc_plan *plan, const lmc_block_entry *entries,
                                                 uint64_t entry_count, void *dst, size_t dst_capacity,
                                                 size_t *dst_nbytes);

/* The hash of a content, made from the hashes of its blocks: XXH3-64 over the entries' content_hash as little-endian
 * u64. Equal contents of one dtype and block size have equal hashes. */
LMC_API uint64_t lmc_content_hash(const lmc_block_entry *entries, uint64_t entry_count);

/* The hash of a base: as lmc_content_hash(), over the entries' base_hash. */
LMC_API uint64_t lmc_base_hash(const lmc_block_entry *entries, uint64_t entry_count);

/* ---- the same in pieces: decode ----------------------------------------------------------------- */

/* A parsed and verified head and tail: immutable, so threads may share it. */
typedef struct lmc_frame lmc_frame;

/* Parses a frame of frame_nbytes bytes from its head and tail alone and verifies their checksum. The buffers are
 * copied; their sizes come from lmc_frame_read_info(). Free with lmc_frame_free().
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED, LMC_ERR_CHECKSUM;
 * LMC_ERR_LIMIT if the index does not fit a size_t, which can happen on a 32-bit machine. */
LMC_NODISCARD LMC_API lmc_status lmc_frame_create(lmc_ctx *ctx, const void *head, size_t head_nbytes,
                                                  const void *tail, size_t tail_nbytes, uint64_t frame_nbytes,
                                                  lmc_frame **frame);

/* Frees a frame, as lmc_plan_free() frees a plan. */
LMC_API void lmc_frame_free(lmc_frame *frame);

/* Describes the frame. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_frame_info(const lmc_frame *frame, lmc_info *info);

/* The content hash that the frame promises (lmc_content_hash()). */
LMC_API uint64_t lmc_frame_content_hash(const lmc_frame *frame);

/* The hash of the base that it needs (lmc_base_hash()); 0 for a frame without a base. */
LMC_API uint64_t lmc_frame_base_hash(const lmc_frame *frame);

/* Where a block is stored in the frame and how many content bytes it decodes to. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_frame_block(const lmc_frame *frame, uint64_t block_index,
                                                 uint64_t *offset, size_t *stored_nbytes,
                                                 size_t *content_nbytes);

/* Decodes one block from its stored bytes into dst (content_nbytes of lmc_frame_block()) and verifies it against the
 * index. A stored or short frame has no index: its blocks come back unverified with their content_hash in *entry, and
 * must not be used until lmc_content_hash() over all blocks was found equal to lmc_frame_content_hash(). entry may be
 * NULL for coded and delta frames.
 * Errors: LMC_ERR_ARG, LMC_ERR_NOMEM, LMC_ERR_DST_SMALL, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED, LMC_ERR_CHECKSUM;
 * LMC_ERR_BASE for a delta frame. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_block(lmc_ctx *ctx, const lmc_frame *frame, uint64_t block_index,
                                                  const void *stored, size_t stored_nbytes, void *dst,
                                                  size_t dst_capacity, lmc_block_entry *entry);

/* As lmc_decode_block(), for frames with and without a base.
 *  base: for a delta frame, the part of the base that belongs to the block, from block_index * base_block_nbytes:
 *  base_nbytes must be base_block_nbytes, or less for the last block, else LMC_ERR_BASE. It is verified first. Other
 *  frames ignore it. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_delta_block(lmc_ctx *ctx, const lmc_frame *frame,
                                                        uint64_t block_index, const void *stored,
                                                        size_t stored_nbytes, const void *base,
                                                        size_t base_nbytes, void *dst, size_t dst_capacity,
                                                        lmc_block_entry *entry);

#ifdef __cplusplus
}
#endif
#endif
