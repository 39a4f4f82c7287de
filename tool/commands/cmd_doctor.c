/*
 * cmd_doctor.c - lmc-st doctor: what this installation is and what it finds on this machine. It looks for LMC's HDF5
 * plugin as HDF5 does (docs/hdf5-filter.md, section 4), but loads no library: files tell enough.
 */
#define _XOPEN_SOURCE 700 /* realpath, strdup */

#include "tool/cli.h"

#include "lmc_experimental.h"
#include "tool/tool_path.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <lmc_h5.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char about[] =
    "Describes this installation and this machine: versions, kernel sets (each is\n"
    "tried on a small tensor), threads, the directory for temporary copies of streams\n"
    "(TMPDIR), the HDF5 plugin, and each entry of HDF5_PLUGIN_PATH. For HDF5 files\n"
    "use examples/h5_inspect.py.\n";

static const char more[] =
    "\n"
    "Exit status: 0, or 3 if something does not work: then \"problem:\" lines say what.\n";

#define SELF_TEST_VALUES 100000
#define PLUGIN_NAME "libh5lmc.so"
#define ENTRIES_MAX 64
#define PROBLEMS_MAX 160
#define SHOWN_NBYTES 160

/* All kernel sets that there may be, best first. */
static const char *const kernel_sets[] = {"avx512", "avx2", "avx2-nopext", "neon", "scalar"};
#define KERNEL_SET_COUNT (sizeof kernel_sets / sizeof kernel_sets[0])

typedef enum lmc_plugin {
    PLUGIN_NONE,   /* no libh5lmc.so */
    PLUGIN_THIS,   /* the plugin that belongs to this program, or its equal */
    PLUGIN_OTHER,  /* LMC's, of another build, or this program has none to compare with */
    PLUGIN_BROKEN, /* it is not what it should be: a problem */
} lmc_plugin;

/* An entry of HDF5_PLUGIN_PATH. */
typedef struct entry {
    const char *directory;
    int os_errno;       /* why it cannot be listed; 0: it can */
    unsigned libraries; /* files that HDF5 takes for plugins */
    unsigned dangling;  /* links of such names that lead nowhere */
    lmc_plugin lmc;
} entry;

typedef struct findings {
    int set_count;
    const char *sets[KERNEL_SET_COUNT]; /* available, best first */
    const char *wanted;                 /* LMC_KERNELS, or NULL */
    unsigned frame_version;
    const char *temp_directory;
    int is_temp_usable;
    char plugin[PATH_MAX]; /* path of this program's libh5lmc.so; "": none */
    const char *why_not;   /* then: why */
    int is_path_set;       /* HDF5_PLUGIN_PATH */
    int entry_count;
    entry entries[ENTRIES_MAX];
    int problem_count;
    char problems[PROBLEMS_MAX][320];
} findings;

