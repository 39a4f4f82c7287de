/*
 * name_key.h - keys of names: what is left of a tensor's name without the parts that wrappers put into it, as a number.
 * Tensors with equal keys are likely the same tensor. A name is a list of parts with '.' or '/' between them.
 */
#ifndef LMC_SAFETENSORS_HEADER_NAME_KEY_H
#define LMC_SAFETENSORS_HEADER_NAME_KEY_H

#include "safetensors/header/header.h"

/* Bytes of the longest list of whole parts that every name begins with, separators included. The last part of a name
 * does not belong to it. */
size_t st_names_shared_nbytes(const st_header *header);

/* The key of what follows the first `skipped_nbytes` bytes of the name. is_bare: without the parts that are known to
 * come from wrappers, wherever they stand. */
uint64_t st_name_key(st_string name, size_t skipped_nbytes, int is_bare);

#endif
