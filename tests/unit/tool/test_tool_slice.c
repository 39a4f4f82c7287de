/*
 * test_tool_slice.c - the slices and byte ranges of "lmc-st get": what is read, what is refused, and which bytes
 * a slice means, compared with a walk over all elements.
 */
#include "lmc_test.h"

#include "tool/slice.h"

static lmc_st_tensor tensor_of(lmc_dtype dtype, const uint64_t *shape, size_t rank)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    memset(&tensor, 0, sizeof tensor);
    tensor.dtype = dtype;
    tensor.dtype_name = lmc_dtype_name(dtype);
    tensor.shape = shape;
    tensor.rank = rank;
    return tensor;
}

static int parse(const char *text, const lmc_st_tensor *tensor, cli_slice *slice, char *fault)
{
    memset(fault, 0, CLI_SLICE_FAULT_NBYTES);
    return cli_slice_parse(text, tensor, slice, fault);
}

LMC_TEST(test_names)
{
    CU_ASSERT_EQUAL(cli_slice_name_length("a[1]"), 1);
    CU_ASSERT_EQUAL(cli_slice_name_length("a[1][2]"), 4);
    CU_ASSERT_EQUAL(cli_slice_name_length("[:]"), 0);
    CU_ASSERT_EQUAL(cli_slice_name_length("a"), SIZE_MAX);
    CU_ASSERT_EQUAL(cli_slice_name_length("a[1"), SIZE_MAX);
    CU_ASSERT_EQUAL(cli_slice_name_length("a[1]b"), SIZE_MAX);
    CU_ASSERT_EQUAL(cli_slice_name_length("1]"), SIZE_MAX);
    CU_ASSERT_EQUAL(cli_slice_name_length(""), SIZE_MAX);
}

LMC_TEST(test_forms)
{
    static const struct {
        const char *text;
        uint64_t first_byte, run_count, run_nbytes;
    } good[] = {
        {"[:]", 0, 1, 120},     {"[0:4]", 0, 1, 120},     {"[1]", 30, 1, 30},
        {"[-1]", 90, 1, 30},    {"[ 1 : 3 ]", 30, 1, 60}, {"[1:,2]", 42, 3, 6},
        {"[:,:,1]", 2, 20, 2},  {"[:,:,1:]", 2, 20, 4},   {"[ -4 , -5, -3 ]", 0, 1, 2},
        {"[3,:,:]", 90, 1, 30}, {"[3,1:4,:]", 96, 1, 18}, {"[1:3,2:4,1:2]", 44, 4, 2},
        {"[2:2]", 0, 0, 0},     {"[4:]", 0, 0, 0},        {"[:,:0,1]", 0, 0, 0},
    };
    static const uint64_t shape[] = {4, 5, 3};
    const lmc_st_tensor tensor = tensor_of(LMC_DTYPE_BF16, shape, 3);
    char fault[CLI_SLICE_FAULT_NBYTES];
    cli_slice slice;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CU_ASSERT_TRUE_FATAL(parse(good[i].text, &tensor, &slice, fault));
        CU_ASSERT_EQUAL(slice.run_count, good[i].run_count);
        CU_ASSERT_EQUAL(slice.run_nbytes, good[i].run_nbytes);
        CU_ASSERT_EQUAL(slice.first_byte, good[i].first_byte);
        CU_ASSERT_EQUAL(slice.nbytes, good[i].run_count * good[i].run_nbytes);
    }
}

LMC_TEST(test_faults)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"[4]", "index 4 is outside dimension 0, which has size 4"},
        {"[-5]", "index -5 is outside dimension 0, which has size 4"},
        {"[-0]", "index -0 is outside dimension 0"},
        {"[:,6]", "dimension 1, which has size 5"},
        {"[:5]", "5 is beyond dimension 0, which has size 4"},
        {"[:,:,0:4]", "4 is beyond dimension 2, which has size 3"},
        {"[5:]", "5 is beyond dimension 0"},
        {"[18446744073709551616:]", "beyond dimension 0"},
        {"[:99999999999999999999999999]", "beyond dimension 0"},
        {"[99999999999999999999999999]", "outside dimension 0"},
        {"[-99999999999999999999999999]", "outside dimension 0"},
        {"[3:1]", "starts at 3, after its end at 1"},
        {"[-2:]", "negative"},
        {"[:-1]", "negative"},
        {"[::]", "no step"},
        {"[0:4:2]", "no step"},
        {"[0,0,0,0]", "more indices than dimensions: the rank is 3"},
        {"[]", "expected for dimension 0"},
        {"[1,]", "expected for dimension 1"},
        {"[,1]", "expected for dimension 0"},
        {"[...]", "expected for dimension 0"},
        {"[x]", "expected for dimension 0"},
        {"[1x]", "at 'x]'"},
        {"[1 2]", "at '2]'"},
        {"[+1]", "expected for dimension 0"},
        {"[1", "expected"},
        {"[1]]", "expected"},
        {"[-]", "a number is expected"},
        {"1]", "begins with"},
    };
    static const uint64_t shape[] = {4, 5, 3};
    const lmc_st_tensor tensor = tensor_of(LMC_DTYPE_BF16, shape, 3);
    char fault[CLI_SLICE_FAULT_NBYTES];
    cli_slice slice;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CU_ASSERT_FALSE(parse(bad[i].text, &tensor, &slice, fault));
        if (strstr(fault, bad[i].part) == NULL) {
            printf("\n%s: \"%s\" lacks \"%s\"\n", bad[i].text, fault, bad[i].part);
            CU_FAIL("another reason");
        }
    }
}

