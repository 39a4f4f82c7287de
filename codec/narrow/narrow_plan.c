/* narrow_plan.c - a probe of one row rules out almost every form for a tensor that has none. What it does not rule
 * out is tried on a sample, and the form that takes least bits is kept. */
#include "codec/narrow/narrow_plan.h"

#include "codec/common/dtype.h"
#include "codec/common/entropy.h"
#include "codec/narrow/palette.h"

/* Elements of the probe: a row, unless it is longer than this and than this share of the tensor. */
#define PROBE_VALUES 2048
#define PROBE_SHARE 64

/* A row for tensors without one: a multiple of all lengths of groups. */
#define ROW_LENGTH_DEFAULT 4096

/* Elements of the probe that are tested for each property. */
#define FLOATS_TESTED 16
#define INTEGERS_TESTED 16
#define SIGNIFICANDS_TESTED 32
#define VALUES_TESTED 128

/* A palette of a tensor shows as so many repeated values among VALUES_TESTED. A group of a list of factors has few. */
#define VALUES_SEEN_MAX 104
#define LISTED_SEEN_MAX 16

/* Elements that a tensor must have for any form; for products and palettes, with rows and without. */
#define VALUES_MIN 256
#define MATRIX_VALUES_MIN 1024
#define VECTOR_VALUES_MIN 16384

/* Elements that a tensor must have for a search of the scale by all factors, and those that it is made on. */
#define SEARCHED_VALUES_MIN (1 << 20)
#define SEARCHED_LENGTH 64

/* More exceptions than one element in so many, and the form is none. */
#define SAMPLE_EXCEPTION_SHARE_MAX 50
#define SAMPLE_EXCEPTION_COUNT_MAX 16 /* of the first elements of a sample */

/* About what the scale of a new group takes. */
#define SCALE_NBITS 24

/* Palettes of rows are not tried where all that they could save, the scales, takes fewer bits an element. */
#define PALETTE_GAIN_NBITS 0.25

/* Tries of the decision for one tensor. */
typedef struct prober {
    const lmc_content *content;
    lmc_narrow_work *work;
    lmc_narrow_choice *choice; /* the best so far ... */
    double nbits;              /* ... what it takes, in bits an element ... */
    size_t missed;             /* ... and how many elements of its sample are exceptions */
    uint8_t *buffer;           /* the probe, then the sample */
    size_t probe_count;
    uint32_t row_length;
    unsigned product_type;
} prober;

/* ---- sampled elements ---- */

static lmc_status read_elements(const lmc_content *content, uint64_t first, size_t n, uint8_t *dst)
{
    return content->read(content->user, first * content->element_nbytes, dst, n * content->element_nbytes);
}

/* Reads pieces that begin where rows do and hold whole groups, at even distances. *piece: elements of each. */
static lmc_status read_sample(const prober *p, uint32_t group_length, size_t *piece, size_t *n)
{
    const lmc_content *const content = p->content;
    const size_t most = (size_t)lmc_min_u64(content->value_count, LMC_NARROW_SAMPLE_VALUES);
    const size_t wanted = lmc_min_size(most, ROW_LENGTH_DEFAULT);
    const uint32_t unit = p->row_length <= wanted ? p->row_length : group_length;
    *piece = unit <= wanted ? wanted / unit * unit : lmc_min_size(unit, most);
    const size_t count = most / *piece;
    const uint64_t rows = content->value_count / p->row_length;
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t row = count > 1 ? rows * i / count : 0;
        const uint64_t first = lmc_min_u64(row * p->row_length, content->value_count - *piece);
        LMC_TRY(read_elements(content, first, *piece, p->buffer + *n * content->element_nbytes));
        *n += *piece;
    }
    return LMC_OK;
}

/* Keeps what was tried if it is better. */
static void keep_if_better(prober *p, size_t n, size_t missed, double group_nbits)
{
    lmc_narrow_work *const work = p->work;
    const double wide_nbits = 8.0 * p->content->element_nbytes;
    const double side_nbits = (group_nbits + (double)missed * 2 * wide_nbits) / (double)n;
    uint32_t counts[256] = {0};
    unsigned used;
    for (size_t i = 0; i < n; i++)
        counts[work->tried_numbers[i]]++;
    const double nbits = lmc_counts_entropy(counts, 256, &used) + side_nbits;
    if (missed > n / SAMPLE_EXCEPTION_SHARE_MAX || nbits >= p->nbits)
        return;
    p->nbits = nbits;
    p->missed = missed;
    *p->choice = work->tried;
    p->choice->side_nbits = side_nbits;
    work->sample_count = n;
    memcpy(work->numbers, work->tried_numbers, n);
}

