/*
 * output.c - file.h: files that are written. Where the system can, an output has no name at all until it is finished,
 * so that even a killed process leaves nothing behind; elsewhere it has a temporary one beside its own.
 */
#include "os/path.h"
#include "safetensors/files/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Bytes that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 20)

#define TEMP_PREFIX ".lmc-st-"
#define TEMP_TRIES 100

/* ---- temporary names ---- */

/* Length of the path up to and with the last separator: 0 if it has none. */
static size_t directory_length(const char *path)
{
    return (size_t)(lmc_last_component(path) - path);
}

/* Space for a temporary name beside `path`, with the directory filled in. */
static char *allocate_temp_path(const lmc_allocator *memory, const char *path)
{
    const size_t prefix = directory_length(path);
    char *const temp_path = st_allocate(memory, prefix + sizeof TEMP_PREFIX + 16);
    if (temp_path) {
        memcpy(temp_path, path, prefix);
        temp_path[prefix] = '\0';
    }
    return temp_path;
}

static void set_temp_name(char *temp_path)
{
    snprintf(temp_path + directory_length(temp_path), sizeof TEMP_PREFIX + 16, "%s%012llx", TEMP_PREFIX,
             (unsigned long long)(os_unforeseen_u64() >> 16));
}

/* ---- creating ---- */

lmc_status st_fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

/* Opens the file, unnamed if possible; on return temp_path holds the directory or a temporary name. */
static lmc_status create_temp(st_output *output, lmc_st_diag *diag)
{
    char *const temp_path = allocate_temp_path(output->memory, output->place.name);
    const int folder_fd = output->place.folder_fd;
    /* group and others get their permissions with the name */
    const unsigned mode = output->attributes.is_known ? output->attributes.permissions & 0700 : 0666;
    if (!temp_path)
        return st_fail_nomem(diag);
    output->fd = os_create_unnamed(folder_fd, temp_path[0] == '\0' ? "." : temp_path, mode | 0600);
    if (output->fd >= 0) {
        st_release(output->memory, temp_path);
        return LMC_OK;
    }
    errno = EEXIST;
    for (int i = 0; i < TEMP_TRIES && output->fd < 0 && errno == EEXIST; i++) {
        set_temp_name(temp_path);
        output->fd = os_create(folder_fd, temp_path, mode | 0600);
    }
    if (output->fd < 0) {
        const int os_errno = errno;
        st_release(output->memory, temp_path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create a file in its directory");
    }
    output->temp_path = temp_path;
    return LMC_OK;
}

/* Whether the output may get its name, or be written to its stream. *replaced: the attributes of the file that it
 * replaces, but for the time. */
static lmc_status check_target(const st_options *options, const st_place *place, const st_input *input,
                               st_attributes *replaced, lmc_st_diag *diag)
{
    os_state found;
    *replaced = (st_attributes){0};
    const int is_stream = options->out_fd >= 0;
    const char *const fault = is_stream                ? NULL
                              : place->name[0] == '\0' ? "is empty"
                                                       : os_name_fault(place->name);
    if (fault)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its name %s", fault);
    const int missing = is_stream ? ENOENT : os_lstat(place->folder_fd, place->name, &found);
    const int has_name = missing == 0;
    if (!has_name && missing != ENOENT)
        return st_fail_os(diag, missing, LMC_ST_NO_OFFSET, "cannot create");
    /* a link is what it leads to; one that leads nowhere is a name that is taken */
    const int is_dangling =
        has_name && found.kind == OS_LINK && os_stat(place->folder_fd, place->name, &found) != 0;
    const int is_file = is_stream ? os_fstat(options->out_fd, &found) == 0 : has_name && !is_dangling;
    if (is_file && input && os_is_same_file(&input->state, &found))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "input and output are the same file");
    if (is_file && !is_stream && found.kind != OS_FILE)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is %s",
                       found.kind == OS_FOLDER ? "a directory" : "not a regular file");
    if (has_name && !options->force)
        return st_fail_exists(diag);
    if (is_file && !is_stream) {
        *replaced = st_attributes_of(&found);
        replaced->has_time = 0;
    }
    return LMC_OK;
}

