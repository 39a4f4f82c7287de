/*
 * pickle.c - reads a pickle's opcodes and makes the graph of its values; and looks at these. Lengths were checked
 * when the graph was made.
 */
#include "safetensors/container/pickle.h"

/* ---- the form of the graph ---- */

/* What stands at a value's place. Places among the words begin at 1.
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
 * The first word of a TUPLE, LIST, DICT or OBJECT has ST_GRAPH_VISITED once it was visited. */

#define ST_GRAPH_VISITED 0x80000000u
#define ST_GRAPH_PLACE_MASK ((1u << ST_VALUE_PLACE_NBITS) - 1)

enum {
    ST_GRAPH_FIRST,
    ST_GRAPH_LAST,
    ST_GRAPH_CALLABLE,
    ST_GRAPH_ARGS,
    ST_GRAPH_STATE,
    ST_GRAPH_OBJECT_COUNT
};
enum { ST_GRAPH_NEXT, ST_GRAPH_COUNT, ST_GRAPH_IS_PAIRS, ST_GRAPH_CHUNK_COUNT };

static st_value st_graph_value(st_value_kind kind, size_t place)
{
    return (uint32_t)kind << ST_VALUE_PLACE_NBITS | (uint32_t)place;
}

static size_t st_graph_place(st_value value)
{
    return value & ST_GRAPH_PLACE_MASK;
}

static uint32_t *st_graph_words(const st_pickle *pickle, size_t place)
{
    return (uint32_t *)(void *)pickle->words.bytes + place;
}

/* ---- reading ---- */

/* Room at first. */
#define FIRST_WORDS_NBYTES ((size_t)1 << 12)

/* For the graph of a short pickle. */
#define WORDS_NBYTES_MIN ((size_t)1 << 20)

#define CANCEL_STEP_COUNT 0x10000u

#define OP_PROTO 0x80
#define OP_NEWOBJ 0x81
#define OP_TUPLE1 0x85
#define OP_TUPLE3 0x87
#define OP_EMPTY_SET 0x8f
#define OP_ADDITEMS 0x90
#define OP_FROZENSET 0x91
#define OP_NEWOBJ_EX 0x92
#define OP_STACK_GLOBAL 0x93
#define OP_MEMOIZE 0x94
#define OP_FRAME 0x95

/* All empty tuples are this one, the first word. */
#define EMPTY_TUPLE_PLACE 1

#define PROTOCOL_MIN 2
#define PROTOCOL_MAX 5

typedef struct pickle_reader {
    st_pickle *pickle;
    st_buffer stack, memo; /* of st_value */
    size_t stack_count, memo_count;
    size_t at;
    int is_out_of_memory;
} pickle_reader;

/* A value that stands in the pickle as it is. */
typedef struct literal {
    unsigned char is_known;
    unsigned char kind;
    unsigned char fixed_nbytes;
    unsigned char length_nbytes; /* of the number that says how many bytes follow it */
    unsigned char is_line;
} literal;

