// SPDX-License-Identifier: GPL-3.0-or-later
// A model played from a script, for tests. Lines of the script, one act each; # begins a comment line:
//
//     name TEXT | context N      what the model says of itself (before the first turn)
//     room N                     the model's limit, which a saved conversation that is longer than `context` may reach
//     states BYTES               (before the first turn) the model's layers have states of so many bytes: it can be cut
//                                back to where a prompt began or ended only
//     load STEPS MS              opening takes STEPS steps of MS milliseconds
//     restore MS                 reading saved rows takes MS milliseconds a record
//     load-error TEXT            opening fails
//     turn                       the next lines are the next answer; after the last answer the first comes again
//     prefill MS                 reading the prompt takes MS milliseconds for every 16 tokens
//     text WORDS                 a token for each word, the space before it included; escapes as in token
//     token BYTES                one token; \n \t \e \\ and \xHH are escapes
//     echo                       the user's last message, a token for each byte
//     system                     the system message, likewise
//     repeat N BYTES             N tokens
//     delay MS                   from here on, MS milliseconds before each token
//     count HITS MISSES BYTES    from here on, added to the counters by each token
//     experts LAYERS N TOP_K     (before the first turn) each token leaves a record of its step: made-up experts, of
//                                which one in eight was read from disk, and times that are always the same
//     error TEXT                 the step fails, once
//     hang                       the step lasts until it is cancelled
//
// A token id below 256 is a byte of a prompt; END closes turns; others count the script's tokens.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "app/driver/backend.h"
#include "app/driver/fake_steps.h"
#include "app/util/files.h"

enum {
    BOS = 256,
    END = 257,
    ROLE = 258,
    FIRST_TOKEN = 300,
    MAX_TOKENS = 1 << 20,
    SCRIPT_LIMIT = 16 << 20,
    MOST_BORDERS = 64
};

enum act_kind { ACT_TURN, ACT_PREFILL, ACT_TOKEN, ACT_ECHO, ACT_SYSTEM, ACT_DELAY, ACT_COUNT, ACT_ERROR, ACT_HANG };

struct act {
    enum act_kind kind;
    uint64_t number[3];
    struct bytes text;
};

struct fake {
    struct act *acts;
    size_t n_acts;
    size_t turn, at; // the acts where the current answer begins and where it stands
    size_t in_act;   // bytes of an echo that are out
    uint64_t delay_ms;
    bool sampled, thinks;
    uint32_t length, context, limit, kept_length;
    uint64_t state_bytes;                   // 0: no states
    uint32_t stands, borders[MOST_BORDERS]; // ascending
    size_t n_borders;
    int32_t *rows; // the ids of the timeline
    char name[64], load_error[128];
    uint64_t load_steps, load_ms, restore_ms;
    struct bytes user, system;
    struct moe_stats stats;
    struct fake_steps steps;
    moe_progress_fn *progress;
    void *progress_context;
    atomic_bool cancelled;
    atomic_bool stopped; // cancelled at any time in this answer: it does not hang any more
    char bytes[256];     // every byte, for the ids that are one
};

// Sleeps, but not longer than it takes to be cancelled.
static bool sleep_ms(struct fake *fake, uint64_t ms)
{
    for (uint64_t slept = 0; slept < ms && !atomic_load(&fake->cancelled); slept++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return !atomic_load(&fake->cancelled);
}

static int unescape(const char *text, size_t length, struct bytes *out)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < length) {
            char hex[3] = {0};
            c = text[++i];
            if (c == 'x' && i + 2 < length) {
                memcpy(hex, text + i + 1, 2);
                c = (char)strtoul(hex, NULL, 16);
                i += 2;
            } else {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'e' ? '\033' : c;
            }
        }
        if (!bytes_append(out, &c, 1))
            return ENOMEM;
    }
    return bytes_append(out, "", 0) ? 0 : ENOMEM;
}

static struct act *add_act(struct fake *fake, enum act_kind kind)
{
    if (fake->n_acts == MAX_TOKENS)
        return NULL;
    if ((fake->n_acts & (fake->n_acts - 1)) == 0) { // full at each power of two
        struct act *grown = realloc(fake->acts, (fake->n_acts ? 2 * fake->n_acts : 1) * sizeof *grown);
        if (!grown)
            return NULL;
        fake->acts = grown;
    }
    fake->acts[fake->n_acts] = (struct act){.kind = kind};
    return &fake->acts[fake->n_acts++];
}

