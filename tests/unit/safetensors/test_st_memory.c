/*
 * test_st_memory.c - every malloc() of every call failing in turn: each call ends with NOMEM or as it should,
 * leaves no file behind and frees what it had. With an allocator of the caller's, no malloc() of liblmc_st's own.
 * And how much memory headers take that were made to take much of it.
 */
#include "lmc_test_st_calls.h"

#include <errno.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 1
#else
#define CAN_FAIL_ALLOCATIONS 0
#endif

/* volatile: compilers take many functions of the C library for ones that call nothing here */
static volatile long countdown = -1; /* allocations until one fails; negative: none does */
static int is_lasting;               /* 1: those after it fail too */
static volatile int has_failed;
static volatile long live_count; /* blocks allocated and not freed */

#if CAN_FAIL_ALLOCATIONS
#include <malloc.h>

static volatile size_t live_nbytes, peak_nbytes; /* of blocks allocated and not freed */
static volatile long own_count;                  /* allocations that this program's own code asked for */

/* The program's own malloc() family in front of the C library's, for all libraries in it: these find it only if it is
 * visible, which this project's symbols are not by default. */
#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t count, size_t nbytes);
void *__libc_realloc(void *block, size_t nbytes);
void __libc_free(void *block);

/* The program's text: liblmc_st is linked into it, cJSON, zstd and the C library are not. */
extern const char __executable_start[];
extern const char etext[];

static int shall_fail(const void *caller)
{
    own_count += (const char *)caller >= __executable_start && (const char *)caller < etext;
    if (countdown < 0 || countdown-- > 0)
        return 0;
    countdown = is_lasting ? 0 : -1;
    has_failed = 1;
    errno = ENOMEM;
    return 1;
}

static void *count_block(void *block)
{
    live_count += block != NULL;
    live_nbytes += malloc_usable_size(block);
    peak_nbytes = live_nbytes > peak_nbytes ? live_nbytes : peak_nbytes;
    return block;
}

VISIBLE void *malloc(size_t nbytes)
{
    return count_block(shall_fail(__builtin_return_address(0)) ? NULL : __libc_malloc(nbytes));
}

VISIBLE void *calloc(size_t count, size_t nbytes)
{
    return count_block(shall_fail(__builtin_return_address(0)) ? NULL : __libc_calloc(count, nbytes));
}

VISIBLE void *realloc(void *block, size_t nbytes)
{
    const size_t old_nbytes = malloc_usable_size(block);
    void *const moved = shall_fail(__builtin_return_address(0)) ? NULL : __libc_realloc(block, nbytes);
    if (moved != NULL) {
        live_count -= block != NULL;
        live_nbytes -= old_nbytes;
        (void)count_block(moved);
    }
    return moved;
}

VISIBLE void free(void *block)
{
    live_count -= block != NULL;
    live_nbytes -= malloc_usable_size(block);
    __libc_free(block);
}
#endif

static void complain(const lmc_test_call *call, long number, lmc_status status, const char *fault)
{
    printf("\n%s, allocation %ld, status %d: %s\n", call->name, number, (int)status, fault);
    CU_FAIL("see the line above");
}

/* One call in which allocation `number` fails. Returns 1 if it was reached. */
static int fail_one(const lmc_test_call *call, long number)
{
    const long live_before = live_count;
    has_failed = 0;
    countdown = number;
    const lmc_status status = call->function(call);
    const int was_reached = has_failed;
    const long left = live_count - live_before;
    countdown = -1;
    if (status != call->expected && !(was_reached && status == LMC_ERR_NOMEM))
        complain(call, number, status, "wrong status");
    if (left != 0)
        complain(call, number, status, "memory was not freed");
    if (!lmc_test_call_left_right(call, status))
        complain(call, number, status, "wrong files are left");
    return was_reached;
}

/* Fails allocation 0, 1, 2, ... of a call until it needs no more of them. */
static void fail_each(const lmc_test_call *call)
{
    long number = 0;
    while (fail_one(call, number))
        number++;
    CU_ASSERT_TRUE(!CAN_FAIL_ALLOCATIONS || number > 5);
}

static void fail_all(int lasting)
{
    is_lasting = lasting;
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        /* a directory that was begun cannot be listed, and so not removed, without memory */
        if (!lasting || !lmc_test_calls[i].writes_directory)
            fail_each(&lmc_test_calls[i]);
    }
}

LMC_TEST(test_begin)
{
    lmc_test_calls_make();
}

LMC_TEST(test_one_fails)
{
    fail_all(0);
}

LMC_TEST(test_all_fail_from_one_on)
{
    fail_all(1);
}

/* ---- an allocator of the caller's ---- */

