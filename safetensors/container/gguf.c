/*
 * gguf.c - the container GGUF (llama.cpp), versions 2 and 3, little-endian: metadata, which is skipped, descriptions of
 * tensors, and their data. The first dimension of ggml is that of neighbours: dimensions are turned round.
 */
#include "safetensors/container/segments.h"

#include <string.h>

#define ALIGNMENT_KEY "general.alignment"
#define ALIGNMENT_DEFAULT 32

#define RANK_MAX 8 /* ggml has 4 */

#define TENSOR_COUNT_MAX (LMC_ST_HEADER_NBYTES_MAX / ST_HEADER_ENTRY_NBYTES_MIN)

#define WINDOW_NBYTES ((size_t)64 << 10)
#define NAME_NBYTES_MAX ((uint64_t)32 << 10) /* ggml has 64 */

/* Metadata and descriptions of tensors must end within so many bytes from the start of the file: they are read within a
 * second. */
#define DESCRIPTION_NBYTES_MAX ((uint64_t)128 << 20)

/* Values of metadata. */
enum { VALUE_U32 = 4, VALUE_STRING = 8, VALUE_ARRAY = 9, VALUE_COUNT = 13 };
#define ARRAY_DEPTH_MAX 8

/* The types of ggml_type: elements of a block, its bytes, and the dtype if a block is one element. Blocks of several
 * are bytes: scales and packed codes have no common width, and a sample that sees one costs more than it gains.
 * After GGML_QUANT_SIZES of the Python package gguf 0.19; those with 0 are none any more. */
typedef struct ggml_type {
    uint16_t element_count, nbytes;
    lmc_dtype dtype;
} ggml_type;

static const ggml_type types[] = {
    [0] = {1, 4, LMC_DTYPE_F32},     /* F32 */
    [1] = {1, 2, LMC_DTYPE_F16},     /* F16 */
    [2] = {32, 18, LMC_DTYPE_U8},    /* Q4_0 */
    [3] = {32, 20, LMC_DTYPE_U8},    /* Q4_1 */
    [6] = {32, 22, LMC_DTYPE_U8},    /* Q5_0 */
    [7] = {32, 24, LMC_DTYPE_U8},    /* Q5_1 */
    [8] = {32, 34, LMC_DTYPE_U8},    /* Q8_0 */
    [9] = {32, 40, LMC_DTYPE_U8},    /* Q8_1 */
    [10] = {256, 84, LMC_DTYPE_U8},  /* Q2_K */
    [11] = {256, 110, LMC_DTYPE_U8}, /* Q3_K */
    [12] = {256, 144, LMC_DTYPE_U8}, /* Q4_K */
    [13] = {256, 176, LMC_DTYPE_U8}, /* Q5_K */
    [14] = {256, 210, LMC_DTYPE_U8}, /* Q6_K */
    [15] = {256, 292, LMC_DTYPE_U8}, /* Q8_K */
    [16] = {256, 66, LMC_DTYPE_U8},  /* IQ2_XXS */
    [17] = {256, 74, LMC_DTYPE_U8},  /* IQ2_XS */
    [18] = {256, 98, LMC_DTYPE_U8},  /* IQ3_XXS */
    [19] = {256, 50, LMC_DTYPE_U8},  /* IQ1_S */
    [20] = {32, 18, LMC_DTYPE_U8},   /* IQ4_NL */
    [21] = {256, 110, LMC_DTYPE_U8}, /* IQ3_S */
    [22] = {256, 82, LMC_DTYPE_U8},  /* IQ2_S */
    [23] = {256, 136, LMC_DTYPE_U8}, /* IQ4_XS */
    [24] = {1, 1, LMC_DTYPE_I8},     /* I8 */
    [25] = {1, 2, LMC_DTYPE_I16},    /* I16 */
    [26] = {1, 4, LMC_DTYPE_I32},    /* I32 */
    [27] = {1, 8, LMC_DTYPE_I64},    /* I64 */
    [28] = {1, 8, LMC_DTYPE_F64},    /* F64 */
    [29] = {256, 56, LMC_DTYPE_U8},  /* IQ1_M */
    [30] = {1, 2, LMC_DTYPE_BF16},   /* BF16 */
    [34] = {256, 54, LMC_DTYPE_U8},  /* TQ1_0 */
    [35] = {256, 66, LMC_DTYPE_U8},  /* TQ2_0 */
    [39] = {32, 17, LMC_DTYPE_U8},   /* MXFP4 */
    [40] = {64, 36, LMC_DTYPE_U8},   /* NVFP4 */
    [41] = {128, 18, LMC_DTYPE_U8},  /* Q1_0 */
};

