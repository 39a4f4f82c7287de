/*
 * h5_program.c - a program of Windows that calls the HDF5 of another package's wheel: it was compiled with another C
 * runtime than this program.
 *
 *   h5_program.exe hdf5.dll write FILE            writes a dataset with the filter, which HDF5_PLUGIN_PATH leads to
 *   h5_program.exe hdf5.dll read FILE [FOLDER]    reads it; FOLDER is given to H5PLappend() first
 *
 * The exit status is 0 if all went well; else the line of this file that failed is printed.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <windows.h>

#define FILTER_ID 59810
#define ROWS 256
#define COLUMNS 512
#define COUNT (ROWS * COLUMNS)

typedef int64_t hid;

static HMODULE hdf5;

static void *find(const char *name)
{
    void *const found = (void *)GetProcAddress(hdf5, name);
    if (!found) {
        printf("hdf5.dll has no %s\n", name);
        ExitProcess(2);
    }
    return found;
}

#define CALL(result, name, ...) ((result(*)(__VA_ARGS__))find(name))
#define CHECK(condition)                   \
    do {                                   \
        if (!(condition)) {                \
            printf("line %d\n", __LINE__); \
            return 1;                      \
        }                                  \
    } while (0)

/* Test content: bf16 numbers in f32 would be stored narrow; these are not. */
static float value_of(uint32_t i)
{
    return (float)((i * 2654435761u) >> 12) / 1048576.0f;
}

static int write_file(const char *path)
{
    static float values[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = value_of(i);
    const uint64_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {ROWS / 2, COLUMNS};
    const hid number = *(hid *)find("H5T_IEEE_F32LE_g");
    const hid properties = CALL(hid, "H5Pcreate", hid)(*(hid *)find("H5P_CLS_DATASET_CREATE_ID_g"));
    CHECK(CALL(int, "H5Pset_chunk", hid, int, const uint64_t *)(properties, 2, chunk) >= 0);
    CHECK(CALL(int, "H5Pset_filter", hid, int, unsigned, size_t, const unsigned *)(properties, FILTER_ID, 0,
                                                                                   0, NULL) >= 0);
    const hid file = CALL(hid, "H5Fcreate", const char *, unsigned, hid, hid)(path, 2, 0, 0);
    const hid space = CALL(hid, "H5Screate_simple", int, const uint64_t *, const uint64_t *)(2, shape, NULL);
    const hid dataset = CALL(hid, "H5Dcreate2", hid, const char *, hid, hid, hid, hid,
                             hid)(file, "w", number, space, 0, properties, 0);
    CHECK(dataset >= 0);
    CHECK(CALL(int, "H5Dwrite", hid, hid, hid, hid, hid, const void *)(dataset, number, 0, 0, 0, values) >=
          0);
    CHECK(CALL(uint64_t, "H5Dget_storage_size", hid)(dataset) < sizeof values);
    CHECK(CALL(int, "H5Dclose", hid)(dataset) >= 0);
    CHECK(CALL(int, "H5Fclose", hid)(file) >= 0);
    return 0;
}

static int read_file(const char *path)
{
    static float values[COUNT];
    const hid file = CALL(hid, "H5Fopen", const char *, unsigned, hid)(path, 0, 0);
    CHECK(file >= 0);
    const hid dataset = CALL(hid, "H5Dopen2", hid, const char *, hid)(file, "w", 0);
    CHECK(dataset >= 0);
    CHECK(CALL(int, "H5Dread", hid, hid, hid, hid, hid, void *)(dataset, *(hid *)find("H5T_IEEE_F32LE_g"), 0,
                                                                0, 0, values) >= 0);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(values[i] == value_of(i));
    CHECK(CALL(int, "H5Dclose", hid)(dataset) >= 0);
    CHECK(CALL(int, "H5Fclose", hid)(file) >= 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    hdf5 = LoadLibraryExA(argv[1], NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    CHECK(hdf5 != NULL);
    CHECK(CALL(int, "H5open", void)() >= 0);
    if (argc > 4)
        CHECK(CALL(int, "H5PLappend", const char *)(argv[4]) >= 0);
    return strcmp(argv[2], "write") == 0 ? write_file(argv[3]) : read_file(argv[3]);
}
