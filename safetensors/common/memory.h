/*
 * memory.h - where liblmc_st's memory comes from: the caller's allocator, or calloc(). Whatever owns
 * memory keeps a pointer to the functions it came from; they are a copy that belongs to the open file or
 * to the running call.
 */
#ifndef LMC_SAFETENSORS_COMMON_MEMORY_H
#define LMC_SAFETENSORS_COMMON_MEMORY_H

#include "common/allocator.h"

/* NULL: out of memory. nbytes 0 gives a block too. */
void *st_allocate(const lmc_allocator *memory, size_t nbytes);

/* `count` items of `nbytes` bytes. NULL also if that does not fit a size_t: the count may be one that a file states. */
void *st_allocate_array(const lmc_allocator *memory, uint64_t count, size_t nbytes);

/* The same, all of them zero. */
void *st_allocate_zeroed(const lmc_allocator *memory, uint64_t count, size_t nbytes);

/* block may be NULL. */
void st_release(const lmc_allocator *memory, void *block);

/* Room that is grown on demand and used again. All zero: none yet. */
typedef struct st_buffer {
    unsigned char *bytes;
    size_t capacity;
} st_buffer;

/* Makes it at least nbytes large; its bytes are lost. Returns them, or NULL: out of memory. */
unsigned char *st_buffer_grow(const lmc_allocator *memory, st_buffer *buffer, size_t nbytes);

/* Makes room for nbytes behind the first `used` bytes, which stay. Returns that room, or NULL: out of memory. */
unsigned char *st_buffer_extend(const lmc_allocator *memory, st_buffer *buffer, size_t used, size_t nbytes);
void st_buffer_free(const lmc_allocator *memory, st_buffer *buffer);

/* A copy of a NUL-terminated text. */
char *st_duplicate(const lmc_allocator *memory, const char *text);

#endif
