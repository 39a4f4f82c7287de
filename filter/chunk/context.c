/* context.c - one codec context for each thread, freed when the thread ends, and the reading of LMC_NUM_THREADS. */
#include "filter/chunk/context.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/number.h"
#include "os/os.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int has_key;

static void free_context(void *ctx)
{
    lmc_ctx_free(ctx);
}

/* A thread that ends calls free_context(): its code must outlast HDF5's unloading of the library. */
static void create_key(void)
{
    lmc_os_stay_loaded(&once);
    has_key = pthread_key_create(&key, free_context) == 0;
}

lmc_ctx *lmc_h5_context_get(unsigned thread_count)
{
    lmc_ctx *ctx = NULL;
    pthread_once(&once, create_key);
    if (!has_key)
        return NULL;
    ctx = pthread_getspecific(key);
    if (!ctx && lmc_ctx_create(NULL, &ctx) == LMC_OK && pthread_setspecific(key, ctx) != 0) {
        lmc_ctx_free(ctx);
        ctx = NULL;
    }
    return ctx && lmc_ctx_set_thread_count(ctx, thread_count) == LMC_OK ? ctx : NULL;
}

unsigned lmc_h5_thread_count(void)
{
    const char *text = getenv("LMC_NUM_THREADS");
    uint64_t count;
    if (!text || !lmc_read_number(&text, NULL, &count) || *text != '\0')
        return 1;
    return (unsigned)lmc_min_u64(count, LMC_THREAD_COUNT_MAX);
}
