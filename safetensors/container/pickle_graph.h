/*
 * pickle_graph.h - the form of a pickle's graph: what stands at a value's place. Places among the words begin at 1.
 *
 *   INT, TEXT                 in the pickle: the opcode. For a line of text that is no opcode of its own: what is
 *                             before it, 'c' or '\n'
 *   GLOBAL                    words: module, name (TEXT)
 *   PERSISTENT                words: id
 *   TUPLE                     words: number of items, items
 *   LIST, DICT                words: first chunk, last chunk
 *   OBJECT                    words: first chunk, last chunk, callable, args, state
 *   chunk                     words: next chunk, number of values, whether they are pairs of key and value, values
 *
 * The first word of a TUPLE, LIST, DICT or OBJECT has ST_GRAPH_VISITED once it was visited.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_PICKLE_GRAPH_H
#define LMC_SAFETENSORS_CONTAINER_PICKLE_GRAPH_H

#include "safetensors/container/pickle.h"

#define ST_GRAPH_VISITED 0x80000000u
#define ST_GRAPH_PLACE_NBITS 27
#define ST_GRAPH_PLACE_MASK ((1u << ST_GRAPH_PLACE_NBITS) - 1)

enum {
    ST_GRAPH_FIRST,
    ST_GRAPH_LAST,
    ST_GRAPH_CALLABLE,
    ST_GRAPH_ARGS,
    ST_GRAPH_STATE,
    ST_GRAPH_OBJECT_COUNT
};
enum { ST_GRAPH_NEXT, ST_GRAPH_COUNT, ST_GRAPH_IS_PAIRS, ST_GRAPH_CHUNK_COUNT };

static inline st_value st_graph_value(st_value_kind kind, size_t place)
{
    return (uint32_t)kind << ST_GRAPH_PLACE_NBITS | (uint32_t)place;
}

static inline size_t st_graph_place(st_value value)
{
    return value & ST_GRAPH_PLACE_MASK;
}

static inline uint32_t *st_graph_words(const st_pickle *pickle, size_t place)
{
    return (uint32_t *)(void *)pickle->words.bytes + place;
}

#endif
