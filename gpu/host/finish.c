/* finish.c - reads the outcomes of a batch, decodes the host's blocks, and lists the blocks without right content. */
#include "codec/common/diag.h"
#include "common/abi.h"
#include "gpu/host/prepare.h"

_Static_assert(LMC_CUDA_CORRUPT == (LMC_CUDA_FAILED | LMC_ERR_CORRUPT) &&
                   LMC_CUDA_UNSUPPORTED == (LMC_CUDA_FAILED | LMC_ERR_UNSUPPORTED) &&
                   LMC_CUDA_CHECKSUM == (LMC_CUDA_FAILED | LMC_ERR_CHECKSUM),
               "outcomes hold statuses");

/* A batch that is being finished. */
typedef struct finish_job {
    lmc_cuda_batch *batch;
    const lmc_cuda_result *results;
    const lmc_cuda_memory *memory;
    lmc_cuda_report report;
    uint8_t *content; /* of one block of the host's */
    size_t content_capacity;
} finish_job;

/* One block of a member. */
typedef struct finish_block {
    const lmc_cuda_member *member;
    uint64_t frame_index, block_index, offset;
    size_t stored_nbytes, content_nbytes;
} finish_block;

/* Lists a failure. Error: NOMEM. */
static lmc_status add_failure(finish_job *job, const finish_block *block, lmc_status status,
                              int found_by_device)
{
    lmc_cuda_failure *const failure = lmc_cuda_append(job->batch, &job->batch->failures, sizeof *failure);
    if (!failure)
        return lmc_cuda_fail(&job->batch->diag, LMC_ERR_NOMEM, 0, "no memory for a failure");
    *failure = (lmc_cuda_failure){sizeof *failure,
                                  block->member->given.name,
                                  block->frame_index,
                                  block->block_index,
                                  block->offset,
                                  found_by_device,
                                  status};
    job->report.failed_block_count++;
    return LMC_OK;
}

static int is_failure_of_block(lmc_status status)
{
    return status == LMC_ERR_CORRUPT || status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_CHECKSUM ||
           status == LMC_ERR_BASE;
}

/* ---- blocks of the host ---- */

static lmc_status reserve_content(finish_job *job, uint64_t nbytes)
{
    if (nbytes <= job->content_capacity)
        return LMC_OK;
    lmc_cuda_release(job->batch, job->content);
    job->content_capacity = 0;
    job->content = nbytes <= SIZE_MAX ? lmc_cuda_allocate(job->batch, (size_t)nbytes) : NULL;
    if (!job->content)
        return lmc_cuda_fail(&job->batch->diag, LMC_ERR_NOMEM, 0, "no memory for the host's blocks");
    job->content_capacity = (size_t)nbytes;
    return LMC_OK;
}

static lmc_status write_content(finish_job *job, const lmc_cuda_member *member, uint64_t first, size_t nbytes)
{
    if (!job->memory || !job->memory->write)
        return lmc_cuda_fail(&job->batch->diag, LMC_ERR_ARG, 0,
                             "blocks are the host's, but it cannot write to the device");
    const lmc_status status =
        job->memory->write(job->memory->user, member->given.device_content + first, job->content, nbytes);
    if (status != LMC_OK)
        return lmc_cuda_fail(&job->batch->diag, status, first,
                             "content of the host was not written to the device");
    return LMC_OK;
}

/* Decodes a block on the host and writes it to the device. */
static lmc_status decode_host_block(finish_job *job, const lmc_frame *frame, const finish_block *block,
                                    unsigned reason)
{
    const lmc_cuda_member *const member = block->member;
    const lmc_info *const info = &member->info;
    const uint8_t *const stored = (const uint8_t *)member->given.frame + block->offset;
    const uint64_t base_at = block->block_index * info->base_block_nbytes;
    const uint8_t *base = NULL;
    size_t base_nbytes = 0;
    if (info->mode == LMC_FRAME_DELTA) {
        base = (const uint8_t *)member->given.base + base_at;
        base_nbytes = (size_t)(info->base_nbytes - base_at);
        if (base_nbytes > info->base_block_nbytes)
            base_nbytes = info->base_block_nbytes;
    }
    LMC_TRY(reserve_content(job, block->content_nbytes));
    job->report.reason_count[reason]++;
    const lmc_status status =
        lmc_decode_delta_block(job->batch->ctx, frame, block->block_index, stored, block->stored_nbytes, base,
                               base_nbytes, job->content, job->content_capacity, NULL);
    if (is_failure_of_block(status))
        return add_failure(job, block, status, 0);
    if (status != LMC_OK)
        return lmc_cuda_fail_as_ctx(job->batch, status);
    job->report.host_block_count++;
    job->report.host_nbytes += block->content_nbytes;
    return write_content(job, member, block->block_index * info->block_nbytes, block->content_nbytes);
}

