/*
 * windows_change.c - names that come, go and move, and the names in a folder. Windows 10 removes and replaces a file
 * that is open elsewhere at once, as POSIX does. A file system that cannot do so is asked for what there was before;
 * the name of a file that is open then stays until it is closed, or the file cannot be replaced.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Information that the kernel takes; <winternl.h> does not have all of them. */
enum {
    INFO_RENAME = 10,
    INFO_LINK = 11,
    INFO_DISPOSITION = 13,
    INFO_DISPOSITION_EX = 64,
    INFO_RENAME_EX = 65
};

/* Of INFO_RENAME and INFO_LINK, whose first field is a truth value, and of INFO_RENAME_EX. */
typedef struct new_name {
    union {
        BOOLEAN replaces;
        ULONG flags;
    } how;
    HANDLE root;
    ULONG nbytes;
    WCHAR text[1];
} new_name;

#define RENAME_REPLACES 0x1U
#define RENAME_AS_POSIX 0x2U
#define RENAME_READ_ONLY_TOO 0x40U

#define REMOVE 0x1U
#define REMOVE_AS_POSIX 0x2U
#define REMOVE_READ_ONLY_TOO 0x10U

#define BUSY_TRIES 40
#define BUSY_MS 25

static int set_information(HANDLE handle, void *information, size_t nbytes, int which)
{
    IO_STATUS_BLOCK result;
    return win_nt_errno(
        NtSetInformationFile(handle, &result, information, (ULONG)nbytes, (FILE_INFORMATION_CLASS)which));
}

/* 1 if the error says that the file system, or the system, does not know the request. */
static int is_unknown(int os_errno)
{
    return os_errno == ENOTSUP || os_errno == EINVAL;
}

/* Whether to try again what is EBUSY: other programs, scanners for viruses above all, have a file open for moments. */
static int is_tried_again(int os_errno, int *try_count)
{
    if (os_errno != EBUSY || ++*try_count > BUSY_TRIES)
        return 0;
    os_sleep_ms(BUSY_MS);
    return 1;
}

/* ---- removing ---- */

static int allow_writing(HANDLE handle)
{
    FILE_BASIC_INFO basic;
    HANDLE again = NULL;
    if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &basic, sizeof basic) ||
        (basic.FileAttributes & FILE_ATTRIBUTE_READONLY) == 0 ||
        win_open_again(handle, FILE_WRITE_ATTRIBUTES, FILE_OPEN_REPARSE_POINT, &again) != 0)
        return 0;
    const DWORD rest = basic.FileAttributes & ~(DWORD)FILE_ATTRIBUTE_READONLY;
    basic = (FILE_BASIC_INFO){.FileAttributes = rest != 0 ? rest : FILE_ATTRIBUTE_NORMAL};
    const int is_set = SetFileInformationByHandle(again, FileBasicInfo, &basic, sizeof basic) != 0;
    CloseHandle(again);
    return is_set;
}

static int remove_open(HANDLE handle)
{
    ULONG flags = REMOVE | REMOVE_AS_POSIX | REMOVE_READ_ONLY_TOO;
    BOOLEAN is_removed = TRUE;
    int os_errno = set_information(handle, &flags, sizeof flags, INFO_DISPOSITION_EX);
    if (is_unknown(os_errno)) {
        os_errno = set_information(handle, &is_removed, sizeof is_removed, INFO_DISPOSITION);
        if (os_errno == EACCES && allow_writing(handle))
            os_errno = set_information(handle, &is_removed, sizeof is_removed, INFO_DISPOSITION);
    }
    return os_errno;
}

/* Opens what has the name itself, to rename or remove it. Returns 0 or an errno. */
static int open_to_move(int folder_fd, const char *name, HANDLE *handle, os_state *state)
{
    const win_opening opening = {.rights = DELETE | FILE_READ_ATTRIBUTES,
                                 .disposition = FILE_OPEN,
                                 .options = FILE_OPEN_REPARSE_POINT};
    int os_errno = win_open(folder_fd, name, &opening, handle);
    if (os_errno != 0)
        return os_errno;
    os_errno = win_state(*handle, state);
    if (os_errno != 0)
        CloseHandle(*handle);
    return os_errno;
}

