// SPDX-License-Identifier: GPL-3.0-or-later
// 200 random conversations over the real worker, chat and store, each in several processes of which many are killed at
// a random call to the disk: send, edit, undo, redo, retry, go to another branch, rename, leave and load again. A model
// of it all says what must be on the disk afterwards, in all branches, and how many tokens each step may compute: of
// what was once said none. The engine is a script. MOECHAT_POWER_LIVES says how many processes there are to be (make
// power: many).
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "app/driver/backend.h"
#include "app/talk/chat.h"
#include "tests/store_rig.h"
#include "app/driver/worker.h"

enum { SEQUENCES = 200, LIVES = 4, STEPS = 4, ANSWERS = 5, MAX_NODES = 2 * LIVES * STEPS + 2, TREE_SIZE = 1 << 14 };

enum step_kind { STEP_SEND, STEP_UNDO, STEP_RETRY, STEP_RENAME, STEP_REDO, STEP_BESIDE, STEP_EDIT, STEP_KINDS };

struct step {
    enum step_kind kind;
    unsigned number; // of the message, or of messages to undo
};

// The conversation as it should be: all that was ever said, each behind one that was said before.
struct model {
    struct node {
        char text[16];
        int after; // -1: nothing
        bool answer;
    } nodes[MAX_NODES];
    int n_nodes;
    int last;         // of what is under way, -1: nothing is said
    int undone;       // where the last undos of this process began, -1
    unsigned answers; // given in this process
    unsigned name;    // 0: a, 1: b
    bool loose;       // killed before the manifest of a first save, or between an answer and its rows: of some parts no
                      // rows were saved
};

static const char *const names[] = {"a", "b"};

static size_t node_tokens(const struct model *model, int i)
{
    // Bytes and markers; what begins a conversation; the last two bytes of an answer are one token, its end another.
    const struct node *node = &model->nodes[i];
    return strlen(node->text) + (node->answer ? 0 : 3) + (node->after < 0);
}

static size_t model_tokens(const struct model *model)
{
    size_t tokens = 0;
    for (int i = model->last; i >= 0; i = model->nodes[i].after)
        tokens += node_tokens(model, i);
    return tokens;
}

static bool is_behind(const struct model *model, int node, int first)
{
    while (node >= 0 && node != first)
        node = model->nodes[node].after;
    return node == first;
}

static int model_say(struct model *model, bool answer, int after)
{
    model->nodes[model->n_nodes] = (struct node){.after = after, .answer = answer};
    model->undone = -1; // what is said now is where one comes back to
    return model->last = model->n_nodes++;
}

static void model_answer(struct model *model)
{
    int question = model->last;
    char text[16];
    snprintf(text, sizeof text, "%.10s-%u", model->nodes[question].text, model->answers++ % ANSWERS);
    memcpy(model->nodes[model_say(model, true, question)].text, text, sizeof text);
}

// A message that has no answer gives way to the next.
static size_t model_send(struct model *model, unsigned number, struct model *between)
{
    int after = model->last >= 0 && !model->nodes[model->last].answer ? model->nodes[model->last].after : model->last;
    struct node *node = &model->nodes[model_say(model, false, after)];
    snprintf(node->text, sizeof node->text, "m%u", number);
    *between = *model;
    model_answer(model);
    return node_tokens(model, model->n_nodes - 2);
}

static void model_undo(struct model *model, unsigned n)
{
    bool ahead = model->undone >= 0 && model->undone != model->last && is_behind(model, model->undone, model->last);
    if (model->last >= 0 && !ahead) // undos one after the other are one
        model->undone = model->last;
    for (; n > 0 && model->last >= 0; n--) {
        while (model->nodes[model->last].answer)
            model->last = model->nodes[model->last].after;
        model->last = model->nodes[model->last].after;
    }
}

