/*
 * base_file.c - the slots for the bases of a file, and the chains of files.
 */
#include "safetensors/base/base_file.h"

#include "common/text.h"
#include "safetensors/common/options.h"

#include <string.h>

/* ---- opening and closing ---- */

lmc_status st_file_open_with(const st_open *how, st_base_search_fn search, lmc_st_file **file,
                             lmc_st_diag *diag)
{
    LMC_TRY(st_handle_open(how, file, diag));
    lmc_st_file *const opened = *file;
    const size_t count = opened->bases.file_count;
    if (count == 0)
        return LMC_OK;
    opened->base =
        st_allocate_zeroed(&opened->memory, 1, sizeof *opened->base + count * sizeof opened->base->slots[0]);
    if (!opened->base) {
        lmc_st_close(opened);
        *file = NULL;
        return st_fail_nomem(diag);
    }
    opened->base->search = search;
    opened->base->count = count;
    for (size_t i = 0; i < count; i++)
        pthread_mutex_init(&opened->base->slots[i].lock, NULL);
    return LMC_OK;
}

static uint64_t own_header_nbytes(const lmc_st_file *file)
{
    return file->header.is_shared ? 0 : file->header.text_nbytes;
}

void st_file_forget_base(const lmc_st_file *file, size_t number)
{
    st_base_slot *const slot = &file->base->slots[number];
    if (slot->counted_by) {
        __atomic_sub_fetch(&slot->counted_by->open_count, 1, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&slot->counted_by->open_headers_nbytes, own_header_nbytes(slot->file),
                           __ATOMIC_RELAXED);
    }
    slot->counted_by = NULL;
    if (slot->is_callers)
        slot->file->dependent = NULL; /* it may serve another file */
    else
        lmc_st_close(slot->file);
    slot->file = NULL;
    slot->is_callers = 0;
    slot->has_failed = 0;
}

static void forget_places(const lmc_st_file *file)
{
    st_base_slots *const slots = file->base;
    for (size_t i = 0; i < slots->dir_count; i++)
        st_release(&file->memory, slots->dirs[i]);
    st_release(&file->memory, slots->dirs);
    st_release(&file->memory, slots->path);
    slots->path = NULL;
    slots->dirs = NULL;
    slots->dir_count = 0;
}

void lmc_st_close(lmc_st_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < st_file_base_count(file); i++) {
        st_file_forget_base(file, i);
        pthread_mutex_destroy(&file->base->slots[i].lock);
    }
    if (file->base) {
        forget_places(file);
        st_release(&file->memory, file->base);
    }
    st_handle_close(file);
}

/* ---- the bases ---- */

uint64_t lmc_st_base_count(const lmc_st_file *file)
{
    return st_file_base_count(file);
}

lmc_status lmc_st_base_info(const lmc_st_file *file, uint64_t number, lmc_st_base *base)
{
    lmc_st_base found = LMC_INIT(lmc_st_base);
    if (!lmc_struct_is_known(base, sizeof *base))
        return LMC_ERR_ARG;
    if (number < st_file_base_count(file)) {
        const st_base_entry *const entry = &file->bases.files[number];
        found.name = st_base_entry_name(entry);
        found.original_nbytes = entry->original_nbytes;
        found.header_hash = entry->header_hash;
        found.content_hash = entry->content_hash;
        found.tensor_count = st_bases_count_links(&file->bases, (size_t)number);
        found.path = entry->path;
        found.is_equal = entry->is_equal;
    }
    lmc_struct_copy(base, &found, lmc_struct_size(base));
    return LMC_OK;
}

lmc_status st_file_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                            size_t base_dir_count, lmc_st_diag *diag)
{
    if (!file->base)
        return LMC_OK; /* nothing will be looked for */
    forget_places(file);
    st_base_slots *const slots = file->base;
    for (size_t i = 0; i < slots->count; i++)
        slots->slots[i].has_failed = 0;
    slots->path = base ? st_duplicate(&file->memory, base) : NULL;
    slots->dirs = st_allocate_zeroed(&file->memory, base_dir_count + 1, sizeof *slots->dirs);
    int has_memory = slots->dirs && (slots->path || !base);
    for (; slots->dir_count < base_dir_count && has_memory; slots->dir_count++) {
        slots->dirs[slots->dir_count] = st_duplicate(&file->memory, base_dirs[slots->dir_count]);
        has_memory = slots->dirs[slots->dir_count] != NULL;
    }
    if (has_memory)
        return LMC_OK;
    forget_places(file);
    return st_fail_nomem(diag);
}

