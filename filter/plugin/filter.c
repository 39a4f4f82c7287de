/* filter.c - the filter callback (an HDF5 buffer in, a new one out of HDF5 memory), and how HDF5 finds the filter. */
#include "filter/chunk/chunk.h"
#include "filter/chunk/context.h"
#include "filter/chunk/error.h"
#include "filter/plugin/callbacks.h"
#include "filter/plugin/library.h"

/* One call of HDF5's. */
typedef struct h5_call {
    const h5_library *library; /* may be NULL */
    lmc_ctx *ctx;
    lmc_h5_params params;
    const unsigned char *src;
    size_t src_nbytes;
} h5_call;

/* A buffer for HDF5 of at least a byte; NULL with an error. */
static unsigned char *allocate(const h5_call *call, size_t nbytes)
{
    unsigned char *const buffer = h5_library_allocate(call->library, nbytes > 0 ? nbytes : 1);
    if (!buffer)
        (void)lmc_h5_fail(LMC_ERR_NOMEM, "lmc: no memory for %zu bytes", nbytes);
    return buffer;
}

/* Whether the values are another dataset's, as stay in creation properties where HDF5 does not have new ones computed.
 * What is encoded under them would be refused when it is read: better that HDF5 stores the chunk as it is. That is so
 * with an optional filter only, but then only with one are the values not computed. */
static int is_contradicted(const h5_call *call, unsigned flags)
{
    const uint64_t wanted = lmc_h5_params_filtered_nbytes(&call->params);
    if ((flags & H5_FLAG_OPTIONAL) == 0 || wanted == 0 || call->src_nbytes == wanted)
        return 0;
    (void)lmc_h5_fail(LMC_ERR_ARG,
                      "lmc: a chunk of %zu bytes where the dataset's values say %llu: not encoded",
                      call->src_nbytes, (unsigned long long)wanted);
    return 1;
}

/* Each gives a new buffer with *nbytes bytes in it, of *capacity; NULL with an error. */
static unsigned char *encode(const h5_call *call, size_t *capacity, size_t *nbytes)
{
    if (lmc_h5_encode_bound(call->src_nbytes, capacity) != LMC_OK)
        return NULL;
    unsigned char *const dst = allocate(call, *capacity);
    if (dst && lmc_h5_chunk_encode(call->ctx, &call->params, call->src, call->src_nbytes, dst, *capacity,
                                   nbytes) != LMC_OK) {
        h5_library_release(call->library, dst);
        return NULL;
    }
    return dst;
}

static unsigned char *decode(const h5_call *call, size_t *capacity, size_t *nbytes)
{
    const uint64_t wanted = lmc_h5_params_filtered_nbytes(&call->params);
    if (lmc_h5_chunk_size(call->ctx, call->src, call->src_nbytes, capacity) != LMC_OK)
        return NULL;
    if (wanted != 0 && *capacity != wanted) {
        (void)lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk: holds %zu bytes where the dataset's chunks have %llu",
                          *capacity, (unsigned long long)wanted);
        return NULL;
    }
    if (*capacity == 0) {
        (void)lmc_h5_fail(LMC_ERR_CORRUPT, "lmc: chunk: holds 0 bytes");
        return NULL;
    }
    unsigned char *const dst = allocate(call, *capacity);
    if (dst && lmc_h5_chunk_decode(call->ctx, call->src, call->src_nbytes, dst, *capacity) != LMC_OK) {
        h5_library_release(call->library, dst);
        return NULL;
    }
    *nbytes = *capacity;
    return dst;
}

size_t h5_filter(unsigned flags, size_t value_count, const unsigned *values, size_t nbytes,
                 size_t *buffer_nbytes, void **buffer)
{
    h5_call call = {.library = h5_library_of(H5_CALL_SITE()),
                    .ctx = lmc_h5_context_get(lmc_h5_thread_count()),
                    .src = *buffer,
                    .src_nbytes = nbytes};
    unsigned char *made = NULL;
    size_t capacity = 0;
    size_t made_nbytes = 0;
    if (!call.ctx) {
        (void)lmc_h5_fail(LMC_ERR_NOMEM, "lmc: no memory for a context");
    } else {
        lmc_h5_params_guess(values, value_count, &call.params); /* of a file: they may be anything */
        if ((flags & H5_FLAG_REVERSE) != 0)
            made = decode(&call, &capacity, &made_nbytes);
        else if (!is_contradicted(&call, flags))
            made = encode(&call, &capacity, &made_nbytes);
    }
    if (!made) {
        h5_library_push(call.library, "filter", lmc_h5_last_error());
        return 0;
    }
    h5_library_release(call.library, *buffer);
    *buffer = made;
    *buffer_nbytes = capacity;
    return made_nbytes;
}

/* ---- what HDF5 looks for in a plugin ---- */

/* They are called while HDF5 searches for any filter: nothing may happen in them. */
LMC_API int H5PLget_plugin_type(void);
LMC_API const void *H5PLget_plugin_info(void);

static const h5_filter_class filter_class = {
    .version = H5_FILTER_CLASS_VERSION,
    .id = LMC_H5_FILTER_ID,
    .encoder_present = 1,
    .decoder_present = 1,
    .name = LMC_H5_FILTER_NAME,
    .set_local = h5_set_local,
    .filter = h5_filter,
};

int H5PLget_plugin_type(void)
{
    return H5_PLUGIN_TYPE_FILTER;
}

const void *H5PLget_plugin_info(void)
{
    return &filter_class;
}
