/*
 * around_frames.c - convert/conversion.h: what of an archive is no frame. Room for its own header and its table is
 * reserved before the frames and filled in at the end. How many tensors will be coded against others is known then:
 * what was reserved for more goes to the header, as spaces. What stands between the tensors of the source, the
 * skeleton, goes behind the frames, in pieces (archive/archive_skeleton.h).
 */
#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/archive/layout.h"
#include "safetensors/convert/conversion.h"

#include <string.h>

/* ---- header and table: room for them ---- */

static uint64_t table_nbytes_with(const st_conversion *conversion, uint64_t bases_nbytes)
{
    return st_table_nbytes(conversion->source->header->tensor_count, conversion->aliases.count, bases_nbytes,
                           st_layout_nbytes(&conversion->layout), conversion->stored_header_nbytes);
}

/* Bytes of the list of bases if all matches count. */
static uint64_t most_bases_nbytes(const st_conversion *conversion)
{
    st_bases most = {.link_count = conversion->matches.count};
    st_base_entry files[LMC_ST_ARCHIVE_BASES_MAX];
    for (size_t i = 0; i < conversion->bases.count; i++)
        files[most.file_count++] = (st_base_entry){.path = conversion->bases.list[i].path};
    most.files = files;
    const uint64_t plain_nbytes = most.file_count <= 1 ? st_bases_nbytes(&most) : 0;
    most.is_several = most.file_count > 1 || (most.file_count == 1 && conversion->options->choose_bases);
    const uint64_t several_nbytes = st_bases_nbytes(&most);
    return plain_nbytes > several_nbytes ? plain_nbytes : several_nbytes;
}

static st_archive_parts parts_of(const st_conversion *conversion, uint64_t table_nbytes)
{
    return (st_archive_parts){.original = conversion->source->header,
                              .table_name = conversion->table_name,
                              .table_nbytes = table_nbytes,
                              .skeleton_name = conversion->skeleton_name,
                              .skeleton_nbytes = conversion->skeleton_nbytes};
}

lmc_status st_convert_reserve_header_region(st_conversion *conversion, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const st_header *const header = source->header;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t count = header->tensor_count;
    conversion->frame_nbytes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->frame_nbytes);
    conversion->hashes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->hashes);
    conversion->base_hashes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->base_hashes);
    conversion->is_delta = st_allocate_zeroed(memory, count + 1, 1);
    conversion->is_same = st_allocate_zeroed(memory, count + 1, 1);
    conversion->table_name = st_archive_free_name(ST_ARCHIVE_TABLE_NAME, header, memory);
    if (!conversion->frame_nbytes || !conversion->hashes || !conversion->base_hashes ||
        !conversion->is_delta || !conversion->is_same || !conversion->table_name ||
        st_table_pack_header(memory, header->text, header->text_nbytes, &conversion->stored_header,
                             &conversion->stored_header_nbytes, &conversion->header_method) != LMC_OK)
        return st_fail_nomem(diag);
    if (source->container != LMC_ST_CONTAINER_SAFETENSORS) {
        st_layout *const layout = &conversion->layout;
        layout->kind = source->container;
        conversion->skeleton_name = st_archive_free_name(ST_ARCHIVE_SKELETON_NAME, header, memory);
        if (!conversion->skeleton_name ||
            st_layout_pack(layout, memory, header, source->places, source->original_nbytes) != LMC_OK)
            return st_fail_nomem(diag);
        conversion->skeleton_nbytes = st_skeleton_bound(layout->skeleton_nbytes);
    }
    const uint64_t bases_nbytes = most_bases_nbytes(conversion);
    const uint64_t table_nbytes = table_nbytes_with(conversion, bases_nbytes);
    const st_archive_parts parts = parts_of(conversion, table_nbytes);
    uint64_t outer_nbytes = 0;
    const lmc_status status = st_archive_header_reserve(&parts, bases_nbytes, &outer_nbytes, diag);
    conversion->header_region_nbytes = outer_nbytes + table_nbytes;
    conversion->end = conversion->header_region_nbytes;
    return status;
}

/* ---- header and table: filled in ---- */

/* Describes a base file by the links that lead to it, which get the number that it has in the list. hashes: room for
 * one of each link. */
