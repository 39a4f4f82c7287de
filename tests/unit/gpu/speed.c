/*
 * speed.c - how fast a device decodes: gpu_speed [MIB [REPEATS]], 1024 MiB of normally distributed bf16 in frames of 16
 * MiB. LMC_CUDA_DRIVER names the driver, libcuda.so.1 by default. The content is compared with what was encoded.
 *
 * Rates are of content, the best of the repeats. "device": frames, descriptors and content are in the device's memory.
 * "from the host": frames are copied from pinned memory, then decoded; "copy" copies the raw content from there.
 */
#include "lmc_test_gpu.h"

#include <time.h>

#define FRAME_NBYTES (16u << 20)

static struct {
    int (*host_allocate)(void **memory, size_t nbytes, unsigned flags);
    int (*host_release)(void *memory);
} driver;

/* Frames of one level, and where they are. */
typedef struct speed_case {
    lmc_cuda_batch *batch;
    lmc_cuda_info info;
    lmc_cuda_launch launch;
    size_t frame_count, frames_nbytes;
    uint8_t *frames; /* pinned */
    unsigned long long device_frames, content, image, results, scratch;
    uint8_t *results_copy;
} speed_case;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint8_t *allocate_pinned(size_t nbytes)
{
    void *memory;
    cuda_must(driver.host_allocate(&memory, nbytes, 0), "cuMemHostAlloc");
    return memory;
}

static unsigned long long allocate(size_t nbytes)
{
    unsigned long long address;
    cuda_must(cuda.allocate(&address, nbytes), "cuMemAlloc");
    return address;
}

static void must(lmc_cuda_batch *batch, lmc_status status)
{
    if (status == LMC_OK)
        return;
    printf("%s: %s\n", lmc_status_text(status), lmc_cuda_diag(batch)->text);
    exit(1);
}

/* Encodes the content to pinned frames, one behind the other. Returns their bytes. */
static size_t encode(lmc_level level, const uint8_t *content, size_t frame_count, uint8_t *frames,
                     size_t capacity, size_t *places)
{
    lmc_ctx *const ctx = must_create_ctx();
    const lmc_params params = frame_params(LMC_DTYPE_BF16, level, 0);
    size_t at = 0;
    for (size_t i = 0; i < frame_count; i++) {
        size_t nbytes;
        if (lmc_encode(ctx, &params, content + i * FRAME_NBYTES, FRAME_NBYTES, frames + at, capacity - at,
                       &nbytes) != LMC_OK)
            abort();
        places[i] = at;
        at += nbytes;
    }
    places[frame_count] = at;
    lmc_ctx_free(ctx);
    return at;
}

static void prepare(speed_case *made, const size_t *places)
{
    lmc_cuda_device device = LMC_INIT(lmc_cuda_device);
    must(made->batch, lmc_cuda_init(&device, NULL));
    for (size_t i = 0; i < made->frame_count; i++) {
        const lmc_cuda_frame frame = {.struct_size = sizeof frame,
                                      .frame = made->frames + places[i],
                                      .frame_nbytes = places[i + 1] - places[i],
                                      .device_frame = made->device_frames + places[i],
                                      .device_content = made->content + i * FRAME_NBYTES,
                                      .content_capacity = FRAME_NBYTES};
        must(made->batch, lmc_cuda_prepare(made->batch, &frame));
    }
    made->info.struct_size = sizeof made->info;
    must(made->batch, lmc_cuda_batch_info(made->batch, &made->info));
    uint8_t *const image = must_malloc(made->info.image_nbytes);
    const size_t scratch_nbytes = made->info.scratch_nbytes_least * device.thread_block_count;
    made->image = allocate(made->info.image_nbytes);
    made->results = allocate(made->info.results_nbytes);
    made->scratch = allocate(scratch_nbytes);
    made->results_copy = must_malloc(made->info.results_nbytes);
    must(made->batch, lmc_cuda_write_image(made->batch, image, made->info.image_nbytes));
    cuda_must(cuda.copy_in(made->image, image, made->info.image_nbytes, NULL), "a copy");
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
    free(image);
    made->launch = (lmc_cuda_launch){.struct_size = sizeof made->launch,
                                     .image = made->image,
                                     .results = made->results,
                                     .scratch = made->scratch,
                                     .scratch_nbytes = scratch_nbytes};
}

