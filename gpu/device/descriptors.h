/*
 * descriptors.h - what the host tells the kernels, and what they tell the host: plain data of one layout on both sides.
 * Wire constants come from codec/common/format.h.
 */
#ifndef LMC_GPU_DEVICE_DESCRIPTORS_H
#define LMC_GPU_DEVICE_DESCRIPTORS_H

#include "codec/common/format.h"
#ifdef __CUDACC_RTC__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

/* Kernels for plans of certain codes. Kernels run in the order of their numbers; the last one takes any block. */
#define LMC_CUDA_KERNEL_6_3_5 0
#define LMC_CUDA_KERNEL_8_2_2 1
#define LMC_CUDA_KERNEL_ANY 2
#define LMC_CUDA_KERNEL_COUNT 3

/* One layer of a code, as in lmc_layer: codes are left-justified to 6 bits. */
typedef struct lmc_cuda_layer {
    uint8_t symbol[64]; /* by left-justified code */
    uint8_t threshold[LMC_FMT_LAYER_NBITS_MAX];
    uint8_t first_nbits, last_nbits;
    uint8_t has_continuation, continuation, continuation_nbits;
    uint8_t padding[5]; /* to 80 bytes, for copies by words */
} lmc_cuda_layer;

/* How the blocks of a frame are coded. Places are in bytes of the image's data; 0 is none. */
typedef struct lmc_cuda_plan {
    uint32_t layers_at[LMC_FMT_PLANE_COUNT_MAX]; /* of each plane's code */
    uint8_t layer_count[LMC_FMT_PLANE_COUNT_MAX];
    uint8_t mode; /* of the frame: LMC_FMT_MODE_... */
    uint8_t element_nbytes, rotation, low_nbits;
    uint8_t plane_count, has_mask, step_log2, kernel;
    uint16_t offset, window_start;
    uint32_t column_count; /* 0: no offsets of rows and columns */
    uint32_t columns_at;   /* a u16 for each column: what it adds to high parts */
    uint32_t padding;
    uint64_t mask_value;
} lmc_cuda_plan;

/* A block, for one thread block. */
typedef struct lmc_cuda_block {
    uint64_t src, dst; /* device addresses of the stored bytes, and of the content */
    uint64_t hash;     /* H of the content; stored frames have none */
    uint32_t stored_nbytes, content_nbytes;
    uint32_t plan_at;      /* of its lmc_cuda_plan */
    uint32_t first_column; /* of the block's first element */
} lmc_cuda_block;

/* What the device says of a block. */
typedef struct lmc_cuda_result {
    uint32_t outcome; /* LMC_CUDA_... below */
    uint32_t padding;
    uint64_t hash; /* H of the content, if the block was decoded */
} lmc_cuda_result;

/* Outcomes. A failure is LMC_CUDA_FAILED with an lmc_status. */
#define LMC_CUDA_PENDING 0u
#define LMC_CUDA_DONE 1u
#define LMC_CUDA_FAILED 0x200u
#define LMC_CUDA_CORRUPT (LMC_CUDA_FAILED | 5u)
#define LMC_CUDA_UNSUPPORTED (LMC_CUDA_FAILED | 6u)
#define LMC_CUDA_CHECKSUM (LMC_CUDA_FAILED | 7u)

/* Bytes that the kernels may read and write behind what they keep in scratch. */
#define LMC_CUDA_SLACK 128

/* Words behind a bitset that another contains. */
#define LMC_CUDA_FLAGS_SLACK_WORDS 4u

/* Kernels read frames by aligned words. They touch less than a word before a block's stored bytes, and at most so many
 * bytes behind them. These belong to the frame: it has its head before and its tail behind all blocks. */
#define LMC_CUDA_READ_AHEAD 16

/* How the scratch of one thread block is divided, in bytes from its start. */
typedef struct lmc_cuda_scratch {
    uint64_t plane_nbytes; /* of each decoded plane: the planes come first */
    uint64_t list_at[2];   /* symbols of a layer but the first, in turn */
    uint64_t exceptions_at;
    uint64_t bitset_at;    /* of exceptions */
    uint64_t mask_at;      /* of a masked block */
    uint64_t hierarchy_at; /* bitsets that others contain */
    uint64_t ranks_at;     /* of unary planes */
    uint64_t rank_count;
    uint64_t sums_at; /* of the hash, for each KiB of content */
    uint64_t nbytes;
} lmc_cuda_scratch;

/* The parameter of a kernel. */
typedef struct lmc_cuda_job {
    const lmc_cuda_block *blocks;
    const uint8_t *data; /* of the image: plans, layers, columns */
    lmc_cuda_result *results;
    uint8_t *scratch;
    lmc_cuda_scratch layout; /* of each thread block's scratch */
    uint32_t block_count;
    uint32_t padding;
} lmc_cuda_job;

#endif