static bool add_tokens(struct fake *fake, const char *text, size_t length, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        struct act *act = add_act(fake, ACT_TOKEN);
        if (!act || unescape(text, length, &act->text))
            return false;
    }
    return true;
}

static bool add_words(struct fake *fake, const char *text)
{
    while (*text) {
        size_t length = strspn(text, " ");
        length += strcspn(text + length, " ");
        if (!add_tokens(fake, text, length, 1))
            return false;
        text += length;
    }
    return true;
}

static bool read_line(struct fake *fake, const char *line)
{
    static const struct {
        const char *word;
        enum act_kind kind;
    } acts[] = {
        {"turn", ACT_TURN},   {"prefill", ACT_PREFILL}, {"echo", ACT_ECHO},   {"system", ACT_SYSTEM},
        {"delay", ACT_DELAY}, {"count", ACT_COUNT},     {"error", ACT_ERROR}, {"hang", ACT_HANG},
    };
    char word[16] = "", *end;
    int length = 0;
    if (sscanf(line, "%15s%n", word, &length) != 1 || word[0] == '#')
        return true;
    const char *rest = line + length + (line[length] == ' ');
    if (strcmp(word, "name") == 0)
        return snprintf(fake->name, sizeof fake->name, "%s", rest) >= 0;
    if (strcmp(word, "load-error") == 0)
        return snprintf(fake->load_error, sizeof fake->load_error, "%s", rest) >= 0;
    if (strcmp(word, "thinks") == 0) // answers begin with thinking on demand, and earlier thinking is not fed
        return fake->thinks = true;
    if (strcmp(word, "text") == 0)
        return add_words(fake, rest);
    if (strcmp(word, "token") == 0)
        return add_tokens(fake, rest, strlen(rest), 1);
    uint64_t first = strtoull(rest, &end, 10);
    if (strcmp(word, "repeat") == 0)
        return add_tokens(fake, end + (*end == ' '), strlen(end + (*end == ' ')), first);
    if (strcmp(word, "context") == 0)
        return (fake->context = (uint32_t)first) > 0;
    if (strcmp(word, "room") == 0)
        return (fake->limit = (uint32_t)first) > 0;
    if (strcmp(word, "states") == 0)
        return (fake->state_bytes = first) > 0;
    if (strcmp(word, "experts") == 0) {
        unsigned long experts = strtoul(end, &end, 10), top_k = strtoul(end, NULL, 10);
        return fake_steps_begin(&fake->steps, first, experts, top_k);
    }
    if (strcmp(word, "restore") == 0)
        return (fake->restore_ms = first) > 0;
    if (strcmp(word, "load") == 0) {
        fake->load_steps = first;
        fake->load_ms = strtoull(end, NULL, 10);
        return true;
    }
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        if (strcmp(word, acts[i].word) != 0)
            continue;
        struct act *act = add_act(fake, acts[i].kind);
        if (!act || !bytes_append(&act->text, rest, strlen(rest)))
            return false;
        act->number[0] = first;
        act->number[1] = strtoull(end, &end, 10);
        act->number[2] = strtoull(end, &end, 10);
        return true;
    }
    return false;
}

static bool fake_close(void *self)
{
    struct fake *fake = self;
    for (size_t i = 0; i < fake->n_acts; i++)
        bytes_release(&fake->acts[i].text);
    free(fake->acts);
    bytes_release(&fake->user);
    bytes_release(&fake->system);
    fake_steps_release(&fake->steps);
    free(fake->rows);
    free(fake);
    return true;
}

