/*
 * torch.c - the entries of a torch archive:
 *
 *   FOLDER/data.pkl, FOLDER/data/KEY             the object, and its storages
 *   FOLDER/constants.pkl, FOLDER/constants/KEY   the same for constants of TorchScript
 *   FOLDER/byteorder                             "little" or "big"
 *
 * A pickle that is not understood leaves the storages with the names of their entries.
 */
#include "safetensors/container/torch.h"
#include "safetensors/container/torch_object.h"

/* What is shorter tells nothing of its dtype. */
#define SAMPLE_NBYTES_MIN 256

typedef struct archive {
    st_zip_segments *zip;
    st_string folder; /* with '/' */
    int is_big_endian;
} archive;

/* A pickle and the folder of its storages. */
typedef struct part {
    const char *pickle, *folder;
    const char *root; /* path of the object */
} part;

static st_string string_of(const char *text)
{
    return (st_string){text, strlen(text)};
}

static st_string behind(st_string string, size_t nbytes)
{
    return (st_string){string.bytes + nbytes, string.nbytes - nbytes};
}

/* Returns 1 if there is FOLDER/data.pkl. */
static int find_folder(const st_zip *zip, st_string *folder)
{
    static const char pickle[] = "/data.pkl";
    for (size_t i = 0; i < zip->entry_count; i++) {
        const st_string name = st_zip_name(zip, st_zip_entry_at(zip, i));
        const char *const slash = memchr(name.bytes, '/', name.nbytes);
        if (slash && slash != name.bytes &&
            st_string_equals(behind(name, (size_t)(slash - name.bytes)), string_of(pickle))) {
            *folder = (st_string){name.bytes, (size_t)(slash - name.bytes) + 1};
            return 1;
        }
    }
    return 0;
}

/* The plain entry of this name in the folder, or NULL. */
static const st_zip_entry *find_entry(const archive *archive, const char *name)
{
    const st_zip *const zip = &archive->zip->zip;
    for (size_t i = 0; i < zip->entry_count; i++) {
        const st_zip_entry *const entry = st_zip_entry_at(zip, i);
        const st_string found = st_zip_name(zip, entry);
        if (entry->is_plain && st_string_begins(found, archive->folder) &&
            st_string_equals(behind(found, archive->folder.nbytes), string_of(name)))
            return entry;
    }
    return NULL;
}

static lmc_status read_byte_order(archive *archive, lmc_st_diag *diag)
{
    const st_zip_entry *const entry = find_entry(archive, "byteorder");
    char order[3];
    if (!entry || entry->nbytes != sizeof order)
        return LMC_OK;
    ST_TRY(os_input_read(archive->zip->reading->input, entry->data_offset, order, sizeof order, diag));
    archive->is_big_endian = memcmp(order, "big", sizeof order) == 0;
    return LMC_OK;
}

/* ---- storages ---- */

/* 1 if the entry is a storage of this part. *key: the rest of its name. */
static int is_storage(const archive *archive, const part *part, const st_zip_entry *entry, st_string *key)
{
    const st_string name = st_zip_name(&archive->zip->zip, entry);
    if (!entry->is_plain || !st_string_begins(name, archive->folder))
        return 0;
    *key = behind(name, archive->folder.nbytes);
    if (!st_string_begins(*key, string_of(part->folder)))
        return 0;
    *key = behind(*key, strlen(part->folder));
    return key->nbytes > 0;
}

static lmc_status list_storages(const archive *archive, const part *part, st_storages *storages,
                                lmc_st_diag *diag)
{
    const st_zip *const zip = &archive->zip->zip;
    st_string key;
    size_t count = 0;
    for (size_t i = 0; i < zip->entry_count; i++)
        count += (size_t)is_storage(archive, part, st_zip_entry_at(zip, i), &key);
    storages->list = st_allocate_zeroed(zip->memory, count, sizeof *storages->list);
    if (!storages->list)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < zip->entry_count; i++) {
        st_zip_entry *const entry = st_zip_entry_at(zip, i);
        if (!is_storage(archive, part, entry, &key))
            continue;
        storages->list[storages->count++] =
            (st_storage){.key = key, .nbytes = entry->nbytes, .number = (uint32_t)i};
        entry->is_done = 1;
    }
    return LMC_OK;
}

