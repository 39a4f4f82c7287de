/*
 * index_search.c - the search for bases: the files that near rows name, and which of them are compared in full.
 */
#include "safetensors/store/near.h"
#include "safetensors/store/records.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Files that are compared in full, further ones that one tensor is near to, and files whose head sketches are
 * compared. */
#define FILE_COUNT_MAX 32
#define SINGLE_COUNT_MAX 96
#define HEAD_FILE_COUNT_MAX 8

/* Pairs of tensors of one kind that are compared for a file. Of more, each tensor is compared with those that have
 * about its place in the order of the kind, at least so many. */
#define PAIR_COUNT_MAX ((size_t)1 << 16)
#define WINDOW_COUNT_MIN 8
#define WINDOW_COUNT_MAX 512

#define ALL UINT32_MAX

typedef struct scored_file {
    double score;
    uint32_t file, wanted;
} scored_file;

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

static scored_file score_row(const st_search *search, size_t wanted, const st_near_row *row)
{
    const uint32_t spread = st_search_spread(search, (uint32_t)wanted, row->is_head);
    const uint32_t gain = spread > row->distance ? spread - row->distance : 0;
    return (scored_file){(double)(gain + 1) * (double)search->near[wanted].weight, row->file,
                         (uint32_t)wanted};
}

/* Sums up what the tensors say about each file; the best come first. Returns how many there are. */
static size_t score_files(const st_search *search, scored_file *files)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < search->count; i++) {
        const st_near_list *const list = &search->near[i];
        for (uint32_t j = 0; j < list->count; j++) {
            uint32_t before = 0;
            while (before < j && list->rows[before].file != list->rows[j].file)
                before++;
            if (before == j)
                files[count++] = score_row(search, i, &list->rows[j]);
        }
    }
    qsort(files, count, sizeof *files, compare_files);
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && files[kept - 1].file == files[i].file)
            files[kept - 1].score += files[i].score;
        else
            files[kept++] = files[i];
    qsort(files, kept, sizeof *files, compare_scores);
    return kept;
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

