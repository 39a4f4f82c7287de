/*
 * os.h - the operating system. Everything in which POSIX systems, macOS and Windows differ is behind the calls of this
 * header; os/posix/ and os/windows/ implement them, and no other file asks which system it is compiled for.
 *
 * Paths and names are UTF-8 with '/' between components; Windows takes '\' in a path, too. A descriptor is one of the C
 * library (on Windows of the one that this code is linked to). Unless it says otherwise, a call returns 0 or an error
 * number of <errno.h>, and one that returns a descriptor returns -1 with errno set. Calls that a signal interrupts go
 * on. All calls may be made by several threads at once.
 *
 * Threads, mutexes and conditions are those of <pthread.h>, which MinGW has, too.
 */
#ifndef LMC_OS_OS_H
#define LMC_OS_OS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Where there is no such error, a quota that is used up is a full disk. */
#ifndef EDQUOT
#define EDQUOT ENOSPC
#endif

/* ---- what a name or a descriptor is ---- */

typedef enum os_kind {
    OS_FILE,
    OS_FOLDER,
    OS_LINK, /* a symbolic link; on Windows also a junction */
    OS_OTHER /* a pipe, a socket, a device */
} os_kind;

/* Times are in seconds since 1970 and nanoseconds. `modified` is that of the content; `changed` moves when anything
 * about the file does, and no program can set it. */
typedef struct os_state {
    os_kind kind;
    uint64_t device, inode, nbytes, name_count; /* device 0: not known */
    int64_t modified_s, modified_ns, changed_s, changed_ns;
    unsigned permissions; /* the bits of chmod(2); on Windows 0644 or 0444, and 0755 or 0555 for a folder */
    int is_ours;          /* it belongs to this process's user */
} os_state;

/* In the place of an open folder: the name is a path, relative to the working directory or absolute. */
#define OS_HERE INT32_MIN

/* os_stat() follows links, os_lstat() does not. */
int os_stat(int folder_fd, const char *name, os_state *state);
int os_lstat(int folder_fd, const char *name, os_state *state);
int os_fstat(int fd, os_state *state);

/* 1 if they are of one file, in whatever state. */
static inline int os_is_same_file(const os_state *a, const os_state *b)
{
    return a->inode == b->inode && (a->device == b->device || a->device == 0 || b->device == 0);
}

/* 1 if the path, with links followed, is a folder, or a file. */
static inline int os_is_folder(const char *path)
{
    os_state state;
    return os_stat(OS_HERE, path, &state) == 0 && state.kind == OS_FOLDER;
}

static inline int os_is_file(const char *path)
{
    os_state state;
    return os_stat(OS_HERE, path, &state) == 0 && state.kind == OS_FILE;
}

/* ---- files ---- */

/* Opens a file, or whatever has the name, to read; a pipe without waiting for its writer. os_open_own() follows no
 * link. */
int os_open(int folder_fd, const char *name);
int os_open_own(int folder_fd, const char *name);

/* Creates a file to read and write; EEXIST: the name is taken. permissions: as far as the user's mask lets them. */
int os_create(int folder_fd, const char *name, unsigned permissions);

/* Opens a file to read and write, and creates it if it is not there. No link is followed. */
int os_open_or_create(int folder_fd, const char *name);

/* A file without a name in `directory`, which is relative to the folder. os_link_unnamed() gives it one that is not
 * taken (EEXIST). -1: the system or the file system has no such files. */
int os_create_unnamed(int folder_fd, const char *directory, unsigned permissions);
int os_link_unnamed(int fd, int folder_fd, const char *name);

/* A file of this process alone for bytes on their way, in the directory for such; gone when it is closed. */
int os_create_temporary(const char *directory);

/* The directories for temporary files, best first: what the user named, and the system's. NULL behind the last one. */
const char *os_temporary_directory(unsigned index);

/* The same file again, with a descriptor that child processes do not inherit. */
int os_duplicate(int fd);
int os_close(int fd);

/* Reads up to nbytes at `offset`, whatever the descriptor's position. Returns how many: fewer only at the end of the
 * file. -1 with errno set. */
int64_t os_read_at(int fd, uint64_t offset, void *dst, size_t nbytes);

/* Writes all bytes at `offset`; *written: how many were, also after a failure. */
int os_write_at(int fd, uint64_t offset, const void *src, size_t nbytes, size_t *written);

/* Reads what is there, at most nbytes, from the descriptor's position; 0 at the end. -1 with errno set. */
int64_t os_read(int fd, void *dst, size_t nbytes);

/* Writes some of the bytes; returns how many. -1 with errno set. */
int64_t os_write(int fd, const void *src, size_t nbytes);

/* How much a write may be given at once so that it does not block when os_wait() has said that the descriptor is
 * ready. */
