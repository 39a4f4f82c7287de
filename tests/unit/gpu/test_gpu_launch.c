/* test_gpu_launch.c - lmc_cuda_init() and lmc_cuda_decode() with a driver of CUDA that has no device: kernels are
 * chosen, loaded once for each context, and launched; all that can fail does. */
#include "lmc_test_gpu.h"

#include <dlfcn.h>
#include <pthread.h>

#include "fake_cuda.h"

#define NBYTES 30000
#define OUT_OF_MEMORY 2
#define NO_DEVICE 100
#define NO_BINARY 209
#define NO_JIT_COMPILER 221
#define UNSUPPORTED_PTX 222
#define JIT_DISABLED 223
#define LAUNCH_FAILED 719

/* ---- the driver ---- */

/* What the tests call of it. */
static struct {
    void (*reset)(void);
    void (*fail)(const char *function, int error);
    unsigned (*calls)(const char *function);
    void (*set_capability)(int major, int minor);
    void (*set_version)(int version);
    unsigned (*grid)(void);
    const char *(*image)(void);
    int (*context_create)(void **context, unsigned flags, int device);
    int (*context_destroy)(void *context);
    int (*context_set)(void *context);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
} fake;

static void find(void *library, const char *name, void *function)
{
    void *const address = dlsym(library, name);
    if (!address)
        abort();
    memcpy(function, &address, sizeof address);
}

static void find_fake(void)
{
    void *const library = dlopen(LMC_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        abort();
    find(library, "fake_cuda_reset", &fake.reset);
    find(library, "fake_cuda_fail", &fake.fail);
    find(library, "fake_cuda_calls", &fake.calls);
    find(library, "fake_cuda_set_capability", &fake.set_capability);
    find(library, "fake_cuda_set_version", &fake.set_version);
    find(library, "fake_cuda_grid", &fake.grid);
    find(library, "fake_cuda_image", &fake.image);
    find(library, "cuCtxCreate_v2", &fake.context_create);
    find(library, "cuCtxDestroy_v2", &fake.context_destroy);
    find(library, "cuCtxSetCurrent", &fake.context_set);
    find(library, "cuStreamCreate", &fake.stream_create);
    find(library, "cuStreamDestroy_v2", &fake.stream_destroy);
    find(library, "cuStreamSynchronize", &fake.stream_synchronize);
    fake.reset();
}

/* ---- a batch to launch ---- */

typedef struct prepared {
    lmc_cuda_batch *batch;
    test_frame frame;
    gpu_tensor tensor;
    uint8_t *content;
    lmc_cuda_info info;
    void *image, *results, *scratch;
    lmc_cuda_launch launch;
} prepared;

static lmc_ctx *ctx;

static void prepare(prepared *made, unsigned scratch_count)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 11);
    memset(made, 0, sizeof *made);
    made->info.struct_size = sizeof made->info;
    made->content = must_malloc(NBYTES);
    data_fill(made->content, NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    made->frame = frame_encode(ctx, &params, made->content, NBYTES);
    made->tensor = (gpu_tensor){.frame = made->frame.bytes, .frame_nbytes = made->frame.nbytes};
    CU_ASSERT_EQUAL_FATAL(lmc_cuda_batch_create(NULL, &made->batch), LMC_OK);
    gpu_prepare(made->batch, &made->tensor, 0);
    CU_ASSERT_EQUAL_FATAL(made->tensor.prepared, LMC_OK);
    CU_ASSERT_EQUAL(lmc_cuda_batch_info(made->batch, &made->info), LMC_OK);
    made->image = gpu_allocate(made->info.image_nbytes);
    made->results = gpu_allocate(made->info.results_nbytes);
    made->scratch = gpu_allocate(made->info.scratch_nbytes_least * scratch_count);
    CU_ASSERT_EQUAL_FATAL(lmc_cuda_write_image(made->batch, made->image, made->info.image_nbytes), LMC_OK);
    made->launch = (lmc_cuda_launch){.struct_size = sizeof made->launch,
                                     .image = (uintptr_t)made->image,
                                     .results = (uintptr_t)made->results,
                                     .scratch = (uintptr_t)made->scratch,
                                     .scratch_nbytes = made->info.scratch_nbytes_least * scratch_count};
}

static void unprepare(prepared *made)
{
    lmc_cuda_batch_free(made->batch);
    frame_free(&made->frame);
    gpu_free(&made->tensor);
    free(made->content);
    free(made->image);
    free(made->results);
    free(made->scratch);
}

