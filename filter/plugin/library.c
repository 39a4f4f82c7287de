/* library.c - finds libhdf5 by the address that called, resolves its functions, and remembers both. */
#include "filter/plugin/library.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "filter/chunk/error.h"
#include "os/os.h"

/* A place in some library that calls a callback. There are two or three in each, and to find the library takes long. */
typedef struct call_site {
    const void *address;
    const h5_library *library; /* NULL: not to be found */
    struct call_site *next;
} call_site;

typedef struct known_library {
    h5_library library;
    const void *base; /* where it is loaded */
    struct known_library *next;
} known_library;

/* Both lists only grow, at their heads. Two threads may add the same entry: no harm. */
static _Atomic(call_site *) call_sites;
static _Atomic(known_library *) known_libraries;

/* ---- symbols ---- */

typedef struct symbol {
    const char *name;
    size_t offset; /* of its member in h5_library */
    int is_needed;
} symbol;

#define SYMBOL(name, member, is_needed)               \
    {                                                 \
        name, offsetof(h5_library, member), is_needed \
    }

static const symbol symbols[] = {
    SYMBOL("H5get_libversion", get_version, 1),
    SYMBOL("H5Pget_filter_by_id2", get_filter_by_id, 1),
    SYMBOL("H5Pmodify_filter", modify_filter, 1),
    SYMBOL("H5Pget_nfilters", get_filter_count, 1),
    SYMBOL("H5Pget_filter2", get_filter, 1),
    SYMBOL("H5Pget_chunk", get_chunk, 1),
    SYMBOL("H5Tget_class", type_class, 1),
    SYMBOL("H5Tget_size", type_nbytes, 1),
    SYMBOL("H5Tget_order", type_order, 1),
    SYMBOL("H5Tget_super", type_super, 1),
    SYMBOL("H5Tget_nmembers", type_member_count, 1),
    SYMBOL("H5Tget_member_type", type_member, 1),
    SYMBOL("H5Tis_variable_str", type_is_variable_string, 1),
    SYMBOL("H5Tclose", type_close, 1),
    SYMBOL("H5Tget_fields", type_fields, 0),
    SYMBOL("H5Epush2", push_error, 0),
    SYMBOL("H5E_ERR_CLS_g", error_class, 0),
    SYMBOL("H5E_PLINE_g", error_major, 0),
    SYMBOL("H5E_CALLBACK_g", error_minor, 0),
    SYMBOL("H5allocate_memory", allocate, 0),
    SYMBOL("H5free_memory", release, 0),
};

/* Looks everything up in `handle`, of the object loaded at `base`. The first symbol must be that object's own: a handle
 * finds symbols of others, too. */
static int resolve(void *handle, const void *base, h5_library *library)
{
    const void *found = NULL;
    void *const first = lmc_os_library_symbol(handle, symbols[0].name);
    if (!first || !lmc_os_library_find(first, &found) || found != base)
        return 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *const address = lmc_os_library_symbol(handle, symbols[i].name);
        if (!address && symbols[i].is_needed)
            return 0;
        memcpy((char *)library + symbols[i].offset, &address, sizeof address);
    }
    if (!library->allocate || !library->release) {
        library->allocate = NULL;
        library->release = NULL;
    }
    return library->get_version(&library->version[0], &library->version[1], &library->version[2]) >= 0;
}

/* ---- libraries ---- */

static const h5_library *find_known(const void *base)
{
    for (const known_library *k = atomic_load(&known_libraries); k; k = k->next)
        if (k->base == base)
            return &k->library;
    return NULL;
}

/* Finds the functions through one handle; it is kept if that works, so that the library stays where it is. */
static int resolve_through(void *handle, const void *base, h5_library *library)
{
    if (!handle)
        return 0;
    const int is_resolved = resolve(handle, base, library);
    if (!is_resolved)
        lmc_os_library_close(handle);
    return is_resolved;
}

/* The library that holds `site`, loaded at `base`, in `made`, which becomes part of the list; NULL if it is none that
 * helps. */
static const h5_library *load(const void *site, const void *base, known_library *made)
{
    if (!resolve_through(lmc_os_library_open(site), base, &made->library) &&
        /* HDF5 within a program that exports its symbols */
        !resolve_through(lmc_os_library_open(NULL), base, &made->library)) {
        free(made);
        return NULL;
    }
    made->base = base;
    made->next = atomic_load(&known_libraries);
    while (!atomic_compare_exchange_weak(&known_libraries, &made->next, made)) {
    }
    return &made->library;
}

static void remember(const void *address, const h5_library *library)
{
    call_site *const made = malloc(sizeof *made);
    if (!made)
        return;
    made->address = address;
    made->library = library;
    made->next = atomic_load(&call_sites);
    while (!atomic_compare_exchange_weak(&call_sites, &made->next, made)) {
    }
}

const h5_library *h5_library_of(const void *site)
{
    const void *base = NULL;
    const h5_library *library = NULL;
    for (const call_site *s = atomic_load(&call_sites); s; s = s->next)
        if (s->address == site)
            return s->library;
    if (lmc_os_library_find(site, &base)) {
        library = find_known(base);
        if (!library) {
            known_library *const made = calloc(1, sizeof *made);
            if (!made)
                return NULL; /* for this once: there may be memory next time */
            library = load(site, base, made);
        }
    }
    remember(site, library);
    return library;
}

/* ---- what every library can be asked for ---- */

void h5_library_push(const h5_library *library, const char *function, const char *text)
{
    if (library && library->push_error && library->error_class && library->error_major &&
        library->error_minor) {
        library->push_error(H5_ERROR_STACK, "libh5lmc", function, 0, *library->error_class,
                            *library->error_major, *library->error_minor, "%s", text);
    }
}

void *h5_library_allocate(const h5_library *library, size_t nbytes)
{
    return library && library->allocate ? library->allocate(nbytes, 0) : malloc(nbytes);
}

void h5_library_release(const h5_library *library, void *memory)
{
    if (library && library->release)
        library->release(memory);
    else
        free(memory);
}
