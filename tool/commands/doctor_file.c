/*
 * doctor_file.c - lmc-st doctor FILE: the datasets of HDF5 files, and the chunks that lack LMC. What libhdf5 finds
 * comes from a child (commands/hdf5.h).
 */
#include "tool/commands/doctor.h"

#ifndef LMC_HDF5_SONAME

const char *doctor_hdf5_library(void)
{
    return NULL;
}

int doctor_files(const cli_args *args)
{
    (void)args;
    return cli_usage_error("doctor", "HDF5 files cannot be read: built without HDF5 (LMC_WITH_HDF5)");
}

#else

#include "safetensors/common/text.h"
#include "safetensors/os/file.h"
#include "tool/child.h"
#include "tool/commands/doctor_dataset.h"
#include "tool/commands/hdf5.h"
#include "tool/json.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SHOWN_NBYTES 256 /* longer names are cut in the text; --json gives them whole */

typedef struct listing {
    const char *path;
    int is_json;
    int exit_status;
    int has_faults;  /* something was left out */
    int is_at_end;   /* the child has told all */
    uint64_t count;  /* datasets */
    uint64_t nbytes; /* of all datasets; UINT64_MAX when they are more */
    uint64_t stored_nbytes;
    char version[32];
    char *name; /* of the object that is being described */
    size_t name_nbytes;
    size_t name_capacity;
    unsigned filter_count; /* of the dataset that is being described */
    hdf5_filter filters[HDF5_FILTERS_MAX];
} listing;

const char *doctor_hdf5_library(void)
{
    return LMC_HDF5_SONAME;
}

/* ---- messages ---- */

static void worsen(listing *listing, int exit_status)
{
    listing->exit_status = exit_status > listing->exit_status ? exit_status : listing->exit_status;
}

static void print_fault(const listing *listing, const char *cause, size_t cause_nbytes)
{
    char shown[512];
    fflush(stdout); /* what was found before stands before it */
    st_text_escape(shown, sizeof(shown), listing->path, strlen(listing->path));
    fprintf(stderr, "lmc-st: %s: ", shown);
    if (listing->name_nbytes > 0) {
        st_text_escape(shown, SHOWN_NBYTES, listing->name, listing->name_nbytes);
        fprintf(stderr, "\"%s\": ", shown);
    }
    st_text_escape(shown, sizeof(shown), cause, cause_nbytes);
    fprintf(stderr, "%s\n", shown);
}

static void fail(listing *listing, int exit_status, const char *cause)
{
    worsen(listing, exit_status);
    print_fault(listing, cause, strlen(cause));
}

/* ---- datasets ---- */

static void add_saturated(uint64_t *sum, uint64_t more)
{
    *sum = st_add_overflows(*sum, more, sum) ? UINT64_MAX : *sum;
}

/* A fault of some of a dataset's chunks. */
__attribute__((format(printf, 2, 3))) static void fail_chunks(listing *listing, const char *format, ...)
{
    char cause[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause, sizeof(cause), format, arguments);
    va_end(arguments);
    fail(listing, CLI_BAD_DATA, cause);
}

static void judge_chunks(listing *listing, const doctor_dataset *dataset)
{
    const unsigned long long wrong_count = dataset->numbers->wrong_size_count;
    const unsigned long long lacking_count = doctor_dataset_lacking(dataset);
    const unsigned long long examined_count = dataset->numbers->examined_count;
    if (wrong_count > 0) {
        fail_chunks(listing,
                    "%llu of %llu chunks have another size than chunks of this dataset: do not read it, HDF5 "
                    "before 2.2 would take what lies behind them in memory for data",
                    wrong_count, examined_count);
    }
    if (lacking_count > 0) {
        fail_chunks(
            listing,
            "%llu of %llu chunks are stored without LMC: the program that wrote them did not find the "
            "plugin or could not use it; write them again",
            lacking_count, examined_count);
    }
    if (doctor_dataset_unexamined(dataset) > 0) {
        fail_chunks(listing, "only %llu of %llu chunks were looked at: do not take this file for checked",
                    examined_count, (unsigned long long)dataset->numbers->chunk_count);
    }
}

static void take_dataset(listing *listing, const hdf5_dataset *numbers)
{
    const doctor_dataset dataset = {listing->name, listing->name_nbytes, listing->filters,
                                    listing->filter_count, numbers};
    if (listing->is_json) {
        printf(listing->count == 0 ? "\n " : ",\n ");
        doctor_dataset_show_json(&dataset);
    } else {
        doctor_dataset_show(&dataset);
    }
    listing->count++;
    add_saturated(&listing->nbytes, numbers->is_size_known ? numbers->nbytes : UINT64_MAX);
    add_saturated(&listing->stored_nbytes, numbers->stored_nbytes);
    judge_chunks(listing, &dataset);
}

/* ---- what the child sends ---- */

static void take_name(listing *listing, const char *text, size_t nbytes)
{
    if (nbytes > listing->name_capacity - listing->name_nbytes) {
        const size_t capacity = 2 * listing->name_capacity + nbytes;
        char *const name = realloc(listing->name, capacity);
        if (name == NULL)
            return; /* a shorter name, then */
        listing->name = name;
        listing->name_capacity = capacity;
    }
    memcpy(listing->name + listing->name_nbytes, text, nbytes);
    listing->name_nbytes += nbytes;
}

/* The child works with a library that may have been led astray by the file: what it sends is not believed further
 * than it can be used. */
static void mend_dataset(hdf5_dataset *dataset)
{
    dataset->type[sizeof(dataset->type) - 1] = '\0';
    dataset->layout = (unsigned)dataset->layout < HDF5_LAYOUTS ? dataset->layout : HDF5_VIRTUAL;
    dataset->rank = dataset->rank >= -1 && dataset->rank <= HDF5_RANK_MAX ? dataset->rank : -1;
}

