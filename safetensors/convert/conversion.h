/*
 * conversion.h - a conversion under way: what convert/convert_file.c, which reads, encodes and writes, shares with
 * convert/plan.c, which opens the base and decides for each tensor how it is coded, and convert/around_frames.c, which
 * writes header, table and what is no tensor.
 */
#ifndef LMC_SAFETENSORS_CONVERT_CONVERSION_H
#define LMC_SAFETENSORS_CONVERT_CONVERSION_H

#include "safetensors/archive/table.h"
#include "safetensors/base/content.h"
#include "safetensors/convert/match.h"
#include "safetensors/engine/engine.h"

typedef struct st_conversion {
    const st_source *source;
    const st_options *options;
    st_output output;
    st_aliases aliases;
    st_base_set bases;
    st_matches matches; /* what tensors may be coded against */

    /* the header region: reserved first, filled in at the end */
    char *table_name;
    char *skeleton_name; /* NULL: a safetensors file, whose skeleton is its header */
    st_layout layout;
    uint64_t skeleton_nbytes; /* stored */
    unsigned char *stored_header;
    size_t stored_header_nbytes;
    unsigned header_method;
    uint64_t header_region_nbytes; /* length, header and table */

    uint64_t *frame_nbytes; /* per tensor; grows while its parts get their places */
    uint64_t *hashes;
    uint64_t *base_hashes;   /* per tensor, of those with a match */
    unsigned char *is_delta; /* per tensor: coded against its match; set when it is planned */
    unsigned char *is_same;  /* per tensor: and equal to it; set when it is encoded */
    uint64_t end;            /* of what is written so far; belongs to the part that is next in order */
} st_conversion;

/* What a slot holds: how its tensor is coded and what has become of its blocks. */
typedef struct st_convert_item {
    lmc_plan *plan; /* NULL: an alias, which has no frame */
    lmc_info info;
    size_t block_bound;
    lmc_block_entry *entries;
    const st_match *match; /* of a plan with mode DELTA; else NULL */
    st_content base;       /* with a match in the base file */
} st_convert_item;

/* convert/plan.c: the engine's prepare() and release(); `user` is the conversion. */
lmc_status st_convert_prepare(void *user, st_worker *worker, st_slot *slot);
void st_convert_release(void *user, st_slot *slot);

/* Content bytes of a tensor if they were read ahead or lie in memory, else NULL. */
const unsigned char *st_convert_find(const st_conversion *conversion, const st_worker *worker, size_t index,
                                     uint64_t offset, size_t nbytes);

/* What content bytes [begin, end) of the base of tensor `match` are, in the worker's base buffer, until that is
 * used again; worker->content and ->stored are used too. */
lmc_status st_convert_read_base(const st_conversion *conversion, st_worker *worker, const st_match *match,
                                const st_content *base, uint64_t begin, uint64_t end,
                                const unsigned char **bytes);

/* Opens the options' base, if there is one, and finds the name to be recorded; checks that it
 * is not the output. */
lmc_status st_convert_open_base(st_conversion *conversion, const char *out_path, lmc_st_diag *diag);

/* Lets the options choose bases. Those that cannot be used are refused. */
lmc_status st_convert_choose_bases(st_conversion *conversion, const char *out_path, lmc_st_diag *diag);

/* IO if a file of the bases' chains is no longer what it was. */
lmc_status st_convert_check_bases(const st_conversion *conversion, lmc_st_diag *diag);

/* convert/around_frames.c: writes what is no tensor of the source behind the frames. */
lmc_status st_convert_write_skeleton(st_conversion *conversion, lmc_st_diag *diag);

/* Reserves room, sets `end` behind it; writes it once all frames are there. */
lmc_status st_convert_reserve_header_region(st_conversion *conversion, lmc_st_diag *diag);
lmc_status st_convert_write_header_region(st_conversion *conversion, lmc_st_diag *diag);

#endif
