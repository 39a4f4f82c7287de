/*
 * fake_cuda.c - a driver of CUDA without a device: the functions that liblmc_cuda and its tests call.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/emulate/emulate.h"
#include "gpu/host/loaded.h"

#define FUNCTION_MAX 64
#define CONTEXT_MAX 80
#define OUT_OF_MEMORY 2
#define INVALID_VALUE 1
#define LAUNCH_FAILED 719
#define MEMORY_ALIGNMENT 256

typedef struct counted {
    char name[48];
    unsigned calls;
    int error;
} counted;

typedef struct work work;
typedef struct CUstream_st stream;

/* What an event stands for: so much of a stream's work. */
typedef struct CUevent_st {
    stream *stream;
    unsigned long long until;
} event;

struct work {
    work *next;
    enum { WORK_COPY, WORK_SET, WORK_LAUNCH, WORK_WAIT } kind;
    void *dst;
    const void *src;
    size_t nbytes;
    unsigned char byte;
    unsigned kernel;
    lmc_cuda_job job;
    unsigned grid;
    event awaited;
};

struct CUstream_st {
    work *first, *last;
    unsigned long long given, done;
};

typedef struct CUctx_st {
    unsigned long long id; /* 0: there is none */
} context;

/* Memory on the device has its size before it. */
typedef struct memory_head {
    size_t nbytes;
} memory_head;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static counted functions[FUNCTION_MAX];
static int major, minor, version;
static stream default_stream;
static context contexts[CONTEXT_MAX];
static unsigned long long last_context_id, memory_nbytes;
static _Thread_local context *current;
static unsigned last_grid;
static const char *last_image = "";
static int sticky_error; /* of work that failed: all later calls say it */

/* ---- rules ---- */

static counted *find_function(const char *name)
{
    size_t i = 0;
    while (functions[i].name[0] != '\0' && strcmp(functions[i].name, name) != 0)
        i++;
    strncpy(functions[i].name, name, sizeof functions[i].name - 1);
    return &functions[i];
}

/* Counts a call and says whether it shall fail. */
static int begin(const char *name)
{
    pthread_mutex_lock(&lock);
    if (version == 0) {
        major = 9;
        version = 12090;
    }
    counted *const function = find_function(name);
    function->calls++;
    const int error = function->error != 0 ? function->error : sticky_error;
    pthread_mutex_unlock(&lock);
    return error;
}

#define BEGIN                                   \
    do {                                        \
        const int fake_error = begin(__func__); \
        if (fake_error != 0)                    \
            return fake_error;                  \
    } while (0)

void fake_cuda_reset(void)
{
    pthread_mutex_lock(&lock);
    memset(functions, 0, sizeof functions);
    major = 9;
    minor = 0;
    version = 12090;
    sticky_error = 0;
    last_image = "";
    pthread_mutex_unlock(&lock);
}

void fake_cuda_fail(const char *function, int error)
{
    pthread_mutex_lock(&lock);
    find_function(function)->error = error;
    pthread_mutex_unlock(&lock);
}

