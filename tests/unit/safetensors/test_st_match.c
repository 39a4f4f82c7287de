/*
 * test_st_match.c - which tensor of the base a renamed tensor is coded against, rule by rule; and that tensors with
 * nothing in common are left alone.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

#include "safetensors/archive/handle.h"
#include "safetensors/header/name_key.h"

#define COUNT 4
#define LARGE 300000u /* values of a tensor for which several places in the order are tried */
#define SMALL 300u    /* for which no sample is taken */

static unsigned char values[2 * LARGE];
static const char *old, *new, *archive;

LMC_TEST(test_begin)
{
    old = lmc_test_path("old.safetensors");
    new = lmc_test_path("new.safetensors");
    archive = lmc_test_path("new.safetensors.lmc");
}

/* Values of model `model`, tensor `number`; is_next: after some steps, in which one value of four has moved. */
static void fill(size_t value_count, unsigned model, unsigned number, int is_next)
{
    lmc_test_weights(values, 2 * value_count, 1000 * model + number + 1);
    for (size_t i = 0; i < value_count && is_next; i += 4)
        values[2 * i] ^= 1;
}

/* Tensor i has names[i] and the values of numbers[i]. */
static void write_model(const char *path, const char *const *names, const unsigned *numbers, size_t count,
                        size_t value_count, unsigned model, int is_next)
{
    lmc_st_writer *const writer = lmc_test_writer();
    static unsigned char kept[8][2 * LARGE];
    for (size_t i = 0; i < count; i++) {
        fill(value_count, model, numbers[i], is_next);
        memcpy(kept[i], values, 2 * value_count);
        CU_ASSERT_EQUAL(lmc_test_add(writer, names[i], LMC_DTYPE_BF16, value_count, kept[i]), LMC_OK);
    }
    lmc_test_write_plain(writer, path);
}

/* The name in `old` of what tensor `name` of `new` was coded against; "" if it was coded alone. */
static const char *base_of(const char *name)
{
    static char found[64];
    lmc_st_file *file = NULL;
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_base_place place = LMC_ST_BASE_FILE;
    lmc_st_mode mode = LMC_ST_MODE_PLAIN;
    const int index = lmc_test_base_of(archive, name, &place, &mode);
    if (index < 0)
        return "";
    CU_ASSERT_EQUAL(place, LMC_ST_BASE_FILE);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(old, NULL, &file, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, (uint64_t)index, &tensor), LMC_OK);
    snprintf(found, sizeof found, "%.*s", (int)tensor.name_nbytes, tensor.name);
    lmc_st_close(file);
    return found;
}

/* Converts, restores, and compares what each tensor was coded against. */
static void expect(const char *const *names, const char *const *bases, size_t count)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(lmc_test_convert(new, old, archive, 2, &diag), LMC_OK);
    lmc_test_expect_restored(archive, old, NULL, new);
    for (size_t i = 0; i < count; i++)
        CU_ASSERT_STRING_EQUAL(base_of(names[i]), bases[i]);
}