/* The queries like this one, or NULL. */
static st_query_group *find_group(st_search *search, const st_query *like)
{
    size_t begin = 0, end = search->group_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (st_query_compare(&search->groups[middle].like, like) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < search->group_count && st_query_compare(&search->groups[begin].like, like) == 0
               ? &search->groups[begin]
               : NULL;
}

/* 1 if something that is as long is so near that head sketches need not be compared. */
static int is_settled(const st_index_hits *hits)
{
    return hits->count > 0 && !hits->list[0].is_head && hits->list[0].distance < hits->spread / 2;
}

/* Adds a hit for a wanted tensor if it is near. hit->distance is known. */
static void judge_hit(st_search *search, uint32_t wanted, st_index_hit *hit)
{
    const st_index_tensor *const one = &search->wanted[wanted];
    st_index_hits *const hits = &search->hits[wanted];
    if (!st_search_is_near(hit->distance, st_search_spread(search, wanted, hit->is_head)) ||
        (hits->count == ST_INDEX_HIT_COUNT_MAX && hit->distance > hits->list[hits->count - 1].distance))
        return;
    hit->pair_count =
        (uint16_t)st_sketch_pair_count(one->dtype, one->nbytes, (lmc_base_form)hit->form, hit->is_head);
    hit->is_equal = hit->form == LMC_BASE_PLAIN && !hit->is_head &&
                    memcmp(one->sketch.bytes, hit->sketch.bytes, sizeof one->sketch) == 0;
    add_hit(hits, hit);
}

/* Compares a sketch of a tensor of a file with those of the wanted ones, of very many with those that have about the
 * tensor's place among its kind. hit: what is known of the tensor. only: with this wanted one, unless it is ALL. */
static void compare_sketch(st_search *search, st_index_hit *hit, const st_query *like, uint32_t only)
{
    uint32_t distances[WINDOW_COUNT_MAX];
    st_query_group *const group = find_group(search, like);
    if (!group)
        return;
    const size_t place = group->passed++;
    const size_t window = PAIR_COUNT_MAX / (group->end - group->begin) + WINDOW_COUNT_MIN;
    size_t begin = group->begin, end = group->end;
    if (end - begin > window) {
        begin += place > window / 2 ? lmc_min_size(place - window / 2, end - begin) : 0;
        end = lmc_min_size(end, begin + window);
    }
    assert(end - begin <= WINDOW_COUNT_MAX);
    const unsigned dtype = search->wanted[group->like.wanted].dtype;
    const int is_each = hit->is_head || only != ALL; /* most pairs are left out */
    if (!is_each)
        st_sketch_distances(dtype, &hit->sketch, search->sketches[begin].bytes, sizeof(st_sketch),
                            end - begin, distances);
    for (size_t at = begin; at < end; at++) {
        const uint32_t wanted = search->queries[at].wanted;
        if (only != ALL && only != wanted)
            continue;
        if (hit->is_head &&
            (search->wanted[wanted].nbytes == hit->nbytes || is_settled(&search->hits[wanted])))
            continue;
        if (is_each)
            st_sketch_distances(dtype, &hit->sketch, search->sketches[at].bytes, 0, 1,
                                &distances[at - begin]);
        hit->distance = distances[at - begin];
        judge_hit(search, wanted, hit);
    }
}

/* Compares the head sketch of a tensor, or what else there is of it. */
static void compare_tensor(st_search *search, uint32_t file, const st_record *record, int is_head,
                           uint32_t only)
{
    st_query like = {st_record_kind(record), LMC_BASE_PLAIN, 0};
    st_index_hit hit = {.file = file,
                        .tensor = record->tensor,
                        .nbytes = record->nbytes,
                        .content_hash = record->content_hash};
    if (is_head && record->head) {
        like.kind = st_record_head_kind(record);
        hit.is_head = 1;
        memcpy(hit.sketch.bytes, record->head, st_sketch_coarse_nbytes(record->dtype));
        compare_sketch(search, &hit, &like, only);
        return;
    }
    if (is_head)
        return;
    memcpy(hit.sketch.bytes, record->sketch, sizeof hit.sketch);
    compare_sketch(search, &hit, &like, only);
    const st_sketch sketch = hit.sketch;
    for (int form = LMC_BASE_PLAIN + 1; form < LMC_BASE_FORM_COUNT; form++) {
        if (record->dtype != lmc_base_rounding((lmc_base_form)form)->base_dtype)
            continue;
        like.form = (lmc_base_form)form;
        hit.form = (uint8_t)form;
        st_sketch_round(like.form, &sketch, &hit.sketch);
        compare_sketch(search, &hit, &like, only);
    }
}

/* Compares all tensors of a file. */
static lmc_status compare_file(st_search *search, uint32_t file, int is_head, uint32_t only)
{
    const int64_t key = file;
    sqlite3_stmt *statement;
    st_records records;
    st_record record;
    int has_row = 0;
    for (size_t i = 0; i < search->group_count; i++)
        search->groups[i].passed = 0;
    LMC_TRY(st_sql_begin(&search->index->database, ST_SQL_FILE_TENSORS, &key, 1, &statement, search->diag));
    lmc_status status = st_sql_step(&search->index->database, statement, &has_row, search->diag);
    if (status == LMC_OK && has_row && sqlite3_column_type(statement, 1) == SQLITE_BLOB) {
        const unsigned char *const bytes = sqlite3_column_blob(statement, 1);
        status = st_records_open(&records, bytes, (size_t)sqlite3_column_bytes(statement, 1),
                                 sqlite3_column_int64(statement, 0), search->diag);
        while (status == LMC_OK && st_records_next(&records, &record))
            compare_tensor(search, file, &record, is_head, only);
    }
    st_sql_end(statement);
    return status;
}

/* The nearest row of each tensor whose file is not among the first file_count: most telling first. Returns how many. */
static size_t list_singles(const st_search *search, scored_file *files, size_t file_count)
{
    scored_file *const singles = files + file_count;
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++) {
        const st_near_list *const list = &search->near[i];
        size_t known = 0;
        while (list->count > 0 && known < file_count && files[known].file != list->rows[0].file)
            known++;
        if (list->count > 0 && known == file_count)
            singles[count++] = score_row(search, i, &list->rows[0]);
    }
    qsort(singles, count, sizeof *singles, compare_scores);
    return count;
}

