/*
 * posix_mount.c - os/mount.h by the low-level interface of libfuse 3, which is loaded when it is needed.
 */
#include "os/posix/posix.h"

#include "os/mount.h"
#include "os/posix/posix_fuse.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_SECONDS 86400.0 /* how long the system may keep the state of a file: it never changes */
#define NAME_SECONDS 1.0      /* and which node a name has, and the state of a folder */
#define READ_NBYTES_MAX ((size_t)1 << 20)
#define READ_AHEAD_KIB "1024" /* of the system, where we may set it; it asks for 128 KiB at a time else */
#define CHECK_MS 1000         /* how often the end is looked for that no event tells */

struct os_mount {
    const os_mount_answers *answers;
    void *user;
    char *path;
    posix_mounted mounted; /* what the system says of it */
    struct fuse_session *session;
    unsigned thread_count;
    pthread_t *threads;
    int ends[2];            /* a thread that ends writes to it */
    volatile int is_ending; /* by atomic operations, as what follows */
    volatile int ended_count;
    volatile int open_count;   /* files */
    volatile uint64_t used_ns; /* when something was asked for last */
    int is_mounted;
};

/* ---- answers ---- */

/* Room for the answer to a read: of each thread that serves. */
static _Thread_local unsigned char *read_room;

static os_mount *mount_of(fuse_req_t request)
{
    os_mount *const mount = fuse.req_userdata(request);
    __atomic_store_n(&mount->used_ns, os_clock_ns(), __ATOMIC_RELAXED);
    return mount;
}

static struct stat stat_of(uint64_t node, const os_state *state)
{
    const int is_folder = state->kind == OS_FOLDER;
    return (struct stat){
        .st_ino = node,
        .st_mode = (mode_t)((is_folder ? S_IFDIR : S_IFREG) | (state->permissions & 0555)),
        .st_nlink = 1, /* of a folder: how many are in it is not known */
        .st_uid = getuid(),
        .st_gid = getgid(),
        .st_size = is_folder ? 0 : (off_t)state->nbytes,
        .st_blksize = (blksize_t)READ_NBYTES_MAX,
        .st_blocks = is_folder ? 0 : (blkcnt_t)((state->nbytes + 511) / 512),
        .st_atim = {.tv_sec = state->modified_s, .tv_nsec = state->modified_ns},
        .st_mtim = {.tv_sec = state->modified_s, .tv_nsec = state->modified_ns},
        .st_ctim = {.tv_sec = state->modified_s, .tv_nsec = state->modified_ns},
    };
}

static double state_seconds(const os_state *state)
{
    return state->kind == OS_FOLDER ? NAME_SECONDS : STATE_SECONDS;
}

static void answer_init(void *user, struct fuse_conn_info *connection)
{
    (void)user;
    connection->want &= ~(unsigned)FUSE_CAP_AUTO_INVAL_DATA; /* a file never changes */
    connection->want |= connection->capable & FUSE_CAP_PARALLEL_DIROPS;
    connection->max_readahead = UINT32_MAX; /* as far as the system goes */
    connection->max_background = 64;
    connection->congestion_threshold = 48;
}

static void answer_lookup(fuse_req_t request, fuse_ino_t folder, const char *name)
{
    const os_mount *const mount = mount_of(request);
    os_state state = {.kind = OS_FILE};
    uint64_t node = 0;
    const int os_errno = mount->answers->find(mount->user, folder, name, &node, &state);
    if (os_errno != 0) {
        (void)fuse.reply_err(request, os_errno);
        return;
    }
    const struct fuse_entry_param entry = {.ino = node,
                                           .generation = 1,
                                           .attr = stat_of(node, &state),
                                           .attr_timeout = state_seconds(&state),
                                           .entry_timeout = NAME_SECONDS};
    if (fuse.reply_entry(request, &entry) != 0) /* whoever wanted it has gone */
        mount->answers->forget(mount->user, node, 1);
}

static void answer_forget(fuse_req_t request, fuse_ino_t node, uint64_t count)
{
    const os_mount *const mount = fuse.req_userdata(request);
    mount->answers->forget(mount->user, node, count);
    fuse.reply_none(request);
}

static void answer_getattr(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *file)
{
    const os_mount *const mount = mount_of(request);
    os_state state = {.kind = OS_FILE};
    (void)file;
    const int os_errno = mount->answers->state(mount->user, node, &state);
    const struct stat answer = stat_of(node, &state);
    if (os_errno != 0)
        (void)fuse.reply_err(request, os_errno);
    else
        (void)fuse.reply_attr(request, &answer, state_seconds(&state));
}

