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
    st_segments *segments;
    st_zip *zip;
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

static int begins_with(st_string string, st_string start)
{
    return string.nbytes >= start.nbytes && memcmp(string.bytes, start.bytes, start.nbytes) == 0;
}

/* The plain entry of this name in the folder, or NULL. */
static const st_zip_entry *find_entry(const archive *archive, const char *name)
{
    const st_zip *const zip = archive->zip;
    for (size_t i = 0; i < zip->entry_count; i++) {
        const st_zip_entry *const entry = st_zip_entry_at(zip, i);
        const st_string found = st_zip_name(zip, entry);
        if (entry->is_plain && begins_with(found, archive->folder) &&
            st_string_equals(behind(found, archive->folder.nbytes), string_of(name)))
            return entry;
    }
    return NULL;
}

/* ---- storages ---- */

/* 1 if the entry is a storage of this part. *key: the rest of its name. */
static int is_storage(const archive *archive, const part *part, const st_zip_entry *entry, st_string *key)
{
    const st_string name = st_zip_name(archive->zip, entry);
    if (!entry->is_plain || !begins_with(name, archive->folder))
        return 0;
    *key = behind(name, archive->folder.nbytes);
    if (!begins_with(*key, string_of(part->folder)))
        return 0;
    *key = behind(*key, strlen(part->folder));
    return key->nbytes > 0;
}

/* ---- the pickle ---- */

static lmc_status read_pickle(const archive *archive, const part *part, st_storages *storages,
                              lmc_st_diag *diag)
{
    const st_reading *const reading = archive->segments->reading;
    const st_zip_entry *const entry = find_entry(archive, part->pickle);
    int is_unlike = 0;
    if (!entry || entry->nbytes > ST_PICKLE_NBYTES_MAX)
        return LMC_OK;
    LMC_TRY(st_storages_build_index(storages, &is_unlike, diag));
    if (!is_unlike)
        return LMC_OK;
    const size_t nbytes = (size_t)entry->nbytes;
    const st_string root = string_of(part->root);
    st_pickle pickle = {0};
    int is_understood = 0;
    unsigned char *const bytes = st_allocate(reading->memory, nbytes);
    if (!bytes)
        return st_fail_nomem(diag);
    lmc_status status = st_input_read(reading->input, entry->data_offset, bytes, nbytes, diag);
    if (status == LMC_OK)
        status =
            st_pickle_read(&pickle, reading->memory, reading->cancel, bytes, nbytes, &is_understood, diag);
    if (status == LMC_OK && is_understood)
        status = st_storages_find(storages, &pickle, root, diag);
    st_pickle_free(&pickle);
    st_release(reading->memory, bytes);
    return status;
}

/* ---- segments ---- */

/* A name in the file: the path, or the entry of the storage. */
static st_string name_of(const archive *archive, const st_storages *storages, const st_storage *storage,
                         uint64_t path_at, uint32_t path_nbytes)
{
    const st_zip_entry *const entry = st_zip_entry_at(archive->zip, storage->number);
    return path_nbytes > 0 ? st_storages_path(storages, path_at, path_nbytes)
                           : behind(st_zip_name(archive->zip, entry), archive->folder.nbytes);
}

static st_segment_view view_of(const archive *archive, const st_storages *storages, const st_storage *storage,
                               const st_storage_view *source)
{
    static const uint64_t one = 1;
    const uint64_t *const dims = st_storages_dims(storages, source);
    const st_string name = name_of(archive, storages, storage, source->path_at, source->path_nbytes);
    const int is_told = !source->note;
    return (st_segment_view){.name = name.bytes,
                             .name_nbytes = name.nbytes,
                             .dtype = is_told ? source->type.dtype : LMC_DTYPE_U8,
                             .shape = is_told ? dims : &storage->nbytes,
                             .strides = is_told ? dims + source->rank : &one,
                             .rank = is_told ? source->rank : 1,
                             .offset = is_told ? source->offset : 0,
                             .is_big_endian = is_told && archive->is_big_endian && source->is_typed,
                             .note = source->note};
}