static int fake_open(void *self, moe_progress_fn *progress, void *context, struct moe_err *err)
{
    struct fake *fake = self;
    fake->progress = progress;
    fake->progress_context = context;
    fake->rows = calloc(fake->limit > fake->context ? fake->limit : fake->context, sizeof *fake->rows);
    if (!fake->rows)
        return backend_fail(err, MOE_NO_MEMORY, "no memory");
    for (uint64_t i = 0; i < fake->load_steps; i++) {
        struct moe_progress step = {
            .what = "reading weights", .unit = "bytes", .done = i * 1000000, .total = fake->load_steps * 1000000};
        progress(context, &step);
        sleep_ms(fake, fake->load_ms);
    }
    return *fake->load_error ? backend_fail(err, MOE_FORMAT, "%s", fake->load_error) : 0;
}

static void fake_describe(void *self, struct backend_info *info)
{
    const struct fake *fake = self;
    *info = (struct backend_info){
        .device = "a script",
        .cache = {.slots = 64,
                  .slot_bytes = 4096,
                  .cache_bytes = 64 * 4096,
                  .smallest_bytes = 4096,
                  .all = true,
                  .experts = 64},
        .n_experts = 64,
        .max_context = fake->context,
        .context_limit = fake->limit,
        .row_bytes = sizeof *fake->rows,
        .turns = {.name = "roles", .thinks = true, .can_switch = fake->thinks, .forgets = fake->thinks},
    };
    info->cache.state_bytes = fake->state_bytes;
    info->cache.snapshot_bytes = MOST_BORDERS * fake->state_bytes;
    snprintf(info->name, sizeof info->name, "%s", fake->name);
    struct origin *origin = &info->origin;
    *origin = (struct origin){.model_path = "a script",
                              .language = {.tokenizer = "bytes", .template_name = "roles"},
                              .n_layers = 1,
                              .row_width = 1,
                              .states = fake->state_bytes > 0};
    snprintf(origin->model_name, sizeof origin->model_name, "%s", fake->name);
    snprintf(origin->weights, sizeof origin->weights, "%016llx",
             (unsigned long long)XXH3_64bits(fake->name, strlen(fake->name)));
}

// What follows an earlier answer's thinking, as templates feed it.
static struct tok_turn without_thinking(const struct fake *fake, struct tok_turn turn)
{
    static const char mark[] = "</think>";
    for (size_t at = 0; fake->thinks && turn.role == TOK_ASSISTANT && at + 8 <= turn.length; at++)
        if (memcmp(turn.text + at, mark, 8) == 0)
            return (struct tok_turn){turn.role, turn.text + at + 8, turn.length - at - 8};
    return turn;
}

static int append(struct tok_ids *ids, int32_t id, struct moe_err *err)
{
    struct tok_err tok_err;
    return tok_ids_append(ids, id, &tok_err) ? backend_fail(err, MOE_NO_MEMORY, "no memory") : 0;
}

static int fake_encode(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                       struct moe_err *err)
{
    struct fake *fake = self;
    int code = prompt->begin ? append(ids, BOS, err) : 0;
    for (size_t t = 0; t < prompt->n_turns && code == 0; t++) {
        const struct tok_turn shown = without_thinking(fake, prompt->turns[t]), *turn = &shown;
        struct bytes *kept = turn->role == TOK_SYSTEM ? &fake->system : &fake->user;
        kept->length = 0;
        if (turn->role != TOK_ASSISTANT && !bytes_append(kept, turn->text, turn->length))
            code = backend_fail(err, MOE_NO_MEMORY, "no memory");
        if (code == 0 && !prompt->raw)
            code = append(ids, ROLE + (int32_t)turn->role, err);
        for (size_t i = 0; i < turn->length && code == 0; i++)
            code = append(ids, (unsigned char)turn->text[i], err);
        if (code == 0 && !prompt->raw)
            code = append(ids, END, err);
        if (code == 0 && t + 1 == prompt->n_turns && !prompt->raw)
            code = append(ids, ROLE + TOK_ASSISTANT, err);
        // Only with states, which stand before it, is what opens the thinking fed, too.
        bool opens = fake->state_bytes && fake->thinks && prompt->think == THINK_ON && t + 1 == prompt->n_turns;
        for (const char *c = "<think>"; opens && *c && code == 0; c++)
            code = append(ids, *c, err);
        ends[t] = ids->count;
    }
    return code;
}

