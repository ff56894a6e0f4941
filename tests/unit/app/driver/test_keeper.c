// SPDX-License-Identifier: GPL-3.0-or-later
// What of a turn is on the disk, and when.
#include "tests/worker_rig.h"

#include <fcntl.h>
#include <stdatomic.h>

#include "app/talk/chat.h"
#include "tests/store_rig.h"

// An engine that takes its time, where it is told to, with what an answer leaves to be fed.
static struct {
    struct backend_ops ops;
    int (*decode)(void *self, int32_t id, struct moe_err *err);
    atomic_bool holds;
} slow;

static int decode_slowly(void *self, int32_t id, struct moe_err *err)
{
    enum { END = 257 };
    for (int i = 0; i < 2000 && id == END && atomic_load(&slow.holds); i++)
        pause_us(5000);
    return slow.decode(self, id, err);
}

static void make_slow(struct backend *backend)
{
    slow.ops = *backend->ops;
    slow.decode = slow.ops.decode;
    slow.ops.decode = decode_slowly;
    atomic_store(&slow.holds, true);
    backend->ops = &slow.ops;
}

static void save_from_now_on(struct harness *t, struct worker *worker, const struct store *store)
{
    struct worker_session session = {.saved = NULL};
    struct store_error error;
    struct event event = {0};
    CHECK_EQ(t, saved_new(store, "talk", &session.saved, &error), STORE_OK);
    worker_open_session(worker, session);
    while (next_event(worker, &event) && event.kind != EVENT_SESSION)
        event_release(&event);
    CHECK(t, event.session.open && !event.session.failed);
}

