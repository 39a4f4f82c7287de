/*
 * lmc_st.h - files with tensors, and LMC archives of them: the public interface of liblmc_st.
 *
 * An archive of X is a file X.lmc. X is a safetensors file, a file of torch.save(), of numpy, of llama.cpp, or with an
 * option any file (lmc_st_container). An archive is itself a valid safetensors file: it holds each tensor under its own
 * name as one LMC frame (docs/archive.md). Restoring gives the original file back, byte for byte. The same calls read a
 * plain file and an archive.
 *
 *     lmc_st_file *file;                  // errors are not looked at here; examples/st_read.c and st_write.c do it
 *     lmc_st_diag diag = LMC_INIT(lmc_st_diag);
 *     lmc_st_convert("model.safetensors", "model.safetensors.lmc", NULL, NULL, &diag);
 *     lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
 *     lmc_st_open("model.safetensors.lmc", NULL, &file, &diag);
 *     lmc_st_tensor_info(file, 0, &tensor);
 *     lmc_st_read(file, NULL, 0, dst, tensor.nbytes, &diag);
 *     lmc_st_close(file);
 *
 * Conventions of every call, beside those of lmc.h
 *  - Files are read by strict rules (docs/archive.md, sections 2 and 8.4). A safetensors file that breaks a rule is
 *    rejected. In other containers, an item that breaks a rule is not listed; an unreadable container is rejected.
 *  - `diag` comes last and may be NULL. The caller owns it. Every call that takes it sets it, also after a success.
 *  - Paths are NUL-terminated. Names of tensors have a length: they may hold any character, NUL included.
 *  - There is no global state, and nothing is printed. Different handles and calls may be used by several threads.
 *  - A struct_size that the library does not know is rejected with LMC_ERR_ARG, also that of a diag or a result.
 *  - Calls that may change in any minor version are in lmc_st_experimental.h and lmc_run.h.
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

/* What went wrong and where. Names are cut to fit, and their control characters are escaped: every text may be shown on
 * a terminal. All strings are NUL-terminated and have one line.
 *
 * A status of a call on files means
 *   HEADER, CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED, LIMIT   the data is bad or too new
 *   BASE             the archive's base is missing, or the file found for it has other content. The text names the
 *                    wanted file and its hash.
 *   ARG, DST_SMALL   the request is wrong: output exists, input and output are one file, no such tensor
 *   IO, NOMEM        the system failed; os_errno says how
 *   CANCELLED        the caller asked for the end */
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
typedef enum lmc_st_container {
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
    uint64_t nbytes;        /* content; of a view with strides of 0, it may be much more than is stored */
    uint64_t data_offset;   /* of the storage among those of all tensors, one behind the other */
    uint64_t stored_nbytes; /* in this file; 0 if the bytes of an earlier tensor stand for it (alias, view) */
    int is_view;            /* 0: it is all of its storage as it lies there; strides are NULL, offset is 0 */
    int is_big_endian;      /* of the storage */
    const uint64_t *strides; /* `rank` numbers, in elements of `dtype`; NULL for rank 0 */
    uint64_t offset;         /* of the first element in the storage, in elements */
    uint64_t view_of;        /* the first tensor of the storage; its own number if it is that */
    uint64_t storage_nbytes;
    const char *note; /* why the dtype is U8, not the file's own; or NULL. At most 255 bytes */
} lmc_st_tensor;

/* How to open a file; LMC_INIT() sets the defaults, which are all 0. */
typedef struct lmc_st_open_options {
    size_t struct_size; /* sizeof(lmc_st_open_options); set by LMC_INIT() */
    /* NULL: malloc and free. The struct is copied. Every thread that uses the file calls its functions, which must work
     * until lmc_st_close(). cJSON, zstd and the C library still take memory from malloc while a call runs. */
    const lmc_allocator *allocator;
    int raw; /* 1: a file of no known kind is taken as LMC_ST_CONTAINER_RAW */
    /* Not NULL: the bytes come from this function and not from a file: an object of a store, a file in memory. The path
     * then serves messages and decides the kind. read(read_user, offset, dst, nbytes) gives bytes [offset, offset +
     * nbytes) of file_nbytes. Threads may call it at once until lmc_st_close(). Any status but LMC_OK ends the call
     * that reads, with that status. No base is looked for. */
    lmc_read_fn read;
    void *read_user;
    uint64_t file_nbytes;
} lmc_st_open_options;