/* ---- the text ---- */

/* The description at the start of a file, read from front to back through a window: lists of tokens are large, and of
 * no interest. */
typedef struct gguf_text {
    const st_reading *reading;
    uint64_t at; /* in the file, at most DESCRIPTION_NBYTES_MAX */
    unsigned char *bytes;
    uint64_t begin, end; /* of what the window has */
} gguf_text;

static lmc_status gguf_fail_cut_short(const gguf_text *text, lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_TRUNCATED, text->at,
                   "this GGUF file is cut short: it describes more than is there");
}

/* Moves on by nbytes of the description. Errors: TRUNCATED, the file has not so many; LIMIT. */
static lmc_status gguf_skip(gguf_text *text, uint64_t nbytes, lmc_st_diag *diag)
{
    if (nbytes > text->reading->input->nbytes - text->at)
        return gguf_fail_cut_short(text, diag);
    if (nbytes > DESCRIPTION_NBYTES_MAX - text->at)
        return st_fail(diag, LMC_ERR_LIMIT, text->at,
                       "the description in this GGUF file has more than %llu bytes",
                       (unsigned long long)DESCRIPTION_NBYTES_MAX);
    text->at += nbytes;
    return LMC_OK;
}

/* Makes the window hold the next nbytes, or all that the file has. */
static lmc_status gguf_hold(gguf_text *text, size_t nbytes, lmc_st_diag *diag)
{
    const st_input *const input = text->reading->input;
    const uint64_t left = input->nbytes - text->at;
    nbytes = nbytes < left ? nbytes : (size_t)left;
    if (text->at >= text->begin && text->at <= text->end && nbytes <= text->end - text->at)
        return LMC_OK;
    if (st_is_cancelled(text->reading->cancel))
        return st_fail_cancelled(diag);
    const size_t got = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
    text->begin = text->end = 0;
    LMC_TRY(st_input_read(input, text->at, text->bytes, got, diag));
    text->begin = text->at;
    text->end = text->at + got;
    return LMC_OK;
}

static lmc_status gguf_read(gguf_text *text, size_t nbytes, const unsigned char **bytes, lmc_st_diag *diag)
{
    LMC_TRY(gguf_hold(text, nbytes, diag));
    *bytes = text->bytes + (text->at - text->begin);
    return gguf_skip(text, nbytes, diag);
}

static lmc_status gguf_read_u32(gguf_text *text, uint32_t *number, lmc_st_diag *diag)
{
    const unsigned char *bytes = NULL;
    LMC_TRY(gguf_read(text, 4, &bytes, diag));
    *number = lmc_load32(bytes);
    return LMC_OK;
}

static lmc_status gguf_read_u64(gguf_text *text, uint64_t *number, lmc_st_diag *diag)
{
    const unsigned char *bytes = NULL;
    LMC_TRY(gguf_read(text, 8, &bytes, diag));
    *number = lmc_load64(bytes);
    return LMC_OK;
}

/* ---- the file ---- */

/* The description of a tensor. */
typedef struct gguf_tensor {
    const unsigned char *name; /* in the text, until the next tensor is read */
    size_t name_nbytes;
    size_t rank;
    uint64_t shape[RANK_MAX]; /* in C order */
    uint32_t type;
    uint64_t offset; /* from the start of the data */
} gguf_tensor;

/* What is being made of a file. */
typedef struct gguf {
    gguf_text text;
    uint64_t tensor_count, alignment, data_offset;
    st_buffer offsets; /* uint64_t: of the tensors, from the start of the data */
    st_segments segments;
} gguf;

static int is_like_gguf(const st_reading *reading, const unsigned char *head, size_t nbytes,
                        lmc_st_diag *diag)
{
    (void)diag;
    (void)reading;
    return nbytes >= 4 && memcmp(head, "GGUF", 4) == 0;
}