// The process may be killed as soon as an answer is shown, while the rest of it is still to be fed.
static void an_answer_that_is_told_is_saved(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct worker *worker = start_changed(t, "turn\ntext one two\n", make_slow);
    struct bytes answer = {0};
    struct saved_content content;
    struct store_error error;
    await_ready(t, worker);
    save_from_now_on(t, worker, &store);
    post(worker, "hi", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
    if (CHECK_EQ(t, content.n_parts, 2)) {
        CHECK_STR(t, content.parts[1].text.data, "one two");
        CHECK_STR(t, content.parts[1].made.stop, "end");
    }
    CHECK_EQ(t, manifest_tokens(&content.manifest), result->context_used);
    CHECK_EQ(t, manifest_rows(&content.manifest), result->prompt.count);
    saved_content_release(&content);
    struct event event = {0};
    atomic_store(&slow.holds, false);
    CHECK(t, next_event(worker, &event) && event.kind == EVENT_SESSION && !*event.session.text);
    CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
    CHECK_EQ(t, manifest_rows(&content.manifest), result->context_used);
    CHECK_EQ(t, content.manifest.n_records, 2); // one for each part
    saved_content_release(&content);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
    rig_clean(root);
}

// A message is on the disk before it is read: then one may be killed, or stop it and leave. One that another
// one follows in its place stays as a branch.
static void a_message_is_saved_when_it_is_sent(struct harness *t)
{
    for (int replaced = 0; replaced < 2; replaced++) {
        char root[64];
        struct store store = rig_store(root);
        struct worker *worker = start(t, "turn\nprefill 100\nturn\ntext yes\n");
        struct bytes answer = {0};
        struct saved_content content;
        struct store_error error;
        struct session_news news;
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        struct event event = {0};
        char text[200];
        memset(text, 'x', sizeof text);
        text[sizeof text - 1] = 0;
        post(worker, text, 0, 0);
        while (next_event(worker, &event) && event.kind != EVENT_PROGRESS)
            CHECK(t, event.kind != EVENT_DONE);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        CHECK(t, content.n_parts == 1 && strcmp(content.parts[0].text.data, text) == 0);
        CHECK(t, content.parts[0].ids.count > 10 && content.parts[0].made.time > 1700000000);
        saved_content_release(&content);
        while (next_event(worker, &event) && event.kind != EVENT_DONE)
            worker_cancel(worker);
        CHECK(t, event.result->reason == STOP_CANCELLED && !event.result->kept);
        turn_result_free(event.result);
        if (replaced) {
            post(worker, "another", 0, 0);
            turn_result_free(collect(t, worker, &answer, 0));
        }
        CHECK(t, worker_finish_session(worker, &news) && !news.failed && news.unanswered == !replaced);
        CHECK_STR(t, news.name, "talk");
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        CHECK_EQ(t, content.n_parts, replaced ? 2 : 1);
        CHECK_EQ(t, content.n_others, replaced);
        CHECK(t, !replaced || strcmp(content.others[0].text.data, text) == 0);
        if (CHECK(t, content.n_parts > 0)) {
            CHECK(t, content.parts[0].role == TOK_USER);
            CHECK_STR(t, content.parts[0].text.data, replaced ? "another" : text);
            CHECK(t, replaced || content.parts[0].ids.count > 10);
        }
        saved_content_release(&content);
        bytes_release(&answer);
        worker_free(worker);
        rig_clean(root);
    }
}

// A model whose tokenizer has changed: the texts come to more tokens than they were.
static struct {
    struct backend_ops ops;
    void (*describe)(void *self, struct backend_info *info);
    int (*encode)(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                  struct moe_err *err);
} newer;

static void describe_newer(void *self, struct backend_info *info)
{
    newer.describe(self, info);
    snprintf(info->origin.language.tokenizer, sizeof info->origin.language.tokenizer, "newer");
}

static int encode_newer(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                        struct moe_err *err)
{
    int code = newer.encode(self, prompt, ids, ends, err);
    ends[prompt->n_turns - 1] += 100;
    return code;
}

static void make_newer(struct backend *backend)
{
    newer.ops = *backend->ops;
    newer.describe = newer.ops.describe;
    newer.encode = newer.ops.encode;
    newer.ops.describe = describe_newer;
    newer.ops.encode = encode_newer;
    backend->ops = &newer.ops;
}

static void describe_heavier(void *self, struct backend_info *info)
{
    newer.describe(self, info);
    snprintf(info->origin.weights, sizeof info->origin.weights, "heavier");
}

// A model with other weights.
static void make_heavier(struct backend *backend)
{
    newer.ops = *backend->ops;
    newer.describe = newer.ops.describe;
    newer.ops.describe = describe_heavier;
    backend->ops = &newer.ops;
}

// The session "talk": "hi", and what the script says to that.
static void talk_once(struct harness *t, const struct store *store, const char *script)
{
    struct worker *worker = start(t, script);
    struct bytes answer = {0};
    struct session_news news;
    await_ready(t, worker);
    save_from_now_on(t, worker, store);
    post(worker, "hi", 0, 0);
    turn_result_free(collect(t, worker, &answer, 0));
    CHECK(t, worker_finish_session(worker, &news) && !news.failed);
    bytes_release(&answer);
    worker_free(worker);
}

static void what_is_read_again_is_counted_as_it_is_now(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct store_error error;
    talk_once(t, &store, "turn\ntext one two\n");
    struct worker *worker = start_changed(t, "turn\necho\n", make_newer);
    await_ready(t, worker);
    struct saved_content content;
    struct worker_session session = {.saved = NULL};
    CHECK_EQ(t, saved_open(&store, "talk", &session.saved, &content, &error), STORE_OK);
    uint32_t was = manifest_tokens(saved_manifest(session.saved));
    worker_open_session(worker, session);
    struct event event = {0};
    while (next_event(worker, &event) && event.kind != EVENT_SESSION)
        event_release(&event);
    char wanted[200];
    snprintf(wanted, sizeof wanted,
             "it was saved with a different tokenizer or template; your next message reads all of it again, now %u "
             "tokens",
             1 + 4 + 8 + 2 + 100);
    CHECK(t, event.session.stale && was > 0);
    CHECK_STR(t, event.session.text, wanted);
    saved_content_release(&content);
    worker_free(worker);
    rig_clean(root);
}

// Opens the session "talk" with the tokens of its first parts; event becomes what is said of it.
static void open_parts(struct harness *t, struct worker *worker, const struct store *store, size_t n_parts,
                       struct event *event)
{
    struct worker_session session = {.saved = NULL};
    struct saved_content content;
    struct store_error error;
    struct tok_err err;
    CHECK_EQ(t, saved_open(store, "talk", &session.saved, &content, &error), STORE_OK);
    for (size_t p = 0; p < content.n_parts && p < n_parts; p++)
        for (size_t i = 0; i < content.parts[p].ids.count; i++)
            tok_ids_append(&session.ids, content.parts[p].ids.ids[i], &err);
    saved_content_release(&content);
    worker_open_session(worker, session);
    while (next_event(worker, event) && event->kind != EVENT_SESSION)
        event_release(event);
}

static void open_talk(struct harness *t, struct worker *worker, const struct store *store, struct event *event)
{
    open_parts(t, worker, store, SIZE_MAX, event);
}

// The message that waits in a session, to be answered: its rows are read again.
static void post_again(struct worker *worker, const struct part *message)
{
    struct turn *turn = turn_new();
    turn->again = true;
    turn->position = (uint32_t)message->ids.count;
    turn->last_id = message->ids.ids[message->ids.count - 1];
    turn->number = message->number + 1;
    worker_send(worker, turn);
}

// What another process began to read can be stopped as well: at once, and what was read of it stays, and is counted.
static void reading_again_is_stopped_at_once(struct harness *t)
{
    char root[64], text[400];
    struct store store = rig_store(root);
    struct store_error error;
    struct session_news news;
    struct bytes answer = {0};
    struct event event = {0};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    struct worker *worker = start(t, "turn\nprefill 40\n");
    await_ready(t, worker);
    save_from_now_on(t, worker, &store);
    post(worker, text, 0, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE)
        worker_cancel(worker);
    turn_result_free(event.result);
    CHECK(t, worker_finish_session(worker, &news) && news.unanswered);
    worker_free(worker);
    worker = start(t, "turn\nprefill 40\nturn\nprefill 40\nturn\ntext yes\n");
    await_ready(t, worker);
    struct saved_content content;
    CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
    if (CHECK(t, content.n_parts == 1)) {
        const struct tok_ids *ids = &content.parts[0].ids;
        open_talk(t, worker, &store, &event);
        uint32_t read = 0;
        for (int i = 0; i < 2; i++) {
            post_again(worker, &content.parts[0]);
            while (next_event(worker, &event) && event.kind != EVENT_DONE)
                if (event.kind == EVENT_PROGRESS) {
                    CHECK_EQ(t, event.progress.total, ids->count); // earlier tries included
                    CHECK(t, event.progress.done >= read);
                    if (event.progress.done >= read + 32)
                        worker_cancel(worker);
                }
            const struct turn_result *result = event.result;
            CHECK(t, result->reason == STOP_CANCELLED && !result->rereading && !result->kept); // nobody had read it
            CHECK(t, result->to_read == ids->count && result->read_tokens >= read + 32);
            CHECK_EQ(t, result->tally.read_tokens, result->read_tokens - read);
            read = result->read_tokens;
            turn_result_free(event.result);
            while (next_event(worker, &event) && event.kind != EVENT_SESSION)
                CHECK(t, event.kind != EVENT_PROGRESS); // nothing goes on
        }
        post_again(worker, &content.parts[0]);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK(t, result->kept && !result->rereading);
        CHECK_EQ(t, result->cached_tokens, read);
        turn_result_free(result);
    }
    saved_content_release(&content);
    bytes_release(&answer);
    worker_free(worker);
    rig_clean(root);
}

// Of what could not be noted, such as without memory, the session has a hole that no save fills: who asks is told what
// saves all.
static void a_hole_is_told_with_what_saves_all(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct store_error error;
    struct keeper keeper = {.saved = NULL};
    struct turn turn = {.position = 5};
    struct turn_result result = {.n_same = 0};
    static const char remedy[] = "/fork NAME saves all of";
    CHECK_EQ(t, saved_new(&store, "talk", &keeper.saved, &error), STORE_OK);
    keeper_save_message(&keeper, &turn, &result);
    CHECK(t, keeper.hole && keeper.news.failed && strstr(keeper.news.text, remedy));
    keeper.news = (struct session_news){0};
    keeper_save_as(&keeper, "other");
    CHECK(t, keeper.news.failed && strstr(keeper.news.text, remedy));
    keeper.news = (struct session_news){0};
    keeper_lose(&keeper);
    CHECK(t, keeper.news.failed && strstr(keeper.news.text, "/fork NAME saves it anew"));
    saved_close(keeper.saved);
    rig_clean(root);
}

// What is too long for the context is said with the context that it would fit into.
static void what_does_not_fit_is_told_its_context(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct event event = {0};
    talk_once(t, &store, "turn\nrepeat 1010 x\n");
    for (int context = 1015; context <= 1018; context++) {
        char script[64], wanted[64];
        snprintf(script, sizeof script, "context %d\nturn\necho\n", context);
        struct worker *worker = start(t, script);
        await_ready(t, worker);
        open_talk(t, worker, &store, &event);
        snprintf(wanted, sizeof wanted, "1017 tokens do not fit into a context of %d,", context);
        CHECK_EQ(t, strstr(event.session.text, wanted) && strstr(event.session.text, " --context 2048 "),
                 context < 1017);
        worker_free(worker);
    }
    rig_clean(root);
}

// Behind what is lost all is read anew, by a model of other weights as well: that the session stays as it is goes with
// it, and so does that there is no room.
static void what_is_left_is_said_with_what_is_lost(struct harness *t)
{
    static const struct {
        const char *script, *then;
    } rooms[] = {
        {"turn\necho\n",
         "; your next message reads 1017 of its 1017 tokens again, and the words in the place of what is "
         "lost"},
        {"thinks\nturn\necho\n",
         "; your next message reads up to 1017 of its 1017 tokens again, and the words in the place of what is "
         "lost"},
        {"context 1017\nturn\necho\n", "; the conversation's 1017 tokens fill a context of 1017, so nothing"},
        {"context 1016\nturn\necho\n", "; the conversation's 1017 tokens do not fit into a context of 1016,"},
    };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        for (size_t parts = 0; parts < 2; parts++) {
            char root[64];
            struct store store = rig_store(root);
            struct event event = {0};
            talk_once(t, &store, "turn\nrepeat 1010 x\n");
            struct worker *worker = start_changed(t, rooms[i].script, make_heavier);
            await_ready(t, worker);
            open_parts(t, worker, &store, parts, &event);
            if (!CHECK(t, strncmp(event.session.text, "it was saved with different weights or settings (", 49) == 0 &&
                              strstr(event.session.text, "), so \"talk\" stays as it is, and this goes on as "
                                                         "\"talk-2\"; ") &&
                              strstr(event.session.text, rooms[i].then)))
                printf("    %s\n", event.session.text);
            worker_free(worker);
            rig_clean(root);
        }
    }
}

