/*
 * st_container.c - fuzz target: any bytes as a file of any kind, through st_contents_read().
 *
 * What is found stands in the file in rising order, and in the header without holes. What is refused leaves nothing.
 * With raw files allowed, nothing is refused. Memory stays within a multiple of the input, is given back, and may run
 * out at any time.
 */
#include "fuzz.h"
#include "st_input.h"
#include "st_walk.h"

#include "safetensors/container/segments.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What reading may take at once: buffers of a fixed size, and lists of what is described. */
#define MEMORY_NBYTES ((size_t)4 << 20)
#define MEMORY_FACTOR 64

/* Memory with a limit. Each block begins with its size. */
typedef struct limited_memory {
    lmc_allocator allocator;
    size_t used_nbytes, limit_nbytes;
    unsigned allowed_count; /* allocations that still succeed */
} limited_memory;

#define BLOCK_HEAD_NBYTES 16

static void *allocate(void *user, size_t nbytes)
{
    limited_memory *const memory = user;
    if (memory->allowed_count == 0)
        return NULL;
    memory->allowed_count--;
    FUZZ_CLAIM(nbytes <= memory->limit_nbytes - memory->used_nbytes);
    memory->used_nbytes += nbytes;
    unsigned char *const block = fuzz_malloc(nbytes + BLOCK_HEAD_NBYTES);
    memcpy(block, &nbytes, sizeof nbytes);
    return block + BLOCK_HEAD_NBYTES;
}

static void release(void *user, void *pointer)
{
    limited_memory *const memory = user;
    size_t nbytes = 0;
    if (pointer == NULL)
        return;
    unsigned char *const block = (unsigned char *)pointer - BLOCK_HEAD_NBYTES;
    memcpy(&nbytes, block, sizeof nbytes);
    memory->used_nbytes -= nbytes;
    free(block);
}

static lmc_status parse(const void *memory, st_header *header, const st_header_text *text, lmc_st_diag *diag)
{
    return st_header_parse(header, memory, text, diag);
}

static void claim_contents(const st_contents *contents, uint64_t file_nbytes)
{
    const st_header *const header = &contents->header;
    uint64_t begin = 0, place = 0;
    FUZZ_CLAIM(lmc_st_container_name(contents->kind) != NULL);
    for (size_t i = 0; i < header->tensor_count; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        FUZZ_CLAIM(tensor->begin == begin && tensor->end >= begin && lmc_dtype_name(tensor->dtype) != NULL);
        FUZZ_CLAIM(contents->places[i] >= place && contents->places[i] <= file_nbytes);
        FUZZ_CLAIM(tensor->end - begin <= file_nbytes - contents->places[i]);
        place = contents->places[i] + (tensor->end - begin);
        begin = tensor->end;
    }
    FUZZ_CLAIM(begin == header->data_nbytes);
    FUZZ_CLAIM(contents->places[header->tensor_count] >= place);
    FUZZ_CLAIM(contents->places[header->tensor_count] <= file_nbytes);
    if (contents->kind == LMC_ST_CONTAINER_RAW)
        for (size_t i = 0; i < header->tensor_count; i++)
            FUZZ_CLAIM(contents->places[i] == i * ST_PIECE_NBYTES);
    if (contents->kind == LMC_ST_CONTAINER_RAW)
        FUZZ_CLAIM(file_nbytes - header->data_nbytes < 8);
}

/* Reads the input; the tensors' number and places go into *digest. */
static lmc_status read_once(const st_input *input, int is_raw_allowed, unsigned allowed_count,
                            uint64_t *digest)
{
    static const st_contents nothing;
    st_contents contents;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    limited_memory memory = {.allocator = {allocate, release, NULL},
                             .limit_nbytes = MEMORY_NBYTES + MEMORY_FACTOR * (size_t)input->nbytes,
                             .allowed_count = allowed_count};
    memory.allocator.user = &memory;
    const st_reading reading = {.input = input,
                                .path = "input",
                                .memory = &memory.allocator,
                                .is_raw_allowed = is_raw_allowed,
                                .parse = parse,
                                .user = &memory.allocator};
    st_diag_init(&diag, "input");
    const lmc_status status = st_contents_read(&reading, &contents, &diag);
    fuzz_claim_diag(&diag, status);
    if (status == LMC_OK) {
        claim_contents(&contents, input->nbytes);
        const size_t count = contents.header.tensor_count;
        *digest = XXH3_64bits_withSeed(contents.places, (count + 1) * sizeof *contents.places, count);
    } else
        FUZZ_CLAIM(memcmp(&contents, &nothing, sizeof contents) == 0);
    st_contents_free(&contents, &memory.allocator);
    FUZZ_CLAIM(memory.used_nbytes == 0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    uint64_t digest = 0, other_digest = 0;
    st_input input;
    FUZZ_CLAIM(st_input_open(&input, fuzz_input_path(data, nbytes), NULL) == LMC_OK);
    const lmc_status status = read_once(&input, 0, (unsigned)-1, &digest);
    FUZZ_CLAIM(status == LMC_OK || status == LMC_ERR_HEADER || status == LMC_ERR_TRUNCATED ||
               status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_LIMIT);
    FUZZ_CLAIM(read_once(&input, 1, (unsigned)-1, &other_digest) == LMC_OK);
    FUZZ_CLAIM(status != LMC_OK || digest == other_digest);

    const unsigned allowed_count = (unsigned)(XXH3_64bits(data, nbytes) % 40);
    const lmc_status limited = read_once(&input, 0, allowed_count, &other_digest);
    FUZZ_CLAIM(limited == LMC_ERR_NOMEM || limited == status);
    FUZZ_CLAIM(limited != LMC_OK || digest == other_digest);
    st_input_close(&input);
    return 0;
}