/* The tensors on a storage; the first is the one that it has its name from. */
static lmc_status list_views(const archive *archive, const st_storages *storages, const st_storage *storage,
                             st_buffer *room, st_segment *segment, lmc_st_diag *diag)
{
    size_t count = 0;
    if (storage->first == 0 || storages->has_too_many_views)
        return LMC_OK;
    const st_storage_view *const only = st_storages_view(storages, storage->first - 1);
    if (storage->first == storage->last && !only->note && (storage->covering > 0 || only->is_alone) &&
        !archive->is_big_endian)
        return LMC_OK; /* the segment says all: it is one tensor as a whole */
    for (uint32_t next = storage->first; next > 0; next = st_storages_view(storages, next - 1)->next)
        count++;
    st_segment_view *const views =
        (void *)st_buffer_grow(archive->segments->reading->memory, room, count * sizeof *views);
    if (!views)
        return st_fail_nomem(diag);
    views[0] = view_of(archive, storages, storage, st_storages_view(storages, storage->named));
    count = 1;
    for (uint32_t next = storage->first; next > 0; next = st_storages_view(storages, next - 1)->next)
        if (next - 1 != storage->named)
            views[count++] = view_of(archive, storages, storage, st_storages_view(storages, next - 1));
    segment->views = views;
    segment->view_count = count;
    return LMC_OK;
}

static lmc_status add_storage(const archive *archive, const st_storages *storages, const st_storage *storage,
                              st_buffer *room, lmc_st_diag *diag)
{
    const st_zip_entry *const entry = st_zip_entry_at(archive->zip, storage->number);
    const st_string name = name_of(archive, storages, storage, storage->path_at, storage->path_nbytes);
    st_segment segment = {.offset = entry->data_offset,
                          .nbytes = entry->nbytes,
                          .dtype = storage->type.dtype,
                          .name = name.bytes,
                          .name_nbytes = name.nbytes};
    LMC_TRY(list_views(archive, storages, storage, room, &segment, diag));
    if (!storage->has_dtype && entry->nbytes >= SAMPLE_NBYTES_MIN)
        LMC_TRY(st_segments_guess(archive->segments->reading, segment.offset, segment.nbytes, &segment.dtype,
                                  diag));
    if (storage->covering > 0 && !archive->is_big_endian) {
        const st_storage_view *const view = st_storages_view(storages, storage->covering - 1);
        segment.shape = st_storages_dims(storages, view);
        segment.rank = view->rank;
    }
    return st_segments_add(archive->segments, &segment, diag);
}

static lmc_status add_part(const archive *archive, const part *part, lmc_st_diag *diag)
{
    st_storages storages = {.memory = archive->segments->reading->memory};
    st_buffer room = {0};
    const st_zip *const zip = archive->zip;
    st_string key;
    size_t count = 0;
    for (size_t i = 0; i < zip->entry_count; i++)
        count += (size_t)is_storage(archive, part, st_zip_entry_at(zip, i), &key);
    storages.list = st_allocate_zeroed(storages.memory, count, sizeof *storages.list);
    lmc_status status = storages.list ? LMC_OK : st_fail_nomem(diag);
    for (size_t i = 0; i < zip->entry_count && status == LMC_OK; i++) {
        st_zip_entry *const entry = st_zip_entry_at(zip, i);
        if (!is_storage(archive, part, entry, &key))
            continue;
        storages.list[storages.count++] =
            (st_storage){.key = key, .nbytes = entry->nbytes, .number = (uint32_t)i};
        entry->is_done = 1;
    }
    if (status == LMC_OK && storages.count > 0)
        status = read_pickle(archive, part, &storages, diag);
    for (size_t i = 0; i < storages.count && status == LMC_OK; i++)
        status = add_storage(archive, &storages, &storages.list[i], &room, diag);
    st_buffer_free(storages.memory, &room);
    st_storages_free(&storages);
    return status;
}

lmc_status st_torch_add(st_segments *segments, st_zip *zip, lmc_st_diag *diag)
{
    static const part data = {"data.pkl", "data/", ""};
    static const part constants = {"constants.pkl", "constants/", "constants"};
    archive archive = {.segments = segments, .zip = zip};
    for (size_t i = 0; i < zip->entry_count && !archive.folder.bytes; i++) {
        const st_string name = st_zip_name(zip, st_zip_entry_at(zip, i));
        const char *const slash = memchr(name.bytes, '/', name.nbytes);
        if (slash && slash != name.bytes &&
            st_string_equals(behind(name, (size_t)(slash - name.bytes)), string_of("/data.pkl")))
            archive.folder = (st_string){name.bytes, (size_t)(slash - name.bytes) + 1};
    }
    if (!archive.folder.bytes)
        return LMC_OK;
    char order[3];
    const st_zip_entry *const entry = find_entry(&archive, "byteorder");
    if (entry && entry->nbytes == sizeof order) {
        LMC_TRY(st_input_read(segments->reading->input, entry->data_offset, order, sizeof order, diag));
        archive.is_big_endian = memcmp(order, "big", sizeof order) == 0;
    }
    LMC_TRY(add_part(&archive, &data, diag));
    return add_part(&archive, &constants, diag);
}