size_t os_write_nbytes_max(int fd);

/* Waits until the descriptor can be read (or written), or is broken, but at most so long. Returns 1 if it is ready. */
int os_wait_to_read(int fd, unsigned milliseconds);
int os_wait_to_write(int fd, unsigned milliseconds);

/* The position of the descriptor; -1: it has none. */
int64_t os_position(int fd);
int os_rewind(int fd);

/* The next bytes [*begin, *end) at `offset` or behind it that are not in a hole of the file. Returns 0; ENXIO: all
 * behind it is a hole; ENOTSUP: the system does not tell. */
int os_find_data(int fd, uint64_t offset, uint64_t *begin, uint64_t *end);

/* Asks for disk space. Only errors that say that there is none are returned. */
int os_reserve(int fd, uint64_t offset, uint64_t nbytes);
int os_truncate(int fd, uint64_t nbytes);

/* Makes the content of a file, or the names of a folder, durable. Some file systems refuse to do so for a folder. */
int os_sync(int fd);

/* Sets what os_state.permissions holds. EPERM: the file system has none. */
int os_set_permissions(int fd, unsigned permissions);
int os_set_modified(int fd, int64_t seconds, int64_t nanoseconds);

/* ---- folders ---- */

/* Opens a folder to look names up in, also one whose names may not be listed; links are followed. */
int os_open_folder(const char *path);

/* Opens a folder by its name in an open one: no link, ".." or path. */
int os_open_own_folder(int folder_fd, const char *name);

/* The same, with all permissions for this user, as far as it may give them. */
int os_open_writable_folder(int folder_fd, const char *name);

/* Opens the folder that a relative path below an open one is in, along no link, and sets *name to the last component.
 * The path is changed for moments; no memory is needed. */
int os_open_folder_of(int root_fd, char *path, const char **name);

int os_make_folder(int folder_fd, const char *name, unsigned permissions);

/* Calls visit(user, name) for each name in the open folder but "." and "..", in no order. A result other than 0 ends
 * the list and is returned. */
int os_visit_folder(int folder_fd, int (*visit)(void *user, const char *name), void *user);

/* The same for the folder of this path. */
static inline int os_visit_path(const char *path, int (*visit)(void *user, const char *name), void *user)
{
    const int fd = os_open_folder(path);
    const int result = fd < 0 ? errno : os_visit_folder(fd, visit, user);
    if (fd >= 0)
        (void)os_close(fd);
    return result;
}

/* 0 if names in the folder (its path below an open one, or ".") may be removed by this user. */
int os_may_remove_from(int folder_fd, const char *folder);

/* ---- names ---- */

/* os_rename() replaces a file, or an empty folder by a folder; os_rename_new() replaces nothing (EEXIST); where
 * neither the system nor the file system can do that in one step, it may replace what appears meanwhile. os_exchange()
 * gives each of two names the content of the other in one step; ENOSYS, EINVAL: that cannot be done here. */
int os_rename(int folder_fd, const char *from, const char *to);
int os_rename_new(int folder_fd, const char *from, const char *to);
int os_exchange(int folder_fd, const char *one, const char *other);

/* A second name of a file; EEXIST: it is taken. */
int os_link(int from_fd, const char *from, int folder_fd, const char *name);

int os_unlink(int folder_fd, const char *name);
int os_remove_folder(int folder_fd, const char *name); /* an empty one */

/* Why the last component of the path cannot be the name of a file on this system, as the end of a sentence: "is the
 * name of a device". NULL: it can. */
const char *os_name_fault(const char *path);

/* The same for a path of components with '/' between them, relative to a folder: why one of them cannot be a name. */
const char *os_components_fault(const char *path);

/* ---- paths ---- */

/* The path without links, "." and ".."; to be freed with free(). NULL with errno set. */
char *os_real_path(const char *path);

/* The characters that separate components of a path: "/", on Windows also the backslash. */
extern const char os_separators[];

/* What separates paths in a variable such as PATH: ":", or ";". */
extern const char os_list_separator[];

/* Length of the root that the path begins with, its separator included: "/", "C:/", "//server/share/"; 0: the path is
 * relative. */
size_t os_root_nbytes(const char *path);

/* Most bytes that a name in this folder may have, and that a path may have; SIZE_MAX: not known. */
size_t os_name_nbytes_max(const char *folder);
size_t os_path_nbytes_max(void);

/* 1 if the pattern matches the path, by the rules of fnmatch(3) with FNM_PATHNAME: a wildcard does not match a '/'. */
int os_matches(const char *pattern, const char *path);

/* 1 if the file is a library by its name: "libX.so", with or without a version; "libX.dylib"; "X.dll". */
int os_is_library_name(const char *name);

/* ---- locks ---- */

typedef enum os_lock { OS_LOCK_SHARED, OS_LOCK_ALONE } os_lock;