static lmc_status finish(prepared *made)
{
    return lmc_cuda_finish(made->batch, made->results, made->info.results_nbytes, NULL, NULL);
}

static void *create_context(void)
{
    void *context;
    CU_ASSERT_EQUAL_FATAL(fake.context_create(&context, 0, 0), 0);
    return context;
}

static void check_init_fails(lmc_status status, const char *text)
{
    lmc_diag diag = LMC_INIT(lmc_diag);
    CU_ASSERT_EQUAL(lmc_cuda_init(NULL, &diag), status);
    CU_ASSERT_EQUAL(diag.status, status);
    if (!strstr(diag.text, text))
        printf("\n%s\n", diag.text);
    CU_ASSERT(strstr(diag.text, text) != NULL);
}

/* ---- no driver: before the first success, which stays ---- */

LMC_TEST(test_no_driver)
{
    setenv("LMC_CUDA_DRIVER", "no-driver.so.1", 1);
    check_init_fails(LMC_ERR_UNSUPPORTED, "there is no driver: no-driver.so.1");
    setenv("LMC_CUDA_DRIVER", "libm.so.6", 1);
    check_init_fails(LMC_ERR_UNSUPPORTED, "the driver libm.so.6 has no cuInit: CUDA 12 or later is needed");
    setenv("LMC_CUDA_DRIVER", LMC_FAKE_CUDA, 1);
    fake.set_version(11080);
    check_init_fails(LMC_ERR_UNSUPPORTED, "the driver serves CUDA 11.8: 12.0 or later is needed");
    fake.reset();
    fake.fail("cuDriverGetVersion", OUT_OF_MEMORY);
    check_init_fails(LMC_ERR_IO, "cuDriverGetVersion: CUDA_ERROR_OUT_OF_MEMORY (2)");
    fake.reset();
    fake.fail("cuInit", NO_DEVICE);
    check_init_fails(LMC_ERR_UNSUPPORTED, "the driver sees no device");
    fake.fail("cuInit", OUT_OF_MEMORY);
    check_init_fails(LMC_ERR_IO, "cuInit: CUDA_ERROR_OUT_OF_MEMORY (2)");
    fake.reset();
}

LMC_TEST(test_no_context)
{
    fake.context_set(NULL);
    check_init_fails(LMC_ERR_ARG, "no context of CUDA is current in this thread");
}

/* ---- kernels ---- */

static void check_kernels(int major, int minor, const char *name, const char *image)
{
    lmc_cuda_device device = LMC_INIT(lmc_cuda_device);
    void *const context = create_context();
    fake.set_capability(major, minor);
    CU_ASSERT_EQUAL(lmc_cuda_init(&device, NULL), LMC_OK);
    CU_ASSERT_STRING_EQUAL(device.kernels, name);
    CU_ASSERT_STRING_EQUAL(fake.image(), image);
    CU_ASSERT(device.capability_major == (unsigned)major && device.capability_minor == (unsigned)minor);
    CU_ASSERT_EQUAL(device.multiprocessor_count, 4);
    CU_ASSERT_EQUAL(device.thread_block_count, 4);
    fake.context_destroy(context);
    fake.reset();
}

LMC_TEST(test_kernels_of_devices)
{
    static const int ptx_errors[] = {UNSUPPORTED_PTX, NO_JIT_COMPILER, JIT_DISABLED};
    check_kernels(8, 0, "sm_80", "cubin of sm_80");
    check_kernels(8, 9, "sm_80", "cubin of sm_80");
    check_kernels(9, 0, "sm_90", "cubin of sm_90");
    check_kernels(10, 3, "sm_100", "cubin of sm_100");
    check_kernels(12, 0, "compute_80", "PTX of compute_80");
    fake.fail("cuModuleLoadDataEx", NO_BINARY);
    void *const context = create_context();
    check_init_fails(LMC_ERR_UNSUPPORTED, "fits compute capability 9.0 and the driver");
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 2); /* the cubin, then PTX */
    for (size_t i = 0; i < sizeof ptx_errors / sizeof *ptx_errors; i++) {
        fake.fail("cuModuleLoadDataEx", ptx_errors[i]);
        check_init_fails(LMC_ERR_UNSUPPORTED, "fits compute capability 9.0 and the driver");
    }
    fake.fail("cuModuleLoadDataEx", 0);
    fake.set_capability(7, 5);
    check_init_fails(LMC_ERR_UNSUPPORTED, "sm_80 sm_90 sm_100 compute_80) fits compute capability 7.5");
    fake.context_destroy(context);
    fake.reset();
}

