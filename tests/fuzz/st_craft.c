/*
 * st_craft.c - see st_craft.h.
 */
#include "st_craft.h"

#include "fuzz.h"

#include <lmc.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASH_NBYTES 8
#define INDEX_ENTRY_NBYTES 12

/* the table */
#define TABLE_HEAD_NBYTES 40
#define TABLE_TAIL_NBYTES 24
#define AT_METHOD 5
#define AT_FEATURES 8
#define AT_TENSOR_COUNT 12
#define AT_FILE_NBYTES 16
#define AT_HEADER_NBYTES 24
#define AT_STORED_NBYTES 32

#define FEATURE_ALIAS 2
#define ALIAS_NBYTES 8

#define TENSORS_MAX 128
#define BLOCKS_MAX 4096
#define FITTED_NBYTES_MAX ((size_t)64 << 10)
#define UNPACKED_NBYTES_MAX ((uint64_t)4 << 20)

static uint64_t load(const uint8_t *src, size_t nbytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < nbytes; i++)
        value |= (uint64_t)src[i] << 8 * i;
    return value;
}

static void store(uint8_t *dst, uint64_t value, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = (uint8_t)(value >> 8 * i);
}

/* ---- frames ---------------------------------------------------------------------------------------- */

static uint64_t hash_list(const uint64_t *hashes, size_t count)
{
    uint8_t bytes[BLOCKS_MAX * HASH_NBYTES];
    for (size_t i = 0; i < count; i++)
        store(bytes + i * HASH_NBYTES, hashes[i], HASH_NBYTES);
    return XXH3_64bits(bytes, count * HASH_NBYTES);
}

static int has_index(const lmc_info *info)
{
    return info->mode == LMC_FRAME_CODED || info->mode == LMC_FRAME_DELTA;
}

/* The hashes of the blocks: of a frame with an index as that has them, of others from their content. */
static uint64_t content_hash(const lmc_info *info, const uint8_t *frame, const uint8_t *tail)
{
    uint64_t hashes[BLOCKS_MAX];
    const uint8_t *const content = frame + info->head_nbytes;
    const size_t entry_nbytes =
        INDEX_ENTRY_NBYTES + (info->mode == LMC_FRAME_DELTA ? (size_t)HASH_NBYTES : 0); /* the base's hash */
    for (size_t i = 0; i < info->block_count; i++) {
        const size_t begin = i * info->block_nbytes;
        const size_t left = (size_t)info->content_nbytes - begin;
        hashes[i] = has_index(info)
                        ? load(tail + i * entry_nbytes + 4, HASH_NBYTES)
                        : XXH3_64bits(content + begin, left < info->block_nbytes ? left : info->block_nbytes);
    }
    return hash_list(hashes, (size_t)info->block_count);
}

/* Returns 0 if the frame is none that can be repaired. */
static int repair_frame(uint8_t *frame, size_t nbytes, uint64_t *hash)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, nbytes, &info, NULL) != LMC_OK || info.head_nbytes > nbytes ||
        info.tail_nbytes > nbytes - info.head_nbytes || info.block_count > BLOCKS_MAX)
        return 0;
    const size_t tail_nbytes = (size_t)info.tail_nbytes;
    uint8_t *const tail = frame + nbytes - tail_nbytes;
    if (!has_index(&info) && info.content_nbytes > nbytes - info.head_nbytes - tail_nbytes)
        return 0;
    *hash = content_hash(&info, frame, tail);
    if (!has_index(&info))
        store(tail, *hash, HASH_NBYTES);
    const uint64_t seed = XXH3_64bits(frame, info.head_nbytes);
    const size_t check_at = tail_nbytes - HASH_NBYTES;
    store(tail + check_at, XXH3_64bits_withSeed(tail, check_at, seed), HASH_NBYTES);
    return 1;
}

/* ---- the table ------------------------------------------------------------------------------------- */

static uint64_t hash_of_header(const uint8_t *table, uint64_t header_nbytes, size_t stored_nbytes)
{
    const uint8_t *const stored = table + TABLE_HEAD_NBYTES;
    if (table[AT_METHOD] == 0 || header_nbytes > UNPACKED_NBYTES_MAX)
        return XXH3_64bits(stored, stored_nbytes);
    uint8_t *const header = fuzz_malloc((size_t)header_nbytes);
    const size_t got = ZSTD_decompress(header, (size_t)header_nbytes, stored, stored_nbytes);
    const uint64_t hash = ZSTD_isError(got) ? 0 : XXH3_64bits(header, got);
    free(header);
    return hash;
}

