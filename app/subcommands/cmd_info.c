// SPDX-License-Identifier: GPL-3.0-or-later
// moechat info: what a model is and needs, and what to type next.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/subcommands/cmd.h"
#include "app/subcommands/room_here.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "app/figures/figures_json.h"
#include "app/driver/model_tokenizer.h"
#include "app/util/json_out.h"
#include "app/view/plan_words.h"
#include "app/util/progress.h"
#include "app/util/quote.h"
#include "app/util/report.h"
#include "tokenizer/tok.h"
#include "app/term/term.h"

// What the expert cache would be in host memory, without opening a device.
struct figures {
    uint64_t experts;    // of all layers
    uint64_t cold_bytes; // read for a token when no expert is in memory
    struct moe_cache_plan plan;
    char refused[512]; // why there is no plan; "" when there is one
    bool error;        // that is why run would not begin
};

// With defaults alone, a model that is not here yet may be too large for this machine: an answer, and no error.
static bool asks_for_memory(const struct model_settings *model)
{
    return model->context || model->ring || model->expert_cache != MOE_CACHE_AUTO ||
           model->host_cache != MOE_CACHE_AUTO;
}

static struct figures work_out(const struct moe_description *about, const char *path, const struct options *options)
{
    struct figures figures = {
        .experts = (uint64_t)about->n_moe_layers * about->n_routed_experts,
        .cold_bytes = about->all_experts_bytes / about->n_routed_experts * about->top_k,
    };
    char *kernel_cache;
    struct moe_model_options model = model_settings_open(&options->model, &kernel_cache);
    struct moe_err err = {.text = ""};
    int code = about->foreseen_bits > 0 ? moe_plan_foreseen(path, &model, &figures.plan, &err)
                                        : moe_plan(path, &model, &figures.plan, &err);
    if (code)
        snprintf(figures.refused, sizeof figures.refused, "%s", err.text);
    figures.error = code && (about->runs || asks_for_memory(&options->model));
    free(kernel_cache);
    return figures;
}

// As run and chat would be, or will be once the weights are there.
static int report_refusal(const struct figures *figures)
{
    if (!figures->error)
        return STATUS_DONE;
    report("%s", figures->refused);
    return STATUS_MODEL;
}

// What the maker suggests, each as far as it is given; null: nothing.
static void add_suggestion(struct json_out *out, const struct moe_suggestion *suggestion)
{
    const struct {
        const char *key;
        unsigned bit;
        double value;
    } all[] = {{"temperature", MOE_SUGGESTS_TEMPERATURE, suggestion->temperature},
               {"top_p", MOE_SUGGESTS_TOP_P, suggestion->top_p},
               {"min_p", MOE_SUGGESTS_MIN_P, suggestion->min_p}};
    if (!suggestion->given) {
        json_out_null(out, "suggestion");
        return;
    }
    json_out_open(out, "suggestion", '{');
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (suggestion->given & all[i].bit)
            json_out_real(out, all[i].key, all[i].value);
    if (suggestion->given & MOE_SUGGESTS_TOP_K)
        json_out_whole(out, "top_k", suggestion->top_k);
    json_out_string(out, "source", suggestion->from_gguf ? "general.sampling" : "generation_config.json");
    json_out_close(out, '}');
}

