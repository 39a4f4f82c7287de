/*
 * test_st_changes.c - what archives change: put into memory that holds their bases, and listed; with tied tensors,
 * dense changes, several threads; and that memory stays as it is when something is wrong.
 */
#include "lmc_test_changes.h"

#include "lmc_test_alloc.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);
static lmc_test_state old, new, memory; /* the versions before and after; what is worked on */
static lmc_st_file *file;               /* leads from one to the other */
static uint64_t indices[KIND_COUNT];
static const char *delta_path, *base_path;

static lmc_st_options threads(unsigned count)
{
    lmc_st_options options = LMC_INIT(lmc_st_options);
    options.common.thread_count = count;
    return options;
}

LMC_TEST(test_begin)
{
    delta_path = lmc_test_path("delta.safetensors.lmc");
    base_path = lmc_test_path("base.safetensors");
    old = lmc_test_state_open(0);
    new = lmc_test_state_open(1);
    memory = lmc_test_state_open(0);
    CU_ASSERT_EQUAL_FATAL(lmc_test_write_delta(&new, &old, NULL, delta_path, 2, &diag), LMC_OK);
    file = lmc_test_must_open(delta_path);
    lmc_test_state_indices(file, indices);
}

/* Finds what changes in these tensors of a file, and applies it. */
static lmc_status put(const lmc_st_file *from, const uint64_t *numbers, void *const *tensors, size_t count,
                      lmc_st_changes_use use, unsigned thread_count)
{
    const lmc_st_options options = threads(thread_count);
    lmc_st_changes *changes = NULL;
    lmc_status status = lmc_st_changes_find(from, numbers, (const void *const *)tensors, count, use, &options,
                                            &changes, &diag);
    CU_ASSERT_EQUAL(diag.status, status);
    CU_ASSERT_EQUAL(status == LMC_OK, changes != NULL);
    if (status == LMC_OK) {
        status = lmc_st_changes_apply(changes, tensors, &options, &diag);
        CU_ASSERT_EQUAL(diag.status, status);
    }
    lmc_st_changes_free(changes);
    return status;
}

static lmc_status put_all(lmc_st_changes_use use, unsigned thread_count)
{
    return put(file, indices, memory.bytes, KIND_COUNT, use, thread_count);
}

/* It holds what it held before. */
static int is_untouched(void)
{
    return lmc_test_states_differ(&memory, &old) == KIND_COUNT;
}

static int is_new(void)
{
    return lmc_test_states_differ(&memory, &new) == KIND_COUNT;
}

/* ---- what succeeds ---- */

/* The archive has all kinds of frames that these tests are about. */
LMC_TEST(test_modes)
{
    static const lmc_st_mode modes[KIND_COUNT] = {
        [W] = LMC_ST_MODE_DELTA,     [F] = LMC_ST_MODE_DELTA,     [D] = LMC_ST_MODE_DELTA,
        [U] = LMC_ST_MODE_DELTA,     [C] = LMC_ST_MODE_DELTA,     [TIED] = LMC_ST_MODE_ALIAS,
        [SAME] = LMC_ST_MODE_DELTA,  [DENSE] = LMC_ST_MODE_DELTA, [NOISE] = LMC_ST_MODE_STORED,
        [SHORT] = LMC_ST_MODE_SHORT, [NONE] = LMC_ST_MODE_SHORT,  [NEW] = LMC_ST_MODE_CODED};
    for (size_t i = 0; i < KIND_COUNT; i++) {
        lmc_st_mode mode = LMC_ST_MODE_PLAIN;
        CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, indices[i], &mode, &diag), LMC_OK);
        if (mode != modes[i])
            printf("\n%s is %s\n", lmc_test_kinds[i].name, lmc_st_mode_name(mode));
        CU_ASSERT_EQUAL(mode, modes[i]);
    }
}

LMC_TEST(test_apply)
{
    static const lmc_st_changes_use uses[] = {LMC_ST_CHANGES_TO_APPLY, LMC_ST_CHANGES_TO_LIST,
                                              LMC_ST_CHANGES_UNCHECKED};
    for (size_t u = 0; u < 3; u++) {
        for (unsigned thread_count = 1; thread_count <= 5; thread_count += 2) {
            lmc_test_state_copy(&memory, &old);
            CU_ASSERT_EQUAL(put_all(uses[u], thread_count), LMC_OK);
            CU_ASSERT(is_new());
        }
    }
    lmc_test_state_copy(&memory, &old);
}

