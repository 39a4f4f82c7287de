/*
 * h5_direct_chunks.c - HDF5 runs one filter at a time; this program codes chunks on many threads.
 *
 *     cc h5_direct_chunks.c -o h5_direct_chunks -pthread $(pkg-config --cflags --libs lmc_h5 hdf5)
 *     HDF5_PLUGIN_PATH=... ./h5_direct_chunks FILE.h5 [THREADS]
 *
 * Writing: threads encode chunks with lmc_h5_encode_chunk(), then one thread hands them to HDF5 as they are
 * (H5Dwrite_chunk). Reading is the same backwards. The bytes are those that the filter would have stored: the file is
 * an ordinary one. A program with more data than memory goes through it group by group of chunks.
 */
#include <hdf5.h>
#include <lmc_h5.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4096
#define COLUMNS 1024
#define CHUNK_ROWS \
    256 /* of 1024 floats: 1 MiB. Here all chunks are whole; those at an edge would be padded. */
#define CHUNK_COUNT (ROWS / CHUNK_ROWS)
#define CHUNK_VALUES ((size_t)CHUNK_ROWS * COLUMNS)
#define CHUNK_NBYTES (CHUNK_VALUES * sizeof(float))
#define THREADS_MAX 64

/* The values that HDF5 keeps for the filter (docs/hdf5-filter.md, section 2), and where it stands in the pipeline. */
typedef struct filter {
    unsigned values[LMC_H5_VALUE_COUNT_MAX];
    size_t value_count;
    unsigned mask_bit; /* set in the mask of a chunk that was stored without the filter */
} filter;

typedef struct chunk {
    float *values;
    unsigned char *stored; /* lmc_h5_encode_bound() bytes */
    size_t stored_nbytes;
    uint32_t mask;
} chunk;

/* What the threads share. */
typedef struct job {
    void (*work)(struct job *job, chunk *one);
    const filter *lmc;
    chunk *chunks;
    size_t bound;
    atomic_size_t next;
    atomic_int failures;
} job;

/* ---- on many threads ----------------------------------------------------------------------------- */

static void encode(job *job, chunk *one)
{
    /* NULL: the library keeps a context for each thread. */
    if (lmc_h5_encode_chunk(NULL, job->lmc->values, job->lmc->value_count, one->values, CHUNK_NBYTES,
                            one->stored, job->bound, &one->stored_nbytes) != LMC_OK) {
        fprintf(stderr, "%s\n", lmc_h5_last_error());
        atomic_fetch_add(&job->failures, 1);
    }
}

static void decode(job *job, chunk *one)
{
    size_t made = 0;
    if ((one->mask & job->lmc->mask_bit) != 0 && one->stored_nbytes == CHUNK_NBYTES) {
        memcpy(one->values, one->stored, CHUNK_NBYTES); /* stored as it is, by a program without the filter */
    } else if (lmc_h5_decode_chunk(NULL, one->stored, one->stored_nbytes, one->values, CHUNK_NBYTES, &made) !=
               LMC_OK) {
        fprintf(stderr, "%s\n", lmc_h5_last_error());
        atomic_fetch_add(&job->failures, 1);
    } else if (made != CHUNK_NBYTES) {
        fprintf(stderr, "a chunk has %zu bytes where the dataset's have %zu\n", made, CHUNK_NBYTES);
        atomic_fetch_add(&job->failures, 1);
    }
}

static void *take_chunks(void *shared)
{
    job *const job = shared;
    for (size_t i = atomic_fetch_add(&job->next, 1); i < CHUNK_COUNT; i = atomic_fetch_add(&job->next, 1))
        job->work(job, &job->chunks[i]);
    return NULL;
}

/* Returns 1 if all chunks went well. The calling thread helps. */
static int on_threads(job *job, int thread_count)
{
    pthread_t threads[THREADS_MAX];
    int started = 0;
    while (started < thread_count - 1 && pthread_create(&threads[started], NULL, take_chunks, job) == 0)
        started++;
    take_chunks(job);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&job->failures) == 0;
}

/* ---- HDF5, on one thread -------------------------------------------------------------------------- */

static hid_t create_dataset(hid_t file)
{
    const hsize_t shape[2] = {ROWS, COLUMNS};
    const hsize_t chunk_shape[2] = {CHUNK_ROWS, COLUMNS};
    const hid_t space = H5Screate_simple(2, shape, NULL);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, chunk_shape);
    /* no values needed: {1} as the last two arguments, count and pointer, would choose level fast */
    H5Pset_filter(properties, LMC_H5_FILTER_ID, H5Z_FLAG_OPTIONAL, 0, NULL);
    const hid_t dataset =
        H5Dcreate2(file, "weights", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    H5Sclose(space);
    return dataset;
}

/* The dataset's values: with them a chunk is coded as the filter codes it. Returns 0 if LMC is not its only filter. */
static int read_filter(hid_t dataset, filter *lmc)
{
    unsigned flags;
    const hid_t properties = H5Dget_create_plist(dataset);
    lmc->value_count = LMC_H5_VALUE_COUNT_MAX; /* in: room; out: how many there are */
    lmc->mask_bit = 1;                         /* bit i is for the filter at place i: here the first */
    const int is_found = H5Pget_nfilters(properties) == 1 &&
                         H5Pget_filter_by_id2(properties, LMC_H5_FILTER_ID, &flags, &lmc->value_count,
                                              lmc->values, 0, NULL, NULL) >= 0;
    H5Pclose(properties);
    return is_found && lmc->value_count <= LMC_H5_VALUE_COUNT_MAX;
}

