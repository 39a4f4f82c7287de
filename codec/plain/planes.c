/* planes.c - cuts the elements of a block into planes strip by strip, codes these in order, and joins them again. */
#include "codec/plain/planes.h"

#include "codec/plain/plane.h"
#include "codec/prefix/symbols.h"
#include "codec/rans/rans_plane.h"

#define CACHE_LINE_NBYTES 64

/* Fetches the next stored bytes while a strip keeps the core busy. A core stops when it waits for more lines than it
 * can have under way. So each half of the work, decoding symbols and joining elements, fetches a share. */
static void fetch_ahead(const lmc_planes_job *job, size_t half)
{
    const size_t first = half * job->ahead_nbytes;
    for (size_t i = first; i < first + job->ahead_nbytes; i += CACHE_LINE_NBYTES)
        LMC_PREFETCH(job->ahead + i);
}

/* The planes of the strip that starts at value `first`. */
static lmc_plane_set planes_at(const lmc_coding *coding, uint8_t *const plane[LMC_FMT_PLANE_COUNT_MAX],
                               uint8_t *symbols, size_t first)
{
    lmc_plane_set set = {.symbols = symbols};
    const unsigned lower_first = lmc_coding_lower_first(coding);
    if (coding->split.low_nbits > 0)
        set.low = plane[LMC_PLANE_LOW] + first / 8 * coding->split.low_nbits;
    for (unsigned i = lower_first; i < coding->plane_count; i++)
        set.lower[i - lower_first] = plane[i] + first;
    return set;
}

/* ---- encode ---- */

/* Appends the escapes gathered in scratch. Returns 0 when there is no room. */
static int write_escapes(const lmc_scratch *scratch, const uint16_t *escapes_end, lmc_writer *writer)
{
    const size_t nbytes = (size_t)(escapes_end - scratch->escapes) * sizeof *escapes_end;
    if (nbytes > lmc_writer_left(writer))
        return 0;
    lmc_write_span(writer, scratch->escapes, nbytes);
    return 1;
}

/* How the elements of a part are cut, and their planes. */
static lmc_element_cut cut_part(const lmc_planes_job *job, const lmc_offset_part *part)
{
    lmc_element_cut cut = {job->coding->element_nbytes, job->coding->split, part->shift};
    cut.split.offset = (uint16_t)(cut.split.offset + part->row);
    return cut;
}

/* Cuts n elements, of which the first is element `first` of the block, and collects the values of escapes. symbols has
 * n; the other planes are the block's. Returns the new end of escapes. */
static uint16_t *split_values(const lmc_planes_job *job, const uint8_t *src, size_t first, size_t n,
                              uint8_t *const plane[LMC_FMT_PLANE_COUNT_MAX], uint8_t *symbols,
                              uint16_t *escapes)
{
    const lmc_rans *const rans = job->coding->rans;
    const unsigned element_nbytes = job->coding->element_nbytes;
    for (size_t i = 0; i < n;) {
        const lmc_offset_part part = lmc_offsets_part(job->kernels, &job->offsets, first + i, n - i);
        const lmc_element_cut cut = cut_part(job, &part);
        const uint8_t *const values = src + i * element_nbytes;
        uint8_t *const part_symbols = symbols + i;
        lmc_plane_set set = planes_at(job->coding, plane, part_symbols, first + i);
        set.shift = cut.shift;
        unsigned escaped =
            job->kernels->split[lmc_element_log2(element_nbytes)](&cut.split, values, part.n, &set);
        const int has_escapes = lmc_cut_has_escapes(&cut);
        if (rans && has_escapes)
            for (size_t k = 0; k < part.n; k++) { /* the rANS code may lack symbols */
                const unsigned is_missing = rans->frequency[part_symbols[k]] == 0;
                part_symbols[k] = is_missing ? LMC_FMT_SYMBOL_ESCAPE : part_symbols[k];
                escaped |= is_missing;
            }
        if (escaped && has_escapes)
            escapes = lmc_escapes_collect(&cut, part_symbols, values, part.n, escapes);
        i += part.n;
    }
    return escapes;
}

/* The bytes at the end of the low plane of n elements that a rANS plane of symbols carries, if the low plane is
 * stored. */
static size_t carried_nbytes(const lmc_coding *coding, size_t n)
{
    const unsigned low_nbits = coding->split.low_nbits;
    const int carries =
        coding->rans && low_nbits > 0 && lmc_plane_nbytes(n, low_nbits) >= LMC_FMT_RANS_CARRIED_NBYTES;
    return carries ? LMC_FMT_RANS_CARRIED_NBYTES : 0;
}

/* Appends n symbols in the rANS code, which carries so many bytes of the low plane before them. Returns 0 if that does
 * not fit. */