/* Skips `count` values of a type that stand one behind the other. */
static lmc_status skip_values(gguf_text *text, uint32_t type, uint64_t count, unsigned depth,
                              lmc_st_diag *diag)
{
    static const unsigned char nbytes[VALUE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t total = 0;
    if (type >= VALUE_COUNT || depth > ARRAY_DEPTH_MAX)
        return st_fail(diag, LMC_ERR_HEADER, text->at,
                       "the metadata of this GGUF file hold a value of type %u%s", (unsigned)type,
                       depth > ARRAY_DEPTH_MAX ? " in too many arrays" : "");
    if (lmc_multiply_overflows(count, nbytes[type], &total))
        return gguf_fail_cut_short(text, diag);
    if (total > 0)
        return gguf_skip(text, total, diag);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t element_type = 0;
        uint64_t length = 0;
        if (type == VALUE_ARRAY)
            LMC_TRY(gguf_read_u32(text, &element_type, diag));
        LMC_TRY(gguf_read_u64(text, &length, diag));
        LMC_TRY(type == VALUE_ARRAY ? skip_values(text, element_type, length, depth + 1, diag)
                                    : gguf_skip(text, length, diag));
    }
    return LMC_OK;
}

static lmc_status read_metadata(gguf *file, uint64_t value_count, lmc_st_diag *diag)
{
    for (uint64_t i = 0; i < value_count; i++) {
        uint64_t key_nbytes = 0;
        uint32_t type = 0;
        int is_alignment = 0;
        LMC_TRY(gguf_read_u64(&file->text, &key_nbytes, diag));
        if (key_nbytes == sizeof ALIGNMENT_KEY - 1) {
            const unsigned char *key = NULL;
            LMC_TRY(gguf_read(&file->text, (size_t)key_nbytes, &key, diag));
            is_alignment = memcmp(key, ALIGNMENT_KEY, (size_t)key_nbytes) == 0;
        } else
            LMC_TRY(gguf_skip(&file->text, key_nbytes, diag));
        LMC_TRY(gguf_read_u32(&file->text, &type, diag));
        if (!is_alignment) {
            LMC_TRY(skip_values(&file->text, type, 1, 0, diag));
            continue;
        }
        uint32_t alignment = 0;
        if (type == VALUE_U32)
            LMC_TRY(gguf_read_u32(&file->text, &alignment, diag));
        if (alignment == 0 || (alignment & (alignment - 1)) != 0)
            return st_fail(diag, LMC_ERR_HEADER, file->text.at,
                           "the alignment of this GGUF file is not a power of two");
        file->alignment = alignment;
    }
    return LMC_OK;
}

/* Reads the description of a tensor. The window holds it as a whole. */
static lmc_status read_tensor(gguf_text *text, gguf_tensor *tensor, lmc_st_diag *diag)
{
    uint64_t name_nbytes = 0;
    const uint64_t begin = text->at;
    LMC_TRY(gguf_read_u64(text, &name_nbytes, diag));
    if (name_nbytes > NAME_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, begin, "a tensor of this GGUF file has a name of %llu bytes",
                       (unsigned long long)name_nbytes);
    LMC_TRY(gguf_hold(text, name_nbytes + 4 + 8 * RANK_MAX + 4 + 8, diag));
    tensor->name_nbytes = (size_t)name_nbytes;
    LMC_TRY(gguf_read(text, tensor->name_nbytes, &tensor->name, diag));
    uint32_t rank = 0;
    LMC_TRY(gguf_read_u32(text, &rank, diag));
    if (rank > RANK_MAX)
        return st_fail(diag, LMC_ERR_HEADER, begin, "a tensor of this GGUF file has %u dimensions",
                       (unsigned)rank);
    tensor->rank = rank;
    for (size_t i = rank; i-- > 0;)
        LMC_TRY(gguf_read_u64(text, &tensor->shape[i], diag));
    LMC_TRY(gguf_read_u32(text, &tensor->type, diag));
    return gguf_read_u64(text, &tensor->offset, diag);
}

/* Adds tensor `index`, unless it begins before *end, where the one before it ends: writers keep the order. What no size
 * is known of goes on to the next one. */
