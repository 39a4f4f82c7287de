/*
 * pickle_values.c - looks at the values of a pickle's graph. Lengths were checked when the graph was made.
 */
#include "safetensors/container/pickle_graph.h"

/* A line, without its end. */
static st_string line_at(const st_pickle *pickle, size_t at)
{
    const unsigned char *const begin = pickle->bytes + at;
    const unsigned char *const end = memchr(begin, '\n', pickle->nbytes - at);
    return (st_string){(const char *)begin, end ? (size_t)(end - begin) : 0};
}

int st_value_text(const st_pickle *pickle, st_value value, st_string *text)
{
    if (st_value_kind_of(value) != ST_VALUE_TEXT)
        return 0;
    const size_t at = st_graph_place(value);
    const unsigned char *const op = pickle->bytes + at;
    switch (*op) {
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U': *text = (st_string){(const char *)op + 2, op[1]}; return 1;
    case 'X': /* BINUNICODE */
    case 'T': *text = (st_string){(const char *)op + 5, st_load_u32(op + 1)}; return 1;
    case 0x8d: *text = (st_string){(const char *)op + 9, (size_t)st_load_u64(op + 1)}; return 1;
    default: *text = line_at(pickle, at + 1); return 1;
    }
}

/* Little-endian, two's complement. */
static int64_t signed_number(const unsigned char *bytes, size_t nbytes)
{
    uint64_t number = nbytes > 0 && bytes[nbytes - 1] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = nbytes; i > 0; i--)
        number = number << 8 | bytes[i - 1];
    return (int64_t)number;
}

int st_value_int(const st_pickle *pickle, st_value value, int64_t *number)
{
    if (st_value_kind_of(value) != ST_VALUE_INT)
        return 0;
    const unsigned char *const op = pickle->bytes + st_graph_place(value);
    switch (*op) {
    case 'J': *number = signed_number(op + 1, 4); return 1;
    case 'K': *number = op[1]; return 1;
    case 'M': *number = op[1] | op[2] << 8; return 1;
    case 0x8a: /* LONG1 */
        if (op[1] > 8)
            return 0;
        *number = signed_number(op + 2, op[1]);
        return 1;
    default: return 0; /* LONG4 is for larger ones; INT is no opcode of protocol 2 but for bool */
    }
}

int st_value_global(const st_pickle *pickle, st_value value, st_string *module, st_string *name)
{
    if (st_value_kind_of(value) != ST_VALUE_GLOBAL)
        return 0;
    const uint32_t *const words = st_graph_words(pickle, st_graph_place(value));
    return st_value_text(pickle, words[0], module) && st_value_text(pickle, words[1], name);
}

int st_value_persistent(const st_pickle *pickle, st_value value, st_value *id)
{
    if (st_value_kind_of(value) != ST_VALUE_PERSISTENT)
        return 0;
    *id = *st_graph_words(pickle, st_graph_place(value));
    return 1;
}

st_tuple st_value_tuple(const st_pickle *pickle, st_value value)
{
    if (st_value_kind_of(value) != ST_VALUE_TUPLE)
        return (st_tuple){NULL, 0};
    const uint32_t *const words = st_graph_words(pickle, st_graph_place(value));
    return (st_tuple){words + 1, words[0] & ~ST_GRAPH_VISITED};
}

int st_value_object(const st_pickle *pickle, st_value value, st_object *object)
{
    if (st_value_kind_of(value) != ST_VALUE_OBJECT)
        return 0;
    const uint32_t *const words = st_graph_words(pickle, st_graph_place(value));
    *object = (st_object){words[ST_GRAPH_CALLABLE], words[ST_GRAPH_ARGS], words[ST_GRAPH_STATE]};
    return 1;
}

st_items st_value_items(const st_pickle *pickle, st_value value)
{
    const st_value_kind kind = st_value_kind_of(value);
    if (kind != ST_VALUE_LIST && kind != ST_VALUE_DICT && kind != ST_VALUE_OBJECT)
        return (st_items){0, 0};
    return (st_items){st_graph_words(pickle, st_graph_place(value))[ST_GRAPH_FIRST] & ~ST_GRAPH_VISITED, 0};
}

int st_items_next(const st_pickle *pickle, st_items *items, int *has_key, st_value *key, st_value *item)
{
    if (items->chunk == 0)
        return 0;
    const uint32_t *const chunk = st_graph_words(pickle, items->chunk);
    const uint32_t *const values = chunk + ST_GRAPH_CHUNK_COUNT;
    *has_key = chunk[ST_GRAPH_IS_PAIRS] != 0;
    if (*has_key)
        *key = values[items->at++];
    *item = values[items->at++];
    if (items->at == chunk[ST_GRAPH_COUNT])
        *items = (st_items){chunk[ST_GRAPH_NEXT], 0};
    return 1;
}

int st_value_visit(st_pickle *pickle, st_value value)
{
    if (st_value_kind_of(value) < ST_VALUE_TUPLE)
        return 0;
    uint32_t *const words = st_graph_words(pickle, st_graph_place(value));
    const int is_first = !(words[0] & ST_GRAPH_VISITED);
    words[0] |= ST_GRAPH_VISITED;
    return is_first;
}