static void answer_open(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info)
{
    os_mount *const mount = mount_of(request);
    void *file = NULL;
    const int is_to_read = (info->flags & O_ACCMODE) == O_RDONLY;
    const int os_errno = is_to_read ? mount->answers->open(mount->user, node, &file) : EROFS;
    if (os_errno != 0) {
        (void)fuse.reply_err(request, os_errno);
        return;
    }
    info->fh = (uint64_t)(uintptr_t)file;
    info->keep_cache = 1;
    __atomic_add_fetch(&mount->open_count, 1, __ATOMIC_RELAXED);
    if (fuse.reply_open(request, info) != 0) { /* whoever wanted it has gone */
        mount->answers->close(mount->user, file);
        __atomic_sub_fetch(&mount->open_count, 1, __ATOMIC_RELAXED);
    }
}

static void answer_release(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info)
{
    os_mount *const mount = mount_of(request);
    (void)node;
    mount->answers->close(mount->user, (void *)(uintptr_t)info->fh);
    __atomic_sub_fetch(&mount->open_count, 1, __ATOMIC_RELAXED);
    (void)fuse.reply_err(request, 0);
}

static void answer_read(fuse_req_t request, fuse_ino_t node, size_t nbytes, off_t offset,
                        struct fuse_file_info *info)
{
    const os_mount *const mount = mount_of(request);
    size_t done = 0;
    (void)node;
    if (!read_room)
        read_room = malloc(READ_NBYTES_MAX);
    const int os_errno =
        !read_room
            ? ENOMEM
            : mount->answers->read(mount->user, (void *)(uintptr_t)info->fh, (uint64_t)offset, read_room,
                                   nbytes < READ_NBYTES_MAX ? nbytes : READ_NBYTES_MAX, &done);
    if (os_errno != 0)
        (void)fuse.reply_err(request, os_errno);
    else
        (void)fuse.reply_buf(request, (const char *)read_room, done);
}

/* ---- folders ---- */

typedef struct listed_name {
    uint64_t node;
    os_kind kind;
    char *name;
} listed_name;

struct os_names {
    listed_name *list;
    size_t count, capacity;
};

int os_names_add(os_names *names, const char *name, uint64_t node, os_kind kind)
{
    if (names->count == names->capacity) {
        const size_t capacity = 2 * names->capacity + 16;
        listed_name *const grown = realloc(names->list, capacity * sizeof *grown);
        if (!grown)
            return ENOMEM;
        names->list = grown;
        names->capacity = capacity;
    }
    char *const copy = strdup(name);
    if (!copy)
        return ENOMEM;
    names->list[names->count++] = (listed_name){node, kind, copy};
    return 0;
}

static void free_names(os_names *names)
{
    for (size_t i = 0; names && i < names->count; i++)
        free(names->list[i].name);
    free(names ? names->list : NULL);
    free(names);
}

static void answer_opendir(fuse_req_t request, fuse_ino_t folder, struct fuse_file_info *info)
{
    const os_mount *const mount = mount_of(request);
    os_names *const names = calloc(1, sizeof *names);
    int os_errno = names ? os_names_add(names, ".", folder, OS_FOLDER) : ENOMEM;
    if (os_errno == 0)
        os_errno = os_names_add(names, "..", OS_MOUNT_ROOT, OS_FOLDER);
    if (os_errno == 0)
        os_errno = mount->answers->list(mount->user, folder, names);
    info->fh = (uint64_t)(uintptr_t)names;
    if (os_errno != 0)
        (void)fuse.reply_err(request, os_errno);
    if (os_errno != 0 || fuse.reply_open(request, info) != 0)
        free_names(names);
}

static void answer_releasedir(fuse_req_t request, fuse_ino_t folder, struct fuse_file_info *info)
{
    (void)folder;
    free_names((os_names *)(uintptr_t)info->fh);
    (void)fuse.reply_err(request, 0);
}

static void answer_readdir(fuse_req_t request, fuse_ino_t folder, size_t nbytes, off_t offset,
                           struct fuse_file_info *info)
{
    const os_names *const names = (const os_names *)(uintptr_t)info->fh;
    char *const room = malloc(nbytes + 1);
    size_t used = 0;
    (void)folder;
    (void)mount_of(request);
    for (size_t i = (size_t)offset; room && i < names->count; i++) {
        const listed_name *const listed = &names->list[i];
        const struct stat state = {.st_ino = listed->node,
                                   .st_mode = listed->kind == OS_FOLDER ? S_IFDIR : S_IFREG};
        const size_t taken =
            fuse.add_direntry(request, room + used, nbytes - used, listed->name, &state, (off_t)i + 1);
        if (taken > nbytes - used)
            break;
        used += taken;
    }
    if (room)
        (void)fuse.reply_buf(request, room, used);
    else
        (void)fuse.reply_err(request, ENOMEM);
    free(room);
}