/* Gives each alias the hash of its owner. `list`: count and pairs, within list_nbytes. */
static void repair_aliases(uint8_t *hashes, size_t tensor_count, const uint8_t *list, size_t list_nbytes)
{
    const uint64_t alias_count = list_nbytes < 4 ? 0 : load(list, 4);
    for (size_t i = 0; i < alias_count && (i + 1) * ALIAS_NBYTES <= list_nbytes - 4; i++) {
        const size_t alias = (size_t)load(list + 4 + i * ALIAS_NBYTES, 4);
        const size_t owner = (size_t)load(list + 8 + i * ALIAS_NBYTES, 4);
        if (alias < tensor_count && owner < tensor_count && alias != owner)
            memcpy(hashes + alias * HASH_NBYTES, hashes + owner * HASH_NBYTES, HASH_NBYTES);
    }
}

/* The hashes of the frames and whole_hash, if the table's sizes leave room for them. */
static void repair_hashes(uint8_t *table, uint8_t *tail, const uint64_t *frame_hashes, size_t frame_count)
{
    const uint64_t stored_nbytes = load(table + AT_STORED_NBYTES, 8);
    if (stored_nbytes > (uint64_t)(tail - table) - TABLE_HEAD_NBYTES)
        return;
    uint8_t *const hashes = table + TABLE_HEAD_NBYTES + stored_nbytes;
    const size_t room = (size_t)(tail - hashes);
    const uint64_t stated = load(table + AT_TENSOR_COUNT, 4);
    const size_t count = stated < room / HASH_NBYTES ? (size_t)stated : room / HASH_NBYTES;
    const size_t list_nbytes = count * HASH_NBYTES;
    for (size_t i = 0; i < frame_count && i < count; i++)
        store(hashes + i * HASH_NBYTES, frame_hashes[i], HASH_NBYTES);
    if ((table[AT_FEATURES] & FEATURE_ALIAS) != 0)
        repair_aliases(hashes, count, hashes + list_nbytes, room - list_nbytes);
    const uint64_t header_nbytes = load(table + AT_HEADER_NBYTES, 8);
    uint8_t *const listed = fuzz_malloc(24 + list_nbytes);
    memcpy(listed, table + AT_FILE_NBYTES, 16); /* file_nbytes, header_nbytes */
    store(listed + 16, hash_of_header(table, header_nbytes, (size_t)stored_nbytes), HASH_NBYTES);
    memcpy(listed + 24, hashes, list_nbytes);
    store(tail, XXH3_64bits(listed, 24 + list_nbytes), HASH_NBYTES);
    free(listed);
}

/* frame_hashes: 0 where a frame could not be repaired. */
static void repair_table(uint8_t *table, size_t nbytes, const uint64_t *frame_hashes, size_t frame_count,
                         uint64_t archive_header_hash)
{
    if (nbytes < TABLE_HEAD_NBYTES + TABLE_TAIL_NBYTES)
        return;
    uint8_t *const tail = table + nbytes - TABLE_TAIL_NBYTES;
    repair_hashes(table, tail, frame_hashes, frame_count);
    store(tail + 8, archive_header_hash, HASH_NBYTES);
    store(tail + 16, XXH3_64bits(table, nbytes - HASH_NBYTES), HASH_NBYTES);
}

/* ---- the outer header ------------------------------------------------------------------------------ */

typedef struct place {
    size_t begin, nbytes;
} place;

/* The digits at text[*at] and the character behind them, which is skipped. */
static uint64_t scan_number(const uint8_t *text, size_t nbytes, size_t *at)
{
    uint64_t value = 0;
    while (*at < nbytes && text[*at] >= '0' && text[*at] <= '9') {
        value = value * 10 + text[*at] - '0';
        (*at)++;
    }
    (*at)++;
    return value;
}

