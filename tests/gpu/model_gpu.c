/* Runs a packaged model on the driver's library that is there, whose memory is the host's: model_gpu MODEL.so PACKAGE
 * DEVICE; prints what is refused, else its results for inputs of 0, 1, 2, ... of float32. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rushlight_gpu.h"

static void *library;

static void *found(const char *name) {
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(2);
    }
    return function;
}

#define FOUND(name, result, ...) result (*name)(__VA_ARGS__) = (result (*)(__VA_ARGS__))found("rl_" #name)

static void *room(const rl_tensor *tensor) {
    void *made = aligned_alloc(64, (size_t)(tensor->nbytes + 63) / 64 * 64);
    for (int64_t k = 0; k < tensor->nbytes / 4; k++) ((float *)made)[k] = (float)k;
    return made;
}

int main(int count, char **arguments) {
    if (count != 4 || !(library = dlopen(arguments[1], RTLD_NOW))) {
        fprintf(stderr, "%s\n", count == 4 ? dlerror() : "three arguments are wanted");
        return 2;
    }
    FOUND(create_on, int64_t, const char *, int64_t, rl_model **);
    FOUND(run_on, int64_t, rl_model *, void *, const void *const *, void *const *);
    FOUND(wait, int64_t, rl_model *);
    FOUND(error, const char *, int64_t);
    FOUND(destroy, void, rl_model *);
    FOUND(input, const rl_tensor *, int64_t);
    FOUND(output, const rl_tensor *, int64_t);
    FOUND(input_count, int64_t, void);
    FOUND(output_count, int64_t, void);
    rl_model *model;
    int64_t code = create_on(strcmp(arguments[2], "-") ? arguments[2] : NULL, atoi(arguments[3]), &model);
    if (code) {
        printf("%lld %s\n", (long long)code, error(code));
        return model != NULL;
    }
    void *inputs[16], *outputs[16];
    for (int64_t k = 0; k < input_count(); k++) inputs[k] = room(input(k));
    for (int64_t k = 0; k < output_count(); k++) outputs[k] = room(output(k));
    char *whole = inputs[0];
    inputs[0] = whole + 4;
    printf("%s\n", error(run_on(model, NULL, (const void *const *)inputs, outputs)));
    inputs[0] = NULL;
    printf("%s\n", error(run_on(model, NULL, (const void *const *)inputs, outputs)));
    inputs[0] = whole;
    for (int turn = 0; turn < 2; turn++) {
        code = run_on(model, NULL, (const void *const *)inputs, outputs);
        printf("%lld %lld\n", (long long)code, (long long)wait(model));
    }
    for (int64_t k = 0; k < input_count(); k++) free(inputs[k]);
    for (int64_t k = 0; k < output_count(); k++) free(outputs[k]);
    destroy(model);
    destroy(NULL);
    return dlclose(library);
}
