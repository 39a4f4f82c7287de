/*
 * segments.c - a list of tensors becomes the contents of a file: sorted, named, and described by a header.
 */
#include "safetensors/container/segments.h"

#include "safetensors/common/text.h"
#include "safetensors/header/header_write.h"

#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

/* What a guess looks at: runs spread over the bytes, at multiples of 8. lmc_dtype_guess() looks at as much. */
#define SAMPLE_RUN_NBYTES 2048
#define SAMPLE_RUN_COUNT 8
#define SAMPLE_NBYTES (SAMPLE_RUN_NBYTES * SAMPLE_RUN_COUNT)

/* The shortest entry of a header has more bytes: a longer list could not be written. */
#define SEGMENT_COUNT_MAX (LMC_ST_HEADER_NBYTES_MAX / 40)

void st_segments_init(st_segments *segments, const st_reading *reading)
{
    *segments = (st_segments){.reading = reading};
}

void st_segments_free(st_segments *segments)
{
    const lmc_allocator *const memory = segments->reading->memory;
    st_buffer_free(memory, &segments->list);
    st_buffer_free(memory, &segments->names);
    st_buffer_free(memory, &segments->dims);
}

static st_kept_segment *kept_list(const st_segments *segments)
{
    return (st_kept_segment *)(void *)segments->list.bytes;
}

static const uint64_t *kept_dims(const st_segments *segments)
{
    return (const uint64_t *)(const void *)segments->dims.bytes;
}

/* ---- adding ---- */