/* Base file `number` of `file` if it is open; else NULL. */
static lmc_st_file *open_base(const lmc_st_file *file, size_t number)
{
    st_base_slot *const slot = &file->base->slots[number];
    pthread_mutex_lock(&slot->lock);
    lmc_st_file *const base = slot->file;
    pthread_mutex_unlock(&slot->lock);
    return base;
}

/* The longest chain of open files that begins with `file`: how many, and the bytes of their headers. */
static void measure_open(const lmc_st_file *file, size_t *file_count, uint64_t *headers_nbytes)
{
    *file_count = 0;
    *headers_nbytes = 0;
    for (size_t i = 0; i < st_file_base_count(file); i++) {
        size_t count = 0;
        uint64_t nbytes = 0;
        const lmc_st_file *const base = open_base(file, i);
        if (base)
            measure_open(base, &count, &nbytes);
        *file_count = count > *file_count ? count : *file_count;
        *headers_nbytes = nbytes > *headers_nbytes ? nbytes : *headers_nbytes;
    }
    *file_count += 1;
    *headers_nbytes += own_header_nbytes(file);
}

/* Whether `base` may follow `file` in a chain. Only bases that are open already are counted. */
static lmc_status check_chain(const lmc_st_file *file, const lmc_st_file *base, lmc_st_diag *diag)
{
    size_t file_count = 0;
    size_t open_count = 0;
    uint64_t headers_nbytes = 0;
    for (const lmc_st_file *at = file; at; at = at->dependent, file_count++)
        if (at == base)
            return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET, "the base needs this file itself");
    measure_open(base, &open_count, &headers_nbytes); /* `file`, whose slot is locked, is not among them */
    headers_nbytes += st_file_headers_nbytes(file);
    if (file_count + open_count > LMC_ST_CHAIN_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    if (headers_nbytes > LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the headers of a chain of bases, equal ones counted once, have more than %d bytes",
                       LMC_ST_CHAIN_HEADER_NBYTES_MAX);
    return LMC_OK;
}

/* 1 if the open file is the one that the list describes, as far as size and header tell. */
static int is_entry(const st_base_entry *entry, const lmc_st_file *base)
{
    return base->original_nbytes == entry->original_nbytes && st_file_identity(base) == entry->header_hash;
}

lmc_status st_file_use_base(const lmc_st_file *file, size_t number, lmc_st_file *base, lmc_st_diag *diag)
{
    st_base_slot *const slot = &file->base->slots[number];
    if (!is_entry(&file->bases.files[number], base))
        return st_file_fail_base(file, number, base, diag);
    pthread_mutex_lock(&slot->lock);
    const lmc_status status = slot->file
                                  ? st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its base is open already")
                                  : check_chain(file, base, diag);
    if (status == LMC_OK) {
        base->dependent = file;
        slot->file = base;
        slot->is_callers = 1;
        slot->has_failed = 0;
    }
    pthread_mutex_unlock(&slot->lock);
    return status;
}

static lmc_status use_base(const lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag)
{
    size_t number = 0;
    if (!file->base)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "it needs no base");
    if (base->dependent)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the base serves another file");
    /* of several that it may be, the first that is not open */
    int is_any = 0;
    for (size_t i = file->base->count; i > 0; i--) {
        if (!is_entry(&file->bases.files[i - 1], base))
            continue;
        number = !is_any || !open_base(file, i - 1) ? i - 1 : number;
        is_any = 1;
    }
    if (!is_any && file->base->count == 1 && open_base(file, 0))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its base is open already");
    return st_file_use_base(file, number, base, diag);
}

lmc_status lmc_st_use_base(lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK)
        status = use_base(file, base, call.diag);
    return st_call_end(&call, status);
}

/* Searches for a base file, and counts it at the root of its owners. */
static lmc_status search_counted(const lmc_st_file *file, size_t number, lmc_st_diag *diag)
{
    st_base_slot *const slot = &file->base->slots[number];
    const lmc_st_file *root = file;
    while (root->owner)
        root = root->owner;
    st_base_slots *const counts = root->base;
    if (__atomic_add_fetch(&counts->open_count, 1, __ATOMIC_RELAXED) > LMC_ST_BASE_FILES_MAX) {
        __atomic_sub_fetch(&counts->open_count, 1, __ATOMIC_RELAXED);
        st_diag_init(diag, file->path);
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "its bases are more than %d files",
                       LMC_ST_BASE_FILES_MAX);
    }
    const lmc_status status = file->base->search(file, number, &slot->file, diag);
    if (status != LMC_OK) {
        __atomic_sub_fetch(&counts->open_count, 1, __ATOMIC_RELAXED);
        return status;
    }
    slot->counted_by = counts;
    if (__atomic_add_fetch(&counts->open_headers_nbytes, own_header_nbytes(slot->file), __ATOMIC_RELAXED) <=
        LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return LMC_OK;
    st_file_forget_base(file, number);
    st_diag_init(diag, file->path);
    return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the headers of its bases have more than %d bytes",
                   LMC_ST_CHAIN_HEADER_NBYTES_MAX);
}

