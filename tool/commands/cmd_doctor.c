/*
 * cmd_doctor.c - lmc-st doctor: what this installation is and what it finds on this machine. It looks for LMC's HDF5
 * plugin as HDF5 does (docs/hdf5-filter.md, section 4), but loads no library: files tell enough.
 */
#include "common/bytes.h"
#include "lmc_experimental.h"
#include "os/os.h"
#include "tool/cli.h"
#include "tool/tool_path.h"

#include <errno.h>
#include <lmc_h5.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Describes this installation and this machine: versions, kernel sets (each is\n"
    "tried on a small tensor), threads, the directory for temporary copies of streams\n"
    "(TMPDIR), the HDF5 plugin, and each entry of HDF5_PLUGIN_PATH. For HDF5 files\n"
    "use examples/h5_inspect.py.\n";

static const char more[] =
    "\n"
    "Exit status: 0, or 3 if something does not work: then \"problem:\" lines say what.\n";

#define SELF_TEST_VALUES 100000
#define ENTRIES_MAX 64
#define PROBLEMS_MAX 160
#define SHOWN_NBYTES 160

/* All kernel sets that there may be, best first. */
static const char *const kernel_sets[] = {"avx512", "avx2", "avx2-nopext", "neon", "scalar"};
#define KERNEL_SET_COUNT (sizeof kernel_sets / sizeof kernel_sets[0])

typedef enum plugin_kind {
    PLUGIN_NONE,   /* no file of that name */
    PLUGIN_THIS,   /* the plugin that belongs to this program, or its equal */
    PLUGIN_OTHER,  /* LMC's, of another build, or this program has none to compare with */
    PLUGIN_BROKEN, /* it is not what it should be: a problem */
} plugin_kind;

/* An entry of HDF5_PLUGIN_PATH. */
typedef struct entry {
    const char *directory;
    int os_errno;       /* why it cannot be listed; 0: it can */
    unsigned libraries; /* files that HDF5 takes for plugins */
    unsigned dangling;  /* links of such names that lead nowhere */
    plugin_kind lmc;
} entry;

typedef struct findings {
    int set_count;
    const char *sets[KERNEL_SET_COUNT]; /* available, best first */
    const char *wanted;                 /* LMC_KERNELS, or NULL */
    unsigned frame_version;
    const char *temp_directory;
    int is_temp_usable;
    char *plugin;        /* path of this program's plugin; NULL: none */
    const char *why_not; /* then: why */
    int is_path_set;     /* HDF5_PLUGIN_PATH */
    int entry_count;
    entry entries[ENTRIES_MAX];
    int problem_count;
    char problems[PROBLEMS_MAX][320];
} findings;

/* Adds a line; names in it are escaped already. Of too many the last ones are dropped. */
static void add_problem(findings *findings, const char *format, ...) LMC_PRINTF(2, 3);

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

/* Encodes and decodes a tensor with the set that this process has chosen: bf16 values with few exponents and noise
 * below them, as weights have. Returns 1 if that works. */
static int try_set(unsigned *frame_version)
{
    enum { NBYTES = 2 * SELF_TEST_VALUES };
    static unsigned char content[NBYTES], frame[2 * NBYTES], decoded[NBYTES];
    size_t frame_nbytes = 0;
    size_t decoded_nbytes = 0;
    uint32_t state = 1;
    lmc_ctx *ctx = NULL;
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    for (size_t i = 0; i < SELF_TEST_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        content[2 * i] = (unsigned char)(state >> 24);
        content[2 * i + 1] = (unsigned char)(0x3c - (__builtin_ctz(state >> 8 | 0x8000) >> 1));
    }
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;
    const int is_right =
        lmc_ctx_create(NULL, &ctx) == LMC_OK &&
        lmc_encode(ctx, &params, content, NBYTES, frame, sizeof frame, &frame_nbytes) == LMC_OK &&
        lmc_frame_read_info(frame, frame_nbytes, &info, NULL) == LMC_OK && info.mode == LMC_FRAME_CODED &&
        lmc_decode(ctx, frame, frame_nbytes, decoded, NBYTES, &decoded_nbytes) == LMC_OK &&
        decoded_nbytes == NBYTES && memcmp(content, decoded, NBYTES) == 0;
    *frame_version = info.version;
    lmc_ctx_free(ctx);
    return is_right;
}

