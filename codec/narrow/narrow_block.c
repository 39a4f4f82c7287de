/* narrow_block.c - finds the narrow elements of a block and what they cannot express, and puts the block together; the
 * reverse. */
#include "codec/narrow/narrow_block.h"

#include "codec/bitset/bitset.h"
#include "codec/narrow/groups.h"
#include "codec/narrow/palette.h"

/* A block with more exceptions than one element in so many is stored. */
#define BLOCK_EXCEPTION_SHARE_MAX 4

/* ---- narrow elements and groups ---- */

/* The palette of n elements: that of the whole tensor and other values behind it, if all of them fit. */
static unsigned find_palette(const lmc_narrow_coder *coder, const uint8_t *src, size_t n, uint8_t *palette,
                             uint8_t *numbers)
{
    const unsigned nbytes = coder->narrow->wide_nbytes, known_count = coder->choice->palette_count;
    if (known_count > 0 && known_count <= n) {
        memcpy(palette, coder->choice->palette, (size_t)known_count * nbytes);
        const unsigned found = lmc_palette_find(src, n, nbytes, 0, known_count, palette, numbers);
        if (found > 0 && found <= n)
            return found;
    }
    return lmc_palette_find(src, n, nbytes, n, 0, palette, numbers);
}

/* Finds the narrow elements and the groups of n >= 1 elements at src, in scratch. */
static void find_narrow(const lmc_narrow_coder *coder, uint64_t first, const uint8_t *src, size_t n)
{
    const lmc_narrow *const narrow = coder->narrow;
    lmc_scratch *const scratch = coder->plain.scratch;
    const unsigned nbytes = narrow->wide_nbytes;
    if (narrow->form < LMC_FMT_NARROW_PRODUCT) {
        coder->plain.kernels->narrow[narrow->form](src, n, scratch->narrow);
        return;
    }
    const uint64_t in_row = lmc_groups_in_row(narrow);
    lmc_group_walk walk = lmc_group_walk_start(narrow, first, 0);
    float likely = coder->choice->likely;
    uint32_t value_count = 0;
    for (size_t i = 0; i < n;) { /* a group is one run of the block, since its elements are neighbours */
        const lmc_group_run run = lmc_group_walk_next(&walk, n - i);
        lmc_group *const group = &scratch->groups[run.group];
        const float above = run.group >= in_row ? group[-(ptrdiff_t)in_row].scale : LMC_SCALE_TRIED_FIRST;
        *group = (lmc_group){0, value_count, 0};
        if (narrow->form == LMC_FMT_NARROW_PRODUCT)
            lmc_product_find_below(&(lmc_product_group){narrow, &coder->choice->order, coder->plain.kernels,
                                                        src + i * nbytes, run.n},
                                   above, &likely, &group->scale, scratch->narrow + i);
        else
            group->value_count =
                find_palette(coder, src + i * nbytes, run.n, scratch->palettes + (size_t)value_count * nbytes,
                             scratch->narrow + i);
        value_count += group->value_count;
        i += run.n;
    }
}

/* Finds which of these elements are exceptions: scratch->exception_bits. Returns how many. */
static size_t find_exceptions(const lmc_narrow_coder *coder, uint64_t first, const uint8_t *src, size_t n)
{
    lmc_scratch *const scratch = coder->plain.scratch;
    const unsigned nbytes = coder->narrow->wide_nbytes;
    size_t count = 0;
    memset(scratch->exception_bits, 0, lmc_bitset_words(n) * sizeof *scratch->exception_bits);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(LMC_STRIP_VALUES, n - i);
        const uint8_t *const strip = src + i * nbytes;
        lmc_narrow_widen(coder->narrow, coder->plain.kernels, scratch, first, i, m, scratch->strip_values);
        if (memcmp(scratch->strip_values, strip, m * nbytes) == 0)
            continue;
        for (size_t k = 0; k < m; k++) {
            const uint64_t differs =
                memcmp(scratch->strip_values + k * nbytes, strip + k * nbytes, nbytes) != 0;
            scratch->exception_bits[(i + k) / 64] |= differs << (i + k) % 64;
            count += differs;
        }
    }
    return count;
}