/* Are all elements of the sample products of the form that was kept? */
static int are_all_products(const prober *p)
{
    const lmc_narrow *const narrow = &p->choice->narrow;
    return narrow->is_used && narrow->form == LMC_FMT_NARROW_PRODUCT && p->missed == 0;
}

/* ---- products ---- */

/* Groups of a row within a piece of the sample, at most. */
#define SAMPLED_GROUPS_MAX (ROW_LENGTH_DEFAULT / LMC_FMT_GROUP_LENGTH_MIN)

/* Tries a kind of factors with groups of one length on the sample. Scales are found as in a block. */
static lmc_status try_products(prober *p, uint32_t group_length)
{
    lmc_narrow_work *const work = p->work;
    lmc_narrow_choice *const tried = &work->tried;
    const unsigned nbytes = p->content->element_nbytes;
    const uint32_t row_length = p->row_length;
    size_t piece, n, missed = 0, new_count = 0;
    float above[SAMPLED_GROUPS_MAX];
    for (size_t i = 0; i < LMC_COUNT(above); i++)
        above[i] = LMC_SCALE_TRIED_FIRST;
    tried->narrow.row_length = row_length;
    tried->narrow.group_length = group_length;
    LMC_TRY(read_sample(p, group_length, &piece, &n));
    for (size_t i = 0; i < n;) {
        const size_t column = i % piece % row_length;
        const size_t left = lmc_min_size(row_length - column, piece - i % piece);
        const lmc_product_group group = {&tried->narrow, &tried->order, lmc_kernels_get(),
                                         p->buffer + i * nbytes, lmc_min_size(group_length, left)};
        float *const upper = &above[column / group_length], scale;
        missed += lmc_product_find_below(&group, *upper, &tried->likely, &scale, work->tried_numbers + i);
        new_count += scale != *upper;
        *upper = scale;
        i += group.n;
        if (missed > SAMPLE_EXCEPTION_COUNT_MAX + i / SAMPLE_EXCEPTION_SHARE_MAX)
            return LMC_OK;
    }
    keep_if_better(p, n, missed, SCALE_NBITS * (double)new_count);
    return LMC_OK;
}

/* Values of NF4, of the paper on QLoRA (arXiv 2305.14314, appendix E). */
static const float nf4_factors[16] = {-1.0f,
                                      -0.6961928009986877f,
                                      -0.5250730514526367f,
                                      -0.39491748809814453f,
                                      -0.28444138169288635f,
                                      -0.18477343022823334f,
                                      -0.09105003625154495f,
                                      0.0f,
                                      0.07958029955625534f,
                                      0.16093020141124725f,
                                      0.24611230194568634f,
                                      0.33791524171829224f,
                                      0.44070982933044434f,
                                      0.5626170039176941f,
                                      0.7229568362236023f,
                                      1.0f};

/* Integers that are divided by 127 before they are multiplied by the largest magnitude of a group. In F32 these
 * products are others than those with a 127th of it. */
#define DIVISOR 127
#define DIVIDED_COUNT (2 * DIVISOR + 1)

/* Prepares work->tried for a kind of factors; of kind LIST for NF4, or for divided integers. */
static void start_products(prober *p, unsigned factor_kind, int are_divided)
{
    lmc_narrow_choice *const tried = &p->work->tried;
    lmc_narrow_set_form(&tried->narrow, LMC_FMT_NARROW_PRODUCT, p->content->element_nbytes);
    tried->narrow.product_type = (uint8_t)p->product_type;
    lmc_narrow_set_factors(&tried->narrow, factor_kind);
    if (factor_kind == LMC_FMT_FACTORS_LIST && are_divided) {
        tried->narrow.listed_count = DIVIDED_COUNT;
        for (int i = 0; i < DIVIDED_COUNT; i++)
            tried->narrow.factors[i] = (float)(i - DIVISOR) / DIVISOR;
    } else if (factor_kind == LMC_FMT_FACTORS_LIST) {
        tried->narrow.listed_count = LMC_COUNT(nf4_factors);
        memcpy(tried->narrow.factors, nf4_factors, sizeof nf4_factors);
    }
    lmc_factor_order_init(&tried->order, &tried->narrow);
    tried->likely = factor_kind == LMC_FMT_FACTORS_E4M3   ? 448
                    : factor_kind == LMC_FMT_FACTORS_E5M2 ? 57344
                    : factor_kind == LMC_FMT_FACTORS_LIST ? 1
                                                          : 127;
}