int cli_try_kernels(void)
{
    unsigned frame_version = 0;
    const int is_right = try_set(&frame_version);
    printf("%s %d %u", lmc_kernels_name(), is_right, frame_version);
    return cli_finish_output();
}

/* The library chooses its set once in a process, and a set may crash: each is tried by this program, run again. Returns
 * the exit status. */
static int find_kernels(findings *findings)
{
    char *const command[] = {"lmc-st", CLI_TRY_KERNELS, NULL};
    findings->wanted = os_environment("LMC_KERNELS");
    for (size_t i = 0; i < KERNEL_SET_COUNT && cli_cancel == 0; i++) {
        char said[80] = "";
        char name[32] = "";
        int is_right = 0;
        unsigned frame_version = 0;
        size_t nbytes = 0;
        int status = 0;
        const int os_errno =
            os_run_program(command, "LMC_KERNELS", kernel_sets[i], said, sizeof said - 1, &nbytes, &status);
        if (os_errno != 0)
            return cli_fail_os("doctor", os_errno, "cannot run this program again");
        const int is_told =
            status == CLI_OK && sscanf(said, "%31s %d %u", name, &is_right, &frame_version) == 3;
        if (is_told && strcmp(name, kernel_sets[i]) != 0)
            continue; /* it is not there */
        findings->sets[findings->set_count++] = kernel_sets[i];
        if (is_told && is_right)
            findings->frame_version = frame_version;
        else
            add_problem(findings, "kernel set %s does not encode and decode a tensor", kernel_sets[i]);
    }
    if (findings->wanted && strcmp(findings->wanted, lmc_kernels_name()) != 0)
        add_problem(findings, "LMC_KERNELS names a set that is not available: it is ignored");
    return cli_cancel == 0 ? CLI_OK : 128 + cli_cancel;
}

/* ---- streams ---- */

/* Finds where the library collects streams: the first directory that it can write to. If there is none, reports the
 * first one. */
static void find_temp(findings *findings)
{
    char shown[64];
    char cause[64];
    const char *directory = NULL;
    int fd = -1;
    for (unsigned i = 0; fd < 0 && (directory = os_temporary_directory(i)) != NULL; i++) {
        fd = os_create_temporary(directory);
        if (i == 0)
            os_error_text(errno, cause, sizeof cause);
        if (i == 0 || fd >= 0)
            findings->temp_directory = directory;
    }
    findings->is_temp_usable = fd >= 0;
    if (fd >= 0)
        (void)os_close(fd);
    else
        add_problem(findings, "cannot create a file in %s: %.50s",
                    cli_shown(shown, sizeof shown, findings->temp_directory), cause);
}

/* ---- the HDF5 plugin ---- */

/* A search for the plugin below a folder, along a path whose components may have wildcards. Of several, as those of
 * several versions of Python, the last one by name is found. */
typedef struct search {
    const char *folder, *pattern;
    char *found; /* to be freed */
} search;

static void find_below(search *search);

static int visit_component(void *user, const char *name)
{
    search *const outer = user;
    const size_t length = strcspn(outer->pattern, "/");
    char *const component = cli_copy(outer->pattern, length);
    char *const folder = lmc_path_join(&lmc_memory_default, outer->folder, name, "");
    if (component && folder && os_matches(component, name)) {
        search inner = {folder, outer->pattern + length + (outer->pattern[length] != '\0'), outer->found};
        find_below(&inner);
        outer->found = inner.found;
    }
    free(component);
    free(folder);
    return 0;
}