static int write_chunks(hid_t dataset, const chunk *chunks)
{
    for (size_t i = 0; i < CHUNK_COUNT; i++) {
        const hsize_t offset[2] = {i * CHUNK_ROWS, 0};
        /* Chunk 0 goes in as it is, with a mask that says so: what HDF5 does where the plugin is missing. */
        const uint32_t mask = i == 0 ? 1 : 0;
        const void *const bytes = i == 0 ? (const void *)chunks[i].values : chunks[i].stored;
        const size_t nbytes = i == 0 ? CHUNK_NBYTES : chunks[i].stored_nbytes;
        if (H5Dwrite_chunk(dataset, H5P_DEFAULT, mask, offset, nbytes, bytes) < 0)
            return 0;
    }
    return 1;
}

static int read_chunks(hid_t dataset, chunk *chunks, size_t bound)
{
    for (size_t i = 0; i < CHUNK_COUNT; i++) {
        const hsize_t offset[2] = {i * CHUNK_ROWS, 0};
        hsize_t nbytes;
        if (H5Dget_chunk_storage_size(dataset, offset, &nbytes) < 0 || nbytes > bound)
            return 0;
        chunks[i].stored_nbytes = (size_t)nbytes;
#if H5_VERSION_GE(2, 0, 0)
        size_t capacity = bound;
        const herr_t result =
            H5Dread_chunk2(dataset, H5P_DEFAULT, offset, &chunks[i].mask, chunks[i].stored, &capacity);
#else
        const herr_t result = H5Dread_chunk(dataset, H5P_DEFAULT, offset, &chunks[i].mask, chunks[i].stored);
#endif
        if (result < 0)
            return 0;
    }
    return 1;
}

/* ---- the program ---------------------------------------------------------------------------------- */

/* Values with the exponents of weights: sums of noise, most of them small. */
static void fill(float *values, size_t count)
{
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < 6; j++) {
            state = state * 1664525u + 1013904223u;
            sum += state / 4294967296.0 - 0.5;
        }
        values[i] = (float)(sum * 0.03);
    }
}

static int write_file(const char *path, job *job, int thread_count)
{
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t dataset = create_dataset(file);
    filter lmc;
    job->lmc = &lmc;
    job->work = encode;
    atomic_init(&job->next, 0);
    const int is_done =
        read_filter(dataset, &lmc) && on_threads(job, thread_count) && write_chunks(dataset, job->chunks);
    printf("%.4f of %zu bytes\n", (double)H5Dget_storage_size(dataset) / (CHUNK_COUNT * CHUNK_NBYTES),
           CHUNK_COUNT * CHUNK_NBYTES);
    H5Dclose(dataset);
    H5Fclose(file);
    return is_done;
}

/* `check`: room for what HDF5 itself reads through the filter; that must be the same. */
static int read_file(const char *path, job *job, int thread_count, float *check)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, "weights", H5P_DEFAULT);
    filter lmc;
    job->lmc = &lmc;
    job->work = decode;
    atomic_init(&job->next, 0);
    const int is_done = read_filter(dataset, &lmc) && read_chunks(dataset, job->chunks, job->bound) &&
                        on_threads(job, thread_count) &&
                        H5Dread(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, check) >= 0;
    H5Dclose(dataset);
    H5Fclose(file);
    return is_done;
}

int main(int argc, char **argv)
{
    const int thread_count = argc > 2 ? atoi(argv[2]) : 4;
    const size_t nbytes = CHUNK_COUNT * CHUNK_NBYTES;
    chunk chunks[CHUNK_COUNT];
    job job = {.chunks = chunks};
    if (argc < 2 || argc > 3 || thread_count < 1 || thread_count > THREADS_MAX) {
        fprintf(stderr, "usage: h5_direct_chunks FILE.h5 [THREADS]\n");
        return 2;
    }
    float *const values = malloc(nbytes);
    float *const back = malloc(nbytes);
    float *const check = malloc(nbytes);
    if (lmc_h5_encode_bound(CHUNK_NBYTES, &job.bound) != LMC_OK)
        return 1;
    unsigned char *const stored = malloc(CHUNK_COUNT * job.bound);
    if (!values || !back || !check || !stored)
        return 1;
    fill(values, nbytes / sizeof(float));
    for (size_t i = 0; i < CHUNK_COUNT; i++)
        chunks[i] = (chunk){.values = values + i * CHUNK_VALUES, .stored = stored + i * job.bound};
    int is_good = write_file(argv[1], &job, thread_count);
    for (size_t i = 0; i < CHUNK_COUNT; i++)
        chunks[i].values = back + i * CHUNK_VALUES;
    is_good = is_good && read_file(argv[1], &job, thread_count, check) && memcmp(values, back, nbytes) == 0 &&
              memcmp(values, check, nbytes) == 0;
    puts(is_good ? "read back equal" : "FAILED");
    free(values);
    free(back);
    free(check);
    free(stored);
    return is_good ? 0 : 1;
}
