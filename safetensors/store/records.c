/*
 * records.c - the blob of a file's tensors: 32 bytes of each, then the sketches, then those head sketches that there
 * are.
 */
#include "safetensors/store/records.h"

#include "safetensors/archive/table.h"

#define RECORD_NBYTES 32

/* Places of the fields in a record; lmc_write_n() in st_records_make() has their sizes. */
enum { NBYTES_AT = 0, ROW_NBYTES_AT = 8, HASH_AT = 16, DTYPE_AT = 24, HAS_HEAD_AT = 26 };

#define SKETCH_NBYTES sizeof(st_sketch)

static int has_head(const st_index_tensor *tensor)
{
    return tensor->has_head && tensor->row_nbytes > 0 && st_sketch_head_nbytes(tensor->nbytes) > 0;
}

unsigned char *st_records_make(const lmc_allocator *memory, const st_index_tensor *tensors, size_t count,
                               size_t *nbytes)
{
    *nbytes = count * (RECORD_NBYTES + SKETCH_NBYTES);
    for (size_t i = 0; i < count; i++)
        *nbytes += has_head(&tensors[i]) ? st_sketch_coarse_nbytes(tensors[i].dtype) : 0;
    unsigned char *const bytes = st_allocate(memory, *nbytes);
    if (!bytes)
        return NULL;
    lmc_writer records = {bytes, bytes + count * RECORD_NBYTES};
    lmc_writer sketches = {records.end, records.end + count * SKETCH_NBYTES};
    lmc_writer heads = {sketches.end, bytes + *nbytes};
    for (size_t i = 0; i < count; i++) {
        const st_index_tensor *const one = &tensors[i];
        lmc_write_n(&records, one->nbytes, 8);
        lmc_write_n(&records, one->row_nbytes, 8);
        lmc_write_n(&records, one->content_hash, 8);
        lmc_write_n(&records, one->dtype, 2);
        lmc_write_n(&records, (uint64_t)has_head(one), 6);
        lmc_write_span(&sketches, one->sketch.bytes, SKETCH_NBYTES);
        if (has_head(one))
            lmc_write_span(&heads, one->head.bytes, st_sketch_coarse_nbytes(one->dtype));
    }
    return bytes;
}

static const unsigned char *record_at(const st_records *records, uint32_t number)
{
    return records->bytes + (size_t)number * RECORD_NBYTES;
}

static int has_head_at(const st_records *records, uint32_t number)
{
    return record_at(records, number)[HAS_HEAD_AT] != 0;
}

lmc_status st_records_open(st_records *records, const unsigned char *bytes, size_t nbytes, int64_t count,
                           lmc_st_diag *diag)
{
    int is_right = count >= 0 && (uint64_t)count <= nbytes / (RECORD_NBYTES + SKETCH_NBYTES);
    uint64_t total = is_right ? (uint64_t)count * (RECORD_NBYTES + SKETCH_NBYTES) : 0;
    *records = (st_records){bytes, is_right ? (uint32_t)count : 0, 0, (size_t)total};
    for (uint32_t i = 0; i < records->count && is_right; i++) {
        const unsigned char *const fields = record_at(records, i);
        const unsigned dtype = lmc_load16(fields + DTYPE_AT);
        is_right = dtype < LMC_DTYPE_COUNT &&
                   (!has_head_at(records, i) || (st_sketch_head_nbytes(lmc_load64(fields + NBYTES_AT)) > 0 &&
                                                 lmc_load64(fields + ROW_NBYTES_AT) > 0));
        total += is_right && has_head_at(records, i) ? st_sketch_coarse_nbytes(dtype) : 0;
    }
    if (is_right && total == nbytes)
        return LMC_OK;
    records->count = 0;
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                   "the index of the store: tensors of a file are damaged");
}

int st_records_next(st_records *records, st_record *record)
{
    if (records->next == records->count)
        return 0;
    const unsigned char *const fields = record_at(records, records->next);
    record->tensor = records->next;
    record->nbytes = lmc_load64(fields + NBYTES_AT);
    record->row_nbytes = lmc_load64(fields + ROW_NBYTES_AT);
    record->content_hash = lmc_load64(fields + HASH_AT);
    record->dtype = lmc_load16(fields + DTYPE_AT);
    record->sketch = record_at(records, records->count) + records->next * SKETCH_NBYTES;
    record->head = NULL;
    if (has_head_at(records, records->next)) {
        record->head = records->bytes + records->next_offset;
        records->next_offset += st_sketch_coarse_nbytes(record->dtype);
    }
    records->next++;
    return 1;
}

st_kind st_record_kind(const st_record *record)
{
    return (st_kind){.dtype = record->dtype, .nbytes = record->nbytes};
}

st_kind st_record_head_kind(const st_record *record)
{
    return (st_kind){.dtype = record->dtype,
                     .nbytes = st_sketch_head_nbytes(record->nbytes),
                     .row_nbytes = record->row_nbytes};
}

st_record st_record_of(const st_index_tensor *tensor, size_t number)
{
    return (st_record){.tensor = (uint32_t)number,
                       .dtype = tensor->dtype,
                       .nbytes = tensor->nbytes,
                       .row_nbytes = tensor->row_nbytes,
                       .content_hash = tensor->content_hash,
                       .sketch = tensor->sketch.bytes,
                       .head = has_head(tensor) ? tensor->head.bytes : NULL};
}

int64_t st_record_hash(const st_record *record)
{
    unsigned char bytes[10 + SKETCH_NBYTES];
    memcpy(bytes, &record->nbytes, 8);
    memcpy(bytes + 8, &record->dtype, 2);
    memcpy(bytes + 10, record->sketch, SKETCH_NBYTES);
    return (int64_t)st_hash(bytes, sizeof bytes);
}
