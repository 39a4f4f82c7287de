/*
 * windows_state.c - what a name or a descriptor is, to whom it belongs, and when it was changed.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>

/* 1601 to 1970 in units of 100 ns, which Windows counts. */
#define EPOCH 116444736000000000LL
#define UNITS_PER_SECOND 10000000LL

#define READ_ONLY_FILE 0444
#define WRITABLE_FILE 0644
#define READ_ONLY_FOLDER 0555
#define WRITABLE_FOLDER 0755

static void set_time(int64_t units, int64_t *seconds, int64_t *ns)
{
    const int64_t since = units - EPOCH;
    *seconds = since / UNITS_PER_SECOND;
    *ns = since % UNITS_PER_SECOND * 100;
    if (*ns < 0) {
        *seconds -= 1;
        *ns += 1000000000;
    }
}

/* ---- owners ---- */

/* The user of this process, and who owns what it creates: for an administrator that may be their group. */
typedef struct identity {
    union {
        TOKEN_USER user;
        unsigned char bytes[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } user;
    union {
        TOKEN_OWNER owner;
        unsigned char bytes[sizeof(TOKEN_OWNER) + SECURITY_MAX_SID_SIZE];
    } owner;
    int is_known;
} identity;

static identity process_identity;
static INIT_ONCE identity_once = INIT_ONCE_STATIC_INIT;

static BOOL CALLBACK find_identity(INIT_ONCE *once, void *parameter, void **context)
{
    identity *const own = &process_identity;
    HANDLE token = NULL;
    DWORD nbytes = 0;
    (void)once;
    (void)parameter;
    (void)context;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return TRUE;
    own->is_known = GetTokenInformation(token, TokenUser, &own->user, sizeof own->user, &nbytes) &&
                    GetTokenInformation(token, TokenOwner, &own->owner, sizeof own->owner, &nbytes);
    CloseHandle(token);
    return TRUE;
}

/* 1 if it belongs to this process's user, or if nobody tells. */
static int is_ours(HANDLE handle)
{
    union {
        SECURITY_DESCRIPTOR_RELATIVE head;
        unsigned char bytes[sizeof(SECURITY_DESCRIPTOR_RELATIVE) + SECURITY_MAX_SID_SIZE + 64];
    } security;
    DWORD nbytes = 0;
    PSID owner = NULL;
    BOOL is_default = FALSE;
    (void)InitOnceExecuteOnce(&identity_once, find_identity, NULL, NULL);
    if (!process_identity.is_known ||
        !GetKernelObjectSecurity(handle, OWNER_SECURITY_INFORMATION, &security, sizeof security, &nbytes) ||
        !GetSecurityDescriptorOwner(&security, &owner, &is_default) || !owner)
        return 1;
    return EqualSid(owner, process_identity.user.user.User.Sid) ||
           EqualSid(owner, process_identity.owner.owner.Owner);
}

/* ---- states ---- */

int win_state(HANDLE handle, os_state *state)
{
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO basic;
    FILE_ID_INFO id;
    *state = (os_state){.kind = OS_OTHER, .device = UINT64_MAX, .inode = (uintptr_t)handle, .is_ours = 1};
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(handle,
                                    &info)) /* Wine knows nothing of a redirected file: it is a stream */
        return GetLastError() == ERROR_INVALID_HANDLE ? 0 : win_last_errno();
    const int is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const int is_read_only = (info.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0;
    state->kind = is_folder ? OS_FOLDER : OS_FILE;
    if ((info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 && win_is_link(handle))
        state->kind = OS_LINK;
    if (is_folder)
        state->permissions = is_read_only ? READ_ONLY_FOLDER : WRITABLE_FOLDER;
    else
        state->permissions = is_read_only ? READ_ONLY_FILE : WRITABLE_FILE;
    state->nbytes = is_folder ? 0 : ((uint64_t)info.nFileSizeHigh << 32) | info.nFileSizeLow;
    state->name_count = info.nNumberOfLinks;
    state->device = info.dwVolumeSerialNumber;
    state->inode = ((uint64_t)info.nFileIndexHigh << 32) | info.nFileIndexLow;
    if (GetFileInformationByHandleEx(handle, FileIdInfo, &id, sizeof id)) {
        /* 128 bits, of which ReFS alone uses more than 64 */
        uint64_t low = 0;
        uint64_t high = 0;
        for (int i = 7; i >= 0; i--) {
            low = low << 8 | id.FileId.Identifier[i];
            high = high << 8 | id.FileId.Identifier[8 + i];
        }
        if ((low | high) != 0) /* some servers do not tell */
            state->inode = low ^ (high * 0x9E3779B97F4A7C15U);
    }
    if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &basic, sizeof basic))
        return win_last_errno();
    set_time(basic.LastWriteTime.QuadPart, &state->modified_s, &state->modified_ns);
    set_time(basic.ChangeTime.QuadPart, &state->changed_s, &state->changed_ns);
    state->is_ours = is_ours(handle);
    return 0;
}

