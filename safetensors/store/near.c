/*
 * near.c - looks for near rows: those of equal tensors, then kind by kind.
 */
#include "safetensors/store/near.h"

#include "lmc_experimental.h"
#include "safetensors/store/records.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Comparisons that a kind, and all kinds together, may take for an exact search: some milliseconds. */
#define EXACT_COUNT_MAX ((uint64_t)1 << 17)
#define EXACT_TOTAL_MAX ((uint64_t)1 << 19)

/* Probes, and rows after which the search ends if it has found a relative. A kind whose tensors are much smaller than
 * those of the first probe says little. */
#define PROBE_COUNT_MAX 8
#define PROBE_ROW_COUNT ((uint64_t)1 << 19)
#define PROBE_SIZE_LOG2 6

/* Equal tensors that are looked at, for an index where most belong to files that are not allowed. */
#define EQUAL_COUNT_MAX 64

/* Rows that are rounded at once. */
#define ROUNDED_COUNT 512

/* ---- queries ---- */

int st_query_compare(const st_query *a, const st_query *b)
{
    const int order = st_kind_compare(&a->kind, &b->kind);
    return order != 0 ? order : (a->form > b->form) - (a->form < b->form);
}

static int compare_queries(const void *left, const void *right)
{
    const st_query *const a = left;
    const st_query *const b = right;
    const int order = st_query_compare(a, b);
    return order != 0 ? order : (a->wanted > b->wanted) - (a->wanted < b->wanted);
}

static void list_queries(st_search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const st_record record = st_record_of(&search->wanted[i], i);
        st_query *const next = &search->queries[search->query_count];
        uint32_t added = 0;
        if (record.nbytes == 0)
            continue;
        next[added++] = (st_query){st_record_kind(&record), LMC_BASE_PLAIN, (uint32_t)i};
        if (record.head)
            next[added++] = (st_query){st_record_head_kind(&record), LMC_BASE_PLAIN, (uint32_t)i};
        for (int form = LMC_BASE_PLAIN + 1; form < LMC_BASE_FORM_COUNT; form++) {
            const lmc_rounding *const rounding = lmc_base_rounding((lmc_base_form)form);
            if (record.dtype == rounding->dtype && record.nbytes <= UINT64_MAX / 2 &&
                st_sketch_can_round((lmc_base_form)form, rounding->scale * record.nbytes))
                next[added++] = (st_query){
                    {.dtype = (uint16_t)rounding->base_dtype, .nbytes = rounding->scale * record.nbytes},
                    (lmc_base_form)form,
                    (uint32_t)i};
        }
        search->query_count += added;
    }
    qsort(search->queries, search->query_count, sizeof *search->queries, compare_queries);
    for (size_t i = 0; i < search->query_count; i++) {
        const st_query *const query = &search->queries[i];
        const st_index_tensor *const one = &search->wanted[query->wanted];
        search->sketches[i] = query->kind.row_nbytes > 0 ? one->head : one->sketch;
    }
}

/* ---- near rows ---- */

static lmc_status judge_file(st_search *search, uint32_t file, int *is_allowed)
{
    const int64_t key = file;
    sqlite3_stmt *statement;
    int has_row = 0;
    *is_allowed = search->verdicts[file % ST_VERDICT_COUNT].is_allowed;
    if (search->verdicts[file % ST_VERDICT_COUNT].file == file)
        return LMC_OK;
    *is_allowed = 0;
    LMC_TRY(st_sql_begin(&search->index->database, ST_SQL_FILE_MODEL, &key, 1, &statement, search->diag));
    const lmc_status status = st_sql_step(&search->index->database, statement, &has_row, search->diag);
    const char *const model =
        status == LMC_OK && has_row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (model)
        *is_allowed = !search->is_allowed || search->is_allowed(search->user, file, model);
    st_sql_end(statement);
    search->verdicts[file % ST_VERDICT_COUNT].file = file;
    search->verdicts[file % ST_VERDICT_COUNT].is_allowed = *is_allowed;
    return status;
}

