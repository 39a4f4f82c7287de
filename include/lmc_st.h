/*
 * lmc_st.h - files with tensors, and LMC archives of them: the public interface of liblmc_st.
 *
 * An archive of X is a file X.lmc. X is a safetensors file, a file of torch.save(), of numpy, of llama.cpp, or with an
 * option any file (lmc_st_container). An archive is itself a valid safetensors file: it holds each tensor under its own
 * name as one LMC frame (docs/archive.md). Restoring gives the original file back, byte for byte. The same calls read a
 * plain file and an archive.
 *
 *     lmc_st_options options;             // errors are not looked at here; examples/st_read.c and st_write.c do it
 *     lmc_st_diag diag = LMC_INIT(lmc_st_diag);
 *     lmc_st_options_init(&options);
 *     lmc_st_convert("model.safetensors", "model.safetensors.lmc", &options, NULL, &diag);
 *
 *     lmc_st_file *file;
 *     lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
 *     lmc_st_open("model.safetensors.lmc", &file, &diag);
 *     lmc_st_tensor_info(file, 0, &tensor);
 *     lmc_st_read(file, NULL, 0, dst, tensor.nbytes, &diag);
 *     lmc_st_close(file);
 *
 * Conventions of every call, beside those of lmc.h
 *  - Files are read by strict rules (docs/archive.md, sections 2 and 8.4). A safetensors file that breaks a rule is
 *    refused. Of another file, what breaks a rule is no tensor; one that cannot be followed at all is refused.
 *  - `diag` comes last and may be NULL. The caller owns it. Every call that takes it sets it: status LMC_OK after a
 *    success.
 *  - Paths are NUL-terminated. Names of tensors have a length: they may hold any character, NUL included.
 *  - There is no global state, and nothing is printed. Different handles and different calls are independent. They may
 *    run in different threads at once.
 *  - A struct_size that the library does not know is refused with ARG, also that of a diag or a result.
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

/* How a tensor stands in its file. */
typedef enum lmc_st_mode {
    LMC_ST_MODE_STORED = 0, /* the first four as lmc_frame_mode */
    LMC_ST_MODE_CODED = 1,
    LMC_ST_MODE_SHORT = 2,
    LMC_ST_MODE_DELTA = 3, /* coded against another tensor (lmc_st_tensor_base()) */
    LMC_ST_MODE_ALIAS = 5, /* equal to an earlier tensor, whose frame stands for both */
    LMC_ST_MODE_PLAIN = 16 /* in a file that is no archive */
} lmc_st_mode;

/* "stored", "coded", "short", "delta", "alias", "plain"; NULL for other numbers. Static storage. */
LMC_STABLE const char *lmc_st_mode_name(lmc_st_mode mode);

/* What kind of file it is, or was before it was converted. The numbers are those of docs/archive.md. */
typedef enum lmc_st_container {
    LMC_ST_CONTAINER_SAFETENSORS = 0,
    LMC_ST_CONTAINER_ZIP = 1,  /* torch.save(), torch.jit.save(), numpy.savez(); several together: .distcp */
    LMC_ST_CONTAINER_NPY = 2,  /* numpy.save() */
    LMC_ST_CONTAINER_GGUF = 3, /* llama.cpp */
    LMC_ST_CONTAINER_RAW = 4   /* any other file, cut into pieces */
} lmc_st_container;

/* "safetensors", "zip", "npy", "gguf", "raw"; NULL for other numbers. Static storage. */
LMC_STABLE const char *lmc_st_container_name(lmc_st_container container);

/* One tensor as the original header describes it. A tensor of another file than a safetensors file is a piece of
 * that file as it lies there: a storage of torch, the data of an array. Name, dtype and shape are the file's if it
 * tells them and the tensor fills the piece in C order, little-endian; else one dimension, and a dtype that a sample
 * tells (docs/archive.md, section 8.4, has the names). Pointers stay valid until lmc_st_close(). */
typedef struct lmc_st_tensor {
    size_t struct_size; /* sizeof(lmc_st_tensor); set by LMC_INIT() */
    const char *name;   /* UTF-8; a NUL follows that is not counted */
    size_t name_nbytes;
    lmc_dtype dtype;
    const char *dtype_name;
    const uint64_t *shape; /* `rank` numbers; NULL for rank 0 */
    size_t rank;
    uint64_t nbytes;        /* content */
    uint64_t data_offset;   /* of the content among those of all tensors, one behind the other */
    uint64_t stored_nbytes; /* in this file: the frame (0 for an alias), or `nbytes` in a plain file */
} lmc_st_tensor;

