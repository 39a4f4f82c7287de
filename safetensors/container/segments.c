/*
 * segments.c - a list of tensors becomes the contents of a file: sorted, named, and described by a header.
 */
#include "safetensors/container/segments.h"

#include "common/guess_sample.h"
#include "common/text.h"
#include "lmc_experimental.h"
#include "os/os.h"
#include "safetensors/header/header.h"

#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

/* A longer list could not be written. */
#define SEGMENT_COUNT_MAX (LMC_ST_HEADER_NBYTES_MAX / ST_HEADER_ENTRY_NBYTES_MIN)
#define VIEW_COUNT_MAX ((size_t)LMC_ST_HEADER_NBYTES_MAX / ST_HEADER_ENTRY_NBYTES_MIN)

void st_segments_init(st_segments *segments, const st_reading *reading)
{
    *segments = (st_segments){.reading = reading, .prefix = ""};
}

void st_segments_free(st_segments *segments)
{
    const lmc_allocator *const memory = segments->reading->memory;
    st_buffer_free(memory, &segments->list);
    st_buffer_free(memory, &segments->views);
    st_buffer_free(memory, &segments->names);
    st_buffer_free(memory, &segments->dims);
}

static st_kept_segment *kept_list(const st_segments *segments)
{
    return (st_kept_segment *)(void *)segments->list.bytes;
}

static st_kept_view *kept_views(const st_segments *segments)
{
    return (st_kept_view *)(void *)segments->views.bytes;
}

static const uint64_t *kept_dims(const st_segments *segments)
{
    return (const uint64_t *)(const void *)segments->dims.bytes;
}

/* ---- adding ---- */