static int print_json(const struct moe_description *about, const struct figures *figures, const char *directory,
                      bool verified)
{
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_string(&out, "directory", directory);
    json_out_string(&out, "name", about->name);
    json_out_string(&out, "layout", about->layout);
    json_out_flag(&out, "runs", about->runs);
    json_out_string(&out, "left_out", about->left_out);
    json_out_string(&out, "model_type", about->model_type);
    json_out_string(&out, "template", about->template_name);
    json_out_string(&out, "tokenizer", about->tokenizer_type);
    json_out_string(&out, "fingerprint", about->fingerprint);
    const struct {
        const char *key;
        uint64_t value;
    } wholes[] = {
        {"parameters", about->parameters},
        {"active_parameters", about->active_parameters},
        {"n_layers", about->n_layers},
        {"n_moe_layers", about->n_moe_layers},
        {"n_routed_experts", about->n_routed_experts},
        {"n_shared_experts", about->n_shared_experts},
        {"top_k", about->top_k},
        {"hidden_size", about->hidden_size},
        {"n_heads", about->n_heads},
        {"q_lora_rank", about->q_lora_rank},
        {"kv_lora_rank", about->kv_lora_rank},
        {"qk_nope_head_dim", about->qk_nope_head_dim},
        {"qk_rope_head_dim", about->qk_rope_head_dim},
        {"v_head_dim", about->v_head_dim},
        {"vocab_size", about->vocab_size},
        {"max_position_embeddings", about->max_position_embeddings},
        {"original_max_position_embeddings", about->original_max_position_embeddings},
        {"resident_bytes", about->resident_bytes},
        {"expert_bytes", about->expert_bytes},
        {"all_experts_bytes", about->all_experts_bytes},
        {"cold_token_bytes", figures->cold_bytes},
        {"experts", figures->experts},
        {"kv_row_bytes_f32", about->kv_row_bytes_f32},
        {"package_bytes", about->package_bytes},
        {"declared_bytes", about->declared_bytes},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        json_out_whole(&out, wholes[i].key, wholes[i].value);
    if (about->foreseen_bits > 0) {
        json_out_real(&out, "foreseen_bits", about->foreseen_bits);
        json_out_string(&out, "foreseen_from", about->foreseen_from);
        if (*about->missing)
            json_out_string(&out, "missing", about->missing);
    }
    if (about->state_bytes)
        json_out_whole(&out, "state_bytes", about->state_bytes);
    if (*about->mixers)
        json_out_string(&out, "mixers", about->mixers);
    add_suggestion(&out, &about->suggestion);
    json_out_open(&out, "groups", '{');
    for (size_t i = 0; i < MOE_GROUPS && about->groups[i].weights; i++) {
        json_out_open(&out, about->groups[i].name, '{');
        json_out_string(&out, "types", about->groups[i].types);
        json_out_whole(&out, "weights", about->groups[i].weights);
        json_out_whole(&out, "bytes", about->groups[i].bytes);
        json_out_close(&out, '}');
    }
    json_out_close(&out, '}');
    if (!*figures->refused) {
        json_out_whole(&out, "slots", figures->plan.slots);
        figures_json_plan(&out, &figures->plan);
    }
    if (verified)
        json_out_flag(&out, "verified", true);
    json_out_close(&out, '}');
    return json_out_finish(&out);
}

static void print_name(const char *label, const char *text)
{
    const char *at = *text ? text : "none", *end;
    printf("%-18s", label);
    for (; (end = strchr(at, '\n')); at = end + 1) { // a file's name may have some; a line of ours it is not
        report_text(stdout, at, (size_t)(end - at));
        fputs("\\n", stdout);
    }
    report_text(stdout, at, strlen(at));
    fputc('\n', stdout);
}

// Of a folder or a package; else it is a file.
static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void print_attention(const struct moe_description *about)
{
    if (*about->mixers)
        print_name("kinds of layers", about->mixers);
    if (!about->kv_lora_rank)
        return;
    printf("%-18s", "attention");
    if (about->q_lora_rank)
        printf("q rank %" PRIu32 ", ", about->q_lora_rank);
    printf("kv rank %" PRIu32 ", rope %" PRIu32 ", no rope %" PRIu32 ", values %" PRIu32 "\n", about->kv_lora_rank,
           about->qk_rope_head_dim, about->qk_nope_head_dim, about->v_head_dim);
}

static void print_shape(const struct moe_description *about)
{
    char all[FORMAT_SIZE], active[FORMAT_SIZE];
    printf("%-18s%s, %s active\n", "parameters", format_count(all, sizeof all, about->parameters),
           format_count(active, sizeof active, about->active_parameters));
    printf("%-18s%" PRIu32 ", hidden size %" PRIu32 ", %" PRIu32 " heads\n", "layers", about->n_layers,
           about->hidden_size, about->n_heads);
    printf("%-18s%" PRIu32 " in ", "experts", about->n_routed_experts);
    if (about->n_moe_layers == 1)
        printf("1 layer");
    else
        printf("each of %" PRIu32 " layers", about->n_moe_layers);
    printf(", %" PRIu32 " per token, %" PRIu32 " shared\n", about->top_k, about->n_shared_experts);
    print_attention(about);
    printf("%-18s%" PRIu32 " tokens", "context", about->max_position_embeddings);
    if (about->original_max_position_embeddings)
        printf(" (YaRN, from %" PRIu32 ")", about->original_max_position_embeddings);
    printf("\n%-18s%" PRIu32 "\n", "vocabulary", about->vocab_size);
    char suggested[SUGGESTION_SIZE];
    options_suggest(&(struct talk_settings){0}, &about->suggestion, suggested, sizeof suggested);
    if (*suggested)
        printf("%-18s%s, as its maker suggests\n", "sampling", suggested);
}

static struct room_needed needed_by(const struct moe_description *about, uint64_t cold)
{
    return (struct room_needed){about->declared_bytes > about->package_bytes ? about->declared_bytes
                                                                             : about->package_bytes,
                                about->resident_bytes, about->all_experts_bytes, cold, about->n_moe_layers};
}

// How fast: by the plan of a model that runs here, else about right, with this --expert-cache. Returns the sentence.
static char *speed_words(char out[ROOM_SPEED_SIZE], const struct moe_description *about, const struct figures *figures,
                         uint64_t budget)
{
    const struct moe_cache_plan *plan = &figures->plan;
    struct room_speed speed = {.cold_bytes = figures->cold_bytes};
    if (!*figures->refused) {
        speed.here = !plan->foreseen;
        speed.cached = plan_cached(plan);
        speed.disk_bytes_per_s = (double)plan->disk_bytes_per_s;
        speed.disk_doubt = plan->disk_doubt;
        return room_here_speed(out, &speed);
    }
    struct room_here here = room_here_look();
    struct room_needed needed = needed_by(about, figures->cold_bytes);
    speed.cached = room_here_cached(&here, &needed, budget);
    return room_here_speed(out, &speed);
}

// What the expert cache will be, or why there can be none.
static void print_cache(const struct moe_description *about, const struct figures *figures)
{
    char words[PLAN_WORDS_SIZE];
    if (figures->error)
        printf("%-18s%s\n", "can't run", figures->refused);
    else if (!about->runs && !about->foreseen_bits)
        printf("%-18s%s\n", "expert cache", "needs moechat convert first");
    else if (!*figures->refused)
        printf("%-18s%s%s\n", "expert cache", figures->plan.foreseen ? "about " : "",
               plan_without_speeds(words, sizeof words, &figures->plan));
    if (!*figures->refused && *plan_warning(words, sizeof words, &figures->plan, false))
        printf("%-18s%s\n", "", words);
}

// What a conversation takes, and how long it may be.
static void print_conversation(const struct moe_description *about, const struct figures *figures)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE], words[PLAN_WORDS_SIZE];
    printf("%-18s%s a token in f32, %s in f16", "conversation", format_bytes(a, sizeof a, about->kv_row_bytes_f32),
           format_bytes(b, sizeof b, about->kv_row_bytes_f32 / 2));
    if (about->state_bytes)
        printf("; and %s of states, however long it is", format_bytes(a, sizeof a, about->state_bytes));
    if (!*figures->refused) {
        const struct moe_cache_plan *plan = &figures->plan;
        struct context_figures context = {plan->context, about->max_position_embeddings, plan->row_bytes, 0, 0};
        printf("; %s%s", plan->foreseen && plan->context_chosen ? "about " : "",
               plan_context(words, sizeof words, &context));
    }
    fputc('\n', stdout);
}