/* clang-format off */
static const literal literals[256] = {
    ['N'] = {1, ST_VALUE_OTHER, 0, 0, 0}, [0x88] = {1, ST_VALUE_OTHER, 0, 0, 0}, /* NONE, NEWTRUE */
    [0x89] = {1, ST_VALUE_OTHER, 0, 0, 0},                                       /* NEWFALSE */
    ['J'] = {1, ST_VALUE_INT, 4, 0, 0}, ['K'] = {1, ST_VALUE_INT, 1, 0, 0},      /* BININT, BININT1 */
    ['M'] = {1, ST_VALUE_INT, 2, 0, 0}, [0x8a] = {1, ST_VALUE_INT, 0, 1, 0},     /* BININT2, LONG1 */
    [0x8b] = {1, ST_VALUE_INT, 0, 4, 0}, ['G'] = {1, ST_VALUE_OTHER, 8, 0, 0},   /* LONG4, BINFLOAT */
    ['I'] = {1, ST_VALUE_OTHER, 0, 0, 1}, ['F'] = {1, ST_VALUE_OTHER, 0, 0, 1},  /* INT, FLOAT */
    ['P'] = {1, ST_VALUE_OTHER, 0, 0, 1}, ['X'] = {1, ST_VALUE_TEXT, 0, 4, 0},   /* PERSID, BINUNICODE */
    [0x8c] = {1, ST_VALUE_TEXT, 0, 1, 0}, [0x8d] = {1, ST_VALUE_TEXT, 0, 8, 0},  /* SHORT_BINUNICODE, BINUNICODE8 */
    ['U'] = {1, ST_VALUE_TEXT, 0, 1, 0}, ['T'] = {1, ST_VALUE_TEXT, 0, 4, 0},    /* SHORT_BINSTRING, BINSTRING */
    ['C'] = {1, ST_VALUE_OTHER, 0, 1, 0}, ['B'] = {1, ST_VALUE_OTHER, 0, 4, 0},  /* SHORT_BINBYTES, BINBYTES */
    [0x8e] = {1, ST_VALUE_OTHER, 0, 8, 0}, [0x96] = {1, ST_VALUE_OTHER, 0, 8, 0} /* BINBYTES8, BYTEARRAY8 */
};
/* clang-format on */

/* Functions return 1, or 0: the pickle is not understood, or memory is short (is_out_of_memory). */

static int out_of_memory(pickle_reader *reader)
{
    reader->is_out_of_memory = 1;
    return 0;
}

static st_value *stack_of(const pickle_reader *reader)
{
    return (st_value *)(void *)reader->stack.bytes;
}

/* ---- what the pickle says ---- */

/* nbytes of the pickle; NULL: it ends before. */
static const unsigned char *take(pickle_reader *reader, uint64_t nbytes)
{
    const unsigned char *const bytes = reader->pickle->bytes + reader->at;
    if (nbytes > reader->pickle->nbytes - reader->at)
        return NULL;
    reader->at += (size_t)nbytes;
    return bytes;
}

static int take_number(pickle_reader *reader, size_t nbytes, uint64_t *number)
{
    const unsigned char *const bytes = take(reader, nbytes);
    *number = bytes ? lmc_load_n(bytes, nbytes) : 0;
    return bytes != NULL;
}

static int take_line(pickle_reader *reader)
{
    const unsigned char *const begin = reader->pickle->bytes + reader->at;
    const unsigned char *const end = memchr(begin, '\n', reader->pickle->nbytes - reader->at);
    return end && take(reader, (uint64_t)(end - begin) + 1);
}

/* ---- the stack ---- */

static int push(pickle_reader *reader, st_value value)
{
    const size_t used = reader->stack_count * sizeof value;
    /* asked here, since most pushes need no more room */
    if (reader->stack.capacity - used < sizeof value &&
        !st_buffer_extend(reader->pickle->memory, &reader->stack, used, sizeof value))
        return out_of_memory(reader);
    stack_of(reader)[reader->stack_count++] = value;
    return 1;
}

/* The uppermost `count` values, none of them a mark; NULL: there are none. They stay there until the next push. */
static const st_value *pop(pickle_reader *reader, size_t count)
{
    if (count > reader->stack_count)
        return NULL;
    const st_value *const values = stack_of(reader) + reader->stack_count - count;
    for (size_t i = 0; i < count; i++)
        if (st_value_kind_of(values[i]) == ST_VALUE_MARK)
            return NULL;
    reader->stack_count -= count;
    return values;
}

/* All values above the last mark, and the mark. */
static const st_value *pop_to_mark(pickle_reader *reader, size_t *count)
{
    const st_value *const stack = stack_of(reader);
    size_t at = reader->stack_count;
    while (at > 0 && st_value_kind_of(stack[at - 1]) != ST_VALUE_MARK)
        at--;
    if (at == 0)
        return NULL;
    *count = reader->stack_count - at;
    reader->stack_count = at - 1;
    return stack + at;
}

static int top(const pickle_reader *reader, st_value *value)
{
    if (reader->stack_count == 0)
        return 0;
    *value = stack_of(reader)[reader->stack_count - 1];
    return st_value_kind_of(*value) != ST_VALUE_MARK;
}

