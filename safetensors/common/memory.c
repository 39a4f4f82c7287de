/*
 * memory.c - arrays and buffers that grow, from an allocator.
 */
#include "safetensors/common/memory.h"

#include <string.h>

void *st_allocate(const lmc_allocator *memory, size_t nbytes)
{
    return memory->allocate(memory->user, nbytes == 0 ? 1 : nbytes);
}

void *st_allocate_array(const lmc_allocator *memory, uint64_t count, size_t nbytes)
{
    size_t total = 0;
    return __builtin_mul_overflow(count, nbytes, &total) ? NULL : st_allocate(memory, total);
}

void *st_allocate_zeroed(const lmc_allocator *memory, uint64_t count, size_t nbytes)
{
    void *const block = st_allocate_array(memory, count, nbytes);
    if (block)
        memset(block, 0, (size_t)count * nbytes);
    return block;
}

void st_release(const lmc_allocator *memory, void *block)
{
    if (block)
        memory->release(memory->user, block);
}

char *st_duplicate(const lmc_allocator *memory, const char *text)
{
    const size_t nbytes = strlen(text) + 1;
    char *const copy = st_allocate(memory, nbytes);
    return !copy ? NULL : memcpy(copy, text, nbytes);
}

unsigned char *st_buffer_grow(const lmc_allocator *memory, st_buffer *buffer, size_t nbytes)
{
    if (nbytes > buffer->capacity || !buffer->bytes) {
        st_buffer_free(memory, buffer);
        buffer->bytes = st_allocate(memory, nbytes);
        buffer->capacity = buffer->bytes ? nbytes : 0;
    }
    return buffer->bytes;
}

unsigned char *st_buffer_extend(const lmc_allocator *memory, st_buffer *buffer, size_t used, size_t nbytes)
{
    if (!buffer->bytes || nbytes > buffer->capacity - used) {
        size_t capacity = 0;
        if (__builtin_add_overflow(used, nbytes, &capacity) ||
            __builtin_add_overflow(capacity, used / 2, &capacity))
            return NULL;
        unsigned char *const larger = st_allocate(memory, capacity);
        if (!larger)
            return NULL;
        if (used > 0)
            memcpy(larger, buffer->bytes, used);
        st_buffer_free(memory, buffer);
        buffer->bytes = larger;
        buffer->capacity = capacity;
    }
    return buffer->bytes + used;
}

void st_buffer_free(const lmc_allocator *memory, st_buffer *buffer)
{
    st_release(memory, buffer->bytes);
    buffer->bytes = NULL;
    buffer->capacity = 0;
}
