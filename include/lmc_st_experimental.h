/*
 * lmc_st_experimental.h - calls of liblmc_st that may change in any minor version: bases, stored bytes, readers of
 * single tensors. The command lmc-st and the Python package use them. The conventions are those of lmc_st.h.
 */
#ifndef LMC_ST_EXPERIMENTAL_H
#define LMC_ST_EXPERIMENTAL_H

#include "lmc_experimental.h"
#include "lmc_st.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bases (docs/library.md, "Bases", has the rules) -------------------------------------------- */

/* The file that holds the tensor that another tensor was coded against. */
typedef enum lmc_st_base_place LMC_OF_INT {
    LMC_ST_BASE_FILE = 0, /* in a base file of the archive */
    LMC_ST_BASE_SELF = 1  /* in the same file */
} lmc_st_base_place;

/* What an archive records of one of its base files. */
typedef struct lmc_st_base {
    size_t struct_size; /* sizeof(lmc_st_base); set by LMC_INIT() */
    const char *name;   /* of the file; UTF-8, NUL-terminated, without '/'. Valid until lmc_st_close(). */
    uint64_t original_nbytes; /* of the file that it is, or restores to */
    uint64_t header_hash;     /* XXH3-64 of that file's header, or of the places of its tensors */
    uint64_t content_hash;    /* of the content that is needed of it: what messages call its hash */
    uint64_t tensor_count;    /* tensors of this archive that were coded against it */
    const char *path; /* as recorded: the name, or a relative path that ends in it. Valid like `name`. */
    int is_equal;     /* 1: each of these tensors equals its base */
} lmc_st_base;

/* Base files that the archive records; 0 of other files. Most archives have one at most. */
LMC_API uint64_t lmc_st_base_count(const lmc_st_file *file);

/* What the file records of base file `number`; base->name is NULL if there is none. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_base_info(const lmc_st_file *file, uint64_t number,
                                                  lmc_st_base *base);

/* The tensor that tensor `index` was coded against. Returns 1 and sets *place and *base_index, an index in base file
 * *number or in this file (*number is 0 then). The base may be shorter or longer than the tensor needs: then it counts
 * as cut, or continued with zero bytes. Returns 0 for a tensor that needs no other tensor, for an alias, and for an
 * invalid index. */
LMC_API int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place,
                               uint64_t *number, uint64_t *base_index);

/* Makes the open file `base` the base file of `file` whose size and header it has; none is looked for then. `base`
 * stays the caller's, who closes it after `file`. It serves one file at a time. Reads of `file` may run during the
 * call, but no call with `base` during this one and during lmc_st_close() of `file`; for a chain, one
 * lmc_st_use_base() at a time. If several base files have this size and header, it becomes the first that is not open.
 * Errors: LMC_ERR_BASE (it has another size or header, or needs `file`), LMC_ERR_LIMIT (as lmc_st_open_base()),
 * LMC_ERR_ARG (`file` needs no base, or has it already; `base` serves another file). */
LMC_NODISCARD LMC_API lmc_status lmc_st_use_base(lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag);

/* Finds and opens base file `number`, unless an earlier call has done so. Use *base as any open file, but do not
 * close it: it belongs to `file` and is valid until `file` is closed. A call with *base gives the next file of the
 * chain. Sets *base NULL and returns LMC_OK if the file has no such base file. Errors: LMC_ERR_BASE (also: the chain
 * leads back to one of its files), LMC_ERR_LIMIT (LMC_ST_CHAIN_MAX, LMC_ST_CHAIN_HEADER_NBYTES_MAX,
 * LMC_ST_BASE_FILES_MAX), LMC_ERR_NOMEM, LMC_ERR_IO. */
LMC_NODISCARD LMC_API lmc_status lmc_st_open_base(const lmc_st_file *file, uint64_t number,
                                                  const lmc_st_file **base, lmc_st_diag *diag);

