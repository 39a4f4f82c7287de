/*
 * lmc_st.h - files with tensors, and LMC archives of them: the public interface of liblmc_st.
 *
 * An archive of X is a file X.lmc. X is a safetensors file, a file of torch.save(), of numpy, of llama.cpp, or with an
 * option any file. An archive is itself a valid safetensors file: it holds each tensor under its own name as one LMC
 * frame (docs/archive.md). Restoring gives back every byte. The same calls read a plain file and an archive.
 *
 *     lmc_st_convert("model.safetensors", "model.safetensors.lmc", NULL, NULL, &diag);
 *     lmc_st_load_tensor("model.safetensors.lmc", "lm_head.weight", NULL, &content, &nbytes, &diag);
 *
 * Conventions of every call, in addition to those of lmc.h
 *  - Files are read by strict rules (docs/archive.md, sections 2 and 8.4). A safetensors file that breaks a rule is
 *    rejected. In other containers, an item that breaks a rule is not listed; an unreadable container is rejected.
 *  - `diag` comes last and may be NULL. The caller owns it. Every call that takes it sets it, also after a success.
 *  - What can fail returns an lmc_status. A search returns 1, or 0 if nothing was found.
 *  - Paths are NUL-terminated. Names of tensors have a length: they may hold any character, NUL included.
 *  - Nothing is printed. Different handles and calls may be used by several threads. There is no global state but that
 *    of lmc.h and of SQLite: a call that uses the index of a store initialises SQLite in the process. While it lasts, a
 *    VFS named "lmc-store" is registered.
 *  - LMC_INIT() sets the size and the defaults of a struct, which are all 0. A struct_size that the library does not
 *    know is rejected with LMC_ERR_ARG. Options are NULL for the defaults.
 *  - Calls of this header are stable, as those of lmc.h. Calls that may change in any minor version are in
 *    lmc_st_experimental.h, lmc_run.h and lmc_store.h.
 */
#ifndef LMC_ST_H
#define LMC_ST_H

#include "lmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits and diagnostics --------------------------------------------------------------------- */

#define LMC_ST_ARCHIVE_VERSION 1           /* of the archives that are written and read (docs/archive.md) */
#define LMC_ST_HEADER_NBYTES_MAX 100000000 /* header JSON; the limit of the official package */
#define LMC_ST_RANK_MAX 1024
#define LMC_ST_DEPTH_MAX 127 /* nested objects and arrays of a header */
#define LMC_ST_CHAIN_MAX 64  /* files of a chain: an archive, its base, the base of that, ... */
#define LMC_ST_CHAIN_HEADER_NBYTES_MAX 400000000 /* original headers of its files, equal ones counted once */
#define LMC_ST_BASE_NAME_NBYTES_MAX 255
#define LMC_ST_BASE_PATH_NBYTES_MAX 1023
#define LMC_ST_ARCHIVE_BASES_MAX 255 /* base files of one archive */
#define LMC_ST_BASE_FILES_MAX 1024   /* open base files, direct and indirect, of one open file */
#define LMC_ST_NO_OFFSET UINT64_MAX

/* What went wrong and where. Names are cut to fit, and their control characters are escaped: every text may be shown on
 * a terminal. All strings are NUL-terminated and have one line. Statuses of calls on files are of five kinds:
 *   bad data     LMC_ERR_HEADER, LMC_ERR_CORRUPT, LMC_ERR_TRUNCATED, LMC_ERR_CHECKSUM; LMC_ERR_UNSUPPORTED and
 *                LMC_ERR_LIMIT for what is too new or too much. LMC_ERR_CORRUPT also for a sound file of the wrong
 *                kind: a plain file that is to be restored, an archive that is to be converted
 *   the base     LMC_ERR_BASE: it is missing, or has other content. The text names the needed file and its hash.
 *   the request  LMC_ERR_ARG, LMC_ERR_DST_SMALL: output exists, input and output are one file; no such
 *                tensor, step or model
 *   the system   LMC_ERR_IO, LMC_ERR_NOMEM; os_errno says how
 *   the caller   LMC_ERR_CANCELLED */