/* Opens a plain file or an archive and checks header and table; no frame is read yet. The content tells the kind, but a
 * file named *.safetensors is always read as one. Takes at most 4 times the bytes of the header + 1 MiB while it runs
 * and until lmc_st_close(), whatever the header says; an archive has two, its own and the original. Of a ZIP or GGUF
 * file, it takes at most 12 times the bytes of the directory, the pickle (up to 64 MiB) and the header that is made of
 * them. A pickle that was made to take memory may take 32 times its bytes, at most 400 MiB.
 * Errors: IO (also: no such file), ARG (a directory, a pipe, a device), NOMEM, HEADER, TRUNCATED,
 * CORRUPT, CHECKSUM, UNSUPPORTED, LIMIT. Free with lmc_st_close(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_open(const char *path, lmc_st_file **file, lmc_st_diag *diag);

/* lmc_st_open() with the caller's memory functions. The struct is copied; NULL stands for malloc and free. Every thread
 * that uses the file calls them. They must work until lmc_st_close(). cJSON, zstd and the C library still take memory
 * from malloc for themselves: to parse or compress a header, to sort, to list a directory, for a thread. They free it
 * before the call ends. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_open_with(const char *path, const lmc_allocator *allocator,
                                                     lmc_st_file **file, lmc_st_diag *diag);

/* lmc_st_open_with(), but a file of no known kind is taken as LMC_ST_CONTAINER_RAW, as with lmc_st_options.raw. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_open_raw(const char *path, const lmc_allocator *allocator,
                                                          lmc_st_file **file, lmc_st_diag *diag);

/* Opens what a function gives instead of a file: an object of a store, a file in memory. `name` serves messages, and
 * tells the kind as a path does. read(user, offset, dst, nbytes) gives bytes [offset, offset + nbytes) of file_nbytes;
 * any thread that uses the file may call it, several at once, until lmc_st_close(). A status other than LMC_OK ends the
 * call that reads, with that status. Its bases are given (lmc_st_use_base()). allocator: lmc_st_open_with(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_open_from(const char *name, lmc_read_fn read, void *user,
                                                           uint64_t file_nbytes,
                                                           const lmc_allocator *allocator, lmc_st_file **file,
                                                           lmc_st_diag *diag);

/* NULL is allowed. No other call on the file may run. */
LMC_STABLE void lmc_st_close(lmc_st_file *file);

/* What the file is, or of an archive, what it was made from; and 1 for an archive, 0 for a plain file. */
LMC_STABLE lmc_st_container lmc_st_container_of(const lmc_st_file *file);
LMC_STABLE int lmc_st_is_archive(const lmc_st_file *file);

/* Bytes of the open file, and bytes of the original file. Both are equal for a plain file. */
LMC_STABLE uint64_t lmc_st_stored_nbytes(const lmc_st_file *file);
LMC_STABLE uint64_t lmc_st_file_nbytes(const lmc_st_file *file);

/* The header JSON of the original file, without its length and byte for byte: *nbytes bytes, no NUL. Of another file
 * than a safetensors file, a header that was made for its tensors. Valid until lmc_st_close(). */
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

/* Describes tensor `index` without reading the file. The first request for a shape of more than 16 dimensions takes
 * memory: 8 bytes for each dimension, and 8 bytes for each tensor of the file.
 * Errors: ARG, NOMEM (only for such a shape, which is then NULL; all else is set). */
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
 *  ctx: scratch of the calling thread; with NULL the call makes its own.
 * A tensor of mode DELTA was coded against another tensor. The same part of that tensor is decoded first, and so on
 * down the chain of bases (below).
 * Errors: ARG (no such tensor, the range leaves it), IO, NOMEM, and of the frame TRUNCATED, CORRUPT,
 * UNSUPPORTED, CHECKSUM; of a tensor with a base also BASE, LIMIT, and the faults of the base's file. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                      uint64_t first_byte, size_t nbytes, void *dst,
                                                      lmc_st_diag *diag);

