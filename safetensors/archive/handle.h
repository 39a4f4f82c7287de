/*
 * handle.h - what was read of an open file: its header and, of an archive, its table. It is immutable, but for
 * shapes that are kept once they were asked for. The struct also has the place for the link to the base's file, of
 * which nothing is known here: base/base_file.h.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_HANDLE_H
#define LMC_SAFETENSORS_ARCHIVE_HANDLE_H

#include "safetensors/archive/links.h"
#include "safetensors/container/container.h"

#include <pthread.h>

typedef struct st_base_slots st_base_slots; /* base/base_file.h */

/* The skeleton of the original file, and where it stands (archive/archive_skeleton.h). */
typedef struct st_skeleton_place {
    uint64_t nbytes; /* of the original file: all that is no tensor */
    uint64_t hash;   /* of the index */
    uint64_t offset; /* in this file; of an archive whose original is no safetensors file */
    uint64_t stored_nbytes;
} st_skeleton_place;

struct lmc_st_file {
    lmc_allocator memory;
    char *path; /* for diagnostics */
    st_input input;
    int is_archive;
    /* The original file: this one if it is no archive. */
    lmc_st_container container;
    st_header header;               /* its own, or one that was made for its tensors */
    unsigned char header_length[8]; /* that stands before a safetensors header */
    uint64_t original_nbytes;
    st_skeleton_place skeleton;
    uint64_t *origins; /* archives of other files than safetensors: where tensor i begins in it; else NULL */
    /* This file. */
    /* Where tensor i begins in this file, and where the last one ends. In an archive, and in a safetensors file, tensor
     * i ends where the next one begins. */
    uint64_t *places;
    uint64_t *hashes;             /* archives: content hash per tensor */
    uint32_t *frame_of;           /* archives with aliases: the tensor whose frame tensor i uses; else NULL */
    st_bases bases;               /* archives: tensors that were coded against another one */
    st_base_slots *base;          /* archives with a base file: base/base_file.h; else NULL */
    const lmc_st_file *dependent; /* the open file whose base this one is; else NULL */
    /* The open file that has opened this one as its base, and closes it; NULL: the caller does. What this file refers
     * to outside of itself belongs to its owner, or to that one's, and so on. */
    const lmc_st_file *owner;
    int is_from_path; /* 0: read from a descriptor or without a name, the path is a label */
    pthread_mutex_t shapes_lock;
    uint64_t **shapes; /* of tensors above ST_RANK_KEPT that were asked for; NULL before the first one */
};

/* Describes a tensor as it is stored. Errors: ARG, NOMEM (lmc_st_tensor_info()). */
lmc_status st_file_tensor(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor);

/* Describes a tensor without its shape, which stays NULL: this needs no memory. */
void st_file_describe(const lmc_st_file *file, size_t index, lmc_st_tensor *tensor);

/* The tensor of the listing that has this number. Returns 1, or 0: there is none. */
int st_file_find_listed(const lmc_st_file *file, uint64_t index, st_listed *listed);

/* Content bytes of it. */
static inline uint64_t st_listed_nbytes(const lmc_st_file *file, const st_listed *listed)
{
    const st_tensor *const tensor = &file->header.tensors[listed->tensor];
    return listed->view ? listed->view->nbytes : tensor->end - tensor->begin;
}

/* Describes a tensor of the listing. Errors: as st_file_tensor(). */
lmc_status st_file_describe_listed(const lmc_st_file *file, uint64_t index, lmc_st_tensor *tensor);

/* Content bytes of tensor `index`. */
static inline uint64_t st_file_tensor_nbytes(const lmc_st_file *file, size_t index)
{
    return file->header.tensors[index].end - file->header.tensors[index].begin;
}

/* Where tensor `index` begins in the original file. */
static inline uint64_t st_file_origin(const lmc_st_file *file, size_t index)
{
    if (!file->is_archive)
        return file->places[index];
    return file->origins
               ? file->origins[index]
               : sizeof file->header_length + file->header.text_nbytes + file->header.tensors[index].begin;
}

/* What tells the original file among others of its size: the hash of a safetensors header; of other files, that of the
 * places of their tensors (docs/archive.md, section 8.3). */
uint64_t st_file_identity(const lmc_st_file *file);

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

/* Passes `status` on; unless it is LMC_OK, the diagnostic names tensor `index`. */
lmc_status st_file_blame(const lmc_st_file *file, size_t index, lmc_status status, lmc_st_diag *diag);

/* st_header_parse(). A file that is opened as another one's base shares the header with one of those that need it, if
 * it is the same: snapshots have equal headers, and chains of them may be long. file: an lmc_st_file. */
lmc_status st_file_parse_header(const void *file, st_header *header, const st_header_text *source,
                                lmc_st_diag *diag);

/* Frees all but the link to the base. file: not NULL. */
void st_handle_close(lmc_st_file *file);

#endif
