/*
 * open.c - opens a file, whatever kind it is, and reads what an archive adds.
 */
#include "safetensors/archive/open.h"

#include "safetensors/archive/archive.h"

/* The skeleton of a plain file is what is no tensor; of an archive of a safetensors file, its header. */
static void set_skeleton(lmc_st_file *file)
{
    st_store_u64(file->header_length, file->header.text_nbytes);
    if (!file->is_archive)
        file->file_nbytes = file->input.nbytes;
    if (!file->is_archive || file->container == LMC_ST_CONTAINER_SAFETENSORS)
        file->skeleton.nbytes = file->file_nbytes - file->header.data_nbytes;
}

static lmc_status read_contents(lmc_st_file *file, const st_open *how, lmc_st_diag *diag)
{
    st_contents contents;
    if (how->read)
        os_input_open_from(&file->input, how->read, how->user, how->nbytes);
    else
        ST_TRY(how->fd < 0 ? os_input_open(&file->input, how->path, diag)
                           : os_input_open_fd(&file->input, how->fd, how->cancel, diag));
    const st_reading reading = {.input = &file->input,
                                .path = how->path,
                                .memory = &file->memory,
                                .cancel = how->cancel,
                                .may_be_short = how->may_be_short,
                                .is_raw_allowed = how->is_raw_allowed,
                                .parse = st_file_parse_header,
                                .user = file};
    ST_TRY(st_contents_read(&reading, &contents, diag));
    file->container = contents.kind;
    file->header = contents.header;
    file->places = contents.places;
    if (contents.kind == LMC_ST_CONTAINER_SAFETENSORS)
        ST_TRY(st_archive_detect(file, &file->is_archive, diag));
    if (file->is_archive)
        ST_TRY(st_archive_read(file, diag));
    set_skeleton(file);
    return LMC_OK;
}

lmc_status st_handle_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = !how->allocator ? &st_memory_default : how->allocator;
    *file = NULL;
    st_diag_init(diag, how->path);
    lmc_st_file *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
    if (!opened)
        return st_fail_nomem(diag);
    opened->memory = *memory;
    opened->input.fd = -1;
    pthread_mutex_init(&opened->shapes_lock, NULL);
    opened->is_from_path = how->fd < 0 && !how->read;
    opened->dependent = how->dependent;
    opened->path = st_duplicate(memory, how->path);
    const lmc_status status = !opened->path ? st_fail_nomem(diag) : read_contents(opened, how, diag);
    if (status == LMC_OK)
        *file = opened;
    else
        st_handle_close(opened);
    return status;
}