/* ---- stored bytes ------------------------------------------------------------------------------- */

/* How a tensor is stored in its file. */
typedef enum lmc_st_mode LMC_OF_INT {
    LMC_ST_MODE_STORED = 0, /* the first four as lmc_frame_mode */
    LMC_ST_MODE_CODED = 1,
    LMC_ST_MODE_SHORT = 2,
    LMC_ST_MODE_DELTA = 3, /* coded against another tensor (lmc_st_tensor_base()) */
    LMC_ST_MODE_ALIAS = 5, /* equal to an earlier tensor, whose frame stands for both */
    LMC_ST_MODE_PLAIN = 16 /* in a file that is not an archive */
} lmc_st_mode;

/* "stored", "coded", "short", "delta", "alias", "plain"; NULL for other numbers. Static storage. */
LMC_API const char *lmc_st_mode_name(lmc_st_mode mode);

/* Reads the head of a tensor's frame (at most LMC_INFO_NBYTES bytes) for its mode and checks that it promises the
 * tensor's dtype and size. Errors: LMC_ERR_ARG, LMC_ERR_IO, LMC_ERR_TRUNCATED, LMC_ERR_CORRUPT, LMC_ERR_UNSUPPORTED. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_mode(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_mode *mode, lmc_st_diag *diag);

/* As lmc_st_tensor_mode(), but reads up to LMC_FORM_NBYTES bytes of the frame, and sets *form, too: what the frame's
 * elements were found to be. It is LMC_FORM_PLAIN, without rANS codes, of an alias and in a plain file. No block is
 * decoded. Errors: as lmc_st_tensor_mode(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_form(const lmc_st_file *file, uint64_t index,
                                                    lmc_st_mode *mode, lmc_form_info *form,
                                                    lmc_st_diag *diag);

/* Where a tensor's storage is in the open file: its frame (of an alias, that of its owner), or itself in a plain
 * file. For programs that fetch parts of a remote file. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_place(const lmc_st_file *file, uint64_t index,
                                                     uint64_t *offset, uint64_t *nbytes);

/* Where a tensor's storage is in the original file, and its bytes. Storages do not overlap, and what is between
 * them is the skeleton (below). Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_tensor_origin(const lmc_st_file *file, uint64_t index,
                                                      uint64_t *offset, uint64_t *nbytes);

/* Where the stored bytes are for a read of a part, and which content [*begin, *end) they hold: whole blocks, or all
 * of a frame without an index. Head and tail of the frame are read. A tensor with a base needs that content of it,
 * too; of an F32 base of a BF16 or F16 tensor, twice these numbers. For a view, *begin and *end are in its storage. So
 * is the part itself if of_storage is 1, as for a base. All are 0 after a failure. Errors: lmc_st_read_range(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_range_place(const lmc_st_file *file, uint64_t index, int of_storage,
                                                    uint64_t first_byte, uint64_t nbytes, uint64_t *offset,
                                                    uint64_t *stored_nbytes, uint64_t *begin, uint64_t *end,
                                                    lmc_st_diag *diag);

/* Reads bytes [first_byte, first_byte + nbytes) of a tensor's place as they are stored, unverified: for programs that
 * decode frames themselves (lmc_cuda.h). Errors: LMC_ERR_ARG (no such tensor, the range leaves its place),
 * LMC_ERR_IO. */
LMC_NODISCARD LMC_API lmc_status lmc_st_read_stored(const lmc_st_file *file, uint64_t index,
                                                    uint64_t first_byte, size_t nbytes, void *dst,
                                                    lmc_st_diag *diag);