/* Locks an open file or folder; EWOULDBLOCK: another descriptor has it. The lock ends with os_unlock(), os_close() or
 * the process. On Windows a folder is locked for this machine only. */
int os_try_lock(int fd, os_lock lock);
void os_unlock(int fd);

/* ---- time, memory, random numbers ---- */

/* A clock that nobody sets. */
uint64_t os_clock_ns(void);
void os_sleep_ms(unsigned milliseconds);

/* A number that a file's author cannot foresee, and that another process is unlikely to get; any 32 bits of it will do.
 * For private names, and the seeds of tables that untrusted names fill; not for secrets. */
uint64_t os_unforeseen_u64(void);

/* How many times what the process may still take of address space and data has room for nbytes; UINT64_MAX if neither
 * is limited. */
uint64_t os_room_for(uint64_t nbytes);

/* Takes the pages of new memory that is about to be written whole: one call takes less time than a fault for each page.
 * It does nothing for little memory, for memory whose pages are there, and on systems that cannot do it. */
void os_take_pages(void *memory, size_t nbytes);

/* The text of an error number. */
void os_error_text(int os_errno, char *text, size_t capacity);

/* ---- cores; the names begin as all do that liblmc.a defines ---- */

/* Cores that this process may run on; at least 1. */
unsigned lmc_os_core_count(void);

/* The CPU quota of this process's control groups, rounded up; 0: none. root: "" but in tests, which have a tree of
 * their own. */
unsigned lmc_os_core_quota(const char *root);

/* ---- the program ---- */

/* To be called first by main(): standard streams that are closed are opened on nothing, so that no file gets their
 * numbers; they carry bytes as they are. *argc, *argv: on Windows replaced by UTF-8. Returns 0 or an errno. */
int os_start_program(int *argc, char ***argv);

/* Signals that ask for an end (interrupt, terminate, hang-up) set *signal_number from now on, unless they are ignored;
 * a second one of a kind ends the process if `once`. Writing to a broken pipe, or beyond a limit, is an error and no
 * longer a signal. */
void os_catch_signals(volatile int *signal_number, int once);

/* The cause after a call of <stdio.h> has failed; EPIPE: nobody reads any more. */
int os_stdio_errno(void);

/* 1 if a broken pipe would have ended this process, or would end most programs of the system without a message;
 * os_end_by_broken_pipe() does so now. */
int os_broken_pipe_ends(void);
void os_end_by_broken_pipe(void);

/* Descriptors of the standard streams. */
enum { OS_STDIN, OS_STDOUT, OS_STDERR };

#define OS_SIGNAL_INTERRUPT 2
#define OS_SIGNAL_BROKEN_PIPE 13

/* 1 if the descriptor is a terminal, which then understands the usual escape sequences. */
int os_is_terminal(int fd);

/* What is written to standard output from now on is lost. */
void os_drop_output(void);

/* The path of this program; to be freed with free(). NULL: not known. */
char *os_program_path(void);

/* Runs this program with these arguments (argv[0] included, NULL behind the last) and NAME=VALUE in its environment,
 * and waits for it. Takes up to `capacity` bytes of its standard output; *exit_status: -1 after a crash. */
int os_run_program(char *const argv[], const char *name, const char *value, char *output, size_t capacity,
                   size_t *output_nbytes, int *exit_status);

/* An environment variable; NULL: not set, or empty. The text stays as long as the process. */
const char *os_environment(const char *name);

/* ---- changes of folders ---- */

/* A descriptor for os_watch_*(); -1: the system cannot tell of changes. */
int os_watch_open(void);

/* Adds a folder, without those in it; returns an id, or -1. Names that come, go or move, and files that are closed
 * after writing, are changes; not each write is one. */
int os_watch_add(int watch_fd, const char *path);
void os_watch_remove(int watch_fd, int id);

/* Waits for a change (watch_fd may be -1), but at most so long; ends at once when *signal_number is or becomes other
 * than 0. Returns 1 after a change; all of them count as seen. */
int os_watch_wait(int watch_fd, uint64_t milliseconds, const volatile int *signal_number);

/* ---- libraries; see cores for the names ---- */

/* The library or program that holds this address: *base is where it is loaded. Returns 0 if there is none. */
int lmc_os_library_find(const void *address, const void **base);

/* A handle on it for lmc_os_library_symbol(), which keeps it loaded; address NULL: of the program. Returns NULL if
 * there is none. */
void *lmc_os_library_open(const void *address);
void lmc_os_library_close(void *library);
void *lmc_os_library_symbol(void *library, const char *name);

/* The library that holds this address stays loaded as long as the process. ELF libraries do so by an option of the
 * linker, -z nodelete. */
void lmc_os_stay_loaded(const void *address);

#endif
