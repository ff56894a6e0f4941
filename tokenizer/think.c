// SPDX-License-Identifier: GPL-3.0-or-later
// Tells thinking from answering by the marks between them.
#include <string.h>

#include "tokenizer/tok.h"

enum state { SAID, BEFORE, OPENED, THOUGHT, CLOSED };

static const char *const marks[] = {[BEFORE] = "<think>", [OPENED] = "</think>", [THOUGHT] = "</think>"};

void tok_think_begin(struct tok_think *think, bool has_marks, bool inside)
{
    *think = (struct tok_think){.state = !has_marks ? SAID : inside ? OPENED : BEFORE};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void release(struct tok_think *think, const struct tok_think_out *out)
{
    unsigned n = think->n_held;
    think->n_held = 0;
    if (n)
        out->text(out->context, think->state == THOUGHT || think->state == OPENED, think->held, n);
}

// A mark is whole: the space around it is no text either.
static void pass_mark(struct tok_think *think)
{
    think->n_held = 0;
    think->state = think->state == BEFORE ? OPENED : CLOSED;
}

// What is held may go on to be a mark, with the space before it where an answer begins. Returns whether c was taken in.
static bool hold(struct tok_think *think, char c, const struct tok_think_out *out)
{
    const char *mark = marks[think->state];
    unsigned spaces = 0;
    while (think->state == BEFORE && spaces < think->n_held && is_space(think->held[spaces]))
        spaces++;
    unsigned matched = think->n_held - spaces;
    bool space = think->state == BEFORE && matched == 0 && is_space(c) && spaces < sizeof think->held - 8;
    if (!space && mark[matched] != c) {
        bool plain = think->state == BEFORE;
        release(think, out);
        if (plain)
            think->state = SAID;
        return false;
    }
    think->held[think->n_held++] = c;
    if (!space && !mark[matched + 1])
        pass_mark(think);
    return true;
}

void tok_think_push(struct tok_think *think, const char *bytes, size_t length, const struct tok_think_out *out)
{
    for (size_t at = 0; at < length;) {
        size_t run = 0;
        if ((think->state == OPENED || think->state == CLOSED) && !think->n_held && is_space(bytes[at])) {
            at++;
            continue;
        }
        if (think->state == CLOSED)
            think->state = SAID;
        if (think->state == OPENED && bytes[at] != '<' && !think->n_held)
            think->state = THOUGHT;
        if (think->state != SAID && (think->n_held || think->state == BEFORE || bytes[at] == '<')) {
            at += hold(think, bytes[at], out);
            continue;
        }
        while (at + run < length && (think->state == SAID || bytes[at + run] != '<'))
            run++;
        out->text(out->context, think->state == THOUGHT, bytes + at, run);
        at += run;
    }
}

void tok_think_flush(struct tok_think *think, const struct tok_think_out *out)
{
    release(think, out);
}