/* Lengths of groups that tools use; 0 stands for the row. */
static const uint16_t group_lengths[] = {0, 256, 128, 64, 32, 16};

/* Tries a kind of factors with all lengths. */
static lmc_status try_lengths(prober *p, unsigned factor_kind, int are_divided)
{
    start_products(p, factor_kind, are_divided);
    for (size_t i = 0; i < LMC_COUNT(group_lengths); i++) {
        const uint32_t length = group_lengths[i] == 0 ? p->row_length : group_lengths[i];
        if (length > p->row_length || (i > 0 && length == p->row_length))
            continue;
        const double before = p->nbits;
        LMC_TRY(try_products(p, length));
        if (p->nbits < before) /* shorter groups have the same scales, and take more room */
            break;
    }
    return LMC_OK;
}

/* Are the first elements near integers, if the largest one is `most`? tolerance: of a quotient, as a share of it. */
static int are_near_integers(const float *singles, float inverse, float tolerance)
{
    int tested = 0;
    for (size_t i = 0; i < INTEGERS_TESTED; i++) {
        const float quotient = singles[i] < 0 ? -singles[i] * inverse : singles[i] * inverse;
        if (!(quotient < 129))
            return 0;
        const float off = quotient - (float)(int)(quotient + 0.5f);
        if ((off < 0 ? -off : off) > quotient * tolerance)
            return 0;
        tested += quotient > 0;
    }
    return tested > INTEGERS_TESTED / 4;
}

/* May the probe be products of integers and a scale whose group begins with it? */
static int may_be_integers(const prober *p)
{
    static const float most[] = {127, 128, 7, 8};
    static const float tolerance[] = {0x1p-20f, 0x1p-10f, 0x1p-7f}; /* of both elements of a quotient */
    float singles[PROBE_VALUES], largest = 0;
    const size_t n = lmc_min_size(p->probe_count, PROBE_VALUES);
    lmc_product_singles(lmc_kernels_get(), p->product_type, p->buffer, n, singles);
    const size_t row = p->row_length; /* lengths are powers of two, and that of a row */
    for (size_t length = lmc_min_size(LMC_FMT_GROUP_LENGTH_MIN, row), i = 0; i < n;
         length = length < row && 2 * length > row ? row : 2 * length) {
        for (; i < lmc_min_size(length, n); i++) {
            const float magnitude = singles[i] < 0 ? -singles[i] : singles[i];
            largest = magnitude > largest ? magnitude : largest;
        }
        if (!(largest > 0 && largest < 3e38f))
            continue;
        for (size_t k = 0; k < LMC_COUNT(most); k++)
            if (are_near_integers(singles, most[k] / largest, tolerance[p->product_type]))
                return 1;
    }
    return 0;
}

