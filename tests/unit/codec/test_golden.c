/* test_golden.c - the frozen frames of tests/format/vectors: the valid ones decode to their contents with every kernel
 * set (against NAME.base, if there is one), the corrupt ones end in their statuses, and damage to any of them is
 * refused. */
#include "lmc_test_frame.h"

#include "lmc_test_deep.h"
#include "lmc_test_table.h"

#include <dirent.h>

#define VECTORS LMC_TESTS_DIR "/format/vectors"
#define FILE_MAX (1 << 20)
#define VECTORS_MAX 300

typedef struct vector {
    char name[64];
    test_frame frame;
    uint8_t *content;
    size_t content_nbytes;
    deep_base base; /* NULL, 0: none */
} vector;

static vector vectors[VECTORS_MAX];
static size_t vector_count;
static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_ctx *ctx;
static deep *deep_memory;
static guarded target;

/* ---- files ---- */

/* NULL if there is no such file, or it is larger than FILE_MAX. */
static uint8_t *read_file(const char *path, size_t *nbytes)
{
    FILE *const file = fopen(path, "rb");
    *nbytes = 0;
    if (!file)
        return NULL;
    uint8_t *const bytes = must_malloc(FILE_MAX);
    *nbytes = fread(bytes, 1, FILE_MAX, file);
    const int is_whole = feof(file) && !ferror(file);
    fclose(file);
    if (!is_whole) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const vector *)a)->name, ((const vector *)b)->name);
}

static void read_vectors(void)
{
    DIR *const folder = opendir(VECTORS);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL && vector_count < VECTORS_MAX) {
        vector *const v = &vectors[vector_count];
        const size_t length = strlen(entry->d_name);
        char path[1024];
        if (length < 5 || length >= sizeof v->name || strcmp(entry->d_name + length - 4, ".lmc") != 0)
            continue;
        memcpy(v->name, entry->d_name, length - 3);
        v->name[length - 4] = '\0';
        snprintf(path, sizeof path, "%s/%s.lmc", VECTORS, v->name);
        v->frame.bytes = read_file(path, &v->frame.nbytes);
        snprintf(path, sizeof path, "%s/%s.bin", VECTORS, v->name);
        v->content = read_file(path, &v->content_nbytes);
        snprintf(path, sizeof path, "%s/%s.base", VECTORS, v->name);
        v->base.bytes = read_file(path, &v->base.nbytes);
        if (!v->frame.bytes || !v->content) {
            fprintf(stderr, "%s: frame or content cannot be read\n", v->name);
            abort();
        }
        vector_count++;
    }
    if (folder)
        closedir(folder);
    qsort(vectors, vector_count, sizeof vectors[0], by_name);
}

static void free_vectors(void)
{
    for (size_t i = 0; i < vector_count; i++) {
        free(vectors[i].frame.bytes);
        free(vectors[i].content);
        free((void *)(uintptr_t)vectors[i].base.bytes);
    }
}

/* ---- decoding ---- */

/* The status of the public call, from before a guard page; all kernel sets must say the same. `content` is what
 * OK must come with; NULL: nothing may be OK. */
static lmc_status decode_all(const char *name, const uint8_t *bytes, size_t nbytes, const deep_base *base,
                             const uint8_t *content, size_t content_nbytes)
{
    const uint8_t *const copy = guarded_copy(&deep_memory->source, bytes, nbytes);
    uint8_t *const dst = guarded_end(&target, content_nbytes);
    size_t found_nbytes = 77;
    const lmc_status status =
        lmc_decode_delta(ctx, copy, nbytes, deep_base_for(base, bytes, nbytes),
                         deep_base_nbytes_for(base, bytes, nbytes), dst, content_nbytes, &found_nbytes);
    int is_right = status == LMC_OK
                       ? content && found_nbytes == content_nbytes && memcmp(dst, content, found_nbytes) == 0
                       : found_nbytes == 0;
    for (size_t k = 0; k < set_count; k++) {
        const uint8_t *found = NULL;
        size_t n = 0;
        const lmc_status deep_status = deep_decode(deep_memory, sets[k], bytes, nbytes, base, &found, &n);
        const int is_too_large = status == LMC_ERR_DST_SMALL; /* found before the blocks are looked at */
        is_right &= deep_status == status || is_too_large;
        is_right &= deep_status != LMC_OK || is_too_large ||
                    (content && n == content_nbytes && memcmp(found, content, n) == 0);
    }
    if (!is_right)
        printf("\n%s: %s\n", name, lmc_status_text(status));
    CU_ASSERT(is_right);
    return status;
}

static lmc_status decode_vector(const vector *v, size_t nbytes)
{
    return decode_all(v->name, v->frame.bytes, nbytes, &v->base, v->content, v->content_nbytes);
}

/* ---- tests ---- */

LMC_TEST(test_valid)
{
    if (vector_count == 0)
        LMC_TEST_SKIP("there are no vectors");
    for (size_t i = 0; i < vector_count; i++)
        CU_ASSERT_EQUAL(decode_vector(&vectors[i], vectors[i].frame.nbytes), LMC_OK);
}

LMC_TEST(test_truncation)
{
    if (vector_count == 0)
        LMC_TEST_SKIP("there are no vectors");
    for (size_t i = 0; i < vector_count; i++) {
        const vector *const v = &vectors[i];
        for (size_t cut = i % LMC_TEST_STEP; cut < v->frame.nbytes; cut += LMC_TEST_STEP) {
            if (cut > 200 && cut + 200 < v->frame.nbytes && random_below(v->frame.nbytes) >= 200)
                continue;
            CU_ASSERT_NOT_EQUAL(decode_vector(v, cut), LMC_OK);
        }
    }
}