typedef struct lmc_st_diag {
    size_t struct_size; /* sizeof(lmc_st_diag); set by LMC_INIT() */
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

/* What kind of file it is, or was before it was converted. The numbers are those of docs/archive.md. */
typedef enum lmc_st_container LMC_OF_INT {
    LMC_ST_CONTAINER_SAFETENSORS = 0,
    LMC_ST_CONTAINER_ZIP = 1,  /* torch.save(), torch.jit.save(), numpy.savez(); several together: .distcp */
    LMC_ST_CONTAINER_NPY = 2,  /* numpy.save() */
    LMC_ST_CONTAINER_GGUF = 3, /* llama.cpp */
    LMC_ST_CONTAINER_RAW = 4   /* any other file, cut into pieces */
} lmc_st_container;

/* "safetensors", "zip", "npy", "gguf", "raw"; NULL for other numbers. Static storage. */
LMC_API const char *lmc_st_container_name(lmc_st_container container);

/* One tensor as it is read: in C order, little-endian. In containers other than safetensors it may be a view: its
 * elements are picked from a storage, which several may share. A storage without tensors has one dimension, and a dtype
 * that a sample suggests (docs/archive.md, sections 8.5 and 8.6). Pointers stay valid until lmc_st_close(). */
typedef struct lmc_st_tensor {
    size_t struct_size; /* sizeof(lmc_st_tensor); set by LMC_INIT() */
    const char *name;   /* UTF-8; a NUL follows that is not counted */
    size_t name_nbytes;
    lmc_dtype dtype;
    const char *dtype_name;
    const uint64_t *shape; /* `rank` numbers; NULL for rank 0 */
    size_t rank;
    uint64_t nbytes;         /* content; of a view with strides of 0, it may be much more than is stored */
    uint64_t data_offset;    /* where its storage would be if all storages followed each other, in order;
                             * in a safetensors file the first of its data_offsets */
    uint64_t stored_nbytes;  /* in this file; 0 if it shares the bytes of an earlier tensor (alias, view) */
    int is_view;             /* 0: it is all of its storage as it lies there; strides are NULL, offset is 0 */
    int is_big_endian;       /* of the storage */
    const uint64_t *strides; /* `rank` numbers, in elements of `dtype`; NULL for rank 0 */
    uint64_t offset;         /* of the first element in the storage, in elements */
    uint64_t view_of;        /* the first tensor of the storage; its own number if it is that */
    uint64_t storage_nbytes;
    const char *note; /* why the dtype is U8, not the file's own; or NULL. At most 255 bytes */
} lmc_st_tensor;

typedef struct lmc_st_open_options {
    size_t struct_size; /* sizeof(lmc_st_open_options); set by LMC_INIT() */
    /* NULL: calloc and free. Copied; all threads that use the file call it (docs/library.md, "Memory"). */
    const lmc_allocator *allocator;
    int raw; /* 1: a file of no known kind is taken as LMC_ST_CONTAINER_RAW */
    /* Not NULL: the bytes come from this function, for example from a store; the path serves messages and decides the
     * kind. It gives bytes [offset, offset + nbytes) of read_nbytes, to several threads at once, until lmc_st_close().
     * Any status but LMC_OK ends the call that reads, with that status. */
    lmc_read_fn read;
    void *read_user;
    uint64_t read_nbytes;
    const char *base; /* the base of the archive, regardless of its name ("bases" below); copied */
    const char *const *base_dirs;
    size_t base_dir_count;
} lmc_st_open_options;

/* Opens a plain file or an archive and checks header and table; no frame is read yet, and no base is opened. The
 * content decides the kind, but a file named *.safetensors is always read as one. The header bounds the memory that is
 * taken (docs/library.md). A base is looked for when it is needed: a program that changes its working directory
 * meanwhile must give absolute paths. Errors: bad data, the system, LMC_ERR_ARG (a directory, a pipe, a device). */
LMC_NODISCARD LMC_API lmc_status lmc_st_open(const char *path, const lmc_st_open_options *options,
                                             lmc_st_file **file, lmc_st_diag *diag);

/* NULL is allowed. No other call on the file may run. */
LMC_API void lmc_st_close(lmc_st_file *file);

/* The path that the file was opened by; of a base, where it was found. Valid until lmc_st_close(). */
LMC_API const char *lmc_st_path(const lmc_st_file *file);

/* What the file is, or of an archive, what it was made from; and 1 for an archive, 0 for a plain file. */
LMC_API lmc_st_container lmc_st_container_of(const lmc_st_file *file);
LMC_API int lmc_st_is_archive(const lmc_st_file *file);

/* Bytes of the open file, and bytes of the original file. Both are equal for a plain file. */
LMC_API uint64_t lmc_st_stored_nbytes(const lmc_st_file *file);
LMC_API uint64_t lmc_st_original_nbytes(const lmc_st_file *file);

/* The header JSON of the original file, without its length and byte for byte: *nbytes bytes, no NUL. For other
 * containers, a header that was made for their tensors. Valid until lmc_st_close(). */
LMC_API const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes);

