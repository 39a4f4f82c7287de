/*
 * archive_header.c - the archive header's JSON: measured, then written.
 */
#include "safetensors/archive/archive_header.h"

#include "safetensors/header/header.h"

#include <string.h>

/* The entry of `nbytes` opaque bytes at `begin`, behind its name. */
static void put_entry(st_json_out *out, uint64_t begin, uint64_t nbytes)
{
    st_json_put_colon(out);
    st_header_put_dtype(out, LMC_DTYPE_U8);
    st_json_put_u64(out, nbytes);
    st_header_put_place(out, begin, begin + nbytes);
    st_json_put_close(out, '}');
}

/* The JSON for frames of the given sizes; frame_nbytes NULL: of their bounds. Returns how many tensors have entries
 * within the capacity. */
static size_t put_header(st_json_out *out, const st_archive_parts *parts, const uint64_t *frame_nbytes)
{
    static const char metadata[] =
        "\"__metadata__\":{\"format\":\"" ST_MARK_FORMAT "\",\"" ST_MARK_KEY "\":\"" ST_MARK_VERSION "\"}";
    const st_header *const original = parts->original;
    uint64_t begin = parts->table_nbytes;
    size_t count = 0;
    st_json_put_open(out, '{');
    st_json_put_raw(out, metadata, sizeof metadata - 1);
    st_json_put_string(out, parts->table_name, strlen(parts->table_name));
    put_entry(out, 0, parts->table_nbytes);
    for (size_t i = 0; i < original->tensor_count; i++) {
        const st_tensor *const tensor = &original->tensors[i];
        const uint64_t nbytes =
            frame_nbytes ? frame_nbytes[i] : st_archive_frame_bound(tensor->end - tensor->begin);
        st_json_put_raw(out, original->text + tensor->raw_name.offset, tensor->raw_name.nbytes);
        put_entry(out, begin, nbytes);
        begin += nbytes;
        count += out->nbytes < out->capacity;
    }
    if (parts->skeleton_name) {
        st_json_put_string(out, parts->skeleton_name, strlen(parts->skeleton_name));
        put_entry(out, begin, parts->skeleton_nbytes);
    }
    st_json_put_close(out, '}');
    return count;
}

/* The plan chooses the size of blocks: 64 KiB or more, but for the last one. A block takes at most 21 bytes more than
 * its content: one for its mode, 20 in the index of a delta frame. Head, plan and check stay below 8 KiB
 * (docs/format.md, section 2) without offsets of columns. With them the plan takes a byte more for each column. A
 * matrix has LMC_COLUMN_COUNT_MAX of them at most, and LMC_ROW_COUNT_MIN rows at least. A plan has offsets where a
 * sample shows that they save more. But the rest of the tensor may be unlike the sample. Then all its blocks are
 * stored, and the plan is written already. */
uint64_t st_archive_frame_bound(uint64_t content_nbytes)
{
    const uint64_t most_columns = content_nbytes / LMC_ROW_COUNT_MIN;
    return content_nbytes + content_nbytes / 64 + 8192 +
           (most_columns < LMC_COLUMN_COUNT_MAX ? most_columns : LMC_COLUMN_COUNT_MAX);
}

char *st_archive_free_name(const char *wanted, const st_header *original, const lmc_allocator *memory)
{
    const size_t base = strlen(wanted);
    size_t length = base;
    /* n tensors can take at most n names: the loop ends */
    char *const name = st_allocate(memory, base + original->tensor_count + 2);
    if (!name)
        return NULL;
    memcpy(name, wanted, base);
    for (;;) {
        size_t index = 0;
        const st_string candidate = {name, length};
        if (!st_header_find(original, candidate, &index))
            break;
        name[length] = '~';
        length++;
    }
    name[length] = '\0';
    return name;
}

lmc_status st_archive_header_reserve(const st_archive_parts *parts, uint64_t spare_nbytes, uint64_t *nbytes,
                                     lmc_st_diag *diag)
{
    /* data_nbytes is a file's size, so the sum of the bounds fits 64 bits */
    st_json_out out = {.capacity = 8 + LMC_ST_HEADER_NBYTES_MAX - spare_nbytes, .nbytes = 8};
    const size_t fitting_count = put_header(&out, parts, NULL);
    *nbytes = (out.nbytes + 7) / 8 * 8;
    const uint64_t most = *nbytes - 8 + spare_nbytes;
    if (most > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(
            diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
            "too many tensors: the archive's own header could need %llu bytes and may have %u, which is "
            "enough for the first %zu of %zu tensors",
            (unsigned long long)most, (unsigned)LMC_ST_HEADER_NBYTES_MAX, fitting_count,
            parts->original->tensor_count);
    return LMC_OK;
}

lmc_status st_archive_header_write(const st_archive_parts *parts, const uint64_t *frame_nbytes,
                                   unsigned char *dst, uint64_t nbytes, lmc_st_diag *diag)
{
    st_json_out out = {.dst = dst, .capacity = nbytes, .nbytes = 8};
    memset(dst, ' ', nbytes);
    lmc_store64(dst, nbytes - 8);
    (void)put_header(&out, parts, frame_nbytes);
    if (out.nbytes > nbytes)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a frame is larger than was foreseen");
    return LMC_OK;
}
