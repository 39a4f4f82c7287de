/*
 * test_st_alias.c - finding equal tensors: which are found, which look alike and are not, and that a source made to
 * cost time does not.
 */
#include "lmc_test_st.h"

#include "safetensors/common/options.h"
#include "safetensors/convert/alias.h"

static unsigned char data[1 << 20];

/* A source of tensors in memory, all of one dtype, whose content begins at `places` in data. */
typedef struct memory_source {
    st_header header;
    st_tensor *tensors;
    size_t *places;
    uint64_t read_nbytes;
    size_t fails_at; /* tensor whose reading fails; SIZE_MAX: none */
} memory_source;

static lmc_status read_memory(const st_source *source, size_t index, uint64_t offset, void *dst,
                              size_t nbytes, lmc_st_diag *diag)
{
    memory_source *const memory = (memory_source *)source->owner;
    memory->read_nbytes += nbytes;
    if (index == memory->fails_at)
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "as asked for");
    memcpy(dst, data + memory->places[index] + offset, nbytes);
    return LMC_OK;
}

static void make(memory_source *memory, size_t count)
{
    memset(memory, 0, sizeof *memory);
    memory->fails_at = SIZE_MAX;
    memory->tensors = calloc(count, sizeof *memory->tensors);
    memory->places = calloc(count, sizeof *memory->places);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory->tensors);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory->places);
    memory->header.tensors = memory->tensors;
}

static void add(memory_source *memory, lmc_dtype dtype, size_t place, size_t nbytes)
{
    const size_t index = memory->header.tensor_count++;
    st_tensor *const tensor = &memory->tensors[index];
    tensor->dtype = (uint8_t)dtype;
    tensor->begin = memory->header.data_nbytes;
    tensor->end = tensor->begin + nbytes;
    memory->header.data_nbytes += nbytes;
    memory->places[index] = place;
}

static void drop(memory_source *memory)
{
    free(memory->tensors);
    free(memory->places);
}

static lmc_status find(st_aliases *aliases, memory_source *memory, const volatile int *cancel)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const st_source source = {.header = &memory->header, .owner = memory, .read = read_memory};
    st_options options;
    st_options_init(&options);
    options.cancel = cancel;
    options.thread_count = 1; /* read_memory() counts */
    memory->read_nbytes = 0;
    st_diag_init(&diag, "test");
    const lmc_status status = st_aliases_find(aliases, &source, &options, &diag);
    CU_ASSERT_EQUAL(diag.status, status);
    return status;
}

/* The owners of all tensors are these. */
static void expect(memory_source *memory, const size_t *owners)
{
    st_aliases aliases;
    uint64_t nbytes = 0;
    size_t count = 0;
    CU_ASSERT_EQUAL(find(&aliases, memory, NULL), LMC_OK);
    for (size_t i = 0; i < memory->header.tensor_count; i++) {
        CU_ASSERT_EQUAL(st_aliases_owner(&aliases, i), owners[i]);
        if (owners[i] != i) {
            CU_ASSERT_EQUAL_FATAL(aliases.count > count, 1);
            CU_ASSERT_EQUAL(aliases.list[count].alias, i);
            CU_ASSERT_EQUAL(aliases.list[count].owner, owners[i]);
            nbytes += memory->tensors[i].end - memory->tensors[i].begin;
            count++;
        }
    }
    CU_ASSERT_EQUAL(aliases.count, count);
    CU_ASSERT_EQUAL(aliases.nbytes, nbytes);
    st_aliases_free(&aliases);
    st_aliases_free(&aliases);
}

LMC_TEST(test_begin)
{
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof data / 2; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (unsigned char)(state >> 24);
    }
    memcpy(data + sizeof data / 2, data, sizeof data / 2);
}

#define COPY (sizeof data / 2) /* the same bytes again */