/* Keeps a row if it is one of the nearest, and its file may be used. */
static lmc_status add_near(st_search *search, uint32_t wanted, st_near_row row)
{
    st_near_list *const list = &search->near[wanted];
    int is_allowed = 0;
    if (list->count == ST_NEAR_COUNT_MAX && row.distance >= list->rows[ST_NEAR_COUNT_MAX - 1].distance)
        return LMC_OK;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->rows[i].file == row.file && list->rows[i].tensor == row.tensor &&
            list->rows[i].form == row.form)
            return LMC_OK;
    LMC_TRY(judge_file(search, row.file, &is_allowed));
    if (!is_allowed)
        return LMC_OK;
    uint32_t at = list->count < ST_NEAR_COUNT_MAX ? list->count++ : ST_NEAR_COUNT_MAX - 1;
    for (; at > 0 && list->rows[at - 1].distance > row.distance; at--)
        list->rows[at] = list->rows[at - 1];
    list->rows[at] = row;
    return LMC_OK;
}

typedef struct scan {
    st_search *search;
    const st_query *queries;
    size_t query_count;
    unsigned char rounded[ROUNDED_COUNT * ST_SKETCH_PLACE_COUNT * 2];
} scan;

static lmc_status visit_rows(void *user, const unsigned char *rows, size_t count)
{
    scan *const scan = user;
    st_search *const search = scan->search;
    const st_kind *const kind = &scan->queries->kind;
    const int is_rounded = scan->queries->form != LMC_BASE_PLAIN;
    const size_t row_nbytes = st_coarse_row_nbytes(kind);
    const size_t stride_nbytes = is_rounded ? ST_SKETCH_PLACE_COUNT * 2 : row_nbytes;
    uint32_t distances[ROUNDED_COUNT];
    assert(count <= ROUNDED_COUNT);
    for (size_t i = 0; i < count && is_rounded; i++)
        lmc_base_round(scan->queries->form, rows + i * row_nbytes + ST_COARSE_HEAD_NBYTES,
                       ST_SKETCH_PLACE_COUNT, scan->rounded + i * stride_nbytes);
    for (size_t at = 0; at < scan->query_count; at++) {
        const st_query *const query = &scan->queries[at];
        const st_near_list *const list = &search->near[query->wanted];
        const uint32_t spread = st_search_spread(search, query->wanted, kind->row_nbytes > 0);
        st_sketch_distances(search->wanted[query->wanted].dtype, &search->sketches[query - search->queries],
                            is_rounded ? scan->rounded : rows + ST_COARSE_HEAD_NBYTES, stride_nbytes, count,
                            distances);
        for (size_t i = 0; i < count; i++) {
            if (!st_search_is_near(distances[i], spread) ||
                (list->count == ST_NEAR_COUNT_MAX &&
                 distances[i] >= list->rows[ST_NEAR_COUNT_MAX - 1].distance))
                continue;
            const st_near_row row = {lmc_load32(rows + i * row_nbytes), lmc_load32(rows + i * row_nbytes + 4),
                                     distances[i], (uint8_t)query->form, kind->row_nbytes > 0};
            LMC_TRY(add_near(search, query->wanted, row));
        }
    }
    return LMC_OK;
}

static lmc_status scan_group(st_search *search, const st_query_group *group, size_t query_count)
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

static lmc_status find_equal(st_search *search)
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
                status = add_near(search, (uint32_t)i,
                                  (st_near_row){(uint32_t)sqlite3_column_int64(statement, 0),
                                                (uint32_t)sqlite3_column_int64(statement, 1), 0,
                                                LMC_BASE_PLAIN, 0});
        } while (status == LMC_OK && has_row && search->near[i].count < ST_INDEX_HIT_COUNT_MAX);
        st_sql_end(statement);
        LMC_TRY(status);
        search->near[i].weight = (float)record.nbytes;
    }
    return LMC_OK;
}