/* Adds a line; names in it are escaped already. Of too many the last ones are dropped. */
static void add_problem(findings *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_problem(findings *findings, const char *format, ...)
{
    va_list arguments;
    if (findings->problem_count == PROBLEMS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(findings->problems[findings->problem_count++], sizeof findings->problems[0], format, arguments);
    va_end(arguments);
}

/* ---- kernel sets ---- */

/* What a child finds of a kernel set. */
typedef struct set_found {
    int is_there, is_right;
    unsigned frame_version;
} set_found;

/* Encodes and decodes a tensor with the set: bf16 values with few exponents and noise below them, as weights have. */
static set_found try_set(const char *set)
{
    enum { NBYTES = 2 * SELF_TEST_VALUES };
    static unsigned char content[NBYTES], frame[2 * NBYTES], decoded[NBYTES];
    size_t frame_nbytes = 0;
    size_t decoded_nbytes = 0;
    uint32_t state = 1;
    lmc_ctx *ctx = NULL;
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    set_found found = {.is_there =
                           setenv("LMC_KERNELS", set, 1) == 0 && strcmp(lmc_kernels_name(), set) == 0};
    if (!found.is_there)
        return found;
    for (size_t i = 0; i < SELF_TEST_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        content[2 * i] = (unsigned char)(state >> 24);
        content[2 * i + 1] = (unsigned char)(0x3c - (__builtin_ctz(state >> 8 | 0x8000) >> 1));
    }
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;
    found.is_right =
        lmc_ctx_create(NULL, &ctx) == LMC_OK &&
        lmc_encode(ctx, &params, content, NBYTES, frame, sizeof frame, &frame_nbytes) == LMC_OK &&
        lmc_frame_read_info(frame, frame_nbytes, &info, NULL) == LMC_OK && info.mode == LMC_FRAME_CODED &&
        lmc_decode(ctx, frame, frame_nbytes, decoded, NBYTES, &decoded_nbytes) == LMC_OK &&
        decoded_nbytes == NBYTES && memcmp(content, decoded, NBYTES) == 0;
    found.frame_version = info.version;
    lmc_ctx_free(ctx);
    return found;
}

/* The library chooses its set once in a process, and a set may crash: each is tried in a child. Returns the exit
 * status. */
static int find_kernels(findings *findings)
{
    const char *const wanted = getenv("LMC_KERNELS");
    findings->wanted = wanted && wanted[0] != '\0' ? wanted : NULL;
    for (size_t i = 0; i < KERNEL_SET_COUNT && cli_cancel == 0; i++) {
        set_found found = {.is_there = 1}; /* of a child that says nothing */
        int ends[2];
        fflush(stdout); /* or the child would have the same text to write */
        if (pipe(ends) != 0)
            return cli_fail_os("doctor", errno, "cannot make a pipe");
        const pid_t pid = fork();
        if (pid == 0) {
            found = try_set(kernel_sets[i]);
            _exit(write(ends[1], &found, sizeof found) == (ssize_t)sizeof found ? EXIT_SUCCESS
                                                                                : EXIT_FAILURE);
        }
        const int os_errno = errno;
        close(ends[1]);
        while (pid > 0 && read(ends[0], &found, sizeof found) < 0 && errno == EINTR)
            continue;
        close(ends[0]);
        if (pid < 0)
            return cli_fail_os("doctor", os_errno, "cannot make a process");
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        if (!found.is_there)
            continue;
        findings->sets[findings->set_count++] = kernel_sets[i];
        if (found.is_right)
            findings->frame_version = found.frame_version;
        else
            add_problem(findings, "kernel set %s does not encode and decode a tensor", kernel_sets[i]);
    }
    if (findings->wanted && strcmp(findings->wanted, lmc_kernels_name()) != 0)
        add_problem(findings, "LMC_KERNELS names a set that is not available: it is ignored");
    return cli_cancel == 0 ? CLI_OK : 128 + cli_cancel;
}

/* ---- streams ---- */

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
    const int os_errno = errno;
    findings->is_temp_usable = fd >= 0;
    if (fd >= 0) {
        close(fd);
        (void)unlink(path);
    } else {
        add_problem(findings, "cannot create a file in %s: %.50s",
                    cli_shown(shown, sizeof shown, findings->temp_directory), strerror(os_errno));
    }
}

/* ---- the HDF5 plugin ---- */

/* Sets findings->plugin to the file below `folder` that the pattern names, the last by name if there are several: those
 * of several versions of Python. */
static int find_plugin_below(findings *findings, const char *folder, const char *pattern)
{
    char path[3 * PATH_MAX];
    glob_t found;
    size_t at = 0;
    for (; *folder != '\0'; folder++) { /* its own wildcards are none */
        if (strchr("*?[]\\", *folder))
            path[at++] = '\\';
        path[at++] = *folder;
    }
    snprintf(path + at, sizeof path - at, "%s/" PLUGIN_NAME, pattern);
    const int is_found = glob(path, 0, NULL, &found) == 0 && found.gl_pathc > 0 &&
                         realpath(found.gl_pathv[found.gl_pathc - 1], findings->plugin) &&
                         os_is_file(findings->plugin);
    globfree(&found);
    if (!is_found)
        findings->plugin[0] = '\0';
    return is_found;
}

/* Looks where the plugin lies as installed, and as built. A place that is not relative was asked for so. */
static void find_own_plugin(findings *findings)
{
#ifdef LMC_PLUGIN_DIR_FROM_BIN
    static const char *const places[] = {LMC_PLUGIN_DIR_FROM_BIN, LMC_PLUGIN_DIR_FROM_BUILD};
    char program[PATH_MAX] = "";
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *const slash = length > 0 ? strrchr(program, '/') : NULL;
    if (slash)
        slash[1] = '\0'; /* the directory of the program */
    findings->why_not = slash ? "not found: the program was moved without it"
                              : "not known: the system does not say where this program is";
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int is_absolute = places[i][0] == '/';
        if ((slash || is_absolute) && find_plugin_below(findings, is_absolute ? "" : program, places[i]))
            return;
    }
#else
    findings->why_not = "none: built without it (LMC_BUILD_FILTER)";
#endif
}

