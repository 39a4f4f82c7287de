/*
 * windows_name.c - names for the kernel, and which ones can be names of files. A path is made absolute here and not by
 * the system, which would take "x." for "x" and "a/con" for the console. ".." is taken away in the text, as everywhere
 * on Windows. "C:" alone is the root of the drive: it is what is left of "C:/x" without its last component.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMPONENT_LENGTH_MAX 255 /* in units of UTF-16 */
#define PATH_LENGTH_MAX 32766

static int is_separator(char c)
{
    return c == '/' || c == '\\';
}

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t component_length(const char *at)
{
    size_t length = 0;
    while (at[length] != '\0' && !is_separator(at[length]))
        length++;
    return length;
}

/* ---- what cannot be a name ---- */

/* 1 if `text` begins with `word`, whose letters are small, in any case. */
static int begins_with(const char *text, const char *word)
{
    size_t i = 0;
    while (word[i] != '\0' && (text[i] | (is_letter(text[i]) ? 0x20 : 0)) == word[i])
        i++;
    return word[i] == '\0';
}

/* 1 for a name that Windows keeps for a device, with or without an extension. */
static int is_device_name(const char *name, size_t length)
{
    static const char *const devices[] = {"con", "prn", "aux", "nul", "conin$", "conout$", "com", "lpt"};
    static const char *const digits[] = {"0",        "1",       "2", "3", "4",        "5",
                                         "6",        "7",       "8", "9", "\xC2\xB9", /* raised 1, 2, 3 */
                                         "\xC2\xB2", "\xC2\xB3"};
    size_t stem = 0;
    while (stem < length && name[stem] != '.')
        stem++;
    while (stem > 0 && name[stem - 1] == ' ')
        stem--;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        const size_t nbytes = strlen(devices[i]);
        if (nbytes > stem || !begins_with(name, devices[i]))
            continue;
        if (i < 6 && nbytes == stem)
            return 1;
        for (size_t j = 0; i >= 6 && j < sizeof digits / sizeof digits[0]; j++)
            if (stem - nbytes == strlen(digits[j]) && memcmp(name + nbytes, digits[j], stem - nbytes) == 0)
                return 1;
    }
    return 0;
}

/* Why the component cannot be looked up; NULL: it can. */
static const char *character_fault(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < 0x20)
            return "has a control character, which no name has on Windows";
        if (strchr("<>:\"|?*", name[i]) != NULL)
            return "has one of the characters < > : \" | ? *, which no name has on Windows";
    }
    return NULL;
}