LMC_TEST(test_rank_0)
{
    const lmc_st_tensor tensor = tensor_of(LMC_DTYPE_F32, NULL, 0);
    char fault[CLI_SLICE_FAULT_NBYTES];
    cli_slice slice;
    CU_ASSERT_FALSE(parse("[0]", &tensor, &slice, fault));
    CU_ASSERT_PTR_NOT_NULL(strstr(fault, "the rank is 0"));
    CU_ASSERT_FALSE(parse("[]", &tensor, &slice, fault));
}

LMC_TEST(test_huge_rank_and_sizes)
{
    static uint64_t shape[LMC_ST_RANK_MAX];
    static char text[2 * LMC_ST_RANK_MAX + 2];
    char fault[CLI_SLICE_FAULT_NBYTES];
    static cli_slice slice;
    for (size_t i = 0; i < LMC_ST_RANK_MAX; i++) {
        shape[i] = i == 1000 ? (uint64_t)1 << 59 : 1;
        memcpy(text + 2 * i, i == 0 ? "[0" : ",0", 2);
    }
    text[2 * LMC_ST_RANK_MAX] = ']';
    lmc_st_tensor tensor = tensor_of(LMC_DTYPE_U8, shape, LMC_ST_RANK_MAX);
    CU_ASSERT_TRUE(parse(text, &tensor, &slice, fault));
    CU_ASSERT_EQUAL(slice.nbytes, 1);
    CU_ASSERT_TRUE(parse("[:]", &tensor, &slice, fault));
    CU_ASSERT_EQUAL(slice.nbytes, (uint64_t)1 << 59);

    static const uint64_t empty[] = {0, UINT64_MAX, UINT64_MAX};
    tensor = tensor_of(LMC_DTYPE_F64, empty, 3);
    CU_ASSERT_TRUE(parse("[:,7,18446744073709551614]", &tensor, &slice, fault));
    CU_ASSERT_EQUAL(slice.nbytes, 0);
    CU_ASSERT_FALSE(parse("[0]", &tensor, &slice, fault));
}

/* ---- against a walk over all elements ---- */

static uint64_t random_state = 12345;

static uint64_t random_below(uint64_t count)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % count;
}

typedef struct pick {
    uint64_t begin, end;
} pick;

/* Writes one dimension in one of the forms that mean the same. */
static size_t write_pick(char *text, uint64_t size, pick pick)
{
    if (pick.end - pick.begin == 1 && random_below(2) == 0) {
        return random_below(2) == 0 ? (size_t)sprintf(text, "%d", (int)pick.begin)
                                    : (size_t)sprintf(text, "%d", (int)pick.begin - (int)size);
    }
    char begin[24] = "";
    char end[24] = "";
    if (pick.begin > 0 || random_below(2) == 0)
        sprintf(begin, "%d", (int)pick.begin);
    if (pick.end < size || random_below(2) == 0)
        sprintf(end, "%d", (int)pick.end);
    return (size_t)sprintf(text, "%s:%s", begin, end);
}

/* Marks the bits of the picked elements in an array of bytes, one per bit. */
static uint64_t mark(unsigned char *marks, const lmc_st_tensor *tensor, const pick *picks)
{
    const unsigned nbits = lmc_dtype_nbits(tensor->dtype);
    uint64_t count = 1;
    uint64_t picked = 0;
    for (size_t dim = 0; dim < tensor->rank; dim++)
        count *= tensor->shape[dim];
    for (uint64_t element = 0; element < count; element++) {
        uint64_t left = element;
        int is_in = 1;
        for (size_t dim = tensor->rank; dim > 0; dim--) {
            const uint64_t at = left % tensor->shape[dim - 1];
            left /= tensor->shape[dim - 1];
            is_in = is_in && at >= picks[dim - 1].begin && at < picks[dim - 1].end;
        }
        memset(marks + element * nbits, is_in, nbits);
        picked += (uint64_t)is_in;
    }
    return picked;
}