/* One after the other, and none. */
LMC_TEST(test_single_tensors)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const uint64_t number = indices[i];
        void *const tensor = memory.bytes[i];
        if (i == TIED)
            continue; /* not without its owner */
        CU_ASSERT_EQUAL(put(file, &number, &tensor, 1, LMC_ST_CHANGES_TO_APPLY, 1), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(tensor, new.bytes[i], lmc_test_kind_nbytes(i)), 0);
    }
    CU_ASSERT_EQUAL(put(file, NULL, NULL, 0, LMC_ST_CHANGES_TO_APPLY, 2), LMC_OK);
    lmc_test_state_copy(&memory, &old);
}

/* As done_nbytes and total_nbytes are promised. */
typedef struct watch {
    uint64_t last, total;
    int is_wrong, cancel, cancel_at_once;
} watch;

static void watch_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    watch *const seen = user;
    seen->is_wrong |= done_nbytes < seen->last || done_nbytes > total_nbytes ||
                      (seen->total != 0 && total_nbytes != seen->total);
    seen->last = done_nbytes;
    seen->total = total_nbytes;
    seen->cancel = seen->cancel_at_once;
}

LMC_TEST(test_progress)
{
    for (unsigned i = 0; i < 6; i++) {
        lmc_st_options options = threads(1 + i / 3);
        lmc_st_changes *changes = NULL;
        watch finding = {0}, applying = {0};
        options.common.progress = watch_progress;
        options.common.user = &finding;
        CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, indices, (const void *const *)memory.bytes,
                                                  KIND_COUNT, (lmc_st_changes_use)(i % 3), &options, &changes,
                                                  &diag),
                              LMC_OK);
        CU_ASSERT_FALSE(finding.is_wrong);
        CU_ASSERT(finding.total > 0 && finding.last == finding.total);
        options.common.user = &applying;
        CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, memory.bytes, &options, &diag), LMC_OK);
        CU_ASSERT_FALSE(applying.is_wrong);
        CU_ASSERT(applying.total == finding.total && applying.last == applying.total);
        lmc_st_changes_free(changes);
        CU_ASSERT(is_new());
        lmc_test_state_copy(&memory, &old);
    }
}

/* Finding can be cancelled; what has been found is applied to its end. */
LMC_TEST(test_cancel)
{
    lmc_st_options options = threads(1);
    lmc_st_changes *changes = NULL;
    watch seen = {.cancel_at_once = 1};
    options.common.progress = watch_progress;
    options.common.user = &seen;
    options.common.cancel = &seen.cancel;
    CU_ASSERT_EQUAL(lmc_st_changes_find(file, indices, (const void *const *)memory.bytes, KIND_COUNT,
                                        LMC_ST_CHANGES_TO_APPLY, &options, &changes, &diag),
                    LMC_ERR_CANCELLED);
    CU_ASSERT_PTR_NULL(changes);
    seen = (watch){0};
    CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, indices, (const void *const *)memory.bytes, KIND_COUNT,
                                              LMC_ST_CHANGES_TO_APPLY, &options, &changes, &diag),
                          LMC_OK);
    seen.cancel = 1;
    CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, memory.bytes, &options, &diag), LMC_OK);
    CU_ASSERT(is_new());
    lmc_st_changes_free(changes);
    lmc_test_state_copy(&memory, &old);
}

/* ---- listing ---- */