/* Opens a plain file or an archive and checks header and table; no frame is read yet. The content decides the kind, but
 * a file named *.safetensors is always read as one. options: NULL for the defaults. Takes at most 4 times the bytes of
 * the header (8 with views) + 1 MiB until lmc_st_close(), whatever it says; an archive has two, its own and the
 * original. A ZIP or GGUF file takes at most 12 times the bytes of its directory, its pickle (up to 64 MiB) and the
 * header that is made of them. A pickle that was made to take memory may take 32 times its bytes, at most 400 MiB.
 * Errors: LMC_ERR_IO (also: no such file), LMC_ERR_ARG (a directory, a pipe, a device), LMC_ERR_NOMEM, LMC_ERR_HEADER,
 * LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_CHECKSUM, LMC_ERR_UNSUPPORTED, LMC_ERR_LIMIT. lmc_st_close() frees it. */
LMC_NODISCARD LMC_API lmc_status lmc_st_open(const char *path, const lmc_st_open_options *options,
                                             lmc_st_file **file, lmc_st_diag *diag);

/* NULL is allowed. No other call on the file may run. */
LMC_API void lmc_st_close(lmc_st_file *file);

/* What the file is, or of an archive, what it was made from; and 1 for an archive, 0 for a plain file. */
LMC_API lmc_st_container lmc_st_container_of(const lmc_st_file *file);
LMC_API int lmc_st_is_archive(const lmc_st_file *file);

/* Bytes of the open file, and bytes of the original file. Both are equal for a plain file. */
LMC_API uint64_t lmc_st_stored_nbytes(const lmc_st_file *file);
LMC_API uint64_t lmc_st_original_nbytes(const lmc_st_file *file);

/* The header JSON of the original file, without its length and byte for byte: *nbytes bytes, no NUL. For other
 * containers, a header that was made for their tensors. Valid until lmc_st_close(). */
LMC_API const char *lmc_st_header(const lmc_st_file *file, size_t *nbytes);

/* Entries of the original header's `__metadata__`, in the order of its text; 0 if there is none. */
LMC_API size_t lmc_st_metadata_count(const lmc_st_file *file);

/* Entry `index`: key and value, UTF-8, unescaped, each with a NUL behind it that is not counted. Error: ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_metadata(const lmc_st_file *file, size_t index, const char **key,
                                                 size_t *key_nbytes, const char **value,
                                                 size_t *value_nbytes);

/* Tensors are numbered 0 .. count-1: the first of each storage in the order of the data, then all other views. */
LMC_API uint64_t lmc_st_tensor_count(const lmc_st_file *file);

/* Describes tensor `index` without reading the file. The first request for a shape of more than 16 dimensions takes
 * memory: 8 bytes for each dimension, and 8 bytes for each tensor of the file.
 * Errors: ARG, NOMEM (only for such a shape, which is then NULL; all else is set). */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_info(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_tensor *tensor);

/* Finds a tensor by its name, or by a name of name_nbytes bytes. Returns 1 and sets *index, or returns 0. */
LMC_API int lmc_st_find_tensor(const lmc_st_file *file, const char *name, uint64_t *index);
LMC_API int lmc_st_find_tensor_sized(const lmc_st_file *file, const char *name, size_t name_nbytes,
                                     uint64_t *index);

/* Reads content bytes [first_byte, first_byte + nbytes) of tensor `index` into dst, decoding only the blocks that hold
 * them (all of them if the frame is stored: it has one checksum). Everything read from an archive is verified. On
 * failure dst holds undefined bytes. Elements of a view are gathered, with 1 MiB of memory.
 *  ctx: scratch of the calling thread; with NULL the call makes its own.
 * A tensor of mode DELTA was coded against another tensor. The same part of that tensor is decoded first, and so on
 * down the chain of bases (below).
 * Errors: ARG (no such tensor, the range leaves it), IO, NOMEM, and of the frame TRUNCATED, CORRUPT,
 * UNSUPPORTED, CHECKSUM; of a tensor with a base also BASE, LIMIT, and the faults of the base's file. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                   uint64_t first_byte, size_t nbytes, void *dst,
                                                   lmc_st_diag *diag);

/* Reads a whole tensor as lmc_st_read_range() does. DST_SMALL: dst_capacity is less than the tensor's nbytes. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst,
                                             size_t dst_capacity, lmc_st_diag *diag);

/* ---- bases --------------------------------------------------------------------------------------
 * An archive can be coded against another file, its base: a plain file or an archive, which may have a base in turn. A
 * chain has at most LMC_ST_CHAIN_MAX files, whose original headers have at most LMC_ST_CHAIN_HEADER_NBYTES_MAX bytes
 * together. The archive records the base's file name, size and header hash, and hashes of its content: wrong content
 * never passes. Header, tensors and modes can be read without the base. A call that needs the base looks for it in
 * `base_dirs`, then beside the archive, then in the run or the directories that the archive belongs to
 * (lmc_st_experimental.h has the rules). A BF16 tensor may also be coded against the F32 tensor of the same file that
 * it is rounded from. */

