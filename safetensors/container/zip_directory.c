/*
 * zip_directory.c - reads the directory of a ZIP through a window that moves over it once.
 */
#include "safetensors/container/zip_directory.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#define ENTRY_MAGIC 0x02014b50u
#define LOCAL_MAGIC 0x04034b50u
#define LOCAL_NBYTES 30
#define LOCAL_WINDOW_NBYTES 2048
#define WIDE_EXTRA 1 /* the extra field of zip64 */

/* Has room for the longest entry. */
#define WINDOW_NBYTES ((size_t)1 << 18)

/* Bits of the flags: encrypted, patched, strongly encrypted, its local header masked. */
#define FLAGS_REFUSED 0x2061u

#define CANCEL_ENTRY_COUNT 1024u

typedef struct directory_reader {
    const st_reading *reading;
    const st_zip_end *end;
    st_zip *zip;
    uint64_t at, directory_end;
    os_window window;
    unsigned char *room;
} directory_reader;

static unsigned load_u16(const unsigned char *src)
{
    return (unsigned)src[0] | (unsigned)src[1] << 8;
}

static lmc_status fail_directory(const directory_reader *reader, lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_HEADER, reader->at,
                   "the directory of the ZIP does not hold up behind %llu of %llu entries",
                   (unsigned long long)reader->zip->entry_count,
                   (unsigned long long)reader->end->entry_count);
}

/* *bytes: the next nbytes of the directory, at most WINDOW_NBYTES. Error: HEADER, it has not so many; IO. */
static lmc_status look(directory_reader *reader, size_t nbytes, const unsigned char **bytes,
                       lmc_st_diag *diag)
{
    const uint64_t left = reader->directory_end - reader->at;
    if (nbytes > left)
        return fail_directory(reader, diag);
    *bytes = os_window_find(&reader->window, reader->at, nbytes);
    if (*bytes)
        return LMC_OK;
    const size_t window_nbytes = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
    ST_TRY(os_input_read(reader->reading->input, reader->at, reader->room, window_nbytes, diag));
    reader->window = (os_window){reader->room, reader->at, reader->at + window_nbytes};
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
        const size_t nbytes = load_u16(extra + at + 2);
        if (nbytes > extra_nbytes - at - 4)
            break;
        if (load_u16(extra + at) == WIDE_EXTRA) {
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
        *fields[i] = st_load_u64(wide);
        wide += 8;
        wide_nbytes -= 8;
    }
    return 1;
}

/* Says of the entry what can be told without its local header. */
static void parse_entry(const directory_reader *reader, const unsigned char *bytes, st_zip_entry *entry)
{
    entry_numbers numbers = {st_load_u32(bytes + 24), st_load_u32(bytes + 20), st_load_u32(bytes + 42)};
    const unsigned flags = load_u16(bytes + 8);
    const unsigned method = load_u16(bytes + 10);
    const uint64_t zip_nbytes = reader->end->directory_offset - reader->end->begin;
    entry->name_nbytes = (uint16_t)load_u16(bytes + 28);
    entry->is_plain =
        widen(&numbers, bytes + ST_ZIP_ENTRY_NBYTES_MIN + entry->name_nbytes, load_u16(bytes + 30)) &&
        method == 0 && (flags & FLAGS_REFUSED) == 0 && numbers.nbytes == numbers.stored_nbytes &&
        numbers.local_offset < zip_nbytes;
    entry->local_offset = reader->end->begin + (numbers.local_offset < zip_nbytes ? numbers.local_offset : 0);
    entry->nbytes = numbers.stored_nbytes;
}

static lmc_status keep_entry(directory_reader *reader, st_zip_entry *entry, const unsigned char *name,
                             lmc_st_diag *diag)
{
    st_zip *const zip = reader->zip;
    unsigned char *const room =
        st_buffer_extend(zip->memory, &zip->list, zip->entry_count * sizeof *entry, sizeof *entry);
    unsigned char *const name_room =
        st_buffer_extend(zip->memory, &zip->names, zip->names_nbytes, entry->name_nbytes);
    if (!room || !name_room)
        return st_fail_nomem(diag);
    entry->name_at = zip->names_nbytes;
    memcpy(room, entry, sizeof *entry);
    memcpy(name_room, name, entry->name_nbytes);
    zip->names_nbytes += entry->name_nbytes;
    zip->entry_count++;
    return LMC_OK;
}