/* Tries products of all kinds that the probe does not rule out. */
static lmc_status look_for_products(prober *p)
{
    const unsigned nbytes = p->content->element_nbytes;
    float singles[SIGNIFICANDS_TESTED];
    uint64_t seen[2] = {0, 0}; /* significands: factors of few bits make few of them */
    lmc_product_singles(lmc_kernels_get(), p->product_type, p->buffer, SIGNIFICANDS_TESTED, singles);
    for (size_t i = 0; i < SIGNIFICANDS_TESTED; i++) {
        const uint32_t bits = lmc_load32(&singles[i]);
        const unsigned top = bits >> 16 & 0x7f;
        if ((bits & 0x7fffffff) != 0)
            seen[top / 64] |= UINT64_C(1) << top % 64;
    }
    const unsigned significands = lmc_popcount64(seen[0]) + lmc_popcount64(seen[1]);
    const int may_be_listed =
        lmc_palette_count(p->buffer, SIGNIFICANDS_TESTED, nbytes, LISTED_SEEN_MAX) <= LISTED_SEEN_MAX;
    int may_be_integer = may_be_integers(p);
    if (!may_be_integer && p->content->value_count >= SEARCHED_VALUES_MIN) {
        float likely = 127;
        start_products(p, LMC_FMT_FACTORS_I8_ZEROS, 0);
        const lmc_product_group group = {&p->work->tried.narrow, &p->work->tried.order, lmc_kernels_get(),
                                         p->buffer, lmc_min_size(p->row_length, SEARCHED_LENGTH)};
        float scale;
        may_be_integer = lmc_product_find(&group, &likely, &scale, p->work->tried_numbers) == 0;
    }
    if (may_be_integer) {
        LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_I8, 0));
        if (!are_all_products(p))
            LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_I8_ZEROS, 0));
        if (!p->choice->narrow.is_used && p->product_type == LMC_FMT_PRODUCT_F32)
            LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_LIST, 1));
    }
    if (significands <= 8)
        LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_E4M3, 0));
    if (significands <= 4)
        LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_E5M2, 0));
    if (may_be_listed)
        LMC_TRY(try_lengths(p, LMC_FMT_FACTORS_LIST, 0));
    return LMC_OK;
}

/* ---- palettes ---- */

/* Orders the palette of the whole tensor by how many of n elements have a value, so that blocks can leave out its end.
 * A value that only one element has is left to the blocks. */
static void rank_palette(lmc_narrow_choice *tried, unsigned nbytes, uint8_t *numbers, size_t n)
{
    uint8_t palette[sizeof tried->palette], ranked[LMC_PALETTE_VALUES_MAX], rank[LMC_PALETTE_VALUES_MAX];
    uint32_t counts[LMC_PALETTE_VALUES_MAX] = {0};
    const unsigned count = tried->palette_count;
    for (size_t i = 0; i < n; i++)
        counts[numbers[i]]++;
    for (unsigned i = 0; i < count; i++) {
        unsigned k = i;
        for (; k > 0 && counts[ranked[k - 1]] < counts[i]; k--)
            ranked[k] = ranked[k - 1];
        ranked[k] = (uint8_t)i;
    }
    memcpy(palette, tried->palette, count * (size_t)nbytes);
    for (unsigned k = 0; k < count; k++) {
        memcpy(tried->palette + k * (size_t)nbytes, palette + ranked[k] * (size_t)nbytes, nbytes);
        rank[ranked[k]] = (uint8_t)k;
        tried->palette_count -= counts[ranked[k]] < 2;
    }
    for (size_t i = 0; i < n; i++)
        numbers[i] = rank[numbers[i]];
}

/* Tries palettes of groups of one length: a row, or more than the tensor has. */
static lmc_status try_palettes(prober *p, uint32_t group_length)
{
    lmc_narrow_work *const work = p->work;
    const unsigned nbytes = p->content->element_nbytes;
    const int is_whole = group_length > p->row_length;
    lmc_narrow_choice *const tried = &work->tried;
    size_t piece, n, missed = 0, value_count = 0;
    lmc_narrow_set_form(&tried->narrow, LMC_FMT_NARROW_PALETTE, nbytes);
    tried->narrow.row_length = tried->narrow.group_length = group_length;
    LMC_TRY(read_sample(p, p->row_length, &piece, &n));
    for (size_t i = 0, left; i < n; i += left) {
        const uint8_t *const group = p->buffer + i * nbytes;
        left = is_whole ? n : lmc_min_size(p->row_length - i % piece % p->row_length, piece - i % piece);
        const unsigned found = lmc_palette_find(group, left, nbytes, n / SAMPLE_EXCEPTION_SHARE_MAX, 0,
                                                tried->palette, work->tried_numbers + i);
        if (found == 0)
            return LMC_OK;
        value_count += found;
        for (size_t k = 0; k < left; k++)
            missed += memcmp(tried->palette + (size_t)work->tried_numbers[i + k] * nbytes, group + k * nbytes,
                             nbytes) != 0;
    }
    /* Values of the second half of a sample that are none of the first half: if each part of the tensor has its own, a
     * block has more of them than a palette holds. */
    uint8_t is_early[LMC_PALETTE_VALUES_MAX] = {0};
    for (size_t i = 0; is_whole && n < p->content->value_count && i < n; i++)
        if (i < n / 2)
            is_early[work->tried_numbers[i]] = 1;
        else
            missed += !is_early[work->tried_numbers[i]];
    tried->palette_count = is_whole ? (unsigned)value_count : 0;
    if (is_whole)
        rank_palette(tried, nbytes, work->tried_numbers, n);
    if (value_count > 2)
        keep_if_better(p, n, missed, 8.0 * nbytes * (double)value_count);
    return LMC_OK;
}

