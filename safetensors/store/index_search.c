/*
 * index_search.c - the search for bases. Rows of a kind are compared with the wanted tensors of that kind: all with all
 * if there are few, else all with one of the wanted, the probe. What is near names files, and the best of these are
 * compared in full.
 */
#include "safetensors/store/coarse.h"
#include "safetensors/store/records.h"

#include "lmc_experimental.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Comparisons that a kind, and all kinds together, may take for an exact search: some milliseconds. */
#define EXACT_COUNT_MAX ((uint64_t)1 << 17)
#define EXACT_TOTAL_MAX ((uint64_t)1 << 19)

/* Probes, and rows after which the search ends if some are near. A kind whose tensors are much smaller than those of the
 * first probe says little. */
#define PROBE_COUNT_MAX 8
#define PROBE_ROW_COUNT ((uint64_t)1 << 19)
#define PROBE_SIZE_LOG2 6

/* Rows that are kept for a tensor, files that are compared in full, and further ones that only one tensor is near to. */
#define NEAR_COUNT_MAX 32
#define FILE_COUNT_MAX 32
#define SINGLE_COUNT_MAX 96

/* Equal tensors that are looked at, for an index where most belong to files that are not allowed. */
#define EQUAL_COUNT_MAX 64

/* Pairs of tensors of one kind that are compared for a file; of more, each tensor is compared with those that have about
 * its place in the order of the kind, at least so many. */
#define PAIR_COUNT_MAX ((size_t)1 << 16)
#define WINDOW_COUNT_MIN 8
#define WINDOW_COUNT_MAX 512

/* Rows that are rounded at once. */
#define ROUNDED_COUNT 512

#define VERDICT_COUNT 1024

/* A wanted tensor among the rows of a kind. */
typedef struct query {
    st_kind kind;
    lmc_base_form form;
    uint32_t wanted;
} query;

/* The queries for the rows of a kind. */
typedef struct group {
    st_coarse coarse;
    size_t begin, end;
} group;

typedef struct near_row {
    uint32_t file, tensor, distance;
    uint8_t form, is_head;
} near_row;

typedef struct near_list {
    uint32_t count;
    float weight; /* how much the tensor says about a file */
    near_row rows[NEAR_COUNT_MAX];
} near_list;

typedef struct scored_file {
    double score;
    uint32_t file, wanted;
} scored_file;

/* What is known about a file. */
typedef struct verdict {
    uint32_t file; /* 0: nothing */
    int is_allowed;
} verdict;

typedef struct search {
    st_index *index;
    const st_index_tensor *wanted;
    size_t count;
    st_index_allowed_fn is_allowed;
    void *user;
    st_index_hits *hits;
    uint32_t *head_spreads;
    near_list *near;
    query *queries;      /* by kind, form, wanted */
    st_sketch *sketches; /* of each query */
    uint32_t *passed;    /* at the first query of a kind: tensors of that kind in the file that is compared */
    size_t query_count;
    group *groups;
    size_t group_count;
    scored_file *files; /* room for all near rows */
    size_t file_count;
    verdict verdicts[VERDICT_COUNT];
    lmc_st_diag *diag;
} search;

/* ---- queries ---- */

static int compare_kinds(const query *a, const query *b)
{
    const int order = st_kind_compare(&a->kind, &b->kind);
    return order != 0 ? order : (a->form > b->form) - (a->form < b->form);
}

static int compare_queries(const void *left, const void *right)
{
    const query *const a = left;
    const query *const b = right;
    const int order = compare_kinds(a, b);
    return order != 0 ? order : (a->wanted > b->wanted) - (a->wanted < b->wanted);
}

static void list_queries(search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const st_record record = st_record_of(&search->wanted[i], i);
        query *const next = &search->queries[search->query_count];
        uint32_t added = 0;
        if (record.nbytes == 0)
            continue;
        next[added++] = (query){st_record_kind(&record), LMC_BASE_PLAIN, (uint32_t)i};
        if (record.head)
            next[added++] = (query){st_record_head_kind(&record), LMC_BASE_PLAIN, (uint32_t)i};
        if (record.dtype == LMC_DTYPE_BF16 && record.nbytes <= UINT64_MAX / 2 &&
            st_sketch_can_round(2 * record.nbytes))
            next[added++] = (query){
                {.dtype = LMC_DTYPE_F32, .nbytes = 2 * record.nbytes}, LMC_BASE_BF16_OF_F32, (uint32_t)i};
        search->query_count += added;
    }
    qsort(search->queries, search->query_count, sizeof *search->queries, compare_queries);
    for (size_t i = 0; i < search->query_count; i++) {
        const query *const query = &search->queries[i];
        const st_index_tensor *const one = &search->wanted[query->wanted];
        search->sketches[i] = query->kind.row_nbytes > 0 ? one->head : one->sketch;
    }
}