/* ---- encode ---- */

/* Appends the exceptions; their narrow elements become equal to the one before. Returns 0 if there is no room. */
static int write_exceptions(const lmc_narrow_coder *coder, const uint8_t *src, size_t n, size_t count,
                            lmc_writer *writer)
{
    lmc_scratch *const scratch = coder->plain.scratch;
    const unsigned wide_nbytes = coder->narrow->wide_nbytes, nbytes = coder->narrow->element_nbytes;
    const size_t bitset_nbytes = lmc_bitset_encode(coder->plain.kernels, scratch, scratch->exception_bits, n,
                                                   writer->next, lmc_writer_left(writer));
    writer->next += bitset_nbytes;
    if (bitset_nbytes == 0 || count * wide_nbytes > lmc_writer_left(writer))
        return 0;
    for (size_t w = 0; w < lmc_bitset_words(n); w++) {
        for (uint64_t word = scratch->exception_bits[w]; word != 0; word &= word - 1) {
            const size_t i = 64 * w + lmc_lowest_bit(word);
            lmc_write_span(writer, src + i * wide_nbytes, wide_nbytes);
            if (i > 0)
                memcpy(scratch->narrow + i * nbytes, scratch->narrow + (i - 1) * nbytes, nbytes);
        }
    }
    return 1;
}

/* Everything behind the mode. Returns 0 if the block had better be stored. */
static int encode_elements(const lmc_narrow_coder *coder, uint64_t first, const uint8_t *src, size_t n,
                           lmc_writer *writer)
{
    const lmc_narrow *const narrow = coder->narrow;
    const lmc_block_coder *const plain = &coder->plain;
    find_narrow(coder, first, src, n);
    const size_t exception_count = find_exceptions(coder, first, src, n);
    if (exception_count > n / BLOCK_EXCEPTION_SHARE_MAX)
        return 0;
    if (narrow->row_length > 0 &&
        !lmc_groups_write(narrow, plain->kernels, plain->scratch, lmc_group_count(narrow, first, n), writer))
        return 0;
    if (!write_exceptions(coder, src, n, exception_count, writer))
        return 0;
    const lmc_content_block elements = {
        .first = first, .src = plain->scratch->narrow, .nbytes = n * narrow->element_nbytes};
    uint64_t unused_hash;
    if (lmc_block_bound(elements.nbytes) > lmc_writer_left(writer))
        return 0;
    writer->next += lmc_block_encode(plain, &elements, writer->next, &unused_hash);
    return 1;
}