LMC_TEST(test_faults_of_loading)
{
    static const char *const names[] = {"cuCtxGetId",
                                        "cuCtxGetDevice",
                                        "cuDeviceGetAttribute",
                                        "cuModuleLoadDataEx",
                                        "cuModuleGetFunction",
                                        "cuCtxGetCurrent",
                                        "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
    void *const context = create_context();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[80];
        snprintf(text, sizeof text, "%s: CUDA_ERROR_OUT_OF_MEMORY (2)", names[i]);
        fake.fail(names[i], OUT_OF_MEMORY);
        check_init_fails(LMC_ERR_IO, text);
        /* a module that is not used any more does not stay in the context */
        CU_ASSERT_EQUAL(fake.calls("cuModuleUnload"),
                        fake.calls("cuModuleGetFunction") > 0 ? fake.calls("cuModuleLoadDataEx") : 0);
        fake.reset();
    }
    CU_ASSERT_EQUAL(lmc_cuda_init(NULL, NULL), LMC_OK);
    fake.context_destroy(context);
}

/* A later context at the same address is another one. */
LMC_TEST(test_contexts)
{
    void *const first = create_context(), *const second = create_context();
    fake.reset();
    for (unsigned i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(fake.context_set(i % 2 == 0 ? first : second), 0);
        CU_ASSERT_EQUAL(lmc_cuda_init(NULL, NULL), LMC_OK);
    }
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 2);
    fake.context_destroy(second);
    void *const third = create_context();
    CU_ASSERT_PTR_EQUAL(third, second);
    CU_ASSERT_EQUAL(lmc_cuda_init(NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 3);
    fake.context_destroy(first);
    fake.context_destroy(third);
}

/* More contexts than are kept at hand: the kernels of an earlier one are loaded again. */
LMC_TEST(test_many_contexts)
{
    void *contexts[70];
    fake.reset();
    for (size_t i = 0; i < 70; i++) {
        contexts[i] = create_context();
        CU_ASSERT_EQUAL(lmc_cuda_init(NULL, NULL), LMC_OK);
    }
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 70);
    CU_ASSERT_EQUAL(fake.context_set(contexts[0]), 0);
    CU_ASSERT_EQUAL(lmc_cuda_init(NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 71);
    for (size_t i = 0; i < 70; i++)
        fake.context_destroy(contexts[i]);
}

LMC_TEST(test_structs)
{
    lmc_cuda_device device = LMC_INIT(lmc_cuda_device);
    lmc_diag diag = LMC_INIT(lmc_diag);
    void *const context = create_context();
    device.struct_size++;
    CU_ASSERT_EQUAL(lmc_cuda_init(&device, &diag), LMC_ERR_ARG);
    device.struct_size = sizeof(size_t) + sizeof(unsigned);
    device.capability_minor = 77;
    CU_ASSERT_EQUAL(lmc_cuda_init(&device, &diag), LMC_OK);
    CU_ASSERT(device.capability_major == 9 && device.capability_minor == 77);
    diag.struct_size = 0;
    CU_ASSERT_EQUAL(lmc_cuda_init(NULL, &diag), LMC_ERR_ARG);
    fake.context_destroy(context);
}

/* ---- launches ---- */

LMC_TEST(test_decode)
{
    void *const context = create_context();
    prepared made;
    for (unsigned scratch_count = 1; scratch_count < 9; scratch_count *= 2) {
        prepare(&made, scratch_count);
        CU_ASSERT_EQUAL(fake.stream_create(&made.launch.stream, 1), 0);
        CU_ASSERT_EQUAL(lmc_cuda_decode(made.batch, &made.launch), LMC_OK);
        CU_ASSERT_NOT_EQUAL(memcmp(made.tensor.content, made.content, NBYTES), 0); /* it only enqueues */
        CU_ASSERT_EQUAL(fake.stream_synchronize(made.launch.stream), 0);
        CU_ASSERT_EQUAL(finish(&made), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(made.tensor.content, made.content, NBYTES), 0);
        CU_ASSERT_EQUAL(fake.grid(), scratch_count < 4 ? scratch_count : 4);
        fake.stream_destroy(made.launch.stream);
        unprepare(&made);
    }
    fake.context_destroy(context);
}