static const struct fuse_lowlevel_ops operations = {
    .init = answer_init,
    .lookup = answer_lookup,
    .forget = answer_forget,
    .getattr = answer_getattr,
    .open = answer_open,
    .release = answer_release,
    .read = answer_read,
    .opendir = answer_opendir,
    .releasedir = answer_releasedir,
    .readdir = answer_readdir,
};

/* ---- begin and end ---- */

/* Lets the system ask for more at a time than it does by itself. Most users may not. */
static void set_read_ahead(const os_mount *mount)
{
    char path[80];
    (void)snprintf(path, sizeof path, "/sys/class/bdi/%s/read_ahead_kb", mount->mounted.device);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)os_write(fd, READ_AHEAD_KIB, strlen(READ_AHEAD_KIB));
    close(fd);
}

/* Answers the first request, by which the system and the library agree on their terms. */
static void greet(os_mount *mount)
{
    posix_fuse_buffer request = {.room = {0}};
    const int got = fuse.session_receive_buf(mount->session, &request.buffer);
    if (got > 0)
        fuse.session_process_buf(mount->session, &request.buffer);
    free(request.buffer.mem);
    if (posix_mounted_at(mount->path, &mount->mounted))
        set_read_ahead(mount);
}

/* Returns 0: out of memory, or the library refuses. */
static int make_session(os_mount *mount, const char *label, const char *type, int all_users)
{
    static const char common[] = "ro,nosuid,nodev,noatime,default_permissions";
    char *options = NULL, *source = NULL, *subtype = NULL;
    int is_done = asprintf(&source, "fsname=%s", label) > 0;
    is_done = asprintf(&subtype, "subtype=%s", type) > 0 && is_done;
    is_done = is_done && fuse.opt_add_opt(&options, common) == 0 &&
              fuse.opt_add_opt_escaped(&options, source) == 0 && fuse.opt_add_opt(&options, subtype) == 0 &&
              (!all_users || fuse.opt_add_opt(&options, "allow_other") == 0);
    if (is_done) {
        char *argv[] = {"mount", "-o", options, NULL};
        struct fuse_args arguments = FUSE_ARGS_INIT(3, argv);
        mount->session = fuse.session_new(&arguments, &operations, sizeof operations, mount);
        fuse.opt_free_args(&arguments);
    }
    free(source);
    free(subtype);
    free(options);
    return mount->session != NULL;
}

int os_mount_open(os_mount **opened, const char *path, const char *label, const char *type, int all_users,
                  const os_mount_answers *answers, void *user, char *text, size_t capacity)
{
    *opened = NULL;
    const int os_errno = posix_fuse_load(text, capacity);
    if (os_errno != 0)
        return os_errno;
    os_mount *const mount = calloc(1, sizeof *mount);
    (void)snprintf(text, capacity, "%s", mount ? "the system refuses" : strerror(ENOMEM));
    if (!mount)
        return ENOMEM;
    *mount = (os_mount){.answers = answers, .user = user, .path = realpath(path, NULL), .ends = {-1, -1}};
    if (!mount->path || pipe2(mount->ends, O_CLOEXEC) != 0) {
        (void)snprintf(text, capacity, "%s", strerror(errno));
    } else {
        posix_fuse_messages messages;
        posix_fuse_keep_messages(&messages);
        if (make_session(mount, label, type, all_users))
            mount->is_mounted = fuse.session_mount(mount->session, mount->path) == 0;
        posix_fuse_end_messages(&messages, text, capacity);
    }
    if (!mount->is_mounted) {
        os_mount_close(mount);
        return EIO;
    }
    greet(mount);
    *opened = mount;
    return 0;
}

void os_mount_close(os_mount *mount)
{
    if (!mount)
        return;
    if (mount->is_mounted)
        fuse.session_unmount(mount->session);
    if (mount->session)
        fuse.session_destroy(mount->session);
    for (size_t i = 0; i < 2; i++)
        if (mount->ends[i] >= 0)
            close(mount->ends[i]);
    free(mount->path);
    free(mount);
}