/* The content hash of tensor `index` of an archive (lmc_content_hash()), and the size of the blocks that the hash is
 * made from. Contents with equal hashes are equal. Contents of one size and one block size with different hashes
 * differ. Only the head and the index of the frame are read. *block_nbytes is 0 for an empty tensor. Errors:
 * LMC_ERR_ARG (the file is not an archive, or the tensor is a view), and as lmc_st_tensor_mode(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_content_hash(const lmc_st_file *file, uint64_t index, uint64_t *hash,
                                                     size_t *block_nbytes, lmc_st_diag *diag);

/* lmc_params.row_nbytes as lmc_st_convert() sets it for tensor `index`. Else, and of a view, 0. */
LMC_API uint32_t lmc_st_row_nbytes(const lmc_st_file *file, uint64_t index);

/* The skeleton of a file: all bytes outside its tensors, in their order. In a safetensors file it is the header with
 * its length; in other containers headers, pickles, padding, directories. Its size in bytes: */
LMC_API uint64_t lmc_st_skeleton_nbytes(const lmc_st_file *file);

/* Reads bytes [offset, offset + nbytes) of the skeleton; those of an archive are verified. Reading in order, a MiB at
 * a time, unpacks nothing twice; each call reads the index of the pieces. Errors: LMC_ERR_ARG (the skeleton has fewer
 * bytes), and as lmc_st_read(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_skeleton_read(const lmc_st_file *file, uint64_t offset, size_t nbytes,
                                                      void *dst, lmc_st_diag *diag);

/* Error LMC_ERR_IO if the file has changed since it was opened. */
LMC_NODISCARD LMC_API lmc_status lmc_st_check_unchanged(const lmc_st_file *file, lmc_st_diag *diag);

/* ---- one tensor, many ranges --------------------------------------------------------------------- */

/* Reads many ranges of one tensor. The frame is opened once; what was decoded last is kept (of views, up to 64 MiB). */
typedef struct lmc_st_reader lmc_st_reader;

/* Opens tensor `index` of `file`, which must stay open. Errors: as lmc_st_read_range(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_reader_create(const lmc_st_file *file, uint64_t index,
                                                      lmc_st_reader **reader, lmc_st_diag *diag);

/* As lmc_st_reader_create(), but for a view, its whole storage is read, as it is in the original file. */
LMC_NODISCARD LMC_API lmc_status lmc_st_reader_create_storage(const lmc_st_file *file, uint64_t index,
                                                              lmc_st_reader **reader, lmc_st_diag *diag);

/* Frees a reader, before lmc_st_close() of its file. NULL is allowed. */
LMC_API void lmc_st_reader_free(lmc_st_reader *reader);

/* Reads content bytes [first_byte, first_byte + nbytes), as lmc_st_read_range(). One thread at a time. */
LMC_NODISCARD LMC_API lmc_status lmc_st_reader_read(lmc_st_reader *reader, uint64_t first_byte, size_t nbytes,
                                                    void *dst, lmc_st_diag *diag);

/* ---- the original, from anywhere ------------------------------------------------------------------ */

/* Decoded blocks of the files that are read through it: each is decoded once as long as it stays in the cache. Threads
 * of the cache decode ahead of a reader that goes through a file in order, and blocks that such a reader has passed are
 * dropped first. All calls may be made by several threads at once. */
typedef struct lmc_st_cache lmc_st_cache;

/* nbytes: of the blocks; less than 1 MiB counts as that. Those in use, and the one that was used last, may exceed it.
 * 0: 64 MiB a thread. Only the number of threads and the allocator of the options are used. Errors: LMC_ERR_NOMEM,
 * LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_cache_create(uint64_t nbytes, const lmc_st_options *options,
                                                     lmc_st_cache **cache, lmc_st_diag *diag);

/* After all originals that are read through it. NULL is allowed. */
LMC_API void lmc_st_cache_free(lmc_st_cache *cache);

/* The bytes of the original of an archive, or of a plain file: lmc_st_original_nbytes() of them. */
typedef struct lmc_st_original lmc_st_original;