static struct backend_answer fake_answer(void *self, bool raw, enum think think)
{
    const struct fake *fake = self;
    return (struct backend_answer){.has_marks = !raw, .opened = fake->thinks && think == THINK_ON ? "<think>" : ""};
}

// Finds where the next answer begins and whether its prompt is slow to read.
static uint64_t begin_answer(struct fake *fake)
{
    if (fake->sampled) // else what was fed was read again, and begins no answer of its own
        fake->turn++;
    fake->sampled = false;
    while (fake->turn < fake->n_acts && fake->acts[fake->turn].kind != ACT_TURN)
        fake->turn++;
    if (fake->turn >= fake->n_acts)
        fake->turn = 0;
    fake->at = fake->turn + (fake->n_acts && fake->acts[fake->turn].kind == ACT_TURN);
    fake->in_act = 0;
    fake->delay_ms = 0;
    atomic_store(&fake->stopped, atomic_load(&fake->cancelled));
    memset(fake->steps.counts, 0, sizeof fake->steps.counts);
    uint64_t prefill_ms = 0;
    for (size_t i = fake->at; i < fake->n_acts && fake->acts[i].kind != ACT_TURN; i++)
        if (fake->acts[i].kind == ACT_PREFILL)
            prefill_ms = fake->acts[i].number[0];
    return prefill_ms;
}

// Plays the acts before the next token.
static int advance(struct fake *fake, struct moe_err *err)
{
    for (; fake->at < fake->n_acts; fake->at++) {
        const struct act *act = &fake->acts[fake->at];
        if (act->kind == ACT_ERROR && ++fake->at)
            return backend_fail(err, MOE_IO, "%s", act->text.data);
        if (act->kind == ACT_HANG && !atomic_load(&fake->stopped)) {
            sleep_ms(fake, UINT64_MAX);
            return backend_fail(err, MOE_CANCELLED, "cancelled");
        }
        if (act->kind == ACT_COUNT && !fake_steps_count(&fake->steps, act->number))
            return backend_fail(err, MOE_NO_MEMORY, "no memory for the script's counts");
        if (act->kind == ACT_DELAY)
            fake->delay_ms = act->number[0];
        else if (act->kind != ACT_COUNT && act->kind != ACT_PREFILL)
            break;
    }
    return 0;
}

// The text of the last turn of that role in the timeline.
static void find_text(const struct fake *fake, enum tok_role role, struct bytes *text)
{
    uint32_t at = fake->length;
    while (at > 0 && fake->rows[at - 1] != ROLE + (int32_t)role)
        at--;
    text->length = at ? 0 : text->length;
    for (; at > 0 && at < fake->length && fake->rows[at] < BOS; at++)
        if (!bytes_append(text, (char[]){(char)fake->rows[at]}, 1))
            return;
}

static void add_border(struct fake *fake, uint32_t position)
{
    size_t i = fake->n_borders;
    while (i && fake->borders[i - 1] > position)
        i--;
    if (!fake->state_bytes || !position || fake->n_borders == MOST_BORDERS || (i && fake->borders[i - 1] == position))
        return;
    memmove(fake->borders + i + 1, fake->borders + i, (fake->n_borders - i) * sizeof *fake->borders);
    fake->borders[i] = position;
    fake->n_borders++;
}

static struct tok_sections fake_sections(void *self, bool raw, enum think think)
{
    (void)self, (void)raw, (void)think; // its answers have none
    return (struct tok_sections){.turns = NULL};
}

static int fake_prefill(void *self, const int32_t *ids, size_t count, const uint32_t *borders, struct moe_err *err)
{
    struct fake *fake = self;
    add_border(fake, fake->length);
    uint64_t chunk_ms = begin_answer(fake);
    for (size_t done = 0; done < count; done += 16) {
        struct moe_progress step = {.what = "reading prompt", .unit = "tokens", .done = done, .total = count};
        fake->progress(fake->progress_context, &step);
        if (!sleep_ms(fake, chunk_ms)) { // what was read stays
            memcpy(fake->rows + fake->length, ids, done * sizeof *ids);
            fake->stands = fake->length += (uint32_t)done;
            fake->stats.prefilled_tokens += done;
            fake->sampled = true; // it had its turn
            return backend_fail(err, MOE_CANCELLED, "cancelled");
        }
    }
    int code = advance(fake, err);
    if (!code && count > fake->context - fake->length)
        code = backend_fail(err, MOE_CONTEXT_FULL, "the context is full");
    fake->sampled = code;
    if (code)
        return code;
    memcpy(fake->rows + fake->length, ids, count * sizeof *ids);
    for (int i = 0; borders && i < MOE_BORDERS; i++)
        add_border(fake, borders[i]);
    fake->stands = fake->length += (uint32_t)count;
    add_border(fake, fake->length);
    find_text(fake, TOK_USER, &fake->user);
    fake->stats.prefilled_tokens += count;
    fake->stats.prefill_ns += count * 1000000; // 1000 tokens a second
    return 0;
}