/* Removes a name if it is a folder, or if it is none; else `other`. */
static int remove_kind(int folder_fd, const char *name, int is_folder, int other)
{
    int os_errno = 0;
    int try_count = 0;
    do {
        HANDLE handle = NULL;
        os_state state;
        os_errno = open_to_move(folder_fd, name, &handle, &state);
        if (os_errno == 0) {
            os_errno = (state.kind == OS_FOLDER) != is_folder ? other : remove_open(handle);
            CloseHandle(handle);
        }
    } while (is_tried_again(os_errno, &try_count));
    return os_errno;
}

int os_unlink(int folder_fd, const char *name)
{
    return remove_kind(folder_fd, name, 0, EISDIR);
}

int os_remove_folder(int folder_fd, const char *name)
{
    return remove_kind(folder_fd, name, 1, ENOTDIR);
}

/* ---- renaming ---- */

/* Gives an open file another name (INFO_RENAME, INFO_RENAME_EX) or a further one (INFO_LINK). */
static int set_name(HANDLE handle, int folder_fd, const char *to, int which, ULONG flags)
{
    win_name name;
    int os_errno = win_name_set(&name, folder_fd, to, 1);
    if (os_errno != 0)
        return os_errno;
    const size_t nbytes = offsetof(new_name, text) + name.text.Length + sizeof(WCHAR);
    new_name *const wanted = calloc(1, nbytes > sizeof *wanted ? nbytes : sizeof *wanted);
    if (wanted) {
        if (which == INFO_RENAME_EX)
            wanted->how.flags = flags;
        else
            wanted->how.replaces = (flags & RENAME_REPLACES) != 0;
        wanted->root = name.root;
        wanted->nbytes = name.text.Length;
        memcpy(wanted->text, name.text.Buffer, name.text.Length);
        os_errno = set_information(handle, wanted, nbytes, which);
    } else {
        os_errno = ENOMEM;
    }
    free(wanted);
    win_name_free(&name);
    return os_errno;
}

static int move(HANDLE handle, int folder_fd, const char *to, int replaces)
{
    const ULONG flags = RENAME_AS_POSIX | (replaces ? RENAME_REPLACES | RENAME_READ_ONLY_TOO : 0);
    const int os_errno = set_name(handle, folder_fd, to, INFO_RENAME_EX, flags);
    if (!is_unknown(os_errno))
        return os_errno;
    return set_name(handle, folder_fd, to, INFO_RENAME, replaces ? RENAME_REPLACES : 0);
}

/* Whether `from` may take the place of `to`, as in POSIX. */
static int check_kinds(const os_state *from, const os_state *to)
{
    if (to->kind == OS_FOLDER)
        return from->kind == OS_FOLDER ? 0 : EISDIR;
    return from->kind == OS_FOLDER ? ENOTDIR : 0;
}

/* Why a name could not be given, though it may replace what has it. Returns an errno; EBUSY: to be tried again. */
static int refusal(const os_state *from, int folder_fd, const char *to)
{
    HANDLE old = NULL;
    os_state old_state;
    int os_errno = open_to_move(folder_fd, to, &old, &old_state);
    if (os_errno != 0)
        return os_errno == EBUSY ? EBUSY : EACCES;
    os_errno = check_kinds(from, &old_state);
    if (os_errno == 0) {
        (void)allow_writing(old);
        os_errno = EBUSY; /* it was read-only, or it is open elsewhere, or was a moment ago */
    }
    CloseHandle(old);
    return os_errno;
}

static int rename_once(int folder_fd, const char *from, const char *to)
{
    HANDLE handle = NULL;
    os_state state;
    os_state old_state;
    int os_errno = open_to_move(folder_fd, from, &handle, &state);
    if (os_errno != 0)
        return os_errno;
    const int has_old = os_lstat(folder_fd, to, &old_state) == 0 && !os_is_same_file(&state, &old_state);
    os_errno = has_old ? check_kinds(&state, &old_state) : 0;
    if (os_errno == 0 && has_old && state.kind == OS_FOLDER) {
        os_errno = os_remove_folder(folder_fd, to);
        if (os_errno == 0 || os_errno == ENOENT)
            os_errno = move(handle, folder_fd, to, 0);
    } else if (os_errno == 0) {
        os_errno = move(handle, folder_fd, to, 1);
        if (os_errno == EACCES) /* also if another program has only now given the name to something */
            os_errno = refusal(&state, folder_fd, to);
    }
    CloseHandle(handle);
    return os_errno;
}

