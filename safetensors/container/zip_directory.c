/*
 * zip_directory.c - finds end records, from the end of a file backward. A ZIP begins where its directory says that it
 * does, counted back from its end record: that is how Python's zipfile and torch read it. And reads directories
 * through a window that moves over each once.
 */
#include "safetensors/container/zip_directory.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#define END_NBYTES 22
#define LOCATOR_NBYTES 20
#define WIDE_NBYTES 56 /* the end record of zip64 */
#define WINDOW_NBYTES (WIDE_NBYTES + LOCATOR_NBYTES + END_NBYTES)
#define SEARCH_NBYTES 4096 /* at once, when the end is looked for */
#define COMMENT_NBYTES_MAX 0xffff

#define LOCATOR_MAGIC 0x07064b50u
#define WIDE_MAGIC 0x06064b50u
#define ENTRY_MAGIC 0x02014b50u

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
static const char *read_records(const unsigned char *window, end_numbers *numbers, uint64_t *records_nbytes)
{
    const unsigned char *const wide = window;
    const unsigned char *const locator = window + WIDE_NBYTES;
    const unsigned char *const end = locator + LOCATOR_NBYTES;
    const unsigned disk = lmc_load16(end + 4);
    if ((disk != 0 && disk != 0xffff) || lmc_load16(end + 6) != disk ||
        lmc_load16(end + 8) != lmc_load16(end + 10))
        return "it is a part of a ZIP of several files";
    *numbers = (end_numbers){lmc_load16(end + 10), lmc_load32(end + 12), lmc_load32(end + 16)};
    *records_nbytes = END_NBYTES;
    if (lmc_load32(locator) != LOCATOR_MAGIC || lmc_load32(wide) != WIDE_MAGIC)
        return NULL;
    const end_numbers narrow = *numbers;
    *numbers = (end_numbers){lmc_load64(wide + 32), lmc_load64(wide + 40), lmc_load64(wide + 48)};
    *records_nbytes = WINDOW_NBYTES;
    if (lmc_load32(wide + 16) != 0 || lmc_load32(wide + 20) != 0 || lmc_load64(wide + 24) != numbers->count)
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
    *bytes = st_window_find(&search->window, end - nbytes, nbytes);
    if (*bytes)
        return LMC_OK;
    const size_t read_nbytes = end < sizeof search->room ? (size_t)end : sizeof search->room;
    LMC_TRY(st_input_read(reading->input, end - read_nbytes, search->room, read_nbytes, diag));
    search->window = (st_window){search->room, end - read_nbytes, end};
    *bytes = search->room + read_nbytes - nbytes;
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
    const size_t before = at < WINDOW_NBYTES - END_NBYTES ? (size_t)at : WINDOW_NBYTES - END_NBYTES;
    LMC_TRY(look_before(reading, search, at + END_NBYTES, before + END_NBYTES, &found, diag));
    memcpy(window + WINDOW_NBYTES - END_NBYTES - before, found, before + END_NBYTES);
    if ((*fault = read_records(window, &numbers, &records_nbytes)) != NULL)
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
    end->end = at + END_NBYTES + lmc_load16(window + WINDOW_NBYTES - 2);
    if (numbers.count > numbers.nbytes / ST_ZIP_ENTRY_NBYTES_MIN ||
        (numbers.count == 0 && numbers.nbytes > 0)) {
        *fault = "its directory does not have as many entries as its end record says";
        return LMC_OK;
    }
    if (numbers.count == 0)
        return LMC_OK;
    unsigned char magic[4];
    const unsigned char *entry = st_window_find(&search->window, end->directory_offset, sizeof magic);
    if (!entry) {
        LMC_TRY(st_input_read(reading->input, end->directory_offset, magic, sizeof magic, diag));
        entry = magic;
    }
    if (lmc_load32(entry) != ENTRY_MAGIC)
        *fault = "there is no directory where its end record says";
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
    st_zip_search search = {0};
    *is_there = 0;
    *fault = NULL; /* of the last record that does not hold up */
    *fault_offset = 0;
    while (next > first && !*is_there) {
        const uint64_t begin = next - first < SEARCH_NBYTES ? first : next - SEARCH_NBYTES;
        LMC_TRY(st_input_read(reading->input, begin, window, (size_t)(next - begin) + END_NBYTES - 1, diag));
        for (; next > begin && !*is_there; next--) {
            const uint64_t at = next - 1;
            const unsigned char *const record = window + (at - begin);
            const char *found = NULL;
            if (lmc_load32(record) != ST_ZIP_END_MAGIC)
                continue;
            if (lmc_load16(record + 20) > nbytes - END_NBYTES - at)
                found = "its comment exceeds the file";
            else
                LMC_TRY(read_end(reading, &search, at, end, &found, diag));
            *is_there = !found;
            if (found && !*fault) {
                *fault = found;
                *fault_offset = at;
            }
        }
    }
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
    LMC_TRY(look_before(reading, search, next->begin, END_NBYTES, &record, diag));
    if (lmc_load32(record) != ST_ZIP_END_MAGIC || lmc_load16(record + 20) != 0)
        return LMC_OK;
    LMC_TRY(read_end(reading, search, next->begin - END_NBYTES, end, &fault, diag));
    *is_there = !fault && end->entry_count > 0;
    return LMC_OK;
}

