/*
 * doctor.c - lmc-st doctor: what this installation is and what it finds on this machine.
 */
#include "tool/child.h"
#include "tool/cli.h"
#include "tool/commands/doctor_plugin.h"
#include "tool/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Describes this installation and this machine: versions, kernel sets (each is\n"
    "tried on a small tensor), threads, the directory in which streams are collected\n"
    "(TMPDIR), the HDF5 plugin, and each entry of HDF5_PLUGIN_PATH. For HDF5 files\n"
    "there is examples/h5_inspect.py.\n";

static const char more[] =
    "\n"
    "Exit status: 0, or 3 if something does not work: then \"problem:\" lines say what.\n";

#define SELF_TEST_VALUES 100000

/* All kernel sets that there may be, best first. */
static const char *const kernel_sets[] = {"avx512", "avx2", "avx2-nopext", "neon", "scalar"};
#define KERNEL_SET_COUNT (sizeof kernel_sets / sizeof kernel_sets[0])

typedef struct findings {
    int set_count;
    const char *sets[KERNEL_SET_COUNT]; /* available, best first */
    const char *wanted;                 /* LMC_KERNELS, or NULL */
    unsigned thread_count;
    unsigned frame_version;
    const char *temp_directory;
    int is_temp_usable;
    doctor_plugin plugin;
    doctor_problems problems;
} findings;

/* ---- kernel sets ---- */

/* bf16 values with few exponents and noise below them, as weights have. */
static void fill_with_weights(unsigned char *content)
{
    uint32_t state = 1;
    for (size_t i = 0; i < SELF_TEST_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        content[2 * i] = (unsigned char)(state >> 24);
        content[2 * i + 1] = (unsigned char)(0x3c - (__builtin_ctz(state >> 8 | 0x8000) >> 1));
    }
}

/* What the child finds of a kernel set. */
typedef struct set_found {
    int is_there, is_right;
    unsigned frame_version;
} set_found;

/* In the child: the library chooses its set once in a process. Encodes and decodes a tensor with the set. */
static int try_set(void *user, void *answer)
{
    enum { NBYTES = 2 * SELF_TEST_VALUES };
    static unsigned char content[NBYTES], frame[2 * NBYTES], decoded[NBYTES];
    size_t frame_nbytes = 0;
    size_t decoded_nbytes = 0;
    set_found *const found = answer;
    lmc_ctx *ctx = NULL;
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    if (setenv("LMC_KERNELS", user, 1) != 0)
        return 0;
    found->is_there = strcmp(lmc_kernels_name(), user) == 0;
    if (!found->is_there)
        return 1;
    fill_with_weights(content);
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;
    found->is_right =
        lmc_ctx_create(NULL, &ctx) == LMC_OK &&
        lmc_encode(ctx, &params, content, NBYTES, NULL, 0, frame, sizeof frame, &frame_nbytes) == LMC_OK &&
        lmc_read_info(frame, frame_nbytes, &info, NULL) == LMC_OK && info.mode == LMC_FRAME_CODED &&
        lmc_decode(ctx, frame, frame_nbytes, NULL, 0, decoded, NBYTES, &decoded_nbytes) == LMC_OK &&
        decoded_nbytes == NBYTES && memcmp(content, decoded, NBYTES) == 0;
    found->frame_version = info.version;
    lmc_ctx_free(ctx);
    return 1;
}

/* Returns CLI_OK, or the exit status when a signal ended this process or the system has no process left. */
static int find_kernels(findings *findings)
{
    const char *const wanted = getenv("LMC_KERNELS");
    findings->wanted = wanted && wanted[0] != '\0' ? wanted : NULL;
    for (size_t i = 0; i < KERNEL_SET_COUNT; i++) {
        set_found found = {0, 0, 0};
        int outcome = 0;
        const int status = cli_ask_child(try_set, (char *)kernel_sets[i], &found, sizeof found, &outcome);
        if (status != CLI_OK)
            return status;
        if (outcome == CLI_CHILD_ANSWERED && !found.is_there)
            continue;
        findings->sets[findings->set_count++] = kernel_sets[i];
        if (found.is_right)
            findings->frame_version = found.frame_version;
        else
            doctor_problem(&findings->problems, "kernel set %s does not encode and decode a tensor",
                           kernel_sets[i]);
    }
    if (findings->wanted && strcmp(findings->wanted, lmc_kernels_name()) != 0)
        doctor_problem(&findings->problems, "LMC_KERNELS names a set that is not available: it is ignored");
    return CLI_OK;
}