static int have_equal_content(const char *path, const char *other)
{
    FILE *const a = fopen(path, "rb");
    FILE *const b = fopen(other, "rb");
    int is_equal = a && b;
    for (int byte = 0; is_equal && byte != EOF;) {
        byte = getc(a);
        is_equal = getc(b) == byte;
    }
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return is_equal;
}

/* Adds a problem and returns 0 unless the file looks like a library of this machine that HDF5 can load as a plugin. */
static int check_plugin(findings *findings, const char *path)
{
    enum { MACHINE = 18, HEAD_NBYTES = 20 }; /* of an ELF file, which begins with its class and byte order */
    static const char symbol[] = "H5PLget_plugin_info"; /* its first letter comes once */
    char head[HEAD_NBYTES] = "";
    char own[HEAD_NBYTES] = "";
    char shown[SHOWN_NBYTES];
    const char *fault = NULL;
    FILE *const program = fopen("/proc/self/exe", "rb");
    FILE *const file =
        os_is_file(path) ? fopen(path, "rb") : NULL; /* to open a pipe would wait for a writer */
    const int is_read = file && fread(head, 1, sizeof head, file) == sizeof head;
    const int is_known = program && fread(own, 1, sizeof own, program) == sizeof own;
    if (!file) {
        fault = os_is_file(path) ? strerror(errno) : "it is not a regular file";
    } else if (!is_read || (is_known && (memcmp(head, own, 6) != 0 || memcmp(head + MACHINE, own + MACHINE,
                                                                             sizeof head - MACHINE) != 0))) {
        fault = "it is no library for this machine";
    } else {
        size_t at = 0;
        for (int byte = 0; symbol[at] != '\0' && (byte = getc(file)) != EOF;)
            at = byte == symbol[at] ? at + 1 : byte == symbol[0];
        fault = symbol[at] != '\0' ? "it is not a plugin with an HDF5 filter" : NULL;
    }
    if (program)
        fclose(program);
    if (file)
        fclose(file);
    if (fault)
        add_problem(findings, "%s cannot be used: %s", cli_shown(shown, sizeof shown, path), fault);
    return !fault;
}

/* Looks at the libraries of an entry, lib*.so*, all of which HDF5 would open. The first name of LMC's plugin is
 * checked. */