// A disk that refuses so many of the files that are called so.
static struct {
    struct store_io io;
    const char *what;
    int refuses;
} full;

static int open_on_full(void *context, const char *path, int flags)
{
    if (!strstr(path, full.what) || !(flags & O_CREAT) || full.refuses-- <= 0)
        return store_io_posix.open(context, path, flags);
    errno = ENOSPC;
    return -1;
}

static void fill_disk(struct store *store, const char *what, int refuses)
{
    full.io = store_io_posix;
    full.io.open = open_on_full;
    full.what = what;
    full.refuses = refuses;
    store->io = &full.io;
}

// Rows are saved with the prompt and again with the answer: what is left out is said once, as it is at the end.
static void rows_left_out_are_said_once(struct harness *t)
{
    for (int refuses = 1; refuses <= 2; refuses++) {
        char root[64], wanted[80];
        struct store store = rig_store(root);
        struct event event = {0};
        struct bytes answer = {0};
        fill_disk(&store, "/kv.", refuses);
        struct worker *worker = start(t, "turn\ntext one two\n");
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        post(worker, "hi", 0, 0);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK(t, next_event(worker, &event) && event.kind == EVENT_SESSION && !event.session.failed);
        snprintf(wanted, sizeof wanted, "saved the text, but not the KV cache of %u tokens,", result->context_used);
        if (refuses == 1) // then the answer's came with the prompt's
            CHECK_STR(t, event.session.text, "");
        else if (!CHECK(t, strncmp(event.session.text, wanted, strlen(wanted)) == 0 &&
                               !strstr(event.session.text + 1, "saved the text")))
            printf("    %s\n", event.session.text);
        turn_result_free(result);
        bytes_release(&answer);
        worker_free(worker);
        rig_clean(root);
    }
}