#if CAN_FAIL_ALLOCATIONS
static void *allocate(void *user, size_t nbytes)
{
    ++*(long *)user;
    return __libc_malloc(nbytes);
}

static void release(void *user, void *block)
{
    --*(long *)user;
    __libc_free(block);
}

LMC_TEST(test_no_malloc_of_its_own)
{
    long count = 0;
    const lmc_allocator memory = {allocate, release, &count};
    for (size_t i = 0; i < LMC_TEST_CALL_COUNT; i++) {
        const lmc_test_call *const call = &lmc_test_calls[i];
        lmc_test_memory = &memory;
        own_count = 0;
        const lmc_status status = call->function(call);
        const long own = own_count;
        lmc_test_memory = NULL;
        CU_ASSERT_EQUAL(status, call->expected);
        CU_ASSERT_EQUAL(count, 0);
        if (own != 0)
            complain(call, own, status, "that many calls of malloc()");
        CU_ASSERT_TRUE(lmc_test_call_left_right(call, status));
    }
    own_count = 0;
    CU_ASSERT_EQUAL(lmc_test_calls[0].function(&lmc_test_calls[0]), LMC_OK);
    CU_ASSERT_TRUE(own_count > 5); /* they are seen */
}
#endif

/* ---- headers that take much memory ---- */

#if CAN_FAIL_ALLOCATIONS
#define HEADER_NBYTES ((size_t)4 << 20) /* of those below, about */
#define OPEN_NBYTES ((size_t)1 << 20)   /* what opening takes beside the multiple of the header */

typedef struct text {
    unsigned char *bytes; /* of a file, whose header's length stands first */
    size_t nbytes;
    unsigned number; /* of the next name */
} text;

static void put(text *file, const char *piece)
{
    const size_t nbytes = strlen(piece);
    memcpy(file->bytes + file->nbytes, piece, nbytes);
    file->nbytes += nbytes;
}

/* A string that no other call gives for this file, and as short as that goes. */
static void put_name(text *file)
{
    static const char letters[] = " !#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLM"
                                  "NOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";
    enum { COUNT = sizeof letters - 1 };
    char name[8] = "\"";
    size_t length = 1;
    for (unsigned number = ++file->number; number > 0; number /= COUNT)
        name[length++] = letters[number % COUNT];
    name[length++] = '"';
    put(file, name);
}

static int is_full(const text *file)
{
    return file->nbytes >= HEADER_NBYTES;
}

static void put_keys(text *file, const char *last)
{
    put(file, "{\"__metadata__\":{");
    while (!is_full(file)) {
        put_name(file);
        put(file, ":\"\",");
    }
    put(file, last);
    put(file, ":\"\"}}");
}

static void make_keys(text *file)
{
    put_keys(file, "\"the last\"");
}

static void make_repeated_key(text *file)
{
    put_keys(file, "\"!\""); /* the first one */
}

static void put_shape(text *file, unsigned rank)
{
    put_name(file);
    put(file, ":{\"dtype\":\"U8\",\"shape\":[0");
    for (unsigned i = 1; i < rank; i++)
        put(file, i % 3 == file->number % 3 ? ",1" : ",0");
    put(file, "],\"data_offsets\":[0,0]}");
}

static void put_shapes(text *file, unsigned rank)
{
    while (!is_full(file)) {
        put(file, file->nbytes == 8 ? "{" : ",");
        put_shape(file, rank);
    }
    put(file, "}");
}

static void make_empty(text *file)
{
    put_shapes(file, 1);
}

static void make_kept(text *file)
{
    put_shapes(file, 16); /* ST_RANK_KEPT */
}

static void make_above_kept(text *file)
{
    put_shapes(file, 17);
}

static void make_large_rank(text *file)
{
    put_shapes(file, LMC_ST_RANK_MAX);
}

/* Tensors of a byte, the last one first: they must be sorted. */
static void make_reversed(text *file)
{
    enum { COUNT = 60000 };
    put(file, "{");
    for (unsigned i = COUNT; i > 0; i--) {
        char entry[80];
        put_name(file);
        snprintf(entry, sizeof entry, ":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%u,%u]}%s", i - 1, i,
                 i > 1 ? "," : "}");
        put(file, entry);
    }
    while (file->nbytes % 8 != 0)
        put(file, " ");
    const uint64_t length = file->nbytes - 8;
    memcpy(file->bytes, &length, sizeof length);
    memset(file->bytes + file->nbytes, 'x', COUNT);
    file->nbytes += COUNT;
}

