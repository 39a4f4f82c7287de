/*
 * lmc_st.h - safetensors files and LMC archives of them: the public interface of liblmc_st.
 *
 * An archive of X.safetensors is a file X.safetensors.lmc that is itself a valid safetensors file: each
 * tensor stands in it under its own name as one LMC frame (docs/archive.md). Restoring gives the
 * original file back, byte for byte. A plain safetensors file and an archive are read by the same calls.
 *
 * Conventions of every call, beside those of lmc.h
 *  - Files are read by strict rules (docs/archive.md, section 2): what breaks one is refused.
 *  - `diag` comes last and may be NULL. It is owned by the caller and set by every call that takes it:
 *    status LMC_OK after a success.
 *  - Paths are NUL-terminated. Names of tensors have a length: they may hold any character, NUL included.
 *  - There is no global state; nothing is printed. Different handles and different calls are independent.
 */
#ifndef LMC_ST_H
#define LMC_ST_H

#include "lmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits and diagnostics --------------------------------------------------------------------- */

#define LMC_ST_HEADER_NBYTES_MAX 100000000 /* header JSON; the limit of the official package */
#define LMC_ST_RANK_MAX 1024
#define LMC_ST_DEPTH_MAX 127 /* nested objects and arrays of a header */

#define LMC_ST_NO_OFFSET UINT64_MAX

/* What went wrong and where. Names are cut to fit and their control characters are escaped, so that
 * every text may be shown on a terminal. All strings are NUL-terminated and of one line.
 *
 * A status of a call on files means
 *   HEADER, CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED, BASE, LIMIT   the data is bad or too new
 *   ARG       the request is: output exists, input and output are one file, a directory, no such tensor
 *   IO, NOMEM the system failed; os_errno says how
 *   CANCELLED the caller asked for it */
typedef struct lmc_st_diag {
    lmc_status status;
    int os_errno;    /* errno of the system call that failed; 0 if none did */
    int has_tensor;  /* 1 if `tensor` names one (a name may be empty) */
    uint64_t offset; /* byte of `file` at which the fault was seen, or LMC_ST_NO_OFFSET */
    char file[512];  /* the file that is at fault: input or output */
    char tensor[160];
    char text[512]; /* the cause */
} lmc_st_diag;

/* ---- reading ------------------------------------------------------------------------------------ */

/* An open file. All calls on it but lmc_st_close() may run in several threads at once. */
typedef struct lmc_st_file lmc_st_file;

/* How a tensor stands in its file. */
typedef enum lmc_st_mode {
    LMC_ST_MODE_STORED = 0, /* the first three as lmc_frame_mode */
    LMC_ST_MODE_CODED = 1,
    LMC_ST_MODE_SHORT = 2,
    LMC_ST_MODE_PLAIN = 16 /* in a safetensors file that is no archive */
} lmc_st_mode;

/* "stored", "coded", "short", "plain"; NULL for other numbers. Static storage. */
LMC_API const char *lmc_st_mode_name(lmc_st_mode mode);

/* One tensor as the original header describes it. Pointers stay valid until lmc_st_close(). */
typedef struct lmc_st_tensor {
    const char *name; /* UTF-8; a NUL follows that is not counted */
    size_t name_nbytes;
    lmc_dtype dtype;
    const char *dtype_name;
    const uint64_t *shape; /* `rank` numbers; NULL for rank 0 */
    size_t rank;
    uint64_t nbytes;        /* content */
    uint64_t data_offset;   /* of the content in the original file's data region */
    uint64_t stored_nbytes; /* in this file: the frame, or `nbytes` in a plain file */
} lmc_st_tensor;

/* Opens a safetensors file or an archive and checks header and table; no frame is read yet.
 * Errors: IO (also: no such file), ARG (a directory, a pipe, a device), NOMEM, HEADER, TRUNCATED,
 * CORRUPT, CHECKSUM, UNSUPPORTED, LIMIT. Free with lmc_st_close(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_open(const char *path, lmc_st_file **file, lmc_st_diag *diag);

/* NULL is allowed. No other call on the file may run. */
LMC_API void lmc_st_close(lmc_st_file *file);

/* 1 for an archive, 0 for a plain safetensors file. */
LMC_API int lmc_st_is_archive(const lmc_st_file *file);

/* Bytes of the open file, and of the original file (the same for a plain one). */
LMC_API uint64_t lmc_st_stored_nbytes(const lmc_st_file *file);
LMC_API uint64_t lmc_st_file_nbytes(const lmc_st_file *file);

