// SPDX-License-Identifier: GPL-3.0-or-later
// Answers in sections: what ids between control symbols mean, and what closes a section that was left open.
#include "tokenizer/sections.h"

void tok_sections_begin(struct tok_sections *s, const tok_template *turns, bool thinking)
{
    *s = (struct tok_sections){.thinking = thinking};
    if (turns)
        tok_template_sections(turns, s);
}

static enum tok_section no_text(struct tok_sections *s, const char **text, const char *mark)
{
    s->n_closing += s->closing;
    *text = mark;
    return TOK_SECTION_MARK;
}

enum tok_section tok_sections_take(struct tok_sections *s, int32_t id, const char **text)
{
    if (!s->turns)
        return TOK_SECTION_TEXT;
    if (s->marks) {
        s->thinking = s->thinking && id != s->close;
        return TOK_SECTION_TEXT;
    }
    if (s->tag) {
        bool over = id == s->sep && s->opened;
        s->tag = id != s->sep;
        enum tok_section section = no_text(s, text, "");
        s->closing = s->closing && !over;
        return section;
    }
    if (id == s->open) {
        s->tag = s->opened = true;
        return no_text(s, text, "");
    }
    if (id != s->close)
        return TOK_SECTION_TEXT;
    if (!s->thinking)
        return TOK_SECTION_END;
    s->thinking = s->opened = false;
    s->tag = s->closing = true;
    s->n_closing = 0;
    return no_text(s, text, "</think>");
}

size_t tok_sections_left(const struct tok_sections *s)
{
    if (!s->turns || (!s->thinking && !s->closing))
        return 0;
    size_t all = tok_template_between(s->turns)->count, said = s->closing ? s->n_closing : 0;
    return said < all ? all - said : 0;
}

int tok_sections_close(const struct tok_sections *s, struct tok_ids *list, struct tok_err *err)
{
    size_t left = tok_sections_left(s);
    const struct tok_ids *all = left ? tok_template_between(s->turns) : NULL;
    return all ? tok_ids_append_all(list, all->ids + all->count - left, left, err) : TOK_OK;
}
