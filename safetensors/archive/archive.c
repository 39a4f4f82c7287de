/*
 * archive.c - opens a file, whatever kind it is. The table of an archive is compared with its two headers.
 */
#include "safetensors/archive/archive.h"

#include "common/text.h"
#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/table.h"
#include "safetensors/header/header.h"

#include <string.h>

/* ---- is it one? ---- */

static int has_table_name(const st_header *header)
{
    const size_t length = strlen(ST_ARCHIVE_TABLE_NAME);
    if (header->tensor_count == 0)
        return 0;
    const st_string name = st_header_name(header, 0);
    return name.nbytes >= length && memcmp(name.bytes, ST_ARCHIVE_TABLE_NAME, length) == 0;
}

static lmc_status detect_archive(const lmc_st_file *file, int *is_archive, lmc_st_diag *diag)
{
    char version[ST_METADATA_VERSION_NBYTES] = "";
    unsigned char magic[4];
    const st_header *const header = &file->header;
    const uint64_t table_at = 8 + header->text_nbytes;
    lmc_status status = LMC_OK;
    const int is_marked = st_metadata_is_marked(header, version, &status);
    *is_archive = 0;
    if (status != LMC_OK)
        return st_fail_nomem(diag);
    if (is_marked && strcmp(version, ST_MARK_VERSION) != 0) {
        char shown[48];
        lmc_text_escape(shown, sizeof shown, version, strlen(version));
        return st_fail(diag, LMC_ERR_UNSUPPORTED, 8 + header->metadata.offset,
                       "the archive needs a newer version: " ST_MARK_KEY " \"%s\"", shown);
    }
    *is_archive = is_marked;
    if (is_marked || !has_table_name(header) || header->tensors[0].end < sizeof magic ||
        file->input.nbytes - table_at < sizeof magic) /* possible in a file that may be short */
        return LMC_OK;
    LMC_TRY(st_input_read(&file->input, table_at, magic, sizeof magic, diag));
    return lmc_load32(magic) != ST_TABLE_MAGIC
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, 8,
                         "this was an LMC archive, but its __metadata__ no longer says so");
}

/* ---- the table ---- */

static lmc_status read_table(const lmc_st_file *file, st_table *table, lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    const uint64_t offset = 8 + header->text_nbytes;
    if (!has_table_name(header))
        return st_fail(
            diag, LMC_ERR_CORRUPT, 8 + header->metadata.offset,
            "the archive has no table: its __metadata__ say that it is one (\"format\": \"" ST_MARK_FORMAT
            "\", \"" ST_MARK_KEY "\": \"" ST_MARK_VERSION "\"), but no tensor \"" ST_ARCHIVE_TABLE_NAME
            "\" comes first; if it is a plain safetensors file, remove these two entries");
    const uint64_t table_nbytes = header->tensors[0].end;
    if (table_nbytes > file->input.nbytes - offset) /* possible in a file that may be short */
        return st_fail(diag, LMC_ERR_TRUNCATED, file->input.nbytes,
                       "the archive is cut short within its table: nothing can be read");
    unsigned char head[ST_TABLE_HEAD_NBYTES] = {0};
    const size_t head_nbytes = table_nbytes < sizeof head ? (size_t)table_nbytes : sizeof head;
    LMC_TRY(st_input_read(&file->input, offset, head, head_nbytes, diag));
    LMC_TRY(st_table_check_head(head, table_nbytes, header->tensor_count - 1, offset, diag));
    unsigned char *const bytes = st_allocate_array(&file->memory, table_nbytes + 1, 1);
    if (!bytes)
        return st_fail_nomem(diag);
    const size_t nbytes = (size_t)table_nbytes;
    lmc_status status = st_input_read(&file->input, offset, bytes, nbytes, diag);
    if (status == LMC_OK)
        status = st_table_read(table, &file->memory, bytes, nbytes, offset, diag);
    st_release(&file->memory, bytes);
    return status;
}