/* ---- the graph ---- */

/* Room for `count` words; they are not set. */
static int new_words(pickle_reader *reader, size_t count, size_t *place)
{
    st_pickle *const pickle = reader->pickle;
    const size_t used = pickle->word_count * sizeof(uint32_t);
    const size_t nbytes = count * sizeof(uint32_t);
    if (used + nbytes > 8 * pickle->nbytes + WORDS_NBYTES_MIN ||
        pickle->word_count + count > ST_GRAPH_PLACE_MASK)
        return 0;
    if (!st_buffer_extend(pickle->memory, &pickle->words, used, nbytes))
        return out_of_memory(reader);
    *place = pickle->word_count;
    pickle->word_count += count;
    return 1;
}

static int push_words(pickle_reader *reader, st_value_kind kind, const uint32_t *words, size_t count)
{
    size_t place = 0;
    if (!new_words(reader, count, &place))
        return 0;
    memcpy(st_graph_words(reader->pickle, place), words, count * sizeof *words);
    return push(reader, st_graph_value(kind, place));
}

static int push_tuple(pickle_reader *reader, const st_value *items, size_t count)
{
    size_t place = 0;
    if (!items || !new_words(reader, count + 1, &place))
        return 0;
    uint32_t *const words = st_graph_words(reader->pickle, place);
    words[0] = (uint32_t)count;
    memcpy(words + 1, items, count * sizeof *items);
    return push(reader, st_graph_value(ST_VALUE_TUPLE, place));
}

static int push_object(pickle_reader *reader, st_value callable, st_value args, st_value state)
{
    const uint32_t words[ST_GRAPH_OBJECT_COUNT] = {0, 0, callable, args, state};
    return st_value_kind_of(args) == ST_VALUE_TUPLE &&
           push_words(reader, ST_VALUE_OBJECT, words, ST_GRAPH_OBJECT_COUNT);
}

static int push_container(pickle_reader *reader, st_value_kind kind)
{
    static const uint32_t empty[2] = {0, 0};
    return push_words(reader, kind, empty, 2);
}

/* Adds values to the container on the stack. */
static int fill(pickle_reader *reader, const st_value *values, size_t count, int is_pairs)
{
    st_value container = 0;
    size_t place = 0;
    if (!values || !top(reader, &container) || (is_pairs && count % 2 != 0))
        return 0;
    const st_value_kind kind = st_value_kind_of(container);
    if (kind != ST_VALUE_OBJECT && kind != (is_pairs ? ST_VALUE_DICT : ST_VALUE_LIST))
        return 0;
    if (count == 0)
        return 1;
    if (!new_words(reader, ST_GRAPH_CHUNK_COUNT + count, &place))
        return 0;
    uint32_t *const chunk = st_graph_words(reader->pickle, place);
    chunk[ST_GRAPH_NEXT] = 0;
    chunk[ST_GRAPH_COUNT] = (uint32_t)count;
    chunk[ST_GRAPH_IS_PAIRS] = (uint32_t)is_pairs;
    memcpy(chunk + ST_GRAPH_CHUNK_COUNT, values, count * sizeof *values);
    uint32_t *const words = st_graph_words(reader->pickle, st_graph_place(container));
    if (words[ST_GRAPH_FIRST] == 0)
        words[ST_GRAPH_FIRST] = (uint32_t)place;
    else
        st_graph_words(reader->pickle, words[ST_GRAPH_LAST])[ST_GRAPH_NEXT] = (uint32_t)place;
    words[ST_GRAPH_LAST] = (uint32_t)place;
    return 1;
}

/* ---- opcodes ---- */

/* Module and name are looked at for each object, which must not take long. */
#define GLOBAL_NBYTES_MAX 4096

/* Module and name are lines that follow. */
static int step_global(pickle_reader *reader)
{
    uint32_t words[2];
    words[0] = st_graph_value(ST_VALUE_TEXT, reader->at - 1);
    const uint64_t begin = reader->at;
    if (!take_line(reader))
        return 0;
    words[1] = st_graph_value(ST_VALUE_TEXT, reader->at - 1);
    return take_line(reader) && reader->at - begin <= GLOBAL_NBYTES_MAX &&
           push_words(reader, ST_VALUE_GLOBAL, words, 2);
}