/* ---- directories ---- */

#define LOCAL_NBYTES 30
#define LOCAL_WINDOW_NBYTES 2048
#define WIDE_EXTRA 1 /* the extra field of zip64 */

/* Has room for the longest entry. */
#define ENTRIES_WINDOW_NBYTES ((size_t)1 << 18)

/* Bits of the flags: encrypted, patched, strongly encrypted, its local header masked. */
#define FLAGS_REFUSED 0x2061u

#define CANCEL_ENTRY_COUNT 1024u

typedef struct directory_reader {
    const st_reading *reading;
    const st_zip_end *end;
    st_zip *zip;
    uint64_t at, directory_end;
    st_window window;
    unsigned char *room;
} directory_reader;

static lmc_status fail_directory(const directory_reader *reader, lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_HEADER, reader->at,
                   "the directory of the ZIP does not hold up behind %llu of %llu entries",
                   (unsigned long long)reader->zip->entry_count,
                   (unsigned long long)reader->end->entry_count);
}

/* *bytes: the next nbytes of the directory, at most ENTRIES_WINDOW_NBYTES. Error: HEADER, it has not so many; IO. */
static lmc_status look(directory_reader *reader, size_t nbytes, const unsigned char **bytes,
                       lmc_st_diag *diag)
{
    const uint64_t left = reader->directory_end - reader->at;
    if (nbytes > left)
        return fail_directory(reader, diag);
    *bytes = st_window_find(&reader->window, reader->at, nbytes);
    if (*bytes)
        return LMC_OK;
    const size_t window_nbytes = left < ENTRIES_WINDOW_NBYTES ? (size_t)left : ENTRIES_WINDOW_NBYTES;
    LMC_TRY(st_input_read(reader->reading->input, reader->at, reader->room, window_nbytes, diag));
    reader->window = (st_window){reader->room, reader->at, reader->at + window_nbytes};
    *bytes = reader->room;
    return LMC_OK;
}

/* ---- an entry ---- */

typedef struct entry_numbers {
    uint64_t nbytes, stored_nbytes, local_offset;
} entry_numbers;

