/*
 * records.h - what the index keeps of the tensors of one file, as one blob.
 */
#ifndef LMC_SAFETENSORS_STORE_RECORDS_H
#define LMC_SAFETENSORS_STORE_RECORDS_H

#include "safetensors/store/coarse.h"
#include "safetensors/store/sketch.h"

/* A tensor as the index is given it. */
typedef struct st_index_tensor {
    uint64_t nbytes;
    uint64_t row_nbytes; /* bytes of one row of a matrix */
    uint64_t content_hash;
    uint16_t dtype;
    uint8_t has_head; /* `head` is there: a matrix, whose row_nbytes and st_sketch_head_nbytes() are not 0 */
    st_sketch sketch;
    st_sketch head;
} st_index_tensor;

/* The tensors of a blob, one after the other. */
typedef struct st_records {
    const unsigned char *bytes;
    uint32_t count;
    uint32_t next;      /* number of the tensor that st_records_next() gives */
    size_t next_offset; /* of its head sketch */
} st_records;

typedef struct st_record {
    uint32_t tensor; /* its number */
    uint16_t dtype;
    uint64_t nbytes, row_nbytes, content_hash;
    const unsigned char *sketch; /* a whole one */
    const unsigned char *head;   /* the coarse part of the head sketch, or NULL */
} st_record;

/* The blob of these tensors; to be released. NULL: out of memory. */
unsigned char *st_records_make(const lmc_allocator *memory, const st_index_tensor *tensors, size_t count,
                               size_t *nbytes);

/* Opens a blob, which stays the caller's. Error: CORRUPT if any part of it is not what a writer makes. */
lmc_status st_records_open(st_records *records, const unsigned char *bytes, size_t nbytes, int64_t count,
                           lmc_st_diag *diag);

/* 1 and the next tensor, or 0. */
int st_records_next(st_records *records, st_record *record);

/* Kinds of the sketch and of the head sketch of a tensor. */
st_kind st_record_kind(const st_record *record);
st_kind st_record_head_kind(const st_record *record);

/* The record of a tensor that is to be added or is wanted. */
st_record st_record_of(const st_index_tensor *tensor, size_t number);

/* By this number, equal tensors are found. */
int64_t st_record_hash(const st_record *record);

#endif