/* Decodes a stored frame on the host: its one hash is of all blocks. */
static lmc_status decode_host_frame(finish_job *job, const finish_block *first)
{
    const lmc_cuda_member *const member = first->member;
    size_t nbytes;
    LMC_TRY(reserve_content(job, member->info.content_nbytes));
    job->report.reason_count[LMC_CUDA_REASON_PENDING] += member->info.block_count;
    const lmc_status status = lmc_decode(job->batch->ctx, member->given.frame, member->given.frame_nbytes,
                                         job->content, job->content_capacity, &nbytes);
    if (is_failure_of_block(status))
        return add_failure(job, first, status, 0);
    if (status != LMC_OK)
        return lmc_cuda_fail_as_ctx(job->batch, status);
    job->report.host_block_count += member->info.block_count;
    job->report.host_nbytes += nbytes;
    return write_content(job, member, 0, nbytes);
}

/* ---- outcomes of the device ---- */

/* Has the device said what became of the block? A number that is no outcome says nothing. */
static int is_decided(const lmc_cuda_result *result)
{
    const uint32_t outcome = result->outcome;
    return outcome == LMC_CUDA_DONE || outcome == LMC_CUDA_CORRUPT || outcome == LMC_CUDA_UNSUPPORTED ||
           outcome == LMC_CUDA_CHECKSUM;
}

static lmc_status finish_coded_block(finish_job *job, const lmc_frame *frame, const finish_block *block)
{
    const lmc_cuda_member *const member = block->member;
    if (member->host_reason != 0)
        return decode_host_block(job, frame, block, member->host_reason);
    const uint64_t i = member->first_block + block->block_index;
    const lmc_cuda_result *const result = &job->results[i];
    if (!is_decided(result))
        return decode_host_block(job, frame, block, LMC_CUDA_REASON_PENDING);
    if (result->outcome != LMC_CUDA_DONE)
        return add_failure(job, block, (lmc_status)(result->outcome & ~LMC_CUDA_FAILED), 1);
    if (result->hash != ((const lmc_cuda_block *)(const void *)job->batch->blocks.bytes)[i].hash)
        return add_failure(job, block, LMC_ERR_CHECKSUM, 1);
    job->report.device_block_count++;
    job->report.device_nbytes += block->content_nbytes;
    return LMC_OK;
}

static lmc_status finish_coded(finish_job *job, uint64_t frame_index, const lmc_frame *frame)
{
    finish_block block = {lmc_cuda_member_at(job->batch, frame_index), frame_index, 0, 0, 0, 0};
    for (; block.block_index < block.member->info.block_count; block.block_index++) {
        LMC_TRY(lmc_frame_block(frame, block.block_index, &block.offset, &block.stored_nbytes,
                                &block.content_nbytes));
        LMC_TRY(finish_coded_block(job, frame, &block));
    }
    return LMC_OK;
}

/* The content hash of a stored frame is over the hashes of its blocks. */
static lmc_status finish_stored(finish_job *job, uint64_t frame_index)
{
    const lmc_cuda_member *const member = lmc_cuda_member_at(job->batch, frame_index);
    const uint64_t count = member->info.block_count;
    const finish_block first = {member, frame_index, 0, member->info.head_nbytes, 0, 0};
    int is_done = 1;
    lmc_block_entry *const entries =
        count > 0 ? lmc_cuda_allocate(job->batch, (size_t)count * sizeof *entries) : NULL;
    if (count > 0 && !entries)
        return lmc_cuda_fail(&job->batch->diag, LMC_ERR_NOMEM, 0,
                             "no memory for the hashes of a stored frame");
    for (uint64_t i = 0; i < count; i++) {
        const lmc_cuda_result *const result = &job->results[member->first_block + i];
        is_done &= result->outcome == LMC_CUDA_DONE;
        entries[i] = (lmc_block_entry){.content_hash = result->hash};
    }
    const uint64_t hash = lmc_content_hash(entries, count);
    lmc_cuda_release(job->batch, entries);
    if (!is_done)
        return decode_host_frame(job, &first);
    if (hash != member->content_hash)
        return add_failure(job, &first, LMC_ERR_CHECKSUM, 1);
    job->report.device_block_count += count;
    job->report.device_nbytes += member->info.content_nbytes;
    return LMC_OK;
}

