/*
 * windows_lock.c - locks. A file is locked by a byte far behind its end, since others cannot read a byte that is
 * locked. A folder cannot be locked: there are objects of the kernel for it, with names that all processes of the
 * machine see, and whoever has created one has the lock. They go when their process ends. An object for who is alone
 * excludes any other, and each of those who share one has an object of its own.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTE_OFFSET 0x7FFFFFFFFFFFFFFEULL
#define SHARED_COUNT 64 /* at most so many have a lock on a folder together */
#define TRIES 4         /* a process that looks at an object holds it for a moment */
#define NAME_LENGTH 96

typedef struct held_lock {
    struct held_lock *next;
    int fd;
    HANDLE object; /* of a folder; NULL: it is a file that is locked */
} held_lock;

static SRWLOCK held_guard = SRWLOCK_INIT;
static held_lock *held;

static OVERLAPPED lock_place(void)
{
    return (OVERLAPPED){.Offset = (DWORD)BYTE_OFFSET, .OffsetHigh = (DWORD)(BYTE_OFFSET >> 32)};
}

/* ---- folders ---- */

/* slot: -1 for who is alone. */
static void name_object(WCHAR name[NAME_LENGTH], int is_global, const os_state *state, int slot)
{
    (void)_snwprintf(name, NAME_LENGTH, L"%ls\\lmc-lock-%016llx-%016llx-%d", is_global ? L"Global" : L"Local",
                     (unsigned long long)state->device, (unsigned long long)state->inode, slot);
    name[NAME_LENGTH - 1] = 0;
}

/* 1 if the object is there. */
static int is_there(const WCHAR *name)
{
    const HANDLE found = OpenEventW(SYNCHRONIZE, FALSE, name);
    if (!found)
        return GetLastError() == ERROR_ACCESS_DENIED; /* another user's */
    CloseHandle(found);
    return 1;
}

/* Returns 0, EWOULDBLOCK if it is there, or another errno. */
static int create_object(const WCHAR *name, HANDLE *object)
{
    *object = CreateEventW(NULL, TRUE, FALSE, name);
    const DWORD error = GetLastError();
    if (*object && error != ERROR_ALREADY_EXISTS)
        return 0;
    if (*object)
        CloseHandle(*object);
    *object = NULL;
    if (error == ERROR_ALREADY_EXISTS || error == ERROR_INVALID_HANDLE)
        return EWOULDBLOCK;
    if (error == ERROR_ACCESS_DENIED)
        return is_there(name) ? EWOULDBLOCK : EACCES;
    return win_errno(error);
}

static int try_objects(const os_state *state, os_lock lock, int is_global, HANDLE *object)
{
    WCHAR name[NAME_LENGTH];
    int os_errno = EWOULDBLOCK;
    for (int slot = 0; slot < SHARED_COUNT && os_errno == EWOULDBLOCK; slot++) {
        name_object(name, is_global, state, lock == OS_LOCK_ALONE ? -1 : slot);
        os_errno = create_object(name, object);
        if (lock == OS_LOCK_ALONE)
            break;
    }
    if (os_errno != 0)
        return os_errno;
    /* whoever creates an object looks for the others only then: of two that do so at once, one sees the other */
    int is_free = 1;
    for (int slot = 0; slot < SHARED_COUNT && is_free; slot++) {
        name_object(name, is_global, state, lock == OS_LOCK_ALONE ? slot : -1);
        is_free = !is_there(name);
        if (lock == OS_LOCK_SHARED)
            break;
    }
    if (is_free)
        return 0;
    CloseHandle(*object);
    *object = NULL;
    return EWOULDBLOCK;
}

static int lock_folder(const os_state *state, os_lock lock, HANDLE *object)
{
    int os_errno = EWOULDBLOCK;
    int is_global = 1;
    for (int i = 0; i < TRIES && os_errno == EWOULDBLOCK; i++) {
        if (i > 0)
            Sleep(1);
        os_errno = try_objects(state, lock, is_global, object);
        if (os_errno == EACCES && is_global) { /* a confined process sees the objects of its session alone */
            is_global = 0;
            os_errno = EWOULDBLOCK;
        }
    }
    return os_errno;
}

/* ---- all ---- */

static int lock_file(HANDLE handle, os_lock lock)
{
    OVERLAPPED place = lock_place();
    const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (lock == OS_LOCK_ALONE ? LOCKFILE_EXCLUSIVE_LOCK : 0);
    if (LockFileEx(handle, flags, 0, 1, 0, &place))
        return 0;
    const DWORD error = GetLastError();
    return error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING ? EWOULDBLOCK : win_errno(error);
}

int os_try_lock(int fd, os_lock lock)
{
    const HANDLE handle = win_handle(fd);
    os_state state;
    int os_errno = handle == INVALID_HANDLE_VALUE ? EBADF : win_state(handle, &state);
    if (os_errno != 0)
        return os_errno;
    os_unlock(fd);
    held_lock *const made = calloc(1, sizeof *made);
    if (!made)
        return ENOMEM;
    made->fd = fd;
    os_errno = state.kind == OS_FOLDER ? lock_folder(&state, lock, &made->object) : lock_file(handle, lock);
    if (os_errno != 0) {
        free(made);
        return os_errno;
    }
    AcquireSRWLockExclusive(&held_guard);
    made->next = held;
    held = made;
    ReleaseSRWLockExclusive(&held_guard);
    return 0;
}

void os_unlock(int fd)
{
    AcquireSRWLockExclusive(&held_guard);
    held_lock **link = &held;
    while (*link && (*link)->fd != fd)
        link = &(*link)->next;
    held_lock *const found = *link;
    if (found)
        *link = found->next;
    ReleaseSRWLockExclusive(&held_guard);
    if (!found)
        return;
    if (found->object) {
        CloseHandle(found->object);
    } else {
        OVERLAPPED place = lock_place();
        (void)UnlockFileEx(win_handle(fd), 0, 1, 0, &place);
    }
    free(found);
}
