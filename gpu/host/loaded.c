/* loaded.c - chooses the kernels for a device and loads them, once for each context. */
#include "gpu/host/loaded.h"

#include "codec/common/diag.h"
#include "common/abi.h"
#include "gpu/host/batch.h"
#include "gpu/host/gpu_kernels.h"

#include <pthread.h>
#include <string.h>

/* Contexts whose kernels are kept at hand. Of more, the one that was loaded first is loaded again when it is used: its
 * earlier module stays until its context ends. */
#define CONTEXT_COUNT_MAX 64

const char *const lmc_cuda_kernel_names[LMC_CUDA_KERNEL_COUNT] = {
    [LMC_CUDA_KERNEL_6_3_5] = "lmc_cuda_decode_6_3_5",
    [LMC_CUDA_KERNEL_8_2_2] = "lmc_cuda_decode_8_2_2",
    [LMC_CUDA_KERNEL_ANY] = "lmc_cuda_decode_any",
};

/* A context, which another one may follow at the same address: the number tells them apart. */
typedef struct context_entry {
    lmc_cuda_context context;
    unsigned long long id;
    lmc_cuda_loaded loaded;
} context_entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static context_entry entries[CONTEXT_COUNT_MAX];
static size_t entry_count; /* that were ever made; the next one replaces entry_count % CONTEXT_COUNT_MAX */

/* ---- the device ---- */

static lmc_status read_attribute(const lmc_cuda_driver *driver, int device, int attribute, unsigned *value,
                                 lmc_diag *diag)
{
    int found = 0;
    const int error = driver->device_attribute(&found, attribute, device);
    *value = (unsigned)found;
    return error == 0 ? LMC_OK : lmc_cuda_fail_call(diag, driver, "cuDeviceGetAttribute", error);
}

static lmc_status describe_device(lmc_cuda_loaded *loaded, lmc_diag *diag)
{
    int number = 0;
    lmc_cuda_device *const device = &loaded->device;
    const int error = loaded->driver->context_device(&number);
    if (error != 0)
        return lmc_cuda_fail_call(diag, loaded->driver, "cuCtxGetDevice", error);
    LMC_TRY(
        read_attribute(loaded->driver, number, LMC_CUDA_CAPABILITY_MAJOR, &device->capability_major, diag));
    LMC_TRY(
        read_attribute(loaded->driver, number, LMC_CUDA_CAPABILITY_MINOR, &device->capability_minor, diag));
    return read_attribute(loaded->driver, number, LMC_CUDA_MULTIPROCESSOR_COUNT,
                          &device->multiprocessor_count, diag);
}

/* ---- kernels for it ---- */

/* The best image of a kind for a device, or NULL. */
static const lmc_cuda_image *find_image(const lmc_cuda_device *device, int is_ptx)
{
    const unsigned capability = 10 * device->capability_major + device->capability_minor;
    const lmc_cuda_image *best = NULL;
    for (size_t i = 0; i < lmc_cuda_image_count; i++) {
        const lmc_cuda_image *const image = &lmc_cuda_images[i];
        const int serves =
            image->capability <= capability && (is_ptx || image->capability / 10 == device->capability_major);
        if (image->is_ptx == is_ptx && serves && (!best || image->capability > best->capability))
            best = image;
    }
    return best;
}

/* 1 if the driver does not take the image, for the device or at all; others may fit. */
static int is_no_fit(int error)
{
    switch (error) {
    case LMC_CUDA_ERROR_INVALID_IMAGE:
    case LMC_CUDA_ERROR_NO_BINARY_FOR_GPU:
    case LMC_CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case LMC_CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case LMC_CUDA_ERROR_JIT_COMPILATION_DISABLED: return 1;
    default: return 0;
    }
}

/* A driver that does not take the cubin, as one that is older than it, may take PTX. */
static lmc_status load_module(lmc_cuda_loaded *loaded, lmc_cuda_module *module, lmc_diag *diag)
{
    int error = LMC_CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (int is_ptx = 0; is_ptx <= 1 && is_no_fit(error); is_ptx++) {
        const lmc_cuda_image *const image = find_image(&loaded->device, is_ptx);
        if (!image)
            continue;
        loaded->device.kernels = image->name;
        error = loaded->driver->module_load(module, image->bytes, 0, NULL, NULL);
    }
    if (error == 0)
        return LMC_OK;
    if (!is_no_fit(error))
        return lmc_cuda_fail_call(diag, loaded->driver, "cuModuleLoadDataEx", error);
    return lmc_cuda_fail(
        diag, LMC_ERR_UNSUPPORTED, 0, "no kernel (%.50s) fits compute capability %u.%u and the driver",
        lmc_cuda_images_text, loaded->device.capability_major, loaded->device.capability_minor);
}