// A message that the disk does not take is told before it is read, which may take hours, and once; the end of the turn
// says when it was taken after all.
static void an_unsaved_message_is_told_at_once(struct harness *t)
{
    for (int refuses = 1; refuses <= 100; refuses += 99) {
        char root[64];
        struct store store = rig_store(root);
        struct event event = {0};
        fill_disk(&store, "/transcript.", refuses);
        struct worker *worker = start(t, "turn\ntext one two\n");
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        post(worker, "hi", 0, 0);
        CHECK(t, next_event(worker, &event) && event.kind == EVENT_UNSAVED);
        CHECK(t, strncmp(event.unsaved, "conversation not saved: /", 25) == 0 &&
                     strstr(event.unsaved, ": No space left on device"));
        while (next_event(worker, &event) && event.kind != EVENT_SESSION) {
            CHECK(t, event.kind != EVENT_UNSAVED);
            event_release(&event);
        }
        CHECK_EQ(t, event.session.unsaved, refuses > 1);
        CHECK_EQ(t, event.session.failed, refuses > 1);
        CHECK_STR(t, event.session.text, refuses > 1 ? "" : "the conversation is saved now");
        worker_free(worker);
        rig_clean(root);
    }
}

// A message that its answer was taken back from is answered again from the logits on the disk, and nothing is read.
static void logits_come_from_the_disk(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct store_error error;
    struct bytes answer = {0};
    struct event event = {0};
    talk_once(t, &store, "turn\ntext one two\n");
    struct saved *saved;
    struct saved_content content;
    CHECK_EQ(t, saved_open(&store, "talk", &saved, &content, &error), STORE_OK);
    if (CHECK_EQ(t, content.n_parts, 2)) {
        saved_cut(saved, (uint32_t)content.parts[0].ids.count);
        CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_OK);
        saved_close(saved);
        struct worker *worker = start(t, "turn\ntext three\n");
        await_ready(t, worker);
        open_talk(t, worker, &store, &event);
        post_again(worker, &content.parts[0]);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK_STR(t, answer.data, "three");
        CHECK(t, result->tally.read_tokens == 0 && result->cached_tokens == content.parts[0].ids.count);
        turn_result_free(result);
        worker_free(worker);
    }
    saved_content_release(&content);
    bytes_release(&answer);
    rig_clean(root);
}