/* What is listed of a tensor, put into its base, gives the tensor; each element differs, and they rise. */
static void check_list(const lmc_st_changes *changes, size_t kind, unsigned index_nbytes)
{
    const size_t element_nbytes = lmc_test_kinds[kind].element_nbytes, nbytes = lmc_test_kind_nbytes(kind);
    unsigned char *const content = memory.bytes[kind];
    uint64_t count = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_changes_count(changes, kind, &count), 1);
    unsigned char *const listed = malloc(count * index_nbytes + 1), *const values =
                                                                        malloc(count * element_nbytes + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(listed);
    CU_ASSERT_PTR_NOT_NULL_FATAL(values);
    listed[count * index_nbytes] = values[count * element_nbytes] = 0xa5;
    CU_ASSERT_EQUAL(lmc_st_changes_list(changes, kind, index_nbytes, listed, values), LMC_OK);
    CU_ASSERT(listed[count * index_nbytes] == 0xa5 && values[count * element_nbytes] == 0xa5);
    int64_t last = -1;
    for (uint64_t i = 0; i < count; i++) {
        int32_t narrow = 0;
        int64_t index = 0;
        memcpy(index_nbytes == 4 ? (void *)&narrow : &index, listed + i * index_nbytes, index_nbytes);
        index += narrow;
        CU_ASSERT_FATAL(index > last && (uint64_t)index < lmc_test_kinds[kind].count);
        CU_ASSERT_NOT_EQUAL(
            memcmp(content + (size_t)index * element_nbytes, values + i * element_nbytes, element_nbytes), 0);
        memcpy(content + (size_t)index * element_nbytes, values + i * element_nbytes, element_nbytes);
        last = index;
    }
    CU_ASSERT_EQUAL(memcmp(content, new.bytes[kind], nbytes), 0);
    memcpy(content, old.bytes[kind], nbytes);
    free(listed);
    free(values);
}

static void check_lists(const lmc_st_changes *changes)
{
    static const int has_base[KIND_COUNT] = {
        [W] = 1, [F] = 1, [D] = 1, [U] = 1, [C] = 1, [SAME] = 1, [DENSE] = 1};
    uint64_t count = 1;
    char none[8];
    for (size_t i = 0; i < KIND_COUNT; i++) {
        CU_ASSERT_EQUAL(lmc_st_changes_count(changes, i, &count), has_base[i]);
        CU_ASSERT(has_base[i] || count == 0);
        CU_ASSERT(i != SAME || count == 0);
        if (has_base[i]) {
            check_list(changes, i, 4);
            check_list(changes, i, 8);
        }
        CU_ASSERT_EQUAL(lmc_st_changes_list(changes, i, 3, none, none), LMC_ERR_ARG);
        CU_ASSERT(has_base[i] || lmc_st_changes_list(changes, i, 8, none, none) == LMC_ERR_ARG);
    }
    CU_ASSERT_EQUAL(lmc_st_changes_count(changes, KIND_COUNT, &count), 0);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_EQUAL(lmc_st_changes_list(changes, KIND_COUNT, 8, none, none), LMC_ERR_ARG);
}

LMC_TEST(test_list)
{
    for (unsigned thread_count = 1; thread_count < 4; thread_count += 2) {
        const lmc_st_options options = threads(thread_count);
        lmc_st_changes *changes = NULL;
        CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, indices, (const void *const *)old.bytes, KIND_COUNT,
                                                  LMC_ST_CHANGES_TO_LIST, &options, &changes, &diag),
                              LMC_OK);
        check_lists(changes);
        lmc_st_changes_free(changes);
    }
    CU_ASSERT(is_untouched());
}

/* Bases are read from the base file, which is found by its name. */
LMC_TEST(test_bases_in_a_file)
{
    lmc_st_writer *const writer = lmc_test_state_writer(&old, 1);
    const lmc_test_settings settings = lmc_test_options(1);
    lmc_st_changes *changes = NULL;
    CU_ASSERT_EQUAL(
        lmc_st_changes_find(file, indices, NULL, KIND_COUNT, LMC_ST_CHANGES_TO_LIST, NULL, &changes, &diag),
        LMC_ERR_BASE);
    CU_ASSERT_PTR_NULL(changes);
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, base_path, &settings, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
    lmc_st_file *const again = lmc_test_must_open(delta_path);
    CU_ASSERT_EQUAL_FATAL(
        lmc_st_changes_find(again, indices, NULL, KIND_COUNT, LMC_ST_CHANGES_TO_LIST, NULL, &changes, &diag),
        LMC_OK);
    check_lists(changes);
    lmc_st_changes_free(changes);
    for (lmc_st_changes_use use = LMC_ST_CHANGES_TO_APPLY; use <= LMC_ST_CHANGES_UNCHECKED; use++) {
        CU_ASSERT_EQUAL_FATAL(
            lmc_st_changes_find(again, indices, NULL, KIND_COUNT, use, NULL, &changes, &diag), LMC_OK);
        *(unsigned char *)memory.bytes[W] ^= 1; /* of memory that nobody has verified yet */
        CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, memory.bytes, NULL, &diag), LMC_ERR_BASE);
        *(unsigned char *)memory.bytes[W] ^= 1;
        CU_ASSERT(use == LMC_ST_CHANGES_UNCHECKED || is_untouched());
        lmc_test_state_copy(&memory, &old);
        CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, memory.bytes, NULL, &diag), LMC_OK);
        CU_ASSERT(is_new());
        lmc_st_changes_free(changes);
        lmc_test_state_copy(&memory, &old);
    }
    lmc_st_close(again);
    lmc_test_flip(base_path, lmc_test_kind_nbytes(D) + 5000, 1); /* of f, which stands behind d */
    lmc_st_file *const wrong = lmc_test_must_open(delta_path);
    CU_ASSERT_EQUAL(
        lmc_st_changes_find(wrong, indices, NULL, KIND_COUNT, LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag),
        LMC_ERR_BASE);
    CU_ASSERT_PTR_NULL(changes);
    lmc_st_close(wrong);
    unlink(base_path);
}

