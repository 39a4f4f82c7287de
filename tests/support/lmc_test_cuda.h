/*
 * lmc_test_cuda.h - memory of a device for tests, if LMC_CUDA_DRIVER names the driver of CUDA. Each piece has a twin in
 * the host's memory: all are copied to the device before work, and back after it.
 */
#ifndef LMC_TEST_CUDA_H
#define LMC_TEST_CUDA_H

#include "lmc_test.h"

#include <dlfcn.h>

#define CUDA_TWIN_MAX 8192

typedef struct cuda_twin {
    uint8_t *host; /* NULL: free to use */
    unsigned long long device;
    size_t nbytes;
} cuda_twin;

static struct {
    int is_off; /* the test has use of its own for the environment */
    int is_loaded;
    int (*allocate)(unsigned long long *address, size_t nbytes);
    int (*release)(unsigned long long address);
    int (*copy_in)(unsigned long long dst, const void *src, size_t nbytes, void *stream);
    int (*copy_out)(void *dst, unsigned long long src, size_t nbytes, void *stream);
    int (*synchronize)(void *stream);
    cuda_twin twins[CUDA_TWIN_MAX];
} cuda;

static MAYBE_UNUSED void cuda_must(int error, const char *what)
{
    if (error == 0)
        return;
    printf("\n%s: error %d of the driver\n", what, error);
    abort();
}

static MAYBE_UNUSED void cuda_find(void *library, const char *name, void *function)
{
    void *const address = dlsym(library, name);
    cuda_must(!address, name);
    memcpy(function, &address, sizeof address);
}

/* 1 if tests are to run on a device. The first call makes a context, which is this thread's then. */
static MAYBE_UNUSED int cuda_is_used(void)
{
    const char *const name = getenv("LMC_CUDA_DRIVER");
    int (*init)(unsigned flags), (*create)(void **context, unsigned flags, int device);
    void *context;
    if (!name || cuda.is_off || cuda.is_loaded)
        return cuda.is_loaded;
    void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    cuda_must(!library, library ? name : dlerror());
    cuda_find(library, "cuInit", &init);
    cuda_find(library, "cuCtxCreate_v2", &create);
    cuda_find(library, "cuMemAlloc_v2", &cuda.allocate);
    cuda_find(library, "cuMemFree_v2", &cuda.release);
    cuda_find(library, "cuMemcpyHtoDAsync_v2", &cuda.copy_in);
    cuda_find(library, "cuMemcpyDtoHAsync_v2", &cuda.copy_out);
    cuda_find(library, "cuStreamSynchronize", &cuda.synchronize);
    cuda_must(init(0), "cuInit");
    cuda_must(create(&context, 0, 0), "cuCtxCreate");
    cuda.is_loaded = 1;
    return 1;
}

static MAYBE_UNUSED cuda_twin *cuda_find_twin(const void *host)
{
    size_t i = 0;
    while (i < CUDA_TWIN_MAX && cuda.twins[i].host != host)
        i++;
    cuda_must(i == CUDA_TWIN_MAX, "a twin");
    return &cuda.twins[i];
}

/* Makes the twin of memory of the host. */
static MAYBE_UNUSED void cuda_make_twin(void *host, size_t nbytes)
{
    cuda_twin *const twin = cuda_find_twin(NULL);
    cuda_must(cuda.allocate(&twin->device, nbytes > 0 ? nbytes : 1), "cuMemAlloc");
    twin->host = host;
    twin->nbytes = nbytes;
}

static MAYBE_UNUSED void cuda_free_twin(const void *host)
{
    cuda_twin *const twin = cuda_find_twin(host);
    cuda_must(cuda.release(twin->device), "cuMemFree");
    twin->host = NULL;
}

/* Copies all twins to the device, or from it and waits. */
static MAYBE_UNUSED void cuda_copy_twins(int is_out)
{
    for (cuda_twin *twin = cuda.twins; twin < cuda.twins + CUDA_TWIN_MAX; twin++)
        if (twin->host && twin->nbytes > 0)
            cuda_must(is_out ? cuda.copy_out(twin->host, twin->device, twin->nbytes, NULL)
                             : cuda.copy_in(twin->device, twin->host, twin->nbytes, NULL),
                      "a copy");
    cuda_must(cuda.synchronize(NULL), "cuStreamSynchronize");
}

/* The host's twin of memory on the device. */
static MAYBE_UNUSED uint8_t *cuda_host_of(unsigned long long address)
{
    for (const cuda_twin *twin = cuda.twins; twin < cuda.twins + CUDA_TWIN_MAX; twin++)
        if (twin->host && address >= twin->device && address - twin->device < twin->nbytes)
            return twin->host + (address - twin->device);
    cuda_must(1, "memory of the device");
    return NULL;
}

#endif
