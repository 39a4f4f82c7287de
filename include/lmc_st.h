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
 *  - There is no global state; nothing is printed. Different handles and different calls are independent, and
 *    may run in different threads at once.
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
#define LMC_ST_CHAIN_MAX 64  /* files of a chain: an archive, its base, the base of that, ... */
#define LMC_ST_CHAIN_HEADER_NBYTES_MAX 400000000 /* original headers of its files, equal ones counted once */
#define LMC_ST_BASE_NAME_NBYTES_MAX 255

#define LMC_ST_NO_OFFSET UINT64_MAX

/* What went wrong and where. Names are cut to fit and their control characters are escaped, so that
 * every text may be shown on a terminal. All strings are NUL-terminated and of one line.
 *
 * A status of a call on files means
 *   HEADER, CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED, LIMIT   the data is bad or too new
 *   BASE      the archive's base is missing, or a file that passes for it is another one; the text names the
 *             file that is wanted and its hash
 *   ARG, DST_SMALL   the request is: output exists, input and output are one file, no such tensor
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
    LMC_ST_MODE_STORED = 0, /* the first four as lmc_frame_mode */
    LMC_ST_MODE_CODED = 1,
    LMC_ST_MODE_SHORT = 2,
    LMC_ST_MODE_DELTA = 3, /* coded against another tensor (lmc_st_tensor_base()) */
    LMC_ST_MODE_ALIAS = 5, /* equal to an earlier tensor, whose frame stands for both */
    LMC_ST_MODE_PLAIN = 16 /* in a safetensors file that is no archive */
} lmc_st_mode;

/* "stored", "coded", "short", "delta", "alias", "plain"; NULL for other numbers. Static storage. */
LMC_STABLE const char *lmc_st_mode_name(lmc_st_mode mode);

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
    uint64_t stored_nbytes; /* in this file: the frame (0 for an alias), or `nbytes` in a plain file */
} lmc_st_tensor;

/* Opens a safetensors file or an archive and checks header and table; no frame is read yet. Takes at most 4
 * times the bytes of the header + 1 MiB while it runs and until lmc_st_close(), whatever the header says; an
 * archive has two, its own and the original.
 * Errors: IO (also: no such file), ARG (a directory, a pipe, a device), NOMEM, HEADER, TRUNCATED,
 * CORRUPT, CHECKSUM, UNSUPPORTED, LIMIT. Free with lmc_st_close(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_open(const char *path, lmc_st_file **file, lmc_st_diag *diag);

/* The same with the caller's memory functions; the struct is copied, NULL stands for malloc and free. They
 * are called from every thread that uses the file, and must work until lmc_st_close(). What cJSON, zstd and
 * the C library need for themselves (to parse or compress a header, to sort, to list a directory, for a
 * thread) still comes from malloc; it is freed before the call ends. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_open_with(const char *path, const lmc_allocator *allocator,
                                                     lmc_st_file **file, lmc_st_diag *diag);

/* NULL is allowed. No other call on the file may run. */
LMC_STABLE void lmc_st_close(lmc_st_file *file);

/* 1 for an archive, 0 for a plain safetensors file. */
LMC_STABLE int lmc_st_is_archive(const lmc_st_file *file);

/* Bytes of the open file, and of the original file (the same for a plain one). */
LMC_STABLE uint64_t lmc_st_stored_nbytes(const lmc_st_file *file);
LMC_STABLE uint64_t lmc_st_file_nbytes(const lmc_st_file *file);

/* The header JSON of the original file, without its length and byte for byte: *nbytes bytes, no NUL.
 * Valid until lmc_st_close(). */
LMC_STABLE const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes);

/* Entries of the original header's `__metadata__`, in the order of its text; 0 if there is none. */
LMC_STABLE size_t lmc_st_metadata_count(const lmc_st_file *file);

/* Entry `index`: key and value, UTF-8, unescaped, each followed by a NUL that is not counted (they may hold
 * others). Valid until lmc_st_close(). Error: ARG. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_metadata(const lmc_st_file *file, size_t index, const char **key,
                                                    size_t *key_nbytes, const char **value,
                                                    size_t *value_nbytes);

/* Tensors are numbered 0 .. count-1 in the order of their data. */
LMC_STABLE uint64_t lmc_st_tensor_count(const lmc_st_file *file);