static int fake_decode(void *self, int32_t id, struct moe_err *err)
{
    struct fake *fake = self;
    if (id != END) {
        int code = sleep_ms(fake, fake->delay_ms) ? advance(fake, err) : backend_fail(err, MOE_CANCELLED, "cancelled");
        if (code)
            return code;
    }
    fake->rows[fake->length++] = id;
    fake->stands = fake->length;
    fake->stats.decoded_tokens++;
    fake->stats.decode_ns += 10000000; // 100 tokens a second
    fake_steps_take(&fake->steps, fake->length);
    return 0;
}

static uint32_t fake_held(void *self)
{
    (void)self;
    return 0; // its groups are tokens
}

static int fake_start_sampling(void *self, const struct sampling *sampling, struct moe_err *err)
{
    (void)self;
    (void)sampling;
    (void)err;
    return 0;
}

static int32_t fake_sample(void *self, const int32_t *recent, size_t n_recent)
{
    struct fake *fake = self;
    (void)recent;
    (void)n_recent;
    fake->sampled = true;
    for (; fake->at < fake->n_acts && fake->acts[fake->at].kind != ACT_TURN; fake->at++) {
        const struct act *act = &fake->acts[fake->at];
        const struct bytes *echoed = act->kind == ACT_ECHO ? &fake->user : &fake->system;
        if (act->kind == ACT_TOKEN)
            return FIRST_TOKEN + (int32_t)fake->at++;
        if (fake->in_act < echoed->length)
            return (unsigned char)echoed->data[fake->in_act++];
        fake->in_act = 0;
    }
    return END;
}

static bool fake_is_end(void *self, int32_t id)
{
    (void)self;
    return id == END;
}

static int32_t fake_end_id(void *self, bool raw)
{
    (void)self;
    return raw ? -1 : END;
}

static size_t fake_bytes(void *self, int32_t id, const char **bytes)
{
    const struct fake *fake = self;
    *bytes = fake->bytes;
    if (id < BOS) {
        *bytes += id;
        return 1;
    }
    if (id < FIRST_TOKEN)
        return 0;
    *bytes = fake->acts[id - FIRST_TOKEN].text.data;
    return fake->acts[id - FIRST_TOKEN].text.length;
}

static uint32_t fake_length(void *self)
{
    return ((struct fake *)self)->length;
}

static uint32_t fake_floor(void *self, uint32_t length)
{
    const struct fake *fake = self;
    if (!fake->state_bytes)
        return length;
    size_t i = fake->n_borders;
    while (i && fake->borders[i - 1] > length)
        i--;
    uint32_t floor = i ? fake->borders[i - 1] : 0;
    return fake->stands <= length && fake->stands > floor ? fake->stands : floor;
}

static int fake_truncate(void *self, uint32_t length, struct moe_err *err)
{
    struct fake *fake = self;
    if (fake_floor(fake, length) != length)
        return backend_fail(err, MOE_POSITION, "there are no states after %u tokens", (unsigned)length);
    while (fake->n_borders && fake->borders[fake->n_borders - 1] > length)
        fake->n_borders--;
    fake->stands = fake->length = length;
    if (length < fake->kept_length)
        fake->kept_length = 0;
    return 0;
}

static void fake_keep_logits(void *self)
{
    struct fake *fake = self;
    fake->kept_length = fake->length;
}