static lmc_status list_groups(search *search)
{
    for (size_t i = 0; i < search->query_count;) {
        group *const group = &search->groups[search->group_count];
        group->begin = i;
        while (i < search->query_count &&
               compare_kinds(&search->queries[i], &search->queries[group->begin]) == 0)
            i++;
        group->end = i;
        LMC_TRY(st_coarse_find(&search->index->database, &search->queries[group->begin].kind, &group->coarse,
                               search->diag));
        search->group_count += group->coarse.row_count > 0;
    }
    return LMC_OK;
}

/* ---- near rows ---- */

static uint32_t spread_of(const search *search, uint32_t wanted, int is_head)
{
    return is_head ? search->head_spreads[wanted] : search->hits[wanted].spread;
}

/* Distant relatives have two thirds of the spread, the nearest of many strangers nine tenths. */
static int is_near(uint32_t distance, uint32_t spread)
{
    return distance == 0 || distance < spread - 3 * (spread / 16);
}

static lmc_status judge_file(search *search, uint32_t file, int *is_allowed)
{
    verdict *const known = &search->verdicts[file % VERDICT_COUNT];
    const int64_t key = file;
    sqlite3_stmt *statement;
    int has_row = 0;
    *is_allowed = known->is_allowed;
    if (known->file == file)
        return LMC_OK;
    *is_allowed = 0;
    LMC_TRY(st_sql_begin(&search->index->database, ST_SQL_FILE_MODEL, &key, 1, &statement, search->diag));
    const lmc_status status = st_sql_step(&search->index->database, statement, &has_row, search->diag);
    const char *const model =
        status == LMC_OK && has_row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (model)
        *is_allowed = !search->is_allowed || search->is_allowed(search->user, file, model);
    st_sql_end(statement);
    *known = (verdict){file, *is_allowed};
    return status;
}

/* Keeps a row if it is one of the nearest, and its file may be used. */
static lmc_status add_near(search *search, uint32_t wanted, near_row row)
{
    near_list *const list = &search->near[wanted];
    int is_allowed = 0;
    if (list->count == NEAR_COUNT_MAX && row.distance >= list->rows[NEAR_COUNT_MAX - 1].distance)
        return LMC_OK;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->rows[i].file == row.file && list->rows[i].tensor == row.tensor &&
            list->rows[i].form == row.form)
            return LMC_OK;
    LMC_TRY(judge_file(search, row.file, &is_allowed));
    if (!is_allowed)
        return LMC_OK;
    uint32_t at = list->count < NEAR_COUNT_MAX ? list->count++ : NEAR_COUNT_MAX - 1;
    for (; at > 0 && list->rows[at - 1].distance > row.distance; at--)
        list->rows[at] = list->rows[at - 1];
    list->rows[at] = row;
    return LMC_OK;
}

typedef struct scan {
    search *search;
    const query *queries;
    size_t query_count;
    unsigned char rounded[ROUNDED_COUNT * ST_SKETCH_PLACE_COUNT * 2];
} scan;