/* Describes tensor `index` without reading the file. A shape of more than 16 dimensions becomes numbers when it
 * is asked for first: that takes 8 bytes each, and 8 bytes per tensor of the file.
 * Errors: ARG, NOMEM (only for such a shape). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index,
                                                       lmc_st_tensor *tensor);

/* Finds a tensor by its name of `name_nbytes` bytes. Returns 1 and sets *index, or returns 0. */
LMC_STABLE int lmc_st_find(const lmc_st_file *file, const char *name, size_t name_nbytes, uint64_t *index);

/* Reads the head of a tensor's frame (at most LMC_INFO_NBYTES bytes) for its mode and checks that it
 * promises the tensor's dtype and size. Errors: ARG, IO, TRUNCATED, CORRUPT, UNSUPPORTED. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_tensor_mode(const lmc_st_file *file, uint64_t index,
                                                       lmc_st_mode *mode, lmc_st_diag *diag);

/* Reads content bytes [first_byte, first_byte + nbytes) of tensor `index` into dst, decoding only the
 * blocks that hold them (all of them if the frame is stored: it has one checksum). Everything read from
 * an archive is verified. On failure dst holds undefined bytes.
 *  ctx: scratch of the calling thread, or NULL to have one made for this call.
 * Of a tensor that was coded against another one (mode DELTA), the same part of that one is decoded first, and
 * so on down the chain of bases (below).
 * Errors: ARG (no such tensor, the range leaves it), IO, NOMEM, and of the frame TRUNCATED, CORRUPT,
 * UNSUPPORTED, CHECKSUM; of a tensor with a base also BASE, LIMIT, and the faults of the base's file. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                      uint64_t first_byte, size_t nbytes, void *dst,
                                                      lmc_st_diag *diag);

/* Reads a whole tensor: dst_capacity must be at least its nbytes, else DST_SMALL. As
 * lmc_st_read_range(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                void *dst, size_t dst_capacity, lmc_st_diag *diag);

/* ---- bases --------------------------------------------------------------------------------------
 *
 * An archive can be coded against another file, its base: a plain safetensors file or an archive, which may
 * have a base of its own, and so on for at most LMC_ST_CHAIN_MAX files, whose original headers have at most
 * LMC_ST_CHAIN_HEADER_NBYTES_MAX bytes together: files of one chain with equal headers, as snapshots have, hold one in
 * memory, which counts once. The archive records the base's plain
 * file name, the size and header hash of what it is or restores to, and in its frames hashes of its content:
 * wrong content never passes. Header, tensors and modes can be had without the base. It is looked for when it
 * is needed first:
 *   - the file `base` of lmc_st_set_base() or of the options, whatever its name is;
 *   - in each of `base_dirs`, in order: NAME, then NAME.lmc;
 *   - in the archive's own directory: NAME, then NAME.lmc (not for an archive read from a descriptor).
 * A file that has another size or header is not the base and is passed over, as are the archive itself and
 * those that need it. If several are left in the directories, a few tensors of them are looked at, and the first one
 * that fits best is taken. The base's own base is looked for by the same rules, without `base`. A base is never
 * written to.
 * A BF16 tensor may also be coded against the F32 tensor of the same file that it is rounded from. */

/* Which file the tensor is in that another one was coded against. */
typedef enum lmc_st_base_place {
    LMC_ST_BASE_FILE = 0, /* in the archive's base */
    LMC_ST_BASE_SELF = 1  /* in the same file */
} lmc_st_base_place;

/* What an archive records of its base. */
typedef struct lmc_st_base {
    const char *name;      /* of the file; UTF-8, NUL-terminated, without '/'. Valid until lmc_st_close(). */
    uint64_t file_nbytes;  /* of the safetensors file that it is, or restores to */
    uint64_t header_hash;  /* XXH3-64 of that file's header */
    uint64_t content_hash; /* of the content that is needed of it: what messages call its hash */
    uint64_t tensor_count; /* tensors of this archive that were coded against it */
} lmc_st_base;

/* Returns 1 and fills *base if the file is an archive with a base, else 0. */
LMC_EXPERIMENTAL int lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base);

/* Which tensor `index` was coded against. Returns 1 and sets *place and *base_index: its number in the base,
 * or in this file. Returns 0 for a tensor that needs no other one, an alias, and a number that is none. */
LMC_EXPERIMENTAL int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place,
                                        uint64_t *base_index);