static int step_object(pickle_reader *reader, unsigned char op)
{
    const st_value *values = pop(reader, op == OP_NEWOBJ_EX ? 3 : op == 'Q' ? 1 : 2);
    if (!values)
        return 0;
    switch (op) {
    case OP_STACK_GLOBAL:
        return st_value_kind_of(values[0]) == ST_VALUE_TEXT && st_value_kind_of(values[1]) == ST_VALUE_TEXT &&
               push_words(reader, ST_VALUE_GLOBAL, values, 2);
    case 'Q': return push_words(reader, ST_VALUE_PERSISTENT, values, 1);
    case 'b': /* BUILD */
        if (st_value_kind_of(values[0]) != ST_VALUE_OBJECT)
            return 0;
        st_graph_words(reader->pickle, st_graph_place(values[0]))[ST_GRAPH_STATE] = values[1];
        return push(reader, values[0]);
    case OP_NEWOBJ_EX: return push_object(reader, values[0], values[1], values[2]);
    default: return push_object(reader, values[0], values[1], 0); /* REDUCE, NEWOBJ */
    }
}

static int step_container(pickle_reader *reader, unsigned char op)
{
    size_t count = 0;
    const st_value *values = NULL;
    switch (op) {
    case ')': return push(reader, st_graph_value(ST_VALUE_TUPLE, EMPTY_TUPLE_PLACE));
    case 't': values = pop_to_mark(reader, &count); return push_tuple(reader, values, count);
    case ']':
    case OP_EMPTY_SET: return push_container(reader, ST_VALUE_LIST);
    case '}': return push_container(reader, ST_VALUE_DICT);
    case OP_FROZENSET:
        values = pop_to_mark(reader, &count);
        return values && push_container(reader, ST_VALUE_LIST) && fill(reader, values, count, 0);
    case 'a': return fill(reader, pop(reader, 1), 1, 0);
    case 's': return fill(reader, pop(reader, 2), 2, 1);
    case 'e':
    case OP_ADDITEMS: values = pop_to_mark(reader, &count); return fill(reader, values, count, 0);
    case 'u': values = pop_to_mark(reader, &count); return fill(reader, values, count, 1);
    default: count = 1u + op - OP_TUPLE1; return push_tuple(reader, pop(reader, count), count);
    }
}

/* Numbers of the memo rise by one with each value that is put there. Larger ones would take room for nothing. */
static int memo_put(pickle_reader *reader, uint64_t number)
{
    st_value value = 0;
    const size_t used = reader->memo_count * sizeof value;
    if (!top(reader, &value) || number > reader->memo_count)
        return 0;
    if (number == reader->memo_count) {
        if (!st_buffer_extend(reader->pickle->memory, &reader->memo, used, sizeof value))
            return out_of_memory(reader);
        reader->memo_count++;
    }
    memcpy(reader->memo.bytes + number * sizeof value, &value, sizeof value);
    return 1;
}

static int memo_get(pickle_reader *reader, uint64_t number)
{
    st_value value = 0;
    if (number >= reader->memo_count)
        return 0;
    memcpy(&value, reader->memo.bytes + number * sizeof value, sizeof value);
    return push(reader, value);
}