LMC_TEST(test_equal_tensors)
{
    static const size_t owners[] = {0, 1, 0, 3, 4, 1, 0};
    memory_source memory;
    make(&memory, 7);
    add(&memory, LMC_DTYPE_F32, 0, 100000);
    add(&memory, LMC_DTYPE_F32, 7, 100000);
    add(&memory, LMC_DTYPE_F32, COPY, 100000);
    add(&memory, LMC_DTYPE_I32, 0, 100000); /* another dtype */
    add(&memory, LMC_DTYPE_F32, 0, 99996);  /* another size */
    add(&memory, LMC_DTYPE_F32, COPY + 7, 100000);
    add(&memory, LMC_DTYPE_F32, 0, 100000);
    expect(&memory, owners);
    drop(&memory);
}

/* Equal but for one byte, in a sample or between the samples. */
LMC_TEST(test_one_byte_differs)
{
    static const size_t places[] = {0, 511, 512, 49999, 50000, 74321, 99488, 99999};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        static const size_t owners[] = {0, 1, 0};
        memory_source memory;
        make(&memory, 3);
        add(&memory, LMC_DTYPE_U8, 0, 100000);
        add(&memory, LMC_DTYPE_U8, COPY, 100000);
        add(&memory, LMC_DTYPE_U8, 0, 100000);
        data[COPY + places[i]] ^= 0x40;
        expect(&memory, owners);
        data[COPY + places[i]] ^= 0x40;
        drop(&memory);
    }
}

/* From 64 bytes on; no bytes, or few, are no alias. */
LMC_TEST(test_small_tensors)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 511, 512, 513, 1024, 1536, 1537};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t owners[] = {0, sizes[i] < 64 ? 1 : 0};
        memory_source memory;
        make(&memory, 2);
        add(&memory, LMC_DTYPE_U8, 5, sizes[i]);
        add(&memory, LMC_DTYPE_U8, COPY + 5, sizes[i]);
        expect(&memory, owners);
        drop(&memory);
    }
}

/* Tensors that only agree in all samples cost no more than a few comparisons each. */
LMC_TEST(test_hostile_tensors)
{
    enum { COUNT = 60, NBYTES = 5000 };
    static const size_t step = 8192;
    memory_source memory;
    st_aliases aliases;
    make(&memory, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        memset(data + i * step, 0, NBYTES);
        data[i * step + 1000] = (unsigned char)(i + 1); /* between the samples */
        add(&memory, LMC_DTYPE_U8, i * step, NBYTES);
    }
    CU_ASSERT_EQUAL(find(&aliases, &memory, NULL), LMC_OK);
    CU_ASSERT_EQUAL(aliases.count, 0);
    CU_ASSERT_TRUE(memory.read_nbytes <= COUNT * (3 * 512 + 2 * 4 * NBYTES));
    st_aliases_free(&aliases);

    /* equal ones among them are found all the same, if they come early */
    static size_t owners[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        owners[i] = i % 2 == 1 && i < 4 ? i - 1 : i;
        memory.places[i] = owners[i] * step;
    }
    expect(&memory, owners);
    drop(&memory);
    test_begin();
}

LMC_TEST(test_no_reading_without_peers)
{
    memory_source memory;
    st_aliases aliases;
    make(&memory, 50);
    for (size_t i = 0; i < 50; i++)
        add(&memory, LMC_DTYPE_F16, 0, 10000 + 2 * i);
    CU_ASSERT_EQUAL(find(&aliases, &memory, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memory.read_nbytes, 0);
    CU_ASSERT_EQUAL(aliases.count, 0);
    st_aliases_free(&aliases);
    drop(&memory);
}

LMC_TEST(test_failures)
{
    const int cancel = 1;
    memory_source memory;
    st_aliases aliases;
    make(&memory, 3);
    add(&memory, LMC_DTYPE_U8, 0, 1000);
    add(&memory, LMC_DTYPE_U8, 1, 1000);
    add(&memory, LMC_DTYPE_U8, 2, 1000);
    CU_ASSERT_EQUAL(find(&aliases, &memory, &cancel), LMC_ERR_CANCELLED);
    st_aliases_free(&aliases);
    for (memory.fails_at = 0; memory.fails_at < 3; memory.fails_at++) {
        CU_ASSERT_EQUAL(find(&aliases, &memory, NULL), LMC_ERR_IO);
        st_aliases_free(&aliases);
    }
    drop(&memory);
}

LMC_TEST_MAIN("st_alias")