/* ---- the pickle ---- */

static lmc_status understand(const archive *archive, const part *part, const unsigned char *bytes,
                             size_t nbytes, st_storages *storages, lmc_st_diag *diag)
{
    const st_reading *const reading = archive->zip->reading;
    st_pickle pickle = {0};
    int is_understood = 0;
    lmc_status status =
        st_pickle_read(&pickle, reading->memory, reading->cancel, bytes, nbytes, &is_understood, diag);
    if (status == LMC_OK && is_understood)
        status = st_storages_find(storages, &pickle, string_of(part->root), diag);
    st_pickle_free(&pickle);
    return status;
}

static lmc_status read_pickle(const archive *archive, const part *part, st_storages *storages,
                              lmc_st_diag *diag)
{
    const st_reading *const reading = archive->zip->reading;
    const st_zip_entry *const entry = find_entry(archive, part->pickle);
    int is_unlike = 0;
    if (!entry || entry->nbytes > ST_PICKLE_NBYTES_MAX)
        return LMC_OK;
    ST_TRY(st_storages_build_index(storages, &is_unlike, diag));
    if (!is_unlike)
        return LMC_OK;
    unsigned char *const bytes = st_allocate(reading->memory, (size_t)entry->nbytes);
    if (!bytes)
        return st_fail_nomem(diag);
    lmc_status status = os_input_read(reading->input, entry->data_offset, bytes, (size_t)entry->nbytes, diag);
    if (status == LMC_OK)
        status = understand(archive, part, bytes, (size_t)entry->nbytes, storages, diag);
    st_release(reading->memory, bytes);
    return status;
}

/* ---- segments ---- */

static lmc_status add_storage(const archive *archive, const st_storages *storages, const st_storage *storage,
                              lmc_st_diag *diag)
{
    const st_zip_entry *const entry = st_zip_entry_at(&archive->zip->zip, storage->number);
    st_string name = st_storage_path(storages, storage);
    if (name.nbytes == 0)
        name = behind(st_zip_name(&archive->zip->zip, entry), archive->folder.nbytes);
    if (!storage->has_dtype && entry->nbytes >= SAMPLE_NBYTES_MIN)
        return st_zip_add_guessed(archive->zip, name, entry->data_offset, entry->nbytes, diag);
    st_segment segment = {
        .offset = entry->data_offset, .nbytes = entry->nbytes, .dtype = storage->type.dtype};
    if (storage->has_shape && !archive->is_big_endian) {
        segment.shape = st_storage_dims(storages, storage);
        segment.rank = storage->rank;
    }
    return st_zip_add(archive->zip, name, &segment, diag);
}

static lmc_status add_part(const archive *archive, const part *part, lmc_st_diag *diag)
{
    st_storages storages = {.memory = archive->zip->reading->memory};
    lmc_status status = list_storages(archive, part, &storages, diag);
    if (status == LMC_OK && storages.count > 0)
        status = read_pickle(archive, part, &storages, diag);
    for (size_t i = 0; i < storages.count && status == LMC_OK; i++)
        status = add_storage(archive, &storages, &storages.list[i], diag);
    st_storages_free(&storages);
    return status;
}

lmc_status st_torch_add(st_zip_segments *zip, lmc_st_diag *diag)
{
    static const part data = {"data.pkl", "data/", ""};
    static const part constants = {"constants.pkl", "constants/", "constants"};
    archive archive = {.zip = zip};
    if (!find_folder(&zip->zip, &archive.folder))
        return LMC_OK;
    ST_TRY(read_byte_order(&archive, diag));
    ST_TRY(add_part(&archive, &data, diag));
    return add_part(&archive, &constants, diag);
}
