/*
 * doctor_plugin.h - where LMC's HDF5 plugin is, and whether HDF5 finds it through HDF5_PLUGIN_PATH. Also the list of
 * problems that doctor prints.
 */
#ifndef LMC_TOOL_COMMANDS_DOCTOR_PLUGIN_H
#define LMC_TOOL_COMMANDS_DOCTOR_PLUGIN_H

#include <limits.h>

#define DOCTOR_ENTRIES_MAX 64
#define DOCTOR_PROBLEMS_MAX 160
#define DOCTOR_PROBLEM_NBYTES 320

typedef struct doctor_problems {
    int count;
    char texts[DOCTOR_PROBLEMS_MAX][DOCTOR_PROBLEM_NBYTES];
} doctor_problems;

/* Adds a line; names in it are escaped already. Of too many the last ones are dropped. */
void doctor_problem(doctor_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef enum doctor_lmc {
    DOCTOR_LMC_NONE,   /* no libh5lmc.so */
    DOCTOR_LMC_THIS,   /* the plugin that belongs to this program, or its equal */
    DOCTOR_LMC_OTHER,  /* LMC's, of another build, or this program has none to compare with */
    DOCTOR_LMC_BROKEN, /* it cannot be loaded, or is not what it should be: a problem */
} doctor_lmc;

/* An entry of HDF5_PLUGIN_PATH. */
typedef struct doctor_entry {
    const char *directory;
    int os_errno;       /* why it cannot be listed; 0: it can */
    unsigned libraries; /* files that HDF5 takes for plugins */
    unsigned dangling;  /* links of such names that lead nowhere */
    doctor_lmc lmc;
} doctor_entry;

typedef struct doctor_plugin {
    char path[PATH_MAX]; /* of this program's libh5lmc.so; "" : none */
    const char *why_not; /* then: why */
    int is_path_set;     /* HDF5_PLUGIN_PATH */
    char *path_text;     /* its copy, cut at the colons */
    int entry_count;
    doctor_entry entries[DOCTOR_ENTRIES_MAX];
} doctor_plugin;

/* Looks at all of it; *plugin is zero before. Loads files named libh5lmc.so* only, in a process of their own. Ends with
 * doctor_plugin_free(). Returns CLI_OK, or the exit status when a signal ended it or the system failed. */
int doctor_plugin_find(doctor_plugin *plugin, doctor_problems *problems);
void doctor_plugin_free(doctor_plugin *plugin);

/* Lines of the text, and members of the JSON object, each of which begins with a comma. */
void doctor_plugin_show(const doctor_plugin *plugin);
void doctor_plugin_show_json(const doctor_plugin *plugin);

#endif