static int step(pickle_reader *reader, unsigned char op)
{
    const literal *const form = &literals[op];
    const size_t place = reader->at - 1;
    uint64_t number = 0;
    size_t count = 0;
    st_value value = 0;
    if (form->is_known)
        return (form->is_line ? take_line(reader)
                              : take_number(reader, form->length_nbytes, &number) &&
                                    take(reader, number + form->fixed_nbytes)) &&
               push(reader, st_graph_value(form->kind, place));
    switch (op) {
    case 'c': return step_global(reader);
    case OP_STACK_GLOBAL:
    case OP_NEWOBJ:
    case OP_NEWOBJ_EX:
    case 'R':
    case 'Q':
    case 'b': return step_object(reader, op);
    case ')':
    case 't':
    case OP_TUPLE1:
    case OP_TUPLE1 + 1:
    case OP_TUPLE3:
    case ']':
    case '}':
    case 'a':
    case 's':
    case 'e':
    case 'u':
    case OP_EMPTY_SET:
    case OP_FROZENSET:
    case OP_ADDITEMS: return step_container(reader, op);
    case 'q': return take_number(reader, 1, &number) && memo_put(reader, number);
    case 'r': return take_number(reader, 4, &number) && memo_put(reader, number);
    case 'h': return take_number(reader, 1, &number) && memo_get(reader, number);
    case 'j': return take_number(reader, 4, &number) && memo_get(reader, number);
    case OP_MEMOIZE: return memo_put(reader, reader->memo_count);
    case '(': return push(reader, st_graph_value(ST_VALUE_MARK, 0));
    case '0': /* POP takes a mark, too */ return reader->stack_count > 0 && reader->stack_count-- > 0;
    case '1': return pop_to_mark(reader, &count) != NULL;
    case '2': return top(reader, &value) && push(reader, value);
    case OP_FRAME: return take_number(reader, 8, &number);
    case OP_PROTO: return take_number(reader, 1, &number) && number >= PROTOCOL_MIN && number <= PROTOCOL_MAX;
    default: return 0;
    }
}

lmc_status st_pickle_read(st_pickle *pickle, const lmc_allocator *memory, const volatile int *cancel,
                          const unsigned char *bytes, size_t nbytes, int *is_understood, lmc_st_diag *diag)
{
    *pickle = (st_pickle){.bytes = bytes, .nbytes = nbytes, .memory = memory};
    pickle_reader reader = {.pickle = pickle};
    *is_understood = 0;
    if (st_buffer_grow(memory, &pickle->words, FIRST_WORDS_NBYTES) &&
        st_buffer_grow(memory, &reader.stack, FIRST_WORDS_NBYTES)) {
        pickle->word_count = EMPTY_TUPLE_PLACE + 1;
        st_graph_words(pickle, 0)[EMPTY_TUPLE_PLACE] = 0;
        int goes_on = nbytes > 0 && nbytes <= ST_PICKLE_NBYTES_MAX && bytes[0] == OP_PROTO;
        for (uint32_t i = 0; goes_on && i < ST_PICKLE_STEP_COUNT_MAX && reader.at < nbytes; i++) {
            const unsigned char op = bytes[reader.at++];
            if (op == '.') /* STOP */
                *is_understood = top(&reader, &pickle->root);
            goes_on =
                op != '.' && step(&reader, op) && !(i % CANCEL_STEP_COUNT == 0 && st_is_cancelled(cancel));
        }
    } else {
        reader.is_out_of_memory = 1;
    }
    st_buffer_free(memory, &reader.stack);
    st_buffer_free(memory, &reader.memo);
    if (reader.is_out_of_memory)
        return st_fail_nomem(diag);
    return st_is_cancelled(cancel) ? st_fail_cancelled(diag) : LMC_OK;
}

void st_pickle_free(st_pickle *pickle)
{
    if (pickle->memory)
        st_buffer_free(pickle->memory, &pickle->words);
    *pickle = (st_pickle){0};
}

/* ---- looking at values ---- */

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
    case 'T': *text = (st_string){(const char *)op + 5, lmc_load32(op + 1)}; return 1;
    case 0x8d: *text = (st_string){(const char *)op + 9, (size_t)lmc_load64(op + 1)}; return 1;
    default: { /* a line, without its end */
        const unsigned char *const end = memchr(op + 1, '\n', pickle->nbytes - at - 1);
        *text = (st_string){(const char *)op + 1, end ? (size_t)(end - op - 1) : 0};
        return 1;
    }
    }
}

/* Little-endian, two's complement. */
static int64_t signed_number(const unsigned char *bytes, size_t nbytes)
{
    uint64_t number = nbytes > 0 && bytes[nbytes - 1] >= 0x80 ? UINT64_MAX : 0;
    memcpy(&number, bytes, nbytes);
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
    case 'M': *number = lmc_load16(op + 1); return 1;
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