/* The path that the file was opened by; of a base, where it was found. Valid until lmc_st_close(). */
LMC_API const char *lmc_st_path(const lmc_st_file *file);

/* ---- whole files and directories ---------------------------------------------------------------- */

/* What was done with one file of a directory. */
typedef enum lmc_st_event {
    LMC_ST_EVENT_CONVERTED = 0,
    LMC_ST_EVENT_RESTORED = 1,
    LMC_ST_EVENT_VERIFIED = 2,
    LMC_ST_EVENT_COPIED = 3,
    LMC_ST_EVENT_KEPT = 4 /* an earlier call wrote its archive; this one compared the two */
} lmc_st_event;

typedef struct lmc_st_options {
    size_t struct_size;    /* sizeof(lmc_st_options); set by lmc_st_options_init() */
    lmc_level level;       /* convert only; default LMC_LEVEL_DEFAULT */
    unsigned thread_count; /* 0, the default: all cores; at most LMC_THREAD_COUNT_MAX */
    int force;             /* 1: replace an existing output; default 0: ARG with os_errno EEXIST */
    int no_fsync;          /* 1: leave it to the system when the output reaches the disk; default 0 */
    /* Called after each piece of work with the bytes done so far: bytes of tensors, or of files for a directory. Worker
     * threads call it, one at a time. done_nbytes never falls and total_nbytes stays. Both are equal in the last call
     * of a success. It must return soon. May be NULL. */
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user; /* for all callbacks */
    /* The call ends with CANCELLED soon after *cancel becomes non-zero, or with a success that was near. A signal
     * handler may set it, or another thread by an atomic store. It is read by atomic loads. May be NULL. */
    const volatile int *cancel;
    const lmc_allocator *allocator; /* as for lmc_st_open(), until the call ends; default NULL */
    /* Descriptors to read from (convert, restore, verify) and write to (convert, restore, the writer); the paths then
     * serve messages only. -1, the default: the paths are opened. They stay open and the caller's. Not for directories.
     * Non-seekable input is collected in a temporary file ($TMPDIR, /var/tmp or /tmp), and so is an archive for
     * non-seekable output. Restored and plain files go to out_fd as they are made: each block once it is verified, but
     * a stored frame of more than 1 MiB before that. The reader must discard what a failed call has written. */
    int in_fd, out_fd;
    int salvage; /* lmc_st_restore(): see there; default 0 */
    int sha256;  /* lmc_st_verify(): 1 asks for lmc_st_result.sha256; default 0. Not for directories (ARG). */
    /* Verify and salvage: called for every damaged tensor, in the file's order, from one thread at a time. diag names
     * tensor, place and damaged blocks. Verify also calls it for a whole file, with has_tensor 0: for an archive that
     * was cut, before its tensors; in a directory, for a file that cannot be read at all. May be NULL. */
    void (*damage)(void *user, const lmc_st_diag *diag);
    /* Directories: called after each file with its path relative to the directory, and its size before and after. The
     * order is the same in every run. May be NULL. */
    void (*file_done)(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                      uint64_t out_nbytes);
    /* Convert and the writer: the file to code against, plain or archive; for a directory, a directory. The new archive
     * then needs this base to be read. Tensors are matched by name, dtype and shape, else by their values, by their
     * names without the parts that wrappers such as DDP add, or by their order.
     * Restore, verify, compare: the base of the archive, or the directory with the bases of a directory's archives.
     * NULL, the default: convert uses no base; the other calls look for it (see above). */
    const char *base;
    /* All calls: directories in which bases are looked for; default NULL and 0. For the files of a directory, each of
     * them is searched first in the folder with the file's relative path. */
    const char *const *base_dirs;
    size_t base_dir_count;
    /* Convert: 1 takes a file of any kind. What is of no known kind, or cannot be followed, is cut into pieces; a file
     * named *.safetensors is still refused then. Default 0. Not for directories (ARG). */
    int raw;
    /* Convert, directories: files that are copied as they are. A pattern of fnmatch(3), in which '*' stops at no '/',
     * is compared with the path in the directory and with the file's name. Default NULL and 0. */
    const char *const *excludes;
    size_t exclude_count;
    /* Convert, directories: called for a file that is copied though it looks like one to be converted: an archive, or a
     * container that cannot be followed. diag says why. May be NULL. */
    void (*warning)(void *user, const lmc_st_diag *diag);
} lmc_st_options;