static lmc_status find_kernel(lmc_cuda_loaded *loaded, lmc_cuda_module module, unsigned number,
                              lmc_diag *diag)
{
    lmc_cuda_loaded_kernel *const kernel = &loaded->kernels[number];
    int resident = 0; /* on a multiprocessor */
    int error = loaded->driver->module_function(&kernel->function, module, lmc_cuda_kernel_names[number]);
    if (error != 0)
        return lmc_cuda_fail_call(diag, loaded->driver, "cuModuleGetFunction", error);
    error = loaded->driver->occupancy(&resident, kernel->function, (int)lmc_cuda_thread_count, 0);
    if (error != 0)
        return lmc_cuda_fail_call(diag, loaded->driver, "cuOccupancyMaxActiveBlocksPerMultiprocessor", error);
    kernel->thread_block_count =
        loaded->device.multiprocessor_count * (unsigned)(resident > 0 ? resident : 1);
    if (loaded->device.thread_block_count < kernel->thread_block_count)
        loaded->device.thread_block_count = kernel->thread_block_count;
    return LMC_OK;
}

static lmc_status load_kernels(lmc_cuda_loaded *loaded, lmc_diag *diag)
{
    lmc_cuda_module module;
    LMC_TRY(describe_device(loaded, diag));
    LMC_TRY(load_module(loaded, &module, diag));
    lmc_status status = LMC_OK;
    for (unsigned i = 0; i < LMC_CUDA_KERNEL_COUNT && status == LMC_OK; i++)
        status = find_kernel(loaded, module, i, diag);
    if (status != LMC_OK)
        (void)loaded->driver->module_unload(module);
    return status;
}

/* ---- contexts ---- */

static context_entry *find_entry(lmc_cuda_context context)
{
    const size_t count = entry_count < CONTEXT_COUNT_MAX ? entry_count : CONTEXT_COUNT_MAX;
    for (size_t i = 0; i < count; i++)
        if (entries[i].context == context)
            return &entries[i];
    return NULL;
}

static lmc_status load_in_context(lmc_cuda_loaded *loaded, lmc_diag *diag)
{
    context_entry made = {.context = NULL};
    LMC_TRY(lmc_cuda_load_driver(&made.loaded.driver, diag));
    const lmc_cuda_driver *const driver = made.loaded.driver;
    int error = driver->context_current(&made.context);
    if (error != 0)
        return lmc_cuda_fail_call(diag, driver, "cuCtxGetCurrent", error);
    if (!made.context)
        return lmc_cuda_fail(diag, LMC_ERR_ARG, 0, "no context of CUDA is current in this thread");
    error = driver->context_id(made.context, &made.id);
    if (error != 0)
        return lmc_cuda_fail_call(diag, driver, "cuCtxGetId", error);
    context_entry *entry = find_entry(made.context);
    if (!entry || entry->id != made.id) {
        LMC_TRY(load_kernels(&made.loaded, diag));
        entry = entry ? entry : &entries[entry_count++ % CONTEXT_COUNT_MAX];
        *entry = made;
    }
    *loaded = entry->loaded;
    return LMC_OK;
}

lmc_status lmc_cuda_load(lmc_cuda_loaded *loaded, lmc_diag *diag)
{
    if (lmc_cuda_image_count == 0)
        return lmc_cuda_fail(diag, LMC_ERR_UNSUPPORTED, 0, "built without kernels: %.120s",
                             lmc_cuda_images_text + strlen("none: "));
    pthread_mutex_lock(&lock);
    const lmc_status status = load_in_context(loaded, diag);
    pthread_mutex_unlock(&lock);
    return status;
}

const char *lmc_cuda_kernels_text(void)
{
    return lmc_cuda_images_text;
}

lmc_status lmc_cuda_init(lmc_cuda_device *device, lmc_diag *diag)
{
    const lmc_cuda_device none = LMC_INIT(lmc_cuda_device);
    lmc_cuda_loaded loaded;
    lmc_diag cause = LMC_INIT(lmc_diag);
    if ((diag && !lmc_struct_is_known(diag, sizeof *diag)) ||
        (device && !lmc_struct_is_known(device, sizeof *device)))
        return LMC_ERR_ARG;
    const lmc_status status = lmc_cuda_load(&loaded, &cause);
    if (device)
        lmc_struct_copy(device, status == LMC_OK ? &loaded.device : &none, lmc_struct_size(device));
    if (diag)
        lmc_struct_copy(diag, &cause, lmc_struct_size(diag));
    return status;
}