/* Fields that have no room for their number stand in an extra field. Returns 0: they do not. */
static int widen(entry_numbers *numbers, const unsigned char *extra, size_t extra_nbytes)
{
    uint64_t *const fields[] = {&numbers->nbytes, &numbers->stored_nbytes, &numbers->local_offset};
    const unsigned char *wide = NULL;
    size_t wide_nbytes = 0;
    for (size_t at = 0; !wide && extra_nbytes - at >= 4;) {
        const size_t nbytes = lmc_load16(extra + at + 2);
        if (nbytes > extra_nbytes - at - 4)
            break;
        if (lmc_load16(extra + at) == WIDE_EXTRA) {
            wide = extra + at + 4;
            wide_nbytes = nbytes;
        }
        at += 4 + nbytes;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (*fields[i] != 0xffffffffu)
            continue;
        if (wide_nbytes < 8)
            return 0;
        *fields[i] = lmc_load64(wide);
        wide += 8;
        wide_nbytes -= 8;
    }
    return 1;
}

/* Keeps what can be said of the next entry without its local header. */
static lmc_status read_entry(directory_reader *reader, lmc_st_diag *diag)
{
    st_zip *const zip = reader->zip;
    const unsigned char *bytes = NULL;
    LMC_TRY(look(reader, ST_ZIP_ENTRY_NBYTES_MIN, &bytes, diag));
    if (lmc_load32(bytes) != ENTRY_MAGIC)
        return fail_directory(reader, diag);
    const size_t nbytes = (size_t)ST_ZIP_ENTRY_NBYTES_MIN + lmc_load16(bytes + 28) + lmc_load16(bytes + 30) +
                          lmc_load16(bytes + 32);
    LMC_TRY(look(reader, nbytes, &bytes, diag));
    entry_numbers numbers = {lmc_load32(bytes + 24), lmc_load32(bytes + 20), lmc_load32(bytes + 42)};
    const unsigned flags = lmc_load16(bytes + 8);
    const unsigned method = lmc_load16(bytes + 10);
    const uint64_t zip_nbytes = reader->end->directory_offset - reader->end->begin;
    const unsigned char *const name = bytes + ST_ZIP_ENTRY_NBYTES_MIN;
    st_zip_entry entry = {.name_nbytes = (uint16_t)lmc_load16(bytes + 28), .name_at = zip->names_nbytes};
    entry.is_plain = widen(&numbers, name + entry.name_nbytes, lmc_load16(bytes + 30)) && method == 0 &&
                     (flags & FLAGS_REFUSED) == 0 && numbers.nbytes == numbers.stored_nbytes &&
                     numbers.local_offset < zip_nbytes;
    entry.local_offset = reader->end->begin + (numbers.local_offset < zip_nbytes ? numbers.local_offset : 0);
    entry.nbytes = numbers.stored_nbytes;
    unsigned char *const room =
        st_buffer_extend(zip->memory, &zip->list, zip->entry_count * sizeof entry, sizeof entry);
    unsigned char *const name_room =
        st_buffer_extend(zip->memory, &zip->names, zip->names_nbytes, entry.name_nbytes);
    if (!room || !name_room)
        return st_fail_nomem(diag);
    memcpy(room, &entry, sizeof entry);
    memcpy(name_room, name, entry.name_nbytes);
    zip->names_nbytes += entry.name_nbytes;
    zip->entry_count++;
    reader->at += nbytes;
    return LMC_OK;
}

/* ---- where the data are ---- */

/* By the places of local headers, then by the order of the directory. */
static int compare_places(const void *left, const void *right)
{
    const st_zip_entry *const a = left;
    const st_zip_entry *const b = right;
    if (a->local_offset != b->local_offset)
        return a->local_offset < b->local_offset ? -1 : 1;
    return a->name_at < b->name_at ? -1 : a->name_at > b->name_at;
}

