// SPDX-License-Identifier: GPL-3.0-or-later
// Prints /inspect: an answer's tokens, and one of them.
#include "app/view/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "app/view/cells.h"
#include "app/figures/figures.h"

enum { TEXT_MOST = 24, ITEM = 3 * TEXT_MOST + 64 };

// In quotes, newlines and tabs spelled out; a long one is cut.
static void spell(const struct inspect *inspect, int32_t id, char out[ITEM])
{
    const char *bytes;
    size_t length = inspect->text(inspect->context, id, &bytes), used = 0;
    if (length == 0) {
        snprintf(out, ITEM, "(a mark)");
        return;
    }
    out[used++] = '"';
    for (size_t i = 0; i < length && i < TEXT_MOST; i++) {
        const char *spelled = bytes[i] == '\n' ? "\\n" : bytes[i] == '\t' ? "\\t" : bytes[i] == '\r' ? "\\r" : NULL;
        if (spelled) {
            memcpy(out + used, spelled, 2);
            used += 2;
        } else {
            out[used++] = bytes[i] ? bytes[i] : ' ';
        }
    }
    memcpy(out + used, length > TEXT_MOST ? "...\"" : "\"", length > TEXT_MOST ? 5 : 2);
}

// Puts an item behind those of the line, or into a line of its own below them.
static void put(struct inspect *inspect, int indent, const char *item)
{
    int width = cells_width(item, strlen(item));
    if (inspect->column > indent && inspect->column + 2 + width >= inspect->columns) {
        fputs(",\n", inspect->out);
        inspect->column = 0;
    } else if (inspect->column > indent) {
        fputs(", ", inspect->out);
        inspect->column += 2;
    }
    if (inspect->column < indent)
        fprintf(inspect->out, "%*s", indent - inspect->column, "");
    inspect->column = width + (inspect->column > indent ? inspect->column : indent);
    fputs(item, inspect->out);
}

// n_candidates: it is not among them.
static uint32_t rank_of(const struct step_token *token)
{
    uint32_t rank = 0;
    while (rank < token->n_candidates && token->candidates[rank].id != token->id)
        rank++;
    return rank;
}

void inspect_list(struct inspect *inspect, uint32_t number, const struct step_token *token)
{
    char text[ITEM], item[ITEM + 48];
    double percent = 100 * (double)token->probability;
    spell(inspect, token->id, text);
    if (percent >= 0 && percent < 0.01)
        snprintf(item, sizeof item, "%" PRIu32 " %s <0.01 %%", number, text);
    else if (percent >= 0)
        snprintf(item, sizeof item, "%" PRIu32 " %s %.3g %%", number, text, percent);
    else
        snprintf(item, sizeof item, "%" PRIu32 " %s", number, text);
    put(inspect, 2, item);
}

static void print_candidate(const struct inspect *inspect, struct moe_candidate candidate, const char *mark)
{
    char text[ITEM];
    spell(inspect, candidate.id, text);
    fprintf(inspect->out, "  %6.2f %%  %6" PRId32 "  %s%s\n", 100.0 * (double)candidate.probability, candidate.id, text,
            mark);
}

static void print_candidates(const struct inspect *inspect, const struct step_token *token)
{
    uint32_t rank = rank_of(token);
    for (uint32_t i = 0; i < token->n_candidates; i++)
        print_candidate(inspect, token->candidates[i], i == rank ? "  taken" : "");
    if (rank == token->n_candidates && token->probability >= 0)
        print_candidate(inspect, (struct moe_candidate){token->id, token->probability},
                        "  taken, less likely than these");
}

static void print_time(const struct inspect *inspect, const struct moe_telemetry *step)
{
    fprintf(inspect->out, "%s took %.2f ms:", step->decode ? "Its step" : "The prompt's last step before it",
            (double)step->total_ns / 1e6);
    for (int i = 0; i < MOE_INTERVALS; i++)
        if (step->ns[i])
            fprintf(inspect->out, " %s %s%.2f", figures_interval_word((enum moe_interval)i),
                    figures_is_estimate(step->shared_out, (enum moe_interval)i) ? "~" : "", (double)step->ns[i] / 1e6);
    fputc('\n', inspect->out);
    if (step->shared_out)
        fprintf(inspect->out,
                "Attention, router,%s experts and head are estimated: only one token in 64 is timed part by part.\n",
                step->ns[MOE_ON_COPY] ? " copy," : "");
}

static void print_experts(struct inspect *inspect, const struct moe_telemetry *step)
{
    char item[64];
    struct tally tally = {0};
    char words[96];
    tally_add_record(&tally, step);
    fprintf(inspect->out, "In memory: %" PRIu64 " of %" PRIu64 " experts; %s.\n", tally.hits, tally.hits + tally.misses,
            tally_read_words(words, sizeof words, &tally));
    fputs("layer   expert weight from, and time waited for it\n", inspect->out);
    for (uint32_t l = 0; l < step->n_moe_layers; l++) {
        inspect->column = fprintf(inspect->out, "  %3" PRIu32 "   ", step->layers[l].layer);
        for (uint32_t rank = 0; rank < step->top_k; rank++) {
            const struct moe_choice *choice = &step->choices[l * step->top_k + rank];
            const char *origin =
                choice->origin < MOE_ORIGINS ? figures_origin_word((enum moe_origin)choice->origin) : "?";
            int length = snprintf(item, sizeof item, "%u %.3f %s", choice->expert, (double)choice->weight, origin);
            if (choice->wait_us)
                snprintf(item + length, sizeof item - (size_t)length, " %.2f ms", (double)choice->wait_us / 1e3);
            put(inspect, 8, item);
        }
        fputc('\n', inspect->out);
    }
}

void inspect_slowest(struct inspect *inspect, const struct usual *usual, const struct inspect_slow *slowest, int n)
{
    if (!usual->tokens)
        return;
    fprintf(inspect->out, "\nMedian %.2f ms a token.", (double)usual->total_ns / 1e6);
    for (int i = 0; i < n; i++) {
        const struct moe_telemetry *step = slowest[i].step;
        enum moe_interval why = why_interval(step, usual);
        fprintf(inspect->out, "%s %" PRIu32 ", %.2f ms (%s%s)", i ? ";" : " Slowest: token", slowest[i].number,
                (double)step->total_ns / 1e6, figures_is_estimate(step->shared_out, why) ? "probably " : "",
                figures_interval_word(why));
    }
    fputs(n ? "." : "", inspect->out);
}

void inspect_token(struct inspect *inspect, struct inspect_number at, const struct step_token *token,
                   const struct usual *usual)
{
    char text[ITEM], why[WHY_SIZE];
    const struct moe_telemetry *step = token->step;
    spell(inspect, token->id, text);
    fprintf(inspect->out, "Token %" PRIu32 " of %" PRIu32 ": %s\n", at.number, at.count, text);
    print_candidates(inspect, token);
    if (!step)
        return;
    print_time(inspect, step);
    fprintf(inspect->out, "%s\n", why_words(why, step, usual));
    if (step->choices)
        print_experts(inspect, step);
}