static const char *component_fault(const char *name, size_t length)
{
    const char *const fault = character_fault(name, length);
    if (fault || length == 0 || (name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'))))
        return fault;
    if (name[length - 1] == '.' || name[length - 1] == ' ')
        return "ends with a dot or a space, which Windows takes away";
    return is_device_name(name, length) ? "is the name of a device on Windows" : NULL;
}

/* ---- roots ---- */

/* Bytes of the root that an absolute path begins with, and of the separators behind it; 0: the path is relative to a
 * drive, a folder, or both. */
static size_t root_length(const char *path)
{
    if (is_letter(path[0]) && path[1] == ':' && (is_separator(path[2]) || path[2] == '\0'))
        return path[2] == '\0' ? 2 : 3;
    if (!is_separator(path[0]) || !is_separator(path[1]))
        return 0;
    /* a server and its share; or "?" and a drive; or "?", "UNC", a server and its share */
    const int is_plain = (path[2] == '?' || path[2] == '.') && is_separator(path[3]);
    const int is_share = is_plain && begins_with(path + 4, "unc") && is_separator(path[7]);
    size_t at = 2;
    for (int count = is_share ? 4 : 2; count > 0; count--) {
        at += component_length(path + at);
        while (is_separator(path[at]))
            at++;
    }
    return at;
}

const char os_separators[] = "/\\";
const char os_list_separator[] = ";";

/* "/x" is relative to a drive, but to no folder. */
size_t os_root_nbytes(const char *path)
{
    const size_t root = root_length(path);
    return root > 0 ? root : (size_t)is_separator(path[0]);
}

/* The last component, which separators may follow. */
static const char *last_component(const char *path)
{
    const char *at = path + root_length(path);
    if (at == path && is_letter(path[0]) && path[1] == ':')
        at += 2;
    for (const char *next = at; *next != '\0';) {
        at = next;
        next += component_length(at);
        while (is_separator(*next))
            next++;
    }
    return at;
}

const char *os_name_fault(const char *path)
{
    const char *const name = last_component(path);
    return component_fault(name, component_length(name));
}

const char *os_components_fault(const char *path)
{
    const char *fault = strchr(path, '\\') ? "has a backslash, which separates names on Windows" : NULL;
    for (const char *at = path; *at != '\0' && !fault;) {
        const size_t length = component_length(at);
        fault = component_fault(at, length);
        at += length + (at[length] != '\0');
    }
    return fault;
}

/* ---- names for the kernel ---- */

/* Adds the components of `path` behind the `base` bytes of `text`, which end with a separator, or are none. Returns 0
 * or an errno. */
static int add_components(char *text, size_t base, const char *path)
{
    size_t end = base;
    for (const char *at = path; *at != '\0';) {
        const size_t length = component_length(at);
        if (length == 2 && at[0] == '.' && at[1] == '.') {
            if (base == 0)
                return EINVAL; /* out of an open folder */
            while (end > base && text[end - 1] != '\\')
                end--;
            end -= end > base;
        } else if (length > 0 && !(length == 1 && at[0] == '.')) {
            if (character_fault(at, length))
                return ENOENT;
            if (end > base)
                text[end++] = '\\';
            memcpy(text + end, at, length);
            end += length;
        }
        at += length;
        at += is_separator(*at);
    }
    text[end] = '\0';
    return 0;
}

/* The working directory, or that of a drive ("C:"); to be freed with free(). NULL with errno set. */
static char *working_directory(const char *drive)
{
    const WCHAR wide_drive[3] = {(WCHAR)drive[0], drive[0] == '\0' ? 0 : L':', 0};
    WCHAR *found = NULL;
    DWORD capacity = 256;
    DWORD length = capacity;
    while (length >= capacity) {
        capacity = length + 1;
        free(found);
        found = malloc(capacity * sizeof *found);
        if (!found) {
            errno = ENOMEM;
            return NULL;
        }
        length = GetFullPathNameW(drive[0] == '\0' ? L"." : wide_drive, capacity, found, NULL);
    }
    char *const text = length == 0 ? NULL : win_utf8(found);
    if (length == 0)
        errno = win_last_errno();
    free(found);
    return text;
}

/* The path from a root on; to be freed with free(). NULL with errno set. */
static char *absolute_path(const char *path)
{
    const int has_drive = is_letter(path[0]) && path[1] == ':';
    if (root_length(path) > 0)
        return _strdup(path);
    char *const around = working_directory(has_drive ? path : "");
    if (!around)
        return NULL;
    if (is_separator(path[0]))
        around[root_length(around)] = '\0';
    const size_t around_nbytes = strlen(around);
    const char *const rest = path + (has_drive ? 2 : 0);
    char *const joined = malloc(around_nbytes + strlen(rest) + 2);
    if (joined) {
        memcpy(joined, around, around_nbytes);
        joined[around_nbytes] = '/';
        strcpy(joined + around_nbytes + 1, rest);
    } else {
        errno = ENOMEM;
    }
    free(around);
    return joined;
}

/* The kernel's name of an absolute path. Returns 0 or an errno. */
static int kernel_path(const char *path, char *text)
{
    const size_t root = root_length(path);
    const int is_drive = path[1] == ':';
    const int is_plain = !is_drive && (path[2] == '?' || path[2] == '.') && is_separator(path[3]);
    size_t base = 0;
    if (is_plain && path[2] == '.') { /* a device */
        strcpy(text, "\\??\\");
        strcat(text, path + 4);
        return 0;
    }
    strcpy(text, is_drive || is_plain ? "\\??\\" : "\\??\\UNC\\");
    base = strlen(text);
    for (size_t i = is_drive ? 0 : is_plain ? 4 : 2; i < root; i++)
        if (!is_separator(path[i]))
            text[base++] = path[i];
        else if (text[base - 1] != '\\')
            text[base++] = '\\';
    if (text[base - 1] != '\\')
        text[base++] = '\\';
    return add_components(text, base, path + root);
}

/* Sets the text of the name from UTF-8. */
static int set_text(win_name *name, const char *text)
{
    int length = 0;
    WCHAR *wide = name->small;
    if (*text != '\0') {
        length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, WIN_NAME_SMALL) - 1;
        if (length < 0 && GetLastError() == ERROR_INSUFFICIENT_BUFFER) {
            name->memory = win_wide(text);
            wide = name->memory;
            length = wide ? (int)wcslen(wide) : -1;
            if (!wide)
                return errno;
        }
        if (length < 0)
            return EILSEQ;
    }
    if (length > PATH_LENGTH_MAX)
        return ENAMETOOLONG;
    int component = 0;
    for (int i = 0; i < length; i++) {
        component = wide[i] == L'\\' ? 0 : component + 1;
        if (component > COMPONENT_LENGTH_MAX)
            return ENAMETOOLONG;
    }
    name->text.Buffer = wide;
    name->text.Length = (USHORT)((size_t)length * sizeof *wide);
    name->text.MaximumLength = name->text.Length;
    return 0;
}

int win_name_set(win_name *name, int folder_fd, const char *path, int is_new)
{
    char small[WIN_NAME_SMALL];
    name->root = NULL;
    name->memory = NULL;
    if (*path == '\0')
        return ENOENT;
    if (is_new && os_name_fault(path))
        return EINVAL;
    const int is_here = folder_fd == OS_HERE || os_root_nbytes(path) > 0;
    char *const absolute = is_here ? absolute_path(path) : NULL;
    if (is_here && !absolute)
        return errno;
    if (!is_here) {
        name->root = win_handle(folder_fd);
        if (name->root == INVALID_HANDLE_VALUE)
            return EBADF;
    }
    const char *const from = is_here ? absolute : path;
    const size_t capacity = strlen(from) + 16;
    char *const text = capacity <= sizeof small ? small : malloc(capacity);
    int os_errno = !text ? ENOMEM : is_here ? kernel_path(from, text) : add_components(text, 0, from);
    if (os_errno == 0)
        os_errno = set_text(name, text);
    if (text != small)
        free(text);
    free(absolute);
    if (os_errno != 0)
        win_name_free(name);
    return os_errno == ENOENT && is_new ? EINVAL : os_errno;
}

void win_name_free(win_name *name)
{
    free(name->memory);
    name->memory = NULL;
}

/* ---- paths ---- */

char *os_real_path(const char *path)
{
    const win_opening opening = {.rights = FILE_READ_ATTRIBUTES, .disposition = FILE_OPEN};
    HANDLE handle = NULL;
    const int os_errno = win_open(OS_HERE, path, &opening, &handle);
    if (os_errno != 0) {
        errno = os_errno;
        return NULL;
    }
    WCHAR *found = NULL;
    DWORD flags = VOLUME_NAME_DOS;
    DWORD capacity = 512;
    DWORD length = capacity;
    while (length >= capacity) {
        capacity = length + 1;
        free(found);
        found = malloc(capacity * sizeof *found);
        length = found ? GetFinalPathNameByHandleW(handle, found, capacity, flags) : 0;
        if (length == 0 && found && flags == VOLUME_NAME_DOS && GetLastError() == ERROR_PATH_NOT_FOUND) {
            flags = VOLUME_NAME_GUID; /* a volume without a letter */
            length = capacity;
        }
    }
    const int found_errno = !found ? ENOMEM : win_last_errno();
    CloseHandle(handle);
    char *const text = length == 0 ? NULL : win_utf8(found);
    free(found);
    if (length == 0)
        errno = found_errno;
    if (!text)
        return NULL;
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\\' ? '/' : *at;
    if (strncmp(text, "//?/UNC/", 8) == 0)
        memmove(text + 1, text + 7, strlen(text + 7) + 1);
    else if (strncmp(text, "//?/", 4) == 0 && is_letter(text[4]) && text[5] == ':')
        memmove(text, text + 4, strlen(text + 4) + 1);
    return text;
}

size_t os_name_nbytes_max(const char *folder)
{
    (void)folder; /* all file systems have the same */
    return (size_t)3 * COMPONENT_LENGTH_MAX;
}

size_t os_path_nbytes_max(void)
{
    return PATH_LENGTH_MAX;
}