static void print_memory(const struct moe_description *about, const struct figures *figures, uint64_t budget)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    printf("%-18s%s%s\n", "resident weights", format_bytes(a, sizeof a, about->resident_bytes),
           about->runs ? "" : " (here and below, as moechat convert makes them)");
    bool differ = about->all_experts_bytes < figures->experts * about->expert_bytes; // the largest is known
    printf("%-18s%" PRIu64 " of %s%s, %s in total\n", "routed experts", figures->experts, differ ? "up to " : "",
           format_bytes(a, sizeof a, about->expert_bytes), format_bytes_up(b, sizeof b, about->all_experts_bytes));
    printf("%-18s%s with nothing cached\n", "a token reads", format_bytes_up(a, sizeof a, figures->cold_bytes));
    char speed[ROOM_SPEED_SIZE];
    printf("%-18s%s\n", "speed", speed_words(speed, about, figures, budget));
    print_cache(about, figures);
    print_conversation(about, figures);
}

// What the weights are stored as, by their use.
static void print_groups(const struct moe_description *about)
{
    char size[FORMAT_SIZE];
    for (size_t i = 0; i < MOE_GROUPS && about->groups[i].weights; i++) {
        const struct moe_group *group = &about->groups[i];
        printf("%-18s%s: %s; %s, %.2f bits a weight\n", i ? "" : "stored as", group->name, group->types,
               format_bytes(size, sizeof size, group->bytes), 8 * (double)group->bytes / (double)group->weights);
    }
}