/* Sets every field to its default, as lmc_params_init() does. */
LMC_API void lmc_st_options_init_sized(lmc_st_options *options, size_t struct_size);
#define lmc_st_options_init(options) lmc_st_options_init_sized((options), sizeof *(options))

/* What a call on whole files has seen; for a directory, sums over its files. After a failure all numbers are 0, unless
 * damage was found (damaged_count is above 0) or a directory was verified. */
typedef struct lmc_st_result {
    size_t struct_size;     /* sizeof(lmc_st_result); set by LMC_INIT() */
    uint64_t file_nbytes;   /* the original file */
    uint64_t stored_nbytes; /* the archive; for a plain file that was verified: file_nbytes */
    uint64_t tensor_count;
    int is_archive;             /* verify: 1 if the file is an archive, so that its content was verified */
    uint64_t damaged_count;     /* verify, salvage: tensors that are lost; all between them counts as one */
    unsigned char sha256[32];   /* if asked for and the call succeeded: of the (original) file */
    uint64_t file_count;        /* directories: files of any kind */
    uint64_t kept_count;        /* directories: archives that an earlier run wrote */
    lmc_st_container container; /* of the (original) file; of a directory: LMC_ST_CONTAINER_SAFETENSORS */
} lmc_st_result;

/* The calls below share these rules.
 *  options: NULL for the defaults. result: may be NULL.
 *  The output appears whole under its name, or not at all. It is written to a file without a name, or with a temporary
 *  name in the same directory, flushed to the disk, and then named. It gets the input's permission bits and time of
 *  modification. A failed call leaves nothing. A killed process leaves nothing if the file system has files without a
 *  name, but for the moment in which `force` replaces a file.
 *  Threads and memory of a call end with it. Memory stays below 128 MiB + 24 MiB per thread + 8 times the header
 *  (of a ZIP or GGUF file, as for lmc_st_open()), whatever the size of file and tensors; with a base,
 *  + 8 times the headers of all files of the chain.
 *  If several things are wrong, the first in the file's order is reported, for every thread count. */

/* Writes the archive `out_path` of the plain file, or directory (see below), `in_path`.
 * Errors: ARG (output exists, same file, wrong kind of file), IO, NOMEM, HEADER, TRUNCATED, CORRUPT (the input is an
 * archive already), CANCELLED; LIMIT, also if the archive's own header would have more than LMC_ST_HEADER_NBYTES_MAX
 * bytes (docs/archive.md, section 3). Errors with a base: those of opening and reading it; ARG if the base is the
 * output, or if its name is not UTF-8 or too long to be recorded; LIMIT if its chain is full. */