/* Entries of the original header's `__metadata__`, in the order of its text. Entry `index`: key and value, UTF-8,
 * unescaped, each followed by a NUL that is not counted. Error: LMC_ERR_ARG. */
LMC_API uint64_t lmc_st_metadata_count(const lmc_st_file *file);
LMC_NODISCARD LMC_API lmc_status lmc_st_metadata(const lmc_st_file *file, uint64_t index, const char **key,
                                                 size_t *key_nbytes, const char **value,
                                                 size_t *value_nbytes);

/* Tensors are numbered 0 .. count-1: the first of each storage in the order of the data, then all other views. */
LMC_API uint64_t lmc_st_tensor_count(const lmc_st_file *file);

/* Describes tensor `index` without reading the file. Errors: LMC_ERR_ARG; LMC_ERR_NOMEM: only the shape is missing, one
 * of more than 16 dimensions, for which the first request takes memory. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_tensor *tensor);

/* Finds a tensor by its name, or by a name of name_nbytes bytes. Returns 1 and sets *index, or returns 0. */
LMC_API int lmc_st_find_tensor(const lmc_st_file *file, const char *name, uint64_t *index);
LMC_API int lmc_st_find_tensor_sized(const lmc_st_file *file, const char *name, size_t name_nbytes,
                                     uint64_t *index);

/* Reads content bytes [first_byte, first_byte + nbytes) of tensor `index` into dst, decoding only the blocks that hold
 * them (all of them if the frame is stored: it has one checksum). Everything read from an archive is verified. On
 * failure dst holds undefined bytes. If the tensor was coded against another one, that is decoded first.
 *  ctx: scratch of the calling thread; with NULL the call makes its own.
 * Errors: LMC_ERR_ARG (no such tensor, the range leaves it), bad data, the system; of a tensor with a base also
 * LMC_ERR_BASE and the faults of the base's file. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                   uint64_t first_byte, size_t nbytes, void *dst,
                                                   lmc_st_diag *diag);

/* Reads a whole tensor as lmc_st_read_range() does. LMC_ERR_DST_SMALL: dst_capacity is less than its nbytes. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst,
                                             size_t dst_capacity, lmc_st_diag *diag);

/* Reads the tensor `name` of a file, which is opened and closed, on all cores. *content gets *nbytes bytes, and
 * is never NULL after a success. The caller owns it, and releases it with the allocator in `options`, or with free() if
 * there is none. Errors: as lmc_st_open() and lmc_st_read(); LMC_ERR_ARG: no such tensor. */
LMC_NODISCARD LMC_API lmc_status lmc_st_load_tensor(const char *path, const char *name,
                                                    const lmc_st_open_options *options, void **content,
                                                    size_t *nbytes, lmc_st_diag *diag);

/* ---- bases --------------------------------------------------------------------------------------
 * An archive can be coded against another file, its base: a plain file or an archive, which may have a base in turn.
 * The archive records hashes of the base's content: wrong content never passes. Header, tensors and modes can be read
 * without the base. A call that needs it looks for it in `base` and `base_dirs`, then beside the archive, then in the
 * run or the directories that the archive belongs to (docs/library.md, "Bases"). */

