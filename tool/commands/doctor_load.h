/*
 * doctor_load.h - loading a plugin as HDF5 does, in a process of its own: what it is stays there.
 */
#ifndef LMC_TOOL_COMMANDS_DOCTOR_LOAD_H
#define LMC_TOOL_COMMANDS_DOCTOR_LOAD_H

typedef struct doctor_loaded {
    int filter_id;
    char cause[400]; /* why it is no filter plugin; "": it is one */
} doctor_loaded;

/* Returns 0, or the exit status when a signal ended this process or the system has no process left. */
int doctor_load(const char *path, doctor_loaded *loaded);

#endif