int os_rename(int folder_fd, const char *from, const char *to)
{
    int os_errno = 0;
    int try_count = 0;
    do {
        os_errno = rename_once(folder_fd, from, to);
    } while (is_tried_again(os_errno, &try_count));
    return os_errno;
}

static int rename_new_once(int folder_fd, const char *from, const char *to)
{
    HANDLE handle = NULL;
    os_state state;
    int os_errno = open_to_move(folder_fd, from, &handle, &state);
    if (os_errno != 0)
        return os_errno;
    os_errno = move(handle, folder_fd, to, 0);
    CloseHandle(handle);
    return os_errno;
}

int os_rename_new(int folder_fd, const char *from, const char *to)
{
    int os_errno = 0;
    int try_count = 0;
    do {
        os_errno = rename_new_once(folder_fd, from, to);
    } while (is_tried_again(os_errno, &try_count));
    return os_errno;
}

int os_exchange(int folder_fd, const char *one, const char *other)
{
    (void)folder_fd;
    (void)one;
    (void)other;
    return ENOSYS;
}

int os_link(int from_fd, const char *from, int folder_fd, const char *name)
{
    const win_opening opening = {.rights = FILE_WRITE_ATTRIBUTES | FILE_READ_ATTRIBUTES,
                                 .disposition = FILE_OPEN,
                                 .options = FILE_OPEN_REPARSE_POINT};
    HANDLE handle = NULL;
    os_state state;
    int os_errno = win_open(from_fd, from, &opening, &handle);
    if (os_errno != 0)
        return os_errno;
    os_errno = win_state(handle, &state);
    if (os_errno == 0)
        os_errno = state.kind == OS_FOLDER ? EPERM : set_name(handle, folder_fd, name, INFO_LINK, 0);
    CloseHandle(handle);
    return os_errno;
}

/* ---- folders ---- */

int os_make_folder(int folder_fd, const char *name, unsigned permissions)
{
    const win_opening opening = {
        .rights = FILE_READ_ATTRIBUTES, .disposition = FILE_CREATE, .options = FILE_DIRECTORY_FILE};
    HANDLE handle = NULL;
    const int os_errno = win_open(folder_fd, name, &opening, &handle);
    (void)permissions; /* a folder has those of the one that it is in */
    if (os_errno == 0)
        CloseHandle(handle);
    return os_errno;
}

#define LIST_NBYTES ((size_t)16 << 10)

/* Calls visit() for the names in a piece of the list. */
static int visit_names(const unsigned char *at, int (*visit)(void *user, const char *name), void *user)
{
    int result = 0;
    for (ULONG next = 1; next != 0 && result == 0; at += next) {
        const FILE_FULL_DIR_INFO *const entry = (const void *)at;
        const size_t length = entry->FileNameLength / sizeof(WCHAR);
        WCHAR wide[256];
        next = entry->NextEntryOffset;
        if (length >= sizeof wide / sizeof wide[0])
            return ENAMETOOLONG;
        memcpy(wide, entry->FileName, length * sizeof wide[0]);
        wide[length] = 0;
        if (wcscmp(wide, L".") == 0 || wcscmp(wide, L"..") == 0)
            continue;
        char *const name = win_utf8(wide);
        result = name ? visit(user, name) : errno;
        free(name);
    }
    return result;
}

int os_visit_folder(int folder_fd, int (*visit)(void *user, const char *name), void *user)
{
    const HANDLE folder = win_handle(folder_fd);
    HANDLE own = NULL;
    if (folder == INVALID_HANDLE_VALUE)
        return EBADF;
    int result = win_open_again(folder, FILE_LIST_DIRECTORY, FILE_DIRECTORY_FILE, &own);
    if (result != 0)
        return result;
    unsigned char *const list = malloc(LIST_NBYTES);
    result = list ? 0 : ENOMEM;
    while (result == 0 && GetFileInformationByHandleEx(own, FileFullDirectoryInfo, list, LIST_NBYTES))
        result = visit_names(list, visit, user);
    if (result == 0 && GetLastError() != ERROR_NO_MORE_FILES && GetLastError() != ERROR_FILE_NOT_FOUND)
        result = win_last_errno();
    free(list);
    CloseHandle(own);
    return result;
}