// What of the conversation is fed otherwise now is forgotten once that is saved, all of it.
static void what_is_fed_otherwise_is_forgotten(struct harness *t)
{
    for (uint32_t n_left = 0; n_left <= 2; n_left++) {
        char root[64];
        struct store store = rig_store(root);
        struct store_error error;
        struct session_news news;
        struct bytes answer = {0};
        struct saved_content content;
        struct worker *worker = start(t, "turn\ntext one\n");
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        post(worker, "hi", 0, 0); // part 0, and part 1 answers it
        turn_result_free(collect(t, worker, &answer, 0));
        struct turn *turn = turn_new();
        CHECK(t, turn_add(turn, TOK_USER, "hi there", 8));
        turn->number = 2;
        for (uint32_t part = 0; part < n_left; part++)
            CHECK(t, turn_leaves(turn, part));
        worker_send(worker, turn);
        turn_result_free(collect(t, worker, &answer, 0));
        CHECK(t, worker_finish_session(worker, &news) && !news.failed);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        CHECK_EQ(t, content.n_parts, 2);
        CHECK_EQ(t, content.n_others, n_left == 2 ? 0 : 2); // what others follow stays
        saved_content_release(&content);
        bytes_release(&answer);
        worker_free(worker);
        rig_clean(root);
    }
}