// The newest end behind a node, that of the last undo before others.
static int model_end(const struct model *model, int node)
{
    if (model->undone >= 0 && !is_behind(model, model->last, model->undone) && is_behind(model, model->undone, node))
        return model->undone;
    for (int i = model->n_nodes - 1; i > node; i--)
        if (is_behind(model, i, node) && !is_behind(model, model->last, i))
            return i;
    return node;
}

static void model_redo(struct model *model, unsigned n)
{
    int way[MAX_NODES], n_way = 0;
    unsigned done = 0;
    for (int i = model_end(model, model->last); i != model->last; i = model->nodes[i].after)
        way[n_way++] = i;
    for (; n_way > 0; n_way--) {
        bool answer = model->nodes[way[n_way - 1]].answer;
        if (!answer && done == n)
            break;
        done += !answer || !done;
        model->last = way[n_way - 1];
    }
}

static void model_beside(struct model *model, bool before)
{
    for (int at = model->last; at >= 0; at = model->nodes[at].after) {
        bool choice = false;
        int found = -1;
        for (int i = 0; i < model->n_nodes; i++) {
            if (i == at || model->nodes[i].after != model->nodes[at].after)
                continue;
            choice = true;
            if (before ? i < at : i > at && found < 0)
                found = i;
        }
        if (choice && found >= 0)
            model->last = model_end(model, found);
        if (choice)
            return;
    }
}

// Does the step to the model; *between is what may be on the disk half-way. Returns the tokens it may compute.
static size_t model_step(struct model *model, const struct step *step, struct model *between)
{
    size_t cost = 0;
    *between = *model;
    switch (step->kind) {
    case STEP_EDIT:
        model_undo(model, 1 + step->number % 2);
        cost = model_send(model, step->number, between);
        break;
    case STEP_SEND:
        cost = model_send(model, step->number, between);
        break;
    case STEP_RETRY:
        if (model->last < 0)
            break;
        if (model->nodes[model->last].answer)
            model->last = model->nodes[model->last].after;
        model_answer(model);
        break;
    case STEP_UNDO:
        model_undo(model, step->number);
        break;
    case STEP_REDO:
        model_redo(model, step->number);
        break;
    case STEP_BESIDE:
        model_beside(model, step->number % 2);
        break;
    case STEP_RENAME:
        model->name = !model->name;
        break;
    case STEP_KINDS:
        break;
    }
    return cost;
}

// A way from the first part to the end of a branch, as text.
static size_t way_text(const struct model *model, int end, char *out, size_t size)
{
    const struct node *node = &model->nodes[end];
    size_t at = node->after >= 0 ? way_text(model, node->after, out, size) : 0;
    return at + (size_t)snprintf(out + at, size - at, "%s%s", at ? "|" : "", node->text);
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

// What is under way, and the ends of all branches, sorted.
static void model_texts(const struct model *model, char *out, size_t size)
{
    static char ways[MAX_NODES][512];
    size_t at = 0, n = 0;
    out[0] = 0;
    if (model->last >= 0)
        at = way_text(model, model->last, out, size);
    for (int i = 0; i < model->n_nodes; i++) {
        bool followed = false;
        for (int k = i + 1; k < model->n_nodes; k++)
            followed |= model->nodes[k].after == i;
        if (!followed)
            way_text(model, i, ways[n++], sizeof ways[0]);
    }
    if (n)
        qsort(ways, n, sizeof ways[0], compare);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, "; %s", ways[i]);
}

// The same of what is on the disk.
static bool content_model(const struct saved_content *content, struct model *model)
{
    uint32_t numbers[MAX_NODES];
    *model = (struct model){.last = -1, .undone = -1};
    for (size_t i = 0, k = 0; i < content->n_parts || k < content->n_others;) {
        bool own =
            k == content->n_others || (i < content->n_parts && content->parts[i].number < content->others[k].number);
        const struct part *part = own ? &content->parts[i++] : &content->others[k++];
        struct node node = {.after = -1, .answer = part->role == TOK_ASSISTANT};
        snprintf(node.text, sizeof node.text, "%.15s", part->text.data);
        for (int n = 0; n < model->n_nodes; n++)
            node.after = part->after == (int64_t)numbers[n] ? n : node.after;
        if (model->n_nodes == MAX_NODES || (node.after < 0) != (part->after == PART_NONE))
            return false;
        numbers[model->n_nodes] = part->number;
        model->last = own ? model->n_nodes : model->last;
        model->nodes[model->n_nodes++] = node;
    }
    return true;
}