/* The best files in full, then for each tensor the file of its nearest row. */
static lmc_status compare_near_files(st_search *search, scored_file *files)
{
    const size_t file_count = lmc_min_size(score_files(search, files), FILE_COUNT_MAX);
    const size_t single_count = lmc_min_size(list_singles(search, files, file_count), SINGLE_COUNT_MAX);
    int is_unsettled = 0;
    for (size_t i = 0; i < file_count; i++)
        LMC_TRY(compare_file(search, files[i].file, 0, ALL));
    for (size_t i = file_count; i < file_count + single_count; i++)
        LMC_TRY(compare_file(search, files[i].file, search->near[files[i].wanted].rows[0].is_head,
                             files[i].wanted));
    for (size_t i = 0; i < search->count; i++)
        is_unsettled |= search->wanted[i].has_head && !is_settled(&search->hits[i]);
    for (size_t i = 0; i < lmc_min_size(file_count, HEAD_FILE_COUNT_MAX) && is_unsettled; i++)
        LMC_TRY(compare_file(search, files[i].file, 1, ALL));
    return LMC_OK;
}

lmc_status st_index_search(st_index *index, const st_index_tensor *wanted, size_t count,
                           st_index_allowed_fn is_allowed, void *user, st_index_hits *hits, lmc_st_diag *diag)
{
    st_search *const search = st_allocate(index->memory, sizeof *search);
    scored_file *const files =
        st_allocate_array(index->memory, (ST_NEAR_COUNT_MAX + 1) * (uint64_t)count, sizeof *files);
    lmc_status status = LMC_OK;
    if (!search || !files) {
        status = st_fail_nomem(diag);
    } else {
        status = st_search_init(search, index, wanted, count, hits, diag);
        search->is_allowed = is_allowed;
        search->user = user;
        if (status == LMC_OK)
            status = st_search_find_near(search);
        if (status == LMC_OK)
            status = compare_near_files(search, files);
        st_search_free(search);
    }
    st_release(index->memory, files);
    st_release(index->memory, search);
    return status;
}

int st_index_compare(const st_index_tensor *wanted, const st_index_tensor *tensor, uint32_t limit,
                     st_index_hit *hit)
{
    st_sketch rounded;
    uint32_t distance;
    const lmc_base_form form = st_sketch_form(wanted->dtype, tensor->dtype);
    const int is_rounded = form != LMC_BASE_PLAIN && tensor->nbytes / st_base_scale(form) == wanted->nbytes &&
                           st_sketch_can_round(form, tensor->nbytes);
    const int is_plain = wanted->dtype == tensor->dtype && wanted->nbytes == tensor->nbytes;
    const int is_head = !is_plain && wanted->dtype == tensor->dtype && wanted->has_head && tensor->has_head &&
                        wanted->row_nbytes == tensor->row_nbytes &&
                        st_sketch_head_nbytes(wanted->nbytes) == st_sketch_head_nbytes(tensor->nbytes);
    if (!is_rounded && !is_plain && !is_head)
        return 0;
    if (is_rounded)
        st_sketch_round(form, &tensor->sketch, &rounded);
    const st_sketch *const sketch = is_rounded ? &rounded : is_head ? &tensor->head : &tensor->sketch;
    st_sketch_distances(wanted->dtype, is_head ? &wanted->head : &wanted->sketch, sketch->bytes, 0, 1,
                        &distance);
    if (distance >= limit)
        return 0;
    *hit = (st_index_hit){.form = (uint8_t)(is_rounded ? form : LMC_BASE_PLAIN),
                          .is_head = (uint8_t)is_head,
                          .distance = distance,
                          .nbytes = tensor->nbytes,
                          .content_hash = tensor->content_hash,
                          .sketch = *sketch};
    hit->pair_count =
        (uint16_t)st_sketch_pair_count(wanted->dtype, wanted->nbytes, (lmc_base_form)hit->form, is_head);
    hit->is_equal = is_plain && memcmp(wanted->sketch.bytes, hit->sketch.bytes, sizeof hit->sketch) == 0;
    return 1;
}

double st_index_predict(const st_index_tensor *wanted, const st_index_hit *hit)
{
    return st_sketch_delta_nbits(wanted->dtype, &hit->sketch, hit->is_head ? &wanted->head : &wanted->sketch,
                                 hit->pair_count);
}