static int write_rans(const lmc_planes_job *job, const uint8_t *symbols, size_t n, size_t carried,
                      lmc_writer *writer)
{
    uint8_t bytes[LMC_FMT_RANS_CARRIED_NBYTES] = {0};
    uint8_t *const dst = writer->next - carried;
    memcpy(bytes, dst, carried);
    const size_t nbytes = lmc_rans_plane_encode(job->kernels, job->coding->rans, job->scratch, symbols, n,
                                                bytes, dst, (size_t)(writer->end - dst));
    if (nbytes == 0)
        return 0;
    writer->next = dst + nbytes;
    return 1;
}

/* The hot path. Every plane but the symbols is stored, so its place is known before its content. Symbols are coded
 * strip by strip while they are in the L1 cache. Returns 0 when that does not fit. */
static int encode_planes_direct(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer)
{
    const lmc_coding *const coding = job->coding;
    uint8_t *plane[LMC_FMT_PLANE_COUNT_MAX];
    uint16_t *escapes = job->scratch->escapes;
    lmc_symbol_encoder encoder;

    lmc_write_n(writer, LMC_FMT_PLANE_CODED, 1);
    for (unsigned i = 1; i < coding->plane_count; i++)
        lmc_write_n(writer, LMC_FMT_PLANE_STORED, 1);
    for (unsigned i = coding->plane_count; i-- > 1;) {
        const size_t nbytes = lmc_plane_nbytes(n, lmc_coding_plane_nbits(coding, i));
        if (nbytes > lmc_writer_left(writer))
            return 0;
        plane[i] = writer->next;
        writer->next += nbytes;
    }
    if (!coding->rans)
        lmc_symbols_encode_begin(&encoder, job->kernels, coding->table[LMC_PLANE_SYMBOLS], job->scratch, n,
                                 writer->next, lmc_writer_left(writer));
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const uint8_t *const values = src + i * coding->element_nbytes;
        uint8_t *const symbols =
            coding->rans ? job->scratch->plane[LMC_PLANE_SYMBOLS] + i : job->scratch->strip;
        fetch_ahead(job, 2 * (i / LMC_STRIP_VALUES));
        escapes = split_values(job, values, i, m, plane, symbols, escapes);
        if (job->hashes_strips)
            job->kernels->hash_update(job->scratch->hash_state, values, m * coding->element_nbytes);
        fetch_ahead(job, 2 * (i / LMC_STRIP_VALUES) + 1);
        if (!coding->rans)
            lmc_symbols_encode_strip(&encoder, symbols, m);
    }
    if (coding->rans)
        return write_rans(job, job->scratch->plane[LMC_PLANE_SYMBOLS], n, carried_nbytes(coding, n),
                          writer) &&
               write_escapes(job->scratch, escapes, writer);
    const size_t nbytes = lmc_symbols_encode_end(&encoder);
    writer->next += nbytes;
    return nbytes != 0 && write_escapes(job->scratch, escapes, writer);
}

/* Appends a plane in its smallest mode, which goes to *mode. carried: bytes before it that a rANS plane carries.
 * Returns 0 if there is no room. */
static int write_plane(const lmc_planes_job *job, unsigned i, size_t n, size_t carried, uint8_t *mode,
                       lmc_writer *writer)
{
    const lmc_coding *const coding = job->coding;
    const uint8_t *const plane = job->scratch->plane[i];
    const unsigned nbits = lmc_coding_plane_nbits(coding, i);
    const size_t left = lmc_writer_left(writer);
    size_t nbytes = 0;
    if (i == LMC_PLANE_SYMBOLS && coding->rans) {
        uint32_t histogram[256];
        lmc_plane_count(plane, n, histogram);
        const double coded_nbits = lmc_rans_cost_nbits(coding->rans->frequency, histogram, LMC_TABLE_ALL) +
                                   8.0 * (double)(LMC_RANS_HEAD_NBYTES - carried);
        *mode = LMC_FMT_PLANE_CODED;
        if (coded_nbits < lmc_plane_uncoded_nbits(histogram, n) && write_rans(job, plane, n, carried, writer))
            return 1;
    }
    if (nbits == 8)
        nbytes = lmc_plane_encode(
            &(lmc_plane_coder){.kernels = job->kernels, .table = coding->table[i], .scratch = job->scratch},
            plane, n, writer->next, left, mode);
    else if (lmc_plane_nbytes(n, nbits) <= left)
        nbytes = lmc_plane_encode_packed(plane, n, nbits, writer->next, mode);
    writer->next += nbytes;
    return nbytes > 0;
}

