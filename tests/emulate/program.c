// SPDX-License-Identifier: GPL-3.0-or-later
// Compiles kernels for this machine. A kernel's __local arrays become what any code might write to, so that compilers
// take nothing for granted of what other work-items do to them at a barrier: clang says "internal" of them, and by
// optimizing that would keep numbers in registers across one.
#define _GNU_SOURCE
#include "tests/emulate/program.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// builtins.cl, which the assembler takes in.
__asm__(".section .rodata\n"
        ".globl builtins_text, builtins_text_end\n"
        ".hidden builtins_text, builtins_text_end\n"
        "builtins_text: .incbin \"tests/emulate/builtins.cl\"\n"
        "builtins_text_end:\n"
        ".previous\n");
extern const char builtins_text[] __attribute__((visibility("hidden")));
extern const char builtins_text_end[] __attribute__((visibility("hidden")));

static struct bytes read_file(const char *path)
{
    struct bytes b = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (file && fseek(file, 0, SEEK_END) == 0) {
        long n = ftell(file);
        rewind(file);
        b.data = n >= 0 ? calloc(1, (size_t)n + 1) : NULL;
        if (b.data)
            b.n = fread(b.data, 1, (size_t)n, file);
    }
    if (file)
        fclose(file);
    return b;
}

static bool write_text(const char *path, const char *text, size_t n)
{
    FILE *file = fopen(path, "wb");
    size_t first = (size_t)(builtins_text_end - builtins_text);
    bool good = file && fwrite(builtins_text, 1, first, file) == first && fwrite(text, 1, n, file) == n;
    return file && fclose(file) == 0 && good;
}

// Beside a program that has the address sanitizer the kernels have it, too.
static const char *checks(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") ? "-fsanitize=address -mllvm -asan-stack=0" : "";
}

// Loops stay loops, which halves the time. A vector that is not aligned is a mistake (a GPU refuses it, x86-64 does
// not), and so is an index beyond an array.
static const char build_commands[] =
    "cd %s && unset LD_LIBRARY_PATH LD_PRELOAD && {"
    " clang -x cl %s -cl-no-stdinc -Xclang -include -Xclang opencl-c-base.h -march=native -O1 -fPIC"
    " -fsanitize=alignment,array-bounds -fsanitize-trap=alignment,array-bounds %s"
    " -Xclang -disable-llvm-passes -S -emit-llvm -o text.ll text.cl &&"
    " sed -i 's/^\\(@.*\\) = internal global /\\1 = global /' text.ll &&"
    " clang -w -x ir -O1 -fsanitize=local-bounds -mllvm -pragma-unroll-threshold=1 -mllvm -unroll-threshold=1 "
    "-march=native -fPIC %s -c"
    " -o text.o text.ll &&"
    " clang -shared -nostdlib -Wl,-Bsymbolic -Wl,--hash-style=sysv -o text.so text.o; } >log 2>&1";

static struct bytes build(const char *text, size_t n, const char *options, char **log)
{
    char folder[] = "/tmp/moechat-warps-XXXXXX";
    char path[64], command[2048];
    struct bytes library = {NULL, 0};
    if (!mkdtemp(folder))
        return library;
    snprintf(path, sizeof path, "%s/text.cl", folder);
    snprintf(command, sizeof command, build_commands, folder, options, checks(), checks());
    bool good = write_text(path, text, n) && system(command) == 0;
    snprintf(path, sizeof path, "%s/log", folder);
    *log = (char *)read_file(path).data;
    snprintf(path, sizeof path, "%s/text.so", folder);
    if (good)
        library = read_file(path);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", folder);
    return library;
}

// ---- what was built before

static uint64_t mixed(uint64_t hash, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

// Where a build is kept, by all that it depends on but the machine and its clang.
static void kept_path(const char *text, size_t n, const char *options, char *path, size_t room)
{
    uint64_t hashes[2] = {0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};
    const char *folder = getenv("MOECHAT_WARPS_CACHE");
    for (int i = 0; i < 2; i++) {
        hashes[i] = mixed(hashes[i], text, n);
        hashes[i] = mixed(hashes[i], options, strlen(options));
        hashes[i] = mixed(hashes[i], checks(), strlen(checks()));
        hashes[i] = mixed(hashes[i], build_commands, sizeof build_commands);
        hashes[i] = mixed(hashes[i], builtins_text, (size_t)(builtins_text_end - builtins_text));
    }
    snprintf(path, room, "%s/%016lx%016lx.so", folder ? folder : "/tmp", hashes[0], hashes[1]);
}

// Written beside and renamed: tests run side by side.
static void keep(const char *path, const struct bytes *library)
{
    char beside[1100];
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(beside, "wb");
    bool good = file && fwrite(library->data, 1, library->n, file) == library->n;
    if (file && (fclose(file) != 0 || !good || rename(beside, path) != 0))
        remove(beside);
}

struct bytes program_compile(const char *text, size_t n, const char *options, char **log)
{
    char path[1024];
    kept_path(text, n, options, path, sizeof path);
    *log = NULL;
    struct bytes library = getenv("MOECHAT_WARPS_CACHE") ? read_file(path) : (struct bytes){NULL, 0};
    if (library.data)
        return library;
    library = build(text, n, options, log);
    if (library.data && getenv("MOECHAT_WARPS_CACHE"))
        keep(path, &library);
    return library;
}

// From a file of its own: the loader takes one of a name that it has for the same library.
void *program_load(const struct bytes *library, char **log)
{
    char path[] = "/tmp/moechat-warps-XXXXXX";
    void *loaded = NULL;
    int fd = mkstemp(path);
    if (fd >= 0 && write(fd, library->data, library->n) == (ssize_t)library->n)
        loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) {
        const char *why = dlerror();
        *log = strdup(why ? why : "the library cannot be written to /tmp");
    }
    if (fd >= 0) {
        unlink(path);
        close(fd);
    }
    return loaded;
}

// The arrays that clang names KERNEL.ARRAY, of the library's table of symbols.
static void find_arrays(void *loaded, const char *name, struct loaded_kernel *kernel)
{
    struct link_map *map;
    const ElfW(Sym) *symbols = NULL;
    const ElfW(Word) *hash = NULL;
    const char *names = NULL;
    if (dlinfo(loaded, RTLD_DI_LINKMAP, &map) != 0)
        return;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr; // which the loader has moved to where it is
        if (d->d_tag == DT_SYMTAB)
            symbols = at;
        else if (d->d_tag == DT_STRTAB)
            names = at;
        else if (d->d_tag == DT_HASH)
            hash = at;
    }
    size_t length = strlen(name);
    for (size_t i = 0; symbols && names && hash && i < hash[1]; i++) {
        const ElfW(Sym) *s = &symbols[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT || strncmp(names + s->st_name, name, length) != 0 ||
            names[s->st_name + length] != '.')
            continue;
        if (kernel->n_arrays == MOST_ARRAYS) {
            fprintf(stderr, "FAIL %s has more local arrays than the emulator looks for\n", name);
            abort();
        }
        kernel->arrays[kernel->n_arrays++] = (struct local_array){(uint32_t *)(map->l_addr + s->st_value), s->st_size};
        kernel->local_bytes += s->st_size;
    }
}

struct loaded_kernel program_kernel(void *loaded, const char *name)
{
    struct loaded_kernel kernel = {0};
    void *function = dlsym(loaded, name);
    memcpy(&kernel.function, &function, sizeof function);
    if (function)
        find_arrays(loaded, name, &kernel);
    return kernel;
}