static lmc_status add_tensor(gguf *file, uint64_t index, const gguf_tensor *tensor, uint64_t *end,
                             lmc_st_diag *diag)
{
    const st_reading *const reading = file->segments.reading;
    const uint64_t data_nbytes =
        reading->input->nbytes > file->data_offset ? reading->input->nbytes - file->data_offset : 0;
    st_segment segment = {
        .dtype = LMC_DTYPE_U8, .name = (const char *)tensor->name, .name_nbytes = tensor->name_nbytes};
    uint64_t next = data_nbytes;
    /* the size that type and dimensions give, if the type is known and they fit it */
    const ggml_type type =
        tensor->type < sizeof types / sizeof types[0] ? types[tensor->type] : (ggml_type){0};
    const uint64_t row = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    int is_known = type.element_count > 0 && row % type.element_count == 0;
    segment.nbytes = 1;
    for (size_t i = 0; i < tensor->rank && is_known; i++)
        is_known = !lmc_multiply_overflows(segment.nbytes, tensor->shape[i], &segment.nbytes);
    is_known = is_known &&
               !lmc_multiply_overflows(segment.nbytes / type.element_count, type.nbytes, &segment.nbytes);
    if (tensor->offset > data_nbytes || (is_known && segment.nbytes > data_nbytes - tensor->offset))
        return gguf_fail_cut_short(&file->text, diag);
    if (index + 1 < file->tensor_count)
        memcpy(&next, file->offsets.bytes + (index + 1) * sizeof next, sizeof next);
    if (tensor->offset < *end || (!is_known && (next < tensor->offset || next > data_nbytes)))
        return LMC_OK;
    segment.offset = file->data_offset + tensor->offset;
    if (!is_known)
        segment.nbytes = next - tensor->offset;
    else if (type.element_count == 1) {
        segment.dtype = type.dtype;
        segment.shape = tensor->shape;
        segment.rank = tensor->rank;
    }
    *end = tensor->offset + segment.nbytes;
    return st_segments_add(&file->segments, &segment, diag);
}

static lmc_status find_tensors(gguf *file, lmc_st_diag *diag)
{
    uint64_t value_count = 0, end = 0;
    gguf_tensor tensor;
    uint32_t version = 0;
    LMC_TRY(gguf_skip(&file->text, 4, diag));
    LMC_TRY(gguf_read_u32(&file->text, &version, diag));
    if ((version & 0xffff) == 0)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, 4, "a big-endian GGUF file");
    if (version != 2 && version != 3)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, 4, "a GGUF file of version %u, only 2 and 3 are known",
                       (unsigned)version);
    LMC_TRY(gguf_read_u64(&file->text, &file->tensor_count, diag));
    if (file->tensor_count > TENSOR_COUNT_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, 8, "a GGUF file of %llu tensors, more than %llu",
                       (unsigned long long)file->tensor_count, (unsigned long long)TENSOR_COUNT_MAX);
    LMC_TRY(gguf_read_u64(&file->text, &value_count, diag));
    LMC_TRY(read_metadata(file, value_count, diag));
    /* the first pass over the descriptions: where each tensor begins, and where the data do */
    const uint64_t tensors_at = file->text.at;
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        LMC_TRY(read_tensor(&file->text, &tensor, diag));
        unsigned char *const room = st_buffer_extend(file->segments.reading->memory, &file->offsets,
                                                     (size_t)i * sizeof tensor.offset, sizeof tensor.offset);
        if (!room)
            return st_fail_nomem(diag);
        memcpy(room, &tensor.offset, sizeof tensor.offset);
    }
    const uint64_t beyond = file->text.at % file->alignment;
    file->data_offset = file->text.at + (beyond > 0 ? file->alignment - beyond : 0);
    file->text.at = tensors_at;
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        LMC_TRY(read_tensor(&file->text, &tensor, diag));
        LMC_TRY(add_tensor(file, i, &tensor, &end, diag));
    }
    return LMC_OK;
}

static lmc_status read_gguf(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    gguf file = {.alignment = ALIGNMENT_DEFAULT,
                 .text = {.reading = reading, .bytes = st_allocate(reading->memory, WINDOW_NBYTES)}};
    st_segments_init(&file.segments, reading);
    lmc_status status = file.text.bytes ? find_tensors(&file, diag) : st_fail_nomem(diag);
    st_release(reading->memory, file.text.bytes);
    st_buffer_free(reading->memory, &file.offsets);
    if (status == LMC_OK)
        status = st_segments_finish(&file.segments, LMC_ST_CONTAINER_GGUF, contents, diag);
    st_segments_free(&file.segments);
    return status;
}

const st_container_reader st_gguf_reader = {LMC_ST_CONTAINER_GGUF, is_like_gguf, read_gguf};
