/*
 * x86_bits.h - the bit operations that shared/hierarchy_loops_impl.h asks for, by instructions of BMI2 and POPCNT. The
 * including file pushes a target that has them.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_X86_BITS_H
#define LMC_CODEC_KERNELS_SHARED_X86_BITS_H

LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    return _pext_u64(x, mask);
}

LMC_INLINE uint64_t scatter_word(uint64_t x, uint64_t mask)
{
    return _pdep_u64(x, mask);
}

LMC_INLINE uint64_t gather_even(uint64_t x)
{
    return _pext_u64(x, EVEN_BITS);
}

LMC_INLINE uint64_t scatter_even(uint64_t x)
{
    return _pdep_u64(x, EVEN_BITS);
}

LMC_INLINE unsigned count_bits(uint64_t x)
{
    return (unsigned)_mm_popcnt_u64(x);
}

#endif