static void check_refused(prepared *made, lmc_status status, const char *text)
{
    CU_ASSERT_EQUAL(lmc_cuda_decode(made->batch, &made->launch), status);
    CU_ASSERT_EQUAL(lmc_cuda_diag(made->batch)->status, status);
    CU_ASSERT(strstr(lmc_cuda_diag(made->batch)->text, text) != NULL);
}

LMC_TEST(test_wrong_launches)
{
    void *const context = create_context();
    prepared made;
    prepare(&made, 1);
    const lmc_cuda_launch right = made.launch;
    fake.reset();
    CU_ASSERT_EQUAL(lmc_cuda_decode(NULL, &right), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_cuda_decode(made.batch, NULL), LMC_ERR_ARG);
    made.launch.struct_size++;
    check_refused(&made, LMC_ERR_ARG, "struct_size");
    made.launch = right;
    made.launch.image = 0;
    check_refused(&made, LMC_ERR_ARG, "address is 0");
    made.launch = right;
    made.launch.results += 8;
    check_refused(&made, LMC_ERR_ARG, "multiple of 16");
    made.launch = right;
    made.launch.scratch_nbytes--;
    check_refused(&made, LMC_ERR_DST_SMALL, "scratch takes");
    CU_ASSERT_EQUAL(fake.calls("cuLaunchKernel"), 0);
    lmc_cuda_batch_clear(made.batch);
    CU_ASSERT_EQUAL(lmc_cuda_decode(made.batch, &right), LMC_OK); /* nothing to do */
    CU_ASSERT_EQUAL(fake.calls("cuLaunchKernel"), 0);
    unprepare(&made);
    fake.context_destroy(context);
}

LMC_TEST(test_faults_of_launches)
{
    void *const context = create_context();
    prepared made;
    prepare(&made, 1);
    fake.fail("cuMemsetD8Async", LAUNCH_FAILED);
    check_refused(&made, LMC_ERR_IO, "cuMemsetD8Async: CUDA_ERROR_LAUNCH_FAILED (719)");
    fake.reset();
    fake.fail("cuLaunchKernel", 9999);
    check_refused(&made, LMC_ERR_IO, "cuLaunchKernel: an unknown error (9999)");
    fake.reset();
    CU_ASSERT_EQUAL(fake.stream_synchronize(NULL), 0);
    CU_ASSERT_EQUAL(lmc_cuda_decode(made.batch, &made.launch), LMC_OK);
    fake.fail("work", 1);
    CU_ASSERT_EQUAL(fake.stream_synchronize(NULL), LAUNCH_FAILED);
    check_refused(&made, LMC_ERR_IO, "CUDA_ERROR_LAUNCH_FAILED (719)"); /* such a context has ended */
    fake.reset();
    unprepare(&made);
    fake.context_destroy(context);
}

/* ---- threads ---- */

#define THREAD_COUNT 4

typedef struct decoding {
    prepared made;
    void *context;
    int is_right;
} decoding;

/* Asserts are of the main thread. */
static void *decode_in_thread(void *argument)
{
    decoding *const given = argument;
    prepared *const made = &given->made;
    given->is_right = fake.context_set(given->context) == 0 &&
                      fake.stream_create(&made->launch.stream, 1) == 0 &&
                      lmc_cuda_decode(made->batch, &made->launch) == LMC_OK &&
                      fake.stream_synchronize(made->launch.stream) == 0 && finish(made) == LMC_OK &&
                      memcmp(made->tensor.content, made->content, NBYTES) == 0 &&
                      fake.stream_destroy(made->launch.stream) == 0;
    return NULL;
}

/* Threads with their own batches, in two contexts that nobody has used. */
LMC_TEST(test_threads)
{
    pthread_t threads[THREAD_COUNT];
    decoding decodings[THREAD_COUNT];
    void *const first = create_context(), *const second = create_context();
    fake.reset();
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        decodings[i].context = i % 2 == 0 ? first : second;
        prepare(&decodings[i].made, 2);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, decode_in_thread, &decodings[i]), 0);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT(decodings[i].is_right);
        unprepare(&decodings[i].made);
    }
    CU_ASSERT_EQUAL(fake.calls("cuModuleLoadDataEx"), 2);
    fake.context_destroy(first);
    fake.context_destroy(second);
}

int main(int argc, char **argv)
{
    ctx = must_create_ctx();
    cuda.is_off = 1;
    find_fake();
    setenv("LMC_CUDA_DRIVER", LMC_FAKE_CUDA, 1); /* for one of the tests alone */
    const int status = lmc_test_main("gpu_launch", argc, argv);
    lmc_ctx_free(ctx);
    return status;
}