/* Only what was to be listed is. */
LMC_TEST(test_not_to_be_listed)
{
    char none[8];
    uint64_t count = 1;
    for (lmc_st_changes_use use = LMC_ST_CHANGES_TO_APPLY; use <= LMC_ST_CHANGES_UNCHECKED; use += 2) {
        lmc_st_changes *changes = NULL;
        CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, indices, (const void *const *)old.bytes, KIND_COUNT,
                                                  use, NULL, &changes, &diag),
                              LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_changes_list(changes, SAME, 8, none, none), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_st_changes_count(changes, W, &count), use == LMC_ST_CHANGES_TO_APPLY);
        CU_ASSERT_EQUAL(count, use == LMC_ST_CHANGES_TO_APPLY ? 400000 / 97 + 1 : 0);
        lmc_st_changes_free(changes);
    }
}

/* ---- tied tensors, shared memory ---- */

/* Both in one place, or each in its own, in any order of the list. */
LMC_TEST(test_tied)
{
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t numbers[2] = {indices[i % 2 ? W : TIED], indices[i % 2 ? TIED : W]};
        void *const tensors[2] = {memory.bytes[W], memory.bytes[i < 2 ? W : TIED]};
        CU_ASSERT_EQUAL(put(file, numbers, tensors, 2, LMC_ST_CHANGES_TO_APPLY, 2), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(tensors[0], new.bytes[W], lmc_test_kind_nbytes(W)), 0);
        CU_ASSERT_EQUAL(memcmp(tensors[1], new.bytes[W], lmc_test_kind_nbytes(W)), 0);
        lmc_test_state_copy(&memory, &old);
    }
}

/* A tied tensor alone cannot be applied, but has no changes in a list. */
LMC_TEST(test_tied_without_its_owner)
{
    const uint64_t numbers[2] = {indices[F], indices[TIED]};
    void *const tensors[2] = {memory.bytes[F], memory.bytes[TIED]};
    lmc_st_changes *changes = NULL;
    uint64_t count = 1;
    CU_ASSERT_EQUAL(put(file, numbers, tensors, 2, LMC_ST_CHANGES_TO_APPLY, 1), LMC_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "equals another tensor, which is left out"));
    CU_ASSERT_STRING_EQUAL(diag.tensor, "w tied");
    CU_ASSERT(is_untouched());
    CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, numbers, (const void *const *)tensors, 2,
                                              LMC_ST_CHANGES_TO_LIST, NULL, &changes, &diag),
                          LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_changes_count(changes, 0, &count), 1);
    CU_ASSERT_EQUAL(lmc_st_changes_count(changes, 1, &count), 0);
    lmc_st_changes_free(changes);
}