struct cmd_talk cmd_find_talk(struct moe_description *about, const char *directory)
{
    struct cmd_talk talk = {.no_template = ""};
    struct model_tokenizer own;
    struct moe_err err;
    if (!about->vocabulary && !*about->tokenizer_file)
        return talk;
    talk.has_tokenizer = model_tokenizer_open(directory, about, &own, &err) == 0;
    if (!talk.has_tokenizer)
        snprintf(talk.tokenizer, sizeof talk.tokenizer, "%s, unusable: %s", own.kind, err.text);
    else
        snprintf(talk.tokenizer, sizeof talk.tokenizer, "%s, %u tokens", own.kind,
                 (unsigned)tok_vocab_size(own.tokenizer));
    tok_close(own.tokenizer);
    if (own.kind != about->tokenizer_type)
        snprintf(about->tokenizer_type, sizeof about->tokenizer_type, "%s", own.kind);
    if (*about->template_name || model_tokenizer_find_template(directory, about, &own, &err))
        return talk;
    snprintf(about->template_name, sizeof about->template_name, "%s", own.template_name);
    talk.no_template = *own.template_name ? "" : "unknown; choose one with --template";
    return talk;
}

// Whether there is room for it here, as the options want it.
static void print_here(const struct moe_description *about, const struct figures *figures)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    struct room_here here = room_here_look();
    struct room_needed needed = needed_by(about, figures->cold_bytes);
    bool fits = room_here_in_memory(&here, &needed, MOE_CACHE_AUTO);
    printf("%-18s", "here");
    if (here.disk_known)
        printf("%s free on the disk of this folder: %s; ", format_bytes(a, sizeof a, here.disk),
               room_here_on_disk(&here, &needed) ? "it fits" : "it does not fit");
    printf("%s of memory: %s\n", format_bytes(b, sizeof b, here.memory),
           !fits               ? "too little"
           : *figures->refused ? "it does not run with these options"
                               : "it runs");
}

static bool is_json(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

// Of a model whose weights are not here: what it will take, and how to get the rest.
static void print_foreseen(const struct moe_description *about, const struct figures *figures, const char *path,
                           const struct options *options, const struct moe_err *why)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE], c[FORMAT_SIZE], speed[ROOM_SPEED_SIZE];
    print_name("name", about->name);
    print_name(is_folder(path) ? "folder" : "file", path);
    print_name("layout", about->layout);
    print_name("type", about->model_type);
    print_shape(about);
    if (about->declared_bytes)
        printf("%-18s%s in all\n", "download", format_bytes(a, sizeof a, about->declared_bytes));
    printf("%-18sabout %s, %s\n", "weights", format_bytes(a, sizeof a, about->package_bytes), about->foreseen_from);
    printf("%-18sabout %s of them routed experts, of %s each (%s%.2f bits a weight)\n", "",
           format_bytes(b, sizeof b, about->all_experts_bytes), format_bytes(c, sizeof c, about->expert_bytes),
           about->foreseen_guess ? "about " : "", about->foreseen_bits);
    printf("%-18sabout %s in memory for good, %s read for a token with nothing cached\n", "needs",
           format_bytes(a, sizeof a, about->resident_bytes), format_bytes(b, sizeof b, figures->cold_bytes));
    printf("%-18s%s\n", "speed", speed_words(speed, about, figures, options->model.expert_cache));
    print_cache(about, figures);
    print_here(about, figures);
    print_conversation(about, figures);
    print_name("missing", is_json(path)                                         ? "its weights"
                          : why->cause == MOE_CAUSE_POINTER || !*about->missing ? why->text
                                                                                : about->missing);
    struct bytes again = {0};
    const char *info = cmd_typed(&again, options, " info DIR") ? again.data : "moechat info DIR";
    if (why->cause == MOE_CAUSE_POINTER)
        printf("next              git lfs pull, then %s\n", info);
    else
        printf(
            "next              hf download REPOSITORY --local-dir DIR   (goes on where it was cut off; docs/models.md "
            "names\n"
            "                  repositories), then %s\n",
            info);
    bytes_release(&again);
}