// ---- the process that does it ----

struct killer {
    int calls, at;
};

static int dies(void *context)
{
    struct killer *killer = context;
    if (killer->calls++ == killer->at)
        _exit(9);
    return 0;
}

static ptrdiff_t killer_write(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct killer *killer = context;
    bool last = killer->calls++ == killer->at;
    ptrdiff_t wrote = pwrite(fd, source, last ? length / 2 : length, (off_t)offset);
    if (last)
        _exit(9);
    return wrote;
}

static int killer_sync(void *context, int fd)
{
    (void)fd; // killed processes lose nothing that was written; and 200 times this would take minutes
    return dies(context);
}

static int killer_rename(void *context, const char *from, const char *to)
{
    return dies(context) + rename(from, to);
}

static int killer_truncate(void *context, int fd, uint64_t length)
{
    return dies(context) + ftruncate(fd, (off_t)length);
}

static int killer_unlink(void *context, const char *path)
{
    return dies(context) + unlink(path);
}

struct life {
    struct store store;
    struct chat chat;
    struct worker *worker;
    char text[64]; // of the answer under way
    size_t length;
    uint64_t read_tokens;
    bool states; // the layers have some: a cut further back than they are kept costs what lies behind it, once
    bool behind; // such a cut is to be paid for
    unsigned behinds;
    bool adopted; // a process was killed before it had saved rows: the text is there, they are computed again
};

static void demand(bool so, const char *what)
{
    if (so)
        return;
    printf("    in the process: not so: %s\n", what);
    fflush(stdout);
    _exit(3);
}

// Waits for the news, and for the answer before it if one is under way.
static struct session_news await_news(struct life *life)
{
    struct pollfd fd = {.fd = worker_fd(life->worker), .events = POLLIN};
    struct event event;
    for (;;) {
        if (!worker_event(life->worker, &event)) {
            demand(poll(&fd, 1, 20000) == 1, "the worker answers");
            continue;
        }
        if (event.kind == EVENT_SESSION)
            return event.session;
        demand(event.kind != EVENT_FAILED, "the script opens");
        if (event.kind == EVENT_READY)
            return (struct session_news){.open = false};
        if (event.kind == EVENT_TEXT) {
            memcpy(life->text + life->length, event.text.bytes, event.text.length);
            life->length += event.text.length;
        }
        if (event.kind == EVENT_DONE) {
            struct bytes answer = {.data = life->text, .length = life->length};
            demand(event.result->kept && event.result->reason == STOP_END, "the turn is answered");
            life->read_tokens = event.result->tally.read_tokens;
            life->behind |= event.result->replayed_tokens > 0;
            demand(chat_accept(&life->chat, event.result, &answer), "it is accepted");
            turn_result_free(event.result);
        }
    }
}