/* The name as UTF-8, with \xHH for each byte that is none, and for the first of "__metadata__". */
static lmc_status add_name(st_segments *segments, const char *name, size_t nbytes, st_kept_segment *kept,
                           lmc_st_diag *diag)
{
    static const char reserved[] = "__metadata__";
    const unsigned char *const src = (const unsigned char *)name;
    /* they could not be written */
    if (segments->names_nbytes + nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the names of its tensors have more than %d bytes", LMC_ST_HEADER_NBYTES_MAX);
    unsigned char *const dst =
        st_buffer_extend(segments->reading->memory, &segments->names, segments->names_nbytes, 4 * nbytes + 4);
    size_t at = 0, length = 0;
    if (!dst)
        return st_fail_nomem(diag);
    const int is_reserved = nbytes == sizeof reserved - 1 && memcmp(name, reserved, nbytes) == 0;
    while (at < nbytes) {
        uint32_t code_point = 0;
        const size_t taken = is_reserved && at == 0 ? 0 : st_utf8_next(src + at, nbytes - at, &code_point);
        if (taken == 0) {
            static const char digits[] = "0123456789abcdef";
            const unsigned char escaped[4] = {'\\', 'x', (unsigned char)digits[src[at] >> 4],
                                              (unsigned char)digits[src[at] & 15]};
            memcpy(dst + length, escaped, sizeof escaped);
            length += sizeof escaped;
            at++;
        } else {
            memcpy(dst + length, src + at, taken);
            length += taken;
            at += taken;
        }
    }
    kept->name_at = segments->names_nbytes;
    kept->name_nbytes = (uint32_t)length;
    segments->names_nbytes += length;
    return LMC_OK;
}

/* 1 if dtype and dimensions, multiplied from the left as a header's are, give the segment's size. */
static int is_agreed(const st_segment *segment)
{
    uint64_t nbits = 1;
    int overflows = segment->rank > LMC_ST_RANK_MAX;
    for (size_t i = 0; i < segment->rank && !overflows; i++)
        overflows = st_multiply_overflows(nbits, segment->shape[i], &nbits);
    return !overflows && !st_multiply_overflows(nbits, lmc_dtype_nbits(segment->dtype), &nbits) &&
           nbits % 8 == 0 && nbits / 8 == segment->nbytes;
}

static lmc_status add_shape(st_segments *segments, const st_segment *segment, st_kept_segment *kept,
                            lmc_st_diag *diag)
{
    const unsigned value_nbits = lmc_dtype_nbits(segment->dtype);
    const int is_told = segment->shape && is_agreed(segment);
    const int is_whole = value_nbits >= 8 && segment->nbytes % (value_nbits / 8) == 0;
    const uint64_t element_count = is_whole ? segment->nbytes / (value_nbits / 8) : segment->nbytes;
    const uint64_t *const shape = is_told ? segment->shape : &element_count;
    kept->rank = (uint16_t)(is_told ? segment->rank : 1);
    kept->dtype = (uint16_t)(is_told || is_whole ? segment->dtype : LMC_DTYPE_U8);
    kept->shape_at = segments->dim_count;
    if (kept->rank == 0)
        return LMC_OK;
    unsigned char *const dst =
        st_buffer_extend(segments->reading->memory, &segments->dims, segments->dim_count * sizeof *shape,
                         kept->rank * sizeof *shape);
    if (!dst)
        return st_fail_nomem(diag);
    memcpy(dst, shape, kept->rank * sizeof *shape);
    segments->dim_count += kept->rank;
    return LMC_OK;
}

lmc_status st_segments_add(st_segments *segments, const st_segment *segment, lmc_st_diag *diag)
{
    const uint64_t file_nbytes = segments->reading->input->nbytes;
    st_kept_segment kept = {
        .offset = segment->offset, .nbytes = segment->nbytes, .order = (uint32_t)segments->count};
    if (segment->offset > file_nbytes || segment->nbytes > file_nbytes - segment->offset ||
        segment->name_nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return LMC_OK;
    if (segments->count == SEGMENT_COUNT_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "it has more than %d tensors",
                       SEGMENT_COUNT_MAX);
    ST_TRY(add_name(segments, segment->name, segment->name_nbytes, &kept, diag));
    ST_TRY(add_shape(segments, segment, &kept, diag));
    unsigned char *const dst = st_buffer_extend(segments->reading->memory, &segments->list,
                                                segments->count * sizeof kept, sizeof kept);
    if (!dst)
        return st_fail_nomem(diag);
    memcpy(dst, &kept, sizeof kept);
    segments->count++;
    return LMC_OK;
}

lmc_status st_segments_guess(const st_reading *reading, uint64_t offset, uint64_t nbytes, lmc_dtype *dtype,
                             lmc_st_diag *diag)
{
    unsigned char sample[SAMPLE_NBYTES];
    const size_t sample_nbytes = nbytes < sizeof sample ? (size_t)nbytes : sizeof sample;
    if (nbytes <= sizeof sample) {
        ST_TRY(os_input_read(reading->input, offset, sample, sample_nbytes, diag));
    } else {
        for (unsigned i = 0; i < SAMPLE_RUN_COUNT; i++) {
            const uint64_t first = (nbytes - SAMPLE_RUN_NBYTES) / (SAMPLE_RUN_COUNT - 1) * i / 8 * 8;
            ST_TRY(os_input_read(reading->input, offset + first, sample + i * SAMPLE_RUN_NBYTES,
                                 SAMPLE_RUN_NBYTES, diag));
        }
    }
    *dtype = lmc_dtype_guess(sample, sample_nbytes, 0);
    return LMC_OK;
}

/* ---- order ---- */

static int compare_places(const void *left, const void *right)
{
    const st_kept_segment *const a = left;
    const st_kept_segment *const b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void sort_and_part(st_segments *segments)
{
    st_kept_segment *const list = kept_list(segments);
    uint64_t end = 0;
    size_t count = 0;
    if (segments->count > 1)
        qsort(list, segments->count, sizeof *list, compare_places);
    for (size_t i = 0; i < segments->count; i++) {
        if (list[i].offset < end)
            continue;
        end = list[i].offset + list[i].nbytes;
        list[count++] = list[i];
    }
    segments->count = count;
}

/* ---- names ---- */

/* A hash table of the names given so far: numbers of segments plus one, at most half full. */
typedef struct given_names {
    uint32_t *slots;
    uint32_t *next_number; /* per segment: what the next tensor of its name gets behind '#' */
    size_t capacity;
    uint64_t seed;
} given_names;

static st_string name_of(const st_segments *segments, const st_kept_segment *kept)
{
    return (st_string){(const char *)segments->names.bytes + kept->name_at, kept->name_nbytes};
}

static uint32_t *locate(const st_segments *segments, const given_names *given, st_string name)
{
    size_t i = (size_t)(st_string_hash(name, given->seed) % given->capacity);
    for (;; i = i + 1 == given->capacity ? 0 : i + 1) {
        const uint32_t slot = given->slots[i];
        if (slot == 0 || st_string_equals(name_of(segments, &kept_list(segments)[slot - 1]), name))
            return &given->slots[i];
    }
}

/* Gives segment `index`, whose name `holder` has, the name NAME#N with the smallest N from 2 on that is free. */
static lmc_status give_number(st_segments *segments, given_names *given, size_t index, size_t holder,
                              lmc_st_diag *diag)
{
    st_kept_segment *const kept = &kept_list(segments)[index];
    const size_t base_nbytes = kept->name_nbytes;
    const size_t base_at = (size_t)kept->name_at;
    const size_t at = segments->names_nbytes;
    char *const room =
        (char *)st_buffer_extend(segments->reading->memory, &segments->names, at, base_nbytes + 16);
    if (!room)
        return st_fail_nomem(diag);
    memcpy(room, segments->names.bytes + base_at, base_nbytes);
    for (;;) {
        const unsigned number = given->next_number[holder]++ + 2;
        const int length = snprintf(room + base_nbytes, 16, "#%u", number);
        const st_string candidate = {room, base_nbytes + (size_t)length};
        uint32_t *const slot = locate(segments, given, candidate);
        if (*slot == 0) {
            *slot = (uint32_t)index + 1;
            kept->name_at = at;
            kept->name_nbytes = (uint32_t)candidate.nbytes;
            segments->names_nbytes = at + candidate.nbytes;
            return LMC_OK;
        }
    }
}

/* The first of equal names stays as it is: a name that looks numbered is not taken from its owner. */
static lmc_status give_names(st_segments *segments, given_names *given, lmc_st_diag *diag)
{
    const st_kept_segment *const list = kept_list(segments);
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < segments->count; i++) {
        uint32_t *const slot = locate(segments, given, name_of(segments, &list[i]));
        if (*slot == 0)
            *slot = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < segments->count && status == LMC_OK; i++) {
        const size_t holder = *locate(segments, given, name_of(segments, &list[i])) - 1;
        if (holder != i)
            status = give_number(segments, given, i, holder, diag);
    }
    return status;
}

static lmc_status make_names_unlike(st_segments *segments, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = segments->reading->memory;
    given_names given = {.capacity = 2 * segments->count + 8, .seed = os_unforeseen_u64()};
    given.slots = st_allocate_zeroed(memory, given.capacity, sizeof *given.slots);
    given.next_number = st_allocate_zeroed(memory, segments->count + 1, sizeof *given.next_number);
    const lmc_status status =
        !given.slots || !given.next_number ? st_fail_nomem(diag) : give_names(segments, &given, diag);
    st_release(memory, given.slots);
    st_release(memory, given.next_number);
    return status;
}

/* ---- header ---- */

static void put_header(st_json_out *out, const st_segments *segments)
{
    const uint64_t *const dims = kept_dims(segments);
    uint64_t begin = 0;
    st_json_put_open(out, '{');
    for (size_t i = 0; i < segments->count; i++) {
        const st_kept_segment *const kept = &kept_list(segments)[i];
        const st_string name = name_of(segments, kept);
        st_json_put_string(out, name.bytes, name.nbytes);
        st_json_put_colon(out);
        st_header_put_dtype(out, (lmc_dtype)kept->dtype);
        for (unsigned j = 0; j < kept->rank; j++)
            st_json_put_u64(out, dims[kept->shape_at + j]);
        st_header_put_place(out, begin, begin + kept->nbytes);
        begin += kept->nbytes;
    }
    st_header_put_end(out);
}

static lmc_status write_header(const st_segments *segments, st_header_text *text, lmc_st_diag *diag)
{
    st_json_out out = {0};
    put_header(&out, segments);
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "too many tensors: a header that names its %zu tensors would have %llu bytes and may "
                       "have %d",
                       segments->count, (unsigned long long)out.nbytes, LMC_ST_HEADER_NBYTES_MAX);
    *text = (st_header_text){.nbytes = (size_t)out.nbytes, .offset = 8};
    text->text = st_allocate(segments->reading->memory, text->nbytes);
    if (!text->text)
        return st_fail_nomem(diag);
    out = (st_json_out){.dst = text->text, .capacity = text->nbytes};
    put_header(&out, segments);
    for (size_t i = 0; i < segments->count; i++)
        text->data_nbytes += kept_list(segments)[i].nbytes;
    return LMC_OK;
}

lmc_status st_segments_finish(st_segments *segments, lmc_st_container kind, st_contents *contents,
                              lmc_st_diag *diag)
{
    const st_reading *const reading = segments->reading;
    st_header_text text;
    sort_and_part(segments);
    ST_TRY(make_names_unlike(segments, diag));
    ST_TRY(write_header(segments, &text, diag));
    contents->kind = kind;
    ST_TRY(reading->parse(reading->user, &contents->header, &text, diag));
    contents->places = st_allocate_array(reading->memory, segments->count + 1, sizeof *contents->places);
    if (!contents->places)
        return st_fail_nomem(diag);
    uint64_t end = 0;
    for (size_t i = 0; i < segments->count; i++) {
        const st_kept_segment *const kept = &kept_list(segments)[i];
        contents->places[i] = kept->offset;
        end = kept->offset + kept->nbytes;
    }
    contents->places[segments->count] = end;
    return LMC_OK;
}