/* Says where the base is to be looked for; base and base_dirs may be NULL and are copied. To be called before
 * anything is read from the file, and not while another call on it runs; nothing is opened yet.
 * Errors: NOMEM, ARG (the base is open already). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_set_base(lmc_st_file *file, const char *base,
                                                          const char *const *base_dirs, size_t base_dir_count,
                                                          lmc_st_diag *diag);

/* Finds and opens the base, unless a call has done so already. *base is to be used as any open file, but not
 * closed: it belongs to `file` and is valid until that is closed. With *base the same gives the next file of
 * the chain. Sets *base NULL and returns LMC_OK if the file has none.
 * Errors: BASE (also: the chain leads back to one of its files), LIMIT (LMC_ST_CHAIN_MAX,
 * LMC_ST_CHAIN_HEADER_NBYTES_MAX), NOMEM, IO. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base,
                                                           lmc_st_diag *diag);

/* The path that the file was opened by; of a base, where it was found. Valid until lmc_st_close(). */
LMC_STABLE const char *lmc_st_path(const lmc_st_file *file);

/* ---- whole files and directories ---------------------------------------------------------------- */

/* What has become of one file of a directory. */
typedef enum lmc_st_event {
    LMC_ST_EVENT_CONVERTED = 0,
    LMC_ST_EVENT_RESTORED = 1,
    LMC_ST_EVENT_VERIFIED = 2,
    LMC_ST_EVENT_COPIED = 3,
    LMC_ST_EVENT_KEPT = 4 /* an earlier run had written its archive, which was compared with it now */
} lmc_st_event;

typedef struct lmc_st_options {
    size_t struct_size;    /* sizeof(lmc_st_options); set by lmc_st_options_init() */
    lmc_level level;       /* convert only; default LMC_LEVEL_DEFAULT */
    unsigned thread_count; /* 0, the default: lmc_core_count(); at most LMC_THREAD_COUNT_MAX. The bytes that
                              are written do not depend on it. */
    int force;             /* 1: replace an existing output; default 0: ARG with os_errno EEXIST */
    int no_fsync;          /* 1: leave it to the system when the output reaches the disk; default 0 */
    /* Called after each piece of work with what is done so far, in tensor bytes, or for a directory in bytes
     * of its files: from worker threads, but by one at a time. done_nbytes never falls; total_nbytes stays
     * the same, and the last one of a call that succeeds has them equal. Must return soon. May be NULL. */
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user; /* for all three callbacks */
    /* The call ends with CANCELLED soon after *cancel becomes non-zero (or with a success, if it was about
     * to). A signal handler may set it, and another thread by an atomic store; it is read by atomic loads.
     * May be NULL. */
    const volatile int *cancel;
    const lmc_allocator *allocator; /* as for lmc_st_open_with(), until the call ends; default NULL */
    /* Descriptors to read from and write to instead of opening the paths, which then serve messages only; -1,
     * the default: the paths are opened. They stay open and the caller's. in_fd is for convert, restore and
     * verify: a regular file at its begin is read by position, anything else from where it stands to its end.
     * out_fd is for convert, restore and the writer, and is written from where it stands. Neither is for
     * directories. What cannot be read or written by position is collected in a temporary file ($TMPDIR,
     * /var/tmp or /tmp), but restored and plain files go to out_fd as they are made, each block once it is
     * verified (of a stored frame of more than 1 MiB, before): what a failed call has written there must be
     * thrown away by who reads it. */
    int in_fd, out_fd;
    int salvage; /* lmc_st_restore(): see there; default 0 */
    int sha256;  /* lmc_st_verify(): 1 asks for lmc_st_result.sha256; default 0. Not for directories (ARG). */
    /* Verify and salvage: called for every tensor that is damaged, in the file's order, from one thread at a
     * time. diag names tensor, place and damaged blocks. Verify also calls it for a file as a whole, with
     * has_tensor 0: an archive that was cut, before its tensors; in a directory, one that cannot be read at
     * all. May be NULL. */
    void (*damage)(void *user, const lmc_st_diag *diag);
    /* Directories: called after each file with its path relative to the directory, in an order that is
     * the same for every run, and its size before and after. May be NULL. */
    void (*file_done)(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                      uint64_t out_nbytes);
    /* Convert and the writer: the file to code against, plain or archive; for a directory, a directory, in
     * which each safetensors file has the file of its relative name, or of that with .lmc, as its base (none:
     * it is stored alone). Tensors are matched by name, dtype and shape; one without a match may still be
     * found equal to a tensor of another name. The archive then needs the base to be read.
     * Restore, verify, compare: the base of the archive, or the directory of the bases of a directory's
     * archives. NULL, the default: no base; or it is looked for, see above. */
    const char *base;
    /* All calls: directories in which bases are looked for; default NULL and 0. For a directory, in each of them
     * first in the folder that the file is in below its own root. */
    const char *const *base_dirs;
    size_t base_dir_count;
} lmc_st_options;