static lmc_status parse_original(const lmc_st_file *file, st_table *table, st_header *original,
                                 lmc_st_diag *diag)
{
    const int is_safetensors = table->layout.kind == LMC_ST_CONTAINER_SAFETENSORS;
    const uint64_t skeleton_nbytes =
        is_safetensors ? 8 + (uint64_t)table->header_nbytes : table->layout.skeleton_nbytes;
    if (table->original_nbytes < skeleton_nbytes)
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "the original file's stated size is smaller than %s",
                       is_safetensors ? "its header" : "what stands between its tensors");
    unsigned char *const text = table->header;
    table->header = NULL;
    const st_header_text source = {.text = text,
                                   .nbytes = table->header_nbytes,
                                   .offset = 8,
                                   .data_nbytes = table->original_nbytes - skeleton_nbytes,
                                   .has_views = !is_safetensors};
    const lmc_status status = st_file_parse_header(file, original, &source, diag);
    if (status == LMC_OK || status == LMC_ERR_NOMEM)
        return status;
    const lmc_st_diag cause = *diag;
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "the original header in the table: %.400s",
                   cause.text);
}

/* ---- the archive header against the original one ---- */

static lmc_status refuse_tensor(const st_header *header, size_t index, const char *fault, lmc_st_diag *diag)
{
    const st_string name = st_header_name(header, index);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "%s", fault);
}

/* *is_named: tensor `index` of the archive header has the name `wanted`, with as many `~` as this original asks for.
 * Error: NOMEM. */
static lmc_status check_free_name(const st_header *own, size_t index, const char *wanted,
                                  const st_header *original, int *is_named, lmc_st_diag *diag)
{
    char *const name = st_archive_free_name(wanted, original, original->memory);
    if (!name)
        return st_fail_nomem(diag);
    const st_string expected = {name, strlen(name)};
    *is_named = st_string_equals(st_header_name(own, index), expected);
    st_release(original->memory, name);
    return LMC_OK;
}

/* Frames are U8 tensors of one dimension, in the order of the tensors and with their names, behind the table. The
 * frames end at tensor frame_end of the archive header, where the skeleton stands if there is one. */
static lmc_status match_headers(const st_header *own, const st_header *original, const st_table *table,
                                lmc_st_diag *diag)
{
    const int has_skeleton = table->layout.kind != LMC_ST_CONTAINER_SAFETENSORS;
    const size_t frame_end = own->tensor_count - (size_t)has_skeleton; /* the table is there */
    int is_named = 0;
    for (size_t i = 0; i < original->tensor_count || i + 1 < frame_end; i++) {
        const int has_frame = i + 1 < frame_end;
        const int has_tensor = i < original->tensor_count;
        size_t found = 0;
        if (has_frame && has_tensor &&
            st_string_equals(st_header_name(own, i + 1), st_header_name(original, i)))
            continue;
        if (has_frame && !st_header_find(original, st_header_name(own, i + 1), &found))
            return refuse_tensor(own, i + 1, "the original file has no such tensor: a foreign frame", diag);
        if (!has_tensor)
            return refuse_tensor(own, i + 1, "the archive table does not count this frame", diag);
        const int is_elsewhere = st_header_find(own, st_header_name(original, i), &found);
        return refuse_tensor(
            original, i, is_elsewhere ? "its frame does not stand where it should" : "its frame is missing",
            diag);
    }
    for (size_t i = 0; i < own->tensor_count; i++)
        if (own->tensors[i].dtype != LMC_DTYPE_U8 || own->tensors[i].rank != 1)
            return refuse_tensor(own, i, "its frame is not a U8 tensor of one dimension", diag);
    LMC_TRY(check_free_name(own, 0, ST_ARCHIVE_TABLE_NAME, original, &is_named, diag));
    if (!is_named)
        return refuse_tensor(own, 0, "the archive table has another name than it should", diag);
    if (has_skeleton)
        LMC_TRY(check_free_name(own, frame_end, ST_ARCHIVE_SKELETON_NAME, original, &is_named, diag));
    if (!is_named)
        return refuse_tensor(own, frame_end, "it stands where the bytes between the tensors should", diag);
    if (table->tensor_count != original->tensor_count)
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "the archive table does not have as many hashes as there are tensors");
    if (st_hash(own->text, own->text_nbytes) != table->archive_header_hash)
        return st_fail(diag, LMC_ERR_CHECKSUM, 8, "the archive's header is not the one that was written");
    return LMC_OK;
}