static int state_of_name(int folder_fd, const char *name, ULONG options, os_state *state)
{
    win_opening opening = {
        .rights = FILE_READ_ATTRIBUTES | READ_CONTROL, .disposition = FILE_OPEN, .options = options};
    HANDLE handle = NULL;
    int os_errno = win_open(folder_fd, name, &opening, &handle);
    if (os_errno == EACCES) { /* perhaps the owner alone must not be asked for */
        opening.rights = FILE_READ_ATTRIBUTES;
        os_errno = win_open(folder_fd, name, &opening, &handle);
    }
    if (os_errno != 0)
        return os_errno;
    os_errno = win_state(handle, state);
    CloseHandle(handle);
    return os_errno;
}

int os_stat(int folder_fd, const char *name, os_state *state)
{
    return state_of_name(folder_fd, name, 0, state);
}

int os_lstat(int folder_fd, const char *name, os_state *state)
{
    return state_of_name(folder_fd, name, FILE_OPEN_REPARSE_POINT, state);
}

int os_fstat(int fd, os_state *state)
{
    const HANDLE handle = win_handle(fd);
    return handle == INVALID_HANDLE_VALUE ? EBADF : win_state(handle, state);
}

/* ---- changes ---- */

/* Sets times and attributes; 0 in a field leaves it. The descriptor itself may not have the right. */
static int set_basic(HANDLE handle, FILE_BASIC_INFO *basic)
{
    HANDLE again = NULL;
    if (SetFileInformationByHandle(handle, FileBasicInfo, basic, sizeof *basic))
        return 0;
    int os_errno = win_last_errno();
    if (os_errno != EACCES)
        return os_errno;
    os_errno = win_open_again(handle, FILE_WRITE_ATTRIBUTES, 0, &again);
    if (os_errno != 0)
        return os_errno;
    if (!SetFileInformationByHandle(again, FileBasicInfo, basic, sizeof *basic))
        os_errno = win_last_errno();
    CloseHandle(again);
    return os_errno;
}

int os_set_permissions(int fd, unsigned permissions)
{
    const HANDLE handle = win_handle(fd);
    FILE_BASIC_INFO basic;
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &basic, sizeof basic))
        return win_last_errno();
    const DWORD old = basic.FileAttributes;
    if ((old & FILE_ATTRIBUTE_DIRECTORY) != 0)
        return 0; /* for a folder the attribute says something else */
    DWORD wanted = old & ~(DWORD)FILE_ATTRIBUTE_READONLY;
    wanted |= (permissions & 0222) == 0 ? FILE_ATTRIBUTE_READONLY : 0;
    if (wanted == old)
        return 0;
    basic = (FILE_BASIC_INFO){.FileAttributes = wanted != 0 ? wanted : FILE_ATTRIBUTE_NORMAL};
    return set_basic(handle, &basic);
}

int os_set_modified(int fd, int64_t seconds, int64_t nanoseconds)
{
    const HANDLE handle = win_handle(fd);
    FILE_BASIC_INFO basic = {.FileAttributes = 0};
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    if (seconds > (INT64_MAX - EPOCH) / UNITS_PER_SECOND - 1 || seconds < -EPOCH / UNITS_PER_SECOND)
        return EINVAL;
    basic.LastWriteTime.QuadPart = seconds * UNITS_PER_SECOND + nanoseconds / 100 + EPOCH;
    return set_basic(handle, &basic);
}

int os_may_remove_from(int folder_fd, const char *folder)
{
    const win_opening opening = {
        .rights = FILE_ADD_FILE | FILE_TRAVERSE, .disposition = FILE_OPEN, .options = FILE_DIRECTORY_FILE};
    HANDLE handle = NULL;
    const int os_errno = win_open(folder_fd, folder, &opening, &handle);
    if (os_errno == 0)
        CloseHandle(handle);
    return os_errno;
}
