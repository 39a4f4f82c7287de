/* delta_exceptions.c - finds, writes, reads and applies the exceptions of a delta block. */
#include "codec/delta/delta_exceptions.h"

/* ---- encode ---- */

/* Finds the exceptions of a strip and makes their high parts 0. element_nbytes is a constant wherever this is used. */
LMC_INLINE void find_wide_exceptions(const lmc_delta *delta, const unsigned element_nbytes,
                                     const uint8_t *src, const uint8_t *base, size_t first, size_t n,
                                     uint16_t *high, lmc_exception_writer *exceptions)
{
    const unsigned fitting = lmc_delta_high_nbits(delta) + 8 * delta->low_nbytes;
    for (size_t i = 0; i < n; i++) {
        const size_t at = (first + i) * element_nbytes;
        const uint64_t x = lmc_load_n(src + at, element_nbytes);
        const uint64_t b = lmc_load_n(base + at, element_nbytes);
        const uint64_t z = lmc_delta_of(delta->transform, x, b, 8 * element_nbytes);
        if (LMC_LIKELY(fitting >= 64 || z >> fitting == 0))
            continue;
        high[i] = 0;
        exceptions->places[exceptions->count++] = (uint32_t)(first + i);
    }
}

void lmc_exceptions_find(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t first,
                         size_t n, uint16_t *high, lmc_exception_writer *exceptions)
{
    if (job->element_nbytes == 4)
        find_wide_exceptions(job->delta, 4, src, base, first, n, high, exceptions);
    else if (job->element_nbytes == 8)
        find_wide_exceptions(job->delta, 8, src, base, first, n, high, exceptions);
}

int lmc_exceptions_write(const lmc_delta_job *job, const uint8_t *src, size_t n,
                         const lmc_exception_writer *exceptions, lmc_writer *writer)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    if (count_nbytes + exceptions->count * (count_nbytes + job->element_nbytes) > lmc_writer_left(writer))
        return 0;
    lmc_write_n(writer, exceptions->count, count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_n(writer, exceptions->places[i], count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_span(writer, src + (size_t)exceptions->places[i] * job->element_nbytes,
                       job->element_nbytes);
    return 1;
}

/* ---- decode ---- */

lmc_status lmc_exceptions_read(const lmc_delta_job *job, lmc_reader *reader, size_t n,
                               lmc_exception_reader *exceptions, lmc_diag *diag)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    exceptions->least = 0;
    exceptions->place_nbytes = count_nbytes;
    exceptions->count = (size_t)lmc_read_n(reader, count_nbytes);
    if (reader->failed || exceptions->count > n)
        return lmc_corrupt(diag, 0, "block: more exceptions than elements");
    exceptions->places = lmc_read_span(reader, exceptions->count * count_nbytes);
    exceptions->values = lmc_read_span(reader, exceptions->count * job->element_nbytes);
    return reader->failed ? lmc_corrupt(diag, 0, "block: its exceptions are cut short") : LMC_OK;
}

lmc_status lmc_exceptions_apply(const lmc_delta_job *job, lmc_exception_reader *exceptions, size_t first,
                                size_t end, uint8_t *strip, lmc_diag *diag)
{
    const unsigned count_nbytes = exceptions->place_nbytes;
    for (; exceptions->count > 0; exceptions->count--) {
        const uint64_t place = lmc_load_n(exceptions->places, count_nbytes);
        if (place >= end)
            break;
        if (place < exceptions->least)
            return lmc_corrupt(diag, 0, "block: exceptions are out of order");
        memcpy(strip + (place - first) * job->element_nbytes, exceptions->values, job->element_nbytes);
        exceptions->places += count_nbytes;
        exceptions->values += job->element_nbytes;
        exceptions->least = place + 1;
    }
    return LMC_OK;
}

lmc_status lmc_exceptions_end(const lmc_exception_reader *exceptions, lmc_diag *diag)
{
    return exceptions->count > 0
               ? lmc_corrupt(diag, 0, "block: exceptions are out of order or beyond its end")
               : LMC_OK;
}
