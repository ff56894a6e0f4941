// SPDX-License-Identifier: GPL-3.0-or-later
// A walk through readline's keymaps.
#include "app/term/keymaps.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    struct keymaps *keymaps;
    const struct keymaps_functions *functions;
};

// Where a walk is.
struct place {
    Keymap map;
    int deep;
    bool falls_back; // readline tries shorter keys where it finds none here
    bool sequence;   // behind ESC [ or ESC O
};

static struct keymaps_macro *find(const struct keymaps *keymaps, Keymap map, int key)
{
    for (size_t i = 0; i < keymaps->n_macros; i++)
        if (keymaps->macros[i].map == map && keymaps->macros[i].key == key)
            return &keymaps->macros[i];
    return NULL;
}

static bool note_macro(struct keymaps *keymaps, Keymap map, int key, const char *text)
{
    struct keymaps_macro *macro = find(keymaps, map, key);
    char *copy = strdup(text);
    if (!copy)
        return false;
    if (macro) {
        free(macro->text);
        macro->text = copy;
        return true;
    }
    struct keymaps_macro *more = realloc(keymaps->macros, (keymaps->n_macros + 1) * sizeof *more);
    if (!more) {
        free(copy);
        return false;
    }
    more[keymaps->n_macros++] = (struct keymaps_macro){.map = map, .key = key, .text = copy};
    keymaps->macros = more;
    return true;
}

// What an entry points to that is no function.
static void *pointed(const KEYMAP_ENTRY *entry)
{
    void *to;
    memcpy(&to, &entry->function, sizeof to);
    return to;
}

static void put(KEYMAP_ENTRY *entry, rl_command_func_t *function)
{
    entry->type = ISFUNC;
    entry->function = function;
}

static void mend_macro(struct walk *walk, Keymap map, int key)
{
    const char *text = pointed(&map[key]); // is never freed: readline shares it between maps
    bool noted = text && note_macro(walk->keymaps, map, key, text);
    put(&map[key], noted ? walk->functions->macro : walk->functions->unknown);
}

// A macro that is recorded while another one is called ends readline, and a command that reads its own name from the
// keyboard lets nothing else happen meanwhile.
static bool is_unwanted(rl_command_func_t *function)
{
    return function &&
           (function == rl_start_kbd_macro || function == rl_end_kbd_macro || function == rl_call_last_kbd_macro ||
            function == rl_print_last_kbd_macro || function == rl_named_function("execute-named-command"));
}

static const struct keymaps_other *find_other(const struct keymaps_functions *functions, rl_command_func_t *was)
{
    for (const struct keymaps_other *other = functions->others; was && other->was; other++)
        if (other->was == was)
            return other;
    return NULL;
}

static void mend_function(const struct walk *walk, const struct place *place, int key)
{
    const struct keymaps_functions *functions = walk->functions;
    KEYMAP_ENTRY *entry = &place->map[key];
    rl_command_func_t *function = entry->function;
    bool within = place->deep > 0;
    if (is_unwanted(function) || (within && function == rl_abort))
        put(entry, functions->unknown);
    else if (function == rl_re_read_init_file)
        put(entry, functions->reread);
    else if (function == rl_reverse_search_history)
        put(entry, functions->back);
    else if (function == rl_forward_search_history)
        put(entry, functions->forth);
    else if (find_other(functions, function))
        put(entry, find_other(functions, function)->does);
    else if (function == rl_bracketed_paste_begin)
        put(entry, functions->paste);
    else if (!function && within && key != ANYOTHERKEY && (place->sequence || !place->falls_back))
        put(entry, place->sequence && key >= 0x20 && key < 0x40 ? functions->skip : functions->unknown);
}

static void mend(struct walk *walk, const struct place *place)
{
    for (int key = 0; key < KEYMAP_SIZE; key++) {
        KEYMAP_ENTRY *entry = &place->map[key];
        Keymap child = entry->type == ISKMAP ? pointed(entry) : NULL;
        if (entry->type == ISMACR)
            mend_macro(walk, place->map, key);
        else if (entry->type == ISFUNC)
            mend_function(walk, place, key);
        else if (!child || place->deep == KEYMAPS_DEEPEST)
            put(entry, walk->functions->unknown);
        else
            mend(walk,
                 &(struct place){.map = child,
                                 .deep = place->deep + 1,
                                 .falls_back = place->falls_back || child[ANYOTHERKEY].function,
                                 .sequence = place->sequence || (place->deep == 1 && (key == '[' || key == 'O'))});
    }
}

void keymaps_mend(struct keymaps *keymaps, Keymap map, const struct keymaps_functions *functions)
{
    mend(&(struct walk){.keymaps = keymaps, .functions = functions}, &(struct place){.map = map});
}

void keymaps_lend_searches(Keymap map, const struct keymaps_functions *functions)
{
    for (int key = 0; key < KEYMAP_SIZE; key++) {
        KEYMAP_ENTRY *entry = &map[key];
        if (entry->type == ISKMAP)
            keymaps_lend_searches(pointed(entry), functions);
        else if (entry->type == ISFUNC && entry->function == functions->back)
            put(entry, rl_reverse_search_history);
        else if (entry->type == ISFUNC && entry->function == functions->forth)
            put(entry, rl_forward_search_history);
    }
}

const char *keymaps_macro(const struct keymaps *keymaps, Keymap map, int key)
{
    const struct keymaps_macro *macro = find(keymaps, map, key);
    if (!macro) // a key that is the beginning of others, too
        macro = find(keymaps, map, ANYOTHERKEY);
    return macro ? macro->text : NULL;
}

void keymaps_release(struct keymaps *keymaps)
{
    for (size_t i = 0; i < keymaps->n_macros; i++)
        free(keymaps->macros[i].text);
    free(keymaps->macros);
    *keymaps = (struct keymaps){0};
}