lmc_status st_output_open(st_output *output, const st_options *options, const st_place *place,
                          const st_input *input, int is_sequential, lmc_st_diag *diag)
{
    const int is_stream = options->out_fd >= 0;
    *output = (st_output){.fd = -1,
                          .place = *place,
                          .stream_fd = options->out_fd,
                          .is_sequential = is_stream && is_sequential,
                          .cancel = options->cancel,
                          .memory = options->allocator};
    lmc_status status = check_target(options, place, input, &output->attributes, diag);
    if (input && input->attributes.is_known)
        output->attributes = input->attributes;
    if (status == LMC_OK && !is_stream) {
        status = create_temp(output, diag);
    } else if (status == LMC_OK && !is_sequential) {
        output->fd = st_spool_create();
        if (output->fd < 0)
            status =
                st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a temporary file for the stream");
    }
    if (status != LMC_OK)
        st_diag_set_file(diag, place->path);
    return status;
}

int st_spool_create(void)
{
    int fd = -1;
    const char *directory = NULL;
    for (unsigned i = 0; fd < 0 && (directory = os_temporary_directory(i)) != NULL; i++)
        fd = os_create_temporary(directory);
    return fd;
}

/* ---- writing ---- */

lmc_status st_output_reserve(const st_output *output, uint64_t offset, uint64_t nbytes, lmc_st_diag *diag)
{
    const int os_errno = output->is_sequential ? 0 : os_reserve(output->fd, offset, nbytes);
    if (os_errno == 0)
        return LMC_OK;
    st_diag_set_file(diag, output->place.path);
    return st_fail_os(diag, os_errno, offset, "cannot write");
}

lmc_status st_output_write(const st_output *output, uint64_t offset, const void *src, size_t nbytes,
                           lmc_st_diag *diag)
{
    size_t done = 0;
    const int os_errno = output->is_sequential ? st_write_all(output->stream_fd, src, nbytes, output->cancel)
                                               : os_write_at(output->fd, offset, src, nbytes, &done);
    if (os_errno == 0)
        return LMC_OK;
    st_diag_set_file(diag, output->place.path);
    return st_fail_os(diag, os_errno, offset + done, "cannot write");
}

