/*
 * planes.h - the elements of a block as planes (format.md "Planes of a block"). plane.h codes a single plane; block.h
 * chooses the form of a block.
 */
#ifndef LMC_CODEC_PLAIN_PLANES_H
#define LMC_CODEC_PLAIN_PLANES_H

#include "codec/plain/plan_section.h"
#include "codec/prefix/scratch.h"

/* Everything that coding the planes of one block takes. */
typedef struct lmc_planes_job {
    const lmc_kernels *kernels;
    const lmc_coding *coding;
    lmc_scratch *scratch;
    lmc_block_offsets offsets; /* of the elements */
    const uint8_t *ahead;      /* bytes to fetch meanwhile ... */
    size_t ahead_nbytes;       /* ... so many with each half of a strip's work */
    int is_flexible;           /* encode: each plane gets its smallest mode */
    int hashes_strips;         /* each strip is hashed into scratch->hash_state while it is in the cache */
    int past_cache;            /* decode: strips are written past the caches */
} lmc_planes_job;

/* Where a strip of content for `place` is made: there, or in scratch if it is written past the caches, where it
 * could not be read again quickly. */
LMC_INLINE uint8_t *lmc_strip_at(const lmc_planes_job *job, uint8_t *place)
{
    return job->past_cache ? job->scratch->strip_values : place;
}

LMC_INLINE void lmc_strip_hash(const lmc_planes_job *job, const uint8_t *values, size_t nbytes)
{
    if (job->hashes_strips)
        job->kernels->hash_update(job->scratch->hash_state, values, nbytes);
}

/* Appends n >= 1 elements at src. Returns 0 if they do not fit; the writer's place means nothing then. */
int lmc_planes_encode(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer);

/* The same, and each plane gets its smallest mode, whatever the job says. */
int lmc_planes_encode_flexible(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer);

/* Decodes n >= 1 elements to dst. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_planes_decode(const lmc_planes_job *job, lmc_source *source, size_t n,
                                           uint8_t *dst, lmc_diag *diag);

#endif
