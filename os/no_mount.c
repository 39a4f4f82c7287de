/*
 * no_mount.c - os/mount.h on systems other than Linux, and where there is no libfuse 3 to build with.
 */
#include "os/mount.h"

#include <stdio.h>

int os_names_add(os_names *names, const char *name, uint64_t node, os_kind kind)
{
    (void)names;
    (void)name;
    (void)node;
    (void)kind;
    return ENOSYS;
}

int os_mount_open(os_mount **mount, const char *path, const char *label, const char *type, int all_users,
                  const os_mount_answers *answers, void *user, char *text, size_t capacity)
{
    (void)path;
    (void)label;
    (void)type;
    (void)all_users;
    (void)answers;
    (void)user;
    *mount = NULL;
    (void)snprintf(text, capacity, OS_MOUNT_MISSING);
    return ENOSYS;
}

int os_mount_serve(os_mount *mount, unsigned thread_count, unsigned idle_s, const volatile int *signal_number)
{
    (void)mount;
    (void)thread_count;
    (void)idle_s;
    (void)signal_number;
    return ENOSYS;
}

void os_mount_close(os_mount *mount)
{
    (void)mount;
}

int os_unmount(const char *path, const char *type)
{
    (void)path;
    (void)type;
    return ENOSYS;
}

int os_leads_into(const char *path, const char *folder)
{
    (void)path;
    (void)folder;
    return 0;
}

int os_begin_background(void)
{
    return 0; /* nothing is to come but os_mount_open() */
}

void os_end_start(int exit_status)
{
    (void)exit_status;
}

void os_log(const char *program, const char *text)
{
    (void)program;
    (void)text;
}