/* Every cut, by the public call alone. */
LMC_TEST(test_truncation_at_every_byte)
{
    if (vector_count == 0)
        LMC_TEST_SKIP("there are no vectors");
    for (size_t i = 0; i < vector_count; i++) {
        const vector *const v = &vectors[i];
        for (size_t cut = i % LMC_TEST_STEP; cut < v->frame.nbytes; cut += LMC_TEST_STEP) {
            size_t n = 77;
            const uint8_t *const copy = guarded_copy(&deep_memory->source, v->frame.bytes, cut);
            uint8_t *const dst = guarded_end(&target, v->content_nbytes);
            CU_ASSERT_NOT_EQUAL(lmc_decode_delta(ctx, copy, cut, deep_base_for(&v->base, copy, cut),
                                                 deep_base_nbytes_for(&v->base, copy, cut), dst,
                                                 v->content_nbytes, &n),
                                LMC_OK);
            CU_ASSERT_EQUAL(n, 0);
        }
    }
}

/* Every bit of head, plan, index and check, and 2,000 bits elsewhere. */
LMC_TEST(test_flipped_bits)
{
    size_t elsewhere = 0;
    if (vector_count == 0)
        LMC_TEST_SKIP("there are no vectors");
    for (size_t i = 0; i < vector_count; i++) {
        vector *const v = &vectors[i];
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(v->frame.bytes, v->frame.nbytes, &info, NULL), LMC_OK);
        for (size_t bit = i % LMC_TEST_STEP; bit < 8 * v->frame.nbytes; bit += LMC_TEST_STEP) {
            const size_t at = bit / 8;
            const int is_content = at >= info.head_nbytes && at < v->frame.nbytes - info.tail_nbytes;
            if (is_content && random_below(8 * v->frame.nbytes) >= 40)
                continue;
            elsewhere += (size_t)is_content;
            v->frame.bytes[at] ^= (uint8_t)(1u << bit % 8);
            const lmc_status status = decode_vector(v, v->frame.nbytes);
            CU_ASSERT(is_content || status != LMC_OK);
            v->frame.bytes[at] ^= (uint8_t)(1u << bit % 8);
        }
    }
    CU_ASSERT(elsewhere >= 2000 / LMC_TEST_STEP);
}

/* Damage behind a right check: no crash, and one answer from all sets. */
LMC_TEST(test_deep_damage)
{
    uint8_t *const damaged = must_malloc(FILE_MAX);
    if (vector_count == 0) {
        free(damaged);
        LMC_TEST_SKIP("there are no vectors");
    }
    for (unsigned i = 0; i < 20000; i += LMC_TEST_STEP) {
        const vector *const v = &vectors[random_below(vector_count)];
        const size_t nbytes = v->frame.nbytes;
        memcpy(damaged, v->frame.bytes, nbytes);
        for (size_t sign_changes = 1 + random_below(2); sign_changes > 0; sign_changes--)
            damaged[random_below(i % 2 && nbytes > 120 ? 120 : nbytes)] ^= (uint8_t)(1u << random_below(8));
        deep_reseal(damaged, nbytes);
        decode_all(v->name, damaged, nbytes, &v->base, v->content, v->content_nbytes);
    }
    free(damaged);
}

static lmc_status status_by_name(const char *name)
{
    static const struct {
        const char *name;
        lmc_status status;
    } names[] = {
        {"TRUNCATED", LMC_ERR_TRUNCATED}, {"CORRUPT", LMC_ERR_CORRUPT}, {"UNSUPPORTED", LMC_ERR_UNSUPPORTED},
        {"CHECKSUM", LMC_ERR_CHECKSUM},   {"LIMIT", LMC_ERR_LIMIT},     {"BASE", LMC_ERR_BASE},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].status;
    return LMC_OK;
}

/* A line of EXPECT.tsv. */
static void test_corrupt(void)
{
    const input_line *const line = lmc_test_line();
    const lmc_status wanted = status_by_name(line->status);
    size_t nbytes;
    uint8_t *const bytes = input_bytes(line->input, &nbytes);
    deep_base base = {NULL, 0};
    CU_ASSERT_NOT_EQUAL(wanted, LMC_OK);
    if (line->base)
        base.bytes = input_bytes(line->base, &base.nbytes);
    const lmc_status status = decode_all(line->name, bytes, nbytes, &base, NULL, FILE_MAX);
    if (status != wanted)
        printf("\n%s: %s, wanted %s: %s\n", line->name, lmc_status_text(status), line->status, line->rule);
    CU_ASSERT_EQUAL(status, wanted);
    free((void *)(uintptr_t)base.bytes);
    free(bytes);
}

int main(int argc, char **argv)
{
    ctx = must_create_ctx();
    set_count = kernel_sets(sets);
    deep_memory = deep_open(FILE_MAX, FILE_MAX);
    target = guarded_open(FILE_MAX);
    read_vectors();
    const int result =
        lmc_test_table_main("golden", VECTORS "/corrupt/EXPECT.tsv", 400, test_corrupt, argc, argv);
    free_vectors();
    guarded_close(&target);
    deep_close(deep_memory);
    lmc_ctx_free(ctx);
    return result;
}
