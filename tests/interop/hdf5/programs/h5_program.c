/*
 * h5_program.c - a C program that uses HDF5 and knows of LMC no more than its number. It is linked to a shared
 * libhdf5, and to a static one with and without its symbols exported.
 *
 *   h5_program write FILE.h5 CONTENT FLAGS VALUE...   writes the f4 numbers of CONTENT as the dataset "w"
 *   h5_program read FILE.h5 CONTENT                   writes the numbers of "w" into CONTENT
 *
 * It prints the values of the filter as HDF5 keeps them and the bytes that the chunks take, or, with exit status 1, a
 * line "error: ..." for each entry of HDF5's error stack.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER 59810
#define COLUMNS 4096
#define CHUNK_ROWS 16
#define VALUES_MAX 16

static herr_t print_entry(unsigned number, const H5E_error2_t *entry, void *data)
{
    (void)number;
    (void)data;
    printf("error: %s: %s\n", entry->func_name, entry->desc);
    return 0;
}

static void require(int is_good, const char *what)
{
    if (!is_good) {
        printf("failed: %s\n", what);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, print_entry, NULL);
        exit(1);
    }
}

static void *read_content(const char *path, size_t *nbytes)
{
    FILE *const file = fopen(path, "rb");
    require(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    *nbytes = (size_t)ftell(file);
    void *const content = malloc(*nbytes);
    rewind(file);
    require(content != NULL && fread(content, 1, *nbytes, file) == *nbytes, path);
    fclose(file);
    return content;
}

static void print_filter(hid_t dataset)
{
    unsigned values[VALUES_MAX];
    size_t count = VALUES_MAX;
    unsigned flags;
    const hid_t plist = H5Dget_create_plist(dataset);
    require(H5Pget_filter_by_id2(plist, FILTER, &flags, &count, values, 0, NULL, NULL) >= 0,
            "the filter's values");
    printf("values:");
    for (size_t i = 0; i < count && i < VALUES_MAX; i++)
        printf(" %u", values[i]);
    printf("\nstored: %llu\n", (unsigned long long)H5Dget_storage_size(dataset));
    H5Pclose(plist);
}

static void write_file(const char *path, const char *content_path, unsigned flags, const unsigned *values,
                       size_t count)
{
    size_t nbytes;
    void *const content = read_content(content_path, &nbytes);
    const hsize_t dimensions[2] = {nbytes / (COLUMNS * 4), COLUMNS};
    const hsize_t chunk[2] = {CHUNK_ROWS, COLUMNS};
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, dimensions, NULL);
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    require(file >= 0 && H5Pset_chunk(plist, 2, chunk) >= 0, "setting up");
    require(H5Pset_filter(plist, FILTER, flags, count, values) >= 0, "setting the filter");
    const hid_t dataset = H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    require(dataset >= 0, "creating the dataset");
    require(H5Dwrite(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, content) >= 0, "writing");
    require(H5Fflush(file, H5F_SCOPE_LOCAL) >= 0, "flushing");
    print_filter(dataset);
    require(H5Dclose(dataset) >= 0 && H5Pclose(plist) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0,
            "closing");
    free(content);
}

static void read_file(const char *path, const char *content_path)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = file >= 0 ? H5Dopen2(file, "w", H5P_DEFAULT) : -1;
    require(dataset >= 0, "opening");
    const hid_t space = H5Dget_space(dataset);
    const size_t nbytes = 4 * (size_t)H5Sget_simple_extent_npoints(space);
    void *const content = malloc(nbytes);
    require(content != NULL, "memory");
    require(H5Dread(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, content) >= 0, "reading");
    print_filter(dataset);
    FILE *const output = fopen(content_path, "wb");
    require(output != NULL && fwrite(content, 1, nbytes, output) == nbytes && fclose(output) == 0,
            content_path);
    require(H5Sclose(space) >= 0 && H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "closing");
    free(content);
}

int main(int argc, char **argv)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (argc >= 5 && strcmp(argv[1], "write") == 0) {
        unsigned values[VALUES_MAX];
        size_t count = 0;
        for (int i = 5; i < argc && count < VALUES_MAX; i++)
            values[count++] = (unsigned)strtoul(argv[i], NULL, 0);
        write_file(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 0), values, count);
    } else if (argc == 4 && strcmp(argv[1], "read") == 0) {
        read_file(argv[2], argv[3]);
    } else {
        fprintf(stderr, "usage: see the head of the source\n");
        return 2;
    }
    return 0;
}