// The script goes on with its next answer.
static bool fake_recall_logits(void *self)
{
    struct fake *fake = self;
    struct moe_err ignored;
    if (fake->kept_length != fake->length)
        return false;
    find_text(fake, TOK_USER, &fake->user);
    find_text(fake, TOK_SYSTEM, &fake->system);
    begin_answer(fake);
    advance(fake, &ignored);
    return true;
}

// States are the sum of what led to them.
static int write_states(struct fake *fake, const struct saved_slot *slot, struct moe_record *record,
                        struct moe_err *err)
{
    uint64_t sum = XXH3_64bits(fake->rows, slot->first * sizeof *fake->rows);
    if (fake_floor(fake, slot->first) != slot->first)
        return backend_fail(err, MOE_NOT_READY, "there are no states after %u tokens", (unsigned)slot->first);
    *record = (struct moe_record){
        .offset = slot->offset, .bytes = sizeof sum, .checksum = sum, .first = slot->first, .has_states = true};
    add_border(fake, slot->first);
    ptrdiff_t wrote = slot->io->write(slot->io->context, slot->io->fd, &sum, sizeof sum, slot->offset);
    return wrote == sizeof sum ? 0 : backend_fail(err, MOE_IO, "%.300s: cannot write", slot->io->path);
}

static int read_states(struct fake *fake, const struct moe_record_io *io, const struct moe_record *record,
                       struct moe_err *err)
{
    uint64_t sum;
    if (record->first > fake->length || pread(io->fd, &sum, sizeof sum, (off_t)record->offset) != sizeof sum ||
        sum != record->checksum || sum != XXH3_64bits(fake->rows, record->first * sizeof *fake->rows))
        return backend_fail(err, MOE_RECORD_DAMAGED, "%.300s: a checksum does not match", io->path);
    add_border(fake, record->first);
    return 0;
}

// A record is the ids alone.
static int fake_write_record(void *self, const struct saved_slot *slot, struct moe_record *record, struct moe_err *err)
{
    struct fake *fake = self;
    if (slot->states)
        return write_states(fake, slot, record, err);
    size_t bytes = slot->count * sizeof *fake->rows;
    *record = (struct moe_record){.offset = slot->offset,
                                  .bytes = bytes,
                                  .checksum = XXH3_64bits(fake->rows + slot->first, bytes),
                                  .first = slot->first,
                                  .count = slot->count,
                                  .has_logits = slot->first + slot->count == fake->kept_length};
    ptrdiff_t wrote = slot->io->write(slot->io->context, slot->io->fd, fake->rows + slot->first, bytes, slot->offset);
    return wrote == (ptrdiff_t)bytes ? 0 : backend_fail(err, MOE_IO, "%.300s: cannot write", slot->io->path);
}

static int fake_read_record(void *self, const struct moe_record_io *io, const struct moe_record *record,
                            bool only_logits, struct moe_err *err)
{
    struct fake *fake = self;
    if (only_logits) {
        fake->kept_length = fake->length;
        return fake_recall_logits(fake) ? 0 : MOE_NOT_READY;
    }
    if (!sleep_ms(fake, fake->restore_ms))
        return backend_fail(err, MOE_CANCELLED, "stopped while the conversation was read back");
    if (record->has_states)
        return read_states(fake, io, record, err);
    size_t bytes = record->count * sizeof *fake->rows;
    if (record->count > fake->context - fake->length)
        return backend_fail(err, MOE_CONTEXT_FULL, "the context is too small for the saved tokens");
    int32_t *to = fake->rows + fake->length;
    if (record->bytes != bytes || pread(io->fd, to, bytes, (off_t)record->offset) != (ssize_t)bytes ||
        XXH3_64bits(to, bytes) != record->checksum)
        return backend_fail(err, MOE_RECORD_DAMAGED, "%.300s: a checksum does not match", io->path);
    fake->length += record->count;
    find_text(fake, TOK_SYSTEM, &fake->system);
    return 0;
}

static void fake_cancel(void *self)
{
    struct fake *fake = self;
    atomic_store(&fake->stopped, true);
    atomic_store(&fake->cancelled, true);
}

