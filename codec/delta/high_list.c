/* high_list.c - writes and reads the high parts of one class. */
#include "codec/delta/high_list.h"

#include "codec/bitset/bitset.h"

/* Takes the sign changes out of a list of two-byte high parts, and writes them. high NULL: no high part is wide, so
 * there are none. */
static int write_sign_changes(const lmc_delta_job *job, uint16_t *high, size_t n, lmc_writer *writer)
{
    lmc_scratch *const scratch = job->scratch;
    size_t nbytes = 0;
    if (high) {
        job->kernels->take_sign_changes(high, n, scratch->bitset);
        nbytes = lmc_bitset_encode(job->kernels, scratch, scratch->bitset, n, writer->next,
                                   lmc_writer_left(writer));
    } else if (lmc_writer_left(writer) > 0) {
        writer->next[0] = LMC_FMT_BITSET_NONE;
        nbytes = 1;
    }
    writer->next += nbytes;
    return nbytes != 0;
}

int lmc_high_list_write(const lmc_delta_job *job, unsigned class, const lmc_high_list *list,
                        lmc_writer *writer)
{
    lmc_scratch *const scratch = job->scratch;
    const size_t n = list->n;
    const lmc_element_cut cut = lmc_high_cut(job->delta, class, list->wide ? 2 : 1);
    const uint8_t *const elements = list->wide ? (const uint8_t *)list->wide : list->bytes;
    const uint8_t *symbols = scratch->symbols;
    uint16_t *escapes = scratch->escapes;
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE && !write_sign_changes(job, list->wide, n, writer))
        return 0;
    const size_t low_nbytes = lmc_bits_nbytes(n * cut.split.low_nbits);
    if (low_nbytes > lmc_writer_left(writer))
        return 0;
    const lmc_plane_set set = {.symbols = scratch->symbols, .low = writer->next};
    writer->next += low_nbytes;
    if (!list->wide && cut.split.low_nbits == 0)
        symbols = elements;
    else if (job->kernels->split[list->wide ? 1 : 0](&cut.split, elements, n, &set))
        escapes = lmc_escapes_collect(&cut, symbols, elements, n, escapes);
    const size_t nbytes = lmc_buckets_encode(job->bucket_code, job->kernels, scratch, 0, symbols, n,
                                             writer->next, lmc_writer_left(writer));
    writer->next += nbytes;
    const size_t escapes_nbytes = (size_t)(escapes - scratch->escapes) * sizeof *escapes;
    if (nbytes == 0 || escapes_nbytes > lmc_writer_left(writer))
        return 0;
    lmc_write_span(writer, scratch->escapes, escapes_nbytes);
    return 1;
}

/* Reads the sign changes of a class to scratch->sign_changes. *any: are there any? */
static lmc_status read_sign_changes(const lmc_delta_job *job, lmc_source *source, size_t n, int *any,
                                    lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    *any = 0;
    if (job->delta->transform != LMC_FMT_DELTA_MAGNITUDE)
        return LMC_OK;
    LMC_TRY(lmc_bitset_decode(job->kernels, scratch, &source->reader, n, scratch->sign_changes, diag));
    *any = lmc_bitset_count(job->kernels, scratch->sign_changes, n) > 0;
    return LMC_OK;
}

/* Are all high parts with these symbols narrow? Then they are below LMC_HIGH_WIDE, or with low bits below 256. */
static int are_narrow(const uint8_t *symbols, size_t n, unsigned low_nbits)
{
    uint8_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = symbols[i] > most ? symbols[i] : most;
    return most <= (low_nbits > 0 ? 255u >> low_nbits : LMC_HIGH_WIDE - 1u);
}

lmc_status lmc_high_list_read(const lmc_delta_job *job, lmc_source *source, unsigned class,
                              int may_have_bytes, lmc_high_list *list, lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    const lmc_element_cut cut = lmc_high_cut(job->delta, class, 2);
    const unsigned low_nbits = cut.split.low_nbits;
    const size_t n = list->n;
    uint8_t *const symbols = scratch->symbols;
    int has_sign_changes;
    list->wide = NULL;
    LMC_TRY(read_sign_changes(job, source, n, &has_sign_changes, diag));
    const uint8_t *const low = lmc_source_bits(source, n * low_nbits);
    if (!low)
        return lmc_corrupt(diag, 0, "block: low bits end early or have spare bits set");
    /* without low bits, the symbols are a list of bytes */
    uint8_t *const decoded = low_nbits == 0 && !has_sign_changes ? list->bytes : symbols;
    LMC_TRY(lmc_buckets_decode(job->bucket_code, job->kernels, scratch, 0, source, n, decoded, diag));
    const lmc_plane_set set = {.symbols = symbols, .low = (uint8_t *)(uintptr_t)low}; /* join only reads */
    if (may_have_bytes && !has_sign_changes && are_narrow(decoded, n, low_nbits)) {
        if (low_nbits > 0)
            job->kernels->join[0](&cut.split, &set, n, list->bytes, NULL);
        return LMC_OK;
    }
    if (decoded != symbols)
        memcpy(symbols, decoded, n);
    list->wide = (uint16_t *)(void *)list->bytes;
    job->kernels->join[1](&cut.split, &set, n, list->bytes, NULL);
    if (lmc_cut_has_escapes(&cut))
        LMC_TRY(lmc_escapes_apply(&cut, symbols, n, &source->reader, list->bytes, diag));
    if (has_sign_changes)
        job->kernels->put_sign_changes(list->wide, n, scratch->sign_changes);
    return LMC_OK;
}