static lmc_status add_base_file(const st_conversion *conversion, st_bases *bases, size_t file,
                                unsigned char *hashes, lmc_st_diag *diag)
{
    const st_base_file *const base = &conversion->bases.list[file];
    const size_t number = bases->file_count;
    size_t count = 0;
    int is_equal = 1;
    for (size_t i = 0; i < bases->link_count; i++) {
        st_link *const link = &bases->links[i];
        const st_link *const given = &conversion->matches.list[link->tensor].link;
        if (link->place != LMC_ST_BASE_FILE || given->file != file)
            continue;
        lmc_store64(hashes + 8 * count++, conversion->base_hashes[link->tensor]);
        is_equal &= conversion->is_same[link->tensor];
        link->file = (uint32_t)number;
    }
    if (count == 0)
        return LMC_OK;
    bases->files[number] = (st_base_entry){.path = st_duplicate(conversion->options->allocator, base->path),
                                           .original_nbytes = base->file->original_nbytes,
                                           .header_hash = st_file_identity(base->file),
                                           .content_hash = st_hash(hashes, 8 * count),
                                           .is_equal = is_equal};
    bases->file_count++;
    return bases->files[number].path ? LMC_OK : st_fail_nomem(diag);
}

/* Links of the tensors that were coded against another one, and the base files that they lead to. */
static lmc_status collect_bases(const st_conversion *conversion, st_bases *bases, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t tensor_count = conversion->source->header->tensor_count;
    bases->links = st_allocate_array(memory, conversion->matches.count + 1, sizeof *bases->links);
    bases->files = st_allocate_zeroed(memory, conversion->bases.count + 1, sizeof *bases->files);
    unsigned char *const hashes = st_allocate(memory, 8 * (conversion->matches.count + 1));
    lmc_status status = bases->links && bases->files && hashes ? LMC_OK : st_fail_nomem(diag);
    for (size_t i = 0; i < tensor_count && status == LMC_OK; i++) {
        const st_match *const match = &conversion->matches.list[i];
        if (!conversion->is_delta[i])
            continue;
        const st_link *const link = &match->link;
        const uint64_t wanted_nbytes =
            st_source_tensor_nbytes(conversion->source, link->tensor) * st_base_scale(match->form);
        bases->links[bases->link_count++] = *link;
        if (link->place == LMC_ST_BASE_FILE)
            bases->has_lengths |=
                st_file_tensor_nbytes(conversion->bases.list[link->file].file, link->base) != wanted_nbytes;
    }
    for (size_t i = 0; i < conversion->bases.count && status == LMC_OK; i++)
        status = add_base_file(conversion, bases, i, hashes, diag);
    if (status == LMC_OK)
        bases->is_several = bases->has_lengths || bases->file_count > 1 ||
                            (bases->file_count == 1 && strchr(bases->files[0].path, '/') != NULL);
    st_release(memory, hashes);
    return status;
}

lmc_status st_convert_write_header_region(st_conversion *conversion, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t nbytes = (size_t)conversion->header_region_nbytes;
    st_bases bases = {0};
    unsigned char *const region = st_allocate(memory, nbytes);
    lmc_status status = !region ? st_fail_nomem(diag) : collect_bases(conversion, &bases, diag);
    const uint64_t table_nbytes =
        table_nbytes_with(conversion, status == LMC_OK ? st_bases_nbytes(&bases) : 0);
    const size_t outer_nbytes = nbytes - (size_t)table_nbytes;
    for (size_t i = 0; i < conversion->aliases.count; i++) {
        const st_alias pair = conversion->aliases.list[i];
        conversion->hashes[pair.alias] = conversion->hashes[pair.owner];
    }
    const st_archive_parts parts = parts_of(conversion, table_nbytes);
    if (status == LMC_OK)
        status = st_archive_header_write(&parts, conversion->frame_nbytes, region, outer_nbytes, diag);
    if (status == LMC_OK) {
        const st_table table = {.original_nbytes = source->original_nbytes,
                                .header = source->header->text,
                                .header_nbytes = source->header->text_nbytes,
                                .archive_header_hash = st_hash(region + 8, outer_nbytes - 8),
                                .hashes = conversion->hashes,
                                .tensor_count = source->header->tensor_count,
                                .aliases = conversion->aliases.list,
                                .alias_count = conversion->aliases.count,
                                .bases = bases,
                                .layout = conversion->layout};
        st_table_write(&table, conversion->stored_header, conversion->stored_header_nbytes,
                       conversion->header_method, region + outer_nbytes);
        status = st_output_write(&conversion->output, 0, region, nbytes, diag);
    }
    st_bases_free(&bases, memory);
    st_release(memory, region);
    return status;
}

/* ---- the skeleton ---- */

/* Gaps between small tensors are read together. */
#define WINDOW_NBYTES ((size_t)16 << 10)

typedef struct skeleton_writer {
    st_conversion *conversion;
    st_buffer piece, packed, index, window_room;
    size_t piece_nbytes; /* that are there */
    size_t index_nbytes;
    st_window window;
    lmc_st_diag *diag;
} skeleton_writer;

