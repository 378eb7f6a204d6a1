/* Classifies pictures with a packaged model, without Python: serve model.so model.pt2 picture.raw ...
 *
 * The shared object is what lies in the package as model.so; large weights are mapped from the package.  Each picture is a file of the first input's bytes.  Build: cc -O2 -I include serve.c -o serve -ldl -lpthread
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "rushlight.h"

#define LOOK_UP(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)
enum { THREADS = 16 };
static char **pictures;
static int count, next_picture, failures;
static void *library;
static rl_model *model;

static int classify(const char *path, void *input, float *scores) {
    LOOK_UP(rl_run); LOOK_UP(rl_input); LOOK_UP(rl_output); LOOK_UP(rl_error);
    FILE *file = fopen(path, "rb");
    size_t wanted = (size_t)p_rl_input(0)->nbytes, found = file ? fread(input, 1, wanted, file) : 0;
    if (file) fclose(file);
    if (found != wanted) { fprintf(stderr, "%s: expected %zu bytes\n", path, wanted); return -1; }
    const void *inputs[] = {input};
    void *outputs[] = {scores};
    int64_t code = p_rl_run(model, inputs, outputs);
    if (code) { fprintf(stderr, "%s: %s\n", path, p_rl_error(code)); return -1; }
    int best = 0;
    for (int64_t k = 1; k < p_rl_output(0)->nbytes / (int64_t)sizeof(float); k++)
        if (scores[k] > scores[best]) best = (int)k;
    return best;
}

static void *work(void *unused) {
    LOOK_UP(rl_input); LOOK_UP(rl_output);
    void *input = malloc((size_t)p_rl_input(0)->nbytes);
    float *scores = malloc((size_t)p_rl_output(0)->nbytes);
    for (int k; (k = __atomic_fetch_add(&next_picture, 1, __ATOMIC_RELAXED)) < count;) {
        int class = classify(pictures[k], input, scores);
        if (class < 0) __atomic_store_n(&failures, 1, __ATOMIC_RELAXED);
        else printf("%s: %d\n", pictures[k], class);
    }
    free(input), free(scores);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 3 || !(library = dlopen(argv[1], RTLD_NOW))) { fprintf(stderr, "usage: serve model.so model.pt2 picture...\n%s\n", argc > 2 ? dlerror() : ""); return 2; }
    LOOK_UP(rl_create_from); LOOK_UP(rl_destroy);
    if (!(model = p_rl_create_from(argv[2]))) { fprintf(stderr, "this machine cannot run the model, or the weights are not its own\n"); return 1; }
    pictures = argv + 3, count = argc - 3;
    pthread_t threads[THREADS];
    for (int k = 0; k < THREADS; k++) pthread_create(&threads[k], NULL, work, NULL);
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    p_rl_destroy(model);
    dlclose(library);
    return failures;
}
