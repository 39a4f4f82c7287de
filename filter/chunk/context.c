/* context.c - one codec context for each thread, freed when the thread ends, and the reading of LMC_NUM_THREADS. */
#include "filter/chunk/context.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int has_key;

static void free_context(void *ctx)
{
    lmc_ctx_free(ctx);
}

static void create_key(void)
{
    has_key = pthread_key_create(&key, free_context) == 0;
}

lmc_ctx *h5_context_get(unsigned thread_count)
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

unsigned h5_thread_count(void)
{
    const char *const text = getenv("LMC_NUM_THREADS");
    unsigned count = 0;
    if (!text || text[0] == '\0')
        return 1;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return 1;
        count = count * 10 + (unsigned)(*c - '0');
        count = count < LMC_THREAD_COUNT_MAX ? count : LMC_THREAD_COUNT_MAX;
    }
    return count;
}
