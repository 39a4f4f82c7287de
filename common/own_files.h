/*
 * own_files.h - names of the files that LMC keeps in the directories that it writes, and what they say of themselves
 * (docs/archive.md, docs/run.md, docs/store.md).
 */
#ifndef LMC_COMMON_OWN_FILES_H
#define LMC_COMMON_OWN_FILES_H

#include <stdint.h>

/* In a converted directory: the list of its copies whose names are those of archives. */
#define LMC_COPIES_LIST ".lmc-copied"

/* In a run: its list of steps. In a store: its mark, and its index. In both: the file that writers lock. */
#define LMC_RUN_LIST "run.json"
#define LMC_RUN_FORMAT "lmc-run"
#define LMC_RUN_LIST_NBYTES_MAX ((uint64_t)256 << 20)
#define LMC_STORE_MARK "store.json"
#define LMC_STORE_FORMAT "lmc-store"
#define LMC_STORE_INDEX "index.sqlite"
#define LMC_STORE_LOCK ".lmc-lock"

/* Of a directory that is being written: ".NAME" and this. */
#define LMC_PARTIAL_SUFFIX ".lmc-st-partial"

#endif