/* `file` and `cache` must stay until lmc_st_original_close(). Reads the heads of the frames of large tensors; a fault
 * in one is reported when its tensor is read. Errors: LMC_ERR_NOMEM, LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_st_original_open(const lmc_st_file *file, lmc_st_cache *cache,
                                                      lmc_st_original **original, lmc_st_diag *diag);

/* No other call on the original may run. NULL is allowed. */
LMC_API void lmc_st_original_close(lmc_st_original *original);

/* Reads bytes [offset, offset + nbytes) of the original; those of an archive are verified. Errors: LMC_ERR_ARG (it has
 * fewer bytes), and as lmc_st_read() and lmc_st_skeleton_read() of what is in the range. On failure dst holds undefined
 * bytes. Several threads may read. */
LMC_NODISCARD LMC_API lmc_status lmc_st_original_read(lmc_st_original *original, uint64_t offset,
                                                      size_t nbytes, void *dst, lmc_st_diag *diag);

/* ---- what changes ---------------------------------------------------------------------------------
 * The tensors of an archive that were coded against those of another file differ from them in some elements. These can
 * be listed, or put into memory that holds the base, so that it holds the tensor of the archive afterwards:
 *
 *     lmc_st_changes_find(file, indices, tensors, count, LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag);
 *     lmc_st_changes_apply(changes, tensors, NULL, &diag);
 *     lmc_st_changes_free(changes); */

typedef struct lmc_st_changes lmc_st_changes;

/* What the changes are needed for.
 *  TO_APPLY   All is verified. Blocks with many changes are decoded again when they are applied, so memory is bounded
 *             by the tensors' size: of BF16, three eighths of it.
 *  TO_LIST    All is verified, and all changes are kept.
 *  UNCHECKED  To apply: each block is verified just before it is written, and not before, unless its tensor has one
 *             checksum for all. After a failure some blocks may have changed. It saves memory, and time where much has
 *             changed. */
typedef enum lmc_st_changes_use LMC_OF_INT {
    LMC_ST_CHANGES_TO_APPLY = 0,
    LMC_ST_CHANGES_TO_LIST = 1,
    LMC_ST_CHANGES_UNCHECKED = 2
} lmc_st_changes_use;

/* Finds what changes in `count` tensors, tensor indices[i] of `file`, an archive of a safetensors file that must stay
 * open until lmc_st_changes_free(). Nothing is written. Tensors without a base are decoded and verified, too.
 *  bases: bases[i] is memory with the base of that tensor, as many bytes as the tensor has. It must not change before
 *  the changes are applied. NULL: it is read from the archive's base file.
 * Errors: LMC_ERR_ARG (no such archive; a tensor is not there, or is twice in the list; it was coded against
 * another tensor of the same file, or against a base of another dtype); LMC_ERR_BASE: a base is another one; the text
 * says if it is the new content already; otherwise as lmc_st_read_many(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_changes_find(const lmc_st_file *file, const uint64_t *indices,
                                                     const void *const *bases, size_t count,
                                                     lmc_st_changes_use use, const lmc_st_options *options,
                                                     lmc_st_changes **changes, lmc_st_diag *diag);

/* NULL is allowed. */
LMC_API void lmc_st_changes_free(lmc_st_changes *changes);

/* Elements that change in tensor `number` of the list. Returns 0 if the tensor was not coded against a base: it is all
 * new, or equals another tensor of its file. Returns 0 for LMC_ST_CHANGES_UNCHECKED: the counts are not known. */
LMC_API int lmc_st_changes_count(const lmc_st_changes *changes, size_t number, uint64_t *count);

/* Lists them: their numbers in the tensor, flat and rising, and the new elements, little-endian. Both have room for the
 * count. An element of a dtype that is narrower than a byte is a byte; of C64 it is half of one.
 *  indices: of int32_t or int64_t, as index_nbytes (4 or 8) says.
 * Error: LMC_ERR_ARG: there are no changes, or they were not to be listed; the indices do not fit. */
