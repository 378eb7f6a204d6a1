/* Runs a model on inputs from files: run model.so package input... prints each output's bytes, in the order in which they lie, as hexadecimal words. */
#ifdef _WIN32
#include <windows.h>
#define RTLD_NOW 0
#define dlopen(path, how) ((void *)LoadLibraryA(path))
#define dlsym(library, name) ((void *)GetProcAddress((HMODULE)(library), name))
#define dlclose(library) FreeLibrary((HMODULE)(library))
#define dlerror() "the library cannot be loaded"
#elif defined IMAGE
#include "image.h"
#define dlopen(path, how) image_open(path)
#define dlsym(library, name) image_symbol(name)
#define dlclose(library) (void)(library)
#else
#include <dlfcn.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include "rushlight.h"

#define LOOK_UP(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char **argv) {
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    LOOK_UP(rl_create_from); LOOK_UP(rl_destroy); LOOK_UP(rl_run); LOOK_UP(rl_error); LOOK_UP(rl_input);
    LOOK_UP(rl_output); LOOK_UP(rl_input_count); LOOK_UP(rl_output_count); LOOK_UP(rl_level);
    rl_model *model = p_rl_create_from(argv[2]);
    if (!model) { puts("not created"); return 1; }
    const void *inputs[16];
    void *outputs[16];
    for (int64_t k = 0; k < p_rl_input_count(); k++) {
        size_t wanted = (size_t)p_rl_input(k)->nbytes;
        void *data = malloc(wanted + 1);
        FILE *file = k + 3 < argc ? fopen(argv[k + 3], "rb") : NULL;
        if (!file || fread(data, 1, wanted, file) != wanted) { fprintf(stderr, "input %d\n", (int)k); return 1; }
        fclose(file);
        inputs[k] = data;
    }
    for (int64_t k = 0; k < p_rl_output_count(); k++) outputs[k] = malloc((size_t)p_rl_output(k)->nbytes + 1);
    int64_t code = p_rl_run(model, inputs, outputs);
    if (code) { printf("%s\n", p_rl_error(code)); return 1; }
    printf("level %ld\n", (long)p_rl_level(model));
    for (int64_t k = 0; k < p_rl_output_count(); k++) {
        for (int64_t n = 0; n < p_rl_output(k)->nbytes; n++) printf("%02x", ((unsigned char *)outputs[k])[n]);
        puts("");
    }
    p_rl_destroy(model);
    dlclose(library);
    return 0;
}