static int compare_work(const void *left, const void *right)
{
    const st_query_group *const a = left;
    const st_query_group *const b = right;
    const uint64_t a_count = a->coarse.row_count * (a->end - a->begin);
    const uint64_t b_count = b->coarse.row_count * (b->end - b->begin);
    if (a_count != b_count)
        return a_count < b_count ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Larger tensors say more. */
static int compare_size(const void *left, const void *right)
{
    const st_query_group *const a = left;
    const st_query_group *const b = right;
    if (a->coarse.kind.nbytes != b->coarse.kind.nbytes)
        return a->coarse.kind.nbytes > b->coarse.kind.nbytes ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* 1 if a row is so near that it is of a relative, which chance does not bring about. */
static int has_relative(const st_search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const st_near_list *const list = &search->near[i];
        const uint32_t spread =
            list->count > 0 ? st_search_spread(search, (uint32_t)i, list->rows[0].is_head) : 0;
        if (list->count > 0 && list->rows[0].distance < spread - 3 * (spread / 8))
            return 1;
    }
    return 0;
}

/* Scans with one tensor of each of these groups, sketches or head sketches. */
static lmc_status probe(st_search *search, const st_query_group *groups, size_t count, int is_head)
{
    size_t probed = 0;
    uint64_t most_nbytes = 0, row_count = 0;
    for (size_t i = 0; i < count && probed < PROBE_COUNT_MAX; i++) {
        const st_coarse *const coarse = &groups[i].coarse;
        if ((coarse->kind.row_nbytes > 0) != is_head || coarse->kind.nbytes < most_nbytes >> PROBE_SIZE_LOG2)
            continue;
        if (row_count + coarse->row_count > PROBE_ROW_COUNT && (is_head || has_relative(search)))
            break;
        LMC_TRY(scan_group(search, &groups[i], 1));
        most_nbytes = probed++ == 0 ? coarse->kind.nbytes : most_nbytes;
        row_count += coarse->row_count;
    }
    return LMC_OK;
}

/* Head sketches of many matrices are only compared if the others say nothing, those of very many never: among so many
 * models there are some whose matrices are as large. */
lmc_status st_search_find_near(st_search *search)
{
    uint64_t total = 0;
    size_t exact = 0;
    LMC_TRY(find_equal(search));
    memcpy(search->order, search->groups, search->group_count * sizeof *search->order);
    qsort(search->order, search->group_count, sizeof *search->order, compare_work);
    for (; exact < search->group_count; exact++) {
        const st_query_group *const group = &search->order[exact];
        const uint64_t work = group->coarse.row_count * (group->end - group->begin);
        total += work;
        if (work > EXACT_COUNT_MAX || total > EXACT_TOTAL_MAX)
            break;
        LMC_TRY(scan_group(search, group, group->end - group->begin));
    }
    st_query_group *const rest = search->order + exact;
    const size_t rest_count = search->group_count - exact;
    qsort(rest, rest_count, sizeof *rest, compare_size);
    LMC_TRY(probe(search, rest, rest_count, 0));
    return has_relative(search) ? LMC_OK : probe(search, rest, rest_count, 1);
}

/* ---- the search ---- */

lmc_status st_search_init(st_search *search, st_index *index, const st_index_tensor *wanted, size_t count,
                          st_index_hits *hits, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = index->memory;
    const uint64_t most = 4 * (uint64_t)count; /* of an F16 tensor: its own, the head's, of F32 and of BF16 */
    memset(search, 0, sizeof *search);
    search->index = index;
    search->wanted = wanted;
    search->count = count;
    search->hits = hits;
    search->diag = diag;
    search->head_spreads = st_allocate_zeroed(memory, count, sizeof *search->head_spreads);
    search->near = st_allocate_zeroed(memory, count, sizeof *search->near);
    search->queries = st_allocate_zeroed(memory, most, sizeof *search->queries);
    search->sketches = st_allocate_zeroed(memory, most, sizeof *search->sketches);
    search->groups = st_allocate_zeroed(memory, most, sizeof *search->groups);
    search->order = st_allocate_zeroed(memory, most, sizeof *search->order);
    if (!search->head_spreads || !search->near || !search->queries || !search->sketches || !search->groups ||
        !search->order)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < count; i++) {
        hits[i].count = 0;
        hits[i].spread = st_sketch_spread(wanted[i].dtype, &wanted[i].sketch);
        search->head_spreads[i] = st_sketch_spread(wanted[i].dtype, &wanted[i].head);
    }
    list_queries(search);
    for (size_t i = 0; i < search->query_count;) {
        st_query_group *const group = &search->groups[search->group_count++];
        *group = (st_query_group){.like = search->queries[i], .begin = i};
        while (i < search->query_count && st_query_compare(&search->queries[i], &group->like) == 0)
            i++;
        group->end = i;
        LMC_TRY(st_coarse_find(&index->database, &group->like.kind, &group->coarse, diag));
    }
    return LMC_OK;
}

void st_search_free(st_search *search)
{
    const lmc_allocator *const memory = search->index->memory;
    st_release(memory, search->head_spreads);
    st_release(memory, search->near);
    st_release(memory, search->queries);
    st_release(memory, search->sketches);
    st_release(memory, search->groups);
    st_release(memory, search->order);
}