/* ---- the rest ---- */

/* Where the library collects streams: $TMPDIR, or /var/tmp. */
static void find_temp(findings *findings)
{
    char shown[64];
    char path[PATH_MAX];
    const char *const named = getenv("TMPDIR");
    findings->temp_directory = named && named[0] != '\0' ? named : "/var/tmp";
    const int length = snprintf(path, sizeof path, "%s/lmc-st-XXXXXX", findings->temp_directory);
    errno = ENAMETOOLONG;
    const int fd = (size_t)length < sizeof path ? mkstemp(path) : -1;
    findings->is_temp_usable = fd >= 0;
    if (fd >= 0) {
        close(fd);
        (void)unlink(path);
        return;
    }
    const int os_errno = errno;
    doctor_problem(&findings->problems, "no file can be made in %s: %.50s",
                   cli_shown(shown, sizeof shown, findings->temp_directory), strerror(os_errno));
}

static void print_json_list(const char *key, const char *const *texts, int count)
{
    printf(",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        printf(i == 0 ? "" : ",");
        cli_json_text(texts[i]);
    }
    printf("]");
}

static void print_json(const findings *findings)
{
    const char *problems[DOCTOR_PROBLEMS_MAX];
    for (int i = 0; i < findings->problems.count; i++)
        problems[i] = findings->problems.texts[i];
    printf("{\"version\":\"%s\",\"archive_version\":%d,\"frame_version\":%u,\"kernels\":\"%s\"",
           lmc_version_text(), LMC_ST_ARCHIVE_VERSION, findings->frame_version, lmc_kernels_name());
    print_json_list("kernels_available", findings->sets, findings->set_count);
    printf(",\"kernels_wanted\":");
    cli_json_text(findings->wanted);
    printf(",\"threads\":%u,\"memory\":\"malloc\",\"temp_directory\":", findings->thread_count);
    cli_json_text(findings->temp_directory);
    printf(",\"temp_usable\":%s", findings->is_temp_usable ? "true" : "false");
    doctor_plugin_show_json(&findings->plugin);
    print_json_list("problems", problems, findings->problems.count);
    printf("}\n");
}

static void show_findings(const findings *findings)
{
    char shown[256];
    printf("version:       %s\n", lmc_version_text());
    printf("formats:       archives version %d, frames version %u\n", LMC_ST_ARCHIVE_VERSION,
           findings->frame_version);
    printf("kernels:       %s (available:", lmc_kernels_name());
    for (int i = 0; i < findings->set_count; i++)
        printf(" %s", findings->sets[i]);
    printf(")\n");
    if (findings->wanted)
        printf("LMC_KERNELS:   %s\n", cli_shown(shown, sizeof shown, findings->wanted));
    printf("threads:       %u\n", findings->thread_count);
    printf("memory:        malloc\n");
    printf("streams:       collected in %s\n", cli_shown(shown, sizeof shown, findings->temp_directory));
    doctor_plugin_show(&findings->plugin);
    for (int i = 0; i < findings->problems.count; i++)
        printf("problem:       %s\n", findings->problems.texts[i]);
}

static int describe_machine(findings *findings, int is_json)
{
    int failure = find_kernels(findings); /* first: this process must not have chosen its set yet */
    find_temp(findings);
    findings->thread_count = lmc_core_count();
    if (failure == CLI_OK)
        failure = doctor_plugin_find(&findings->plugin, &findings->problems);
    if (failure != CLI_OK)
        return failure;
    if (is_json)
        print_json(findings);
    else
        show_findings(findings);
    const int status = cli_finish_output();
    return status == CLI_OK && findings->problems.count > 0 ? CLI_SYSTEM : status;
}

static int run_doctor(const cli_args *args)
{
    if (args->operand_count != 0)
        return cli_usage_error("doctor",
                               "doctor takes no file; examples/h5_inspect.py looks into HDF5 files");
    findings *const findings = calloc(1, sizeof *findings);
    if (!findings)
        return cli_fail_nomem();
    const int status = describe_machine(findings, (args->seen & CLI_OPT_JSON) != 0);
    doctor_plugin_free(&findings->plugin);
    free(findings);
    return status;
}

const cli_command cli_doctor = {"doctor", CLI_DOCTOR, "describe this installation and machine", "", about,
                                more,     run_doctor};