/* The general path. Planes go to scratch first, and each gets its smallest mode in this block. */
int lmc_planes_encode_flexible(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer)
{
    const lmc_coding *const coding = job->coding;
    lmc_scratch *const scratch = job->scratch;
    uint16_t *escapes = scratch->escapes;
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES)
        escapes =
            split_values(job, src + i * coding->element_nbytes, i, lmc_min_size(n - i, LMC_STRIP_VALUES),
                         scratch->plane, scratch->plane[LMC_PLANE_SYMBOLS] + i, escapes);

    uint8_t *const modes = writer->next;
    writer->next += coding->plane_count;
    for (unsigned i = coding->plane_count; i-- > 0;) {
        const int is_after_stored = i == LMC_PLANE_SYMBOLS && coding->split.low_nbits > 0 &&
                                    modes[LMC_PLANE_LOW] == LMC_FMT_PLANE_STORED;
        const size_t carried = is_after_stored ? carried_nbytes(coding, n) : 0;
        if (!write_plane(job, i, n, carried, &modes[i], writer))
            return 0;
    }
    return write_escapes(scratch, escapes, writer);
}

int lmc_planes_encode(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer)
{
    if (lmc_writer_left(writer) < LMC_FMT_PLANE_COUNT_MAX)
        return 0;
    const lmc_writer start = *writer;
    if (!job->is_flexible) {
        if (encode_planes_direct(job, src, n, writer))
            return 1;
        if (!job->coding->rans)
            return 0;
        *writer = start; /* a rANS code may lack a symbol of this block */
    }
    return lmc_planes_encode_flexible(job, src, n, writer);
}

/* ---- decode ---- */

/* Joins n elements at dst, of which the first is element `first` of the block, and mends their escapes if it is_mended.
 * Unless it is NULL, they go to the stream, too. */
static lmc_status join_values(const lmc_planes_job *job, uint8_t *const plane[LMC_FMT_PLANE_COUNT_MAX],
                              uint8_t *symbols, size_t first, size_t n, int is_mended, lmc_reader *escapes,
                              uint8_t *dst, lmc_line_stream *stream, lmc_diag *diag)
{
    const unsigned element_nbytes = job->coding->element_nbytes;
    for (size_t i = 0; i < n;) {
        const lmc_offset_part part = lmc_offsets_part(job->kernels, &job->offsets, first + i, n - i);
        const lmc_element_cut cut = cut_part(job, &part);
        uint8_t *const values = dst + i * element_nbytes;
        lmc_plane_set set = planes_at(job->coding, plane, symbols + i, first + i);
        set.shift = cut.shift;
        job->kernels->join[lmc_element_log2(element_nbytes)](&cut.split, &set, part.n, values, stream);
        if (is_mended)
            LMC_TRY(lmc_escapes_apply(&cut, set.symbols, part.n, escapes, values, diag));
        i += part.n;
    }
    return LMC_OK;
}

/* Joins a strip and brings it to the stream's place. A strip with escapes may go past the caches only after they were
 * mended. */
static lmc_status join_strip(const lmc_planes_job *job, uint8_t *const plane[LMC_FMT_PLANE_COUNT_MAX],
                             uint8_t *symbols, size_t first, size_t n, lmc_reader *escapes,
                             lmc_line_stream *stream, lmc_diag *diag)
{
    const unsigned element_nbytes = job->coding->element_nbytes;
    const lmc_element_cut cut = {element_nbytes, job->coding->split, NULL};
    const int is_mended = lmc_cut_has_escapes(&cut) && memchr(symbols, LMC_FMT_SYMBOL_ESCAPE, n) != NULL;
    uint8_t *const place = stream->place;
    uint8_t *const values = lmc_strip_at(job, place);
    const int leaves = values != place && !is_mended;
    LMC_TRY(
        join_values(job, plane, symbols, first, n, is_mended, escapes, values, leaves ? stream : NULL, diag));
    lmc_strip_hash(job, values, n * element_nbytes);
    if (leaves)
        return LMC_OK;
    lmc_stream_flush(stream);
    if (values != place)
        job->kernels->copy_past_cache(place, values, n * element_nbytes);
    stream->place += n * element_nbytes;
    return LMC_OK;
}

/* The planes of a block while it is decoded. */
typedef struct block_planes {
    uint8_t *plane[LMC_FMT_PLANE_COUNT_MAX]; /* but the symbols */
    const uint8_t *symbols;                  /* all of them, or NULL: `decoder` makes them strip by strip */
    lmc_symbol_decoder decoder;
    /* From this element on the low plane stands in scratch, since the rANS plane of symbols carries its end. */
    size_t low_copied_first;
} block_planes;

