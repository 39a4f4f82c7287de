/*
 * names.h - the names of safetensors files and of their archives.
 */
#ifndef LMC_SAFETENSORS_COMMON_NAMES_H
#define LMC_SAFETENSORS_COMMON_NAMES_H

/* What an archive's name adds to that of its original. */
#define ST_ARCHIVE_SUFFIX ".lmc"

/* 1 for "NAME.safetensors", and for "NAME.safetensors.lmc": NAME is not empty. */
int st_is_plain_name(const char *path);
int st_is_archive_name(const char *path);

#endif
