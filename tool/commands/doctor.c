/*
 * doctor.c - lmc-st doctor: what this installation is and what it finds on this machine.
 */
#include "tool/commands/doctor.h"

#include "safetensors/archive/table.h"
#include "safetensors/common/text.h"
#include "safetensors/os/file.h"
#include "tool/cli.h"
#include "tool/commands/doctor_plugin.h"
#include "tool/json.h"
#include "tool/kernels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Describes this installation and this machine: versions, kernel sets (each is\n"
    "tried on a small tensor), threads, the directory in which streams are collected\n"
    "(TMPDIR), the HDF5 plugin, and each entry of HDF5_PLUGIN_PATH.\n"
    "\n"
    "With FILE, an HDF5 file: lists its datasets with their filters, chunks and\n"
    "sizes, and counts the chunks that were stored without LMC although the dataset\n"
    "asks for it: the program that wrote them lacked the plugin. Decodes no data.\n"
    "Of a dataset with LMC it also compares the size of each chunk with the size that\n"
    "the dataset's chunks have: where HDF5 before 2.2 is given fewer bytes, it reads\n"
    "beyond them. Look at files of strangers so before you read them. A size that\n"
    "another filter decides is unknown.\n"
    "\n"
    "      --json         an object {version, archive_version, frame_version,\n"
    "                     kernels, kernels_available, kernels_wanted, threads,\n"
    "                     memory, temp_directory, temp_usable, filter_id,\n"
    "                     plugin_path, plugin_path_entries, hdf5_library, problems};\n"
    "                     with FILE an array of {file, hdf5, complete, datasets}\n"
    "  -h, --help         show this text\n"
    "\n"
    "Exit status: 0, or 3 if something does not work: then \"problem:\" lines say what.\n"
    "With FILE: 1 if chunks lack LMC, have a wrong size or could not all be looked at\n"
    "or the file is bad, 3 if it cannot be read.\n";

#define SELF_TEST_VALUES 100000

typedef struct findings {
    int set_count;
    const char *sets[CLI_KERNEL_SETS]; /* available, best first */
    const char *wanted;                /* LMC_KERNELS, or NULL */
    unsigned thread_count;
    unsigned frame_version;
    const char *temp_directory;
    int is_temp_usable;
    doctor_plugin plugin;
    doctor_problems problems;
} findings;

/* ---- kernel sets ---- */

/* bf16 values with few exponents and noise below them, as weights have. */
static void fill(unsigned char *content)
{
    uint32_t state = 1;
    for (size_t i = 0; i < SELF_TEST_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        content[2 * i] = (unsigned char)(state >> 24);
        content[2 * i + 1] = (unsigned char)(0x3c - (__builtin_ctz(state >> 8 | 0x8000) >> 1));
    }
}

static int is_round_trip(lmc_ctx *ctx, unsigned char *content, unsigned char *frame, size_t frame_capacity,
                         unsigned *version)
{
    const size_t nbytes = (size_t)2 * SELF_TEST_VALUES;
    unsigned char *const decoded = content + nbytes;
    size_t frame_nbytes = 0;
    size_t decoded_nbytes = 0;
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;
    fill(content);
    if (lmc_encode(ctx, &params, content, nbytes, NULL, 0, frame, frame_capacity, &frame_nbytes) != LMC_OK ||
        lmc_read_info(frame, frame_nbytes, &info, NULL) != LMC_OK ||
        lmc_decode(ctx, frame, frame_nbytes, NULL, 0, decoded, nbytes, &decoded_nbytes) != LMC_OK)
        return 0;
    *version = info.version;
    return info.mode == LMC_FRAME_CODED && decoded_nbytes == nbytes && memcmp(content, decoded, nbytes) == 0;
}

/* cli_child.work: encodes and decodes a tensor, and sends the version of its frame. */
static int try_set(void *user, int pipe_fd)
{
    const size_t nbytes = (size_t)2 * SELF_TEST_VALUES;
    lmc_ctx *ctx = NULL;
    unsigned version = 0;
    unsigned char *const content = malloc(2 * nbytes);
    unsigned char *const frame = malloc(2 * nbytes);
    (void)user;
    const int is_right = content != NULL && frame != NULL && lmc_ctx_create(NULL, &ctx) == LMC_OK &&
                         is_round_trip(ctx, content, frame, 2 * nbytes, &version);
    lmc_ctx_free(ctx);
    free(content);
    free(frame);
    return is_right && cli_send(pipe_fd, &version, sizeof(version)) ? CLI_OK : CLI_BAD_DATA;
}

/* cli_child.take */
static void take_version(void *user, const void *record)
{
    memcpy(user, record, sizeof(unsigned));
}