// A message that was stopped and waits on the disk is read once when it is to be answered, not its end twice, nor,
// where layers have states and cannot go back by a token, all of it; and is saved as one that was answered at once.
static void what_waits_is_read_once(struct harness *t)
{
    for (int states = 0; states < 2; states++) {
        char root[64], script[64];
        struct store store = rig_store(root);
        struct saved_content content;
        struct store_error error;
        struct session_news news;
        struct bytes answer = {0};
        struct event event = {0};
        const char *begin = states ? "states 1000\n" : "";
        snprintf(script, sizeof script, "%sturn\nprefill 4000\n", begin);
        struct worker *worker = start(t, script);
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        post(worker, "what waits", 0, 0);
        while (next_event(worker, &event) && event.kind != EVENT_DONE)
            worker_cancel(worker);
        turn_result_free(event.result);
        CHECK(t, worker_finish_session(worker, &news) && news.unanswered);
        worker_free(worker);
        snprintf(script, sizeof script, "%sturn\ntext yes\n", begin);
        worker = start(t, script);
        await_ready(t, worker);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        open_talk(t, worker, &store, &event);
        if (CHECK_EQ(t, content.n_parts, 1)) {
            const struct tok_ids *ids = &content.parts[0].ids;
            CHECK_EQ(t, event.session.missing, ids->count);
            post_again(worker, &content.parts[0]);
            struct turn_result *result = collect(t, worker, &answer, 0);
            CHECK(t, result->kept && result->reason == STOP_END);
            CHECK_EQ(t, result->tally.read_tokens, ids->count);
            turn_result_free(result);
            CHECK(t, worker_finish_session(worker, &news) && !*news.text);
        }
        saved_content_release(&content);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        const struct manifest *manifest = &content.manifest;
        if (CHECK(t, content.n_parts == 2 && manifest->n_records == 2)) {
            CHECK(t, manifest->records[0].has_logits); // for /retry
            CHECK_EQ(t, manifest->records[0].count, content.parts[0].ids.count);
            CHECK(t, !states || manifest->states[0].record.first == content.parts[0].ids.count);
        }
        saved_content_release(&content);
        bytes_release(&answer);
        worker_free(worker);
        rig_clean(root);
    }
}

// As the chat does; with `stops`, stopped while it is read.
static void say(struct harness *t, struct worker *worker, struct chat *chat, const char *text, bool stops)
{
    struct event event = {0};
    worker_send(worker, chat_request(chat, text, strlen(text)));
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        if (stops && event.kind == EVENT_PROGRESS)
            worker_cancel(worker);
        event_release(&event);
    }
    if (!CHECK_EQ(t, event.kind, EVENT_DONE))
        return;
    CHECK(t, event.result->noted && event.result->kept == !stops);
    CHECK(t, chat_accept(chat, event.result, &event.result->text));
    event_release(&event);
}

