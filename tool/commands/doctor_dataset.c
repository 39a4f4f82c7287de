/*
 * doctor_dataset.c - see commands/doctor_dataset.h.
 */
#include "tool/commands/doctor_dataset.h"

#include "safetensors/common/text.h"
#include "tool/json.h"
#include "tool/show.h"

#include <lmc_h5.h>
#include <stdio.h>
#include <string.h>

#define NAME_SHOWN_NBYTES 256 /* longer names are cut in the text; --json gives them whole */

static const char *const layout_names[HDF5_LAYOUTS] = {"compact", "contiguous", "chunked", "virtual"};

/* HDF5's own by their short names. What LMC is called in files is an advice to those who lack it. */
static const char *filter_name(const hdf5_filter *filter)
{
    switch (filter->id) {
    case 1: return "deflate";
    case 2: return "shuffle";
    case 3: return "fletcher32";
    case 4: return "szip";
    case 5: return "nbit";
    case 6: return "scaleoffset";
    case LMC_H5_FILTER_ID: return "lmc";
    default: return filter->name;
    }
}

uint64_t doctor_dataset_lacking(const doctor_dataset *dataset)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < dataset->filter_count; i++) {
        const hdf5_filter *const filter = &dataset->filters[i];
        if (filter->id == LMC_H5_FILTER_ID && filter->skipped_count > most)
            most = filter->skipped_count;
    }
    return most;
}

uint64_t doctor_dataset_unexamined(const doctor_dataset *dataset)
{
    const hdf5_dataset *const numbers = dataset->numbers;
    for (unsigned i = 0; i < dataset->filter_count; i++)
        if (dataset->filters[i].id == LMC_H5_FILTER_ID && numbers->examined_count < numbers->chunk_count)
            return numbers->chunk_count - numbers->examined_count;
    return 0;
}

/* ---- JSON ---- */

static void print_json_shape(const char *key, const uint64_t *shape, int rank)
{
    printf(",\"%s\":%s", key, rank < 0 ? "null" : "[");
    for (int i = 0; i < rank; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)shape[i]);
    printf(rank < 0 ? "" : "]");
}

static void print_json_filter(const hdf5_filter *filter)
{
    printf("{\"id\":%d,\"name\":", filter->id);
    cli_json_string(filter->name, strlen(filter->name));
    printf(",\"optional\":%s,\"skipped_chunks\":%llu,\"values\":[", filter->is_optional ? "true" : "false",
           (unsigned long long)filter->skipped_count);
    for (unsigned i = 0; i < filter->value_count && i < HDF5_VALUES_MAX; i++)
        printf("%s%u", i == 0 ? "" : ",", filter->values[i]);
    printf("]}");
}