static void start_life(struct life *life, const char *script, const char *name, const struct model *model)
{
    struct backend backend;
    struct moe_err err;
    struct saved_content content = {0};
    struct store_error error;
    struct worker_session session = {0};
    size_t tokens = model_tokens(model);
    enum store_code code = saved_open(&life->store, name, &session.saved, &content, &error);
    if (code == STORE_NOT_FOUND)
        code = saved_new(&life->store, name, &session.saved, &error);
    demand(code == STORE_OK && !*content.damage, "the session opens");
    bool adopted = tokens && !*saved_manifest(session.saved)->origin.weights;
    life->adopted = adopted || model->loose;
    demand(chat_restore(&life->chat, content.parts, content.n_parts) &&
               chat_restore_others(&life->chat, content.others, content.n_others,
                                   &saved_manifest(session.saved)->origin.language),
           "it is a conversation");
    life->chat.next_number = saved_manifest(session.saved)->next_part;
    saved_content_release(&content);
    demand(backend_fake_new(&backend, script, &err), "the script is read");
    life->worker = worker_new(&backend, 0);
    await_news(life);
    demand(chat_timeline(&life->chat, &session.ids), "there is memory");
    worker_open_session(life->worker, session);
    struct session_news news = await_news(life);
    if (life->adopted && !adopted)
        demand(news.cached + news.missing == tokens, "it says how many rows are missing");
    else if (adopted)
        demand(news.cached == 0 && news.missing == tokens && *news.text, "it says that rows are missing");
    else if (life->states && news.missing)
        demand(news.cached + news.missing == tokens &&
                   strstr(news.text, model->nodes[model->last].answer ? "states" : "was not answered"),
               "it says that states are missing, or of a message alone that it is unread");
    else
        demand(news.cached == tokens && news.missing == 0 && !*news.text, "all rows come back");
    life->behind = news.missing > 0 && !life->adopted;
    life->behinds = life->behind;
}

// The worker goes where the chat is now.
static void go_along(struct life *life)
{
    struct worker_place place = {.last = chat_last(&life->chat), .undone = PART_NONE};
    demand(chat_timeline(&life->chat, &place.ids), "there is memory");
    worker_go(life->worker, place);
}

// Where the branch ends that stands beside the last choice. PART_NONE: there is none.
static int64_t end_beside(const struct life *life, bool before)
{
    size_t choice;
    int64_t beside =
        chat_last_choice(&life->chat, &choice) ? chat_beside(&life->chat, choice, before ? -1 : 1) : PART_NONE;
    return beside == PART_NONE ? PART_NONE : chat_end_of(&life->chat, beside);
}

static void do_step(struct life *life, const struct step *step, const struct model *after, size_t cost)
{
    char text[16];
    struct turn *turn = NULL;
    life->length = 0;
    life->read_tokens = 0;
    size_t count = step->number;
    if (step->kind == STEP_EDIT)
        chat_undo(&life->chat, 1 + step->number % 2);
    if (step->kind == STEP_SEND || step->kind == STEP_EDIT) {
        snprintf(text, sizeof text, "m%u", step->number);
        turn = chat_request(&life->chat, text, strlen(text));
    } else if (step->kind == STEP_RETRY) {
        turn = chat_again(&life->chat);
    }
    if (turn) {
        worker_send(life->worker, turn);
    } else if (step->kind == STEP_UNDO) {
        chat_undo(&life->chat, step->number);
        go_along(life);
    } else if (step->kind == STEP_REDO || step->kind == STEP_BESIDE) {
        int64_t number = step->kind == STEP_REDO ? chat_redo(&life->chat, &count) : end_beside(life, step->number % 2);
        if (number == PART_NONE)
            return;
        demand(chat_go(&life->chat, number), "there is such a branch");
        go_along(life);
    } else if (step->kind == STEP_RENAME) {
        worker_save_session(life->worker, names[after->name]);
    } else {
        return; // nothing to retry
    }
    struct session_news news = await_news(life);
    bool cut_back = life->states && strstr(news.text, "states were kept only further back");
    life->behind |= cut_back;
    life->behinds += life->behind && (turn || cut_back);
    demand((!*news.text || cut_back || life->adopted) && !news.failed, "it is saved");
    demand(life->adopted || life->behind ? life->read_tokens >= cost : life->read_tokens == cost,
           "only what is new is computed");
    life->behind &= !turn;
    demand(chat_position(&life->chat) == model_tokens(after), "the conversation is as long as it should be");
}

// ---- the test ----

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 10) % below;
}