static lmc_status read_entry(directory_reader *reader, lmc_st_diag *diag)
{
    const unsigned char *bytes = NULL;
    st_zip_entry entry = {0};
    ST_TRY(look(reader, ST_ZIP_ENTRY_NBYTES_MIN, &bytes, diag));
    if (st_load_u32(bytes) != ENTRY_MAGIC)
        return fail_directory(reader, diag);
    const size_t nbytes =
        (size_t)ST_ZIP_ENTRY_NBYTES_MIN + load_u16(bytes + 28) + load_u16(bytes + 30) + load_u16(bytes + 32);
    ST_TRY(look(reader, nbytes, &bytes, diag));
    parse_entry(reader, bytes, &entry);
    ST_TRY(keep_entry(reader, &entry, bytes + ST_ZIP_ENTRY_NBYTES_MIN, diag));
    reader->at += nbytes;
    return LMC_OK;
}

static lmc_status read_entries(directory_reader *reader, lmc_st_diag *diag)
{
    for (uint64_t i = 0; i < reader->end->entry_count; i++) {
        if (i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(reader->reading->cancel))
            return st_fail_cancelled(diag);
        ST_TRY(read_entry(reader, diag));
    }
    return reader->at == reader->directory_end ? LMC_OK : fail_directory(reader, diag);
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

static void sort_entries(st_zip *zip)
{
    for (size_t i = 1; i < zip->entry_count; i++)
        if (compare_places(st_zip_entry_at(zip, i - 1), st_zip_entry_at(zip, i)) > 0) {
            qsort(zip->list.bytes, zip->entry_count, sizeof(st_zip_entry), compare_places);
            return;
        }
}

typedef struct local_reader {
    const st_reading *reading;
    uint64_t plain_end; /* of the last plain entry so far */
    uint64_t data_end;  /* of the ZIP: its directory */
    os_window window;   /* short entries stand close to each other */
    unsigned char room[LOCAL_WINDOW_NBYTES];
} local_reader;

static lmc_status look_at_local(local_reader *reader, uint64_t offset, const unsigned char **bytes,
                                lmc_st_diag *diag)
{
    *bytes = os_window_find(&reader->window, offset, LOCAL_NBYTES);
    if (*bytes)
        return LMC_OK;
    const uint64_t left = reader->data_end - offset;
    const size_t nbytes = left < sizeof reader->room ? (size_t)left : sizeof reader->room;
    ST_TRY(os_input_read(reader->reading->input, offset, reader->room, nbytes, diag));
    reader->window = (os_window){reader->room, offset, offset + nbytes};
    *bytes = reader->room;
    return LMC_OK;
}

static lmc_status find_data(local_reader *reader, st_zip_entry *entry, lmc_st_diag *diag)
{
    const unsigned char *local = NULL;
    entry->is_plain = 0;
    if (entry->local_offset < reader->plain_end || reader->data_end - entry->local_offset < LOCAL_NBYTES)
        return LMC_OK;
    ST_TRY(look_at_local(reader, entry->local_offset, &local, diag));
    entry->data_offset = entry->local_offset + LOCAL_NBYTES + load_u16(local + 26) + load_u16(local + 28);
    entry->is_plain = st_load_u32(local) == LOCAL_MAGIC && load_u16(local + 8) == 0 &&
                      (load_u16(local + 6) & FLAGS_REFUSED) == 0 && entry->data_offset <= reader->data_end &&
                      entry->nbytes <= reader->data_end - entry->data_offset;
    if (entry->is_plain)
        reader->plain_end = entry->data_offset + entry->nbytes;
    return LMC_OK;
}

static lmc_status find_all_data(const st_reading *reading, const st_zip_end *end, st_zip *zip,
                                lmc_st_diag *diag)
{
    local_reader reader = {.reading = reading, .plain_end = end->begin, .data_end = end->directory_offset};
    sort_entries(zip);
    for (size_t i = 0; i < zip->entry_count; i++) {
        st_zip_entry *const entry = st_zip_entry_at(zip, i);
        if (i % CANCEL_ENTRY_COUNT == 0 && st_is_cancelled(reading->cancel))
            return st_fail_cancelled(diag);
        if (entry->is_plain)
            ST_TRY(find_data(&reader, entry, diag));
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
    reader.room =
        st_allocate(reading->memory,
                    end->directory_nbytes < WINDOW_NBYTES ? (size_t)end->directory_nbytes : WINDOW_NBYTES);
    if (!reader.room)
        return st_fail_nomem(diag);
    const lmc_status status = read_entries(&reader, diag);
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