static const unsigned in_order[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Names of four tensors, before and after; names sort otherwise after than before where a rule of names must find
 * them. */
typedef struct renaming {
    const char *before[COUNT], *after[COUNT];
} renaming;

/* Small ones show that names are enough, larger ones that the sample agrees. */
LMC_TEST(test_wrappers)
{
    static const renaming renamings[] = {
        {{"a.w", "b.w", "c.w", "d"}, {"module.a.w", "module.b.w", "module.c.w", "module.d"}},
        {{"a.w", "b.w", "c.w", "d"}, {"own.part.a.w", "own.part.b.w", "own.part.c.w", "own.part.d"}},
        {{"own.a.w", "own.b.w", "own.c.w", "own.d"}, {"a.w", "b.w", "c.w", "d"}},
        {{"one.a.w", "one.b.w", "one.c.w", "one.d"}, {"two.x.a.w", "two.x.b.w", "two.x.c.w", "two.x.d"}},
        {{"l.0.w", "l.1.w", "l.2.w", "z"}, {"l.0._orig_mod.w", "l._orig_mod.1.w", "_orig_mod.l.2.w", "z"}},
        {{"l.0.w", "l.1.w", "l.2.w", "z"},
         {"base_model.model.model.l.0.base_layer.w", "base_model.model.model.l.1.w",
          "base_model.model.model.l.2.base_layer.w", "base_model.model.z"}},
        {{"model.l.0.w", "model.l.1.w", "model.norm", "z"}, {"l.0.w", "l.1.w", "norm", "module.z"}},
        {{"l.0.w", "l.1.w", "l.2.w", "z"}, {"own.l.0.w", "own._orig_mod.l.1.w", "own.l.module.2.w", "own.z"}},
        {{"l/0/w", "l/1/w", "l/2/w", "z"}, {"params/l/0/w", "params/l/1/w", "params/l/2/w", "params/z"}},
    };
    static const size_t value_counts[] = {SMALL, 3000};
    for (size_t i = 0; i < sizeof renamings / sizeof *renamings; i++) {
        for (size_t j = 0; j < 2; j++) {
            write_model(old, renamings[i].before, in_order, COUNT, value_counts[j], 1, 0);
            write_model(new, renamings[i].after, in_order, COUNT, value_counts[j], 1, 1);
            expect(renamings[i].after, renamings[i].before, COUNT);
        }
    }
}

/* Exact names win, even if another tensor has nearer values. */
LMC_TEST(test_exact_names_first)
{
    static const char *const before[] = {"a", "module.a"};
    static const char *const after[] = {"a", "module.a"};
    static const unsigned swapped[] = {1, 0};
    static const char *const none[] = {"", ""};
    write_model(old, before, in_order, 2, 3000, 1, 0);
    write_model(new, after, in_order, 2, 3000, 1, 1);
    expect(after, before, 2);
    write_model(new, after, swapped, 2, 3000, 1, 1);
    expect(after, none, 2);
}

/* Layers that are counted from another number: names without what is shared lead to the wrong ones. */
LMC_TEST(test_sample_overrules_names)
{
    static const char *const before[] = {"pipe.0.w", "pipe.1.w", "pipe.2.w", "pipe.3.w"};
    static const char *const after[] = {"layers.1.w", "layers.2.w", "layers.3.w", "layers.4.w"};
    write_model(old, before, in_order, COUNT, 3000, 1, 0);
    write_model(new, after, in_order, COUNT, 3000, 1, 1);
    expect(after, before, COUNT);
}

/* A name that two tensors have without the parts of wrappers tells nothing; their places do. */
LMC_TEST(test_ambiguous_names)
{
    static const char *const before[] = {"a.w", "model.a.w"};
    static const char *const after[] = {"base_model.a.w", "module._orig_mod.a.w"};
    write_model(old, before, in_order, 2, 3000, 1, 0);
    write_model(new, after, in_order, 2, 3000, 1, 1);
    expect(after, before, 2);
}

LMC_TEST(test_order)
{
    static const char *const before[] = {"attention", "down", "gate", "up"};
    static const char *const after[] = {"h0", "h1", "h2", "h3"};
    static const char *const none[] = {"", "", "", ""};
    write_model(old, before, in_order, COUNT, 3000, 1, 0);
    write_model(new, after, in_order, COUNT, 3000, 1, 1);
    expect(after, before, COUNT);
    /* too small for a sample: the order alone is no proof */
    write_model(old, before, in_order, COUNT, SMALL, 1, 0);
    write_model(new, after, in_order, COUNT, SMALL, 1, 1);
    expect(after, none, COUNT);
}

/* Large tensors are looked for around their place. */
LMC_TEST(test_changed_order)
{
    static const char *const before[] = {"a", "b", "c", "d", "e"};
    static const char *const after[] = {"u", "v", "w", "x"};
    static const unsigned moved[] = {1, 0, 4, 3};
    static const char *const bases[] = {"b", "a", "e", "d"};
    static const unsigned inserted[] = {7, 0, 1, 2};
    static const char *const after_it[] = {"", "a", "b", "c"};
    write_model(old, before, in_order, 5, LARGE, 1, 0);
    write_model(new, after, moved, COUNT, LARGE, 1, 1);
    expect(after, bases, COUNT);
    write_model(new, after, inserted, COUNT, LARGE, 1, 1);
    expect(after, after_it, COUNT);
}

/* Another model of the same shapes: the archive is the one without a base. */
LMC_TEST(test_nothing_in_common)
{
    static const char *const before[] = {"l.0.w", "l.1.w", "l.2.w", "l.3.w"};
    static const char *const after[] = {"module.l.0.w", "module.l.1.w", "module.l.2.w", "module.l.3.w"};
    static const char *const unlike[] = {"p", "q", "r", "s"};
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const char *const *const names[] = {after, unlike};
    for (size_t i = 0; i < 2; i++) {
        char alone[LMC_TEST_PATH_NBYTES];
        snprintf(alone, sizeof alone, "%s/alone.lmc", lmc_test_dir);
        write_model(old, before, in_order, COUNT, 3000, 1, 0);
        write_model(new, names[i], in_order, COUNT, 3000, 2, 0);
        CU_ASSERT_EQUAL(lmc_test_convert(new, old, archive, 1, &diag), LMC_OK);
        CU_ASSERT_EQUAL(lmc_test_convert(new, NULL, alone, 1, &diag), LMC_OK);
        CU_ASSERT_TRUE(lmc_test_same_files(archive, alone));
        (void)unlink(alone);
    }
}

static uint64_t key_of(const char *name, size_t skipped_nbytes, int is_bare)
{
    return st_name_key((st_string){name, strlen(name)}, skipped_nbytes, is_bare);
}

LMC_TEST(test_keys)
{
    static const char *const equal[] = {
        "module.a.w",           "_orig_mod.a.w",  "a._orig_mod.w",
        "base_model.model.a.w", "model/a/w",      "a.w._orig_mod",
        "a.base_layer.w",       "state_dict.a.w", "_fsdp_wrapped_module.a._fsdp_wrapped_module.w"};
    static const char *const other[] = {"a.b.w",     "aw",          "a",   "w",    "a..w",
                                        "modul.a.w", "module_.a.w", "w.a", ".a.w", "a.w."};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        CU_ASSERT_EQUAL(key_of(equal[i], 0, 1), key_of("a.w", 0, 1));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CU_ASSERT_NOT_EQUAL(key_of(other[i], 0, 1), key_of("a.w", 0, 1));
    CU_ASSERT_NOT_EQUAL(key_of("module.a.w", 0, 0), key_of("a.w", 0, 0));
    CU_ASSERT_EQUAL(key_of("module.a.w", 7, 0), key_of("a.w", 0, 0));
    CU_ASSERT_EQUAL(key_of("module.model", 0, 1), key_of("model", 0, 1));
    (void)key_of("", 0, 1);
}

/* What all names begin with, in whole parts. */
LMC_TEST(test_shared_parts)
{
    static const struct {
        const char *names[3];
        size_t nbytes;
    } cases[] = {{{"module.a", "module.b", "module.c.d"}, 7},
                 {{"model.ab", "model.ac", "model.a"}, 6},
                 {{"x.y.a", "x.y.b", "x.z.b"}, 2},
                 {{"a", "a.b", "a.c"}, 0},
                 {{"ab", "ac", "ad"}, 0},
                 {{"p/q/a", "p/q/b", "p/q/c"}, 4},
                 {{"x.", "x.a", "x.b"}, 2},
                 {{"", "x.a", "x.b"}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmc_st_file *file = NULL;
        write_model(new, cases[i].names, in_order, 3, SMALL, 1, 0);
        CU_ASSERT_EQUAL_FATAL(lmc_st_open(new, NULL, &file, NULL), LMC_OK);
        CU_ASSERT_EQUAL(st_names_shared_nbytes(&file->header), cases[i].nbytes);
        lmc_st_close(file);
    }
}

LMC_TEST(test_clean_up)
{
    (void)unlink(old);
    (void)unlink(new);
    (void)unlink(archive);
}

LMC_TEST_DIR_MAIN("st_match")