static lmc_status finish_frame(finish_job *job, uint64_t frame_index)
{
    const lmc_cuda_member *const member = lmc_cuda_member_at(job->batch, frame_index);
    lmc_frame *frame;
    if (member->info.mode == LMC_FRAME_STORED || member->info.mode == LMC_FRAME_SHORT)
        return finish_stored(job, frame_index);
    LMC_TRY(lmc_cuda_open(job->batch, &member->given, &frame));
    const lmc_status status = finish_coded(job, frame_index, frame);
    lmc_frame_free(frame);
    return status;
}

/* The status of a batch with failures is that of the first one. */
static lmc_status first_failure(lmc_cuda_batch *batch)
{
    lmc_cuda_failure failure = LMC_INIT(lmc_cuda_failure);
    if (!lmc_cuda_failed_block(batch, 0, &failure))
        return LMC_OK;
    return lmc_cuda_fail(&batch->diag, failure.status, failure.offset,
                         "%.60s: block %llu: %s, found by the %s", failure.name ? failure.name : "a tensor",
                         (unsigned long long)failure.block_index, lmc_status_text(failure.status),
                         failure.found_by_device ? "device" : "host");
}

static lmc_status check_arguments(lmc_cuda_batch *batch, const void *results, size_t results_nbytes,
                                  const lmc_cuda_report *report)
{
    const size_t wanted = (size_t)lmc_cuda_descriptor_count(batch) * sizeof(lmc_cuda_result);
    if (results_nbytes != wanted || (wanted > 0 && !results))
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "results of %zu bytes were wanted", wanted);
    if (report && !lmc_struct_is_known(report, sizeof *report))
        return lmc_cuda_fail(&batch->diag, LMC_ERR_ARG, 0, "a report's struct_size is not known");
    return LMC_OK;
}

lmc_status lmc_cuda_finish(lmc_cuda_batch *batch, const void *results, size_t results_nbytes,
                           const lmc_cuda_memory *memory, lmc_cuda_report *report)
{
    if (!batch)
        return LMC_ERR_ARG;
    batch->diag.status = LMC_OK;
    batch->failures.nbytes = 0;
    LMC_TRY(check_arguments(batch, results, results_nbytes, report));
    finish_job job = {.batch = batch, .memory = memory};
    lmc_cuda_result *const copy =
        lmc_cuda_allocate(batch, results_nbytes + 1); /* results may lie at any address */
    if (!copy)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_NOMEM, 0, "no memory for results");
    if (results_nbytes > 0)
        memcpy(copy, results, results_nbytes);
    job.results = copy;
    job.report.block_count = batch->block_count;
    lmc_status status = LMC_OK;
    for (uint64_t i = 0; status == LMC_OK && i < lmc_cuda_member_count(batch); i++)
        status = finish_frame(&job, i);
    lmc_cuda_release(batch, copy);
    lmc_cuda_release(batch, job.content);
    if (report)
        lmc_struct_copy(report, &job.report, lmc_struct_size(report));
    return status == LMC_OK ? first_failure(batch) : status;
}

int lmc_cuda_failed_block(const lmc_cuda_batch *batch, uint64_t index, lmc_cuda_failure *failure)
{
    const lmc_cuda_failure *const failures = (const lmc_cuda_failure *)(const void *)batch->failures.bytes;
    if (!lmc_struct_is_known(failure, sizeof *failure) || index >= batch->failures.nbytes / sizeof *failures)
        return 0;
    lmc_struct_copy(failure, &failures[index], lmc_struct_size(failure));
    return 1;
}
