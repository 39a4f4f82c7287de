/*
 * hdf5_walk.c - commands/hdf5.h: the groups of a file and what is in them. Each object is looked at once, links to
 * other names and files are left alone, and a damaged object does not keep the others from being seen.
 */
#include "tool/child.h"
#include "tool/cli.h"
#include "tool/commands/hdf5.h"
#include "tool/commands/hdf5_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 500 /* of groups: HDF5 takes some KiB of stack for each */
#define KEY_NBYTES 16

/* Objects that were looked at, by what HDF5 tells them apart by: open addressing. */
typedef struct object_set {
    unsigned char (*keys)[KEY_NBYTES];
    unsigned char *is_used;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
} object_set;

typedef struct walk {
    const hdf5_library *hdf5;
    int pipe_fd;
    unsigned depth;
    char *name; /* of the object at hand, with all its groups */
    size_t name_nbytes;
    size_t name_capacity;
    object_set seen;
} walk;

/* ---- sending ---- */

static void send_text(const walk *walk, hdf5_kind kind, const char *text, size_t nbytes)
{
    hdf5_record record;
    memset(&record, 0, sizeof(record));
    record.kind = kind;
    do {
        record.nbytes = nbytes < HDF5_TEXT_NBYTES ? (unsigned)nbytes : HDF5_TEXT_NBYTES;
        memcpy(record.of.text, text, record.nbytes);
        cli_send(walk->pipe_fd, &record, sizeof(record));
        text += record.nbytes;
        nbytes -= record.nbytes;
    } while (nbytes > 0);
}

/* The root has none; in a forged file it may be a dataset. */
static void send_name(const walk *walk)
{
    if (walk->name_nbytes > 0)
        send_text(walk, HDF5_NAME, walk->name, walk->name_nbytes);
}

static void send_fault(const walk *walk, const char *cause)
{
    send_name(walk);
    send_text(walk, HDF5_FAULT, cause, strlen(cause));
}

/* The latest call of libhdf5 failed. */
static void send_failure(const walk *walk)
{
    char cause[400];
    hdf5_cause(walk->hdf5, cause, sizeof(cause));
    send_fault(walk, cause);
}

/* ---- objects that were seen ---- */

static size_t find_slot(const object_set *set, const unsigned char *key)
{
    uint64_t hash;
    memcpy(&hash, key, sizeof(hash));
    hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 20) & (set->capacity - 1);
    while (set->is_used[slot] && memcmp(set->keys[slot], key, KEY_NBYTES) != 0)
        slot = (slot + 1) & (set->capacity - 1);
    return slot;
}

static int grow(object_set *set)
{
    object_set larger = {.count = set->count, .capacity = set->capacity == 0 ? 256 : set->capacity * 2};
    larger.keys = malloc(larger.capacity * sizeof(*larger.keys));
    larger.is_used = calloc(larger.capacity, 1);
    if (larger.keys == NULL || larger.is_used == NULL) {
        free(larger.keys);
        free(larger.is_used);
        return 0;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->is_used[i]) {
            const size_t slot = find_slot(&larger, set->keys[i]);
            memcpy(larger.keys[slot], set->keys[i], KEY_NBYTES);
            larger.is_used[slot] = 1;
        }
    }
    free(set->keys);
    free(set->is_used);
    *set = larger;
    return 1;
}

/* Returns 1 if the object is new, 0 if it was there already, -1 if memory ran out. */
static int add_object(object_set *set, const hdf5_object_info *info)
{
    unsigned char key[KEY_NBYTES] = {0};
#if H5_VERSION_GE(1, 12, 0)
    _Static_assert(sizeof(info->token) == KEY_NBYTES, "tokens of HDF5");
    memcpy(key, &info->token, sizeof(info->token));
#else
    memcpy(key, &info->addr, sizeof(info->addr));
#endif
    if (set->count >= set->capacity / 2 && !grow(set))
        return -1;
    const size_t slot = find_slot(set, key);
    if (set->is_used[slot])
        return 0;
    memcpy(set->keys[slot], key, KEY_NBYTES);
    set->is_used[slot] = 1;
    set->count++;
    return 1;
}

/* ---- the walk ---- */

static void visit_group(walk *walk, hid_t group);