lmc_status st_output_copy(const st_output *output, const st_input *input, const st_options *options,
                          lmc_st_diag *diag)
{
    unsigned char *const piece = st_allocate(options->allocator, COPY_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(diag) : LMC_OK;
    uint64_t end = 0; /* of the data that `at` is in */
    for (uint64_t at = 0; status == LMC_OK; at += COPY_NBYTES) {
        if (output->is_sequential)
            end = input->nbytes;
        else if (at >= end)
            st_input_find_data(input, end, &at, &end);
        if (at >= input->nbytes)
            break;
        const size_t nbytes = end - at < COPY_NBYTES ? (size_t)(end - at) : COPY_NBYTES;
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        else
            status = st_input_read(input, at, piece, nbytes, diag);
        if (status == LMC_OK)
            status = st_output_write(output, at, piece, nbytes, diag);
        if (status == LMC_OK && options->progress)
            options->progress(options->user, at + nbytes, input->nbytes);
    }
    if (status == LMC_OK && options->progress) /* also of a file without bytes, or with a hole at its end */
        options->progress(options->user, input->nbytes, input->nbytes);
    st_release(options->allocator, piece);
    const int is_done = status != LMC_OK || output->is_sequential;
    const int os_errno = is_done ? 0 : os_truncate(output->fd, input->nbytes); /* it may end with a hole */
    if (os_errno != 0) {
        st_diag_set_file(diag, output->place.path);
        status = st_fail_os(diag, os_errno, input->nbytes, "cannot write");
    }
    return status;
}

/* ---- the end ---- */

/* Moves the file from its temporary name to its own; returns 0 or an errno. */
static int rename_temp(const st_place *place, const char *temp_path, int force)
{
    return force ? os_rename(place->folder_fd, temp_path, place->name)
                 : os_rename_new(place->folder_fd, temp_path, place->name);
}

int st_set_attributes(int fd, const st_attributes *attributes)
{
    if (!attributes->is_known)
        return 0;
    const int os_errno = os_set_permissions(fd, attributes->permissions);
    if (os_errno != 0 && os_errno != EPERM)
        return os_errno;
    /* a time that a file system cannot hold is no reason to lose the output */
    if (attributes->has_time)
        (void)os_set_modified(fd, attributes->modified_s, attributes->modified_ns);
    return 0;
}

/* Gives the unnamed file its name; returns 0 or an errno. */
static int link_unnamed(st_output *output, int force)
{
    const int folder_fd = output->place.folder_fd;
    int os_errno = os_link_unnamed(output->fd, folder_fd, output->place.name);
    if (os_errno != EEXIST || !force)
        return os_errno;
    /* only a rename replaces, and it needs a name to begin with */
    output->temp_path = allocate_temp_path(output->memory, output->place.name);
    if (!output->temp_path)
        return ENOMEM;
    for (int i = 0; i < TEMP_TRIES && os_errno == EEXIST; i++) {
        set_temp_name(output->temp_path);
        os_errno = os_link_unnamed(output->fd, folder_fd, output->temp_path);
    }
    if (os_errno != 0) { /* the last name that was tried is somebody else's */
        st_release(output->memory, output->temp_path);
        output->temp_path = NULL;
        return os_errno;
    }
    return rename_temp(&output->place, output->temp_path, 1);
}

void st_sync_name(const lmc_allocator *memory, const st_place *place)
{
    const int is_path = place->folder_fd == OS_HERE;
    char *const folder = is_path ? lmc_directory_of(memory, place->name) : NULL;
    const int fd = !is_path ? os_duplicate(place->folder_fd) : folder ? os_open_folder(folder) : -1;
    if (fd >= 0) {
        (void)os_sync(fd);
        (void)os_close(fd);
    }
    st_release(memory, folder);
}

/* Gives the file its attributes and its name. Returns 0, or an errno with *what that could not be done. */
static int commit_file(st_output *output, const st_options *options, const char **what)
{
    const int is_named = output->temp_path != NULL;
    const int fd = output->fd;
    *what = "cannot set its permissions";
    int os_errno = st_set_attributes(fd, &output->attributes);
    if (os_errno != 0)
        return os_errno;
    *what = "cannot write";
    if (!options->no_fsync && (os_errno = os_sync(fd)) != 0)
        return os_errno;
    /* a file system may report only when a descriptor is closed that it could not write; a file without a name gets
     * one through another descriptor */
    output->fd = is_named ? -1 : os_duplicate(fd);
    const int duplicate_errno = is_named || output->fd >= 0 ? 0 : errno;
    os_errno = os_close(fd);
    if (os_errno != 0 || duplicate_errno != 0)
        return os_errno != 0 ? os_errno : duplicate_errno;
    *what = "cannot give the finished file its name";
    os_errno = is_named ? rename_temp(&output->place, output->temp_path, options->force)
                        : link_unnamed(output, options->force);
    if (os_errno != 0)
        return os_errno;
    if (!options->no_fsync)
        st_sync_name(output->memory, &output->place);
    st_release(output->memory, output->temp_path);
    output->temp_path = NULL;
    return 0;
}

lmc_status st_output_close(st_output *output, const st_options *options, lmc_status written,
                           lmc_st_diag *diag)
{
    lmc_status status = written;
    const char *what = "cannot write";
    int os_errno = 0;
    if (written == LMC_OK && output->stream_fd < 0) {
        os_errno = commit_file(output, options, &what);
    } else if (written == LMC_OK && !output->is_sequential) { /* what was collected is copied to the stream */
        os_state collected;
        const int failed = os_fstat(output->fd, &collected);
        const st_input input = {.fd = output->fd, .nbytes = failed != 0 ? 0 : collected.nbytes};
        st_output stream = *output;
        st_options silent = *options; /* all of its progress was reported */
        stream.is_sequential = 1;
        silent.progress = NULL;
        status = failed != 0 ? st_fail_os(diag, failed, LMC_ST_NO_OFFSET, what)
                             : st_output_copy(&stream, &input, &silent, diag);
    }
    if (os_errno != 0)
        status =
            os_errno == EEXIST ? st_fail_exists(diag) : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
    if (written == LMC_OK && status != LMC_OK)
        st_diag_set_file(diag, output->place.path);
    if (output->fd >= 0)
        (void)os_close(output->fd);
    if (output->temp_path) {
        (void)os_unlink(output->place.folder_fd, output->temp_path);
        st_release(output->memory, output->temp_path);
    }
    output->fd = -1;
    output->temp_path = NULL;
    return status;
}
