/*
 * st_craft.h - archives whose checksums are right although the rest may be anything, so that a fuzzer gets
 * behind the checksums. Nothing here relies on the input: what cannot be repaired stays as it is.
 */
#ifndef LMC_FUZZ_ST_CRAFT_H
#define LMC_FUZZ_ST_CRAFT_H

#include <stddef.h>
#include <stdint.h>

/* Sets the checks of docs/archive.md, section 4, and those of the frames (docs/format.md, section 2.3) as far
 * as the archive can be made out. */
void fuzz_repair_archive(uint8_t *archive, size_t nbytes);

/* Builds an archive of parts, and repairs it: header and table are made so that they fit the frames. Parts:
 * u16 n and n bytes of original header; per frame u8 n and n bytes of name as it stands between its
 * quotes, u16 n and n bytes of frame; one byte b instead of a frame makes an alias of tensor b. Numbers that
 * exceed what is left mean what is left. Free the result. */
uint8_t *fuzz_build_archive(const uint8_t *parts, size_t parts_nbytes, size_t *nbytes);

/* Builds the safetensors file that the input seems to be: its header ends with the last brace, its length
 * says so, and data follow as its offsets need them. Free the result; NULL if there is no brace. */
uint8_t *fuzz_fit_header(const uint8_t *data, size_t data_nbytes, size_t *nbytes);

#endif
