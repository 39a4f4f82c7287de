/* user.c - a program outside the tree that uses an installed liblmc. */
#include <lmc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static const char content[] = "three bytes short of an even number";
    unsigned char *frame = NULL;
    char back[sizeof(content)];
    size_t bound, frame_nbytes, got;
    lmc_params params;
    lmc_ctx *ctx;
    lmc_params_init(&params);
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK ||
        lmc_encode_bound(&params, sizeof(content), &bound) != LMC_OK || (frame = malloc(bound)) == NULL ||
        lmc_encode(ctx, &params, content, sizeof(content), frame, bound, &frame_nbytes) != LMC_OK ||
        lmc_decode(ctx, frame, frame_nbytes, back, sizeof(back), &got) != LMC_OK || got != sizeof(content) ||
        memcmp(back, content, got) != 0) {
        puts("round trip failed");
        return 1;
    }
    lmc_ctx_free(ctx);
    free(frame);
    printf("%s\n", lmc_version_text());
    return 0;
}
