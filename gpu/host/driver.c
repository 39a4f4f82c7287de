/* driver.c - finds and initialises the driver's library. */
#include "gpu/host/driver.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/host/batch.h"

#define VERSION_LEAST 12000 /* of cuCtxGetId(); the cubins need it, too */

lmc_status lmc_cuda_fail_call(lmc_diag *diag, const lmc_cuda_driver *driver, const char *call, int error)
{
    const char *name = NULL;
    if (driver->error_name(error, &name) != 0 || !name)
        name = "an unknown error";
    return lmc_cuda_fail(diag, LMC_ERR_IO, 0, "%s: %s (%d)", call, name, error);
}

/* Names with a suffix are those that cuda.h gives to programs. */
static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"cuInit", offsetof(lmc_cuda_driver, init)},
    {"cuDriverGetVersion", offsetof(lmc_cuda_driver, driver_version)},
    {"cuGetErrorName", offsetof(lmc_cuda_driver, error_name)},
    {"cuCtxGetCurrent", offsetof(lmc_cuda_driver, context_current)},
    {"cuCtxGetId", offsetof(lmc_cuda_driver, context_id)},
    {"cuCtxGetDevice", offsetof(lmc_cuda_driver, context_device)},
    {"cuDeviceGetAttribute", offsetof(lmc_cuda_driver, device_attribute)},
    {"cuModuleLoadDataEx", offsetof(lmc_cuda_driver, module_load)},
    {"cuModuleUnload", offsetof(lmc_cuda_driver, module_unload)},
    {"cuModuleGetFunction", offsetof(lmc_cuda_driver, module_function)},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", offsetof(lmc_cuda_driver, occupancy)},
    {"cuMemsetD8Async", offsetof(lmc_cuda_driver, memset_async)},
    {"cuLaunchKernel", offsetof(lmc_cuda_driver, launch)},
};

/* A program with the rights of another user takes no library from its caller's environment. */
static const char *library_name(void)
{
    const char *const named = getenv("LMC_CUDA_DRIVER");
    const int is_trusted = geteuid() == getuid() && getegid() == getgid();
    return named && *named && is_trusted ? named : "libcuda.so.1";
}

static lmc_status find_functions(lmc_cuda_driver *driver, void *library, const char *name, lmc_diag *diag)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *const address = dlsym(library, functions[i].name);
        if (!address)
            return lmc_cuda_fail(diag, LMC_ERR_UNSUPPORTED, 0,
                                 "the driver %.60s has no %s: CUDA 12 or later is needed", name,
                                 functions[i].name);
        memcpy((char *)driver + functions[i].at, &address, sizeof address);
    }
    return LMC_OK;
}

static lmc_status start(const lmc_cuda_driver *driver, lmc_diag *diag)
{
    int version = 0;
    int error = driver->driver_version(&version);
    if (error != 0)
        return lmc_cuda_fail_call(diag, driver, "cuDriverGetVersion", error);
    if (version < VERSION_LEAST)
        return lmc_cuda_fail(diag, LMC_ERR_UNSUPPORTED, 0,
                             "the driver serves CUDA %d.%d: 12.0 or later is needed", version / 1000,
                             version % 1000 / 10);
    error = driver->init(0);
    if (error == LMC_CUDA_ERROR_NO_DEVICE)
        return lmc_cuda_fail(diag, LMC_ERR_UNSUPPORTED, 0, "the driver sees no device");
    return error == 0 ? LMC_OK : lmc_cuda_fail_call(diag, driver, "cuInit", error);
}

lmc_status lmc_cuda_load_driver(const lmc_cuda_driver **driver, lmc_diag *diag)
{
    static lmc_cuda_driver loaded;
    static int is_loaded;
    if (!is_loaded) {
        lmc_cuda_driver found;
        const char *const name = library_name();
        void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return lmc_cuda_fail(diag, LMC_ERR_UNSUPPORTED, 0, "there is no driver: %.120s", dlerror());
        lmc_status status = find_functions(&found, library, name, diag);
        if (status == LMC_OK)
            status = start(&found, diag);
        if (status != LMC_OK) {
            dlclose(library);
            return status;
        }
        loaded = found;
        is_loaded = 1;
    }
    *driver = &loaded;
    return LMC_OK;
}