// A script's context is as it says, unless it says how far it may go.
static void fake_make_room(void *self, uint32_t tokens)
{
    enum { MORE = 4096 }; // as the engine
    struct fake *fake = self;
    uint64_t room = (uint64_t)tokens + MORE;
    if (room > fake->context && fake->limit > fake->context)
        fake->context = room < fake->limit ? (uint32_t)room : fake->limit;
}

static void fake_resume(void *self)
{
    atomic_store(&((struct fake *)self)->cancelled, false);
}

static struct moe_stats fake_stats(void *self)
{
    struct moe_stats stats = ((struct fake *)self)->stats;
    stats.prefetch_policy = "off";
    return stats;
}

// A script leaves no choice.
static size_t fake_candidates(void *self, struct moe_candidate *candidates, size_t n)
{
    (void)self;
    (void)candidates;
    (void)n;
    return 0;
}

static float fake_probability(void *self, const struct moe_candidate *likeliest, int32_t id)
{
    (void)self;
    (void)likeliest;
    (void)id;
    return -1;
}

static const struct moe_telemetry *fake_telemetry(void *self)
{
    const struct fake *fake = self;
    return fake->steps.record.step ? &fake->steps.record : NULL;
}

static const struct moe_telemetry *fake_so_far(void *self)
{
    (void)self; // its steps take no time
    return NULL;
}

static const struct moe_telemetry *fake_settle(void *self)
{
    (void)self;
    return NULL; // its records have all that it counts
}

static const uint32_t *fake_heat(void *self)
{
    return ((struct fake *)self)->steps.heat;
}

static void fake_clear_heat(void *self)
{
    fake_steps_clear_heat(&((struct fake *)self)->steps);
}

static void fake_tiers(void *self, uint8_t *tiers)
{
    fake_steps_tiers(&((struct fake *)self)->steps, tiers);
}

// Reads the script into *fake. Returns the number of the line that is wrong, 0 when all is well.
static size_t read_script(struct fake *fake, char *script)
{
    size_t number = 0;
    for (char *line = script; line && *line; number++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (!read_line(fake, line))
            return number + 1;
        line = next;
    }
    return 0;
}

bool backend_fake_new(struct backend *backend, const char *script_file, struct moe_err *err)
{
    static const struct backend_ops ops = {
        .open = fake_open,
        .close = fake_close,
        .describe = fake_describe,
        .encode = fake_encode,
        .prefill = fake_prefill,
        .held = fake_held,
        .decode = fake_decode,
        .answer = fake_answer,
        .sections = fake_sections,
        .start_sampling = fake_start_sampling,
        .sample = fake_sample,
        .is_end = fake_is_end,
        .end_id = fake_end_id,
        .bytes = fake_bytes,
        .length = fake_length,
        .floor = fake_floor,
        .truncate = fake_truncate,
        .keep_logits = fake_keep_logits,
        .recall_logits = fake_recall_logits,
        .write_record = fake_write_record,
        .read_record = fake_read_record,
        .cancel = fake_cancel,
        .resume = fake_resume,
        .make_room = fake_make_room,
        .stats = fake_stats,
        .candidates = fake_candidates,
        .probability = fake_probability,
        .telemetry = fake_telemetry,
        .so_far = fake_so_far,
        .settle = fake_settle,
        .heat = fake_heat,
        .clear_heat = fake_clear_heat,
        .tiers = fake_tiers,
    };
    struct fake *fake = calloc(1, sizeof *fake);
    struct bytes script = {0};
    int code = fake ? files_read(script_file, SCRIPT_LIMIT, &script) : ENOMEM;
    size_t wrong = 0;
    if (code == 0) {
        snprintf(fake->name, sizeof fake->name, "fake");
        fake->context = 4096;
        for (int i = 0; i < 256; i++)
            fake->bytes[i] = (char)i;
        wrong = read_script(fake, script.data);
    }
    bytes_release(&script);
    if (code || wrong) {
        if (fake)
            fake_close(fake);
        if (code)
            backend_fail(err, MOE_NOT_FOUND, "%s: %s", script_file, strerror(code));
        else
            backend_fail(err, MOE_FORMAT, "%s: line %zu is not a line of a script", script_file, wrong);
        return false;
    }
    *backend = (struct backend){.ops = &ops, .self = fake};
    return true;
}
