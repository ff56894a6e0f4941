// SPDX-License-Identifier: GPL-3.0-or-later
// moechat info --list: what a repository holds, by a list of its files, and which of it there is room for here.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/subcommands/room_here.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/quote.h"
#include "app/util/report.h"
#include "engine/moe.h"

enum { LIST_MOST = 64 << 20, NAME_MOST = 44 };

// A model of the list, and what it would be here.
struct offer {
    const struct moe_listed *model;
    struct moe_listed_needs needs;
    bool known; // what it needs
    bool disk, memory;
    double cached;
};

struct offers {
    const char *from; // for people
    const struct options *options;
    struct moe_listing listing;
    struct room_here here;
    uint64_t conversation; // what the --context takes that was asked for, where the shape is known by its config.json
    struct offer *all;     // [listing.n_models], the smallest first
    const struct offer *best;
};

static struct room_needed needed_by(const struct offers *offers, const struct offer *offer)
{
    return (struct room_needed){.bytes = offer->needs.bytes,
                                .resident_bytes = offer->needs.resident_bytes + offers->conversation,
                                .experts_bytes = offer->needs.experts_bytes,
                                .cold_bytes = offer->needs.cold_bytes,
                                .n_moe_layers = offer->model->shape.n_moe_layers};
}

static int by_size(const void *a, const void *b)
{
    const struct offer *x = a, *y = b;
    if (x->needs.bytes != y->needs.bytes)
        return x->needs.bytes < y->needs.bytes ? -1 : 1;
    return strcmp(x->model->name, y->model->name);
}

// The largest that there is room for; where there is for none, the smallest that is whole.
static void choose(struct offers *offers)
{
    for (uint32_t i = 0; i < offers->listing.n_models; i++) {
        const struct offer *offer = &offers->all[i];
        bool fits = !offer->model->missing && offer->disk && offer->memory;
        if (fits || (!offer->model->missing && !offers->best))
            offers->best = offer;
    }
}

static bool weigh(struct offers *offers, uint64_t budget)
{
    const struct moe_listing *listing = &offers->listing;
    offers->here = room_here_look();
    offers->all = calloc(listing->n_models, sizeof *offers->all);
    if (!offers->all)
        return false;
    for (uint32_t i = 0; i < listing->n_models; i++) {
        struct offer *offer = &offers->all[i];
        offer->model = &listing->models[i];
        offer->known = moe_listed_needs(offer->model, &offer->needs);
        if (!offer->known)
            offer->needs.bytes = offer->model->bytes;
        struct room_needed needed = needed_by(offers, offer);
        offer->disk = room_here_on_disk(&offers->here, &needed);
        offer->memory = !offer->known || room_here_in_memory(&offers->here, &needed, budget);
        offer->cached = room_here_cached(&offers->here, &needed, budget);
    }
    qsort(offers->all, listing->n_models, sizeof *offers->all, by_size);
    choose(offers);
    return true;
}

// ---- Text

static void print_clean(const char *text)
{
    report_text(stdout, text, strlen(text));
}

static const char *base_of(const struct moe_listed *model)
{
    const char *slash = strrchr(model->name, '/');
    return slash ? slash + 1 : model->name;
}

// How much of the front of the names all have in common, up to a - that all have.
static size_t common_front(const struct offers *offers)
{
    const char *first = base_of(offers->all[0].model);
    size_t common = strlen(first);
    for (uint32_t i = 0; i < offers->listing.n_models; i++) {
        const char *name = base_of(offers->all[i].model);
        size_t n = 0;
        while (n < common && name[n] == first[n])
            n++;
        common = n;
    }
    while (common > 0 && (first[common - 1] != '-' || offers->listing.n_models == 1))
        common--;
    return common;
}

// "yes"; what there is too little of; which part the list lacks.
static char *fits_words(char out[FORMAT_SIZE], const struct offer *offer)
{
    const struct moe_listed *model = offer->model;
    if (model->missing)
        snprintf(out, FORMAT_SIZE, "part %" PRIu32 " is not listed", model->missing);
    else if (offer->disk && offer->memory)
        snprintf(out, FORMAT_SIZE, "%s", !offer->needs.bytes ? "?" : offer->known ? "yes" : "disk yes");
    else
        snprintf(out, FORMAT_SIZE, "no, %s", offer->memory ? "disk" : offer->disk ? "memory" : "disk and memory");
    return out;
}