static lmc_status visit_rows(void *user, const unsigned char *rows, size_t count)
{
    scan *const scan = user;
    search *const search = scan->search;
    const st_kind *const kind = &scan->queries->kind;
    const int is_rounded = scan->queries->form != LMC_BASE_PLAIN;
    const size_t row_nbytes = st_coarse_row_nbytes(kind);
    const size_t stride_nbytes = is_rounded ? ST_SKETCH_PLACE_COUNT * 2 : row_nbytes;
    uint32_t distances[ROUNDED_COUNT];
    assert(count <= ROUNDED_COUNT);
    for (size_t i = 0; i < count && is_rounded; i++)
        lmc_bf16_of_f32(rows + i * row_nbytes + ST_COARSE_HEAD_NBYTES, ST_SKETCH_PLACE_COUNT,
                        scan->rounded + i * stride_nbytes);
    for (size_t at = 0; at < scan->query_count; at++) {
        const query *const query = &scan->queries[at];
        const near_list *const list = &search->near[query->wanted];
        const uint32_t spread = spread_of(search, query->wanted, kind->row_nbytes > 0);
        st_sketch_distances(search->wanted[query->wanted].dtype, &search->sketches[query - search->queries],
                            is_rounded ? scan->rounded : rows + ST_COARSE_HEAD_NBYTES, stride_nbytes, count,
                            distances);
        for (size_t i = 0; i < count; i++) {
            if (!is_near(distances[i], spread) ||
                (list->count == NEAR_COUNT_MAX && distances[i] >= list->rows[NEAR_COUNT_MAX - 1].distance))
                continue;
            const near_row row = {lmc_load32(rows + i * row_nbytes), lmc_load32(rows + i * row_nbytes + 4),
                                  distances[i], (uint8_t)query->form, kind->row_nbytes > 0};
            LMC_TRY(add_near(search, query->wanted, row));
        }
    }
    return LMC_OK;
}

static lmc_status scan_group(search *search, const group *group, size_t query_count)
{
    scan *const scan = st_allocate(search->index->memory, sizeof *scan);
    if (!scan)
        return st_fail_nomem(search->diag);
    scan->search = search;
    scan->queries = search->queries + group->begin;
    scan->query_count = query_count;
    for (size_t i = 0; i < query_count; i++)
        search->near[scan->queries[i].wanted].weight +=
            (float)scan->queries[i].kind.nbytes * (float)(group->end - group->begin) / (float)query_count;
    const lmc_status status =
        st_coarse_scan(&search->index->database, &group->coarse, visit_rows, scan, search->diag);
    st_release(search->index->memory, scan);
    return status;
}

static lmc_status find_equal(search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const st_record record = st_record_of(&search->wanted[i], i);
        const int64_t values[] = {st_record_hash(&record), EQUAL_COUNT_MAX};
        sqlite3_stmt *statement;
        int has_row = 0;
        if (record.nbytes == 0)
            continue;
        LMC_TRY(st_sql_begin(&search->index->database, ST_SQL_EQUAL_FIND, values, LMC_COUNT(values),
                             &statement, search->diag));
        lmc_status status = LMC_OK;
        do {
            status = st_sql_step(&search->index->database, statement, &has_row, search->diag);
            if (status == LMC_OK && has_row)
                status =
                    add_near(search, (uint32_t)i,
                             (near_row){(uint32_t)sqlite3_column_int64(statement, 0),
                                        (uint32_t)sqlite3_column_int64(statement, 1), 0, LMC_BASE_PLAIN, 0});
        } while (status == LMC_OK && has_row && search->near[i].count < ST_INDEX_HIT_COUNT_MAX);
        st_sql_end(statement);
        LMC_TRY(status);
        search->near[i].weight = (float)record.nbytes;
    }
    return LMC_OK;
}