/* ---- options of long calls ---------------------------------------------------------------------- */

/* What every long call takes: the options of each start with struct_size and `common`. This struct never grows. */
typedef struct lmc_st_common {
    unsigned thread_count; /* 0: all cores; at most LMC_THREAD_COUNT_MAX */
    /* Called after each piece of work, by one thread at a time, with bytes of tensors, or of files for a directory.
     * A plain file that is verified with sha256 counts whole. done_nbytes never falls, total_nbytes stays, and a
     * success ends with both equal. May be NULL. */
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user; /* for all callbacks of the options */
    /* The call ends with LMC_ERR_CANCELLED soon after *cancel becomes non-zero, or with a success that was near. It is
     * read by atomic loads; a signal handler may set it. May be NULL. */
    const volatile int *cancel;
    /* As for lmc_st_open(), until the call ends; if it makes an object, until that is freed. NULL: that of the file or
     * writer that the call works on, or calloc. */
    const lmc_allocator *allocator;
} lmc_st_common;

/* What was done with one file of a directory. */
typedef enum lmc_st_event LMC_OF_INT {
    LMC_ST_EVENT_CONVERTED = 0,
    LMC_ST_EVENT_RESTORED = 1,
    LMC_ST_EVENT_VERIFIED = 2,
    LMC_ST_EVENT_COPIED = 3,
    LMC_ST_EVENT_KEPT = 4 /* an earlier call wrote its archive; this one compared the two */
} lmc_st_event;

/* Called after each file of a directory with its path there and its sizes before and after. The order is the same for
 * every number of threads. */
typedef void (*lmc_st_file_fn)(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                               uint64_t out_nbytes);

/* Called with each fault after which a call continues, by one thread at a time. */
typedef void (*lmc_st_fault_fn)(void *user, const lmc_st_diag *diag);

/* LMC_INIT() sets struct_size. Callbacks may be NULL. They are called by one thread at a time, which may be one that
 * the call has started. Fields that several structs have:
 *  force       1: replace an existing output. LMC_ERR_ARG if it is a run or store (lmc_store_locate()), is in one, or
 *              holds one.
 *              0: LMC_ERR_ARG with os_errno EEXIST.
 *  no_fsync    1: leave it to the system when the output reaches the disk.
 *  has_in_fd   1: in_fd is read, and has_out_fd 1: out_fd is written to. The paths then serve messages only, and the
 *              descriptors stay open (docs/library.md, "Streams"). Not for directories.
 *  base        The base, or the directory of bases. NULL: none to convert or write; the other calls look for it.
 *  base_dirs   Directories in which bases are looked for; for a directory, first in the folder with a file's path.
 *  damage      Called for each damaged tensor, in the file's order. diag names tensor, place and damaged blocks. */
typedef struct lmc_st_options { /* of calls that take nothing else */
    size_t struct_size;
    lmc_st_common common;
} lmc_st_options;

typedef struct lmc_st_convert_options {
    size_t struct_size;
    lmc_st_common common;
    lmc_level level;
    int force, no_fsync;
    int has_in_fd, in_fd, has_out_fd, out_fd;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    int raw; /* 1: takes a file of any kind (docs/library.md). Not for directories (LMC_ERR_ARG) */
    const char *const *excludes; /* directories: patterns of files to copy (docs/library.md) */
    size_t exclude_count;
    lmc_st_file_fn file_done;
    lmc_st_fault_fn warning; /* directories: a file is copied that is an archive, or a broken container */
} lmc_st_convert_options;

typedef struct lmc_st_restore_options {
    size_t struct_size;
    lmc_st_common common;
    int force, no_fsync;
    int has_in_fd, in_fd, has_out_fd, out_fd;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    /* 1: save the undamaged tensors of a damaged archive (docs/library.md). Not for directories (LMC_ERR_ARG) */
    int salvage;
    lmc_st_fault_fn damage; /* with salvage */
    lmc_st_file_fn file_done;
} lmc_st_restore_options;