lmc_status st_file_open_base(const lmc_st_file *file, size_t number, const lmc_st_file **base,
                             lmc_st_diag *diag)
{
    st_base_slot *const slot = &file->base->slots[number];
    lmc_status status = LMC_OK;
    pthread_mutex_lock(&slot->lock);
    if (!slot->file && slot->has_failed) {
        *diag = slot->failure;
        status = diag->status;
    } else if (!slot->file) {
        status = search_counted(file, number, diag);
        if (status != LMC_OK) {
            slot->has_failed = status != LMC_ERR_NOMEM;
            slot->failure = *diag;
        }
    }
    *base = slot->file;
    pthread_mutex_unlock(&slot->lock);
    return status;
}

lmc_status lmc_st_open_base(const lmc_st_file *file, uint64_t number, const lmc_st_file **base,
                            lmc_st_diag *diag)
{
    st_call call;
    *base = NULL;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK &&
        number < st_file_base_count(file)) { /* what an earlier search did not find may have come since */
        st_base_slot *const slot = &file->base->slots[number];
        pthread_mutex_lock(&slot->lock);
        slot->has_failed = 0;
        pthread_mutex_unlock(&slot->lock);
        status = st_file_open_base(file, (size_t)number, base, call.diag);
    }
    return st_call_end(&call, status);
}

lmc_status st_file_fail_base(const lmc_st_file *file, size_t number, const lmc_st_file *used,
                             lmc_st_diag *diag)
{
    char name[128];
    char path[160];
    if (used == file)
        return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                       "its base, a tensor of this file, holds other content than it was coded against");
    const st_base_entry *const entry = &file->bases.files[number];
    lmc_text_escape(path, sizeof path, used->path, strlen(used->path));
    lmc_text_escape(name, sizeof name, entry->path, strlen(entry->path));
    const int could_be_named = file->base->slots[number].counted_by && !file->dependent && !file->base->path;
    return st_fail(
        diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
        "%s is not the base that is wanted: %s (hash %016llx); it holds other content%s", path, name,
        (unsigned long long)entry->content_hash,
        could_be_named ? " (a search compares samples: name another base, or repair the run or store)" : "");
}

/* ---- the chain ---- */

uint64_t st_file_headers_nbytes(const lmc_st_file *file)
{
    uint64_t nbytes = 0;
    for (; file; file = file->dependent)
        nbytes += own_header_nbytes(file);
    return nbytes;
}

lmc_status st_file_visit_bases(const lmc_st_file *file, st_base_visit_fn visit, void *user, lmc_st_diag *diag)
{
    for (size_t i = 0; i < st_file_base_count(file); i++) {
        lmc_st_diag unused = {0};
        const lmc_st_file *base = NULL;
        const lmc_status status = st_file_open_base(file, i, &base, diag ? diag : &unused);
        if (status == LMC_ERR_NOMEM || (status != LMC_OK && diag))
            return status;
        if (status != LMC_OK)
            continue;
        LMC_TRY(visit(user, base));
        LMC_TRY(st_file_visit_bases(base, visit, user, diag));
    }
    return LMC_OK;
}

static lmc_status visit_nothing(void *user, const lmc_st_file *base)
{
    (void)user, (void)base;
    return LMC_OK;
}

lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag)
{
    uint64_t headers_nbytes = 0;
    LMC_TRY(st_file_visit_bases(file, visit_nothing, NULL, diag));
    measure_open(file, count, &headers_nbytes);
    return LMC_OK;
}

/* An output that may be a base. */
typedef struct output_check {
    const char *path;
    int fd;
    lmc_st_diag *diag;
} output_check;

static lmc_status check_output(void *user, const lmc_st_file *base)
{
    const output_check *const check = user;
    if (!st_input_is(&base->input, check->path, check->fd))
        return LMC_OK;
    st_diag_set_file(check->diag, check->path);
    return st_fail(check->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is a base of the archive");
}

lmc_status st_file_check_output(const lmc_st_file *file, const char *path, int fd, lmc_st_diag *diag)
{
    output_check check = {path, fd, diag};
    /* what cannot be found cannot be the output; a caller that needs it reports the error */
    const lmc_status status = st_file_visit_bases(file, check_output, &check, NULL);
    return status == LMC_ERR_NOMEM ? st_fail_nomem(diag) : status;
}