/* ---- aliases ---- */

static lmc_status set_aliases(lmc_st_file *file, const st_header *original, const st_table *table,
                              lmc_st_diag *diag)
{
    if (table->alias_count == 0)
        return LMC_OK;
    file->frame_of = st_allocate(&file->memory, original->tensor_count * sizeof *file->frame_of);
    if (!file->frame_of)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < original->tensor_count; i++)
        file->frame_of[i] = (uint32_t)i;
    for (size_t i = 0; i < table->alias_count; i++) {
        const st_alias pair = table->aliases[i];
        const st_tensor *const alias = &original->tensors[pair.alias];
        const st_tensor *const owner = &original->tensors[pair.owner];
        const st_tensor *const frame = &file->header.tensors[pair.alias + 1];
        const int is_equal = alias->dtype == owner->dtype &&
                             alias->end - alias->begin == owner->end - owner->begin &&
                             table->hashes[pair.alias] == table->hashes[pair.owner];
        const char *const fault = frame->begin != frame->end ? "it is an alias, yet has a frame"
                                  : !is_equal                ? "it is an alias of a tensor that is not equal"
                                  : file->frame_of[pair.owner] != pair.owner ? "it is an alias of an alias"
                                                                             : NULL;
        if (fault)
            return refuse_tensor(original, pair.alias, fault, diag);
        file->frame_of[pair.alias] = pair.owner;
    }
    return LMC_OK;
}

/* ---- an archive ---- */

/* The places of the archive's own tensors become those of the frames. If the original is no safetensors file, it also
 * finds where the original's tensors are, and where the skeleton stands. */
static lmc_status set_places(lmc_st_file *file, const st_header *original, const st_table *table,
                             lmc_st_diag *diag)
{
    const st_layout *const layout = &table->layout;
    const size_t own_count = file->header.tensor_count;
    memmove(file->places, file->places + 1, own_count * sizeof *file->places);
    if (layout->kind == LMC_ST_CONTAINER_SAFETENSORS)
        return LMC_OK;
    file->skeleton = (st_skeleton_place){.nbytes = layout->skeleton_nbytes,
                                         .hash = layout->skeleton_hash,
                                         .offset = file->places[own_count - 2],
                                         .stored_nbytes = file->header.tensors[own_count - 1].end -
                                                          file->header.tensors[own_count - 1].begin};
    file->origins = st_allocate(&file->memory, (original->tensor_count + 1) * sizeof *file->origins);
    if (!file->origins)
        return st_fail_nomem(diag);
    return st_layout_places(layout, original, file->origins)
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "the archive table's list of gaps contradicts the file's size");
}

static lmc_status read_archive(lmc_st_file *file, st_table *table, st_header *original, lmc_st_diag *diag)
{
    LMC_TRY(read_table(file, table, diag));
    LMC_TRY(parse_original(file, table, original, diag));
    LMC_TRY(match_headers(&file->header, original, table, diag));
    LMC_TRY(set_aliases(file, original, table, diag));
    /* no frame is so short that its tensor cannot be in it: callers take memory for a tensor before they read it */
    for (size_t i = 0; i < original->tensor_count; i++) {
        const uint64_t nbytes = original->tensors[i].end - original->tensors[i].begin;
        const st_tensor *const frame = &file->header.tensors[st_file_owner(file, i) + 1];
        if (nbytes > 0 && (nbytes - 1) / LMC_EXPANSION_MAX >= frame->end - frame->begin)
            return refuse_tensor(original, i, "its frame is too short for so much content", diag);
    }
    /* whether the base of a link can be one is found when that is opened */
    for (size_t i = 0; i < table->bases.link_count; i++) {
        const st_link link = table->bases.links[i];
        if (st_file_owner(file, link.tensor) != link.tensor)
            return refuse_tensor(original, link.tensor, "it is an alias, yet has a base", diag);
        if (link.place == LMC_ST_BASE_SELF && st_file_owner(file, link.base) != link.base)
            return refuse_tensor(original, link.tensor, "its base is an alias", diag);
    }
    file->bases = table->bases;
    memset(&table->bases, 0, sizeof table->bases);
    return set_places(file, original, table, diag);
}

