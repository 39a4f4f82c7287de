/* entropy.c - entropy of a histogram. */
#include "entropy.h"

double lmc_entropy(const double *weight, size_t count)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (weight[i] > 0) {
            total += weight[i];
            sum += weight[i] * lmc_log2(weight[i]);
        }
    }
    return total > 0 ? lmc_log2(total) - sum / total : 0;
}