/* The text as UTF-8 behind the prefix, with \xHH for each byte that is none. */
static lmc_status add_text(st_segments *segments, const char *prefix, const char *text, size_t nbytes,
                           st_kept_name *kept, lmc_st_diag *diag)
{
    static const char digits[] = "0123456789abcdef";
    static const char reserved[] = "__metadata__";
    const unsigned char *const src = (const unsigned char *)text;
    const size_t prefix_nbytes = strlen(prefix);
    size_t at = 0, length = prefix_nbytes;
    unsigned char *const dst = st_buffer_extend(segments->reading->memory, &segments->names,
                                                segments->names_nbytes, prefix_nbytes + 4 * nbytes + 4);
    if (!dst)
        return st_fail_nomem(diag);
    memcpy(dst, prefix, prefix_nbytes);
    /* the first byte of this name is written so, too */
    const int is_reserved =
        prefix_nbytes == 0 && nbytes == sizeof reserved - 1 && memcmp(text, reserved, nbytes) == 0;
    while (at < nbytes) {
        uint32_t code_point = 0;
        const size_t taken = is_reserved && at == 0 ? 0 : lmc_utf8_next(src + at, nbytes - at, &code_point);
        if (taken == 0) {
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
    *kept = (st_kept_name){segments->names_nbytes, (uint32_t)length};
    segments->names_nbytes += length;
    return LMC_OK;
}

static lmc_status add_dims(st_segments *segments, const uint64_t *dims, size_t count, lmc_st_diag *diag)
{
    unsigned char *const dst =
        st_buffer_extend(segments->reading->memory, &segments->dims, segments->dim_count * sizeof *dims,
                         (count + 1) * sizeof *dims);
    if (!dst)
        return st_fail_nomem(diag);
    if (count > 0)
        memcpy(dst, dims, count * sizeof *dims);
    segments->dim_count += count;
    return LMC_OK;
}

static lmc_status add_shape(st_segments *segments, const st_segment *segment, st_kept_segment *kept,
                            lmc_st_diag *diag)
{
    const unsigned value_nbits = lmc_dtype_nbits(segment->dtype);
    uint64_t nbits = 1;
    /* dtype and dimensions, multiplied from the left as a header's are, must give the segment's size */
    int overflows = segment->rank > LMC_ST_RANK_MAX;
    for (size_t i = 0; segment->shape && i < segment->rank && !overflows; i++)
        overflows = lmc_multiply_overflows(nbits, segment->shape[i], &nbits);
    const int is_told = segment->shape && !overflows && !lmc_multiply_overflows(nbits, value_nbits, &nbits) &&
                        nbits % 8 == 0 && nbits / 8 == segment->nbytes;
    const int is_whole = value_nbits >= 8 && segment->nbytes % (value_nbits / 8) == 0;
    const uint64_t element_count = is_whole ? segment->nbytes / (value_nbits / 8) : segment->nbytes;
    const uint64_t *const shape = is_told ? segment->shape : &element_count;
    kept->rank = (uint16_t)(is_told ? segment->rank : 1);
    kept->dtype = (uint16_t)(is_told || is_whole ? segment->dtype : LMC_DTYPE_U8);
    kept->shape_at = segments->dim_count;
    return add_dims(segments, shape, kept->rank, diag);
}

static lmc_status add_view(st_segments *segments, const st_segment *segment, const st_segment_view *source,
                           int is_first, lmc_st_diag *diag)
{
    uint64_t dims[2 * ST_VIEW_RANK_MAX];
    st_kept_view kept = {.shape_at = segments->dim_count};
    st_view view = {.shape = dims,
                    .offset = source->offset,
                    .rank = (uint16_t)source->rank,
                    .dtype = (uint8_t)source->dtype,
                    .is_big_endian = (uint8_t)(source->is_big_endian != 0)};
    const char *note = source->note;
    memcpy(dims, source->shape, source->rank * sizeof *dims);
    if (source->strides)
        memcpy(dims + source->rank, source->strides, source->rank * sizeof *dims);
    else
        st_view_set_strides(dims, source->rank, dims + source->rank);
    if (st_view_fault(&view, segment->nbytes)) {
        note = "its shape does not fit its storage";
        dims[0] = segment->nbytes;
        dims[1] = 1;
        view = (st_view){.shape = dims, .rank = 1, .dtype = LMC_DTYPE_U8};
    }
    kept.offset = view.offset;
    kept.rank = view.rank;
    kept.dtype = view.dtype;
    kept.is_big_endian = view.is_big_endian && st_view_swapped_nbytes(&view) > 1;
    kept.has_note = note != NULL;
    if (!is_first)
        LMC_TRY(add_text(segments, segments->prefix, source->name, source->name_nbytes, &kept.name, diag));
    segments->view_names_nbytes += kept.name.nbytes;
    if (note)
        LMC_TRY(add_text(segments, "", note, strlen(note), &kept.note, diag));
    segments->view_names_nbytes += kept.note.nbytes;
    LMC_TRY(add_dims(segments, dims, 2 * (size_t)view.rank, diag));
    unsigned char *const dst = st_buffer_extend(segments->reading->memory, &segments->views,
                                                segments->view_count * sizeof kept, sizeof kept);
    if (!dst)
        return st_fail_nomem(diag);
    memcpy(dst, &kept, sizeof kept);
    segments->view_count++;
    return LMC_OK;
}

lmc_status st_segments_add(st_segments *segments, const st_segment *segment, lmc_st_diag *diag)
{
    const uint64_t file_nbytes = segments->reading->input->nbytes;
    st_kept_segment kept = {.offset = segment->offset,
                            .nbytes = segment->nbytes,
                            .order = (uint32_t)segments->count,
                            .first_view = (uint32_t)segments->view_count};
    if (segment->offset > file_nbytes || segment->nbytes > file_nbytes - segment->offset ||
        segment->name_nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return LMC_OK;
    if (segments->count == SEGMENT_COUNT_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "it has more than %d tensors",
                       SEGMENT_COUNT_MAX);
    /* names that could not be written */
    if (segments->names_nbytes - segments->view_names_nbytes + strlen(segments->prefix) +
            segment->name_nbytes >
        LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the names of its tensors have more than %d bytes", LMC_ST_HEADER_NBYTES_MAX);
    LMC_TRY(add_text(segments, segments->prefix, segment->name, segment->name_nbytes, &kept.name, diag));
    LMC_TRY(add_shape(segments, segment, &kept, diag));
    /* more views, or longer names of them, than a header could hold */
    if (segment->view_count > VIEW_COUNT_MAX - segments->view_count ||
        segments->view_names_nbytes > LMC_ST_HEADER_NBYTES_MAX)
        segments->has_too_many_views = 1;
    for (; kept.view_count < segment->view_count && !segments->has_too_many_views; kept.view_count++)
        LMC_TRY(add_view(segments, segment, &segment->views[kept.view_count], kept.view_count == 0, diag));
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
    unsigned char sample[LMC_GUESS_NBYTES];
    const size_t sample_nbytes = nbytes < sizeof sample ? (size_t)nbytes : sizeof sample;
    if (nbytes <= sizeof sample) {
        LMC_TRY(st_input_read(reading->input, offset, sample, sample_nbytes, diag));
    } else {
        for (unsigned i = 0; i < LMC_GUESS_RUN_COUNT; i++)
            LMC_TRY(st_input_read(reading->input, offset + lmc_guess_run_offset(nbytes, i),
                                  sample + i * LMC_GUESS_RUN_NBYTES, LMC_GUESS_RUN_NBYTES, diag));
    }
    *dtype = lmc_dtype_guess(sample, sample_nbytes, 0);
    return LMC_OK;
}

lmc_status st_segments_add_pieces(st_segments *segments, const char *name, size_t name_nbytes,
                                  uint64_t offset, uint64_t nbytes, lmc_st_diag *diag)
{
    char numbered[32];
    nbytes = nbytes / ST_PIECE_UNIT_NBYTES * ST_PIECE_UNIT_NBYTES;
    for (uint64_t at = 0; at < nbytes; at += ST_PIECE_NBYTES) {
        st_segment segment = {.offset = offset + at,
                              .nbytes = nbytes - at < ST_PIECE_NBYTES ? nbytes - at : ST_PIECE_NBYTES,
                              .name = name,
                              .name_nbytes = name_nbytes};
        if (!name) {
            segment.name = numbered;
            segment.name_nbytes = (size_t)snprintf(numbered, sizeof numbered, "piece/%llu",
                                                   (unsigned long long)(at / ST_PIECE_NBYTES));
        }
        if (st_is_cancelled(segments->reading->cancel))
            return st_fail_cancelled(diag);
        LMC_TRY(st_segments_guess(segments->reading, segment.offset, segment.nbytes, &segment.dtype, diag));
        LMC_TRY(st_segments_add(segments, &segment, diag));
    }
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

/* ---- names ---- */

/* A hash table of the names given so far: their numbers plus one, at most half full. */
typedef struct given_names {
    st_kept_name **names; /* of all segments, then of the views that have one */
    size_t count;
    uint32_t *slots;
    uint32_t *next_number; /* per name: what the next tensor of the same gets behind '#' */
    size_t capacity;
    uint64_t seed;
} given_names;

static st_string name_of(const st_segments *segments, const st_kept_name *kept)
{
    return (st_string){(const char *)segments->names.bytes + kept->at, kept->nbytes};
}

static uint32_t *locate(const st_segments *segments, const given_names *given, st_string name)
{
    size_t i = (size_t)(st_string_hash(name, given->seed) % given->capacity);
    for (;; i = i + 1 == given->capacity ? 0 : i + 1) {
        const uint32_t slot = given->slots[i];
        if (slot == 0 || st_string_equals(name_of(segments, given->names[slot - 1]), name))
            return &given->slots[i];
    }
}

/* Gives number `index`, whose name `holder` has, the name NAME#N with the smallest N from 2 on that is free. */
static lmc_status give_number(st_segments *segments, given_names *given, size_t index, size_t holder,
                              lmc_st_diag *diag)
{
    st_kept_name *const kept = given->names[index];
    const size_t base_nbytes = kept->nbytes;
    const size_t base_at = (size_t)kept->at;
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
            *kept = (st_kept_name){at, (uint32_t)candidate.nbytes};
            segments->names_nbytes = at + candidate.nbytes;
            return LMC_OK;
        }
    }
}

/* The first of equal names stays as it is: a name that looks numbered is not taken from its owner. */
static lmc_status make_names_unlike(st_segments *segments, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = segments->reading->memory;
    const size_t most = segments->count + segments->view_count;
    given_names given = {.capacity = 2 * most + 8, .seed = os_unforeseen_u64()};
    given.names = st_allocate_array(memory, most + 1, sizeof *given.names);
    given.slots = st_allocate_zeroed(memory, given.capacity, sizeof *given.slots);
    given.next_number = st_allocate_zeroed(memory, most + 1, sizeof *given.next_number);
    const int has_room = given.names && given.slots && given.next_number;
    lmc_status status = has_room ? LMC_OK : st_fail_nomem(diag);
    if (has_room) {
        st_kept_segment *const list = kept_list(segments);
        for (size_t i = 0; i < segments->count; i++)
            given.names[given.count++] = &list[i].name;
        for (size_t i = 0; i < segments->count; i++)
            for (size_t j = 1; j < list[i].view_count; j++)
                given.names[given.count++] = &kept_views(segments)[list[i].first_view + j].name;
    }
    for (size_t i = 0; i < given.count; i++) {
        uint32_t *const slot = locate(segments, &given, name_of(segments, given.names[i]));
        if (*slot == 0)
            *slot = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < given.count && status == LMC_OK; i++) {
        const size_t holder = *locate(segments, &given, name_of(segments, given.names[i])) - 1;
        if (holder != i)
            status = give_number(segments, &given, i, holder, diag);
    }
    st_release(memory, given.names);
    st_release(memory, given.slots);
    st_release(memory, given.next_number);
    return status;
}

/* ---- header ---- */

static void put_numbers(st_json_out *out, const char *key, const uint64_t *numbers, size_t count)
{
    st_json_put_key(out, key);
    st_json_put_open(out, '[');
    for (size_t i = 0; i < count; i++)
        st_json_put_u64(out, numbers[i]);
    st_json_put_close(out, ']');
}

static void put_view(st_json_out *out, const st_segments *segments, const st_kept_view *kept, int is_first)
{
    static const char *const texts[] = {"name", "note"};
    const uint64_t *const dims = kept_dims(segments) + kept->shape_at;
    const char *const dtype = lmc_dtype_name((lmc_dtype)kept->dtype);
    st_json_put_open(out, '{');
    for (unsigned i = 0; i < 2; i++) {
        const st_string text = name_of(segments, i == 0 ? &kept->name : &kept->note);
        if (i == 0 ? is_first : !kept->has_note)
            continue;
        st_json_put_key(out, texts[i]);
        st_json_put_string(out, text.bytes, text.nbytes);
    }
    st_json_put_key(out, "dtype");
    st_json_put_string(out, dtype, strlen(dtype));
    put_numbers(out, "shape", dims, kept->rank);
    put_numbers(out, "strides", dims + kept->rank, kept->rank);
    if (kept->offset > 0) {
        st_json_put_key(out, "offset");
        st_json_put_u64(out, kept->offset);
    }
    if (kept->is_big_endian) {
        st_json_put_key(out, "byte_order");
        st_json_put_string(out, "big", 3);
    }
    st_json_put_close(out, '}');
}

static void put_header(st_json_out *out, const st_segments *segments)
{
    const uint64_t *const dims = kept_dims(segments);
    uint64_t begin = 0;
    st_json_put_open(out, '{');
    for (size_t i = 0; i < segments->count; i++) {
        const st_kept_segment *const kept = &kept_list(segments)[i];
        const st_string name = name_of(segments, &kept->name);
        st_json_put_string(out, name.bytes, name.nbytes);
        st_json_put_colon(out);
        st_header_put_dtype(out, (lmc_dtype)kept->dtype);
        for (unsigned j = 0; j < kept->rank; j++)
            st_json_put_u64(out, dims[kept->shape_at + j]);
        st_header_put_place(out, begin, begin + kept->nbytes);
        begin += kept->nbytes;
        if (kept->view_count > 0 && !segments->has_too_many_views) {
            st_json_put_key(out, "views");
            st_json_put_open(out, '[');
            for (size_t j = 0; j < kept->view_count; j++)
                put_view(out, segments, &kept_views(segments)[kept->first_view + j], j == 0);
            st_json_put_close(out, ']');
        }
        st_json_put_close(out, '}');
    }
    st_header_put_end(out);
}

static lmc_status write_header(st_segments *segments, st_header_text *text, lmc_st_diag *diag)
{
    st_json_out out = {0};
    put_header(&out, segments);
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX && segments->view_count > 0) {
        segments->has_too_many_views = 1;
        out = (st_json_out){0};
        put_header(&out, segments);
    }
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "too many tensors: a header that names its %zu tensors would have %llu bytes and may "
                       "have %d",
                       segments->count, (unsigned long long)out.nbytes, LMC_ST_HEADER_NBYTES_MAX);
    *text = (st_header_text){.nbytes = (size_t)out.nbytes, .offset = 8, .has_views = 1};
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
    st_kept_segment *const list = kept_list(segments);
    st_header_text text;
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
    LMC_TRY(make_names_unlike(segments, diag));
    LMC_TRY(write_header(segments, &text, diag));
    contents->kind = kind;
    LMC_TRY(reading->parse(reading->user, &contents->header, &text, diag));
    contents->places = st_allocate_array(reading->memory, segments->count + 1, sizeof *contents->places);
    if (!contents->places)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < count; i++)
        contents->places[i] = list[i].offset;
    contents->places[count] = end;
    return LMC_OK;
}

/* ---- files of no known kind ---- */

static lmc_status read_raw(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_segments segments;
    st_segments_init(&segments, reading);
    lmc_status status = st_segments_add_pieces(&segments, NULL, 0, 0, reading->input->nbytes, diag);
    if (status == LMC_OK)
        status = st_segments_finish(&segments, LMC_ST_CONTAINER_RAW, contents, diag);
    st_segments_free(&segments);
    return status;
}

const st_container_reader st_raw_reader = {LMC_ST_CONTAINER_RAW, NULL, read_raw};
