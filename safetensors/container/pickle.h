/*
 * pickle.h - reads a pickle as a graph of values. It makes no object, resolves no import and calls nothing: a global is
 * two texts, a call is a callable with its arguments. What it reads are the opcodes that Python's pickler and torch
 * write in protocols 2 to 5.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_PICKLE_H
#define LMC_SAFETENSORS_CONTAINER_PICKLE_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"
#include "safetensors/header/name_table.h"

/* Pickles are larger only by intent: 1,000,000 tensors take a quarter of it. */
#define ST_PICKLE_NBYTES_MAX ((size_t)64 << 20)

/* Opcodes: a tensor takes about 30. */
#define ST_PICKLE_STEP_COUNT_MAX ((uint32_t)1 << 24)

/* A value: its kind; in the bits below, where it stands in the pickle or among the words. Good while the pickle is. */
typedef uint32_t st_value;
#define ST_VALUE_PLACE_NBITS 27

typedef enum st_value_kind {
    ST_VALUE_OTHER, /* nothing that is looked at: None, bool, float, bytes */
    ST_VALUE_MARK,  /* on the stack only */
    ST_VALUE_INT,
    ST_VALUE_TEXT,
    ST_VALUE_GLOBAL,     /* module and name */
    ST_VALUE_PERSISTENT, /* something outside: its id */
    ST_VALUE_TUPLE,
    ST_VALUE_LIST, /* and sets */
    ST_VALUE_DICT,
    ST_VALUE_OBJECT /* the result of a call */
} st_value_kind;

/* A graph. All zero: none. Values are 32 bits wide, so that a graph takes about as much as its pickle. */
typedef struct st_pickle {
    const unsigned char *bytes; /* the caller's */
    size_t nbytes;
    const lmc_allocator *memory;
    st_buffer words; /* of uint32_t; pickle.c says what stands there */
    size_t word_count;
    st_value root;
} st_pickle;

/* Reads a pickle, which must outlive the graph. *is_understood becomes 0 if it is malformed, has other opcodes, or
 * exceeds a bound: 64 MiB, 2^24 opcodes, for the graph 8 times the pickle and 1 MiB.
 * Errors: NOMEM, CANCELLED. Free with st_pickle_free() in every case. */
lmc_status st_pickle_read(st_pickle *pickle, const lmc_allocator *memory, const volatile int *cancel,
                          const unsigned char *bytes, size_t nbytes, int *is_understood, lmc_st_diag *diag);
void st_pickle_free(st_pickle *pickle);

static inline st_value_kind st_value_kind_of(st_value value)
{
    return (st_value_kind)(value >> ST_VALUE_PLACE_NBITS);
}

/* A value of another kind than the one asked for gives 0, or nothing. */
int st_value_text(const st_pickle *pickle, st_value value, st_string *text);
int st_value_int(const st_pickle *pickle, st_value value,
                 int64_t *number); /* 0 also if it has more than 64 bits */
int st_value_global(const st_pickle *pickle, st_value value, st_string *module, st_string *name);
int st_value_persistent(const st_pickle *pickle, st_value value, st_value *id);

/* The items of a tuple. */
typedef struct st_tuple {
    const st_value *items;
    size_t count;
} st_tuple;
st_tuple st_value_tuple(const st_pickle *pickle, st_value value);

/* What made an object. A class that is instantiated is a callable, too. */
typedef struct st_object {
    st_value callable, args; /* args: a tuple */
    st_value state;          /* what BUILD was given; OTHER without one */
} st_object;
int st_value_object(const st_pickle *pickle, st_value value, st_object *object);

/* What a list, dict or object was filled with, one after the other. */
typedef struct st_items {
    uint32_t chunk; /* 0: the end */
    uint32_t at;
} st_items;
st_items st_value_items(const st_pickle *pickle, st_value value);

/* Returns 1 and sets *item, and *key if the item has one (*has_key). Returns 0 at the end. */
int st_items_next(const st_pickle *pickle, st_items *items, int *has_key, st_value *key, st_value *item);

/* 1 if this is called for the first time with this tuple, list, dict or object. */
int st_value_visit(st_pickle *pickle, st_value value);

#endif