// Its weights are not here, or not all of them. False: nothing can be told, and *err says why not.
static bool foresee(struct moe_description *about, const char *path, const struct options *options, struct moe_err *err,
                    int *status)
{
    struct moe_err own = *err;
    if (err->cause == MOE_CAUSE_CONSUMED || moe_foresee(path, about, &own)) { // all of it was here once
        // A config.json was never a model's own file; and who lacks files need not get them to hear what else is wrong.
        if (is_json(path) || (err->code == MOE_NOT_FOUND && own.code != MOE_NOT_FOUND))
            *err = own;
        return false;
    }
    struct figures figures = work_out(about, path, options);
    *status = report_refusal(&figures);
    if (options->asked.json) {
        int written = print_json(about, &figures, path, false);
        *status = written ? written : *status;
    } else {
        print_foreseen(about, &figures, path, options, err);
    }
    return true;
}

bool cmd_typed(struct bytes *out, const struct options *options, const char *words)
{
    return quote_program(out, options->program) && bytes_append(out, words, strlen(words));
}

bool cmd_next(struct bytes *out, const struct options *options, const char *directory, const struct cmd_talk *talk)
{
    bool talks = talk->has_tokenizer;
    const char *more = !talks ? " --tokens FILE" : *talk->no_template ? " --template NAME" : "";
    return cmd_typed(out, options, talks ? " -m " : " eval -m ") && quote_shell(out, directory) &&
           bytes_append(out, more, strlen(more));
}

// What to type.
static void print_next(const struct moe_description *about, const struct options *options, const struct cmd_talk *talk,
                       const char *directory)
{
    char size[FORMAT_SIZE], spare[FORMAT_SIZE];
    struct bytes word = {0};
    format_bytes(size, sizeof size, about->package_bytes);
    if (!about->runs)
        printf("%-18s%s NEWDIR (takes %s; %s more of the disk must be free)\n", "next",
               cmd_typed(&word, options, " convert ") && quote_shell(&word, directory) ? word.data
                                                                                       : "moechat convert DIR",
               size, format_bytes(spare, sizeof spare, MOE_CONVERT_SPARE));
    else
        printf("%-18s%s\n", "next", cmd_next(&word, options, directory, talk) ? word.data : "moechat -m DIR");
    bytes_release(&word);
    if (about->expert_reads == MOE_FOLDER_READS)
        puts(FOLDER_WORDS);
}

int cmd_info(const struct options *options)
{
    if (options->asked.operand && options_given(options, "model") && !getenv("MOECHAT_MODEL")) {
        report("info takes DIR or --model, not both");
        return STATUS_USAGE;
    }
    if (options->asked.list)
        return cmd_info_list(options);
    struct progress progress = {.out = isatty(STDERR_FILENO) ? stderr : NULL, .plain = term_is_dumb()};
    char *directory = files_model(options->asked.operand ? options->asked.operand : options->model.directory);
    struct moe_description *about = calloc(1, sizeof *about);
    struct moe_err err;
    int status = STATUS_MODEL;
    if (!directory || !about) {
        report("no memory");
        goto release;
    }
    int code = moe_inspect(directory, about, &err);
    if (code == 0 && about->runs)
        code = moe_check_holes(directory, &err);
    if (code == 0 && options->asked.verify)
        code = moe_verify(directory, progress_take, &progress, &err);
    progress_clear(&progress);
    if (code && !options->asked.verify && foresee(about, directory, options, &err, &status)) {
        if (!is_json(directory) && err.code != MOE_NOT_FOUND) { // what is here is damaged, or on its way
            report("%s", err.text);
            status = STATUS_MODEL;
        }
        goto release;
    }
    if (code) {
        report("%s", err.text);
        goto release;
    }
    struct figures figures = work_out(about, directory, options);
    struct cmd_talk talk = cmd_find_talk(about, directory);
    status = report_refusal(&figures);
    if (options->asked.json) {
        int written = print_json(about, &figures, directory, options->asked.verify);
        status = written ? written : status;
        goto release;
    }
    print_name("name", about->name);
    print_name(is_folder(directory) ? "folder" : "file", directory);
    print_name("layout", about->layout);
    print_name("type", about->model_type);
    if (about->left_out[0])
        print_name("left out", about->left_out);
    print_shape(about);
    print_groups(about);
    print_memory(about, &figures, options->model.expert_cache);
    print_name("tokenizer", talk.tokenizer);
    print_name("turn template", *talk.no_template ? talk.no_template : about->template_name);
    if (about->runs)
        print_name("fingerprint", about->fingerprint);
    print_next(about, options, &talk, directory);
    if (options->asked.verify)
        puts(about->package ? "All checksums match." : "All was read, and every scale is a finite number.");
release:
    free(about);
    free(directory);
    return status;
}