void doctor_dataset_show_json(const doctor_dataset *dataset)
{
    const hdf5_dataset *const numbers = dataset->numbers;
    const int chunk_rank = numbers->layout == HDF5_CHUNKED ? numbers->rank : -1;
    printf("{\"name\":");
    cli_json_string(dataset->name, dataset->name_nbytes);
    printf(",\"type\":");
    cli_json_string(numbers->type, strlen(numbers->type));
    print_json_shape("shape", numbers->shape, numbers->rank);
    printf(",\"layout\":\"%s\"", layout_names[numbers->layout]);
    print_json_shape("chunk_shape", numbers->chunk_shape, chunk_rank);
    printf(",\"chunks\":%llu,\"chunks_examined\":%llu,\"chunks_without_lmc\":%llu",
           (unsigned long long)numbers->chunk_count, (unsigned long long)numbers->examined_count,
           (unsigned long long)doctor_dataset_lacking(dataset));
    printf(",\"chunks_of_wrong_size\":%llu,\"chunks_of_unknown_size\":%llu,\"edges_unfiltered\":%s",
           (unsigned long long)numbers->wrong_size_count, (unsigned long long)numbers->unknown_size_count,
           numbers->leaves_edges ? "true" : "false");
    if (numbers->is_size_known)
        printf(",\"nbytes\":%llu", (unsigned long long)numbers->nbytes);
    else
        printf(",\"nbytes\":null");
    printf(",\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)numbers->stored_nbytes);
    cli_json_ratio(numbers->stored_nbytes, numbers->is_size_known ? numbers->nbytes : 0);
    printf(",\"filters\":[");
    for (unsigned i = 0; i < dataset->filter_count; i++) {
        printf(i == 0 ? "" : ",");
        print_json_filter(&dataset->filters[i]);
    }
    printf("]}");
}

/* ---- text ---- */

static void show_shape(const uint64_t *shape, int rank)
{
    char shown[128] = "nothing";
    const lmc_st_tensor tensor = {.rank = rank > 0 ? (size_t)rank : 0, .shape = shape};
    if (rank >= 0)
        cli_show_shape(&tensor, shown, sizeof(shown));
    printf("%s", shown);
}

static void show_sizes(const hdf5_dataset *numbers)
{
    if (numbers->is_size_known)
        printf(", %llu bytes", (unsigned long long)numbers->nbytes);
    printf(", stored %llu", (unsigned long long)numbers->stored_nbytes);
    if (numbers->is_size_known && numbers->nbytes > 0)
        printf(", ratio %.4f", (double)numbers->stored_nbytes / (double)numbers->nbytes);
}

/* Rows are the one setting of LMC that a reader of the file may want to know of. */
static void show_rows(const hdf5_filter *filter)
{
    const unsigned level = filter->value_count > LMC_H5_VALUE_LEVEL ? filter->values[LMC_H5_VALUE_LEVEL] : 0;
    if (filter->id != LMC_H5_FILTER_ID || (level & LMC_H5_LEVEL_ROWS) == 0)
        return;
    printf(", level %u with rows", level);
    if (filter->value_count > LMC_H5_VALUE_ROWS && filter->values[LMC_H5_VALUE_MAGIC] == LMC_H5_MAGIC)
        printf(": %u in a chunk", filter->values[LMC_H5_VALUE_ROWS]);
}

static void show_filters(const doctor_dataset *dataset)
{
    char shown[48];
    printf("  filters: ");
    for (unsigned i = 0; i < dataset->filter_count; i++) {
        const hdf5_filter *const filter = &dataset->filters[i];
        const char *const name = filter_name(filter);
        st_text_escape(shown, sizeof(shown), name, strlen(name));
        printf("%s%s%d", i == 0 ? "" : ", ", shown[0] != '\0' ? "" : "number ", filter->id);
        if (shown[0] != '\0')
            printf(" %s", shown);
        show_rows(filter);
        if (filter->skipped_count > 0) {
            printf(" (skipped in %llu of %llu chunks)", (unsigned long long)filter->skipped_count,
                   (unsigned long long)dataset->numbers->examined_count);
        }
    }
    printf("%s\n", dataset->numbers->leaves_edges ? "; chunks at the edges have none, as asked for" : "");
}

void doctor_dataset_show(const doctor_dataset *dataset)
{
    char shown[NAME_SHOWN_NBYTES];
    const hdf5_dataset *const numbers = dataset->numbers;
    st_text_escape(shown, sizeof(shown), dataset->name, dataset->name_nbytes);
    printf("%s: %s ", shown, numbers->type);
    show_shape(numbers->shape, numbers->rank);
    show_sizes(numbers);
    if (numbers->layout != HDF5_CHUNKED) {
        printf(", %s\n", layout_names[numbers->layout]);
        return;
    }
    printf("\n  %llu chunks of ", (unsigned long long)numbers->chunk_count);
    show_shape(numbers->chunk_shape, numbers->rank);
    if (dataset->filter_count > 0 && numbers->examined_count < numbers->chunk_count)
        printf(", %llu of them looked at", (unsigned long long)numbers->examined_count);
    if (numbers->unknown_size_count > 0)
        printf(", %llu of unknown size", (unsigned long long)numbers->unknown_size_count);
    printf("\n");
    if (dataset->filter_count > 0)
        show_filters(dataset);
}
