/*
 * watch_snapshot.c - watch_snapshot.h. Links to files are followed, as lmc_run_add() does; links to directories are
 * not.
 */
#include "tool/commands/watch_snapshot.h"

#include "tool/tool_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pause that doubles must not be 0. */
#define PAUSE_MS_MIN 100

int watch_is_temporary(const char *name)
{
    static const char suffix[] = ".tmp";
    const size_t length = strlen(name);
    return name[0] == '.' || strncmp(name, "tmp", 3) == 0 ||
           (length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0);
}

void watch_see(watch_entry *entry, uint64_t print, uint64_t now_ms)
{
    if (entry->state != WATCH_NEW && entry->print == print)
        return;
    entry->state = WATCH_CHANGING;
    entry->print = print;
    entry->changed_ms = now_ms;
    entry->pause_ms = 0;
    entry->is_told = 0;
}

static uint64_t add_ms(uint64_t begin_ms, uint64_t length_ms)
{
    return length_ms < WATCH_NEVER - begin_ms ? begin_ms + length_ms : WATCH_NEVER;
}

uint64_t watch_due_ms(const watch_entry *entry, uint64_t settle_ms)
{
    if (entry->state == WATCH_CHANGING)
        return add_ms(entry->changed_ms, settle_ms);
    return entry->state == WATCH_FAILED ? entry->retry_ms : WATCH_NEVER;
}

void watch_finish(watch_entry *entry, uint64_t own_print)
{
    entry->state = WATCH_DONE;
    entry->own_print = own_print;
    entry->pause_ms = 0;
    entry->is_told = 0;
}

int watch_fail(watch_entry *entry, lmc_status status, int os_errno, int is_system, uint64_t settle_ms,
               uint64_t now_ms)
{
    const int is_news = !entry->is_told || entry->told_status != status || entry->told_errno != os_errno;
    uint64_t pause_ms = entry->pause_ms > 0 ? 2 * entry->pause_ms : settle_ms;
    pause_ms = pause_ms < PAUSE_MS_MIN ? PAUSE_MS_MIN : pause_ms;
    pause_ms = pause_ms > WATCH_PAUSE_MS_MAX ? WATCH_PAUSE_MS_MAX : pause_ms;
    entry->state = WATCH_FAILED;
    entry->pause_ms = pause_ms;
    entry->retry_ms = is_system ? add_ms(now_ms, pause_ms) : WATCH_NEVER;
    entry->is_told = 1;
    entry->told_status = status;
    entry->told_errno = os_errno;
    return is_news;
}

int watch_compare_steps(const void *left, const void *right)
{
    const watch_entry *const a = *(watch_entry *const *)left;
    const watch_entry *const b = *(watch_entry *const *)right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return strcmp(a->name, b->name);
}

int watch_is_kept(uint64_t step, uint64_t newer_count, uint64_t last, uint64_t every)
{
    if ((last == 0 && every == 0) || newer_count == 0)
        return 1;
    return newer_count < last || (every > 0 && step % every == 0);
}

/* ---- a walk through a snapshot ---- */

#define DEPTH_MAX 64
#define HEAD_NBYTES 16

/* visit() gets each name below a path and the path itself, whose `name` is "". found: of a link to a file, the file's;
 * NULL with an errno if it could not be looked at, or, after its state, if a folder could not be listed. A result below
 * 0 ends the walk; no errno is. */
typedef struct walk {
    int (*visit)(struct walk *walk, const char *path, const char *name, const os_state *found, int os_errno);
    void *user;
} walk;

static int walk_path(walk *walk, const char *path, const char *name, unsigned depth);

/* A folder that is being walked through. */
typedef struct step {
    walk *walk;
    const char *path, *name;
    unsigned depth;
} step;

static int walk_name(void *user, const char *name)
{
    const step *const step = user;
    char *const next_path = lmc_path_join(&lmc_memory_default, step->path, name, "");
    char *const next_name = lmc_path_join(&lmc_memory_default, step->name, name, "");
    const int result =
        next_path && next_name ? walk_path(step->walk, next_path, next_name, step->depth + 1) : ENOMEM;
    free(next_path);
    free(next_name);
    return result;
}

static int walk_path(walk *walk, const char *path, const char *name, unsigned depth)
{
    os_state found, target;
    step step = {walk, path, name, depth};
    const int os_errno = os_lstat(OS_HERE, path, &found);
    if (os_errno != 0)
        return walk->visit(walk, path, name, NULL, os_errno);
    if (found.kind == OS_LINK && os_stat(OS_HERE, path, &target) == 0 && target.kind == OS_FILE)
        found = target;
    const int result = walk->visit(walk, path, name, &found, 0);
    if (result != 0 || found.kind != OS_FOLDER)
        return result;
    const int fd = depth < DEPTH_MAX ? os_open_folder(path) : -1;
    if (fd < 0)
        return walk->visit(walk, path, name, NULL, depth < DEPTH_MAX ? errno : ELOOP);
    const int visited = os_visit_folder(fd, walk_name, &step);
    (void)os_close(fd);
    return visited > 0 ? walk->visit(walk, path, name, NULL, visited) : visited;
}

