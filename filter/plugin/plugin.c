/* plugin.c - the two functions that HDF5 looks for in a plugin. They are called while HDF5 searches for any filter:
 * nothing may happen in them. */
#include <lmc_h5.h>

#include "filter/plugin/callbacks.h"

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