/* Finds what stands behind each "data_offsets", wherever it is, as far as it lies in the data. */
static size_t find_places(const uint8_t *text, size_t text_nbytes, size_t data_nbytes, place *places)
{
    static const char key[] = "\"data_offsets\":[";
    const size_t key_nbytes = sizeof(key) - 1;
    size_t count = 0;
    for (size_t at = 0; at + key_nbytes <= text_nbytes && count < TENSORS_MAX; at++) {
        if (memcmp(text + at, key, key_nbytes) != 0)
            continue;
        size_t digits_at = at + key_nbytes;
        const uint64_t begin = scan_number(text, text_nbytes, &digits_at);
        const uint64_t end = scan_number(text, text_nbytes, &digits_at);
        if (begin > end || end > data_nbytes)
            break;
        places[count].begin = (size_t)begin;
        places[count].nbytes = (size_t)(end - begin);
        count++;
    }
    return count;
}

void fuzz_repair_archive(uint8_t *archive, size_t nbytes)
{
    place places[TENSORS_MAX];
    uint64_t hashes[TENSORS_MAX] = {0};
    const uint64_t text_nbytes = nbytes < 8 ? UINT64_MAX : load(archive, 8);
    if (nbytes < 8 || text_nbytes > nbytes - 8)
        return;
    uint8_t *const text = archive + 8;
    uint8_t *const data = text + text_nbytes;
    const size_t count = find_places(text, (size_t)text_nbytes, nbytes - 8 - (size_t)text_nbytes, places);
    for (size_t i = 1; i < count; i++)
        repair_frame(data + places[i].begin, places[i].nbytes, &hashes[i - 1]);
    if (count > 0) {
        repair_table(data + places[0].begin, places[0].nbytes, hashes, count - 1,
                     XXH3_64bits(text, (size_t)text_nbytes));
    }
}

/* ---- safetensors files ----------------------------------------------------------------------------- */

uint8_t *fuzz_fit_header(const uint8_t *data, size_t data_nbytes, size_t *nbytes)
{
    place places[TENSORS_MAX];
    size_t end = data_nbytes;
    while (end > 8 && data[end - 1] != '}')
        end--;
    if (end <= 8)
        return NULL;
    size_t content_nbytes = 0;
    const size_t count = find_places(data + 8, end - 8, FITTED_NBYTES_MAX, places);
    for (size_t i = 0; i < count; i++) {
        const size_t place_end = places[i].begin + places[i].nbytes;
        content_nbytes = place_end > content_nbytes ? place_end : content_nbytes;
    }
    *nbytes = end + content_nbytes;
    uint8_t *const fitted = fuzz_malloc(*nbytes);
    memcpy(fitted, data, end);
    store(fitted, end - 8, 8);
    for (size_t i = 0; i < content_nbytes; i++)
        fitted[end + i] = data[i % data_nbytes];
    return fitted;
}

/* ---- archives of parts ----------------------------------------------------------------------------- */

typedef struct part {
    const uint8_t *bytes;
    size_t nbytes;
} part;

/* Takes a number of `width` bytes and as many bytes as it says. */
static part take(part *left, size_t width)
{
    part taken = {left->bytes, 0};
    if (left->nbytes >= width) {
        const uint64_t wanted = load(left->bytes, width);
        taken.bytes = left->bytes + width;
        taken.nbytes = wanted < left->nbytes - width ? (size_t)wanted : left->nbytes - width;
        left->nbytes -= width + taken.nbytes;
        left->bytes = taken.bytes + taken.nbytes;
    } else {
        left->nbytes = 0;
    }
    return taken;
}

typedef struct parts {
    part header;
    part names[TENSORS_MAX];
    part frames[TENSORS_MAX];
    size_t owners[TENSORS_MAX]; /* NO_OWNER, or of an alias: the tensor that has its frame */
    size_t count;
    size_t alias_count;
    uint64_t content_nbytes[TENSORS_MAX];
    uint64_t all_content_nbytes;
} parts;

#define NO_OWNER SIZE_MAX

/* A frame of one byte is none: it stands for an alias of the tensor of that number. */
static void read_frame(parts *parts, size_t index)
{
    lmc_info info = LMC_INIT(lmc_info);
    part *const frame = &parts->frames[index];
    parts->owners[index] = NO_OWNER;
    if (frame->nbytes == 1) {
        parts->owners[index] = frame->bytes[0];
        parts->alias_count++;
        frame->nbytes = 0;
    } else if (lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL) == LMC_OK) {
        parts->content_nbytes[index] = info.content_nbytes;
    }
}

/* An alias of nothing or of itself counts as one of the first tensor, so that its number alone is wrong. */
static uint64_t sum_content(parts *parts)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const size_t owner = parts->owners[i];
        if (owner != NO_OWNER)
            parts->content_nbytes[i] = parts->content_nbytes[owner < parts->count && owner != i ? owner : 0];
        sum += parts->content_nbytes[i];
    }
    return sum;
}

