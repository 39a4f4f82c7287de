/*
 * archive.c - opening an archive: its table, the original header in it, and whether they and the
 * archive's own header describe the same tensors (docs/archive.md, section 6).
 */
#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/file.h"
#include "safetensors/archive/table.h"
#include "safetensors/common/text.h"
#include "safetensors/header/metadata.h"

#include <string.h>

/* ---- is it one? ---- */

static int has_table_name(const st_header *outer)
{
    const size_t length = strlen(ST_OUTER_TABLE_NAME);
    if (outer->tensor_count == 0)
        return 0;
    const st_string name = st_header_name(outer, 0);
    return name.nbytes >= length && memcmp(name.bytes, ST_OUTER_TABLE_NAME, length) == 0;
}

/* 1 if the first tensor has the name and the first bytes of a table. */
static int has_table(const lmc_st_file *file, lmc_status *status, lmc_st_diag *diag)
{
    unsigned char magic[4];
    const st_header *const outer = &file->header;
    const uint64_t offset = 8 + outer->text_nbytes;
    if (!has_table_name(outer) || outer->tensors[0].end < sizeof magic ||
        file->input.nbytes - offset < sizeof magic) /* possible in a file that may be short */
        return 0;
    *status = os_input_read(&file->input, offset, magic, sizeof magic, diag);
    return *status == LMC_OK && st_load_u32(magic) == ST_TABLE_MAGIC;
}

int st_archive_detect(const lmc_st_file *file, lmc_status *status, lmc_st_diag *diag)
{
    char version[ST_METADATA_VERSION_NBYTES] = "";
    const int is_marked = st_metadata_is_marked(&file->header, version, status);
    if (*status != LMC_OK) {
        *status = st_fail_nomem(diag);
        return 0;
    }
    if (is_marked && strcmp(version, "1") != 0) {
        char shown[48];
        st_text_escape(shown, sizeof shown, version, strlen(version));
        *status = st_fail(diag, LMC_ERR_UNSUPPORTED, 8 + file->header.metadata.offset,
                          "the archive needs a newer version: lmc_archive \"%s\"", shown);
        return 0;
    }
    if (!is_marked && has_table(file, status, diag)) {
        *status = st_fail(diag, LMC_ERR_CORRUPT, 8,
                          "this was an LMC archive, but its __metadata__ no longer says so");
        return 0;
    }
    return is_marked;
}

/* ---- the table ---- */

static lmc_status read_table(const lmc_st_file *file, st_table *table, lmc_st_diag *diag)
{
    const st_header *const outer = &file->header;
    const uint64_t offset = 8 + outer->text_nbytes;
    if (!has_table_name(outer)) {
        return st_fail(diag, LMC_ERR_CORRUPT, 8 + outer->metadata.offset,
                       "the archive has no table: its __metadata__ say that it is one (\"format\": \"lmc\", "
                       "\"lmc_archive\": \"1\"), but no tensor \"" ST_OUTER_TABLE_NAME
                       "\" comes first; if it is a plain safetensors file, remove these two entries");
    }
    const uint64_t table_nbytes = outer->tensors[0].end;
    if (table_nbytes > file->input.nbytes - offset) { /* possible in a file that may be short */
        return st_fail(diag, LMC_ERR_TRUNCATED, file->input.nbytes,
                       "the archive is cut short within its table: nothing can be read");
    }
    unsigned char head[ST_TABLE_HEAD_NBYTES] = {0};
    const size_t head_nbytes = table_nbytes < sizeof head ? (size_t)table_nbytes : sizeof head;
    lmc_status status = os_input_read(&file->input, offset, head, head_nbytes, diag);
    if (status == LMC_OK)
        status = st_table_check_head(head, table_nbytes, outer->tensor_count - 1, offset, diag);
    if (status != LMC_OK)
        return status;
    unsigned char *const bytes = st_allocate_array(&file->memory, table_nbytes + 1, 1);
    if (!bytes)
        return st_fail_nomem(diag);
    const size_t nbytes = (size_t)table_nbytes;
    status = os_input_read(&file->input, offset, bytes, nbytes, diag);
    if (status == LMC_OK)
        status = st_table_read(table, &file->memory, bytes, nbytes, offset, diag);
    st_release(&file->memory, bytes);
    return status;
}