typedef struct lmc_st_verify_options {
    size_t struct_size;
    lmc_st_common common;
    int has_in_fd, in_fd;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    int sha256;             /* 1 asks for lmc_st_result.sha256. Not for directories (LMC_ERR_ARG) */
    lmc_st_fault_fn damage; /* also, with has_tensor 0, for a file that was cut or cannot be read */
    lmc_st_file_fn file_done;
} lmc_st_verify_options;

typedef struct lmc_st_compare_options {
    size_t struct_size;
    lmc_st_common common;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
} lmc_st_compare_options;

/* Collects tensors and writes them as one archive or one safetensors file. One thread at a time may use a writer. */
typedef struct lmc_st_writer lmc_st_writer;

typedef struct lmc_st_write_options { /* of an archive, lmc_st_writer_write() */
    size_t struct_size;
    lmc_st_common common;
    lmc_level level;
    int force, no_fsync;
    int has_out_fd, out_fd;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    /* Not NULL: the base is the safetensors file that this writer would write. The call reads its tensors in memory,
     * and compares those that have the name, dtype and shape of a tensor that is written. `base` is the name by which
     * the archive knows this file; NULL: "base.safetensors". */
    const lmc_st_writer *base_writer;
} lmc_st_write_options;

typedef struct lmc_st_output_options { /* of a plain file, lmc_st_writer_write_plain() */
    size_t struct_size;
    lmc_st_common common;
    int force, no_fsync;
    int has_out_fd, out_fd;
} lmc_st_output_options;

/* ---- whole files and directories ---------------------------------------------------------------- */

/* What a call has seen; of a directory, sums. All are 0 if a call failed for a reason other than damage; a directory
 * that is verified keeps the sums so far. */
typedef struct lmc_st_result {
    size_t struct_size;       /* sizeof(lmc_st_result); set by LMC_INIT() */
    uint64_t original_nbytes; /* the original file */
    uint64_t stored_nbytes;   /* the archive; for a plain file that was verified: original_nbytes */
    uint64_t tensor_count;
    int is_archive;             /* verify: 1 if the file is an archive, so that its content was verified */
    uint64_t damaged_count;     /* verify, salvage: tensors that are lost; all between them counts as one */
    unsigned char sha256[32];   /* if asked for and the call succeeded: of the (original) file */
    uint64_t file_count;        /* directories: files of any kind */
    uint64_t kept_count;        /* directories: archives that an earlier call wrote */
    lmc_st_container container; /* of the (original) file; of a directory: LMC_ST_CONTAINER_SAFETENSORS */
} lmc_st_result;

/* An output is either complete or absent. Memory use is bounded; if there are several faults, the first in file order
 * is reported (docs/library.md). result may be NULL. Paths may be those of directories. */

/* Writes the archive `out_path` of the plain file or directory `in_path`.
 * Errors: LMC_ERR_ARG (output exists, same file, a pipe or device; the base is the output), bad data, LMC_ERR_CORRUPT
 * (the input is an archive), the system, LMC_ERR_CANCELLED; those of opening and reading the base. */