static void read_parts(part left, parts *parts)
{
    memset(parts, 0, sizeof(*parts));
    parts->header = take(&left, 2);
    while (left.nbytes > 0 && parts->count < TENSORS_MAX) {
        const size_t i = parts->count++;
        parts->names[i] = take(&left, 1);
        parts->frames[i] = take(&left, 2);
        read_frame(parts, i);
    }
    parts->all_content_nbytes = sum_content(parts);
}

/* Appends an entry of the outer header to text. Returns the new end. */
static char *put_entry(char *text, part name, size_t *begin, size_t nbytes)
{
    *text++ = '"';
    memcpy(text, name.bytes, name.nbytes);
    text += name.nbytes;
    text += sprintf(text, "\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}", nbytes, *begin,
                    *begin + nbytes);
    *begin += nbytes;
    return text;
}

static size_t write_outer_header(const parts *parts, size_t table_nbytes, uint8_t *dst)
{
    static const part table_name = {(const uint8_t *)"lmc.archive", 11};
    size_t begin = 0;
    char *text = (char *)dst + 8;
    text += sprintf(text, "{\"__metadata__\":{\"format\":\"lmc\",\"lmc_archive\":\"1\"},");
    text = put_entry(text, table_name, &begin, table_nbytes);
    for (size_t i = 0; i < parts->count; i++) {
        *text++ = ',';
        text = put_entry(text, parts->names[i], &begin, parts->frames[i].nbytes);
    }
    *text++ = '}';
    store(dst, (uint64_t)(text - (char *)dst) - 8, 8);
    return (size_t)(text - (char *)dst);
}

static void write_aliases(const parts *parts, uint8_t *dst)
{
    store(dst, parts->alias_count, 4);
    dst += 4;
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->owners[i] != NO_OWNER) {
            store(dst, i, 4);
            store(dst + 4, parts->owners[i], 4);
            dst += ALIAS_NBYTES;
        }
    }
}

static size_t table_size(const parts *parts)
{
    return TABLE_HEAD_NBYTES + parts->header.nbytes + parts->count * HASH_NBYTES +
           (parts->alias_count > 0 ? 4 + parts->alias_count * ALIAS_NBYTES : 0) + TABLE_TAIL_NBYTES;
}

static void write_table(const parts *parts, uint8_t *dst)
{
    static const uint8_t start[] = {0x8c, 'L', 'M', 'A', 1};
    memset(dst, 0, table_size(parts));
    memcpy(dst, start, sizeof(start));
    store(dst + AT_FEATURES, parts->alias_count > 0 ? FEATURE_ALIAS : 0, 4);
    store(dst + AT_TENSOR_COUNT, parts->count, 4);
    store(dst + AT_FILE_NBYTES, 8 + parts->header.nbytes + parts->all_content_nbytes, 8);
    store(dst + AT_HEADER_NBYTES, parts->header.nbytes, 8);
    store(dst + AT_STORED_NBYTES, parts->header.nbytes, 8);
    memcpy(dst + TABLE_HEAD_NBYTES, parts->header.bytes, parts->header.nbytes);
    if (parts->alias_count > 0)
        write_aliases(parts, dst + TABLE_HEAD_NBYTES + parts->header.nbytes + parts->count * HASH_NBYTES);
}

uint8_t *fuzz_build_archive(const uint8_t *bytes, size_t bytes_nbytes, size_t *nbytes)
{
    const size_t entry_nbytes_max = 128; /* beside the name: three numbers of up to 20 digits */
    const part all = {bytes, bytes_nbytes};
    parts parts;
    read_parts(all, &parts);
    const size_t table_nbytes = table_size(&parts);
    uint8_t *const archive = fuzz_malloc(bytes_nbytes + table_nbytes + (parts.count + 2) * entry_nbytes_max);
    size_t end = write_outer_header(&parts, table_nbytes, archive);
    write_table(&parts, archive + end);
    end += table_nbytes;
    for (size_t i = 0; i < parts.count; i++) {
        memcpy(archive + end, parts.frames[i].bytes, parts.frames[i].nbytes);
        end += parts.frames[i].nbytes;
    }
    fuzz_repair_archive(archive, end);
    *nbytes = end;
    return archive;
}