static lmc_status parse_original(const lmc_st_file *file, st_table *table, st_header *original,
                                 lmc_st_diag *diag)
{
    const uint64_t before_data = 8 + (uint64_t)table->header_nbytes;
    if (table->file_nbytes < before_data) {
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "the original file's stated size is smaller than its header");
    }
    unsigned char *const text = table->header;
    table->header = NULL;
    const st_header_text source = {text, table->header_nbytes, 8, table->file_nbytes - before_data, 0};
    const lmc_status status = st_file_parse_header(file, original, &source, diag);
    if (status != LMC_OK && status != LMC_ERR_NOMEM) {
        char cause[sizeof diag->text];
        memcpy(cause, diag->text, sizeof cause);
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "the original header in the table: %.400s",
                       cause);
    }
    return status;
}

/* ---- the outer header against the original one ---- */

static lmc_status refuse_frame(const st_header *header, size_t index, const char *fault, lmc_st_diag *diag)
{
    const st_string name = st_header_name(header, index);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "%s", fault);
}

/* Names frame `outer_index` and tensor `index`, which should go together: one of them may be past the
 * end of its list. */
static lmc_status refuse_pair(const st_header *outer, size_t outer_index, const st_header *original,
                              size_t index, lmc_st_diag *diag)
{
    size_t found = 0;
    if (outer_index < outer->tensor_count &&
        !st_header_find(original, st_header_name(outer, outer_index), &found)) {
        return refuse_frame(outer, outer_index, "the original file has no such tensor: a foreign frame",
                            diag);
    }
    if (index < original->tensor_count && !st_header_find(outer, st_header_name(original, index), &found))
        return refuse_frame(original, index, "its frame is missing", diag);
    if (index < original->tensor_count)
        return refuse_frame(original, index, "its frame does not stand where it should", diag);
    return refuse_frame(outer, outer_index, "the archive table does not count this frame", diag);
}

static int is_same_name(const st_header *outer, size_t outer_index, const st_header *original, size_t index)
{
    const st_string a = st_header_name(outer, outer_index);
    const st_string b = st_header_name(original, index);
    return a.nbytes == b.nbytes && memcmp(a.bytes, b.bytes, a.nbytes) == 0;
}

static lmc_status match_frames(const st_header *outer, const st_header *original, lmc_st_diag *diag)
{
    for (size_t i = 0; i < original->tensor_count || i + 1 < outer->tensor_count; i++)
        if (i >= original->tensor_count || i + 1 >= outer->tensor_count ||
            !is_same_name(outer, i + 1, original, i))
            return refuse_pair(outer, i + 1, original, i, diag);
    for (size_t i = 0; i < outer->tensor_count; i++)
        if (outer->tensors[i].dtype != LMC_DTYPE_U8 || outer->tensors[i].rank != 1)
            return refuse_frame(outer, i, "its frame is not a U8 tensor of one dimension", diag);
    return LMC_OK;
}

static lmc_status match_table_name(const st_header *outer, const st_header *original, lmc_st_diag *diag)
{
    char *const expected = st_outer_table_name(original, original->memory);
    if (!expected)
        return st_fail_nomem(diag);
    const st_string name = st_header_name(outer, 0);
    const int is_equal = name.nbytes == strlen(expected) && memcmp(name.bytes, expected, name.nbytes) == 0;
    st_release(original->memory, expected);
    return is_equal ? LMC_OK
                    : refuse_frame(outer, 0, "the archive table has another name than it should", diag);
}