size_t lmc_narrow_block_encode(const lmc_narrow_coder *coder, const lmc_content_block *block, uint8_t *dst,
                               uint64_t *content_hash)
{
    const lmc_kernels *const kernels = coder->plain.kernels;
    if (!coder->narrow->is_used)
        return lmc_block_encode(&coder->plain, block, dst, content_hash);
    const size_t n = block->nbytes / coder->narrow->wide_nbytes;
    const size_t trailing_nbytes = block->nbytes % coder->narrow->wide_nbytes;
    lmc_writer writer = {dst, dst + lmc_block_bound(block->nbytes)};
    lmc_write_n(&writer, LMC_FMT_BLOCK_NARROW, 1);
    if (n == 0 || !encode_elements(coder, block->first, block->src, n, &writer) ||
        (size_t)(writer.next - dst) + trailing_nbytes > block->nbytes)
        return lmc_block_store(kernels, block->src, block->nbytes, dst, content_hash);
    lmc_write_span(&writer, block->src + block->nbytes - trailing_nbytes, trailing_nbytes);
    *content_hash = kernels->hash(block->src, block->nbytes, 0);
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

/* Reads the block up to its narrow elements, which are decoded to scratch. *exceptions: the bytes of the exceptions. */
static lmc_status read_elements(const lmc_narrow_coder *coder, const lmc_stored *block, lmc_source *source,
                                size_t n, size_t trailing_nbytes, const uint8_t **exceptions, lmc_diag *diag)
{
    const lmc_narrow *const narrow = coder->narrow;
    const lmc_block_coder *const plain = &coder->plain;
    lmc_scratch *const scratch = plain->scratch;
    if (narrow->row_length > 0)
        LMC_TRY(lmc_groups_read(narrow, plain->kernels, scratch, lmc_group_count(narrow, block->first, n), n,
                                source, diag));
    LMC_TRY(lmc_bitset_decode(plain->kernels, scratch, &source->reader, n, scratch->exception_bits, diag));
    const size_t count = lmc_bitset_count(plain->kernels, scratch->exception_bits, n);
    *exceptions = lmc_read_span(&source->reader, count * narrow->wide_nbytes);
    if (!*exceptions || lmc_reader_left(&source->reader) <= trailing_nbytes)
        return lmc_corrupt(diag, 0, "block: its exceptions or narrow elements are cut short");
    const lmc_stored elements = {.bytes = source->reader.next,
                                 .nbytes = lmc_reader_left(&source->reader) - trailing_nbytes,
                                 .first = block->first};
    uint64_t unused_hash;
    return lmc_block_decode(plain, &elements, scratch->narrow, n * narrow->element_nbytes, &unused_hash,
                            diag);
}

lmc_status lmc_narrow_block_decode(const lmc_narrow_coder *coder, const lmc_stored *block, uint8_t *dst,
                                   size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_kernels *const kernels = coder->plain.kernels;
    const lmc_scratch *const scratch = coder->plain.scratch;
    const uint8_t *exceptions;
    lmc_source source;
    if (!coder->narrow->is_used || (block->nbytes > 0 && block->bytes[0] == LMC_FMT_BLOCK_STORED))
        return lmc_block_decode(&coder->plain, block, dst, dst_nbytes, content_hash, diag);
    const unsigned nbytes = coder->narrow->wide_nbytes;
    const size_t n = dst_nbytes / nbytes, trailing_nbytes = dst_nbytes % nbytes;
    lmc_source_open(&source, coder->plain.scratch, block->bytes, block->nbytes);
    const unsigned mode = (unsigned)lmc_read_n(&source.reader, 1);
    if (source.reader.failed)
        return lmc_corrupt(diag, 0, "block: it is empty");
    if (mode == LMC_FMT_BLOCK_PLANES || mode == LMC_FMT_BLOCK_MASKED)
        return lmc_corrupt(diag, 0, "block: mode %u in a frame of narrow elements", mode);
    if (mode != LMC_FMT_BLOCK_NARROW)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "block: mode %u", mode);
    if (n == 0)
        return lmc_corrupt(diag, 0, "block: it has no elements, but is not stored");
    LMC_TRY(read_elements(coder, block, &source, n, trailing_nbytes, &exceptions, diag));
    kernels->hash_begin(scratch->hash_state);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(LMC_STRIP_VALUES, n - i);
        uint8_t *const strip = dst + i * nbytes;
        lmc_narrow_widen(coder->narrow, kernels, scratch, block->first, i, m, strip);
        for (size_t w = 0; w < lmc_bitset_words(m); w++) {
            for (uint64_t word = scratch->exception_bits[i / 64 + w]; word != 0; word &= word - 1) {
                memcpy(strip + (64 * w + lmc_lowest_bit(word)) * nbytes, exceptions, nbytes);
                exceptions += nbytes;
            }
        }
        kernels->hash_update(scratch->hash_state, strip, m * nbytes);
    }
    memcpy(dst + n * nbytes, block->bytes + block->nbytes - trailing_nbytes, trailing_nbytes);
    kernels->hash_update(scratch->hash_state, dst + n * nbytes, trailing_nbytes);
    *content_hash = kernels->hash_end(scratch->hash_state);
    return LMC_OK;
}