/* Memory of one tensor within that of another, or across its end: refused before a byte is written. */
LMC_TEST(test_overlaps)
{
    static const size_t places[] = {0, 1000, 2};
    unsigned char *const room = calloc(lmc_test_kind_nbytes(W) + lmc_test_kind_nbytes(F), 1);
    unsigned char *const before = malloc(lmc_test_kind_nbytes(W) + lmc_test_kind_nbytes(F));
    CU_ASSERT_PTR_NOT_NULL_FATAL(room);
    CU_ASSERT_PTR_NOT_NULL_FATAL(before);
    for (size_t i = 0; i < 5; i++) {
        const size_t w = lmc_test_kind_nbytes(W), at = i < 3 ? places[i] : i == 3 ? w - 1 : w;
        const uint64_t numbers[2] = {indices[F], indices[W]};
        const void *const bases[2] = {old.bytes[F], old.bytes[W]};
        void *const dsts[2] = {room + at, room};
        lmc_st_changes *changes = NULL;
        memcpy(room, old.bytes[W], w);
        memcpy(room + at, old.bytes[F], lmc_test_kind_nbytes(F));
        memcpy(before, room, w + lmc_test_kind_nbytes(F));
        CU_ASSERT_EQUAL_FATAL(
            lmc_st_changes_find(file, numbers, bases, 2, LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag),
            LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, dsts, NULL, &diag), i < 4 ? LMC_ERR_ARG : LMC_OK);
        CU_ASSERT(i == 4 || strstr(diag.text, "shares memory with another tensor") != NULL);
        CU_ASSERT_EQUAL(memcmp(room, before, w + lmc_test_kind_nbytes(F)) == 0, i < 4);
        lmc_st_changes_free(changes);
    }
    free(room);
    free(before);
}

/* A tied tensor in a part of its owner's memory, and a third one between two that share a place. */
LMC_TEST(test_overlaps_of_tied)
{
    unsigned char *const room = malloc(2 * lmc_test_kind_nbytes(W));
    CU_ASSERT_PTR_NOT_NULL_FATAL(room);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t numbers[3] = {indices[W], indices[F], indices[TIED]};
        const void *const bases[3] = {old.bytes[W], old.bytes[F], old.bytes[W]};
        void *const dsts[3] = {room, i == 0 ? memory.bytes[F] : room, room + (i == 0 ? 2 : 0)};
        lmc_st_changes *changes = NULL;
        memset(room, 7, 2 * lmc_test_kind_nbytes(W));
        CU_ASSERT_EQUAL_FATAL(
            lmc_st_changes_find(file, numbers, bases, 3, LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag),
            LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, dsts, NULL, &diag), LMC_ERR_ARG);
        for (size_t k = 0; k < 2 * lmc_test_kind_nbytes(W); k++)
            CU_ASSERT_EQUAL_FATAL(room[k], 7);
        lmc_st_changes_free(changes);
    }
    CU_ASSERT(is_untouched());
    free(room);
}

/* No memory for a tensor; one without bytes needs none. */
LMC_TEST(test_no_memory_given)
{
    lmc_st_changes *changes = NULL;
    void *dsts[KIND_COUNT];
    CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, indices, (const void *const *)memory.bytes, KIND_COUNT,
                                              LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag),
                          LMC_OK);
    memcpy(dsts, memory.bytes, sizeof dsts);
    dsts[NONE] = dsts[SHORT] = NULL;
    CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, dsts, NULL, &diag), LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "short");
    CU_ASSERT(is_untouched());
    dsts[SHORT] = memory.bytes[SHORT];
    CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, dsts, NULL, &diag), LMC_OK);
    CU_ASSERT(is_new());
    lmc_st_changes_free(changes);
    lmc_test_state_copy(&memory, &old);
}

/* ---- wrong bases ---- */

LMC_TEST(test_applied_before)
{
    CU_ASSERT_EQUAL(put_all(LMC_ST_CHANGES_TO_APPLY, 1), LMC_OK);
    for (unsigned thread_count = 1; thread_count < 4; thread_count += 2) {
        CU_ASSERT_EQUAL(put_all(LMC_ST_CHANGES_TO_APPLY, thread_count), LMC_ERR_BASE);
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "the changes were applied before"));
        CU_ASSERT(is_new());
    }
    CU_ASSERT_EQUAL(put_all(LMC_ST_CHANGES_UNCHECKED, 1), LMC_ERR_BASE);
    lmc_test_state_copy(&memory, &old);
}