/* 1 if every stretch of picked bits begins and ends at a byte. */
static int is_whole_bytes(const unsigned char *marks, uint64_t nbits)
{
    for (uint64_t bit = 1; bit < nbits; bit++)
        if (marks[bit] != marks[bit - 1] && bit % 8 != 0)
            return 0;
    return 1;
}

/* Clears the marks of the bytes that the slice names; returns 1 if each was set and nothing is left. */
static int takes_marks(cli_slice *slice, unsigned char *marks, uint64_t nbits)
{
    uint64_t before = 0;
    for (uint64_t run = 0; run < slice->run_count; run++) {
        const uint64_t first = cli_slice_next(slice);
        for (uint64_t bit = first * 8; bit < (first + slice->run_nbytes) * 8; bit++) {
            if (bit >= nbits || !marks[bit] || bit < before)
                return 0;
            marks[bit] = 0;
        }
        before = (first + slice->run_nbytes) * 8;
    }
    return memchr(marks, 1, (size_t)nbits) == NULL;
}

LMC_TEST(test_against_walk)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8, LMC_DTYPE_BF16, LMC_DTYPE_F4, LMC_DTYPE_F6_E2M3};
    static unsigned char marks[8 * 8 * 8 * 8 * 16 + 1];
    unsigned refused = 0;
    unsigned accepted = 0;
    for (int turn = 0; turn < 20000; turn++) {
        uint64_t shape[4];
        pick picks[4] = {{0, 0}};
        char text[200] = "[";
        char fault[CLI_SLICE_FAULT_NBYTES];
        static cli_slice slice;
        const size_t rank = 1 + random_below(4);
        const size_t given = 1 + random_below(rank);
        lmc_st_tensor tensor = tensor_of(dtypes[random_below(4)], shape, rank);
        uint64_t nbits = lmc_dtype_nbits(tensor.dtype);
        size_t length = 1;
        for (size_t dim = 0; dim < rank; dim++) {
            shape[dim] = 1 + random_below(8);
            nbits *= shape[dim];
            picks[dim].begin = dim < given ? random_below(shape[dim]) : 0;
            picks[dim].end =
                dim < given ? picks[dim].begin + random_below(shape[dim] - picks[dim].begin + 1) : shape[dim];
            if (dim < given) {
                length += write_pick(text + length, shape[dim], picks[dim]);
                text[length++] = dim + 1 < given ? ',' : ']';
            }
        }
        if (nbits % 8 != 0)
            continue;
        text[length] = '\0';
        mark(marks, &tensor, picks);
        const int is_whole = is_whole_bytes(marks, nbits);
        const int is_read = parse(text, &tensor, &slice, fault);
        CU_ASSERT_EQUAL_FATAL(is_read, is_whole);
        accepted += (unsigned)is_read;
        refused += (unsigned)!is_read;
        CU_ASSERT_TRUE_FATAL(is_read ? takes_marks(&slice, marks, nbits)
                                     : strstr(fault, "whole bytes") != NULL);
    }
    CU_ASSERT(accepted > 5000 && refused > 500);
}

LMC_TEST(test_ranges)
{
    static const struct {
        const char *text;
        uint64_t first_byte, nbytes;
    } good[] = {{":", 0, 100}, {"0:100", 0, 100}, {"3:7", 3, 4}, {"3:", 3, 97},
                {":7", 0, 7},  {"100:", 100, 0},  {"5:5", 5, 0}, {"5: 7", 5, 2}};
    static const struct {
        const char *text, *part;
    } bad[] = {{"", "A:B"},
               {"3", "A:B"},
               {"3:101", "101 is beyond the tensor, which has size 100"},
               {"101:", "beyond"},
               {"7:3", "after its end"},
               {"-1:", "negative"},
               {":-1", "negative"},
               {"1:2:3", "step"},
               {"1:2x", "A:B"},
               {"x:2", "A:B"},
               {"1:2,3:4", "A:B"},
               {"99999999999999999999:", "beyond"}};
    uint64_t first_byte = 0;
    uint64_t nbytes = 0;
    char fault[CLI_SLICE_FAULT_NBYTES];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CU_ASSERT_TRUE_FATAL(cli_slice_range(good[i].text, 100, &first_byte, &nbytes, fault));
        CU_ASSERT_EQUAL(first_byte, good[i].first_byte);
        CU_ASSERT_EQUAL(nbytes, good[i].nbytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CU_ASSERT_FALSE_FATAL(cli_slice_range(bad[i].text, 100, &first_byte, &nbytes, fault));
        CU_ASSERT_PTR_NOT_NULL(strstr(fault, bad[i].part));
    }
}

LMC_TEST_MAIN("slice")