/* Reads a whole tensor as lmc_st_read_range() does. DST_SMALL: dst_capacity is less than the tensor's nbytes. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index,
                                                void *dst, size_t dst_capacity, lmc_st_diag *diag);

/* Where a tensor is stored in the open file: its frame (of an alias, that of its owner), or the tensor itself in a
 * plain file. For those who fetch parts of a file from afar. And where it begins in the original file. Error: ARG. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_tensor_place(const lmc_st_file *file, uint64_t index,
                                                              uint64_t *offset, uint64_t *nbytes);
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_tensor_origin(const lmc_st_file *file, uint64_t index,
                                                               uint64_t *offset);

/* Where the stored bytes stand for a read of a part, and which content [*begin, *end) they hold: whole blocks, or all
 * of a frame without an index. Head and tail of the frame are read. A tensor with a base needs that content of it,
 * too; of an F32 base of a BF16 tensor, twice these numbers. All are 0 after a failure. Errors: lmc_st_read_range(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_range_place(const lmc_st_file *file, uint64_t index,
                                                             uint64_t first_byte, uint64_t nbytes,
                                                             uint64_t *offset, uint64_t *stored_nbytes,
                                                             uint64_t *begin, uint64_t *end,
                                                             lmc_st_diag *diag);

/* Reads bytes [first_byte, first_byte + nbytes) of a tensor's place as they are stored, unverified: for those who
 * decode frames themselves (lmc_cuda.h). Errors: ARG (no such tensor, the range leaves its place), IO. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_read_stored(const lmc_st_file *file, uint64_t index,
                                                             uint64_t first_byte, size_t nbytes, void *dst,
                                                             lmc_st_diag *diag);

/* ---- bases --------------------------------------------------------------------------------------
 * An archive can be coded against another file, its base. A base is a plain file or an archive, which may have a
 * base in turn. Such a chain has at most LMC_ST_CHAIN_MAX files. The original headers of its files have at most
 * LMC_ST_CHAIN_HEADER_NBYTES_MAX bytes together. Files with equal headers, as snapshots have, share one header in
 * memory, which counts once.
 *
 * The archive records the base's plain file name, and size and header hash of the file that the base is or restores
 * to. Of another file than a safetensors file, it records a hash of its tensors' places. Its frames hold hashes of the
 * base's content: wrong content never passes. Header, tensors and modes can be had without the base.
 * A call that needs the base first looks for it here:
 *   - the file `base` of lmc_st_set_base() or of the options, whatever its name is;
 *   - in each of `base_dirs`, in order: NAME, then NAME.lmc;
 *   - in the archive's own directory: NAME, then NAME.lmc (not for an archive read from a descriptor);
 *   - if nothing was found, in the earlier steps of the run that the archive is in (lmc_run.h), or if it is in a
 *     directory DIR.lmc, in the directories beside that whose names differ in digits only, with .lmc or without:
 *     in the folder that corresponds to the archive's, of 64 of them, the nearest earlier one first.
 * A file with another size or header is not the base and is passed over. So are the archive itself and the archives
 * that need it. If several files of the directories are left, a few of their tensors are compared, and the first
 * file that fits best is taken. The base's own base is looked for by the same rules, without `base`. A base is never
 * written to.
 *
 * A BF16 tensor may also be coded against the F32 tensor of the same file that it is rounded from. */

/* The file that holds the tensor that another tensor was coded against. */
typedef enum lmc_st_base_place {
    LMC_ST_BASE_FILE = 0, /* in the archive's base */
    LMC_ST_BASE_SELF = 1  /* in the same file */
} lmc_st_base_place;

/* What an archive records of its base. */
typedef struct lmc_st_base {
    size_t struct_size;    /* sizeof(lmc_st_base); set by LMC_INIT() */
    const char *name;      /* of the file; UTF-8, NUL-terminated, without '/'. Valid until lmc_st_close(). */
    uint64_t file_nbytes;  /* of the file that it is, or restores to */
    uint64_t header_hash;  /* XXH3-64 of that file's header, or of the places of its tensors */
    uint64_t content_hash; /* of the content that is needed of it: what messages call its hash */
    uint64_t tensor_count; /* tensors of this archive that were coded against it */
} lmc_st_base;

