// SPDX-License-Identifier: GPL-3.0-or-later
// What may be in a session's name, and how one is made of what was said.
#include "app/store/store_name.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wctype.h>

#include "app/util/sanitize.h"
#include "tokenizer/tok.h"

enum name_class { NAME_OTHER, NAME_MARK, NAME_FIRST, NAME_DASH };

// Letters are those of Unicode, whatever the language that this program is told to speak.
static enum name_class class_beyond_ascii(uint32_t code)
{
    enum name_class class = NAME_OTHER;
    locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!unicode)
        return NAME_OTHER;
    if (iswctype_l((wint_t)code, wctype_l("combining", unicode), unicode))
        class = NAME_MARK;
    else if (iswalnum_l((wint_t)code, unicode))
        class = NAME_FIRST;
    freelocale(unicode);
    return sanitize_visible(code) == code ? class : NAME_OTHER;
}

static enum name_class class_of(uint32_t code)
{
    if (code >= 0x80)
        return class_beyond_ascii(code);
    bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9');
    return letter || code == '_' ? NAME_FIRST : code == '-' ? NAME_DASH : NAME_OTHER;
}

bool store_name_valid(const char *name)
{
    size_t length = strlen(name);
    uint32_t code;
    for (size_t at = 0; at < length; at += (size_t)tok_utf8(name + at, length - at, &code)) {
        enum name_class class = tok_utf8(name + at, length - at, &code) > 0 ? class_of(code) : NAME_OTHER;
        if (class == NAME_OTHER || (at == 0 && class != NAME_FIRST))
            return false;
    }
    return length > 0 && length < STORE_NAME_SIZE;
}

void store_name_cut(char *name, size_t most)
{
    size_t length = strlen(name);
    if (length <= most)
        return;
    while (most > 0 && ((unsigned char)name[most] & 0xC0) == 0x80)
        most--;
    name[most] = 0;
}

void store_name_make(char *name, uint64_t time, const char *text, size_t length)
{
    enum { WORDS_END = 48 };
    time_t seconds = (time_t)time;
    struct tm local;
    size_t at = localtime_r(&seconds, &local) ? strftime(name, STORE_NAME_SIZE, "%Y-%m-%d-%H%M", &local) : 0;
    bool gap = at > 0;
    for (size_t i = 0, size; i < length && at < WORDS_END; i += size) {
        uint32_t code;
        int found = tok_utf8(text + i, length - i, &code);
        size = found > 0 ? (size_t)found : 1;
        enum name_class class = found > 0 ? class_of(code) : NAME_OTHER;
        if (class == NAME_MARK && gap)
            continue;
        if (class == NAME_OTHER || class == NAME_DASH) {
            gap = (gap || text[i] != '\'') && at > 0;
            continue;
        }
        if (gap)
            name[at++] = '-';
        gap = false;
        memcpy(name + at, text + i, size);
        if (code >= 'A' && code <= 'Z')
            name[at] = (char)(code - 'A' + 'a');
        at += size;
    }
    name[at] = 0;
    if (!store_name_valid(name))
        strcpy(name, "chat");
}

void store_name_count(char *name, const char *base, unsigned number)
{
    char cut[STORE_NAME_SIZE];
    snprintf(cut, sizeof cut, "%s", base);
    store_name_cut(cut, STORE_NAME_SIZE - 7);
    snprintf(name, STORE_NAME_SIZE, "%.58s-%u", cut, number);
}