unsigned fake_cuda_calls(const char *function)
{
    pthread_mutex_lock(&lock);
    const unsigned calls = find_function(function)->calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

void fake_cuda_set_capability(int new_major, int new_minor)
{
    major = new_major;
    minor = new_minor;
}

void fake_cuda_set_version(int new_version)
{
    version = new_version;
}

unsigned fake_cuda_grid(void)
{
    return last_grid;
}

unsigned long long fake_cuda_memory(void)
{
    return memory_nbytes;
}

const char *fake_cuda_image(void)
{
    return last_image;
}

/* ---- work ---- */

static void do_until(stream *of, unsigned long long until);

static void launch(const work *item)
{
    last_grid = item->grid;
    if (find_function("work")->error != 0 ||
        !lmc_emulate_kernel_512(item->kernel, &item->job, item->grid, item->grid))
        sticky_error = LAUNCH_FAILED;
}

static void do_work(const work *item)
{
    switch (item->kind) {
    case WORK_COPY: memcpy(item->dst, item->src, item->nbytes); break;
    case WORK_SET: memset(item->dst, item->byte, item->nbytes); break;
    case WORK_LAUNCH: launch(item); break;
    case WORK_WAIT: do_until(item->awaited.stream, item->awaited.until); break;
    }
}

static void do_until(stream *of, unsigned long long until)
{
    while (of->done < until && of->first) {
        work *const item = of->first;
        of->first = item->next;
        of->done++;
        if (sticky_error == 0)
            do_work(item);
        free(item);
    }
    if (!of->first)
        of->last = NULL;
}

static int give(stream *to, const work *item)
{
    work *const copy = malloc(sizeof *copy);
    if (!copy)
        return OUT_OF_MEMORY;
    *copy = *item;
    copy->next = NULL;
    pthread_mutex_lock(&lock);
    to = to ? to : &default_stream;
    if (to->last)
        to->last->next = copy;
    else
        to->first = copy;
    to->last = copy;
    to->given++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int wait_for(stream *of, unsigned long long until)
{
    pthread_mutex_lock(&lock);
    do_until(of, until);
    const int error = sticky_error;
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- the driver and its device ---- */

int cuInit(unsigned flags)
{
    BEGIN;
    return flags == 0 ? 0 : INVALID_VALUE;
}

int cuDriverGetVersion(int *found)
{
    BEGIN;
    *found = version;
    return 0;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                     : NULL;
    return *name ? 0 : INVALID_VALUE;
}

int cuDeviceGet(int *device, int ordinal)
{
    BEGIN;
    *device = ordinal;
    return ordinal == 0 ? 0 : INVALID_VALUE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN;
    *value = attribute == 75 ? major : attribute == 76 ? minor : 4;
    return device == 0 ? 0 : INVALID_VALUE;
}

/* ---- contexts ---- */

static context *make_context(void)
{
    pthread_mutex_lock(&lock);
    context *made = contexts;
    while (made->id != 0)
        made++;
    made->id = ++last_context_id;
    pthread_mutex_unlock(&lock);
    return made;
}

int cuCtxCreate_v2(context **made, unsigned flags, int device)
{
    BEGIN;
    *made = current = make_context();
    return flags == 0 && device == 0 ? 0 : INVALID_VALUE;
}

int cuCtxDestroy_v2(context *ended)
{
    BEGIN;
    ended->id = 0;
    current = current == ended ? NULL : current;
    return 0;
}

int cuCtxSetCurrent(context *wanted)
{
    BEGIN;
    current = wanted;
    return 0;
}

int cuCtxGetCurrent(context **found)
{
    BEGIN;
    *found = current;
    return 0;
}

int cuCtxGetId(const context *of, unsigned long long *id)
{
    BEGIN;
    *id = of->id;
    return 0;
}

int cuCtxGetDevice(int *device)
{
    BEGIN;
    *device = 0;
    return 0;
}

/* ---- modules ---- */

int cuModuleLoadDataEx(const char **module, const void *image, unsigned option_count, int *options,
                       void **values)
{
    BEGIN;
    (void)options;
    (void)values;
    last_image = *module = image;
    return option_count == 0 ? 0 : INVALID_VALUE;
}

int cuModuleUnload(const char *module)
{
    BEGIN;
    return module ? 0 : INVALID_VALUE;
}

int cuModuleGetFunction(const char *const **function, const char *module, const char *name)
{
    BEGIN;
    for (unsigned i = 0; module && i < LMC_CUDA_KERNEL_COUNT; i++)
        if (strcmp(name, lmc_cuda_kernel_names[i]) == 0) {
            *function = &lmc_cuda_kernel_names[i];
            return 0;
        }
    return INVALID_VALUE;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const char *const *function, int thread_count,
                                                size_t shared_nbytes)
{
    BEGIN;
    *count = 1;
    return function && thread_count == 512 && shared_nbytes == 0 ? 0 : INVALID_VALUE;
}

int cuLaunchKernel(const char *const *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes, stream *of,
                   void **parameters, void **extra)
{
    BEGIN;
    if (!function || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != 512 || block_y != 1 ||
        block_z != 1 || shared_nbytes != 0 || extra)
        return INVALID_VALUE;
    const work item = {.kind = WORK_LAUNCH,
                       .kernel = (unsigned)(function - lmc_cuda_kernel_names),
                       .job = *(const lmc_cuda_job *)parameters[0],
                       .grid = grid_x};
    return give(of, &item);
}

/* ---- memory ---- */

int cuMemAlloc_v2(unsigned long long *address, size_t nbytes)
{
    void *memory;
    BEGIN;
    if (posix_memalign(&memory, MEMORY_ALIGNMENT, nbytes + MEMORY_ALIGNMENT) != 0)
        return OUT_OF_MEMORY;
    memset(memory, 0xdd, nbytes + MEMORY_ALIGNMENT);
    *(memory_head *)memory = (memory_head){nbytes};
    *address = (uintptr_t)memory + MEMORY_ALIGNMENT;
    pthread_mutex_lock(&lock);
    memory_nbytes += nbytes;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuMemFree_v2(unsigned long long address)
{
    BEGIN;
    memory_head *const head = (memory_head *)(uintptr_t)(address - MEMORY_ALIGNMENT);
    pthread_mutex_lock(&lock);
    memory_nbytes -= head->nbytes;
    pthread_mutex_unlock(&lock);
    free(head);
    return 0;
}

int cuMemcpyHtoDAsync_v2(unsigned long long dst, const void *src, size_t nbytes, stream *of)
{
    BEGIN;
    return give(of, &(work){.kind = WORK_COPY, .dst = (void *)(uintptr_t)dst, .src = src, .nbytes = nbytes});
}

int cuMemcpyDtoHAsync_v2(void *dst, unsigned long long src, size_t nbytes, stream *of)
{
    BEGIN;
    return give(of, &(work){.kind = WORK_COPY, .dst = dst, .src = (void *)(uintptr_t)src, .nbytes = nbytes});
}

int cuMemsetD8Async(unsigned long long dst, unsigned char byte, size_t nbytes, stream *of)
{
    BEGIN;
    return give(of, &(work){.kind = WORK_SET, .dst = (void *)(uintptr_t)dst, .byte = byte, .nbytes = nbytes});
}

int cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags)
{
    BEGIN;
    (void)flags;
    return posix_memalign(memory, MEMORY_ALIGNMENT, nbytes) == 0 ? 0 : OUT_OF_MEMORY;
}

int cuMemFreeHost(void *memory)
{
    BEGIN;
    free(memory);
    return 0;
}

/* ---- streams and events ---- */

int cuStreamCreate(stream **made, unsigned flags)
{
    BEGIN;
    *made = calloc(1, sizeof **made);
    return flags <= 1 && *made ? 0 : OUT_OF_MEMORY;
}

int cuStreamSynchronize(stream *of)
{
    BEGIN;
    of = of ? of : &default_stream;
    return wait_for(of, of->given);
}

int cuStreamDestroy_v2(stream *ended)
{
    BEGIN;
    const int error = wait_for(ended, ended->given);
    free(ended);
    return error;
}

int cuStreamWaitEvent(stream *of, event *awaited, unsigned flags)
{
    BEGIN;
    (void)flags;
    return awaited->stream ? give(of, &(work){.kind = WORK_WAIT, .awaited = *awaited}) : 0;
}

int cuEventCreate(event **made, unsigned flags)
{
    BEGIN;
    (void)flags;
    *made = calloc(1, sizeof **made);
    return *made ? 0 : OUT_OF_MEMORY;
}

int cuEventRecord(event *recorded, stream *of)
{
    BEGIN;
    recorded->stream = of ? of : &default_stream;
    recorded->until = recorded->stream->given;
    return 0;
}

int cuEventSynchronize(event *awaited)
{
    BEGIN;
    return awaited->stream ? wait_for(awaited->stream, awaited->until) : 0;
}

int cuEventDestroy_v2(event *ended)
{
    BEGIN;
    free(ended);
    return 0;
}