// An engine that takes its time with what an answer leaves, so that what is sent then has not begun, and fails to read
// a message or to begin an answer where it is told to.
static struct {
    int (*encode)(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                  struct moe_err *err);
    int (*start_sampling)(void *self, const struct sampling *sampling, struct moe_err *err);
    atomic_bool no_encode, no_start;
} fails;

static int encode_or_fail(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                          struct moe_err *err)
{
    return atomic_load(&fails.no_encode) ? backend_fail(err, MOE_NO_MEMORY, "no memory")
                                         : fails.encode(self, prompt, ids, ends, err);
}

static int start_or_fail(void *self, const struct sampling *sampling, struct moe_err *err)
{
    return atomic_load(&fails.no_start) ? backend_fail(err, MOE_NO_MEMORY, "no memory")
                                        : fails.start_sampling(self, sampling, err);
}

static void make_failing(struct backend *backend)
{
    make_slow(backend);
    fails.encode = slow.ops.encode;
    fails.start_sampling = slow.ops.start_sampling;
    slow.ops.encode = encode_or_fail;
    slow.ops.start_sampling = start_or_fail;
}

// Another answer whose turn is stopped before it begins, or fails: as in the chat the message is the last one then, and
// the answer that it had a branch; that is on the disk when it is told, and one may be killed.
static void an_answer_that_is_taken_back_is_a_branch(struct harness *t)
{
    enum { STOPPED, NOT_ENCODED, NOT_STARTED, UNSAVED, N };
    for (int how = 0; how < N; how++) {
        char root[64];
        struct store store = rig_store(root);
        struct saved_content content;
        struct store_error error;
        struct session_news news;
        struct chat chat = {.next_number = 0};
        struct event event = {0};
        struct worker *worker = start_changed(t, "turn\ntext one two\nturn\ntext three\n", make_failing);
        await_ready(t, worker);
        if (how != UNSAVED)
            save_from_now_on(t, worker, &store);
        say(t, worker, &chat, "hi", false);
        atomic_store(&fails.no_encode, how == NOT_ENCODED);
        atomic_store(&fails.no_start, how == NOT_STARTED);
        worker_send(worker, chat_again(&chat));
        if (how == STOPPED || how == UNSAVED)
            worker_cancel(worker);
        atomic_store(&slow.holds, false);
        while (next_event(worker, &event) && event.kind != EVENT_DONE)
            event_release(&event);
        CHECK(t, !event.result->kept);
        CHECK_EQ(t, event.result->reason, how == STOPPED || how == UNSAVED ? STOP_CANCELLED : STOP_ERROR);
        CHECK(t, chat_accept(&chat, event.result, &event.result->text));
        CHECK(t, chat.n_turns == 1 && chat.n_others == 1);
        event_release(&event);
        if (how != UNSAVED) {
            CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
            CHECK(t, content.n_parts == 1 && content.n_others == 1);
            CHECK_EQ(t, manifest_tokens(&content.manifest), chat_position(&chat));
            saved_content_release(&content);
        }
        atomic_store(&fails.no_encode, false);
        atomic_store(&fails.no_start, false);
        worker_send(worker, chat_again(&chat)); // and it goes on
        while (next_event(worker, &event) && event.kind != EVENT_DONE)
            event_release(&event);
        CHECK(t, event.result->kept && chat_accept(&chat, event.result, &event.result->text));
        event_release(&event);
        CHECK_EQ(t, worker_finish_session(worker, &news) && !*news.text && !news.failed, true);
        if (how != UNSAVED) {
            CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
            if (CHECK(t, content.n_parts == 2 && content.n_others == 1)) {
                CHECK_STR(t, content.parts[1].text.data, "three");
                CHECK_STR(t, content.others[0].text.data, "one two");
            }
            CHECK_EQ(t, manifest_rows(&content.manifest), manifest_tokens(&content.manifest));
            saved_content_release(&content);
        }
        chat_release(&chat);
        worker_free(worker);
        rig_clean(root);
    }
}

