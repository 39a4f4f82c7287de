/*
 * seed.h - what the generators of seeds share: files below one directory, and numbers that are the same in every run.
 */
#ifndef LMC_FUZZ_SEED_H
#define LMC_FUZZ_SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *directory;
static uint64_t random_state = 88172645463325252u;

static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}

/* The one argument of a generator. */
static void take_directory(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        exit(2);
    }
    directory = argv[1];
}

static void write_seed(const char *target, const char *name, const void *data, size_t nbytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, target);
    mkdir(path, 0777);
    snprintf(path, sizeof(path), "%s/%s/%s", directory, target, name);
    FILE *const file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

#endif
