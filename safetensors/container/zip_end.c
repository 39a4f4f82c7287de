/*
 * zip_end.c - finds end records, from the end of a file backward. A ZIP begins where its directory says that it does,
 * counted back from its end record: that is how Python's zipfile and torch read it.
 */
#include "safetensors/container/zip_end.h"

#include <string.h>

#define END_NBYTES 22
#define LOCATOR_NBYTES 20
#define WIDE_NBYTES 56 /* the end record of zip64 */
#define WINDOW_NBYTES (WIDE_NBYTES + LOCATOR_NBYTES + END_NBYTES)
#define SEARCH_NBYTES 4096 /* at once, when the end is looked for */
#define COMMENT_NBYTES_MAX 0xffff

#define END_MAGIC 0x06054b50u
#define LOCATOR_MAGIC 0x07064b50u
#define WIDE_MAGIC 0x06064b50u
#define ENTRY_MAGIC 0x02014b50u

static unsigned load_u16(const unsigned char *src)
{
    return (unsigned)src[0] | (unsigned)src[1] << 8;
}

/* What both kinds of end records say. */
typedef struct end_numbers {
    uint64_t count, nbytes, offset; /* of the directory */
} end_numbers;

/* A field of the short record that has room for its number says it as the long one does. */
static int agrees(uint64_t narrow, uint64_t wide, uint64_t none)
{
    return narrow == none || narrow == wide;
}

/* Reads the end record at the end of the window, with that of zip64 before it. Returns a fault, or NULL. */
static const char *parse(const unsigned char *window, end_numbers *numbers, uint64_t *records_nbytes)
{
    const unsigned char *const wide = window;
    const unsigned char *const locator = window + WIDE_NBYTES;
    const unsigned char *const end = locator + LOCATOR_NBYTES;
    const unsigned disk = load_u16(end + 4);
    if ((disk != 0 && disk != 0xffff) || load_u16(end + 6) != disk || load_u16(end + 8) != load_u16(end + 10))
        return "it is a part of a ZIP of several files";
    *numbers = (end_numbers){load_u16(end + 10), st_load_u32(end + 12), st_load_u32(end + 16)};
    *records_nbytes = END_NBYTES;
    if (st_load_u32(locator) != LOCATOR_MAGIC || st_load_u32(wide) != WIDE_MAGIC)
        return NULL;
    const end_numbers narrow = *numbers;
    *numbers = (end_numbers){st_load_u64(wide + 32), st_load_u64(wide + 40), st_load_u64(wide + 48)};
    *records_nbytes = WINDOW_NBYTES;
    if (st_load_u32(wide + 16) != 0 || st_load_u32(wide + 20) != 0 ||
        st_load_u64(wide + 24) != numbers->count)
        return "it is a part of a ZIP of several files";
    if (!agrees(narrow.count, numbers->count, 0xffff) ||
        !agrees(narrow.nbytes, numbers->nbytes, 0xffffffffu) ||
        !agrees(narrow.offset, numbers->offset, 0xffffffffu))
        return "its two end records contradict each other";
    return NULL;
}

/* *bytes: nbytes before `end`. */
static lmc_status look_before(const st_reading *reading, st_zip_search *search, uint64_t end, size_t nbytes,
                              const unsigned char **bytes, lmc_st_diag *diag)
{
    *bytes = os_window_find(&search->window, end - nbytes, nbytes);
    if (*bytes)
        return LMC_OK;
    const size_t read_nbytes = end < sizeof search->room ? (size_t)end : sizeof search->room;
    ST_TRY(os_input_read(reading->input, end - read_nbytes, search->room, read_nbytes, diag));
    search->window = (os_window){search->room, end - read_nbytes, end};
    *bytes = search->room + read_nbytes - nbytes;
    return LMC_OK;
}

/* 1 if an entry stands where the directory begins. */
static lmc_status look_at_directory(const st_reading *reading, const st_zip_search *search, uint64_t offset,
                                    int *is_there, lmc_st_diag *diag)
{
    unsigned char magic[4];
    const unsigned char *found = os_window_find(&search->window, offset, sizeof magic);
    if (!found) {
        ST_TRY(os_input_read(reading->input, offset, magic, sizeof magic, diag));
        found = magic;
    }
    *is_there = st_load_u32(found) == ENTRY_MAGIC;
    return LMC_OK;
}

