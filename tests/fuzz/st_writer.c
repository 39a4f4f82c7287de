/*
 * st_writer.c - fuzz target: tensors and metadata, as the input tells, through lmc_st_writer.
 *
 * What it accepts comes back from the safetensors file that it writes, in the promised order, and the archive
 * that it writes restores to that file. Bytes of the input say: level, number of threads and allocations,
 * then per item its kind, its strings, and of a tensor dtype, rank and dimensions.
 */
#include "fuzz.h"
#include "lmc_test_settings.h"
#include "st_input.h"
#include "st_memory.h"
#include "st_walk.h"

#define ITEMS_MAX 64

/* Inputs that begin with a smaller number are also written with so many allocations. */
#define ALLOCATIONS_MAX 128

#define TENSOR_NBYTES_MAX 8192

/* What bytes the contents have: tensor i begins at byte i % 4, so that there are equal ones. */
static uint8_t content[TENSOR_NBYTES_MAX + 4];

typedef struct reader {
    const uint8_t *bytes;
    size_t nbytes;
} reader;

typedef struct text {
    char bytes[256];
    size_t nbytes;
} text;

typedef struct item {
    text name;
    lmc_dtype dtype;
    uint64_t nbytes;
    const uint8_t *data;
} item;

typedef struct model {
    lmc_st_writer *writer;
    item tensors[ITEMS_MAX];
    size_t tensor_count;
    size_t metadata_count;
    int has_repetition; /* two tensors of one name, or a name that no tensor can have */
} model;

static uint8_t take_byte(reader *input)
{
    if (input->nbytes == 0)
        return 0;
    input->nbytes--;
    return *input->bytes++;
}

static void take_text(reader *input, text *taken)
{
    const size_t wanted = take_byte(input);
    taken->nbytes = wanted < input->nbytes ? wanted : input->nbytes;
    memcpy(taken->bytes, input->bytes, taken->nbytes);
    input->bytes += taken->nbytes;
    input->nbytes -= taken->nbytes;
}

/* A small number, or one of all 64 bits. */
static uint64_t take_dimension(reader *input)
{
    uint64_t value = take_byte(input);
    if (value < 0xf0)
        return value;
    value = 0;
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | take_byte(input);
    return value;
}

