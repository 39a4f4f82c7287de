/*
 * name_key.c - takes names apart and hashes what is left of them.
 */
#include "safetensors/header/name_key.h"

#include <string.h>

/* Parts that the same weights may have or lack in their names. */
static const char *const wrapper_parts[] = {
    "module",                     /* DistributedDataParallel, DataParallel, DeepSpeed */
    "_orig_mod",                  /* torch.compile() */
    "_fsdp_wrapped_module",       /* FullyShardedDataParallel */
    "_fpw_module",                /* the same, older */
    "_checkpoint_wrapped_module", /* activation checkpointing */
    "_forward_module",            /* Lightning */
    "base_model",                 /* PEFT, with "model" behind it */
    "base_layer",                 /* PEFT, in the middle */
    "model",                      /* classes with a head */
    "transformer",
    "gpt_neox", /* the same in older architectures */
    "bert",
    "roberta",        /* the same */
    "language_model", /* language and vision in one */
    "state_dict",
    "model_state_dict",
    "model_state", /* checkpoints that hold more than a model */
};

static int is_separator(char byte)
{
    return byte == '.' || byte == '/';
}

size_t st_names_shared_nbytes(const st_header *header)
{
    const st_string first = header->tensor_count == 0 ? (st_string){"", 0} : st_header_name(header, 0);
    size_t shared = first.nbytes;
    for (size_t i = 1; i < header->tensor_count; i++) {
        const st_string name = st_header_name(header, i);
        size_t same = 0;
        while (same < shared && same < name.nbytes && name.bytes[same] == first.bytes[same])
            same++;
        shared = same;
    }
    while (shared > 0 && !is_separator(first.bytes[shared - 1]))
        shared--;
    return shared;
}

uint64_t st_name_key(st_string name, size_t skipped_nbytes, int is_bare)
{
    uint64_t key = 0;
    size_t begin = skipped_nbytes;
    while (begin <= name.nbytes) {
        size_t end = begin;
        while (end < name.nbytes && !is_separator(name.bytes[end]))
            end++;
        const st_string part = {name.bytes + begin, end - begin};
        int is_wrapper = 0;
        for (size_t i = 0; is_bare && i < sizeof wrapper_parts / sizeof *wrapper_parts && !is_wrapper; i++)
            is_wrapper = st_string_equals(part, (st_string){wrapper_parts[i], strlen(wrapper_parts[i])});
        if (!is_wrapper)
            key = st_string_hash(part, key);
        begin = end + 1;
    }
    return key;
}
