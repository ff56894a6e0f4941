// SPDX-License-Identifier: GPL-3.0-or-later
// Writes --predict-log.
#include "app/driver/predict_log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "app/driver/backend.h"
#include "app/util/report.h"

static const char *const names[MOE_PREDICTORS] = {"previous", "router", "router-shared"};

enum { LINE_BYTES = 2048 };

// How a log begins: with a token's line, or that of the sums of none.
static const char token[] = "{\"position\":", no_tokens[] = "{\"tokens\":0,\"previous\":";

// A slip of the hand: the path of a model, or of any other file that is none of ours.
static bool holds_other(const char *path)
{
    struct stat about;
    char begin[sizeof no_tokens] = "";
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return false;
    FILE *file = fopen(path, "re");
    bool other = !file || !fgets(begin, sizeof begin, file) ||
                 (strncmp(begin, token, strlen(token)) != 0 && strcmp(begin, no_tokens) != 0);
    if (file)
        fclose(file);
    return other;
}

int predict_log_open(struct predict_log *log, const char *path, struct moe_err *err)
{
    *log = (struct predict_log){0};
    if (holds_other(path))
        return backend_fail(err, MOE_IO,
                            "%.300s: holds something that is no log of predictions; remove it, or name another file",
                            path);
    *log = (struct predict_log){.out = fopen(path, "we")};
    if (!log->out)
        return backend_fail(err, MOE_IO, "%.300s: %s", path, strerror(errno));
    setvbuf(log->out, NULL, _IOLBF, LINE_BYTES); // whole lines for who follows it, and where the process is killed
    return 0;
}

static void print(FILE *out, const struct moe_prediction *predictions)
{
    for (int i = 0; i < MOE_PREDICTORS; i++) {
        const struct moe_prediction *p = &predictions[i];
        fprintf(out,
                ",\"%s\":{\"predicted\":%" PRIu32 ",\"right\":%" PRIu32 ",\"accuracy\":%.4f,\"useful\":%" PRIu32
                ",\"late\":%" PRIu32 ",\"wasted_bytes\":%" PRIu64 "}",
                names[i], p->predicted, p->right, p->predicted ? (double)p->right / p->predicted : 0, p->useful,
                p->late, p->wasted_bytes);
    }
    fputs("}\n", out);
}

void predict_log_take(void *context, uint32_t position, const struct moe_prediction *predictions)
{
    struct predict_log *log = context;
    log->tokens++;
    for (int i = 0; i < MOE_PREDICTORS; i++) {
        log->sums[i].predicted += predictions[i].predicted;
        log->sums[i].right += predictions[i].right;
        log->sums[i].useful += predictions[i].useful;
        log->sums[i].late += predictions[i].late;
        log->sums[i].wasted_bytes += predictions[i].wasted_bytes;
    }
    fprintf(log->out, "%s%" PRIu32, token, position);
    print(log->out, predictions);
}

bool predict_log_close(struct predict_log *log)
{
    if (!log->out)
        return true;
    fprintf(log->out, "{\"tokens\":%" PRIu64, log->tokens);
    print(log->out, log->sums);
    bool written = !ferror(log->out);
    written &= fclose(log->out) == 0;
    if (!written)
        report("cannot write the prediction log: %s", strerror(errno));
    log->out = NULL;
    return written;
}