/* By the ranges of RFC 3629, which leave out what is overlong, too high or a surrogate. */
static int is_utf8(const text *text)
{
    static const struct {
        uint8_t first_low, first_high, second_low, second_high;
        unsigned nbytes;
    } forms[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                 {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    const uint8_t *const bytes = (const uint8_t *)text->bytes;
    size_t at = 0;
    while (at < text->nbytes) {
        size_t form = 0;
        while (form < 9 && (bytes[at] < forms[form].first_low || bytes[at] > forms[form].first_high))
            form++;
        if (form == 9 || forms[form].nbytes > text->nbytes - at)
            return 0;
        for (size_t i = 1; i < forms[form].nbytes; i++) {
            const uint8_t low = i == 1 ? forms[form].second_low : 0x80;
            const uint8_t high = i == 1 ? forms[form].second_high : 0xbf;
            if (bytes[at + i] < low || bytes[at + i] > high)
                return 0;
        }
        at += forms[form].nbytes;
    }
    return 1;
}

/* ---- collecting ------------------------------------------------------------------------------------ */

static void note_repetition(model *model, const text *name)
{
    static const char reserved[] = "__metadata__";
    model->has_repetition |=
        name->nbytes == sizeof(reserved) - 1 && memcmp(name->bytes, reserved, name->nbytes) == 0;
    for (size_t i = 0; i < model->tensor_count; i++) {
        const text *const other = &model->tensors[i].name;
        model->has_repetition |=
            name->nbytes == other->nbytes && memcmp(name->bytes, other->bytes, name->nbytes) == 0;
    }
}

static lmc_status supply(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

/* Dtype and shape as a size; returns 0 if they do not give one. */
static int size_of(lmc_dtype dtype, const uint64_t *shape, size_t rank, uint64_t *nbytes)
{
    uint64_t nbits = 1;
    for (size_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(nbits, shape[i], &nbits))
            return 0;
    const int is_sized = lmc_dtype_nbits(dtype) != 0 &&
                         !__builtin_mul_overflow(nbits, (uint64_t)lmc_dtype_nbits(dtype), &nbits) &&
                         nbits % 8 == 0;
    *nbytes = nbits / 8;
    return is_sized;
}

static void add_tensor(model *model, reader *input, int is_supplied)
{
    uint64_t shape[8];
    item *const tensor = &model->tensors[model->tensor_count];
    take_text(input, &tensor->name);
    tensor->dtype = (lmc_dtype)(take_byte(input) % (LMC_DTYPE_COUNT + 1));
    tensor->data = content + model->tensor_count % 4;
    const size_t rank = take_byte(input) % 8;
    for (size_t i = 0; i < rank; i++)
        shape[i] = take_dimension(input);
    const int is_good = size_of(tensor->dtype, shape, rank, &tensor->nbytes) && is_utf8(&tensor->name);
    if (is_good && tensor->nbytes > TENSOR_NBYTES_MAX)
        return;
    const lmc_status status =
        is_supplied
            ? lmc_st_writer_add_from(model->writer, tensor->name.bytes, tensor->name.nbytes, tensor->dtype,
                                     shape, rank, supply, (void *)(uintptr_t)tensor->data)
            : lmc_st_writer_add(model->writer, tensor->name.bytes, tensor->name.nbytes, tensor->dtype, shape,
                                rank, tensor->data);
    FUZZ_CLAIM(status == LMC_ERR_NOMEM || status == (is_good ? LMC_OK : LMC_ERR_ARG));
    if (status == LMC_OK) {
        note_repetition(model, &tensor->name);
        model->tensor_count++;
    }
}

static void add_metadata(model *model, reader *input)
{
    text key, value;
    take_text(input, &key);
    take_text(input, &value);
    const lmc_status status =
        lmc_st_writer_set_metadata(model->writer, key.bytes, key.nbytes, value.bytes, value.nbytes);
    const int is_good = is_utf8(&key) && is_utf8(&value);
    FUZZ_CLAIM(status == LMC_ERR_NOMEM || status == (is_good ? LMC_OK : LMC_ERR_ARG));
    model->metadata_count += status == LMC_OK;
}

static void collect(model *model, reader *input)
{
    for (size_t i = 0; i < ITEMS_MAX && input->nbytes > 0; i++) {
        const uint8_t kind = take_byte(input);
        if (kind % 4 == 3)
            add_metadata(model, input);
        else
            add_tensor(model, input, kind % 4 == 2);
    }
}

/* ---- what was written ------------------------------------------------------------------------------ */

static void claim_tensor(const lmc_st_file *file, const item *expected)
{
    uint64_t index;
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    FUZZ_CLAIM(lmc_st_find_tensor_sized(file, expected->name.bytes, expected->name.nbytes, &index) == 1);
    FUZZ_CLAIM(lmc_st_tensor_info(file, index, &tensor) == LMC_OK);
    FUZZ_CLAIM(tensor.dtype == expected->dtype && tensor.nbytes == expected->nbytes);
    uint8_t *const bytes = fuzz_malloc((size_t)tensor.nbytes);
    FUZZ_CLAIM(lmc_st_read(file, NULL, index, bytes, (size_t)tensor.nbytes, NULL) == LMC_OK);
    FUZZ_CLAIM(memcmp(bytes, expected->data, (size_t)tensor.nbytes) == 0);
    free(bytes);
}

/* Tensors stand by falling size of their elements; those of one dtype by name. */
static void claim_order(const lmc_st_file *file)
{
    lmc_st_tensor before = LMC_INIT(lmc_st_tensor), tensor = LMC_INIT(lmc_st_tensor);
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++, before = tensor) {
        FUZZ_CLAIM(lmc_st_tensor_info(file, i, &tensor) == LMC_OK);
        if (i > 0 && before.dtype == tensor.dtype) {
            FUZZ_CLAIM(strcmp(before.name, tensor.name) <= 0 || before.nbytes == 0 || tensor.nbytes == 0);
        } else if (i > 0) {
            FUZZ_CLAIM((lmc_dtype_nbits(before.dtype) + 7) / 8 >= (lmc_dtype_nbits(tensor.dtype) + 7) / 8 ||
                       before.nbytes == 0 || tensor.nbytes == 0);
        }
    }
}

/* Returns 0 if the file claims to be an archive: then nothing more can be said of it. */
static int claim_plain_file(const model *model, const char *path, fuzz_walk *walk)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *file = NULL;
    size_t header_nbytes;
    const lmc_status status = lmc_st_open(path, NULL, &file, &diag);
    if (status != LMC_OK || lmc_st_is_archive(file)) {
        FUZZ_CLAIM(status == LMC_OK || strstr(diag.text, "archive") != NULL);
        lmc_st_close(file);
        return 0;
    }
    FUZZ_CLAIM(lmc_st_tensor_count(file) == model->tensor_count);
    FUZZ_CLAIM(lmc_st_metadata_count(file) == model->metadata_count);
    lmc_st_header(file, &header_nbytes);
    FUZZ_CLAIM(header_nbytes % 8 == 0);
    for (size_t i = 0; i < model->tensor_count; i++)
        claim_tensor(file, &model->tensors[i]);
    claim_order(file);
    fuzz_walk_file(file, UINT64_MAX, walk);
    FUZZ_CLAIM(walk->status == LMC_OK);
    lmc_st_close(file);
    return 1;
}

/* Archive and file must say the same, whichever is written first. */
static void write_both(const model *model, const fuzz_directory *directory, const lmc_test_settings *options)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    fuzz_walk walk;
    const lmc_status status =
        lmc_test_writer_write_plain_as(model->writer, directory->file, options, NULL, &diag);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM(fuzz_file_exists(directory->file) == (status == LMC_OK));
    FUZZ_CLAIM(status == LMC_OK ? !model->has_repetition : status == LMC_ERR_ARG);
    FUZZ_CLAIM(status == LMC_OK || model->has_repetition || model->metadata_count > 1);
    if (status != LMC_OK) {
        FUZZ_CLAIM(lmc_test_writer_write_as(model->writer, directory->file, options, NULL, NULL) == status);
        return;
    }
    if (claim_plain_file(model, directory->file, &walk)) {
        FUZZ_CLAIM(lmc_test_writer_write_as(model->writer, directory->other_file, options, NULL, &diag) ==
                   LMC_OK);
        fuzz_claim_diag(&diag, LMC_OK);
        FUZZ_CLAIM(lmc_test_compare_as(directory->other_file, directory->file, options, NULL) == LMC_OK);
        FUZZ_CLAIM(lmc_test_restore_as(directory->other_file, directory->file, options, NULL, NULL) ==
                   LMC_ERR_ARG);
        free(walk.bytes);
    }
}

