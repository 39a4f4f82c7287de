/*
 * view.h - reading tensors of the listing: those that are stored as they are, and views, whose elements are gathered
 * into C order and made little-endian. All bytes come through a reader of the stored tensor, so they are verified.
 */
#ifndef LMC_SAFETENSORS_READ_VIEW_H
#define LMC_SAFETENSORS_READ_VIEW_H

#include "safetensors/read/reader.h"

typedef struct st_view_reader {
    st_reader stored;
    st_listed listed;
    uint64_t nbytes; /* of the content */
    st_buffer piece; /* of what is stored */
    st_buffer ahead; /* content bytes [ahead_begin, ahead_end) */
    uint64_t ahead_begin, ahead_end;
    uint64_t ahead_nbytes; /* how much the last read has gathered */
    uint64_t next;         /* where it ended */
} st_view_reader;

/* Opens tensor `index` of the listing, which must exist. ctx: as for st_reader_open(). Errors: the same. Ends with
 * st_view_reader_close() in every case. */
lmc_status st_view_reader_open(st_view_reader *reader, const lmc_st_file *file, lmc_ctx *ctx, size_t index,
                               lmc_st_diag *diag);

/* Reads content bytes [first_byte, first_byte + nbytes), which must lie in the tensor. On failure dst holds undefined
 * bytes. Reads of a view that follow each other are gathered ahead. Errors: as st_reader_read(). */
lmc_status st_view_reader_read(st_view_reader *reader, uint64_t first_byte, size_t nbytes, void *dst,
                               lmc_st_diag *diag);

void st_view_reader_close(st_view_reader *reader);

/* Which bytes [*begin, *end) of what is stored lie between the first and the last that a part of a view needs. */
void st_view_extent(const st_view *view, uint64_t first_byte, uint64_t nbytes, uint64_t *begin,
                    uint64_t *end);

/* Makes big-endian numbers of a view little-endian, in place: whole ones. */
void st_view_swap(const st_view *view, void *content, size_t nbytes);

/* One range, one tensor; lmc_st_read_range() says what can fail. ctx may be NULL. */
lmc_status st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                         size_t nbytes, void *dst, lmc_st_diag *diag);

#endif