/* ---- the print ---- */

/* FNV-1a, then a finalizer that spreads each bit: prints of files are added. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t nbytes)
{
    const unsigned char *const at = bytes;
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t spread(uint64_t hash)
{
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
    return hash ^ (hash >> 33);
}

uint64_t watch_own_print(const os_state *found)
{
    const uint64_t numbers[] = {found->device,
                                found->inode,
                                found->kind == OS_FOLDER,
                                found->nbytes,
                                (uint64_t)found->modified_s,
                                (uint64_t)found->modified_ns};
    return spread(hash_bytes(0xcbf29ce484222325u, numbers, sizeof numbers));
}

typedef struct print_walk {
    walk walk;
    const os_state *run;
    uint64_t print;
} print_walk;

/* The order of names in a folder does not matter: what is added has none. */
static int add_print(walk *walk, const char *path, const char *name, const os_state *found, int os_errno)
{
    print_walk *const own = walk->user;
    (void)path;
    if (os_errno == ENOENT)
        return name[0] == '\0' ? -ENOENT : 0;
    if (found && own->run && os_is_same_file(found, own->run))
        return -EXDEV;
    const uint64_t state = found ? watch_own_print(found) : (uint64_t)os_errno;
    own->print += spread(hash_bytes(state, name, strlen(name)));
    return 0;
}

int watch_print(const char *path, const os_state *run, uint64_t *print)
{
    print_walk own = {.walk = {.visit = add_print}, .run = run};
    own.walk.user = &own;
    const int result = walk_path(&own.walk, path, "", 0);
    *print = own.print;
    return -result;
}

/* ---- completeness ---- */

typedef struct check_walk {
    walk walk;
    const cli_args *args;
    uint64_t container_count;
    lmc_st_diag *diag;
} check_walk;

static int ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name);
    const size_t suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

/* 1 if a file that cannot be opened as a container begins as one, or is named as one and has no byte yet. Such a file
 * would be copied into the run: it must be waited for. */
static int is_begun_container(const char *path)
{
    static const char *const suffixes[] = {".pt",  ".pth", ".bin",  ".ckpt",
                                           ".npz", ".npy", ".gguf", ".distcp"};
    unsigned char head[HEAD_NBYTES] = {0};
    if (ends_with(path, ".safetensors"))
        return 1;
    const int fd = os_open(OS_HERE, path);
    const int64_t got = fd < 0 ? 0 : os_read_at(fd, 0, head, sizeof head);
    const size_t nbytes = got > 0 ? (size_t)got : 0;
    if (fd >= 0)
        (void)os_close(fd);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0] && nbytes == 0; i++)
        if (ends_with(path, suffixes[i]))
            return 1;
    const int is_safetensors = nbytes > 8 && memcmp(head + 4, "\0\0\0\0{", 5) == 0;
    return is_safetensors ||
           (nbytes >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "GGUF", 4) == 0)) ||
           (nbytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0);
}

static int check_file(walk *walk, const char *path, const char *name, const os_state *found, int os_errno)
{
    check_walk *const own = walk->user;
    lmc_st_file *file = NULL;
    if (os_errno != 0) {
        cli_set_os_diag(own->diag, path, os_errno, "cannot read");
        return -1;
    }
    int is_passed_over = found->kind != OS_FILE;
    for (size_t i = 0; i < own->args->exclude_count && name[0] != '\0'; i++)
        is_passed_over |= os_matches(own->args->excludes[i], name) ||
                          os_matches(own->args->excludes[i], lmc_last_component(name));
    if (is_passed_over)
        return 0;
    const lmc_status status = lmc_st_open(path, NULL, &file, own->diag);
    own->container_count += status == LMC_OK && !lmc_st_is_archive(file);
    lmc_st_close(file);
    if (status != LMC_OK && (cli_exit_status(status) == CLI_SYSTEM || is_begun_container(path)))
        return -1;
    *own->diag = (lmc_st_diag)LMC_INIT(lmc_st_diag); /* it would be copied */
    return 0;
}

lmc_status watch_check(const char *path, const cli_args *args, uint64_t *container_count, lmc_st_diag *diag)
{
    check_walk own = {.walk = {.visit = check_file}, .args = args, .diag = diag};
    own.walk.user = &own;
    const int result = walk_path(&own.walk, path, "", 0);
    *container_count = own.container_count;
    return result == 0 ? LMC_OK : diag->status;
}