LMC_NODISCARD LMC_API lmc_status lmc_st_convert(const char *in_path, const char *out_path,
                                                const lmc_st_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Writes the original of the archive, or converted directory, `in_path` to `out_path`. Every byte is verified.
 *  salvage: a damaged archive gives a safetensors file of all tensors that verify, with the original names, shapes and
 *  metadata. The call then fails as lmc_st_verify() does, but the output is there. result->damaged_count is above 0
 *  and result->tensor_count counts the tensors in the output. The archive's table must be sound. An archive that was
 *  cut short is accepted, and so is an archive with something appended: the call succeeds if all its tensors are
 *  sound. Tensors whose base is missing are lost. For other containers the result is
 *  a safetensors file, too, even without damage. Views become U8. Not for directories (ARG).
 * Errors: as lmc_st_convert() and CORRUPT, CHECKSUM, UNSUPPORTED, BASE. */
LMC_NODISCARD LMC_API lmc_status lmc_st_restore(const char *in_path, const char *out_path,
                                                const lmc_st_options *options, lmc_st_result *result,
                                                lmc_st_diag *diag);

/* Reads an archive whole and verifies what restoring it would give. For a plain file it checks the header or
 * directory, for a directory all archives. It goes on after a damaged tensor; the status is that of the first one. It
 * writes nothing. If an archive's base is missing, the frames of the tensors that need it are checked, but not their
 * content. The status is then BASE, and the text names the base. If tensors are damaged, too, their status comes first,
 * and `damage` gets the diagnostic of the base after theirs. Errors: as lmc_st_restore(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options,
                                               lmc_st_result *result, lmc_st_diag *diag);

/* Reads an archive whole and compares what it restores to with the file `plain_path`, byte by byte. A success proves
 * that one of them may be removed. For a converted directory and its original, it compares every file of the original,
 * and the converted one must not have any other. in_fd is not used.
 * Errors: CHECKSUM if they differ, and as lmc_st_verify() of either. */
LMC_NODISCARD LMC_API lmc_status lmc_st_compare(const char *archive_path, const char *plain_path,
                                                const lmc_st_options *options, lmc_st_diag *diag);

/* ---- many tensors ------------------------------------------------------------------------------- */

/* Reads whole tensors: tensor indices[i] to dsts[i], which has room for its nbytes. Threads share the work, also that
 * of one large tensor. A tensor may be asked for more than once.
 *  options: NULL for the defaults; thread_count, progress (bytes of these tensors), cancel and user are used.
 * Errors: as lmc_st_read(), CANCELLED. On failure the destinations hold undefined bytes. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_many(const lmc_st_file *file, const uint64_t *indices,
                                                  void *const *dsts, size_t count,
                                                  const lmc_st_options *options, lmc_st_diag *diag);

/* ---- writing ------------------------------------------------------------------------------------ */

/* Collects tensors and writes them as one archive or one safetensors file. One thread at a time may use a writer. A
 * call without a diagnostic that fails leaves the writer as it was. */
typedef struct lmc_st_writer lmc_st_writer;

/* allocator: NULL for malloc and free; copied. Error: NOMEM. Free with lmc_st_writer_free(), which allows NULL. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_create(const lmc_allocator *allocator, lmc_st_writer **writer);
LMC_API void lmc_st_writer_free(lmc_st_writer *writer);

/* Adds an entry of `__metadata__` (loaders of models want "format" = "pt"). Key and value are UTF-8 of the given sizes
 * and are copied. Errors: NOMEM; ARG for bytes that are no UTF-8. The call that writes finds a key that stands
 * twice. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_set_metadata(lmc_st_writer *writer, const char *key,
                                                            size_t key_nbytes, const char *value,
                                                            size_t value_nbytes);

/* Adds a tensor whose content is in memory, little-endian and in C order.
 *  name: UTF-8 of name_nbytes bytes; copied.
 *  shape: `rank` numbers; copied. NULL for rank 0.
 *  data: as many bytes as dtype and shape say, which nobody can check. They must stay valid and unchanged until the
 *  last write. NULL for a tensor without bytes.
 * Errors: NOMEM; ARG: no such dtype, rank above LMC_ST_RANK_MAX, a name that is not UTF-8, a size that does not fit 63
 * bits or is not a whole number of bytes, data NULL. The call that writes finds a name that stands twice. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_add(lmc_st_writer *writer, const char *name,
                                                   size_t name_nbytes, lmc_dtype dtype, const uint64_t *shape,
                                                   size_t rank, const void *data);

/* Adds a tensor whose content is supplied on demand, within the calls that write. read(user, offset, dst, nbytes) may
 * be called more than once for the same bytes, and by several threads at once. It must give the same bytes every time.
 * A status other than LMC_OK ends the call that writes, with a diagnostic that names the tensor. Otherwise as
 * lmc_st_writer_add(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name,
                                                        size_t name_nbytes, lmc_dtype dtype,
                                                        const uint64_t *shape, size_t rank, lmc_read_fn read,
                                                        void *user);

/* Writes the archive of the safetensors file that lmc_st_writer_write_plain() would write. May be called more than
 * once. options: as for lmc_st_convert(); the allocator is not used.
 * Errors: ARG (output exists; a name or metadata key stands twice; a tensor is called "__metadata__"; the metadata are
 * those of an archive, "format" = "lmc" and "lmc_archive"), IO, NOMEM, LIMIT, CANCELLED, a status of a read
 * function. */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                                                     const lmc_st_options *options, lmc_st_result *result,
                                                     lmc_st_diag *diag);

/* Writes a safetensors file as the official package lays it out: tensors by falling alignment, then by name; the header
 * padded to a multiple of 8 bytes; metadata in the order of lmc_st_writer_set_metadata(). Errors: as
 * lmc_st_writer_write(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer, const char *out_path,
                                                           const lmc_st_options *options,
                                                           lmc_st_result *result, lmc_st_diag *diag);

/* docs/library.md, "Directories", has the rules for directories. */

/* Version of the archives that this library writes and reads (docs/archive.md). */
#define LMC_ST_ARCHIVE_VERSION 1

#ifdef __cplusplus
}
#endif
#endif