/* Sets every field to its default. */
LMC_STABLE void lmc_st_options_init(lmc_st_options *options);

/* What a call on whole files has seen. For a directory, sums over its files. After a failure all zero,
 * unless damage was found (damaged_count is above 0) or a directory was verified. */
typedef struct lmc_st_result {
    uint64_t file_nbytes;   /* the safetensors file */
    uint64_t stored_nbytes; /* the archive; for a plain file that was verified: file_nbytes */
    uint64_t tensor_count;
    int is_archive;           /* verify: 1 if the file is an archive, so that its content was verified */
    uint64_t damaged_count;   /* verify, salvage: tensors that are lost */
    unsigned char sha256[32]; /* if asked for and the call succeeded: of the (original) file */
    uint64_t file_count;      /* directories: files of any kind */
    uint64_t kept_count;      /* directories: archives that an earlier run had written */
} lmc_st_result;

/* The calls below share these rules.
 *  options: NULL for the defaults. result: may be NULL.
 *  The output appears whole under its name, or not at all: it is written to a file without a name, or with
 *  a temporary one in the same directory, flushed to the disk, then named; it gets the input's permission
 *  bits and time of modification. After a failure nothing is left, and by a killed process neither if the
 *  file system has files without a name (but for a moment in which `force` replaces a file). Threads and
 *  memory of a call end with it; memory stays below 128 MiB + 24 MiB per thread + 8 times the header,
 *  whatever the size of file and tensors; with a base, 8 times the headers of all files of the chain.
 *  If several things are wrong, the first in the file's order is reported, for every thread count. */

/* Writes the archive `out_path` of the safetensors file, or directory (see below), `in_path`.
 * Errors: ARG (output exists, same file, wrong kind of file), IO, NOMEM, HEADER, TRUNCATED, LIMIT,
 * CORRUPT (the input is an archive already), CANCELLED; LIMIT also for a file whose tensors are too many for
 * the archive's own header, which may have LMC_ST_HEADER_NBYTES_MAX bytes too (docs/archive.md, section 3);
 * with a base what opening and reading it gives, ARG if it is the output or its name cannot be recorded (no
 * UTF-8, too long), LIMIT if its chain is full. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_convert(const char *in_path, const char *out_path,
                                                   const lmc_st_options *options, lmc_st_result *result,
                                                   lmc_st_diag *diag);

/* Writes the original of the archive, or converted directory, `in_path` to `out_path`. Every byte is
 * verified.
 *  salvage: of a damaged archive, a safetensors file of all tensors that verify is written, with the original
 *  names, shapes and metadata; the call then fails as lmc_st_verify() does, but the output is there,
 *  result->damaged_count is above 0 and result->tensor_count counts the tensors in it. An archive that was
 *  cut short is accepted, and so is one to which something was appended (with all tensors sound, the call
 *  succeeds); its table must be sound. Not for directories (ARG). Tensors whose base is missing are lost.
 * Errors: as lmc_st_convert() and CORRUPT, CHECKSUM, UNSUPPORTED, BASE. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_restore(const char *in_path, const char *out_path,
                                                   const lmc_st_options *options, lmc_st_result *result,
                                                   lmc_st_diag *diag);

/* Reads an archive whole and verifies what restoring it would give; of a plain safetensors file, checks
 * the header; of a directory, all archives in it. Goes on after a damaged tensor; the status is the first
 * one's. Writes nothing. If an archive's base is missing, all that can be checked without it is: the frames of
 * tensors that need it but not their content; the status is then BASE, with a text that names the base, unless
 * tensors are damaged: then `damage` gets that diagnostic after theirs. Errors: as lmc_st_restore(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options,
                                                  lmc_st_result *result, lmc_st_diag *diag);

/* Reads an archive whole and compares what it restores to with the file `plain_path`, byte by byte: the proof
 * that one of them may be removed. For a converted directory and its original likewise: every file of the
 * original, and nothing else in the converted one. in_fd is not used.
 * Errors: CHECKSUM if they differ, and as lmc_st_verify() of either. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_compare(const char *archive_path, const char *plain_path,
                                                   const lmc_st_options *options, lmc_st_diag *diag);

/* ---- writing ------------------------------------------------------------------------------------ */