static void find_below(search *search)
{
    const size_t length = strcspn(search->pattern, "/");
    if (length > 0) {
        char *const component = cli_copy(search->pattern, length);
        if (component && !strpbrk(component, "*?["))
            (void)visit_component(search, component);
        else if (component)
            (void)os_visit_path(search->folder, visit_component, search);
        free(component);
        return;
    }
    char *const path = os_is_file(search->folder) ? os_real_path(search->folder) : NULL;
    const int is_better = path && (!search->found || strcmp(path, search->found) > 0);
    free(is_better ? search->found : path);
    search->found = is_better ? path : search->found;
}

/* Looks where the plugin lies as installed, and as built. A place that is not relative was asked for so. */
static void find_own_plugin(findings *findings)
{
#ifdef LMC_PLUGIN_DIR_FROM_BIN
    static const char *const places[] = {LMC_PLUGIN_DIR_FROM_BIN "/" PLUGIN_NAME,
                                         LMC_PLUGIN_DIR_FROM_BUILD "/" PLUGIN_NAME};
    char *const program = os_program_path();
    char *const folder = program ? lmc_directory_of(&lmc_memory_default, program) : NULL;
    findings->why_not = folder ? "not found: the program was moved without it"
                               : "not known: the system does not say where this program is";
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !findings->plugin; i++) {
        const size_t root = os_root_nbytes(places[i]);
        char *const root_path = cli_copy(places[i], root);
        search search = {root > 0 ? root_path : folder, places[i] + root, NULL};
        if (search.folder)
            find_below(&search);
        findings->plugin = search.found;
        free(root_path);
    }
    free(folder);
    free(program);
#else
    findings->why_not = "none: built without it (LMC_BUILD_FILTER)";
#endif
}

static int have_equal_content(const char *path, const char *other)
{
    enum { PIECE_NBYTES = 4096 };
    unsigned char piece[PIECE_NBYTES], other_piece[PIECE_NBYTES];
    const int a = os_open(OS_HERE, path);
    const int b = other ? os_open(OS_HERE, other) : -1;
    int is_equal = a >= 0 && b >= 0;
    int64_t got = 1;
    for (uint64_t at = 0; is_equal && got > 0; at += (uint64_t)got) {
        got = os_read_at(a, at, piece, sizeof piece);
        is_equal = got >= 0 && os_read_at(b, at, other_piece, sizeof other_piece) == got &&
                   memcmp(piece, other_piece, (size_t)got) == 0;
    }
    if (a >= 0)
        (void)os_close(a);
    if (b >= 0)
        (void)os_close(b);
    return is_equal;
}

/* The beginning of a program or library. */
typedef struct image_head {
    unsigned char bytes[4096];
    size_t nbytes;
} image_head;

static int read_head(const char *path, image_head *head)
{
    const int fd = path ? os_open(OS_HERE, path) : -1;
    const int64_t got = fd < 0 ? -1 : os_read_at(fd, 0, head->bytes, sizeof head->bytes);
    if (fd >= 0)
        (void)os_close(fd);
    head->nbytes = got > 0 ? (size_t)got : 0;
    return got >= 0;
}

/* 1 if both are for the same kind of machine: class, byte order and machine in ELF; the machine behind the offset at
 * 0x3c in PE; the first eight bytes in Mach-O. */
static int is_same_machine(const image_head *a, const image_head *b)
{
    enum { ELF_MACHINE = 18, PE_AT = 0x3c, HEAD_NBYTES = 64 };
    if (a->nbytes < HEAD_NBYTES || b->nbytes < HEAD_NBYTES)
        return 0;
    if (memcmp(a->bytes, "\177ELF", 4) == 0)
        return memcmp(a->bytes, b->bytes, 6) == 0 &&
               memcmp(a->bytes + ELF_MACHINE, b->bytes + ELF_MACHINE, 2) == 0;
    if (memcmp(a->bytes, "MZ", 2) == 0) {
        const size_t at = a->bytes[PE_AT] + 256u * a->bytes[PE_AT + 1];
        const size_t other = b->bytes[PE_AT] + 256u * b->bytes[PE_AT + 1];
        return memcmp(b->bytes, "MZ", 2) == 0 && at + 6 <= a->nbytes && other + 6 <= b->nbytes &&
               memcmp(a->bytes + at, b->bytes + other, 6) == 0;
    }
    return memcmp(a->bytes, b->bytes, 8) == 0;
}