static void write_script(const char *path, bool states)
{
    FILE *file = fopen(path, "w");
    if (file && states)
        fprintf(file, "states 1000\n");
    for (int i = 0; file && i < ANSWERS; i++)
        fprintf(file, "turn\necho\ntoken -%d\n", i);
    if (!file || fclose(file))
        abort();
}

// Which of the states is on the disk? -1: none of them.
static int find_state(const struct store *store, const struct model *states, int n_states)
{
    static char want[TREE_SIZE], got[TREE_SIZE];
    struct saved_content content;
    struct store_error error;
    struct model there_is;
    for (int i = 0; i < n_states; i++) {
        if (saved_read(store, names[states[i].name], &content, &error))
            return -1;
        bool whole = content_model(&content, &there_is);
        model_texts(&there_is, got, sizeof got);
        model_texts(&states[i], want, sizeof want);
        bool there = whole && content.found && !*content.damage && strcmp(got, want) == 0;
        bool nothing = !content.found && !content.n_parts && !*content.damage && !states[i].n_nodes &&
                       access(store_path(store, names[!states[i].name], NULL).text, F_OK) != 0;
        saved_content_release(&content);
        if (there || nothing)
            return i;
    }
    return -1;
}

struct place {
    struct store store;
    char root[64], script[80];
    bool states;
};

struct lived {
    int lives, kills, steps, behinds; // of these, steps that had to read again what states were not kept of
    int strict;                       // lives that began with all rows
};

// A process that is killed before its first save, or while it takes a name for one, leaves a folder with a lock and
// nothing else. It is in no list, but its name is taken: gives that back, as a user would with another name.
static void free_empty_names(const struct store *store)
{
    for (int i = 0; i < 2; i++) {
        if (access(store_path(store, names[i], "session.json").text, F_OK) == 0 ||
            access(store_path(store, names[i], "transcript.jsonl").text, F_OK) == 0)
            continue;
        unlink(store_path(store, names[i], "lock").text);
        rmdir(store_path(store, names[i], NULL).text);
    }
}

// Are there parts without their rows, after a kill? Where all are seen to be there, none is missing any more.
static bool lacks_rows(const struct store *store, const struct model *model, bool killed)
{
    struct saved_content content;
    struct store_error error;
    if (saved_read(store, names[model->name], &content, &error))
        return model->loose;
    const struct manifest *manifest = &content.manifest;
    bool all = manifest_rows(manifest) == manifest_tokens(manifest);
    bool lacks = (killed && !all) || (model->loose && (!all || manifest->n_others));
    saved_content_release(&content);
    return lacks;
}