/* A byte of one tensor differs, whichever it is: all stay as they are. */
LMC_TEST(test_wrong_base)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const size_t nbytes = lmc_test_kind_nbytes(i);
        const size_t places[] = {0, nbytes / 2, nbytes - 1};
        const int has_base = i != TIED && i != NOISE && i != SHORT && i != NONE && i != NEW;
        for (size_t p = 0; has_base && p < 3; p++) {
            unsigned char *const bytes = memory.bytes[i];
            bytes[places[p]] ^= 1;
            CU_ASSERT_EQUAL(put_all(LMC_ST_CHANGES_TO_APPLY, 1 + (unsigned)p), LMC_ERR_BASE);
            CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "not the one that the changes were made against"));
            CU_ASSERT_STRING_EQUAL(diag.tensor, lmc_test_kinds[i].name);
            CU_ASSERT_EQUAL(put_all(LMC_ST_CHANGES_TO_LIST, 1), LMC_ERR_BASE);
            bytes[places[p]] ^= 1;
            CU_ASSERT(is_untouched());
        }
    }
}

/* The last tensor of the list alone is wrong; unchecked, those before it have changed then, and right. */
LMC_TEST(test_last_is_wrong)
{
    const uint64_t numbers[2] = {indices[F], indices[W]};
    void *const tensors[2] = {memory.bytes[F], memory.bytes[W]};
    unsigned char *const last = (unsigned char *)memory.bytes[W] + lmc_test_kind_nbytes(W) - 1;
    *last ^= 1;
    CU_ASSERT_EQUAL(put(file, numbers, tensors, 2, LMC_ST_CHANGES_TO_APPLY, 1), LMC_ERR_BASE);
    *last ^= 1;
    CU_ASSERT(is_untouched());
    *last ^= 1;
    CU_ASSERT_EQUAL(put(file, numbers, tensors, 2, LMC_ST_CHANGES_UNCHECKED, 1), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(memcmp(memory.bytes[F], new.bytes[F], lmc_test_kind_nbytes(F)), 0);
    *last ^= 1;
    const unsigned char *const w = memory.bytes[W], *const w_old = old.bytes[W], *const w_new = new.bytes[W];
    for (size_t i = 0; i < lmc_test_kind_nbytes(W); i++)
        CU_ASSERT_FATAL(w[i] == w_old[i] || w[i] == w_new[i]);
    lmc_test_state_copy(&memory, &old);
}

/* ---- what is refused ---- */

static void expect_refused(const lmc_st_file *from, const uint64_t *numbers, size_t count,
                           lmc_st_changes_use use, const char *text)
{
    lmc_st_changes *changes = (lmc_st_changes *)&pool;
    CU_ASSERT_EQUAL(
        lmc_st_changes_find(from, numbers, (const void *const *)old.bytes, count, use, NULL, &changes, &diag),
        LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(changes);
    CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, text));
}

LMC_TEST(test_refused)
{
    lmc_st_writer *const writer = lmc_test_state_writer(&old, 1);
    const lmc_test_settings settings = lmc_test_options(1);
    const uint64_t twice[3] = {indices[W], indices[F], indices[W]}, beyond[2] = {indices[W], KIND_COUNT};
    lmc_st_options unknown = {.struct_size = 3};
    lmc_st_changes *changes = (lmc_st_changes *)&pool;
    expect_refused(file, twice, 3, LMC_ST_CHANGES_TO_APPLY, "more than once");
    CU_ASSERT_STRING_EQUAL(diag.tensor, "w");
    expect_refused(file, beyond, 2, LMC_ST_CHANGES_TO_APPLY, "no tensor of this number");
    expect_refused(file, indices, 1, (lmc_st_changes_use)3, "no such use");
    CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, base_path, &settings, NULL, NULL), LMC_OK);
    lmc_st_file *const plain = lmc_test_must_open(base_path);
    expect_refused(plain, indices, 1, LMC_ST_CHANGES_TO_LIST, "not an archive");
    CU_ASSERT_EQUAL(
        lmc_st_changes_find(file, indices, NULL, 1, LMC_ST_CHANGES_TO_APPLY, &unknown, &changes, &diag),
        LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(changes);
    lmc_st_changes_free(NULL);
    lmc_st_close(plain);
    lmc_st_writer_free(writer);
    unlink(base_path);
}

