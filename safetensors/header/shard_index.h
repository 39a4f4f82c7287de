/*
 * shard_index.h - the index of a model whose tensors are spread over several files (model.safetensors.index.json,
 * pytorch_model.bin.index.json): only what decides whether a directory is complete and safe to convert.
 */
#ifndef LMC_SAFETENSORS_HEADER_SHARD_INDEX_H
#define LMC_SAFETENSORS_HEADER_SHARD_INDEX_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* 1 if a file of this name is an index, variants ("model.safetensors.index.fp16.json") included. */
int st_index_is_name(const char *path);

/* Reads an index and checks that every value of its `weight_map` is the plain name of a file beside it, or
 * with `suffix` appended is one ("": only the name itself). All files of an index of .bin files may be absent: models
 * are fetched without them.
 * Errors: IO, NOMEM; HEADER: no JSON object with a weight_map of strings, a name that is a path or of a file
 * that is not there; LIMIT: more than LMC_ST_HEADER_NBYTES_MAX bytes. */
lmc_status st_index_check(const lmc_allocator *memory, const char *path, const char *suffix,
                          lmc_st_diag *diag);

#endif
