/*
 * strip_stream.h - copies past the caches, and the kernels split and join of each width. join sends a strip past the
 * caches line by line, each group after the next ones were written, so that memory and core are busy at once. The
 * including file has stream_lines(), split_elements(), load_high_join() and join_group().
 */
#ifndef LMC_CODEC_KERNELS_SHARED_STRIP_STREAM_H
#define LMC_CODEC_KERNELS_SHARED_STRIP_STREAM_H

/* Bytes before the first whole line and behind the last one are written as usual. */
static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    const size_t first = lmc_min_size(nbytes, -(uintptr_t)dst & 63);
    const size_t last = first + ((nbytes - first) & ~(size_t)63);
    memcpy(dst, src, first);
    stream_lines(dst + first, src + first, last - first);
    memcpy(dst + last, src + last, nbytes - last);
}

typedef struct strip_stream {
    uint8_t *place; /* NULL: the strip goes nowhere */
    const uint8_t *values;
    size_t first_line; /* bytes before the first whole line of `place` */
    size_t done;       /* bytes up to the next line to write */
} strip_stream;

#define PAGE_NBYTES 4096

/* The addresses of the pages two pages ahead are looked up now: a store that waits for a page would hold up all
 * others. */
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

/* Streams lines once group i / GROUP of elements of nbytes was written. */
LMC_INLINE void stream_group(strip_stream *stream, const unsigned nbytes, size_t i)
{
    if (!stream->place || i < 2 * GROUP)
        return;
    stream_lines(stream->place + stream->done, stream->values + stream->done, GROUP * nbytes);
    stream->done += GROUP * nbytes;
}

/* Writes the bytes of nbytes that are left, and those before the first line. */
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

LMC_INLINE void join_elements(const unsigned nbytes, const int is_shifted, const lmc_split *split,
                              const lmc_plane_set *src, size_t n, uint8_t *dst, lmc_line_stream *to)
{
    const unsigned p = split->low_nbits;
    const high_join join = load_high_join(nbytes, split);
    lmc_plane_set planes = *src;
    if (p == 0)
        planes.low = planes.symbols; /* any readable bytes */
    strip_stream stream = begin_stream(to, dst, n * nbytes);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        join_group(nbytes, is_shifted, &join, &at, dst + i * nbytes);
        stream_group(&stream, nbytes, i);
    }
    if (i < n) {
        const lmc_plane_set at = planes_at(nbytes, &planes, p, i);
        uint8_t elements[8 * GROUP];
        join_group(nbytes, is_shifted, &join, &at, elements);
        memcpy(dst + i * nbytes, elements, (n - i) * nbytes);
    }
    end_stream(&stream, n * nbytes, to);
}

#define DEFINE_WIDTH(nbytes)                                                                            \
    static unsigned split_##nbytes(const lmc_split *split, const uint8_t *src, size_t n,                \
                                   const lmc_plane_set *dst)                                            \
    {                                                                                                   \
        return dst->shift ? split_elements(nbytes, 1, split, src, n, dst)                               \
                          : split_elements(nbytes, 0, split, src, n, dst);                              \
    }                                                                                                   \
    static void join_##nbytes(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst, \
                              lmc_line_stream *stream)                                                  \
    {                                                                                                   \
        if (src->shift)                                                                                 \
            join_elements(nbytes, 1, split, src, n, dst, stream);                                       \
        else if (stream)                                                                                \
            join_elements(nbytes, 0, split, src, n, dst, stream);                                       \
        else                                                                                            \
            join_elements(nbytes, 0, split, src, n, dst, NULL);                                         \
    }

DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)

#endif