static void look_at_entry(findings *findings, entry *entry)
{
    char shown[SHOWN_NBYTES];
    char dangling[SHOWN_NBYTES] = "";
    char path[PATH_MAX];
    char lmc_path[PATH_MAX] = "";
    struct dirent **files = NULL;
    const int count = scandir(entry->directory, &files, NULL, alphasort);
    cli_shown(shown, sizeof shown, entry->directory);
    if (count < 0) {
        entry->os_errno = errno;
        add_problem(findings, "HDF5_PLUGIN_PATH has %s: %.60s; HDF5 1.10 then ignores all further entries",
                    shown, strerror(entry->os_errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        struct stat found;
        const char *const name = files[i]->d_name;
        const int is_library = strncmp(name, "lib", 3) == 0 && strstr(name, ".so") != NULL;
        const int length = snprintf(path, sizeof path, "%s/%s", entry->directory, name);
        if (!is_library || length >= (int)sizeof path) {
            /* HDF5 passes over it, too */
        } else if (stat(path, &found) != 0) {
            entry->dangling++;
            cli_shown(dangling, sizeof dangling, name);
        } else if (!S_ISDIR(found.st_mode)) {
            entry->libraries++;
            if (lmc_path[0] == '\0' && strncmp(name, PLUGIN_NAME, strlen(PLUGIN_NAME)) == 0)
                strcpy(lmc_path, path);
        }
        free(files[i]);
    }
    free(files);
    if (entry->dangling != 0)
        add_problem(findings,
                    "HDF5_PLUGIN_PATH has %s: %s is a dangling link%s; HDF5 1.10 then stops its search",
                    shown, dangling, entry->dangling > 1 ? ", others too" : "");
    if (entry->libraries == 0)
        add_problem(findings, "HDF5_PLUGIN_PATH has %s: there is no lib*.so in it", shown);
    if (lmc_path[0] == '\0')
        return;
    entry->lmc = !check_plugin(findings, lmc_path)                ? PLUGIN_BROKEN
                 : have_equal_content(lmc_path, findings->plugin) ? PLUGIN_THIS
                                                                  : PLUGIN_OTHER;
}

/* ---- output ---- */

static void print_json(const findings *findings)
{
    static const char *const lmc_names[] = {"none", "this", "other", "broken"};
    printf("{\"version\":\"%s\",\"archive_version\":%d,\"frame_version\":%u,\"kernels\":\"%s\"",
           lmc_version_text(), LMC_ST_ARCHIVE_VERSION, findings->frame_version, lmc_kernels_name());
    printf(",\"kernels_available\":[");
    for (int i = 0; i < findings->set_count; i++)
        printf("%s\"%s\"", i == 0 ? "" : ",", findings->sets[i]);
    printf("],\"kernels_wanted\":");
    cli_json_text(findings->wanted);
    printf(",\"threads\":%u,\"memory\":\"malloc\",\"temp_directory\":", lmc_core_count());
    cli_json_text(findings->temp_directory);
    printf(",\"temp_usable\":%s,\"filter_id\":%d,\"plugin_path\":",
           findings->is_temp_usable ? "true" : "false", LMC_H5_FILTER_ID);
    cli_json_text(findings->plugin[0] != '\0' ? findings->plugin : NULL);
    printf(",\"plugin_path_entries\":%s", findings->is_path_set ? "[" : "null");
    for (int i = 0; i < findings->entry_count; i++) {
        const entry *const entry = &findings->entries[i];
        const int has_lmc = entry->lmc == PLUGIN_THIS || entry->lmc == PLUGIN_OTHER;
        const char *const status = entry->os_errno != 0    ? "unusable"
                                   : entry->dangling != 0  ? "dangling link"
                                   : entry->libraries == 0 ? "no library"
                                                           : "ok";
        printf("%s{\"directory\":", i == 0 ? "" : ",");
        cli_json_text(entry->directory);
        printf(",\"status\":\"%s\",\"libraries\":%u,\"has_lmc\":%s,\"lmc\":\"%s\"}", status, entry->libraries,
               has_lmc ? "true" : "false", lmc_names[entry->lmc]);
    }
    printf("%s,\"problems\":[", findings->is_path_set ? "]" : "");
    for (int i = 0; i < findings->problem_count; i++) {
        printf(i == 0 ? "" : ",");
        cli_json_text(findings->problems[i]);
    }
    printf("]}\n");
}

static void show_findings(const findings *findings)
{
    char shown[PATH_MAX];
    const char *const path = findings->plugin;
    printf("version:       %s\n", lmc_version_text());
    printf("formats:       archives version %d, frames version %u\n", LMC_ST_ARCHIVE_VERSION,
           findings->frame_version);
    printf("kernels:       %s (available:", lmc_kernels_name());
    for (int i = 0; i < findings->set_count; i++)
        printf(" %s", findings->sets[i]);
    printf(")\n");
    if (findings->wanted)
        printf("LMC_KERNELS:   %s\n", cli_shown(shown, sizeof shown, findings->wanted));
    printf("threads:       %u\n", lmc_core_count());
    printf("memory:        malloc\n");
    printf("streams:       collected in %s\n", cli_shown(shown, sizeof shown, findings->temp_directory));
    printf("HDF5 filter:   %d\n", LMC_H5_FILTER_ID);
    printf("HDF5 plugin:   %s\n", path[0] != '\0' ? cli_shown(shown, sizeof shown, path) : findings->why_not);
    if (!findings->is_path_set)
        printf("HDF5 path:     HDF5_PLUGIN_PATH is not set");
    if (!findings->is_path_set && path[0] != '\0') {
        const size_t length = (size_t)(strrchr(path, '/') - path);
        const size_t plain =
            strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-");
        const char *const quote = plain < length ? "'" : "";
        lmc_text_escape(shown, sizeof shown, path, length);
        printf("; HDF5 programs find LMC after\n"
               "               export HDF5_PLUGIN_PATH=%s%s%s",
               quote, shown, quote);
    }
    printf("%s", findings->is_path_set ? "" : "\n");
    for (int i = 0; i < findings->entry_count; i++) {
        static const char *const lmc_texts[] = {"", ", LMC", ", LMC of another build",
                                                ", " PLUGIN_NAME " that does not work"};
        const entry *const entry = &findings->entries[i];
        const int is_alone =
            entry->lmc == PLUGIN_OTHER && path[0] == '\0'; /* no other build to compare with */
        printf("HDF5 path:     %s: ", cli_shown(shown, sizeof shown, entry->directory));
        if (entry->os_errno != 0)
            printf("%s\n", strerror(entry->os_errno));
        else
            printf("%u librar%s%s\n", entry->libraries, entry->libraries == 1 ? "y" : "ies",
                   lmc_texts[is_alone ? PLUGIN_THIS : entry->lmc]);
    }
    for (int i = 0; i < findings->problem_count; i++)
        printf("problem:       %s\n", findings->problems[i]);
}

static int run_doctor(const cli_args *args)
{
    const char *const path = getenv("HDF5_PLUGIN_PATH");
    const char *const preload = getenv("HDF5_PLUGIN_PRELOAD");
    if (args->operand_count != 0)
        return cli_usage_error("doctor", "doctor takes no file; examples/h5_inspect.py inspects HDF5 files");
    findings *const findings = calloc(1, sizeof *findings);
    char *const path_text = strdup(path ? path : "");
    if (!findings || !path_text) {
        free(findings);
        free(path_text);
        return cli_fail_nomem();
    }
    findings->is_path_set = path != NULL;
    int status = find_kernels(findings); /* first: this process must not have chosen its set yet */
    if (status == CLI_OK) {
        find_temp(findings);
        find_own_plugin(findings);
        if (findings->plugin[0] != '\0')
            (void)check_plugin(findings, findings->plugin);
        if (preload && strcmp(preload, "::") == 0)
            add_problem(findings, "HDF5_PLUGIN_PRELOAD is \"::\": HDF5 loads no plugin");
        /* as in HDF5, empty entries are none */
        int is_found = 0;
        char *state = NULL;
        char *directory = path ? strtok_r(path_text, ":", &state) : NULL;
        for (; directory && findings->entry_count < ENTRIES_MAX; directory = strtok_r(NULL, ":", &state)) {
            entry *const entry = &findings->entries[findings->entry_count++];
            entry->directory = directory;
            look_at_entry(findings, entry);
            is_found |= entry->lmc != PLUGIN_NONE;
        }
        if (directory)
            add_problem(findings, "HDF5_PLUGIN_PATH has more than %d entries; the others were not looked at",
                        ENTRIES_MAX);
        if (path && !is_found)
            add_problem(findings, "HDF5_PLUGIN_PATH is set, but " PLUGIN_NAME " is in none of its entries");
        if ((args->seen & CLI_OPT_JSON) != 0)
            print_json(findings);
        else
            show_findings(findings);
        status = cli_finish_output();
        status = status == CLI_OK && findings->problem_count > 0 ? CLI_SYSTEM : status;
    }
    free(path_text);
    free(findings);
    return status;
}

const cli_command cli_doctor = {"doctor", CLI_DOCTOR, "describe this installation and machine", "", about,
                                more,     run_doctor};