/* Puts the end of the low plane together in scratch: all of the strips that end with carried bytes. */
static lmc_status complete_low_plane(const lmc_planes_job *job, size_t n, const uint8_t *carried,
                                     block_planes *planes, lmc_diag *diag)
{
    uint8_t *const copy = job->scratch->plane[LMC_PLANE_LOW];
    const unsigned low_nbits = job->coding->split.low_nbits;
    const size_t nbytes = lmc_plane_nbytes(n, low_nbits), known = nbytes - LMC_FMT_RANS_CARRIED_NBYTES;
    const size_t strip_nbytes = LMC_STRIP_VALUES / 8 * (size_t)low_nbits;
    const size_t first = known / strip_nbytes * strip_nbytes;
    memcpy(copy + first, planes->plane[LMC_PLANE_LOW] + first, known - first);
    memcpy(copy + known, carried, LMC_FMT_RANS_CARRIED_NBYTES);
    planes->low_copied_first = known / strip_nbytes * LMC_STRIP_VALUES;
    if (n * low_nbits % 8 != 0 && copy[nbytes - 1] >> n * low_nbits % 8 != 0)
        return lmc_corrupt(diag, 0, "block: its low plane has spare bits set");
    return LMC_OK;
}

/* Reads all planes of n elements; symbols in a prefix code are only begun. */
static lmc_status open_planes(const lmc_planes_job *job, lmc_source *source, size_t n, block_planes *planes,
                              lmc_diag *diag)
{
    const lmc_coding *const coding = job->coding;
    lmc_scratch *const scratch = job->scratch;
    uint8_t carried[LMC_FMT_RANS_CARRIED_NBYTES] = {0};
    lmc_plane_coder coder = {.kernels = job->kernels, .scratch = scratch};
    const uint8_t *found;
    const uint8_t *const modes = lmc_read_span(&source->reader, coding->plane_count);
    if (!modes)
        return lmc_corrupt(diag, 0, "block: its modes are cut short");
    const unsigned mode = modes[LMC_PLANE_SYMBOLS];
    const int is_low_carried = mode == LMC_FMT_PLANE_CODED && carried_nbytes(coding, n) > 0 &&
                               modes[LMC_PLANE_LOW] == LMC_FMT_PLANE_STORED;
    for (unsigned i = coding->plane_count; i-- > 1;) {
        coder.table = coding->table[i];
        if (i == LMC_PLANE_LOW && is_low_carried) {
            const size_t nbytes = lmc_plane_nbytes(n, coding->split.low_nbits);
            found = lmc_source_plane(source, nbytes - LMC_FMT_RANS_CARRIED_NBYTES, 64);
            if (!found)
                return lmc_corrupt(diag, 0, "block: its low plane ends early");
        } else {
            LMC_TRY(lmc_plane_decode(&coder, source, modes[i], n, lmc_coding_plane_nbits(coding, i),
                                     scratch->plane[i], &found, diag));
        }
        planes->plane[i] = (uint8_t *)(uintptr_t)found; /* join only reads */
    }
    planes->low_copied_first = SIZE_MAX;
    planes->symbols = NULL;
    coder.table = coding->table[LMC_PLANE_SYMBOLS];
    coder.rans = coding->rans;
    coder.carried = carried;
    if (mode == LMC_FMT_PLANE_CODED && coder.table)
        return lmc_symbols_decode_begin(&planes->decoder, job->kernels, coder.table, scratch, source, n,
                                        diag);
    LMC_TRY(lmc_plane_decode(&coder, source, mode, n, 8, scratch->plane[LMC_PLANE_SYMBOLS], &planes->symbols,
                             diag));
    if (is_low_carried)
        return complete_low_plane(job, n, carried, planes, diag);
    for (size_t i = 0; i < sizeof carried; i++)
        if (carried[i] != 0)
            return lmc_corrupt(diag, 0, "block: its symbols carry bytes that belong nowhere");
    return LMC_OK;
}

/* Decodes n elements from their planes: strip by strip, so that symbols are joined while they are in the cache. */
lmc_status lmc_planes_decode(const lmc_planes_job *job, lmc_source *source, size_t n, uint8_t *dst,
                             lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    block_planes planes;
    lmc_line_stream stream = {.place = dst};
    LMC_TRY(open_planes(job, source, n, &planes, diag));
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        uint8_t *symbols = scratch->strip;
        fetch_ahead(job, 2 * (i / LMC_STRIP_VALUES));
        if (planes.symbols)
            symbols = (uint8_t *)(uintptr_t)(planes.symbols + i); /* join only reads */
        else if (lmc_symbols_decode_strip(&planes.decoder, m, symbols, diag) != LMC_OK)
            return LMC_ERR_CORRUPT;
        if (i >= planes.low_copied_first)
            planes.plane[LMC_PLANE_LOW] = scratch->plane[LMC_PLANE_LOW];
        fetch_ahead(job, 2 * (i / LMC_STRIP_VALUES) + 1);
        LMC_TRY(join_strip(job, planes.plane, symbols, i, m, &source->reader, &stream, diag));
    }
    lmc_stream_flush(&stream);
    return planes.symbols ? LMC_OK : lmc_symbols_decode_end(&planes.decoder, diag);
}
