/*
 * sniff.c - the first bytes of other formats.
 */
#include "safetensors/header/sniff.h"

#include "safetensors/header/json.h"

#include <string.h>

typedef struct signature {
    const char *bytes;
    size_t nbytes;
    const char *meaning;
} signature;

#define SIGNATURE(bytes, meaning)        \
    {                                    \
        bytes, sizeof bytes - 1, meaning \
    }

static const signature signatures[] = {
    SIGNATURE("version https://git-lfs", "a git-lfs pointer: fetch the file itself with \"git lfs pull\""),
    SIGNATURE("GGUF", "a GGUF model"),
    SIGNATURE("\x93NUMPY", "a numpy array (.npy)"),
    SIGNATURE("\x1f\x8b", "gzip data: decompress it first"),
    SIGNATURE("\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
    SIGNATURE("\3757zXZ", "xz data: decompress it first"),
    SIGNATURE("BZh", "bzip2 data: decompress it first"),
    SIGNATURE("\x89HDF\r\n\x1a\n", "an HDF5 file"),
    SIGNATURE("\x8cLMC", "a bare LMC frame, not an archive"),
    SIGNATURE("PK\x05\x06", "an empty zip archive"),
    SIGNATURE("\177ELF", "a program"),
    SIGNATURE("%PDF", "a PDF document"),
};

static int starts_with(const unsigned char *src, size_t nbytes, const char *prefix, size_t length)
{
    return nbytes >= length && memcmp(src, prefix, length) == 0;
}

/* A zip's first local header holds a file name at byte 30, its length at 26. */
static const char *sniff_zip(const unsigned char *src, size_t nbytes)
{
    const size_t length = nbytes >= 30 ? src[26] + (size_t)src[27] * 256 : 0;
    if (length >= 4 && length <= nbytes - 30 && memcmp(src + 30 + length - 4, ".npy", 4) == 0)
        return "a numpy archive (.npz)";
    return "a zip archive (perhaps a PyTorch checkpoint)";
}

static const char *sniff_text(const unsigned char *src, size_t nbytes)
{
    st_json json = {.text = src, .nbytes = nbytes, .at = starts_with(src, nbytes, "\xef\xbb\xbf", 3) ? 3 : 0};
    if (st_json_try(&json, '<'))
        return "an HTML or XML page: the download went wrong";
    if (st_json_try(&json, '{') || st_json_try(&json, '['))
        return "JSON text (perhaps an index of shards)";
    return NULL;
}

const char *st_sniff(const unsigned char *src, size_t nbytes)
{
    nbytes = nbytes < ST_SNIFF_NBYTES ? nbytes : ST_SNIFF_NBYTES;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (starts_with(src, nbytes, signatures[i].bytes, signatures[i].nbytes))
            return signatures[i].meaning;
    if (starts_with(src, nbytes, "PK\x03\x04", 4))
        return sniff_zip(src, nbytes);
    /* protocol 2 to 5; a safetensors header of 640 + n bytes also begins with 0x80 but goes on with
     * zeros in its upper length bytes, and is not sniffed unless it is malformed */
    if (nbytes >= 3 && src[0] == 0x80 && src[1] >= 2 && src[1] <= 5 && src[2] != 0)
        return "a Python pickle (perhaps a PyTorch checkpoint)";
    return sniff_text(src, nbytes);
}