/* 1 if a little-endian ELF file of 64 bits ends before its table of sections, which is its last part. */
static int is_cut_short(const image_head *head, uint64_t nbytes)
{
    enum { TABLE_AT = 40, ENTRY_NBYTES_AT = 58, ENTRY_COUNT_AT = 60, HEAD_NBYTES = 64 };
    const unsigned char *const bytes = head->bytes;
    if (head->nbytes < HEAD_NBYTES || memcmp(bytes, "\177ELF\002\001", 6) != 0)
        return 0;
    const uint64_t table = lmc_load_n(bytes + TABLE_AT, 8);
    return table > nbytes ||
           lmc_load_n(bytes + ENTRY_NBYTES_AT, 2) * lmc_load_n(bytes + ENTRY_COUNT_AT, 2) > nbytes - table;
}

/* 1 if the file has these bytes somewhere. Its first letter comes once in `text`. */
static int has_text(const char *path, const char *text)
{
    char piece[4096];
    const int fd = os_open(OS_HERE, path);
    size_t at = 0;
    int64_t got = 1;
    for (uint64_t offset = 0; fd >= 0 && got > 0 && text[at] != '\0'; offset += (uint64_t)got) {
        got = os_read_at(fd, offset, piece, sizeof piece);
        for (int64_t i = 0; i < got && text[at] != '\0'; i++)
            at = piece[i] == text[at] ? at + 1 : piece[i] == text[0];
    }
    if (fd >= 0)
        (void)os_close(fd);
    return text[at] == '\0';
}

/* Adds a problem and returns 0 unless the file looks like a library of this machine that HDF5 can load as a plugin. */
static int check_plugin(findings *findings, const char *path)
{
    os_state found;
    image_head head, own;
    char cause[60];
    char shown[SHOWN_NBYTES];
    const char *fault = NULL;
    char *const program = os_program_path();
    const int is_known = read_head(program, &own);
    free(program);
    if (os_stat(OS_HERE, path, &found) != 0 || found.kind != OS_FILE) {
        fault = "it is not a regular file";
    } else if (!read_head(path, &head)) {
        os_error_text(errno, cause, sizeof cause);
        fault = cause;
    } else if (is_known && !is_same_machine(&own, &head)) {
        fault = "it is not a library for this machine";
    } else if (is_cut_short(&head, found.nbytes)) {
        fault = "it is cut short";
    } else if (!has_text(path, "H5PLget_plugin_info")) {
        fault = "it is not a plugin with an HDF5 filter";
    }
    if (fault)
        add_problem(findings, "%s cannot be used: %s", cli_shown(shown, sizeof shown, path), fault);
    return !fault;
}

/* The libraries of an entry. */
typedef struct libraries {
    entry *entry;
    char *dangling, *lmc; /* the first by name: of a link, the path of LMC's plugin; to be freed */
} libraries;

static void keep_first(char **kept, char *path)
{
    const int is_first = path && (!*kept || strcmp(path, *kept) < 0);
    free(is_first ? *kept : path);
    *kept = is_first ? path : *kept;
}

static int visit_library(void *user, const char *name)
{
    libraries *const libraries = user;
    os_state found;
    char *const path = lmc_path_join(&lmc_memory_default, libraries->entry->directory, name, "");
    char *kept = NULL;
    if (!path || !os_is_library_name(name)) {
        /* HDF5 passes over it, too */
    } else if (os_stat(OS_HERE, path, &found) != 0) {
        libraries->entry->dangling++;
        keep_first(&libraries->dangling, cli_copy(name, strlen(name)));
    } else if (found.kind != OS_FOLDER) {
        libraries->entry->libraries++;
        if (strncmp(name, PLUGIN_NAME, strlen(PLUGIN_NAME)) == 0)
            kept = path;
    }
    if (kept)
        keep_first(&libraries->lmc, kept);
    else
        free(path);
    return 0;
}