static void find_kernels(findings *findings)
{
    const cli_child child = {.work = try_set,
                             .take = take_version,
                             .record_nbytes = sizeof(unsigned),
                             .user = &findings->frame_version};
    const char *const wanted = getenv("LMC_KERNELS");
    findings->wanted = wanted != NULL && wanted[0] != '\0' ? wanted : NULL;
    for (size_t i = 0; i < CLI_KERNEL_SETS; i++) {
        int is_there = 0;
        const int status = cli_with_kernels(cli_kernel_sets[i], &child, &is_there);
        if (is_there)
            findings->sets[findings->set_count++] = cli_kernel_sets[i];
        if (status != CLI_OK) {
            doctor_problem(&findings->problems, "kernel set %s does not encode and decode a tensor",
                           cli_kernel_sets[i]);
        }
    }
    if (findings->wanted != NULL && strcmp(findings->wanted, lmc_kernels_name()) != 0)
        doctor_problem(&findings->problems, "LMC_KERNELS names a set that is not available: it is ignored");
}

/* ---- the rest ---- */

static void find_temp(findings *findings)
{
    char shown[64];
    findings->temp_directory = os_spool_directory();
    findings->is_temp_usable = access(findings->temp_directory, W_OK | X_OK) == 0;
    const int fd = findings->is_temp_usable ? os_spool_create() : -1;
    if (fd >= 0) {
        close(fd);
        return;
    }
    const int os_errno = errno;
    findings->is_temp_usable = 0;
    st_text_escape(shown, sizeof(shown), findings->temp_directory, strlen(findings->temp_directory));
    doctor_problem(&findings->problems, "no file can be made in %s: %.50s", shown, strerror(os_errno));
}

static void print_json_list(const char *key, const char *const *texts, int count)
{
    printf(",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        printf(i == 0 ? "" : ",");
        cli_json_string(texts[i], strlen(texts[i]));
    }
    printf("]");
}

static void print_json(const findings *findings)
{
    const char *problems[DOCTOR_PROBLEMS_MAX];
    for (int i = 0; i < findings->problems.count; i++)
        problems[i] = findings->problems.texts[i];
    printf("{\"version\":\"%s\",\"archive_version\":%d,\"frame_version\":%u,\"kernels\":\"%s\"",
           lmc_version_text(), ST_TABLE_VERSION, findings->frame_version, lmc_kernels_name());
    print_json_list("kernels_available", findings->sets, findings->set_count);
    printf(",\"kernels_wanted\":");
    if (findings->wanted == NULL)
        printf("null");
    else
        cli_json_string(findings->wanted, strlen(findings->wanted));
    printf(",\"threads\":%u,\"memory\":\"malloc\",\"temp_directory\":", findings->thread_count);
    cli_json_string(findings->temp_directory, strlen(findings->temp_directory));
    printf(",\"temp_usable\":%s", findings->is_temp_usable ? "true" : "false");
    doctor_plugin_show_json(&findings->plugin);
    print_json_list("problems", problems, findings->problems.count);
    printf("}\n");
}

static void show(const findings *findings)
{
    char shown[256];
    printf("version:       %s\n", lmc_version_text());
    printf("formats:       archives version %d, frames version %u\n", ST_TABLE_VERSION,
           findings->frame_version);
    printf("kernels:       %s (available:", lmc_kernels_name());
    for (int i = 0; i < findings->set_count; i++)
        printf(" %s", findings->sets[i]);
    printf(")\n");
    if (findings->wanted != NULL) {
        st_text_escape(shown, sizeof(shown), findings->wanted, strlen(findings->wanted));
        printf("LMC_KERNELS:   %s\n", shown);
    }
    printf("threads:       %u\n", findings->thread_count);
    printf("memory:        malloc\n");
    st_text_escape(shown, sizeof(shown), findings->temp_directory, strlen(findings->temp_directory));
    printf("streams:       collected in %s\n", shown);
    doctor_plugin_show(&findings->plugin);
    for (int i = 0; i < findings->problems.count; i++)
        printf("problem:       %s\n", findings->problems.texts[i]);
}

static int describe(findings *findings, int is_json)
{
    find_kernels(findings); /* first: this process must not have chosen its set yet */
    find_temp(findings);
    findings->thread_count = lmc_core_count();
    const int failure = doctor_plugin_find(&findings->plugin, &findings->problems);
    if (failure != CLI_OK)
        return failure;
    if (is_json)
        print_json(findings);
    else
        show(findings);
    const int status = cli_finish_output();
    return status == CLI_OK && findings->problems.count > 0 ? CLI_SYSTEM : status;
}

static int run(const cli_args *args)
{
    if (args->operand_count != 0)
        return doctor_files(args);
    findings *const findings = calloc(1, sizeof(*findings));
    if (findings == NULL) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        st_diag_init(&diag, "doctor");
        st_fail_nomem(&diag);
        return cli_report(&diag);
    }
    const int status = describe(findings, (args->seen & CLI_OPT_JSON) != 0);
    doctor_plugin_free(&findings->plugin);
    free(findings);
    return status;
}

const cli_command cli_doctor = {"doctor", CLI_OPT_JSON, "doctor [FILE...] [OPTION...]", help, run};