/* A writer that runs out of memory says so and leaves nothing. */
static void lack_memory(reader input, unsigned allowed_count)
{
    fuzz_memory memory;
    fuzz_directory directory;
    model model;
    memset(&model, 0, sizeof(model));
    lmc_test_settings options = {0};
    options.level = LMC_LEVEL_FAST;
    options.no_fsync = 1;
    fuzz_memory_init(&memory, allowed_count);
    fuzz_directory_make(&directory);
    if (lmc_st_writer_create(&memory.allocator, &model.writer) == LMC_OK) {
        collect(&model, &input);
        const lmc_status status =
            lmc_test_writer_write_as(model.writer, directory.file, &options, NULL, NULL);
        FUZZ_CLAIM(status == LMC_OK || status == LMC_ERR_ARG ||
                   (status == LMC_ERR_NOMEM && memory.has_failed));
        FUZZ_CLAIM(fuzz_file_exists(directory.file) == (status == LMC_OK));
        lmc_st_writer_free(model.writer);
    }
    fuzz_directory_remove(&directory);
    fuzz_memory_claim_free(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    reader input = {data, nbytes};
    fuzz_directory directory;
    lmc_test_settings options = {0};
    model model;
    memset(&model, 0, sizeof(model));
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = nbytes == 0 ? 0 : data[i / 4 % nbytes];
    const uint8_t settings = take_byte(&input);
    options.common.thread_count = 1 + settings % 3;
    options.level = settings % 16 == 15   ? LMC_LEVEL_MAX
                    : settings % 16 == 14 ? LMC_LEVEL_DEFAULT
                                          : LMC_LEVEL_FAST;
    options.no_fsync = 1;
    if (settings < ALLOCATIONS_MAX)
        lack_memory(input, settings);
    FUZZ_CLAIM(lmc_st_writer_create(NULL, &model.writer) == LMC_OK);
    collect(&model, &input);
    fuzz_directory_make(&directory);
    write_both(&model, &directory, &options);
    fuzz_directory_remove(&directory);
    lmc_st_writer_free(model.writer);
    return 0;
}