static lmc_status find_all_data(const st_reading *reading, const st_zip_end *end, st_zip *zip,
                                lmc_st_diag *diag)
{
    uint64_t plain_end = end->begin;                 /* of the last plain entry so far */
    const uint64_t data_end = end->directory_offset; /* of the ZIP: its directory */
    st_window window = {0};                          /* short entries stand close to each other */
    unsigned char room[LOCAL_WINDOW_NBYTES];
    int is_sorted = 1;
    for (size_t i = 1; i < zip->entry_count && is_sorted; i++)
        is_sorted = compare_places(st_zip_entry_at(zip, i - 1), st_zip_entry_at(zip, i)) <= 0;
    if (!is_sorted)
        qsort(zip->list.bytes, zip->entry_count, sizeof(st_zip_entry), compare_places);
    for (size_t i = 0; i < zip->entry_count; i++) {
        st_zip_entry *const entry = st_zip_entry_at(zip, i);
        if (i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(reading->cancel))
            return st_fail_cancelled(diag);
        if (!entry->is_plain)
            continue;
        entry->is_plain = 0;
        if (entry->local_offset < plain_end || data_end - entry->local_offset < LOCAL_NBYTES)
            continue;
        const unsigned char *local = st_window_find(&window, entry->local_offset, LOCAL_NBYTES);
        if (!local) {
            const uint64_t left = data_end - entry->local_offset;
            const size_t nbytes = left < sizeof room ? (size_t)left : sizeof room;
            LMC_TRY(st_input_read(reading->input, entry->local_offset, room, nbytes, diag));
            window = (st_window){room, entry->local_offset, entry->local_offset + nbytes};
            local = room;
        }
        entry->data_offset =
            entry->local_offset + LOCAL_NBYTES + lmc_load16(local + 26) + lmc_load16(local + 28);
        entry->is_plain = lmc_load32(local) == ST_ZIP_LOCAL_MAGIC && lmc_load16(local + 8) == 0 &&
                          (lmc_load16(local + 6) & FLAGS_REFUSED) == 0 && entry->data_offset <= data_end &&
                          entry->nbytes <= data_end - entry->data_offset;
        if (entry->is_plain)
            plain_end = entry->data_offset + entry->nbytes;
    }
    return LMC_OK;
}

lmc_status st_zip_read(const st_reading *reading, const st_zip_end *end, st_zip *zip, lmc_st_diag *diag)
{
    directory_reader reader = {.reading = reading,
                               .end = end,
                               .zip = zip,
                               .at = end->directory_offset,
                               .directory_end = end->directory_offset + end->directory_nbytes};
    *zip = (st_zip){.memory = reading->memory};
    if (end->entry_count > ST_ZIP_ENTRY_COUNT_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, end->directory_offset, "the ZIP has more than %llu entries",
                       (unsigned long long)ST_ZIP_ENTRY_COUNT_MAX);
    if (end->entry_count == 0)
        return LMC_OK;
    reader.room = st_allocate(reading->memory, end->directory_nbytes < ENTRIES_WINDOW_NBYTES
                                                   ? (size_t)end->directory_nbytes
                                                   : ENTRIES_WINDOW_NBYTES);
    if (!reader.room)
        return st_fail_nomem(diag);
    lmc_status status = LMC_OK;
    for (uint64_t i = 0; i < end->entry_count && status == LMC_OK; i++)
        status = i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(reading->cancel) ? st_fail_cancelled(diag)
                                                                                 : read_entry(&reader, diag);
    if (status == LMC_OK && reader.at != reader.directory_end)
        status = fail_directory(&reader, diag);
    st_release(reading->memory, reader.room);
    return status != LMC_OK ? status : find_all_data(reading, end, zip, diag);
}

void st_zip_free(st_zip *zip)
{
    st_buffer_free(zip->memory, &zip->list);
    st_buffer_free(zip->memory, &zip->names);
}

st_zip_entry *st_zip_entry_at(const st_zip *zip, size_t index)
{
    return (st_zip_entry *)(void *)zip->list.bytes + index;
}

st_string st_zip_name(const st_zip *zip, const st_zip_entry *entry)
{
    return (st_string){(const char *)zip->names.bytes + entry->name_at, entry->name_nbytes};
}