// One process: steps, of which the parent learns how many were done. Returns false when the sequence ends.
static bool run_life(struct harness *t, const struct place *place, struct model *model, unsigned *state,
                     struct lived *tally)
{
    struct step steps[STEPS];
    struct model states[2 * STEPS + 1];
    size_t costs[STEPS];
    int n_steps = 1 + (int)draw(state, STEPS), n_states = 1, done[2], count = 0, status;
    struct killer killer = {.at = draw(state, 3) ? (int)draw(state, 90) : -1};
    model->answers = 0;
    model->undone = -1;
    tally->strict += !model->loose;
    states[0] = *model;
    for (int i = 0; i < n_steps; i++) {
        unsigned kind = draw(state, 10);
        steps[i] = (struct step){kind < STEP_KINDS ? (enum step_kind)kind : STEP_SEND, 1 + draw(state, 99)};
        if (steps[i].kind == STEP_UNDO || steps[i].kind == STEP_REDO)
            steps[i].number = 1 + steps[i].number % 2;
        struct model next = states[n_states - 1];
        costs[i] = model_step(&next, &steps[i], &states[n_states]);
        states[n_states + 1] = next;
        n_states += 2;
    }
    if (pipe(done) != 0)
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct store_io io = store_io_posix;
        struct life life = {.store = place->store, .states = place->states};
        io.context = &killer;
        io.write = killer_write;
        io.sync = killer_sync;
        io.rename = killer_rename;
        io.truncate = killer_truncate;
        io.unlink = killer_unlink;
        life.store.io = &io;
        start_life(&life, place->script, names[model->name], model);
        for (int i = 0; i < n_steps; i++) {
            do_step(&life, &steps[i], &states[2 * i + 2], costs[i]);
            if (write(done[1], life.behinds ? "r" : "x", 1) != 1)
                _exit(4);
            life.behinds = 0;
        }
        struct session_news news;
        demand(worker_finish_session(life.worker, &news) && !*news.text, "it is closed");
        worker_free(life.worker);
        chat_release(&life.chat);
        _exit(0);
    }
    close(done[1]);
    for (char c; read(done[0], &c, 1) == 1; count++)
        tally->behinds += c == 'r';
    tally->steps += count;
    close(done[0]);
    waitpid(child, &status, 0);
    bool killed = WIFEXITED(status) && WEXITSTATUS(status) == 9;
    tally->kills += killed;
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK(t, killed ? killer.at >= 0 : ended && count == n_steps);
    // What was done is there; of the step under way, the old, the new or what lies between.
    int most = killed && count < n_steps ? 3 : 1;
    int found = find_state(&place->store, &states[2 * count], most);
    if (!CHECK(t, found >= 0)) {
        static char want[TREE_SIZE], got[TREE_SIZE];
        struct saved_content content;
        struct store_error error;
        struct model there_is;
        model_texts(&states[2 * count], want, sizeof want);
        for (int i = 0; i < 2; i++)
            if (!saved_read(&place->store, names[i], &content, &error)) {
                content_model(&content, &there_is);
                model_texts(&there_is, got, sizeof got);
                printf("    %s has \"%s\", damage \"%s\"\n", names[i], got, content.damage);
                saved_content_release(&content);
            }
        printf("    after %d of %d steps, call %d, status %d: want \"%s\"\n", count, n_steps, killer.at, status, want);
        return false;
    }
    *model = states[2 * count + found];
    model->loose = lacks_rows(&place->store, model, killed);
    model->loose |= access(store_path(&place->store, names[model->name], "session.json").text, F_OK) != 0;
    free_empty_names(&place->store);
    return true;
}

static void live(struct harness *t, bool has_states)
{
    struct lived tally = {.lives = 0};
    const char *wish = getenv("MOECHAT_POWER_LIVES");
    unsigned sequences = wish ? 1 + (unsigned)strtoul(wish, NULL, 10) / LIVES / 2 : SEQUENCES / 2;
    for (unsigned sequence = 0; sequence < sequences && t->failures == 0; sequence++) {
        struct place place = {.states = has_states};
        place.store = rig_store(place.root);
        struct model model = {.last = -1, .undone = -1};
        unsigned state = (2 * sequence + has_states) * 7919 + 17;
        snprintf(place.script, sizeof place.script, "%s/script", place.root);
        write_script(place.script, has_states);
        for (int life = 0; life < LIVES && run_life(t, &place, &model, &state, &tally); life++)
            tally.lives++;
        if (t->failures)
            printf("    sequence %u\n", sequence);
        rig_clean(place.root);
    }
    printf("%d lives, %d killed, %d begun with all rows; %d of %d steps read again\n", tally.lives, tally.kills,
           tally.strict, tally.behinds, tally.steps);
    CHECK(t, tally.strict * 2 > tally.lives);
    CHECK(t, tally.lives > 2 * (int)sequences && tally.kills > (int)sequences / 2);
    CHECK(t, has_states ? tally.behinds * 3 < tally.steps : tally.behinds == 0);
}

static void random_lives(struct harness *t)
{
    live(t, false);
}

static void random_lives_with_states(struct harness *t)
{
    live(t, true);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(random_lives), TEST(random_lives_with_states)};
    return HARNESS_RUN(tests, argc, argv);
}