static void print_offer(const struct offer *offer, size_t front, int width)
{
    char size[FORMAT_SIZE] = "?", token[FORMAT_SIZE] = "?", parts[FORMAT_SIZE], cold[FORMAT_SIZE] = "?",
         cached[FORMAT_SIZE] = "?", fits[FORMAT_SIZE], about[FORMAT_SIZE + 2];
    const struct moe_listed *model = offer->model;
    const char *name = base_of(model) + front;
    size_t length = strlen(name);
    if (model->sized)
        format_bytes(size, sizeof size, model->bytes);
    else if (offer->known)
        snprintf(size, sizeof size, "~%s", format_bytes(about, sizeof about, offer->needs.bytes));
    if (offer->known) {
        format_bytes(token, sizeof token, offer->needs.cold_bytes);
        room_here_speeds(cold, sizeof cold, offer->needs.cold_bytes, 0);
        room_here_speeds(cached, sizeof cached, offer->needs.cold_bytes, offer->cached);
    }
    if (model->listed == model->parts)
        snprintf(parts, sizeof parts, "%" PRIu32, model->parts);
    else
        snprintf(parts, sizeof parts, "%" PRIu32 "/%" PRIu32, model->listed, model->parts);
    print_clean(length > (size_t)width ? name + length - (size_t)width : name);
    printf("%*s %6s %9s  %8s  %-10s  %-10s  %s\n", length < (size_t)width ? width - (int)length : 0, "", parts, size,
           token, cold, cached, fits_words(fits, offer));
}

static void print_shape(const char *label, const struct moe_listed_shape *shape)
{
    char count[FORMAT_SIZE];
    printf("%-18s", label);
    print_clean(shape->name);
    printf(": %s parameters, %" PRIu32 " experts in ", format_count(count, sizeof count, shape->parameters),
           shape->n_routed_experts);
    if (shape->n_moe_layers != 1)
        printf("each of ");
    printf("%" PRIu32 " layer%s, %" PRIu32 " per token\n", shape->n_moe_layers, format_s(shape->n_moe_layers),
           shape->top_k);
}

// Of the models before this one, one has its shape.
static bool was_shown(const struct moe_listing *listing, uint32_t model)
{
    for (uint32_t i = 0; i < model; i++)
        if (strcmp(listing->models[i].shape.name, listing->models[model].shape.name) == 0)
            return true;
    return false;
}

// Each shape once, and whether all models have one.
static void print_shapes(const struct moe_listing *listing)
{
    uint32_t shown = 0, unknown = 0;
    for (uint32_t i = 0; i < listing->n_models; i++) {
        const struct moe_listed_shape *shape = &listing->models[i].shape;
        if (!*shape->name)
            unknown++;
        else if (!was_shown(listing, i))
            print_shape(shown++ ? "" : "shape", shape);
    }
    if (!shown)
        puts("shape             not known by the names; with its config.json after --list FILE, what a token reads is "
             "told, too");
    else if (unknown == 1)
        printf("%-18sone model's is not known by its name\n", "");
    else if (unknown)
        printf("%-18s%" PRIu32 " models' are not known by their names\n", "", unknown);
}

static void print_table(const struct offers *offers)
{
    int width = 5;
    size_t front = common_front(offers);
    for (uint32_t i = 0; i < offers->listing.n_models; i++) {
        int length = (int)strlen(base_of(offers->all[i].model) + front);
        width = length > width ? length : width;
    }
    width = width < NAME_MOST ? width : NAME_MOST;
    if (front) {
        printf("\nModels, each with ");
        report_text(stdout, base_of(offers->all[0].model), front);
        printf(" before it. Tokens/s: of a disk of 1 to 7 GB/s, without the time to compute.\n");
    } else {
        puts("\nTokens/s: of a disk of 1 to 7 GB/s, without the time to compute.");
    }
    printf("%*s %6s %9s  %8s  %-10s  cache\n", width, "", "", "", "a token", "tokens/s,");
    printf("%-*s %6s %9s  %8s  %-10s  %-10s  fits here\n", width, "model", "parts", "size", "reads", "cold", "full");
    for (uint32_t i = 0; i < offers->listing.n_models; i++)
        print_offer(&offers->all[i], front, width);
    putchar('\n');
}

// What is to be typed: "hf download REPOSITORY --include PATTERN --local-dir DIR".
static bool command(struct bytes *out, const struct offers *offers)
{
    static const char get[] = "hf download ", include[] = " --include ", to[] = " --local-dir DIR";
    const struct moe_listing *listing = &offers->listing;
    const struct moe_listed *model = offers->best->model;
    const char *repository = *listing->repository ? listing->repository : "REPOSITORY";
    bool fine = bytes_append(out, get, strlen(get)) && quote_shell(out, repository);
    if (fine && model->gguf)
        fine = bytes_append(out, include, strlen(include)) && quote_shell(out, model->pattern);
    for (uint32_t i = 0; fine && !model->gguf && i < listing->n_models; i++)
        if (listing->models[i].gguf) {
            static const char exclude[] = " --exclude '*.gguf'";
            fine = bytes_append(out, exclude, strlen(exclude));
            break;
        }
    return fine && bytes_append(out, to, strlen(to));
}