/* Returns 1 and fills *base if the file is an archive with a base, else 0; also for a struct_size that is not known. */
LMC_EXPERIMENTAL int lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base);

/* The tensor that tensor `index` was coded against. Returns 1 and sets *place and *base_index, an index in the base or
 * in this file. Returns 0 for a tensor that needs no other tensor, for an alias, and for an invalid index. */
LMC_EXPERIMENTAL int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place,
                                        uint64_t *base_index);

/* Says where to look for the base. base and base_dirs may be NULL and are copied. Call it before anything is read from
 * the file, and not while another call on the file runs. It opens nothing.
 * Errors: NOMEM, ARG (the base is open already). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_set_base(lmc_st_file *file, const char *base,
                                                          const char *const *base_dirs, size_t base_dir_count,
                                                          lmc_st_diag *diag);

/* Makes the open file `base` the base of `file`; none is looked for then. `base` stays the caller's, who closes it
 * after `file`. It serves one file at a time. Reads may run; for a chain, one lmc_st_use_base() at a time.
 * Errors: BASE (it has another size or header, or needs `file`), LIMIT (as lmc_st_open_base()), ARG (`file` needs no
 * base, or has it already; `base` serves another file). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_use_base(lmc_st_file *file, lmc_st_file *base,
                                                          lmc_st_diag *diag);

/* Finds and opens the base, unless an earlier call has done so. Use *base as any open file, but do not close it: it
 * belongs to `file` and is valid until `file` is closed. A call with *base gives the next file of the chain. Sets
 * *base NULL and returns LMC_OK if the file has no base.
 * Errors: BASE (also: the chain leads back to one of its files), LIMIT (LMC_ST_CHAIN_MAX,
 * LMC_ST_CHAIN_HEADER_NBYTES_MAX), NOMEM, IO. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base,
                                                           lmc_st_diag *diag);

/* The path that the file was opened by; of a base, where it was found. Valid until lmc_st_close(). */
LMC_STABLE const char *lmc_st_path(const lmc_st_file *file);

/* ---- whole files and directories ---------------------------------------------------------------- */

/* What was done with one file of a directory. */
typedef enum lmc_st_event {
    LMC_ST_EVENT_CONVERTED = 0,
    LMC_ST_EVENT_RESTORED = 1,
    LMC_ST_EVENT_VERIFIED = 2,
    LMC_ST_EVENT_COPIED = 3,
    LMC_ST_EVENT_KEPT = 4 /* an earlier run wrote its archive; this run compared the two */
} lmc_st_event;

