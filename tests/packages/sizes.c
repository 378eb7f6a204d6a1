/* Runs a model of one input, whose batch and length vary, on ones: prints the output's shape and sum. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "rushlight.h"

#define LOOK_UP(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    LOOK_UP(rl_create); LOOK_UP(rl_destroy); LOOK_UP(rl_run_sized); LOOK_UP(rl_output_sizes); LOOK_UP(rl_error);
    LOOK_UP(rl_size); LOOK_UP(rl_size_count);
    rl_model *model = p_rl_create();
    if (!model) return 1;
    for (int64_t k = 0; k < p_rl_size_count(); k++)
        printf("%s%s %ld %ld", k ? ", " : "", p_rl_size(k)->name, (long)p_rl_size(k)->low, (long)p_rl_size(k)->high);
    puts("");
    int64_t cases[][3] = {{1, 1, 32}, {2, 40, 32}, {20, 3, 32}, {7, 17, 32}, {7, 17, 32}, {2, 41, 32}};
    for (int k = 0; k < 6; k++) {
        const int64_t *shapes[] = {cases[k]};
        int64_t told[6], code = p_rl_output_sizes(shapes, told), count = 1;
        if (code) { puts(p_rl_error(code)); continue; }
        for (int d = 0; d < 3; d++) count *= cases[k][d];
        float *in = malloc(count * sizeof(float)), *out = malloc(told[0] * told[3] * sizeof(float));
        for (int64_t n = 0; n < count; n++) in[n] = 1;
        const void *inputs[] = {in};
        void *outputs[] = {out};
        if ((code = p_rl_run_sized(model, inputs, shapes, outputs))) { fprintf(stderr, "%s\n", p_rl_error(code)); return 1; }
        double sum = 0;
        for (int64_t n = 0; n < told[0] * told[3]; n++) sum += out[n];
        printf("%ld %ld %ld: %.9g\n", (long)told[0], (long)told[1], (long)told[2], sum);
        free(in), free(out);
    }
    p_rl_destroy(model);
    dlclose(library);
    return 0;
}