// What is fed anew together with a message, all behind a new system message or an answer without its thinking, is on
// the disk once, however often the message is stopped, sent again or replaced: what branches begin with they share.
static void what_is_fed_anew_is_saved_once(struct harness *t)
{
    static const char *const stopped[] = {"a cat", "a dog", "a dog", "a fox"}; // one is sent again
    static const char turns[] = "turn\ntext <think>h</think>one\nturn\ntext <think>h</think>two\n"
                                "turn\nprefill 100\nturn\nprefill 100\nturn\nprefill 100\nturn\nprefill 100\n"
                                "turn\ntext three\n";
    for (size_t thinks = 0; thinks < 2; thinks++) {
        char root[64], script[300];
        struct store store = rig_store(root);
        struct saved_content content;
        struct store_error error;
        struct session_news news;
        struct chat chat = {.about.forgets = thinks};
        snprintf(script, sizeof script, "%s%s", thinks ? "thinks\n" : "", turns);
        struct worker *worker = start(t, script);
        await_ready(t, worker);
        save_from_now_on(t, worker, &store);
        say(t, worker, &chat, "hi", false);
        say(t, worker, &chat, "you", false);
        // With thinking the last exchange is fed otherwise, without it.
        const size_t fed = thinks ? 4 : 5, before = thinks ? 2 : 4;
        CHECK(t, thinks || chat_set_system(&chat, "You are a pirate.", 17));
        for (size_t i = 0; i < 4; i++) {
            say(t, worker, &chat, stopped[i], true);
            CHECK(t, chat_waits(&chat) && !chat.turns[fed - 1].end); // the engine does not have it
            CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
            CHECK_EQ(t, content.n_parts, fed + 1);
            CHECK_EQ(t, content.n_others, before + (i < 2 ? i : i - 1));
            CHECK_EQ(t, content.n_others, chat.n_others);
            saved_content_release(&content);
        }
        say(t, worker, &chat, "who", false);
        CHECK(t, worker_finish_session(worker, &news) && !news.failed);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        CHECK(t, content.n_others == before + 3 && chat.n_others == before + 3);
        if (CHECK(t, content.n_parts == fed + 2 && chat.n_turns == fed + 2)) {
            CHECK_STR(t, content.parts[fed + 1].text.data, "three");
            CHECK_EQ(t, manifest_rows(&content.manifest), manifest_tokens(&content.manifest));
            CHECK_EQ(t, chat_position(&chat), manifest_tokens(&content.manifest));
            for (size_t i = 0; i < fed + 2; i++)
                CHECK_EQ(t, chat.turns[i].number, content.parts[i].number);
            for (size_t i = before; i < before + 3 && i < content.n_others; i++)
                CHECK_EQ(t, content.others[i].after, content.parts[fed - 1].number);
        }
        saved_content_release(&content);
        chat_release(&chat);
        worker_free(worker);
        rig_clean(root);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(an_answer_that_is_told_is_saved),
        TEST(a_message_is_saved_when_it_is_sent),
        TEST(what_is_read_again_is_counted_as_it_is_now),
        TEST(reading_again_is_stopped_at_once),
        TEST(a_hole_is_told_with_what_saves_all),
        TEST(what_does_not_fit_is_told_its_context),
        TEST(what_is_left_is_said_with_what_is_lost),
        TEST(rows_left_out_are_said_once),
        TEST(an_unsaved_message_is_told_at_once),
        TEST(logits_come_from_the_disk),
        TEST(what_is_fed_otherwise_is_forgotten),
        TEST(what_waits_is_read_once),
        TEST(an_answer_that_is_taken_back_is_a_branch),
        TEST(what_is_fed_anew_is_saved_once),
    };
    return HARNESS_RUN(tests, argc, argv);
}