LMC_NODISCARD LMC_API lmc_status lmc_st_convert(const char *in_path, const char *out_path,
                                                const lmc_st_convert_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Writes the original of the archive, or converted directory, `in_path` to `out_path`. Every byte is verified. A
 * salvage of a damaged archive fails as lmc_st_verify() does; the output is there if result->damaged_count is above 0.
 * Errors: as lmc_st_convert(), but LMC_ERR_CORRUPT for an input that is no archive; LMC_ERR_BASE. */
LMC_NODISCARD LMC_API lmc_status lmc_st_restore(const char *in_path, const char *out_path,
                                                const lmc_st_restore_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Reads an archive whole and verifies what restoring it would give; of a plain file only the header or directory. It
 * continues after a damaged tensor; the status is that of the first one, but LMC_ERR_TRUNCATED if the file was cut.
 * Without the base, the frames that need it are checked, but not their content; LMC_ERR_BASE if no tensor is damaged.
 * Errors: as lmc_st_restore(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_verify(const char *in_path, const lmc_st_verify_options *options,
                                               lmc_st_result *result, lmc_st_diag *diag);

/* Reads an archive whole and compares what it restores to with the file `plain_path`, byte by byte. A success proves
 * that one of them may be removed. For a converted directory and its original, it compares every file; neither may have
 * others. Errors: LMC_ERR_CHECKSUM if they differ, LMC_ERR_CORRUPT if `archive_path` is no archive, and as
 * lmc_st_verify() of either. */
LMC_NODISCARD LMC_API lmc_status lmc_st_compare(const char *archive_path, const char *plain_path,
                                                const lmc_st_compare_options *options, lmc_st_diag *diag);

/* Reads whole tensors: tensor indices[i] to dsts[i], which has room for its nbytes. Threads share the work, also that
 * of one large tensor. A tensor may be asked for more than once. Progress counts bytes of these tensors.
 * Errors: as lmc_st_read(), LMC_ERR_CANCELLED. On failure the destinations hold undefined bytes. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_many(const lmc_st_file *file, const uint64_t *indices,
                                                  void *const *dsts, size_t count,
                                                  const lmc_st_options *options, lmc_st_diag *diag);

/* ---- writing ------------------------------------------------------------------------------------ */

/* allocator: NULL for calloc and free; copied. Errors: LMC_ERR_NOMEM; LMC_ERR_ARG: the allocator lacks a function. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_create(const lmc_allocator *allocator, lmc_st_writer **writer);

/* Frees a writer, but no content of tensors. NULL is allowed. No call that uses it, also as a base_writer, may be in
 * progress. */
LMC_API void lmc_st_writer_free(lmc_st_writer *writer);

/* Adds an entry of `__metadata__` (loaders of models expect "format" = "pt"). Key and value are UTF-8 and are copied.
 * Errors: LMC_ERR_NOMEM, LMC_ERR_ARG (not UTF-8). The call that writes reports a duplicate key. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_set_metadata(lmc_st_writer *writer, const char *key,
                                                            size_t key_nbytes, const char *value,
                                                            size_t value_nbytes);

/* Adds a tensor whose content is in memory, little-endian and in C order.
 *  name: UTF-8 of name_nbytes bytes; copied. shape: `rank` numbers; copied. NULL for rank 0.
 *  data: as many bytes as dtype and shape say, which is not checked; NULL for none. They must stay valid and
 *  unchanged until the last write.
 * Errors: LMC_ERR_NOMEM; LMC_ERR_ARG: no such dtype, rank above LMC_ST_RANK_MAX, a name that is not UTF-8, a size of
 * 2^64 bits or more, or not of whole bytes, data NULL. The call that writes reports a duplicate name. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_add(lmc_st_writer *writer, const char *name,
                                                   size_t name_nbytes, lmc_dtype dtype, const uint64_t *shape,
                                                   size_t rank, const void *data);

/* Adds a tensor whose content is supplied on demand, within the calls that write. read() may be called more than once
 * for the same bytes, and by several threads at once. A status other than LMC_OK ends the call that writes. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name,
                                                        size_t name_nbytes, lmc_dtype dtype,
                                                        const uint64_t *shape, size_t rank, lmc_read_fn read,
                                                        void *user);

/* Writes the archive of the safetensors file that lmc_st_writer_write_plain() would write. May be called more than
 * once. Errors: LMC_ERR_ARG (output exists; a duplicate name or metadata key; a tensor is called "__metadata__"; the
 * metadata are those of an archive), a status of a read function, and as lmc_st_convert(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                                                     const lmc_st_write_options *options,
                                                     lmc_st_result *result, lmc_st_diag *diag);

/* Writes a safetensors file as the official package lays it out: tensors by falling alignment, then by name; the header
 * padded to a multiple of 8 bytes; metadata in the order of lmc_st_writer_set_metadata(). Errors: the same. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer, const char *out_path,
                                                           const lmc_st_output_options *options,
                                                           lmc_st_result *result, lmc_st_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