static void print_best(const struct offers *offers)
{
    const struct offer *best = offers->best;
    char size[FORMAT_SIZE];
    struct bytes typed = {0};
    if (!best) {
        puts("next              list the whole repository: parts of each model are missing");
        return;
    }
    bool fits = best->disk && best->memory;
    printf("%-18s", fits ? "fetch" : "does not fit");
    print_clean(base_of(best->model));
    printf("%s%s, %s%s%s\n", *best->model->mix ? ", " : "", best->model->mix,
           best->model->parts == 1 ? "one file" : "all its parts",
           !best->needs.bytes   ? ""
           : best->model->sized ? ", "
                                : ", ~",
           best->needs.bytes ? format_bytes(size, sizeof size, best->needs.bytes) : "");
    printf("%-18s%s\n", "",
           !fits                ? "the smallest of these; there is no room here for any"
           : !best->needs.bytes ? "whether there is room for it is not known"
           : !best->known       ? "whether there is room for it in memory is not known"
                                : "the largest of these that there is room for here");
    if (best->known && best->needs.converted)
        puts("                  moechat convert then makes 4 bits of it, which the figures of a token are for");
    if (!best->model->gguf && (!offers->listing.has_config || !offers->listing.has_tokenizer))
        printf("%-18sthe list has no %s, which the model needs\n", "",
               offers->listing.has_config ? "tokenizer" : "config.json");
    printf("%-18s%s\n", fits ? "next" : "where it fits", command(&typed, offers) ? typed.data : "");
    bytes_release(&typed); // empty again
    printf("                  (goes on where it was cut off), then %s\n",
           cmd_typed(&typed, offers->options, " info DIR") ? typed.data : "moechat info DIR");
    bytes_release(&typed);
}

static void print_offers(const struct offers *offers)
{
    const struct moe_listing *listing = &offers->listing;
    char size[FORMAT_SIZE], disk[FORMAT_SIZE], memory[FORMAT_SIZE];
    printf("%-18s", "list");
    print_clean(offers->from);
    if (*listing->repository) {
        printf(", of ");
        print_clean(listing->repository);
    }
    printf("\n%-18s%" PRIu64 " file%s, %s%s; %" PRIu32 " model%s\n", "holds", listing->n_files,
           format_s(listing->n_files), listing->bytes ? format_bytes(size, sizeof size, listing->bytes) : "sizes",
           !listing->bytes  ? " are not told"
           : listing->sized ? ""
                            : " and more that is not told",
           listing->n_models, format_s(listing->n_models));
    if (listing->kib)
        printf("%-18stheir sizes are taken for KiB, as du -a prints them; du -ab prints bytes\n", "");
    if (*listing->left_out) {
        printf("%-18s", "not a model");
        print_clean(listing->left_out);
        putchar('\n');
    }
    print_shapes(listing);
    printf("%-18s%s free on the disk of this folder, %s of memory\n", "here",
           offers->here.disk_known ? format_bytes(disk, sizeof disk, offers->here.disk) : "unknown bytes",
           format_bytes(memory, sizeof memory, offers->here.memory));
    if (offers->conversation)
        printf("%-18s%s for its %" PRIu32 " tokens are set aside of it\n", "conversation",
               format_bytes(memory, sizeof memory, offers->conversation), offers->options->model.context);
    else if (offers->options->model.context)
        puts("conversation      what its tokens take is not known by a list, nor counted; with the config.json after "
             "--list FILE it is");
    print_table(offers);
    print_best(offers);
}

// ---- JSON

// Of all models, "" where they are of several or one's is not known.
static const char *common_shape(const struct moe_listing *listing)
{
    const char *first = listing->models[0].shape.name;
    for (uint32_t i = 1; i < listing->n_models; i++)
        if (strcmp(listing->models[i].shape.name, first) != 0)
            return "";
    return first;
}