static int compare_work(const void *left, const void *right)
{
    const group *const a = left;
    const group *const b = right;
    const uint64_t a_count = a->coarse.row_count * (a->end - a->begin);
    const uint64_t b_count = b->coarse.row_count * (b->end - b->begin);
    if (a_count != b_count)
        return a_count < b_count ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Larger tensors say more. */
static int compare_size(const void *left, const void *right)
{
    const group *const a = left;
    const group *const b = right;
    if (a->coarse.kind.nbytes != b->coarse.kind.nbytes)
        return a->coarse.kind.nbytes > b->coarse.kind.nbytes ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static size_t count_near(const search *search)
{
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++)
        count += search->near[i].count;
    return count;
}

/* Scans with one tensor of each of these groups, sketches or head sketches. */
static lmc_status probe(search *search, const group *groups, size_t count, int is_head)
{
    size_t probed = 0;
    uint64_t most_nbytes = 0, row_count = 0;
    for (size_t i = 0; i < count && probed < PROBE_COUNT_MAX; i++) {
        const st_coarse *const coarse = &groups[i].coarse;
        if ((coarse->kind.row_nbytes > 0) != is_head || coarse->kind.nbytes < most_nbytes >> PROBE_SIZE_LOG2)
            continue;
        if (row_count + coarse->row_count > PROBE_ROW_COUNT && count_near(search) > 0)
            break;
        LMC_TRY(scan_group(search, &groups[i], 1));
        most_nbytes = probed++ == 0 ? coarse->kind.nbytes : most_nbytes;
        row_count += coarse->row_count;
    }
    return LMC_OK;
}

/* Head sketches of very many matrices are only compared if the others say nothing. */
static lmc_status find_near(search *search)
{
    uint64_t total = 0;
    size_t exact = 0;
    LMC_TRY(find_equal(search));
    qsort(search->groups, search->group_count, sizeof *search->groups, compare_work);
    for (; exact < search->group_count; exact++) {
        const group *const group = &search->groups[exact];
        const uint64_t work = group->coarse.row_count * (group->end - group->begin);
        total += work;
        if (work > EXACT_COUNT_MAX || total > EXACT_TOTAL_MAX)
            break;
        LMC_TRY(scan_group(search, group, group->end - group->begin));
    }
    group *const rest = search->groups + exact;
    const size_t rest_count = search->group_count - exact;
    qsort(rest, rest_count, sizeof *rest, compare_size);
    LMC_TRY(probe(search, rest, rest_count, 0));
    return count_near(search) > 0 ? LMC_OK : probe(search, rest, rest_count, 1);
}

/* ---- files ---- */

static int compare_files(const void *left, const void *right)
{
    const scored_file *const a = left;
    const scored_file *const b = right;
    return (a->file > b->file) - (a->file < b->file);
}

static int compare_scores(const void *left, const void *right)
{
    const scored_file *const a = left;
    const scored_file *const b = right;
    return a->score != b->score ? (a->score > b->score ? -1 : 1) : compare_files(left, right);
}

static scored_file score_row(const search *search, size_t wanted, const near_row *row)
{
    const uint32_t spread = spread_of(search, (uint32_t)wanted, row->is_head);
    const uint32_t gain = spread > row->distance ? spread - row->distance : 0;
    return (scored_file){(double)(gain + 1) * (double)search->near[wanted].weight, row->file,
                         (uint32_t)wanted};
}

/* Sums up what the tensors say about each file; the best come first. */
static void score_files(search *search)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < search->count; i++) {
        const near_list *const list = &search->near[i];
        for (uint32_t j = 0; j < list->count; j++) {
            uint32_t before = 0;
            while (before < j && list->rows[before].file != list->rows[j].file)
                before++;
            if (before == j)
                search->files[count++] = score_row(search, i, &list->rows[j]);
        }
    }
    qsort(search->files, count, sizeof *search->files, compare_files);
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && search->files[kept - 1].file == search->files[i].file)
            search->files[kept - 1].score += search->files[i].score;
        else
            search->files[kept++] = search->files[i];
    qsort(search->files, kept, sizeof *search->files, compare_scores);
    search->file_count = kept;
}

/* ---- hits ---- */