/* Collects tensors and writes them as one archive or one safetensors file. One thread at a time. Calls
 * without a diagnostic leave the writer as it was when they fail. */
typedef struct lmc_st_writer lmc_st_writer;

/* allocator: NULL for malloc and free; copied. Errors: NOMEM. Free with lmc_st_writer_free(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_create(const lmc_allocator *allocator,
                                                         lmc_st_writer **writer);

/* NULL is allowed. */
LMC_STABLE void lmc_st_writer_free(lmc_st_writer *writer);

/* Adds an entry of `__metadata__` (loaders of models want "format" = "pt"). Key and value are UTF-8 of the
 * given sizes and are copied. Errors: NOMEM; ARG for bytes that are no UTF-8 (a key that stands twice is
 * found when the file is written). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_set_metadata(lmc_st_writer *writer, const char *key,
                                                               size_t key_nbytes, const char *value,
                                                               size_t value_nbytes);

/* Adds a tensor whose content, little-endian and in C order, is in memory: data must stay valid and unchanged
 * until the last write; it may be NULL for a tensor without bytes. Name (UTF-8) and shape are copied; shape
 * may be NULL for rank 0. The size follows from dtype and shape: data must hold so many bytes, which nobody checks.
 * Errors: NOMEM; ARG: no such dtype, rank above LMC_ST_RANK_MAX, a name that is no UTF-8, a size that does
 * not fit 63 bits or is not a whole number of bytes, data NULL. (A name that stands twice is found when the
 * file is written.) */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_add(lmc_st_writer *writer, const char *name,
                                                      size_t name_nbytes, lmc_dtype dtype,
                                                      const uint64_t *shape, size_t rank, const void *data);

/* The same for content that is supplied on demand, within the calls that write: read(user, offset, dst,
 * nbytes) may be called for the same bytes more than once, and by several threads at once; it must give the
 * same bytes every time. What it returns but LMC_OK ends the call that writes, with a diagnostic that names
 * the tensor. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name,
                                                           size_t name_nbytes, lmc_dtype dtype,
                                                           const uint64_t *shape, size_t rank,
                                                           lmc_read_fn read, void *user);

/* Writes the archive of the safetensors file that lmc_st_writer_write_plain() would write. May be called more
 * than once. options as for lmc_st_convert(), its allocator is not used. Errors: ARG (output exists; a name
 * or metadata key stands twice; a tensor is called "__metadata__"; the metadata are an archive's, "format" =
 * "lmc" and "lmc_archive"), IO, NOMEM, LIMIT, CANCELLED, what a read function returned. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                                                        const lmc_st_options *options, lmc_st_result *result,
                                                        lmc_st_diag *diag);

/* Writes a safetensors file as the official package lays it out: tensors by falling alignment, then by name,
 * the header padded to a multiple of 8 bytes; metadata in the order in which it was set. Errors: as
 * lmc_st_writer_write(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer,
                                                              const char *out_path,
                                                              const lmc_st_options *options,
                                                              lmc_st_result *result, lmc_st_diag *diag);

/* ---- directories --------------------------------------------------------------------------------
 *
 * lmc_st_convert() of a model's directory writes a directory: every *.safetensors file becomes an archive of
 * its name with .lmc, every other file is copied, links to files are followed, empty folders are kept. Before
 * anything is written, the headers of all safetensors files are checked, and each index
 * (*.safetensors.index*.json) must name plain files that are there (when restoring: their archives). A link to
 * a directory, a pipe, a file whose name would meet an archive's, and a name that is too long for the output are
 * refused (ARG).
 * The new directory grows beside its place under a name of its own (".NAME.lmc-st-partial") and is renamed
 * when it is complete. A run that was killed or cancelled leaves it there, and so does one whose disk was full or
 * failed (os_errno ENOSPC, EDQUOT, EIO) after an archive was finished; the next one goes on with it: an archive that
 * is there already and that restores to its source, byte for byte, is kept. After any other failure it is removed.
 * One that belongs to another user, or in which others may write, is refused (ARG). With `force`, a directory that is
 * in the way is replaced as a whole; archives in it that are still right are taken over, whatever their level.
 * lmc_st_restore() of such a directory gives the tree back: every *.safetensors.lmc file is restored, every
 * other one copied. */

#ifdef __cplusplus
}
#endif
#endif