/* ---- floats in wider floats ---- */

/* How many of n elements are no numbers of the narrower type. */
static size_t count_wide(unsigned form, const uint8_t *src, size_t n, unsigned nbytes)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    uint8_t narrow[FLOATS_TESTED * sizeof(uint32_t)], wide[FLOATS_TESTED * sizeof(uint64_t)];
    size_t count = 0;
    for (size_t i = 0; i < n; i += FLOATS_TESTED) {
        const size_t m = lmc_min_size(FLOATS_TESTED, n - i);
        const uint8_t *const piece = src + i * nbytes;
        kernels->narrow[form](piece, m, narrow);
        kernels->widen[form](narrow, m, wide);
        for (size_t k = 0; k < m; k++)
            count += memcmp(wide + k * nbytes, piece + k * nbytes, nbytes) != 0;
    }
    return count;
}

/* Finds the first form of a narrower float that fits. */
static lmc_status look_for_floats(prober *p)
{
    const unsigned nbytes = p->content->element_nbytes;
    /* most BF16 numbers are F16 numbers as well */
    static const uint8_t forms[] = {LMC_FMT_NARROW_BF16_IN_F32, LMC_FMT_NARROW_F16_IN_F32,
                                    LMC_FMT_NARROW_F32_IN_F64};
    for (size_t i = 0; nbytes >= 4 && i < LMC_COUNT(forms); i++) {
        const unsigned form = forms[i];
        size_t piece, n;
        if ((form == LMC_FMT_NARROW_F32_IN_F64) != (nbytes == 8) ||
            count_wide(form, p->buffer, FLOATS_TESTED, nbytes) > 1)
            continue;
        LMC_TRY(read_sample(p, p->row_length, &piece, &n));
        if (count_wide(form, p->buffer, n, nbytes) <= n / SAMPLE_EXCEPTION_SHARE_MAX) {
            lmc_narrow_set_form(&p->choice->narrow, form, nbytes);
            return LMC_OK;
        }
        LMC_TRY(read_elements(p->content, 0, FLOATS_TESTED, p->buffer));
    }
    return LMC_OK;
}

/* ---- the whole ---- */

/* Reads a row from the middle of the tensor, or its beginning; or several short rows. */
static lmc_status read_probe(prober *p)
{
    const lmc_content *const content = p->content;
    const uint64_t row = content->value_count / p->row_length / 2;
    const uint64_t share = content->value_count / PROBE_SHARE;
    const uint64_t most = share > PROBE_VALUES ? share : PROBE_VALUES;
    const uint64_t least = p->row_length > VALUES_TESTED ? p->row_length : VALUES_TESTED;
    const uint64_t wanted = lmc_min_u64(least, lmc_min_u64(most, LMC_NARROW_SAMPLE_VALUES));
    const uint64_t first = row * p->row_length;
    p->probe_count = (size_t)lmc_min_u64(wanted, content->value_count - first);
    return read_elements(content, first, p->probe_count, p->buffer);
}

