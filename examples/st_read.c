/*
 * st_read.c - what is in a safetensors file or an archive of one, and the content of a tensor: whole and in part.
 *
 *     cc st_read.c -o st_read $(pkg-config --cflags --libs lmc_st)
 *     ./st_read FILE [TENSOR]
 *
 * Plain files and archives are read by the same calls: a program that loads models need not care which it has.
 */
#include <inttypes.h>
#include <lmc_st.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_NBYTES 8

/* Names come from whoever made the file: what could move a terminal's cursor is not printed. */
static void print_text(const char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
}

static void complain(const lmc_st_diag *diag)
{
    fprintf(stderr, "%s: %s%s%s%s\n", diag->file, diag->has_tensor ? "tensor " : "", diag->tensor,
            diag->has_tensor ? ": " : "", diag->text);
}

static void print_metadata(const lmc_st_file *file)
{
    for (uint64_t i = 0; i < lmc_st_metadata_count(file); i++) {
        const char *key, *value;
        size_t key_nbytes, value_nbytes;
        if (lmc_st_metadata(file, i, &key, &key_nbytes, &value, &value_nbytes) == LMC_OK) {
            print_text(key, key_nbytes);
            printf(" = ");
            print_text(value, value_nbytes);
            printf("\n");
        }
    }
}

static void print_tensors(const lmc_st_file *file)
{
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        if (lmc_st_tensor_info(file, i, &tensor) != LMC_OK)
            continue; /* only for a number that is none */
        printf("%-8s [", tensor.dtype_name);
        for (size_t j = 0; j < tensor.rank; j++)
            printf("%s%" PRIu64, j == 0 ? "" : ", ", tensor.shape[j]);
        printf("]  %" PRIu64 " bytes, %" PRIu64 " in the file  ", tensor.nbytes, tensor.stored_nbytes);
        print_text(tensor.name, tensor.name_nbytes);
        printf("\n");
    }
}

/* Reads a tensor of a file whole. The call opens the file and closes it. Returns 1 if it could be had. */
static int load_tensor(const char *path, const char *name)
{
    void *content;
    size_t nbytes;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (lmc_st_load_tensor(path, name, NULL, &content, &nbytes, &diag) != LMC_OK) {
        complain(&diag);
        return 0;
    }
    printf("%zu bytes\n", nbytes);
    free(content);
    return 1;
}

/* Reads the last bytes of a tensor by themselves: of an archive, only the block that holds them is decoded. Returns 1
 * if they could be had. */
static int read_end(const lmc_st_file *file, uint64_t index)
{
    unsigned char range[RANGE_NBYTES];
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (lmc_st_tensor_info(file, index, &tensor) != LMC_OK)
        return 0;
    const size_t nbytes = tensor.nbytes < RANGE_NBYTES ? (size_t)tensor.nbytes : RANGE_NBYTES;
    /* NULL: a context for this call alone. A thread that reads many tensors makes one with lmc_ctx_create(). */
    if (lmc_st_read_range(file, NULL, index, tensor.nbytes - nbytes, nbytes, range, &diag) != LMC_OK) {
        complain(&diag);
        return 0;
    }
    printf("the last ones:");
    for (size_t i = 0; i < nbytes; i++)
        printf(" %02x", range[i]);
    printf("\n");
    return 1;
}

int main(int argc, char **argv)
{
    lmc_st_file *file;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint64_t index;
    int is_done = 1;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: st_read FILE [TENSOR]\n");
        return 2;
    }
    if (lmc_st_open(argv[1], NULL, &file, &diag) != LMC_OK) {
        complain(&diag);
        return 1;
    }
    printf("%s: %s, %" PRIu64 " tensors, %" PRIu64 " bytes of %" PRIu64 "\n", argv[1],
           lmc_st_is_archive(file) ? "an archive" : "a safetensors file", lmc_st_tensor_count(file),
           lmc_st_stored_nbytes(file), lmc_st_original_nbytes(file));
    if (argc == 2) {
        print_metadata(file);
        print_tensors(file);
    } else if (lmc_st_find_tensor(file, argv[2], &index)) {
        is_done = load_tensor(argv[1], argv[2]) && read_end(file, index);
    } else {
        fprintf(stderr, "%s: no tensor of this name\n", argv[2]);
        is_done = 0;
    }
    lmc_st_close(file);
    return is_done ? 0 : 1;
}