/* Looks at the libraries of an entry, all of which HDF5 would open. The first name of LMC's plugin is checked. */
static void look_at_entry(findings *findings, entry *entry)
{
    char shown[SHOWN_NBYTES];
    char dangling[SHOWN_NBYTES];
    char cause[60];
    libraries libraries = {entry, NULL, NULL};
    cli_shown(shown, sizeof shown, entry->directory);
    entry->os_errno = os_visit_path(entry->directory, visit_library, &libraries);
    if (entry->os_errno != 0) {
        os_error_text(entry->os_errno, cause, sizeof cause);
        add_problem(findings, "HDF5_PLUGIN_PATH has %s: %s; HDF5 1.10 then ignores all further entries",
                    shown, cause);
    } else {
        if (entry->dangling != 0)
            add_problem(findings,
                        "HDF5_PLUGIN_PATH has %s: %s is a dangling link%s; HDF5 1.10 then stops its search",
                        shown, cli_shown(dangling, sizeof dangling, libraries.dangling),
                        entry->dangling > 1 ? ", others too" : "");
        if (libraries.lmc)
            entry->lmc = !check_plugin(findings, libraries.lmc)                ? PLUGIN_BROKEN
                         : have_equal_content(libraries.lmc, findings->plugin) ? PLUGIN_THIS
                                                                               : PLUGIN_OTHER;
    }
    free(libraries.dangling);
    free(libraries.lmc);
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
    printf(",\"threads\":%u,\"temp_directory\":", lmc_core_count());
    cli_json_text(findings->temp_directory);
    printf(",\"temp_usable\":%s,\"filter_id\":%d,\"plugin_path\":",
           findings->is_temp_usable ? "true" : "false", LMC_H5_FILTER_ID);
    cli_json_text(findings->plugin);
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
    char shown[4096];
    char cause[128];
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
    printf("streams:       collected in %s\n", cli_shown(shown, sizeof shown, findings->temp_directory));
    printf("HDF5 filter:   %d\n", LMC_H5_FILTER_ID);
    printf("HDF5 plugin:   %s\n", path ? cli_shown(shown, sizeof shown, path) : findings->why_not);
    if (!findings->is_path_set)
        printf("HDF5 path:     HDF5_PLUGIN_PATH is not set");
    if (!findings->is_path_set && path) {
        const size_t length = (size_t)(lmc_last_component(path) - path) - 1;
        const size_t plain =
            strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-");
        const char *const quote = plain < length ? "'" : "";
        lmc_text_escape(shown, sizeof shown, path, length);
        printf("; HDF5 that does not look there by itself finds LMC after\n"
               "               export HDF5_PLUGIN_PATH=%s%s%s",
               quote, shown, quote);
    }
    printf("%s", findings->is_path_set ? "" : "\n");
    for (int i = 0; i < findings->entry_count; i++) {
        static const char *const lmc_texts[] = {"", ", LMC", ", LMC of another build",
                                                ", " PLUGIN_NAME " that does not work"};
        const entry *const entry = &findings->entries[i];
        const int is_alone = entry->lmc == PLUGIN_OTHER && !path; /* no other build to compare with */
        printf("HDF5 path:     %s: ", cli_shown(shown, sizeof shown, entry->directory));
        os_error_text(entry->os_errno, cause, sizeof cause);
        if (entry->os_errno != 0)
            printf("%s\n", cause);
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
        if (findings->plugin)
            (void)check_plugin(findings, findings->plugin);
        if (preload && strcmp(preload, "::") == 0)
            add_problem(findings, "HDF5_PLUGIN_PRELOAD is \"::\": HDF5 loads no plugin");
        /* as in HDF5, empty entries are none */
        int is_found = 0;
        char *state = NULL;
        char *directory = path ? strtok_r(path_text, os_list_separator, &state) : NULL;
        for (; directory && findings->entry_count < ENTRIES_MAX;
             directory = strtok_r(NULL, os_list_separator, &state)) {
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
    free(findings->plugin);
    free(findings);
    return status;
}

const cli_command cli_doctor = {"doctor", CLI_DOCTOR, "describe this installation and machine", "", about,
                                more,     run_doctor};