/* Writes the piece, if there is any of it, behind all that is written. */
static lmc_status write_piece(skeleton_writer *writer)
{
    st_conversion *const conversion = writer->conversion;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t nbytes = writer->piece_nbytes;
    if (nbytes == 0)
        return LMC_OK;
    if (st_is_cancelled(conversion->options->cancel))
        return st_fail_cancelled(writer->diag);
    unsigned char *const packed = st_buffer_grow(memory, &writer->packed, st_pack_bound(nbytes));
    unsigned char *const entry =
        st_buffer_extend(memory, &writer->index, writer->index_nbytes, ST_SKELETON_ENTRY_NBYTES);
    const size_t packed_nbytes = packed && entry ? st_pack(writer->piece.bytes, nbytes, packed) : 0;
    if (packed_nbytes == 0)
        return st_fail_nomem(writer->diag);
    lmc_store32(entry, (uint32_t)packed_nbytes);
    lmc_store64(entry + 4, st_hash(writer->piece.bytes, nbytes));
    writer->index_nbytes += ST_SKELETON_ENTRY_NBYTES;
    writer->piece_nbytes = 0;
    conversion->end += packed_nbytes;
    return st_output_write(&conversion->output, conversion->end - packed_nbytes, packed, packed_nbytes,
                           writer->diag);
}

/* Adds bytes [begin, end) of the source to the skeleton; few at a time are read through a window. */
static lmc_status add_gap(skeleton_writer *writer, uint64_t begin, uint64_t end)
{
    const st_input *const input = writer->conversion->source->input;
    while (begin < end) {
        const size_t room = ST_SKELETON_PIECE_NBYTES - writer->piece_nbytes;
        const size_t nbytes = end - begin < room ? (size_t)(end - begin) : room;
        unsigned char *const dst = writer->piece.bytes + writer->piece_nbytes;
        const unsigned char *bytes = st_window_find(&writer->window, begin, nbytes);
        if (!bytes && nbytes >= WINDOW_NBYTES) {
            LMC_TRY(st_input_read(input, begin, dst, nbytes, writer->diag));
        } else if (!bytes) {
            const uint64_t left = input->nbytes - begin;
            const size_t window_nbytes = left < WINDOW_NBYTES ? (size_t)left : WINDOW_NBYTES;
            bytes = writer->window_room.bytes;
            writer->window = (st_window){0};
            LMC_TRY(st_input_read(input, begin, writer->window_room.bytes, window_nbytes, writer->diag));
            writer->window = (st_window){bytes, begin, begin + window_nbytes};
        }
        if (bytes)
            memcpy(dst, bytes, nbytes);
        writer->piece_nbytes += nbytes;
        begin += nbytes;
        if (writer->piece_nbytes == ST_SKELETON_PIECE_NBYTES)
            LMC_TRY(write_piece(writer));
    }
    return LMC_OK;
}

lmc_status st_convert_write_skeleton(st_conversion *conversion, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    const st_source *const source = conversion->source;
    skeleton_writer writer = {.conversion = conversion, .diag = diag};
    const uint64_t begin = conversion->end;
    uint64_t end = 0; /* of the tensor before */
    if (!conversion->skeleton_name)
        return LMC_OK;
    lmc_status status = st_buffer_grow(memory, &writer.piece, ST_SKELETON_PIECE_NBYTES) &&
                                st_buffer_grow(memory, &writer.window_room, WINDOW_NBYTES)
                            ? LMC_OK
                            : st_fail_nomem(diag);
    for (size_t i = 0; i < source->header->tensor_count && status == LMC_OK; i++) {
        status = add_gap(&writer, end, source->places[i]);
        end = source->places[i] + st_source_tensor_nbytes(source, i);
    }
    if (status == LMC_OK)
        status = add_gap(&writer, end, source->original_nbytes);
    if (status == LMC_OK)
        status = write_piece(&writer);
    if (status == LMC_OK) {
        conversion->layout.skeleton_hash = st_hash(writer.index.bytes, writer.index_nbytes);
        conversion->end += writer.index_nbytes;
        conversion->skeleton_nbytes = conversion->end - begin;
        status = st_output_write(&conversion->output, conversion->end - writer.index_nbytes,
                                 writer.index.bytes, writer.index_nbytes, diag);
    }
    st_buffer_free(memory, &writer.piece);
    st_buffer_free(memory, &writer.packed);
    st_buffer_free(memory, &writer.index);
    st_buffer_free(memory, &writer.window_room);
    return status;
}