/* ---- serving ---- */

static void *serve(void *user)
{
    os_mount *const mount = user;
    posix_fuse_buffer request = {.room = {0}};
    const char end = 0;
    for (;;) {
        const int got = fuse.session_receive_buf(mount->session, &request.buffer);
        if (__atomic_load_n(&mount->is_ending, __ATOMIC_ACQUIRE) || (got <= 0 && got != -EINTR))
            break;
        if (got > 0)
            fuse.session_process_buf(mount->session, &request.buffer);
    }
    free(request.buffer.mem);
    free(read_room);
    __atomic_add_fetch(&mount->ended_count, 1, __ATOMIC_RELAXED);
    (void)os_write(mount->ends[1], &end, 1);
    return NULL;
}

static void do_nothing(int number)
{
    (void)number;
}

/* Every open file is one of this process, and one for each base. */
static void raise_limit_of_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* The signals of this process go to the thread that calls os_mount_serve(); SIGUSR1 wakes one that waits for requests.
 */
static void start_threads(os_mount *mount, unsigned thread_count)
{
    struct sigaction action = {.sa_handler = do_nothing};
    sigset_t all, before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigfillset(&all);
    sigdelset(&all, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (mount->thread_count < thread_count &&
           pthread_create(&mount->threads[mount->thread_count], NULL, serve, mount) == 0)
        mount->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void end_threads(os_mount *mount)
{
    while ((unsigned)__atomic_load_n(&mount->ended_count, __ATOMIC_RELAXED) < mount->thread_count) {
        for (unsigned i = 0; i < mount->thread_count; i++)
            pthread_kill(mount->threads[i], SIGUSR1); /* again, for one that was about to wait */
        os_sleep_ms(5);
    }
    for (unsigned i = 0; i < mount->thread_count; i++)
        pthread_join(mount->threads[i], NULL);
}

/* 1 unless something else was mounted at the same path since. */
static int is_on_top(const os_mount *mount)
{
    posix_mounted now;
    return posix_mounted_at(mount->path, &now) && strcmp(now.device, mount->mounted.device) == 0;
}

/* 1 once nobody has used it for so long, and it could be unmounted. */
static int ends_idle(const os_mount *mount, unsigned idle_s)
{
    const uint64_t used_ns = __atomic_load_n(&mount->used_ns, __ATOMIC_RELAXED);
    return idle_s > 0 && __atomic_load_n(&mount->open_count, __ATOMIC_RELAXED) == 0 &&
           os_clock_ns() - used_ns >= idle_s * (uint64_t)1000000000 && is_on_top(mount) &&
           posix_unmount(mount->path, 0) == 0;
}

/* Unmounts, also what is in use, and ends the threads: a signal wakes those that wait for requests; requests of this
 * process, to itself, fail once nobody has the device open. Its descriptor stays taken, by a pipe that nobody reads: a
 * thread that still uses it meets an error, not another file, and the library sees that nothing is mounted. */
static void end(os_mount *mount)
{
    const int device = fuse.session_fd(mount->session);
    struct pollfd connection = {.fd = device};
    const int is_gone = poll(&connection, 1, 0) == 1 && (connection.revents & POLLERR) != 0;
    if (!is_gone && is_on_top(mount))
        (void)posix_unmount(mount->path, 1);
    fuse.session_exit(mount->session);
    __atomic_store_n(&mount->is_ending, 1, __ATOMIC_RELEASE);
    close(mount->ends[0]);
    mount->ends[0] = -1;
    (void)dup3(mount->ends[1], device, O_CLOEXEC);
    end_threads(mount);
    fuse.session_unmount(mount->session);
    mount->is_mounted = 0;
}

int os_mount_serve(os_mount *mount, unsigned thread_count, unsigned idle_s, const volatile int *signal_number)
{
    mount->threads = calloc(thread_count, sizeof *mount->threads);
    if (!mount->threads)
        return ENOMEM;
    mount->used_ns = os_clock_ns();
    raise_limit_of_files();
    start_threads(mount, thread_count);
    struct pollfd ended = {.fd = mount->ends[0], .events = POLLIN};
    while (mount->thread_count > 0 && __atomic_load_n(signal_number, __ATOMIC_RELAXED) == 0 &&
           poll(&ended, 1, CHECK_MS) <= 0 && !ends_idle(mount, idle_s)) {
    }
    const int is_started = mount->thread_count > 0;
    end(mount);
    free(mount->threads);
    return is_started ? 0 : EAGAIN;
}