static lmc_status match_headers(const st_header *outer, const st_header *original, const st_table *table,
                                lmc_st_diag *diag)
{
    lmc_status status = match_frames(outer, original, diag);
    if (status == LMC_OK)
        status = match_table_name(outer, original, diag);
    if (status != LMC_OK)
        return status;
    if (table->tensor_count != original->tensor_count) {
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "the archive table does not have as many hashes as there are tensors");
    }
    if (st_hash(outer->text, outer->text_nbytes) != table->outer_hash)
        return st_fail(diag, LMC_ERR_CHECKSUM, 8, "the archive's header is not the one that was written");
    return LMC_OK;
}

/* ---- aliases ---- */

/* Why these two tensors cannot share a frame; NULL if they can. */
static const char *alias_fault(const st_header *outer, const st_header *original, const st_table *table,
                               st_alias pair)
{
    const st_tensor *const alias = &original->tensors[pair.alias];
    const st_tensor *const owner = &original->tensors[pair.owner];
    const st_tensor *const frame = &outer->tensors[pair.alias + 1];
    if (frame->begin != frame->end)
        return "it is an alias, yet has a frame";
    if (alias->dtype != owner->dtype || alias->end - alias->begin != owner->end - owner->begin ||
        table->hashes[pair.alias] != table->hashes[pair.owner])
        return "it is an alias of a tensor that is not equal";
    return NULL;
}

static lmc_status set_aliases(lmc_st_file *file, const st_header *outer, const st_header *original,
                              const st_table *table, lmc_st_diag *diag)
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
        const char *fault = alias_fault(outer, original, table, pair);
        if (!fault && file->frame_of[pair.owner] != pair.owner)
            fault = "it is an alias of an alias";
        if (fault)
            return refuse_frame(original, pair.alias, fault, diag);
        file->frame_of[pair.alias] = pair.owner;
    }
    return LMC_OK;
}

/* ---- bases ---- */

/* Why a tensor cannot have this link; NULL if it can. What its base is must be looked at when that is open. */
static const char *link_fault(const lmc_st_file *file, st_link link)
{
    if (st_file_owner(file, link.tensor) != link.tensor)
        return "it is an alias, yet has a base";
    if (link.place == LMC_ST_BASE_SELF && st_file_owner(file, link.base) != link.base)
        return "its base is an alias";
    return NULL;
}

static lmc_status set_bases(lmc_st_file *file, const st_header *original, st_table *table, lmc_st_diag *diag)
{
    for (size_t i = 0; i < table->bases.link_count; i++) {
        const st_link link = table->bases.links[i];
        const char *const fault = link_fault(file, link);
        if (fault)
            return refuse_frame(original, link.tensor, fault, diag);
    }
    file->bases = table->bases;
    memset(&table->bases, 0, sizeof table->bases);
    return st_file_begin_base(file, diag);
}

/* ---- all of it ---- */

static lmc_status set_places(lmc_st_file *file, const st_header *outer, lmc_st_diag *diag)
{
    file->places = st_allocate(&file->memory, outer->tensor_count * sizeof *file->places);
    if (!file->places)
        return st_fail_nomem(diag);
    const uint64_t data_offset = 8 + outer->text_nbytes;
    for (size_t i = 0; i < outer->tensor_count; i++)
        file->places[i] = data_offset + outer->tensors[i].end;
    return LMC_OK;
}

lmc_status st_archive_open(lmc_st_file *file, lmc_st_diag *diag)
{
    st_table table;
    st_header original;
    memset(&table, 0, sizeof table);
    memset(&original, 0, sizeof original);
    lmc_status status = read_table(file, &table, diag);
    if (status == LMC_OK)
        status = parse_original(file, &table, &original, diag);
    if (status == LMC_OK)
        status = match_headers(&file->header, &original, &table, diag);
    if (status == LMC_OK)
        status = set_aliases(file, &file->header, &original, &table, diag);
    if (status == LMC_OK)
        status = set_bases(file, &original, &table, diag);
    if (status == LMC_OK)
        status = set_places(file, &file->header, diag);
    if (status == LMC_OK) {
        file->file_nbytes = table.file_nbytes;
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