LMC_NODISCARD LMC_API lmc_status lmc_st_changes_list(const lmc_st_changes *changes, size_t number,
                                                     unsigned index_nbytes, void *indices, void *values);

/* Writes the new contents to dsts[i], which is the memory that had the base of that tensor, or has its content; of a
 * tensor without a base, any memory of its size. Memory that lmc_st_changes_find() was not given is verified first,
 * unless the use is UNCHECKED. Nothing is written before all was checked; afterwards, only lack of memory or an archive
 * that changes can end the call, and then the tensors are undefined. It cannot be cancelled.
 * Errors: LMC_ERR_BASE: the memory does not hold the base; LMC_ERR_ARG: dsts[i] is NULL; tensors overlap that are not
 * equal; one is missing in the list that another one equals. Otherwise as lmc_st_read_many(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_changes_apply(const lmc_st_changes *changes, void *const *dsts,
                                                      const lmc_st_options *options, lmc_st_diag *diag);

/* ---- whole files --------------------------------------------------------------------------------- */

/* Writes `nbytes` bytes to `out_path`, as lmc_st_restore() writes its output. read() supplies them in order. A status
 * other than LMC_OK ends the call; read() must then record what the caller should know about it, also in `diag`.
 * source: the open file that they come from; the output must not be this file, nor one of its bases.
 * Errors: LMC_ERR_ARG, LMC_ERR_IO, LMC_ERR_NOMEM, LMC_ERR_CANCELLED, the status of read(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_write_content(const lmc_st_file *source, const char *out_path,
                                                      uint64_t nbytes, lmc_read_fn read, void *user,
                                                      const lmc_st_output_options *options,
                                                      lmc_st_diag *diag);

/* Opens each archive of the converted directory `in_path`, to be read with the bases that the options name, and calls
 * visit(user, file). The file is closed when visit() returns; a result other than 0 ends the call successfully.
 * Errors: LMC_ERR_ARG (no directory), and as lmc_st_open(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_visit_archives(const char *in_path,
                                                       const lmc_st_compare_options *options,
                                                       int (*visit)(void *user, const lmc_st_file *file),
                                                       void *user, lmc_st_diag *diag);

/* What an entry of a converted directory is. */
typedef enum lmc_st_entry LMC_OF_INT {
    LMC_ST_ENTRY_FOLDER = 0,
    LMC_ST_ENTRY_ARCHIVE = 1, /* restored to a file whose name is that of the archive without ".lmc" */
    LMC_ST_ENTRY_COPY = 2     /* restored as it is */
} lmc_st_entry;

typedef int (*lmc_st_entry_fn)(void *user, const char *path, lmc_st_entry entry);

/* Calls visit(user, path, entry) for everything that restoring the converted directory `in_path` would write: path is
 * that of the entry, relative to the directory; folders come before what is in them. Nothing is opened. A result other
 * than 0 ends the call successfully. Errors: LMC_ERR_IO, LMC_ERR_ARG (a link to a directory, a pipe, a device),
 * LMC_ERR_CORRUPT (its list of copied files), LMC_ERR_LIMIT, LMC_ERR_NOMEM. */
LMC_NODISCARD LMC_API lmc_status lmc_st_visit_entries(const char *in_path, const lmc_st_options *options,
                                                      lmc_st_entry_fn visit, void *user, lmc_st_diag *diag);

/* Opens the archive of an entry, to be read with the bases that the options name for the directory. Errors: as
 * lmc_st_open(). */
LMC_NODISCARD LMC_API lmc_status lmc_st_open_entry(const char *in_path, const char *entry_path,
                                                   const lmc_st_compare_options *options, lmc_st_file **file,
                                                   lmc_st_diag *diag);

/* lmc_st_restore() to options->out_fd, but a plain safetensors file is copied once its header has been checked. */
LMC_NODISCARD LMC_API lmc_status lmc_st_cat(const char *in_path, const lmc_st_restore_options *options,
                                            lmc_st_result *result, lmc_st_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