/* The ZIP whose end record begins at `at`. *fault: as in the header. */
static lmc_status read_end(const st_reading *reading, st_zip_search *search, uint64_t at, st_zip_end *end,
                           const char **fault, lmc_st_diag *diag)
{
    unsigned char window[WINDOW_NBYTES] = {0};
    const unsigned char *found = NULL;
    end_numbers numbers = {0};
    uint64_t records_nbytes = 0;
    int is_there = 0;
    const size_t before = at < WINDOW_NBYTES - END_NBYTES ? (size_t)at : WINDOW_NBYTES - END_NBYTES;
    ST_TRY(look_before(reading, search, at + END_NBYTES, before + END_NBYTES, &found, diag));
    memcpy(window + WINDOW_NBYTES - END_NBYTES - before, found, before + END_NBYTES);
    if ((*fault = parse(window, &numbers, &records_nbytes)) != NULL)
        return LMC_OK;
    const uint64_t directory_end = at + END_NBYTES - records_nbytes;
    if (numbers.nbytes > directory_end || numbers.offset > directory_end - numbers.nbytes) {
        *fault = "its directory does not lie before its end record";
        return LMC_OK;
    }
    end->directory_offset = directory_end - numbers.nbytes;
    end->directory_nbytes = numbers.nbytes;
    end->begin = end->directory_offset - numbers.offset;
    end->entry_count = numbers.count;
    end->end = at + END_NBYTES + load_u16(window + WINDOW_NBYTES - 2);
    if (numbers.count > numbers.nbytes / ST_ZIP_ENTRY_NBYTES_MIN ||
        (numbers.count == 0 && numbers.nbytes > 0)) {
        *fault = "its directory does not have as many entries as its end record says";
        return LMC_OK;
    }
    if (numbers.count == 0)
        return LMC_OK;
    ST_TRY(look_at_directory(reading, search, end->directory_offset, &is_there, diag));
    if (!is_there)
        *fault = "there is no directory where its end record says";
    return LMC_OK;
}

/* The last end record that holds up, as far as it was looked for. */
typedef struct last_end {
    const st_reading *reading;
    st_zip_end *end;
    int is_there;
    const char *fault; /* of the last record that does not hold up; NULL: there is none */
    uint64_t fault_offset;
    st_zip_search search;
} last_end;

/* Looks at the bytes of a record at `at`. */
static lmc_status try_record(last_end *last, const unsigned char *record, uint64_t at, lmc_st_diag *diag)
{
    const uint64_t left = last->reading->input->nbytes - END_NBYTES - at;
    const char *fault = NULL;
    if (st_load_u32(record) != END_MAGIC)
        return LMC_OK;
    if (load_u16(record + 20) > left)
        fault = "its comment exceeds the file";
    else
        ST_TRY(read_end(last->reading, &last->search, at, last->end, &fault, diag));
    last->is_there = !fault;
    if (fault && !last->fault) {
        last->fault = fault;
        last->fault_offset = at;
    }
    return LMC_OK;
}

/* Through a window on the stack: a look at a file must not fail for memory. */
lmc_status st_zip_find_last(const st_reading *reading, st_zip_end *end, int *is_there, const char **fault,
                            uint64_t *fault_offset, lmc_st_diag *diag)
{
    unsigned char window[SEARCH_NBYTES + END_NBYTES - 1];
    const uint64_t nbytes = reading->input->nbytes;
    const uint64_t first =
        nbytes < END_NBYTES + COMMENT_NBYTES_MAX ? 0 : nbytes - END_NBYTES - COMMENT_NBYTES_MAX;
    uint64_t next = nbytes < END_NBYTES ? 0 : nbytes - END_NBYTES + 1;
    last_end last = {.reading = reading, .end = end};
    while (next > first && !last.is_there) {
        const uint64_t begin = next - first < SEARCH_NBYTES ? first : next - SEARCH_NBYTES;
        ST_TRY(os_input_read(reading->input, begin, window, (size_t)(next - begin) + END_NBYTES - 1, diag));
        for (; next > begin && !last.is_there; next--)
            ST_TRY(try_record(&last, window + (next - 1 - begin), next - 1, diag));
    }
    *is_there = last.is_there;
    *fault = last.fault;
    *fault_offset = last.fault_offset;
    return LMC_OK;
}

lmc_status st_zip_find_before(const st_reading *reading, st_zip_search *search, const st_zip_end *next,
                              st_zip_end *end, int *is_there, lmc_st_diag *diag)
{
    const unsigned char *record = NULL;
    const char *fault = NULL;
    *is_there = 0;
    if (next->begin < END_NBYTES)
        return LMC_OK;
    ST_TRY(look_before(reading, search, next->begin, END_NBYTES, &record, diag));
    if (st_load_u32(record) != END_MAGIC || load_u16(record + 20) != 0)
        return LMC_OK;
    ST_TRY(read_end(reading, search, next->begin - END_NBYTES, end, &fault, diag));
    *is_there = !fault && end->entry_count > 0;
    return LMC_OK;
}
