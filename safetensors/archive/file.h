/*
 * file.h - what is behind an lmc_st_file, for the other files of liblmc_st.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_FILE_H
#define LMC_SAFETENSORS_ARCHIVE_FILE_H

#include "safetensors/archive/links.h"
#include "safetensors/header/header.h"
#include "safetensors/os/file.h"

#include <pthread.h>

typedef struct st_base_state st_base_state; /* base/search.h */

struct lmc_st_file {
    lmc_allocator memory;
    char *path; /* for diagnostics */
    os_input input;
    st_header header;     /* of the original file */
    uint64_t file_nbytes; /* of the original file */
    int is_archive;
    uint64_t *places;    /* tensor i stands at [places[i], places[i + 1]) of this file */
    uint64_t *hashes;    /* archives: content hash per tensor */
    uint32_t *frame_of;  /* archives with aliases: the tensor whose frame tensor i uses; else NULL */
    st_bases bases;      /* archives: tensors that were coded against another one */
    st_base_state *base; /* archives with a base file: where it is looked for, the open file; else NULL */
    const lmc_st_file *dependent; /* the open file whose base this one is; else NULL */
    int is_from_path;             /* 0: read from a descriptor, the path is a label */
    pthread_mutex_t shapes_lock;
    uint64_t **shapes; /* of tensors above ST_RANK_KEPT that were asked for; NULL before the first one */
};

/* How a file is opened: from a path, or a descriptor that is read instead of it. */
typedef struct st_open {
    const char *path;
    int fd;                         /* -1: the path is opened */
    const volatile int *cancel;     /* while a stream is read; may be NULL */
    const lmc_allocator *allocator; /* NULL: malloc */
    const lmc_st_file *dependent;   /* the open file whose base this may be; else NULL */
    int may_be_short;               /* 1: accept an archive that ends early or goes on (salvage) */
} st_open;

/* Opens a file and reads header and table; lmc_st_open() says what can fail. */
lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag);

/* The same as an input of a call with these options. */
lmc_status st_file_open_input(const char *path, const lmc_st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag);

/* Describes a tensor. Errors: ARG, NOMEM (lmc_st_tensor_info()). */
lmc_status st_file_tensor(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor);

/* Describes a tensor without its shape, which stays NULL: this needs no memory. */
void st_file_describe(const lmc_st_file *file, size_t index, lmc_st_tensor *tensor);

/* Content bytes of tensor `index`. */
static inline uint64_t st_file_tensor_nbytes(const lmc_st_file *file, size_t index)
{
    return file->header.tensors[index].end - file->header.tensors[index].begin;
}

/* The tensor whose frame tensor `index` uses: itself if it is no alias. */
static inline size_t st_file_owner(const lmc_st_file *file, size_t index)
{
    return !file->frame_of ? index : file->frame_of[index];
}

/* Where the frame of tensor `index` stands in the file, and its size: for an alias, the other's. */
static inline uint64_t st_file_frame_offset(const lmc_st_file *file, size_t index)
{
    return file->places[st_file_owner(file, index)];
}

static inline uint64_t st_file_frame_nbytes(const lmc_st_file *file, size_t index)
{
    const size_t owner = st_file_owner(file, index);
    return file->places[owner + 1] - file->places[owner];
}

/* Names tensor `index` in a diagnostic and passes `status` on. */
lmc_status st_file_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag);

/* base/base.c: the places of lmc_st_set_base(). Errors: NOMEM, ARG (the base is open already). */
lmc_status st_file_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                            size_t base_dir_count, lmc_st_diag *diag);

/* base/base.c: what the archive records of its base; returns 0 if it has none. */
int st_base_info(const lmc_st_file *file, lmc_st_base *base);

/* base/base.c: the next st_file_open_base() looks for the base again. */
void st_file_retry_base(const lmc_st_file *file);

