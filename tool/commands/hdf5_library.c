/*
 * hdf5_library.c - commands/hdf5_library.h: loading libhdf5, and what it says of failures.
 */
#include "tool/commands/hdf5_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define HDF5_ENTRY(name) {#name, offsetof(hdf5_library, name)},
    HDF5_FUNCTIONS(HDF5_ENTRY)
#undef HDF5_ENTRY
};

int hdf5_load(hdf5_library *hdf5, char *cause, size_t capacity)
{
    void *const library = dlopen(LMC_HDF5_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *const told = dlerror();
        snprintf(cause, capacity, "the HDF5 library cannot be loaded: %s",
                 told != NULL ? told : LMC_HDF5_SONAME);
        return 0;
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *const function = dlsym(library, functions[i].name);
        if (function == NULL) {
            snprintf(cause, capacity, "%s has no function %s", LMC_HDF5_SONAME, functions[i].name);
            return 0;
        }
        memcpy((char *)hdf5 + functions[i].offset, &function, sizeof(function));
    }
    return 1;
}

typedef struct cause_text {
    char *text;
    size_t capacity;
} cause_text;

/* H5E_walk2_t; called for the innermost function first. */
static herr_t take_innermost(unsigned number, const H5E_error2_t *error, void *user)
{
    const cause_text *const cause = user;
    if (number == 0 && error->desc != NULL)
        snprintf(cause->text, cause->capacity, "%s", error->desc);
    return 0;
}

void hdf5_cause(const hdf5_library *hdf5, char *cause, size_t capacity)
{
    cause_text text = {cause, capacity};
    snprintf(cause, capacity, "HDF5 gives no reason");
    (void)hdf5->H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &text);
}