/* The header JSON of the original file, without its length and byte for byte: *nbytes bytes, no NUL.
 * Valid until lmc_st_close(). */
LMC_API const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes);

/* Tensors are numbered 0 .. count-1 in the order of their data. */
LMC_API uint64_t lmc_st_tensor_count(const lmc_st_file *file);

/* Describes tensor `index` without reading the file. Error: ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_tensor *tensor);

/* Finds a tensor by its name of `name_nbytes` bytes. Returns 1 and sets *index, or returns 0. */
LMC_API int lmc_st_find(const lmc_st_file *file, const char *name, size_t name_nbytes, uint64_t *index);

/* Reads the head of a tensor's frame (at most LMC_INFO_NBYTES bytes) for its mode and checks that it
 * promises the tensor's dtype and size. Errors: ARG, IO, TRUNCATED, CORRUPT, UNSUPPORTED. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_mode(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_mode *mode, lmc_st_diag *diag);

/* Reads content bytes [first_byte, first_byte + nbytes) of tensor `index` into dst, decoding only the
 * blocks that hold them (all of them if the frame is stored: it has one checksum). Everything read from
 * an archive is verified. On failure dst holds undefined bytes.
 *  ctx: scratch of the calling thread, or NULL to have one made for this call.
 * Errors: ARG (no such tensor, the range leaves it), IO, NOMEM, and of the frame TRUNCATED, CORRUPT,
 * UNSUPPORTED, CHECKSUM. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                   uint64_t first_byte, size_t nbytes, void *dst,
                                                   lmc_st_diag *diag);

/* Reads a whole tensor: dst_capacity must be at least its nbytes, else DST_SMALL. As
 * lmc_st_read_range(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst,
                                             size_t dst_capacity, lmc_st_diag *diag);

/* ---- whole files -------------------------------------------------------------------------------- */

typedef struct lmc_st_options {
    size_t struct_size;    /* sizeof(lmc_st_options); set by lmc_st_options_init() */
    lmc_level level;       /* convert only; default LMC_LEVEL_DEFAULT */
    unsigned thread_count; /* 0, the default: one per core; at most LMC_THREAD_COUNT_MAX. The bytes that
                              are written do not depend on it. */
    int force;             /* 1: replace an existing output; default 0: ARG with os_errno EEXIST */
    int no_fsync;          /* 1: leave it to the system when the output reaches the disk; default 0 */
    /* Called after each piece of work with the tensor bytes done so far, from worker threads but by one
     * at a time. Must return soon. May be NULL. */
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user;
    /* The call ends with CANCELLED soon after *cancel becomes non-zero; a signal handler or another
     * thread may set it. May be NULL. */
    const volatile int *cancel;
} lmc_st_options;

/* Sets every field to its default. */
LMC_API void lmc_st_options_init(lmc_st_options *options);

/* What a call on whole files has seen. */
typedef struct lmc_st_result {
    uint64_t file_nbytes;   /* the safetensors file */
    uint64_t stored_nbytes; /* the archive; for a plain file that was verified: file_nbytes */
    uint64_t tensor_count;
    int is_archive; /* verify: 1 if the file is an archive, so that its content was verified */
} lmc_st_result;

/* The three calls below share these rules.
 *  options: NULL for the defaults. result: may be NULL.
 *  The output appears whole under its name, or not at all: it is written to a temporary file in the same
 *  directory, flushed to the disk, renamed; it gets the input's permission bits. After a failure nothing
 *  is left. Threads and memory of a call end with it; memory stays below 128 MiB + 24 MiB per thread + 12
 *  times the header, whatever the size of file and tensors.
 *  If several things are wrong, the first in the file's order is reported, for every thread count. */

/* Writes the archive `out_path` of the safetensors file `in_path`.
 * Errors: ARG (output exists, same file, wrong kind of file), IO, NOMEM, HEADER, TRUNCATED, LIMIT,
 * CORRUPT (the input is an archive already), CANCELLED. */
LMC_NODISCARD LMC_API lmc_status lmc_st_convert(const char *in_path, const char *out_path,
                                                const lmc_st_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Writes the original of the archive `in_path` to `out_path`. Every byte is verified.
 * Errors: as lmc_st_convert() and CORRUPT, CHECKSUM, UNSUPPORTED. */
LMC_NODISCARD LMC_API lmc_status lmc_st_restore(const char *in_path, const char *out_path,
                                                const lmc_st_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Reads an archive whole and verifies what restoring it would give; of a plain safetensors file, checks
 * the header. Writes nothing. Errors: as lmc_st_restore(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options,
                                               lmc_st_result *result, lmc_st_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