static lmc_status open_archive(lmc_st_file *file, lmc_st_diag *diag)
{
    st_table table = {0};
    st_header original = {0};
    const lmc_status status = read_archive(file, &table, &original, diag);
    if (status == LMC_OK) {
        file->container = table.layout.kind;
        file->original_nbytes = table.original_nbytes;
        file->hashes = table.hashes;
        table.hashes = NULL;
        st_header_free(&file->header);
        file->header = original;
    } else {
        st_header_free(&original);
    }
    st_table_free(&table);
    return status;
}

/* ---- any file ---- */

static lmc_status read_contents(lmc_st_file *file, const st_open *how, lmc_st_diag *diag)
{
    st_contents contents;
    if (how->read)
        st_input_open_from(&file->input, how->read, how->user, how->nbytes);
    else
        LMC_TRY(how->fd < 0 ? st_input_open(&file->input, how->path, diag)
                            : st_input_open_fd(&file->input, how->fd, how->cancel, diag));
    const st_reading reading = {.input = &file->input,
                                .path = how->path,
                                .memory = &file->memory,
                                .cancel = how->cancel,
                                .may_be_short = how->may_be_short,
                                .is_raw_allowed = how->is_raw_allowed,
                                .parse = st_file_parse_header,
                                .user = file};
    LMC_TRY(st_contents_read(&reading, &contents, diag));
    file->container = contents.kind;
    file->header = contents.header;
    file->places = contents.places;
    if (contents.kind == LMC_ST_CONTAINER_SAFETENSORS)
        LMC_TRY(detect_archive(file, &file->is_archive, diag));
    if (file->is_archive)
        LMC_TRY(open_archive(file, diag));
    lmc_store64(file->header_length, file->header.text_nbytes);
    if (!file->is_archive)
        file->original_nbytes = file->input.nbytes;
    /* the skeleton of a plain file is what is no tensor; of an archive of a safetensors file, its header */
    if (!file->is_archive || file->container == LMC_ST_CONTAINER_SAFETENSORS)
        file->skeleton.nbytes = file->original_nbytes - file->header.data_nbytes;
    return LMC_OK;
}

/* 0 for a file in memory, or a removed one: its path is that of a descriptor, as /proc/self/fd/9, and leads to nothing
 * that belongs to it. Some file systems count no names at all. */
static int has_name(const lmc_st_file *file)
{
    os_state found;
    return file->input.state.name_count > 0 ||
           (os_lstat(OS_HERE, file->path, &found) == 0 && os_is_same_file(&file->input.state, &found));
}

lmc_status st_handle_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = !how->allocator ? &lmc_memory_default : how->allocator;
    *file = NULL;
    st_diag_init(diag, how->path);
    lmc_st_file *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
    if (!opened)
        return st_fail_nomem(diag);
    opened->memory = *memory;
    opened->input.fd = -1;
    pthread_mutex_init(&opened->shapes_lock, NULL);
    opened->dependent = opened->owner = how->dependent;
    opened->path = st_duplicate(memory, how->path);
    const lmc_status status = !opened->path ? st_fail_nomem(diag) : read_contents(opened, how, diag);
    if (status != LMC_OK) {
        st_handle_close(opened);
        return status;
    }
    opened->is_from_path = how->fd < 0 && !how->read && has_name(opened);
    *file = opened;
    return LMC_OK;
}
