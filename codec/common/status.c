/* status.c - an English phrase for each status. */
#include "lmc.h"

const char *lmc_status_text(lmc_status status)
{
    switch (status) {
    case LMC_OK: return "success";
    case LMC_ERR_ARG: return "invalid argument";
    case LMC_ERR_NOMEM: return "out of memory";
    case LMC_ERR_DST_SMALL: return "destination too small";
    case LMC_ERR_TRUNCATED: return "input ends early";
    case LMC_ERR_CORRUPT: return "corrupt input";
    case LMC_ERR_UNSUPPORTED: return "not supported by this version";
    case LMC_ERR_CHECKSUM: return "checksum mismatch";
    case LMC_ERR_BASE: return "base missing or wrong";
    case LMC_ERR_LIMIT: return "limit exceeded";
    case LMC_ERR_IO: return "input/output error";
    case LMC_ERR_HEADER: return "malformed header";
    case LMC_ERR_CANCELLED: return "cancelled";
    }
    return "unknown status";
}