static void add_offer(struct json_out *out, const struct offer *offer)
{
    const struct moe_listed *model = offer->model;
    json_out_open(out, NULL, '{');
    json_out_string(out, "name", model->name);
    json_out_string(out, "pattern", model->pattern);
    json_out_string(out, "layout", model->gguf ? "GGUF" : "safetensors");
    json_out_string(out, "quantisation", model->mix);
    json_out_string(out, "shape", model->shape.name);
    json_out_whole(out, "files", model->parts);
    json_out_whole(out, "listed_files", model->listed);
    json_out_flag(out, "complete", !model->missing);
    if (model->missing)
        json_out_whole(out, "first_missing_file", model->missing);
    json_out_whole(out, "bytes", offer->needs.bytes);
    json_out_flag(out, "fits_disk", offer->disk);
    if (offer->known) {
        json_out_flag(out, "fits_memory", offer->memory);
        json_out_whole(out, "resident_bytes", offer->needs.resident_bytes);
        json_out_whole(out, "all_experts_bytes", offer->needs.experts_bytes);
        json_out_whole(out, "cold_token_bytes", offer->needs.cold_bytes);
        json_out_real(out, "cached_share", offer->cached);
    }
    json_out_close(out, '}');
}

static int print_json(const struct offers *offers)
{
    const struct moe_listing *listing = &offers->listing;
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_string(&out, "list", offers->from);
    json_out_string(&out, "repository", listing->repository);
    json_out_string(&out, "shape", common_shape(listing));
    json_out_whole(&out, "files", listing->n_files);
    json_out_whole(&out, "bytes", listing->bytes);
    json_out_whole(&out, "disk_free_bytes", offers->here.disk);
    json_out_whole(&out, "memory_free_bytes", offers->here.memory);
    if (offers->conversation)
        json_out_whole(&out, "conversation_bytes", offers->conversation);
    else if (offers->options->model.context)
        json_out_null(&out, "conversation_bytes");
    json_out_open(&out, "models", '[');
    for (uint32_t i = 0; i < listing->n_models; i++)
        add_offer(&out, &offers->all[i]);
    json_out_close(&out, ']');
    const struct offer *best = offers->best;
    json_out_string(&out, "fetch", best && best->disk && best->memory ? best->model->pattern : "");
    json_out_close(&out, '}');
    return json_out_finish(&out);
}

// ----

// All models are of the shape of one of which something is here. False: reported, as a context that no such model
// takes.
static bool take_shape(struct offers *offers, const char *path)
{
    const struct model_settings *model = &offers->options->model;
    struct moe_listing *listing = &offers->listing;
    struct moe_listed_shape shape = {0};
    struct moe_err err;
    struct moe_description *about = calloc(1, sizeof *about);
    bool fine = about && moe_foresee(path, about, &err) == 0 && moe_check_context(about, model->context, &err) == 0;
    if (!fine)
        report("%s", about ? err.text : "no memory");
    if (fine) {
        snprintf(shape.name, sizeof shape.name, "%s", about->model_type);
        shape.parameters = about->parameters;
        shape.n_moe_layers = about->n_moe_layers;
        shape.n_routed_experts = about->n_routed_experts;
        shape.top_k = about->top_k;
        if (about->foreseen_bits > 0)
            shape.expert_parameters = (uint64_t)((double)about->all_experts_bytes * 8 / about->foreseen_bits);
    }
    if (fine && model->context) // a session has its states twice
        offers->conversation =
            model->context * (about->kv_row_bytes_f32 / (model->kv == MOE_KV_F16 ? 2 : 1)) + 2 * about->state_bytes;
    for (uint32_t i = 0; fine && i < listing->n_models; i++)
        listing->models[i].shape = shape;
    free(about);
    return fine;
}

// An errno, or 0.
static int read_list(const char *path, struct bytes *text)
{
    return strcmp(path, "-") == 0 ? files_read_fd(STDIN_FILENO, LIST_MOST, text) : files_read(path, LIST_MOST, text);
}

int cmd_info_list(const struct options *options)
{
    struct bytes text = {0};
    struct moe_err err;
    if (options->asked.verify) {
        report("--verify checks files, and --list has names alone; give one of them");
        return STATUS_USAGE;
    }
    const char *path = options->asked.list, *from = strcmp(path, "-") == 0 ? "standard input" : path;
    struct offers offers = {.from = from, .options = options};
    int status = STATUS_MODEL, failed = read_list(path, &text);
    if (failed)
        report("%s: %s", from, failed == EFBIG ? "is too large to be a list of files" : strerror(failed));
    else if (moe_listing_read(text.data ? text.data : "", text.length, from, &offers.listing, &err))
        report("%s", err.text);
    else if (options->asked.operand && !take_shape(&offers, options->asked.operand))
        ;
    else if (!weigh(&offers, options->model.expert_cache))
        report("no memory");
    else
        status = STATUS_DONE;
    if (status == STATUS_DONE && options->asked.json)
        status = print_json(&offers);
    else if (status == STATUS_DONE)
        print_offers(&offers);
    free(offers.all);
    moe_listing_release(&offers.listing);
    bytes_release(&text);
    return status;
}
