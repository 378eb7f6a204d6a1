/* Loads what a test has read of a library of another system: image_open(path) maps the bytes of a file, then follows the
 * lines of path.table: "rebase offset", "bind offset name", "start offset", "export offset name".  Calls that this
 * system does not have are made of its own. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct { char name[64]; uint64_t offset; } exported[128];
static int exports;
static char *base;

static int wait_on(uint32_t operation, void *word, uint64_t value, uint32_t timeout) {
    (void)operation, (void)timeout;
    return (int)syscall(SYS_futex, word, 128, (int)value, NULL, NULL, 0);
}

static int wake_all(uint32_t operation, void *word, uint64_t value) {
    (void)operation, (void)value;
    return (int)syscall(SYS_futex, word, 129, 1 << 30, NULL, NULL, 0);
}

static long configured(int name) { return sysconf(name == 58 ? _SC_NPROCESSORS_ONLN : name); }

static void *found(const char *name) {
    if (!strcmp(name, "__ulock_wait")) return (void *)wait_on;
    if (!strcmp(name, "__ulock_wake")) return (void *)wake_all;
    if (!strcmp(name, "sysconf")) return (void *)configured;
    return dlsym(RTLD_DEFAULT, name);
}

static void *image_open(const char *path) {
    char line[256], kind[16], name[64];
    snprintf(line, sizeof line, "%s.table", path);
    FILE *file = fopen(path, "rb"), *table = fopen(line, "r");
    if (!file || !table) return NULL;
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || fread(base, 1, bytes, file) != bytes) return NULL;
    __builtin___clear_cache(base, base + bytes);
    for (unsigned long offset; fgets(line, sizeof line, table);) {
        if (sscanf(line, "%15s %lu %63s", kind, &offset, name) < 2) return NULL;
        if (!strcmp(kind, "rebase")) *(uint64_t *)(base + offset) += (uint64_t)base;
        else if (!strcmp(kind, "bind")) {
            if (!(*(void **)(base + offset) = found(name))) { fprintf(stderr, "no %s\n", name); return NULL; }
        } else if (!strcmp(kind, "start")) ((void (*)(void))(base + offset))();
        else strcpy(exported[exports].name, name), exported[exports++].offset = offset;
    }
    fclose(file), fclose(table);
    return base;
}

static void *image_symbol(const char *name) {
    for (int k = 0; k < exports; k++) if (!strcmp(exported[k].name, name)) return base + exported[k].offset;
    return NULL;
}
