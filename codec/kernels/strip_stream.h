/*
 * strip_stream.h - a strip of elements that goes past the caches while it is joined: lines leave one group after they
 * were written, so that the memory is busy while the core is. The including file has stream_lines() and
 * copy_past_cache().
 */
#ifndef LMC_KERNELS_STRIP_STREAM_H
#define LMC_KERNELS_STRIP_STREAM_H

typedef struct strip_stream {
    uint8_t *place; /* NULL: the strip goes nowhere */
    const uint8_t *values;
    size_t first_line; /* bytes before the first whole line of `place` */
    size_t done;       /* bytes up to the next line to leave */
} strip_stream;

#define PAGE_NBYTES 4096

/* What pages are two pages further on is looked up now: a store that has to wait for that holds up all others. */
LMC_INLINE strip_stream begin_stream(lmc_line_stream *to, const uint8_t *values, size_t nbytes)
{
    strip_stream stream = {NULL, values, 0, 0};
    if (!to)
        return stream;
    lmc_stream_flush(to);
    stream.place = to->place;
    stream.first_line = stream.done = -(uintptr_t)to->place & 63;
    for (size_t i = 0; i < nbytes; i += PAGE_NBYTES)
        fetch(to->place + i, 2 * PAGE_NBYTES);
    return stream;
}

/* After group i / GROUP of elements of nbytes was written. */
LMC_INLINE void stream_group(strip_stream *stream, const unsigned nbytes, size_t i)
{
    if (!stream->place || i < 2 * GROUP)
        return;
    stream_lines(stream->place + stream->done, stream->values + stream->done, GROUP * nbytes);
    stream->done += GROUP * nbytes;
}

/* What is left of nbytes, and what came before the first line. */
LMC_INLINE void end_stream(const strip_stream *stream, size_t nbytes, lmc_line_stream *to)
{
    const int began = stream->done > stream->first_line;
    const size_t done = began ? stream->done : 0;
    if (!to)
        return;
    if (began)
        memcpy(stream->place, stream->values, stream->first_line);
    copy_past_cache(stream->place + done, stream->values + done, nbytes - done);
    to->place += nbytes;
}

#endif