static int get_info(const hdf5_library *hdf5, hid_t object, hdf5_object_info *info)
{
#if H5_VERSION_GE(1, 12, 0)
    return hdf5->H5Oget_info3(object, info, H5O_INFO_BASIC) >= 0;
#else
    return hdf5->H5Oget_info2(object, info, H5O_INFO_BASIC) >= 0;
#endif
}

static void visit_object(walk *walk, hid_t object)
{
    hdf5_object_info info;
    cli_child_goes_on();
    if (!get_info(walk->hdf5, object, &info)) {
        send_failure(walk);
        return;
    }
    const int is_new = add_object(&walk->seen, &info);
    if (is_new < 0) {
        send_fault(walk, "out of memory");
    } else if (is_new && info.type == H5O_TYPE_GROUP) {
        visit_group(walk, object);
    } else if (is_new && info.type == H5O_TYPE_DATASET) {
        send_name(walk);
        if (!hdf5_send_dataset(walk->hdf5, object, walk->pipe_fd)) {
            char cause[400];
            hdf5_cause(walk->hdf5, cause, sizeof(cause));
            send_text(walk, HDF5_FAULT, cause, strlen(cause));
        }
    }
}

/* Adds "/LINK" to the name. Returns 0 if memory ran out. */
static int enter(walk *walk, const char *link)
{
    const size_t nbytes = strlen(link);
    if (nbytes + 1 > walk->name_capacity - walk->name_nbytes) {
        const size_t capacity = 2 * (walk->name_nbytes + nbytes) + 256;
        char *const name = realloc(walk->name, capacity);
        if (name == NULL)
            return 0;
        walk->name = name;
        walk->name_capacity = capacity;
    }
    walk->name[walk->name_nbytes] = '/';
    memcpy(walk->name + walk->name_nbytes + 1, link, nbytes);
    walk->name_nbytes += nbytes + 1;
    return 1;
}

/* H5L_iterate_t */
static herr_t visit_link(hid_t group, const char *link, const hdf5_link_info *info, void *user)
{
    walk *const walk = user;
    const size_t name_nbytes = walk->name_nbytes;
    if (info->type != H5L_TYPE_HARD)
        return 0;
    if (!enter(walk, link)) {
        send_fault(walk, "out of memory");
        return 0;
    }
    const hid_t object = walk->hdf5->H5Oopen(group, link, H5P_DEFAULT);
    if (object < 0) {
        send_failure(walk);
    } else {
        visit_object(walk, object);
        walk->hdf5->H5Oclose(object);
    }
    walk->name_nbytes = name_nbytes;
    return 0;
}

static void visit_group(walk *walk, hid_t group)
{
    if (walk->depth == DEPTH_MAX) {
        send_fault(walk, "groups are nested too deep to look into this one");
        return;
    }
    walk->depth++;
#if H5_VERSION_GE(1, 12, 0)
    const herr_t status = walk->hdf5->H5Literate2(group, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_link, walk);
#else
    const herr_t status = walk->hdf5->H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_link, walk);
#endif
    if (status < 0)
        send_failure(walk);
    walk->depth--;
}

/* ---- the file ---- */

static void send_version(const walk *walk)
{
    char text[64];
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (walk->hdf5->H5get_libversion(&major, &minor, &release) >= 0) {
        const int nbytes = snprintf(text, sizeof(text), "%u.%u.%u", major, minor, release);
        send_text(walk, HDF5_VERSION, text, (size_t)nbytes);
    }
}

int hdf5_inspect(const char *path, int pipe_fd)
{
    hdf5_library hdf5;
    char cause[400];
    walk walk = {.hdf5 = &hdf5, .pipe_fd = pipe_fd};
    cli_child_goes_on();
    /* HDF5 locks what it opens, which some file systems refuse. Who wishes it sets the variable. */
    (void)setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    if (!hdf5_load(&hdf5, cause, sizeof(cause))) {
        send_text(&walk, HDF5_UNLOADED, cause, strlen(cause));
        return CLI_SYSTEM;
    }
    send_version(&walk);
    (void)hdf5.H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* or it prints */
    const hid_t file = hdf5.H5Fopen(path, 0 /* for reading */, H5P_DEFAULT);
    const hid_t root = file < 0 ? -1 : hdf5.H5Oopen(file, "/", H5P_DEFAULT);
    if (root < 0) {
        send_failure(&walk);
        return CLI_BAD_DATA;
    }
    visit_object(&walk, root);
    send_text(&walk, HDF5_END, "", 0);
    return CLI_OK;
}
