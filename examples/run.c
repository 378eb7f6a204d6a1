/* Runs a packaged model on NumPy's files, without Python:
 *
 *     run model.pt2 --input x.npy --input y.npy --output z.npy [--repeat 100] [--threads 1] [--libraries]
 *
 * Inputs may have any sizes that the model was packaged for.  It prints how long opening takes, the first call, and the
 * fastest one; with --libraries, too, which files this process has mapped.  Outputs without a file are computed only.
 * Build: cc -O2 -I include run.c -o run -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "rushlight.h"

#define LOOK_UP(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)
enum { MOST = 32, RANK = 16 };
typedef struct { void *data; int64_t shape[RANK], rank; } array;
static void *library;

static void fail(const char *what, const char *why) { fprintf(stderr, "%s: %s\n", what, why); exit(1); }

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static unsigned word(const unsigned char *at) { return at[0] | at[1] << 8 | at[2] << 16 | (unsigned)at[3] << 24; }
static unsigned half(const unsigned char *at) { return at[0] | at[1] << 8; }

/* Opens the first shared object of a package: a zip whose entries are stored. */
static void *opened(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat told;
    if (file < 0 || fstat(file, &told)) fail(path, "there is no such file");
    size_t bytes = (size_t)told.st_size;
    const unsigned char *zip = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (zip == MAP_FAILED || bytes < 22) fail(path, "not a package");
    size_t end = bytes - 22;
    while (end && word(zip + end) != 0x06054b50) end--;
    size_t at = word(zip + end + 16);
    for (unsigned k = half(zip + end + 10); k-- && at + 46 < bytes && word(zip + at) == 0x02014b50;) {
        size_t length = half(zip + at + 28), size = word(zip + at + 24), head = word(zip + at + 42);
        const char *name = (const char *)zip + at + 46;
        if (length > 3 && at + 46 + length <= bytes && !memcmp(name + length - 3, ".so", 3) && head + 30 < bytes) {
            size_t begin = head + 30 + half(zip + head + 26) + half(zip + head + 28);
            int memory = memfd_create("model.so", 0);
            char place[64];
            snprintf(place, sizeof place, "/proc/self/fd/%d", memory);
            if (begin + size > bytes || write(memory, zip + begin, size) != (ssize_t)size) fail(path, "damaged");
            void *found = dlopen(place, RTLD_NOW);
            if (!found) fail(path, dlerror());
            close(memory), munmap((void *)zip, bytes), close(file);
            return found;
        }
        at += 46 + length + half(zip + at + 30) + half(zip + at + 32);
    }
    fail(path, "not a package, or one for another machine");
    return NULL;
}

static const char *KINDS[] = {"", "<f4", "<f8", "<f2", "<V2", "|i1", "|u1", "<i2", "<i4", "<i8", "|b1", "<c8", "<c16"};
static const int BYTES[] = {0, 4, 8, 2, 2, 1, 1, 2, 4, 8, 1, 8, 16};

/* Memory on lines of caches; what is large lies in huge pages, of which each is touched for the first time once. */
static void *room(size_t bytes) {
    size_t page = bytes >> 21 ? (size_t)1 << 21 : 64;
    void *made = aligned_alloc(page, (bytes / page + 1) * page);
    if (made && page > 64) madvise(made, (bytes / page + 1) * page, MADV_HUGEPAGE);
    return made;
}

static array read_array(const char *path, int64_t kind) {
    array made = {0};
    FILE *file = fopen(path, "rb");
    unsigned char head[10];
    char text[4096];
    if (!file || fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6)) fail(path, "not a file of NumPy");
    size_t length = half(head + 8);
    if (head[6] != 1 || length >= sizeof text || fread(text, 1, length, file) != length) fail(path, "another version");
    text[length] = 0;
    if (!strstr(text, KINDS[kind]) || !strstr(text, "'fortran_order': False")) fail(path, "another dtype or order");
    int64_t count = 1;
    for (char *at = strchr(strstr(text, "'shape'"), '(') + 1; *at && *at != ')'; at += *at == ',' || *at == ' ')
        if (*at >= '0' && *at <= '9' && made.rank < RANK) count *= made.shape[made.rank++] = strtoll(at, &at, 10);
        else if (*at != ',' && *at != ' ') fail(path, "another shape");
    size_t wanted = (size_t)(count * BYTES[kind]);
    made.data = room(wanted);
    if (!made.data || fread(made.data, 1, wanted, file) != wanted) fail(path, "too short");
    fclose(file);
    return made;
}