lmc_status lmc_narrow_decide(const lmc_content *content, lmc_narrow_work *work, uint8_t *buffer,
                             lmc_narrow_choice *choice)
{
    const lmc_dtype dtype = content->dtype;
    prober p = {.content = content,
                .work = work,
                .choice = choice,
                .nbits = 8.0 * content->element_nbytes,
                .buffer = buffer,
                .product_type = dtype == LMC_DTYPE_F16    ? LMC_FMT_PRODUCT_F16
                                : dtype == LMC_DTYPE_BF16 ? LMC_FMT_PRODUCT_BF16
                                                          : LMC_FMT_PRODUCT_F32};
    choice->narrow.is_used = 0;
    choice->side_nbits = 0;
    const int has_products = dtype == LMC_DTYPE_F32 || dtype == LMC_DTYPE_F16 || dtype == LMC_DTYPE_BF16;
    const int is_integer = lmc_dtype_get_kind(dtype) == LMC_KIND_INT && content->element_nbytes > 1;
    if (content->level == LMC_LEVEL_FAST || content->value_count < VALUES_MIN ||
        (!has_products && !is_integer && dtype != LMC_DTYPE_F64))
        return LMC_OK;
    p.row_length =
        content->column_count >= LMC_FMT_GROUP_LENGTH_MIN ? content->column_count : ROW_LENGTH_DEFAULT;
    p.row_length = (uint32_t)lmc_min_u64(p.row_length, content->value_count);
    LMC_TRY(read_probe(&p));
    if (p.probe_count < VALUES_TESTED)
        return LMC_OK;
    /* biases and norms are not quantised */
    if (content->value_count < (content->column_count > 0 ? MATRIX_VALUES_MIN : VECTOR_VALUES_MIN))
        return is_integer ? LMC_OK : look_for_floats(&p);
    const int may_be_palettes =
        lmc_palette_count(buffer, VALUES_TESTED, content->element_nbytes, VALUES_SEEN_MAX) <= VALUES_SEEN_MAX;
    if (may_be_palettes) {
        LMC_TRY(try_palettes(&p, UINT32_MAX));
        LMC_TRY(read_probe(&p));
    }
    if (has_products)
        LMC_TRY(look_for_products(&p));
    if (may_be_palettes && !(are_all_products(&p) && choice->side_nbits < PALETTE_GAIN_NBITS))
        LMC_TRY(try_palettes(&p, p.row_length));
    if (choice->narrow.is_used || is_integer)
        return LMC_OK;
    LMC_TRY(read_probe(&p));
    return look_for_floats(&p);
}

/* ---- narrow elements as content ---- */

/* Numbers of the sample, in the order of the tensor, each for as many elements as the sample is smaller. */
static lmc_status read_numbers(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const lmc_narrow_work *const work = user;
    const uint64_t value_count = work->content->value_count;
    const size_t count = work->sample_count;
    uint8_t *const numbers = dst;
    uint64_t place =
        value_count > count ? (uint64_t)((double)offset / (double)value_count * (double)count) : offset;
    for (size_t i = 0; i < nbytes; i++, place++)
        numbers[i] = work->numbers[place % count];
    return LMC_OK;
}

/* Elements that are read at once. */
#define PIECE_VALUES 512

static lmc_status read_floats(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const lmc_narrow_work *const work = user;
    const lmc_narrow *const narrow = &work->choice->narrow;
    uint8_t wide[PIECE_VALUES * sizeof(uint64_t)];
    const uint64_t first = offset / narrow->element_nbytes;
    const size_t n = nbytes / narrow->element_nbytes;
    for (size_t i = 0; i < n; i += PIECE_VALUES) {
        const size_t m = lmc_min_size(PIECE_VALUES, n - i);
        LMC_TRY(read_elements(work->content, first + i, m, wide));
        lmc_kernels_get()->narrow[narrow->form](wide, m, (uint8_t *)dst + i * narrow->element_nbytes);
    }
    return LMC_OK;
}

lmc_content lmc_narrow_content(const lmc_content *content, const lmc_narrow_choice *choice,
                               lmc_narrow_work *work)
{
    static const lmc_dtype float_dtypes[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32};
    static const lmc_dtype factor_dtypes[] = {LMC_DTYPE_I8, LMC_DTYPE_I8, LMC_DTYPE_F8_E4M3,
                                              LMC_DTYPE_F8_E5M2, LMC_DTYPE_U8};
    const lmc_narrow *const narrow = &choice->narrow;
    lmc_content elements = *content;
    work->content = content;
    work->choice = choice;
    elements.read = narrow->form < LMC_FMT_NARROW_PRODUCT ? read_floats : read_numbers;
    elements.read_base = NULL;
    elements.user = work;
    elements.element_nbytes = narrow->element_nbytes;
    elements.nbytes = content->value_count * narrow->element_nbytes;
    elements.src = elements.base = NULL;
    elements.dtype = LMC_DTYPE_U8;
    if (narrow->form < LMC_FMT_NARROW_PRODUCT) {
        elements.dtype = float_dtypes[narrow->form];
    } else {
        elements.level = LMC_LEVEL_DEFAULT; /* a sample is not all */
        if (narrow->form == LMC_FMT_NARROW_PRODUCT)
            elements.dtype = factor_dtypes[narrow->factor_kind];
    }
    return elements;
}