/* base/base.c: what an archive with a base file needs to find it. Ends with st_file_close_base(). */
lmc_status st_file_begin_base(lmc_st_file *file, lmc_st_diag *diag);
void st_file_close_base(lmc_st_file *file);

/* lmc_st_open_base(), but a search that has failed is not repeated. `diag` stays as it is after a success. */
lmc_status st_file_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag);

/* Bytes of the headers of `file` and the open files whose base it is, directly or not; equal ones count once. */
uint64_t st_file_headers_nbytes(const lmc_st_file *file);

/* Files of the chain that begins with `file`; opens all of it. Errors: as lmc_st_open_base(). */
lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag);

/* ARG if the path, or the descriptor if it is not -1, leads to a base of `file`, or a base of that, and so on, as
 * far as they are found. Other errors: NOMEM. */
lmc_status st_file_check_output(const lmc_st_file *file, const char *path, int fd, lmc_st_diag *diag);

/* Fails with BASE: `used` does not hold the content that `file` was coded against. */
lmc_status st_file_fail_base(const lmc_st_file *file, const lmc_st_file *used, lmc_st_diag *diag);

/* st_header_parse(). A file that is opened as another one's base shares the header with one of those that need it, if
 * it is the same: snapshots have equal headers, and chains of them may be long. */
lmc_status st_file_parse_header(const lmc_st_file *file, st_header *header, const st_header_text *source,
                                lmc_st_diag *diag);

/* archive/archive.c: turns `file`, whose header was read as that of a plain file, into an archive: reads the
 * table, the original header, and checks that they and the outer header fit. */
lmc_status st_archive_open(lmc_st_file *file, lmc_st_diag *diag);

/* 1 if the file whose outer header was read is an archive, or was one before someone changed it. */
int st_archive_detect(const lmc_st_file *file, lmc_status *status, lmc_st_diag *diag);

/* archive/frame.c: reads and verifies head and tail of tensor `index`, and that they promise its dtype, size
 * and content hash. ahead: what may have been read of the file already, or NULL. Free with lmc_frame_free(). */
lmc_status st_frame_open(const lmc_st_file *file, const os_window *ahead, lmc_ctx *ctx, size_t index,
                         lmc_frame **frame, lmc_st_diag *diag);

/* Stored bytes of blocks first .. first + count - 1: they stand one behind the other. */
lmc_status st_frame_extent(const lmc_st_file *file, size_t index, const lmc_frame *frame, uint64_t first,
                           uint64_t count, uint64_t *offset, size_t *nbytes, lmc_st_diag *diag);

/* 1 if the frame has an index, by which each block can be verified alone. */
static inline int st_frame_has_index(const lmc_info *info)
{
    return info->mode == LMC_FRAME_CODED || info->mode == LMC_FRAME_DELTA;
}

/* Decodes these blocks from their stored bytes into dst, one behind the other. base: the bytes of the base that
 * belong to them, one behind the other, or NULL if the frame has none. entries: one per block of the run, or
 * NULL if the frame has an index. */
lmc_status st_frame_decode(const lmc_st_file *file, lmc_ctx *ctx, size_t index, const lmc_frame *frame,
                           uint64_t first, uint64_t count, const unsigned char *stored, size_t stored_nbytes,
                           const unsigned char *base, unsigned char *dst, size_t dst_capacity,
                           lmc_block_entry *entries, lmc_st_diag *diag);

/* CHECKSUM unless the entries of all blocks give the content hash: what makes blocks of a frame without
 * an index trustworthy. */
lmc_status st_frame_check_entries(const lmc_st_file *file, size_t index, const lmc_block_entry *entries,
                                  uint64_t count, lmc_st_diag *diag);

/* archive/frame.c: the mode of a tensor; lmc_st_tensor_mode() says what can fail. */
lmc_status st_frame_mode(const lmc_st_file *file, uint64_t index, lmc_st_mode *mode, lmc_st_diag *diag);

#endif