static int compare_hits(const st_index_hit *a, const st_index_hit *b)
{
    if (a->is_equal != b->is_equal)
        return a->is_equal ? -1 : 1;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    if (a->is_head != b->is_head || a->form != b->form)
        return a->is_head + a->form < b->is_head + b->form ? -1 : 1;
    return a->file != b->file ? (a->file < b->file ? -1 : 1)
                              : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static void add_hit(st_index_hits *hits, const st_index_hit *hit)
{
    uint32_t at = hits->count;
    if (at == ST_INDEX_HIT_COUNT_MAX && compare_hits(hit, &hits->list[--at]) >= 0)
        return;
    for (uint32_t i = 0; i < hits->count; i++)
        if (compare_hits(hit, &hits->list[i]) == 0)
            return;
    hits->count = at + 1;
    for (; at > 0 && compare_hits(hit, &hits->list[at - 1]) < 0; at--)
        hits->list[at] = hits->list[at - 1];
    hits->list[at] = *hit;
}

/* Finds the queries like this one; of very many, those around the place that the next tensor of the file has. */
static void find_queries(search *search, const query *like, size_t *begin, size_t *end)
{
    size_t low = 0, high = search->query_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_kinds(&search->queries[middle], like) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *begin = *end = low;
    while (*end < search->query_count && compare_kinds(&search->queries[*end], like) == 0)
        ++*end;
    if (*begin == *end)
        return;
    const size_t place = search->passed[low]++;
    const size_t count = *end - *begin;
    const size_t window = PAIR_COUNT_MAX / count + WINDOW_COUNT_MIN;
    if (count > window) {
        *begin += place > window / 2 ? lmc_min_size(place - window / 2, count) : 0;
        *end = lmc_min_size(*end, *begin + window);
    }
}

/* 1 if something that is as long is so near that head sketches need not be compared. */
static int is_settled(const st_index_hits *hits)
{
    return hits->count > 0 && !hits->list[0].is_head && hits->list[0].distance < hits->spread / 2;
}

/* Compares a sketch of a tensor of a file with those of the wanted ones. hit: what is known of the tensor. only: with
 * this wanted one, unless it is UINT32_MAX. */
static void compare_record(search *search, st_index_hit *hit, const query *like, uint32_t only)
{
    uint32_t distances[WINDOW_COUNT_MAX];
    size_t begin, end;
    find_queries(search, like, &begin, &end);
    if (begin == end)
        return;
    assert(end - begin <= WINDOW_COUNT_MAX);
    const unsigned dtype = search->wanted[search->queries[begin].wanted].dtype;
    st_sketch_distances(dtype, &hit->sketch, search->sketches[begin].bytes, sizeof(st_sketch), end - begin,
                        distances);
    for (size_t at = begin; at < end; at++) {
        const uint32_t wanted = search->queries[at].wanted;
        const st_index_tensor *const one = &search->wanted[wanted];
        st_index_hits *const hits = &search->hits[wanted];
        hit->distance = distances[at - begin];
        if (!is_near(hit->distance, spread_of(search, wanted, hit->is_head)) ||
            (only != UINT32_MAX && only != wanted) ||
            (hits->count == ST_INDEX_HIT_COUNT_MAX && hit->distance > hits->list[hits->count - 1].distance) ||
            (hit->is_head && (one->nbytes == hit->nbytes || is_settled(hits))))
            continue;
        hit->pair_count = (uint16_t)st_sketch_pair_count(dtype, one->nbytes, like->form, hit->is_head);
        hit->is_equal = like->form == LMC_BASE_PLAIN && !hit->is_head &&
                        memcmp(one->sketch.bytes, hit->sketch.bytes, sizeof one->sketch) == 0;
        add_hit(hits, hit);
    }
}

/* Compares all sketches of a tensor. */
static void compare_tensor(search *search, uint32_t file, const st_record *record, uint32_t only)
{
    query like = {st_record_kind(record), LMC_BASE_PLAIN, 0};
    st_sketch sketch;
    st_index_hit hit = {.file = file,
                        .tensor = record->tensor,
                        .nbytes = record->nbytes,
                        .content_hash = record->content_hash};
    memcpy(sketch.bytes, record->sketch, sizeof sketch);
    hit.sketch = sketch;
    compare_record(search, &hit, &like, only);
    if (record->dtype == LMC_DTYPE_F32) {
        like.form = LMC_BASE_BF16_OF_F32;
        hit.form = LMC_BASE_BF16_OF_F32;
        st_sketch_round(&sketch, &hit.sketch);
        compare_record(search, &hit, &like, only);
    }
    if (record->head) {
        like = (query){st_record_head_kind(record), LMC_BASE_PLAIN, 0};
        hit.form = LMC_BASE_PLAIN;
        hit.is_head = 1;
        memset(&hit.sketch, 0, sizeof hit.sketch);
        memcpy(hit.sketch.bytes, record->head, st_sketch_coarse_nbytes(record->dtype));
        compare_record(search, &hit, &like, only);
    }
}

/* Compares all tensors of a file, or those that are of a kind with the wanted one. */
static lmc_status compare_file(search *search, uint32_t file, uint32_t only)
{
    const int64_t key = file;
    sqlite3_stmt *statement;
    st_records records;
    st_record record;
    int has_row = 0;
    memset(search->passed, 0, search->query_count * sizeof *search->passed);
    LMC_TRY(st_sql_begin(&search->index->database, ST_SQL_FILE_TENSORS, &key, 1, &statement, search->diag));
    lmc_status status = st_sql_step(&search->index->database, statement, &has_row, search->diag);
    if (status == LMC_OK && has_row && sqlite3_column_type(statement, 1) == SQLITE_BLOB) {
        const unsigned char *const bytes = sqlite3_column_blob(statement, 1);
        status = st_records_open(&records, bytes, (size_t)sqlite3_column_bytes(statement, 1),
                                 sqlite3_column_int64(statement, 0), search->diag);
        while (status == LMC_OK && st_records_next(&records, &record))
            compare_tensor(search, file, &record, only);
    }
    st_sql_end(statement);
    return status;
}

/* The best files in full, then for each tensor the file of its nearest row, the most telling first. */
static lmc_status compare_files_found(search *search)
{
    const size_t in_full = lmc_min_size(search->file_count, FILE_COUNT_MAX);
    size_t count = 0;
    for (size_t i = 0; i < in_full; i++)
        LMC_TRY(compare_file(search, search->files[i].file, UINT32_MAX));
    scored_file *const singles = search->files + in_full;
    for (size_t i = 0; i < search->count; i++) {
        const near_list *const list = &search->near[i];
        size_t known = 0;
        while (list->count > 0 && known < in_full && search->files[known].file != list->rows[0].file)
            known++;
        if (list->count > 0 && known == in_full)
            singles[count++] = score_row(search, i, &list->rows[0]);
    }
    qsort(singles, count, sizeof *singles, compare_scores);
    for (size_t i = 0; i < lmc_min_size(count, SINGLE_COUNT_MAX); i++)
        LMC_TRY(compare_file(search, singles[i].file, singles[i].wanted));
    return LMC_OK;
}

lmc_status st_index_search(st_index *index, const st_index_tensor *wanted, size_t count,
                           st_index_allowed_fn is_allowed, void *user, st_index_hits *hits, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = index->memory;
    search *const search = st_allocate_zeroed(memory, 1, sizeof *search);
    if (!search)
        return st_fail_nomem(diag);
    search->index = index;
    search->wanted = wanted;
    search->count = count;
    search->is_allowed = is_allowed;
    search->user = user;
    search->hits = hits;
    search->diag = diag;
    search->head_spreads = st_allocate_zeroed(memory, count, sizeof *search->head_spreads);
    search->near = st_allocate_zeroed(memory, count, sizeof *search->near);
    search->queries = st_allocate_zeroed(memory, 3 * (uint64_t)count, sizeof *search->queries);
    search->sketches = st_allocate_zeroed(memory, 3 * (uint64_t)count, sizeof *search->sketches);
    search->passed = st_allocate_zeroed(memory, 3 * (uint64_t)count, sizeof *search->passed);
    search->groups = st_allocate_zeroed(memory, 3 * (uint64_t)count + 1, sizeof *search->groups);
    search->files = st_allocate_zeroed(memory, (NEAR_COUNT_MAX + 1) * (uint64_t)count, sizeof *search->files);
    lmc_status status = LMC_OK;
    if (!search->head_spreads || !search->near || !search->queries || !search->sketches || !search->passed ||
        !search->groups || !search->files)
        status = st_fail_nomem(diag);
    for (size_t i = 0; i < count && status == LMC_OK; i++) {
        hits[i].count = 0;
        hits[i].spread = st_sketch_spread(wanted[i].dtype, &wanted[i].sketch);
        search->head_spreads[i] = st_sketch_spread(wanted[i].dtype, &wanted[i].head);
    }
    if (status == LMC_OK) {
        list_queries(search);
        status = list_groups(search);
    }
    if (status == LMC_OK)
        status = find_near(search);
    if (status == LMC_OK) {
        score_files(search);
        status = compare_files_found(search);
    }
    st_release(memory, search->head_spreads);
    st_release(memory, search->near);
    st_release(memory, search->queries);
    st_release(memory, search->sketches);
    st_release(memory, search->passed);
    st_release(memory, search->groups);
    st_release(memory, search->files);
    st_release(memory, search);
    return status;
}

double st_index_predict(const st_index_tensor *wanted, const st_index_hit *hit)
{
    return st_sketch_delta_nbits(wanted->dtype, &hit->sketch, hit->is_head ? &wanted->head : &wanted->sketch,
                                 hit->pair_count);
}