typedef struct lmc_st_options {
    size_t struct_size;    /* sizeof(lmc_st_options); set by lmc_st_options_init() */
    lmc_level level;       /* convert only; default LMC_LEVEL_DEFAULT */
    unsigned thread_count; /* 0, the default: lmc_core_count(); at most LMC_THREAD_COUNT_MAX. The bytes that
                              are written do not depend on it. */
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
    const lmc_allocator *allocator; /* as for lmc_st_open_with(), until the call ends; default NULL */
    /* Descriptors to read from and write to. The paths then serve messages only. -1, the default: the paths are
     * opened. Descriptors stay open and the caller's. Neither is for directories.
     * in_fd is for convert, restore and verify. A regular file at its begin is read by position, anything else from
     * where it stands to its end.
     * out_fd is for convert, restore and the writer, and is written from where it stands.
     * Input that cannot be read by position is collected in a temporary file ($TMPDIR, /var/tmp or /tmp), and so is
     * an archive that cannot be written by position. Restored and plain files go to out_fd as they are made: each
     * block once it is verified, but a stored frame of more than 1 MiB before that. The reader must discard what a
     * failed call has written. */
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
    /* Convert and the writer: the file to code against, plain or archive. The new archive then needs this base to be
     * read. For a directory, a directory: the base of each file that is converted is the file there with its relative
     * name, or that name with .lmc (see "directories"). A file without one is stored alone. Tensors are matched by
     * name, dtype and shape. A tensor without a match may still be found equal to a tensor of another name.
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

/* Sets every field to its default. struct_size: sizeof *options, which the macro passes. Of a struct that the library
 * does not know only struct_size is set, so that the call that gets the options refuses them. */
LMC_STABLE void lmc_st_options_init_sized(lmc_st_options *options, size_t struct_size);
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
 * bytes (docs/archive.md, section 3).
 * Errors with a base: those of opening and reading it; ARG if the base is the output, or if its name is no UTF-8 or too
 * long to be recorded; LIMIT if its chain is full. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_convert(const char *in_path, const char *out_path,
                                                   const lmc_st_options *options, lmc_st_result *result,
                                                   lmc_st_diag *diag);

/* Writes the original of the archive, or converted directory, `in_path` to `out_path`. Every byte is verified.
 *  salvage: a damaged archive gives a safetensors file of all tensors that verify, with the original names, shapes and
 *  metadata. The call then fails as lmc_st_verify() does, but the output is there. result->damaged_count is above 0
 *  and result->tensor_count counts the tensors in the output. The archive's table must be sound. An archive that was
 *  cut short is accepted, and so is an archive with something appended: the call succeeds if all its tensors are
 *  sound. Tensors whose base is missing are lost. Of an archive of another file than a safetensors file, the result is
 *  a safetensors file, too, even without damage. Not for directories (ARG).
 * Errors: as lmc_st_convert() and CORRUPT, CHECKSUM, UNSUPPORTED, BASE. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_restore(const char *in_path, const char *out_path,
                                                   const lmc_st_options *options, lmc_st_result *result,
                                                   lmc_st_diag *diag);

/* Reads an archive whole and verifies what restoring it would give. Of a plain file it checks the header or directory,
 * of a directory all archives. It goes on after a damaged tensor; the status is that of the first one. It writes
 * nothing. If an archive's base is missing, the frames of the tensors that need it are checked, but not their content.
 * The status is then BASE, with a text that names the base. If tensors are damaged, too, their status comes first, and
 * `damage` gets the diagnostic of the base after theirs. Errors: as lmc_st_restore(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_verify(const char *in_path, const lmc_st_options *options,
                                                  lmc_st_result *result, lmc_st_diag *diag);

/* Reads an archive whole and compares what it restores to with the file `plain_path`, byte by byte. A success proves
 * that one of them may be removed. Of a converted directory and its original, it compares every file of the original,
 * and demands that the converted one has no other. in_fd is not used.
 * Errors: CHECKSUM if they differ, and as lmc_st_verify() of either. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_compare(const char *archive_path, const char *plain_path,
                                                   const lmc_st_options *options, lmc_st_diag *diag);

/* The skeleton of a file: all bytes that are no tensor, in their order. Of a safetensors file it is the header with its
 * length; of another file headers, pickles, padding, directories. Bytes of it: */
LMC_EXPERIMENTAL uint64_t lmc_st_skeleton_nbytes(const lmc_st_file *file);

/* Reads bytes [offset, offset + nbytes) of the skeleton; those of an archive are verified. Reading in order, a MiB at
 * a time, reads nothing twice. Errors: ARG (the skeleton has fewer bytes), and as lmc_st_read(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_skeleton_read(const lmc_st_file *file, uint64_t offset,
                                                               size_t nbytes, void *dst, lmc_st_diag *diag);

/* ---- many tensors ------------------------------------------------------------------------------- */

/* Reads whole tensors: tensor indices[i] to dsts[i], which has room for its nbytes. Threads share the work, also that
 * of one large tensor. A tensor may be asked for more than once.
 *  options: NULL for the defaults; thread_count, progress (bytes of these tensors), cancel and user are used.
 * Errors: as lmc_st_read(), CANCELLED. On failure the destinations hold undefined bytes. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_read_many(const lmc_st_file *file, const uint64_t *indices,
                                                           void *const *dsts, size_t count,
                                                           const lmc_st_options *options, lmc_st_diag *diag);

/* ---- writing ------------------------------------------------------------------------------------ */

/* Collects tensors and writes them as one archive or one safetensors file. One thread at a time may use a writer. A
 * call without a diagnostic that fails leaves the writer as it was. */
typedef struct lmc_st_writer lmc_st_writer;

/* allocator: NULL for malloc and free; copied. Error: NOMEM. Free with lmc_st_writer_free(), which allows NULL. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_create(const lmc_allocator *allocator,
                                                         lmc_st_writer **writer);
LMC_STABLE void lmc_st_writer_free(lmc_st_writer *writer);

/* Adds an entry of `__metadata__` (loaders of models want "format" = "pt"). Key and value are UTF-8 of the given sizes
 * and are copied. Errors: NOMEM; ARG for bytes that are no UTF-8. The call that writes finds a key that stands
 * twice. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_set_metadata(lmc_st_writer *writer, const char *key,
                                                               size_t key_nbytes, const char *value,
                                                               size_t value_nbytes);

/* Adds a tensor whose content is in memory, little-endian and in C order.
 *  name: UTF-8 of name_nbytes bytes; copied.
 *  shape: `rank` numbers; copied. NULL for rank 0.
 *  data: as many bytes as dtype and shape say, which nobody can check. They must stay valid and unchanged until the
 *  last write. NULL for a tensor without bytes.
 * Errors: NOMEM; ARG: no such dtype, rank above LMC_ST_RANK_MAX, a name that is no UTF-8, a size that does not fit 63
 * bits or is not a whole number of bytes, data NULL. The call that writes finds a name that stands twice. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_add(lmc_st_writer *writer, const char *name,
                                                      size_t name_nbytes, lmc_dtype dtype,
                                                      const uint64_t *shape, size_t rank, const void *data);

/* Adds a tensor whose content is supplied on demand, within the calls that write. read(user, offset, dst, nbytes) may
 * be called more than once for the same bytes, and by several threads at once. It must give the same bytes every time.
 * A status other than LMC_OK ends the call that writes, with a diagnostic that names the tensor. Otherwise as
 * lmc_st_writer_add(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_add_from(lmc_st_writer *writer, const char *name,
                                                           size_t name_nbytes, lmc_dtype dtype,
                                                           const uint64_t *shape, size_t rank,
                                                           lmc_read_fn read, void *user);

/* Writes the archive of the safetensors file that lmc_st_writer_write_plain() would write. May be called more than
 * once. options: as for lmc_st_convert(); the allocator is not used.
 * Errors: ARG (output exists; a name or metadata key stands twice; a tensor is called "__metadata__"; the metadata are
 * those of an archive, "format" = "lmc" and "lmc_archive"), IO, NOMEM, LIMIT, CANCELLED, a status of a read
 * function. */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_write(const lmc_st_writer *writer, const char *out_path,
                                                        const lmc_st_options *options, lmc_st_result *result,
                                                        lmc_st_diag *diag);

/* Writes a safetensors file as the official package lays it out: tensors by falling alignment, then by name; the header
 * padded to a multiple of 8 bytes; metadata in the order of lmc_st_writer_set_metadata(). Errors: as
 * lmc_st_writer_write(). */
LMC_NODISCARD LMC_STABLE lmc_status lmc_st_writer_write_plain(const lmc_st_writer *writer,
                                                              const char *out_path,
                                                              const lmc_st_options *options,
                                                              lmc_st_result *result, lmc_st_diag *diag);

/* ---- directories --------------------------------------------------------------------------------
 * lmc_st_convert() of a directory writes a directory. Every file whose container is known (lmc_st_container) becomes an
 * archive of its name with .lmc: a file named *.safetensors, and any other that is one by its content. Every other file
 * is copied. Links to files are followed, and empty folders are kept. All files are looked at before anything is
 * written. A file named *.safetensors that cannot be read is a fault of the call. Any other that looks like a container
 * and cannot be followed is copied, and so is an archive that lies there: options->warning gets the cause. Files that
 * options->excludes names are copied whatever they are. A directory without a file that is converted is refused (ARG).
 * Each index (*.safetensors.index*.json, *.bin.index*.json) must name plain files that are there, or when restoring,
 * their archives. Of an index of .bin files, all files may be absent. Refused with ARG are: a link to a directory, a
 * pipe, a file whose name would meet an archive's, a name that is too long for the output, and a file ".lmc-copied" in
 * the root.
 *
 * A copy whose name ends in .lmc must not be taken for an archive. The new directory then has a file ".lmc-copied" with
 * the relative paths of these copies, each on a line of its own, in order. A copy whose path has a line break is
 * refused (ARG). Restore, verify and compare refuse a list that does not fit the directory (CORRUPT).
 *
 * The new directory grows beside its place under its own name, ".NAME.lmc-st-partial", and is renamed when it is
 * complete. A run that was killed or cancelled leaves it there. So does a run whose disk was full or failed (os_errno
 * ENOSPC, EDQUOT, EIO) after an archive was finished. The next run goes on with it: it keeps an archive that restores
 * to its source, byte for byte. After any other failure the partial directory is removed. A partial directory that
 * belongs to another user, or in which others may write, is refused (ARG).
 *
 * With `force`, a directory that is in the way is replaced as a whole. Its archives that are still right are kept,
 * whatever their level.
 *
 * lmc_st_restore() of such a directory gives the tree back: every *.lmc file that is not on the list is restored, and
 * must be an archive. Every other file is copied.
 *
 * With `base`, the base of a file is found by its relative path. A folder on that path that is not in the base
 * directory may have other digits in its name there, as global_step10 and global_step20: the one folder of such a name
 * is taken. So it is with `base_dirs`. */

/* ---- experimental ----------------------------------------------------------------------------------
 * The command lmc-st needs these calls. They may change in any minor version. */

/* Version of the archives that this library writes and reads (docs/archive.md). */
#define LMC_ST_ARCHIVE_VERSION 1

/* Reads many ranges of one tensor. The frame is opened once, and the block that was decoded last is kept. */
typedef struct lmc_st_reader lmc_st_reader;

/* Opens tensor `index` of `file`, which must stay open. Free with lmc_st_reader_free(), which allows
 * NULL. Errors: as lmc_st_read_range(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_reader_create(const lmc_st_file *file, uint64_t index,
                                                               lmc_st_reader **reader, lmc_st_diag *diag);
LMC_EXPERIMENTAL void lmc_st_reader_free(lmc_st_reader *reader);

/* Reads content bytes [first_byte, first_byte + nbytes), as lmc_st_read_range(). One thread at a time. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_reader_read(lmc_st_reader *reader, uint64_t first_byte,
                                                             size_t nbytes, void *dst, lmc_st_diag *diag);

/* The content hash of tensor `index` of an archive (lmc_content_hash()), and the size of the blocks that the hash is
 * made from. Contents with equal hashes are equal. Contents of one size and one block size with different hashes
 * differ. Only the head and the index of the frame are read. *block_nbytes is 0 for an empty tensor. Errors: ARG (the
 * file is no archive), and as lmc_st_tensor_mode(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_content_hash(const lmc_st_file *file, uint64_t index,
                                                              uint64_t *hash, size_t *block_nbytes,
                                                              lmc_st_diag *diag);

/* lmc_params.row_nbytes as lmc_st_convert() sets it for tensor `index`. 0 without rows, and for an invalid index. */
LMC_EXPERIMENTAL uint32_t lmc_st_row_nbytes(const lmc_st_file *file, uint64_t index);

/* Error IO if the file has changed since it was opened. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_check_unchanged(const lmc_st_file *file, lmc_st_diag *diag);

/* Writes `nbytes` bytes to `out_path` or to options->out_fd, by the rules of "whole files" above. read() supplies them
 * in order. A status other than LMC_OK ends the call; then read() sets what the caller is to know of it, also in
 * `diag`. source: the open file that they come from; the output must not be this file, nor one of its bases.
 * Errors: ARG, IO, NOMEM, CANCELLED, the status of read(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_write_content(const lmc_st_file *source,
                                                               const char *out_path, uint64_t nbytes,
                                                               lmc_read_fn read, void *user,
                                                               const lmc_st_options *options,
                                                               lmc_st_diag *diag);

/* Opens each archive of the converted directory `in_path`, to be read with the bases that the options name, and calls
 * visit(user, file). The file is closed when visit() returns; a result other than 0 ends the call, which is no failure.
 * Errors: ARG (no directory), and as lmc_st_open(). */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status
lmc_st_visit_archives(const char *in_path, const lmc_st_options *options,
                      int (*visit)(void *user, const lmc_st_file *file), void *user, lmc_st_diag *diag);

/* lmc_st_restore() to options->out_fd, but a plain safetensors file is copied once its header has been checked. */
LMC_NODISCARD LMC_EXPERIMENTAL lmc_status lmc_st_cat(const char *in_path, const lmc_st_options *options,
                                                     lmc_st_result *result, lmc_st_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