/* Tensors that were coded against F32 masters, of the same file and of the base's. */
LMC_TEST(test_other_bases)
{
    static unsigned char master[4 * 20000], copy[2 * 20000];
    lmc_test_settings settings = lmc_test_options(1);
    const char *const plain = lmc_test_path("plain"), *const archive = lmc_test_path("archive");
    const uint64_t only = 0;
    for (size_t i = 0; i < 20000; i++) {
        memcpy(copy + 2 * i, (const unsigned char *)old.bytes[W] + 2 * i, 2);
        memcpy(master + 4 * i + 2, copy + 2 * i, 2);
        master[4 * i + 1] = (unsigned char)(i % 120);
    }
    for (unsigned i = 0; i < 2; i++) {
        lmc_st_writer *const writer = lmc_test_writer(), *const base = lmc_test_writer();
        lmc_st_mode mode = LMC_ST_MODE_PLAIN;
        uint64_t index = 0;
        settings.base = i == 0 ? NULL : base_path;
        CU_ASSERT_EQUAL(lmc_test_add(writer, "copy", LMC_DTYPE_BF16, 20000, copy), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_add(i == 0 ? writer : base, "master", LMC_DTYPE_F32, 20000, master), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(writer, plain, &settings, NULL, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_writer_write_plain_as(base, base_path, &settings, NULL, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_convert_as(plain, archive, &settings, NULL, &diag), LMC_OK);
        lmc_st_file *const from = lmc_test_must_open(archive);
        CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor_sized(from, "copy", 4, &index));
        CU_ASSERT_EQUAL(lmc_st_tensor_mode(from, index, &mode, &diag), LMC_OK);
        CU_ASSERT_EQUAL(mode, LMC_ST_MODE_DELTA);
        expect_refused(from, i == 0 ? &index : &only, 1, LMC_ST_CHANGES_TO_APPLY,
                       i == 0 ? "against another tensor of the same file" : "against a base of dtype F32");
        CU_ASSERT_STRING_EQUAL(diag.tensor, "copy");
        lmc_st_close(from);
        lmc_st_writer_free(writer);
        lmc_st_writer_free(base);
        unlink(plain);
        unlink(archive);
        unlink(base_path);
    }
}

/* ---- memory that runs out ---- */

/* Finds and applies with an allocator. *applying: set when applying begins. */
static lmc_status put_with_pool(unsigned thread_count, int *applying)
{
    lmc_st_options options = threads(thread_count);
    lmc_st_changes *changes = NULL;
    options.common.allocator = &pool_allocator;
    *applying = 0;
    lmc_status status = lmc_st_changes_find(file, indices, (const void *const *)memory.bytes, KIND_COUNT,
                                            LMC_ST_CHANGES_TO_APPLY, &options, &changes, &diag);
    CU_ASSERT_EQUAL(status == LMC_OK, changes != NULL);
    if (status == LMC_OK) {
        *applying = 1;
        status = lmc_st_changes_apply(changes, memory.bytes, &options, &diag);
    }
    lmc_st_changes_free(changes);
    return status;
}

/* Each allocation fails in turn, alone or with all behind it: memory is as it was, or holds the new version; only where
 * applying lacks memory it may be neither. */
static void fail_all(unsigned thread_count, int once)
{
    int has_failed = 1;
    for (size_t number = 0; has_failed; number += 1 + number / 16) {
        int applying = 0;
        pool_fail(number, once);
        const lmc_status status = put_with_pool(thread_count, &applying);
        has_failed = pool_has_failed();
        pool_fail(SIZE_MAX, 0);
        CU_ASSERT(status == LMC_OK || (has_failed && status == LMC_ERR_NOMEM));
        CU_ASSERT(status != LMC_OK || is_new());
        CU_ASSERT(status == LMC_OK || applying || is_untouched());
        CU_ASSERT(pool_is_whole());
        lmc_test_state_copy(&memory, &old);
    }
}

LMC_TEST(test_allocator)
{
    fail_all(1, 1);
    fail_all(1, 0);
    fail_all(3, 1);
}

LMC_TEST(test_end)
{
    lmc_st_close(file);
    lmc_test_state_close(&old);
    lmc_test_state_close(&new);
    lmc_test_state_close(&memory);
    unlink(delta_path);
}

LMC_TEST_DIR_MAIN("st_changes")