/* cli_child.take */
static void take(void *user, const void *bytes)
{
    listing *const listing = user;
    hdf5_record record;
    memcpy(&record, bytes, sizeof(record));
    const size_t nbytes = record.nbytes < HDF5_TEXT_NBYTES ? record.nbytes : HDF5_TEXT_NBYTES;
    switch (record.kind) {
    case HDF5_VERSION:
        snprintf(listing->version, sizeof(listing->version), "%.*s", (int)nbytes, record.of.text);
        return;
    case HDF5_NAME: take_name(listing, record.of.text, nbytes); return;
    case HDF5_FILTER:
        if (listing->filter_count < HDF5_FILTERS_MAX) {
            record.of.filter.name[sizeof(record.of.filter.name) - 1] = '\0';
            listing->filters[listing->filter_count++] = record.of.filter;
        }
        return;
    case HDF5_DATASET:
        mend_dataset(&record.of.dataset);
        take_dataset(listing, &record.of.dataset);
        break;
    case HDF5_FAULT:
    case HDF5_UNLOADED:
        listing->has_faults = 1;
        worsen(listing, record.kind == HDF5_FAULT ? CLI_BAD_DATA : CLI_SYSTEM);
        print_fault(listing, record.of.text, nbytes);
        break;
    case HDF5_END: listing->is_at_end = 1; break;
    }
    listing->name_nbytes = 0;
    listing->filter_count = 0;
}

/* cli_child.work */
static int inspect(void *user, int pipe_fd)
{
    const listing *const listing = user;
    cli_child_confine();
    return hdf5_inspect(listing->path, pipe_fd);
}

/* ---- a file ---- */

/* HDF5's signature stands at byte 0, or at 512 or a power of two times that. */
static lmc_status check_signature(const os_input *input, lmc_st_diag *diag)
{
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    for (uint64_t offset = 0; offset <= input->nbytes && input->nbytes - offset >= sizeof(signature);
         offset = offset == 0 ? 512 : offset * 2) {
        unsigned char found[sizeof(signature)];
        const lmc_status status = os_input_read(input, offset, found, sizeof(found), diag);
        if (status != LMC_OK || memcmp(found, signature, sizeof(found)) == 0)
            return status;
    }
    return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "not an HDF5 file");
}

static void run_inspection(listing *listing)
{
    const cli_child child = {
        .work = inspect, .take = take, .record_nbytes = sizeof(hdf5_record), .user = listing};
    char cause[100];
    int status = 0;
    const int failure = cli_run_child(&child, &status);
    if (failure != CLI_OK) {
        worsen(listing, failure);
    } else if (WIFSIGNALED(status)) {
        const int is_late = WTERMSIG(status) == SIGXCPU;
        snprintf(cause, sizeof(cause),
                 is_late ? "the HDF5 library gets no further (%d seconds)"
                         : "the HDF5 library crashed (signal %d)",
                 is_late ? CLI_CHILD_SECONDS : WTERMSIG(status));
        fail(listing, CLI_BAD_DATA, cause);
    } else if (!listing->is_at_end && !listing->has_faults) {
        fail(listing, CLI_BAD_DATA, "the HDF5 library ended the process");
    }
}

static void show_sum(const listing *listing)
{
    printf("%llu datasets, %llu bytes, stored %llu", (unsigned long long)listing->count,
           (unsigned long long)listing->nbytes, (unsigned long long)listing->stored_nbytes);
    if (listing->nbytes > 0)
        printf(", ratio %.4f", (double)listing->stored_nbytes / (double)listing->nbytes);
    printf("\n");
}

/* Returns CLI_OK if it is worth to load libhdf5 for the file. */
static int check_file(const char *path)
{
    os_input input;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_diag_init(&diag, path);
    lmc_status status = os_input_open(&input, path, &diag);
    if (status == LMC_OK) {
        status = check_signature(&input, &diag);
        os_input_close(&input);
    }
    fflush(stdout); /* what was found before stands before the message */
    return status == LMC_OK ? CLI_OK : cli_report(&diag);
}

static void list_json(listing *listing, int is_first)
{
    printf("%s{\"file\":", is_first ? "" : ",\n");
    cli_json_string(listing->path, strlen(listing->path));
    printf(",\"datasets\":[");
    listing->exit_status = check_file(listing->path);
    if (listing->exit_status == CLI_OK)
        run_inspection(listing);
    printf("],\"complete\":%s,\"hdf5\":", listing->is_at_end && !listing->has_faults ? "true" : "false");
    if (listing->version[0] != '\0') {
        cli_json_string(listing->version, strlen(listing->version));
        printf("}");
    } else {
        printf("null}");
    }
}

static void list_text(listing *listing, int is_first)
{
    char shown[512];
    listing->exit_status = check_file(listing->path);
    if (listing->exit_status != CLI_OK)
        return;
    st_text_escape(shown, sizeof(shown), listing->path, strlen(listing->path));
    printf("%s%s:\n", is_first ? "" : "\n", shown);
    run_inspection(listing);
    show_sum(listing);
}

int doctor_files(const cli_args *args)
{
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    int worst = CLI_OK;
    if (is_json)
        printf("[");
    for (int i = 0; i < args->operand_count && cli_cancel == 0 && cli_output_works(); i++) {
        listing listing = {.path = args->operands[i]};
        listing.is_json = is_json;
        if (is_json)
            list_json(&listing, i == 0);
        else
            list_text(&listing, i == 0);
        free(listing.name);
        worst = listing.exit_status > worst ? listing.exit_status : worst;
    }
    if (is_json)
        printf("]\n");
    const int status = cli_finish_output();
    return status > worst ? status : worst;
}

#endif