/* One name and one value that take half of it each. */
static void make_long(text *file)
{
    put(file, "{\"__metadata__\":{\"key\":\"");
    while (file->nbytes < HEADER_NBYTES / 2)
        put(file, "value");
    put(file, "\"},\"");
    while (!is_full(file))
        put(file, "name\\u0000");
    put(file, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
}

/* The same, refused for its only entry, by its name. */
static void make_long_refused(text *file)
{
    make_long(file);
    memcpy(file->bytes + file->nbytes - 4, "9", 1);
}

static uint64_t header_nbytes_of(const text *file)
{
    uint64_t nbytes = 0;
    memcpy(&nbytes, file->bytes, sizeof nbytes);
    return nbytes;
}

static void expect_peak(const char *what, size_t before, uint64_t header_nbytes)
{
    const size_t taken = peak_nbytes - before;
    if (taken > 4 * header_nbytes + OPEN_NBYTES) {
        printf("\n%s: %zu bytes for headers of %llu\n", what, taken, (unsigned long long)header_nbytes);
        CU_FAIL("see the line above");
    }
}

/* Opens a file; header_nbytes: of all its headers. */
static void open_counted(const char *what, const char *path, uint64_t header_nbytes, lmc_status expected)
{
    lmc_st_file *file = NULL;
    const size_t before = live_nbytes;
    peak_nbytes = before;
    CU_ASSERT_EQUAL(lmc_st_open(path, NULL, &file, NULL), expected);
    expect_peak(what, before, header_nbytes);
    lmc_st_close(file);
    CU_ASSERT_EQUAL(live_nbytes, before);
}

/* The archive of a file with that header: it has two. */
static void open_archive_counted(const char *what, const char *path, uint64_t original_nbytes)
{
    const char *const archive = lmc_test_path("h.lmc");
    size_t nbytes = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_st_convert(path, archive, NULL, NULL, NULL), LMC_OK);
    unsigned char *const bytes = lmc_test_read(archive, &nbytes);
    const text outer = {.bytes = bytes, .nbytes = nbytes};
    open_counted(what, archive, header_nbytes_of(&outer) + original_nbytes, LMC_OK);
    free(bytes);
    CU_ASSERT_EQUAL(unlink(archive), 0);
}

LMC_TEST(test_opening_is_bounded)
{
    static const struct {
        const char *name;
        void (*make)(text *file);
        lmc_status expected;
    } headers[] = {
        {"many keys", make_keys, LMC_OK},
        {"a repeated key", make_repeated_key, LMC_ERR_HEADER},
        {"many empty tensors", make_empty, LMC_OK},
        {"shapes that are kept", make_kept, LMC_OK},
        {"shapes that are not kept", make_above_kept, LMC_OK},
        {"large ranks", make_large_rank, LMC_OK},
        {"tensors in reverse", make_reversed, LMC_OK},
        {"long strings", make_long, LMC_OK},
        {"a long name that is refused", make_long_refused, LMC_ERR_HEADER},
    };
    const char *const path = lmc_test_path("h");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        text file = {.bytes = malloc(2 * HEADER_NBYTES), .nbytes = 8};
        CU_ASSERT_PTR_NOT_NULL_FATAL(file.bytes);
        const uint64_t unset = 0;
        memcpy(file.bytes, &unset, sizeof unset);
        headers[i].make(&file);
        if (header_nbytes_of(&file) == 0) {
            const uint64_t length = file.nbytes - 8;
            memcpy(file.bytes, &length, sizeof length);
        }
        lmc_test_write(path, file.bytes, file.nbytes);
        open_counted(headers[i].name, path, header_nbytes_of(&file), headers[i].expected);
        if (headers[i].expected == LMC_OK)
            open_archive_counted(headers[i].name, path, header_nbytes_of(&file));
        free(file.bytes);
    }
    CU_ASSERT_EQUAL(unlink(path), 0);
}

/* A table that is far larger than what it is about. */
LMC_TEST(test_large_table)
{
    static const char outer[] =
        "{\"__metadata__\":{\"format\":\"lmc\",\"lmc_archive\":\"1\"},\"lmc.archive\":"
        "{\"dtype\":\"U8\",\"shape\":[300000000],\"data_offsets\":[0,300000000]}}";
    enum { LENGTH = sizeof outer - 1 };
    unsigned char bytes[8 + LENGTH + 40] = {LENGTH};
    unsigned char *const table = bytes + 8 + LENGTH;
    memcpy(bytes + 8, outer, LENGTH);
    memcpy(table, "\x8cLMA\x01\x01", 6);
    table[24] = 100; /* bytes of the original header */
    const char *const path = lmc_test_path("t.lmc");
    lmc_test_write(path, bytes, sizeof bytes);
    CU_ASSERT_EQUAL(truncate(path, 8 + LENGTH + 300000000), 0);
    open_counted("a large table", path, LENGTH + 100, LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(unlink(path), 0);
}
#endif

LMC_TEST(test_end)
{
    lmc_test_calls_end();
}

LMC_TEST_DIR_MAIN("st_memory")