/* Writes elements in row-major order, however they lie. */
static void write_array(const char *path, const char *data, int64_t kind, int64_t rank, const int64_t *sizes) {
    const int64_t *strides = sizes + rank;
    char shape[512] = "", head[1024];
    int64_t count = 1, bytes = BYTES[kind], place[RANK] = {0};
    for (int64_t d = 0; d < rank; d++) {
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld, ", (long long)sizes[d]);
        count *= sizes[d];
    }
    snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", KINDS[kind], shape);
    int padding = 63 - (int)(10 + strlen(head)) % 64, length = (int)strlen(head) + padding + 1;
    FILE *file = fopen(path, "wb");
    if (!file) fail(path, "cannot be written");
    fwrite("\x93NUMPY\1", 1, 7, file), fputc(0, file), fputc(length & 255, file), fputc(length >> 8, file);
    fprintf(file, "%s%*s\n", head, padding, "");
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0;
        for (int64_t d = 0; d < rank; d++) at += place[d] * strides[d];
        fwrite(data + bytes * at, 1, (size_t)bytes, file);
        for (int64_t d = rank - 1; d >= 0 && ++place[d] == sizes[d]; d--) place[d] = 0;
    }
    if (fclose(file)) fail(path, "cannot be written");
}

int main(int argc, char **argv) {
    const char *given[MOST], *wanted[MOST];
    int64_t inputs = 0, outputs = 0, repeat = 1, threads = 0, libraries = 0;
    for (int k = 2; k < argc; k++) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (!strcmp(argv[k], "--libraries")) { libraries = 1; continue; }
        if (!value || inputs == MOST || outputs == MOST) fail(argv[k], "wants a value");
        if (!strcmp(argv[k], "--input")) given[inputs++] = value;
        else if (!strcmp(argv[k], "--output")) wanted[outputs++] = value;
        else if (!strcmp(argv[k], "--repeat")) repeat = atoll(value);
        else if (!strcmp(argv[k], "--threads")) threads = atoll(value);
        else fail(argv[k], "unknown");
        k++;
    }
    if (argc < 2) fail("usage", "run model.pt2 --input x.npy ... [--output y.npy ...] [--repeat 100]");
    double began = milliseconds();
    library = opened(argv[1]);
    LOOK_UP(rl_create_from); LOOK_UP(rl_destroy); LOOK_UP(rl_run_sized); LOOK_UP(rl_output_sizes); LOOK_UP(rl_error);
    LOOK_UP(rl_input); LOOK_UP(rl_output); LOOK_UP(rl_input_count); LOOK_UP(rl_output_count); LOOK_UP(rl_threads);
    if (threads) p_rl_threads(threads);
    rl_model *model = p_rl_create_from(argv[1]);
    if (!model) fail(argv[1], "this machine cannot run the model, or the weights are not its own");
    double created = milliseconds();
    if (inputs != p_rl_input_count() || p_rl_output_count() > MOST) fail(argv[1], "takes another count of inputs");
    array read[MOST];
    const void *values[MOST];
    const int64_t *shapes[MOST];
    void *results[MOST];
    for (int64_t k = 0; k < inputs; k++) {
        read[k] = read_array(given[k], p_rl_input(k)->dtype);
        if (read[k].rank != p_rl_input(k)->rank) fail(given[k], "another number of dimensions");
        values[k] = read[k].data, shapes[k] = read[k].shape;
    }
    int64_t sizes[2 * RANK * MOST], *at = sizes, code = p_rl_output_sizes(shapes, sizes);
    if (code) fail(argv[1], p_rl_error(code));
    for (int64_t k = 0; k < p_rl_output_count(); k++) {
        int64_t rank = p_rl_output(k)->rank, last = 1;
        for (int64_t d = 0; d < rank; d++) last += (at[d] - 1) * at[rank + d];
        results[k] = room((size_t)(last * BYTES[p_rl_output(k)->dtype]));
        if (!results[k]) fail(argv[1], "there is no memory for its results");
        at += 2 * rank;
    }
    double first = 0, least = 1e30;
    for (int64_t k = 0; k < (repeat > 1 ? repeat : 1); k++) {
        double start = milliseconds();
        if ((code = p_rl_run_sized(model, values, shapes, results))) fail(argv[1], p_rl_error(code));
        double took = milliseconds() - start;
        if (!k) first = took;
        if (took < least) least = took;
    }
    printf("open %.3f ms, first call %.3f ms, fastest call %.5f ms\n", created - began, first, least);
    at = sizes;
    for (int64_t k = 0; k < p_rl_output_count(); k++) {
        if (k < outputs) write_array(wanted[k], results[k], p_rl_output(k)->dtype, p_rl_output(k)->rank, at);
        at += 2 * p_rl_output(k)->rank;
    }
    if (libraries) {
        char line[4096];
        FILE *maps = fopen("/proc/self/maps", "r");
        while (maps && fgets(line, sizeof line, maps)) if (strchr(line, '/')) fputs(strchr(line, '/'), stdout);
        if (maps) fclose(maps);
    }
    for (int64_t k = 0; k < inputs; k++) free(read[k].data);
    for (int64_t k = 0; k < p_rl_output_count(); k++) free(results[k]);
    p_rl_destroy(model);
    return 0;
}