/* Seconds of one pass; has_copy: with the copy of the frames. Ends with all blocks verified. */
static double decode(speed_case *made, int has_copy)
{
    lmc_cuda_report report = LMC_INIT(lmc_cuda_report);
    const double begin = seconds();
    if (has_copy)
        cuda_must(cuda.copy_in(made->device_frames, made->frames, made->frames_nbytes, NULL), "a copy");
    must(made->batch, lmc_cuda_decode(made->batch, &made->launch));
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
    const double taken = seconds() - begin;
    cuda_must(cuda.copy_out(made->results_copy, made->results, made->info.results_nbytes, NULL), "a copy");
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
    must(made->batch,
         lmc_cuda_finish(made->batch, made->results_copy, made->info.results_nbytes, NULL, &report));
    if (report.device_block_count != report.block_count)
        abort();
    return taken;
}

static double copy_raw(unsigned long long device, const uint8_t *content, size_t nbytes)
{
    const double begin = seconds();
    cuda_must(cuda.copy_in(device, content, nbytes, NULL), "a copy");
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
    return seconds() - begin;
}

static void keep_least(double *least, double taken)
{
    if (*least == 0 || taken < *least)
        *least = taken;
}

static void release(speed_case *made)
{
    const unsigned long long memory[] = {made->device_frames, made->content, made->image, made->results,
                                         made->scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        cuda_must(cuda.release(memory[i]), "cuMemFree");
    lmc_cuda_batch_free(made->batch);
    cuda_must(driver.host_release(made->frames), "cuMemFreeHost");
    free(made->results_copy);
}

/* content: pinned. */
static int measure(const char *name, lmc_level level, const uint8_t *content, size_t frame_count,
                   unsigned repeats)
{
    const size_t nbytes = frame_count * FRAME_NBYTES;
    size_t *const places = must_malloc((frame_count + 1) * sizeof *places);
    uint8_t *const copy = must_malloc(nbytes);
    double copied = 0, from_device = 0, from_host = 0;
    speed_case made = {.frame_count = frame_count};
    if (lmc_cuda_batch_create(NULL, &made.batch) != LMC_OK)
        abort();
    const size_t capacity = nbytes + (nbytes >> 4);
    made.frames = allocate_pinned(capacity);
    made.frames_nbytes = encode(level, content, frame_count, made.frames, capacity, places);
    made.device_frames = allocate(made.frames_nbytes);
    made.content = allocate(nbytes);
    prepare(&made, places);
    decode(&made, 1);
    for (unsigned i = 0; i < repeats; i++) {
        keep_least(&copied, copy_raw(made.content, content, nbytes));
        keep_least(&from_host, decode(&made, 1));
        keep_least(&from_device, decode(&made, 0));
    }
    cuda_must(cuda.copy_out(copy, made.content, nbytes, NULL), "a copy");
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
    const int is_right = memcmp(copy, content, nbytes) == 0;
    printf("%-8s %6.4f %12.1f %14.1f %10.1f %8.2f\n", name, (double)made.frames_nbytes / (double)nbytes,
           1e-9 * (double)nbytes / from_device, 1e-9 * (double)nbytes / from_host,
           1e-9 * (double)nbytes / copied, copied / from_host);
    release(&made);
    free(places);
    free(copy);
    if (!is_right)
        printf("%s: the content is wrong\n", name);
    return is_right;
}

int main(int argc, char **argv)
{
    const size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
    const unsigned repeats = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 10;
    const size_t frame_count = mib / (FRAME_NBYTES >> 20) + (mib < FRAME_NBYTES >> 20);
    setenv("LMC_CUDA_DRIVER", "libcuda.so.1", 0);
    if (!cuda_is_used())
        return 2;
    void *const library = dlopen(getenv("LMC_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    cuda_find(library, "cuMemHostAlloc", &driver.host_allocate);
    cuda_find(library, "cuMemFreeHost", &driver.host_release);
    uint8_t *const content = allocate_pinned(frame_count * FRAME_NBYTES);
    gpu_fill_normal(content, frame_count * FRAME_NBYTES, 0.02f);
    printf("%zu MiB of bf16, GB/s of content, verified\n", frame_count * (FRAME_NBYTES >> 20));
    printf("level     ratio  from device  from the host       copy  speed-up\n");
    const int is_right = measure("default", LMC_LEVEL_DEFAULT, content, frame_count, repeats) &
                         measure("fast", LMC_LEVEL_FAST, content, frame_count, repeats);
    cuda_must(driver.host_release(content), "cuMemFreeHost");
    return is_right ? 0 : 1;
}
