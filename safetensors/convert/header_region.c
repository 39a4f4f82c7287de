/*
 * header_region.c - reserves and writes the archive's own header and its table (convert/conversion.h). How many tensors
 * will be coded against others is known at the end: what was reserved for more goes to the header, as spaces.
 */
#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/skeleton.h"
#include "safetensors/convert/conversion.h"

#include <string.h>

static uint64_t table_nbytes_with(const st_conversion *conversion, size_t link_count, size_t name_nbytes)
{
    return st_table_nbytes(conversion->source->header->tensor_count, conversion->aliases.count,
                           st_bases_nbytes(link_count, name_nbytes), st_layout_nbytes(&conversion->layout),
                           conversion->stored_header_nbytes);
}

static st_archive_parts parts_of(const st_conversion *conversion, uint64_t table_nbytes)
{
    return (st_archive_parts){.original = conversion->source->header,
                              .table_name = conversion->table_name,
                              .table_nbytes = table_nbytes,
                              .skeleton_name = conversion->skeleton_name,
                              .skeleton_nbytes = conversion->skeleton_nbytes};
}

/* What the archive has more if the source is no safetensors file. */
static lmc_status reserve_skeleton(st_conversion *conversion, lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const lmc_allocator *const memory = conversion->options->allocator;
    st_layout *const layout = &conversion->layout;
    if (source->container == LMC_ST_CONTAINER_SAFETENSORS)
        return LMC_OK;
    layout->kind = source->container;
    conversion->skeleton_name = st_archive_free_name(ST_ARCHIVE_SKELETON_NAME, source->header, memory);
    const lmc_status status =
        st_layout_pack(layout, memory, source->header, source->places, source->file_nbytes);
    conversion->skeleton_nbytes = st_skeleton_bound(layout->skeleton_nbytes);
    return !conversion->skeleton_name || status != LMC_OK ? st_fail_nomem(diag) : LMC_OK;
}

lmc_status st_convert_reserve_header_region(st_conversion *conversion, lmc_st_diag *diag)
{
    const st_header *const header = conversion->source->header;
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t count = header->tensor_count;
    conversion->frame_nbytes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->frame_nbytes);
    conversion->hashes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->hashes);
    conversion->base_hashes = st_allocate_zeroed(memory, count + 1, sizeof *conversion->base_hashes);
    conversion->is_delta = st_allocate_zeroed(memory, count + 1, 1);
    conversion->table_name = st_archive_free_name(ST_ARCHIVE_TABLE_NAME, header, memory);
    if (!conversion->frame_nbytes || !conversion->hashes || !conversion->base_hashes ||
        !conversion->is_delta || !conversion->table_name ||
        st_table_pack_header(memory, header->text, header->text_nbytes, &conversion->stored_header,
                             &conversion->stored_header_nbytes, &conversion->header_method) != LMC_OK)
        return st_fail_nomem(diag);
    ST_TRY(reserve_skeleton(conversion, diag));
    const size_t name_nbytes = strlen(conversion->base_name);
    const uint64_t table_nbytes = table_nbytes_with(conversion, conversion->matches.count, name_nbytes);
    const st_archive_parts parts = parts_of(conversion, table_nbytes);
    uint64_t outer_nbytes = 0;
    const lmc_status status = st_archive_header_reserve(
        &parts, st_bases_nbytes(conversion->matches.count, name_nbytes), &outer_nbytes, diag);
    conversion->header_region_nbytes = outer_nbytes + table_nbytes;
    conversion->end = conversion->header_region_nbytes;
    return status;
}

/* ---- filling in ---- */

/* Links of the tensors that were coded against another one, and the base file if one of them is there. */
static lmc_status collect_bases(const st_conversion *conversion, st_bases *bases, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    const lmc_st_file *const base = conversion->base;
    const size_t tensor_count = conversion->source->header->tensor_count;
    size_t file_count = 0;
    bases->links = st_allocate(memory, (conversion->matches.count + 1) * sizeof *bases->links);
    unsigned char *const hashes = st_allocate(memory, 8 * (conversion->matches.count + 1));
    if (!bases->links || !hashes) {
        st_release(memory, hashes);
        return st_fail_nomem(diag);
    }
    for (size_t i = 0; i < tensor_count; i++) {
        if (conversion->is_delta[i]) {
            const st_link link = conversion->matches.list[i].link;
            bases->links[bases->link_count++] = link;
            if (link.place == LMC_ST_BASE_FILE)
                st_store_u64(hashes + 8 * file_count++, conversion->base_hashes[i]);
        }
    }
    if (file_count > 0) {
        memcpy(bases->name, conversion->base_name, sizeof bases->name);
        bases->file_nbytes = base->file_nbytes;
        bases->header_hash = st_file_identity(base);
        bases->content_hash = st_hash(hashes, 8 * file_count);
    }
    st_release(memory, hashes);
    return LMC_OK;
}

/* Header and table into `region`, which has room for both. */
static lmc_status fill_header_region(st_conversion *conversion, const st_bases *bases, unsigned char *region,
                                     lmc_st_diag *diag)
{
    const st_source *const source = conversion->source;
    const uint64_t table_nbytes = table_nbytes_with(conversion, bases->link_count, strlen(bases->name));
    const size_t outer_nbytes = (size_t)(conversion->header_region_nbytes - table_nbytes);
    for (size_t i = 0; i < conversion->aliases.count; i++) {
        const st_alias pair = conversion->aliases.list[i];
        conversion->hashes[pair.alias] = conversion->hashes[pair.owner];
    }
    const st_archive_parts parts = parts_of(conversion, table_nbytes);
    const lmc_status status =
        st_archive_header_write(&parts, conversion->frame_nbytes, region, outer_nbytes, diag);
    if (status == LMC_OK) {
        const st_table table = {.file_nbytes = source->file_nbytes,
                                .header = source->header->text,
                                .header_nbytes = source->header->text_nbytes,
                                .archive_header_hash = st_hash(region + 8, outer_nbytes - 8),
                                .hashes = conversion->hashes,
                                .tensor_count = source->header->tensor_count,
                                .aliases = conversion->aliases.list,
                                .alias_count = conversion->aliases.count,
                                .bases = *bases,
                                .layout = conversion->layout};
        st_table_write(&table, conversion->stored_header, conversion->stored_header_nbytes,
                       conversion->header_method, region + outer_nbytes);
    }
    return status;
}

lmc_status st_convert_write_header_region(st_conversion *conversion, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = conversion->options->allocator;
    const size_t nbytes = (size_t)conversion->header_region_nbytes;
    st_bases bases = {0};
    unsigned char *const region = st_allocate(memory, nbytes);
    lmc_status status = !region ? st_fail_nomem(diag) : collect_bases(conversion, &bases, diag);
    if (status == LMC_OK)
        status = fill_header_region(conversion, &bases, region, diag);
    if (status == LMC_OK)
        status = os_output_write(&conversion->output, 0, region, nbytes, diag);
    st_bases_free(&bases, memory);
    st_release(memory, region);
    return status;
}
