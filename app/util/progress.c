// SPDX-License-Identifier: GPL-3.0-or-later
// Shows progress as a line.
#include "app/util/progress.h"

#include <math.h>
#include <string.h>

#include "app/util/format.h"

double progress_seconds_left(const struct moe_progress *at, double seconds)
{
    if (seconds < 1 || !at->done || at->done >= at->total) // before a second it would only flicker
        return -1;
    if (strcmp(at->unit, "steps") == 0 && 2 * at->done < at->total)
        return -1; // they are unlike each other: the first of a device's kernels takes as long as ten of the next
    double share = (double)(at->total - at->done) / (double)at->done;
    return at->seconds_left > 0 ? at->seconds_left : seconds * share;
}

char *progress_bytes(char *out, size_t size, const struct moe_progress *at)
{
    char read[FORMAT_SIZE], left[FORMAT_SIZE];
    *out = 0;
    format_bytes(read, sizeof read, at->bytes_read);
    format_bytes(left, sizeof left, at->bytes_left);
    if (at->bytes_left && at->done < at->total)
        snprintf(out, size, "%s read, about %s to read", read, left);
    else if (at->bytes_read)
        snprintf(out, size, "%s read", read);
    return out;
}

double progress_steady(struct progress_eta *eta, double left, double now)
{
    enum { FOLLOWS = 8 }; // seconds in which it comes nearer by a factor of e
    if (left >= 0 && !eta->known)
        *eta = (struct progress_eta){true, now + left, now};
    else if (left >= 0)
        eta->end += (now + left - eta->end) * (1 - exp((eta->at - now) / FOLLOWS));
    if (left >= 0 && eta->end < now + left / 2)
        eta->end = now + left / 2; // what was quick at first has misled it: it must not stand at nothing meanwhile
    eta->at = now;
    return !eta->known ? -1 : eta->end > now ? eta->end - now : 0;
}

char *progress_words(char *out, size_t size, const struct moe_progress *at, double still)
{
    char done[FORMAT_SIZE], total[FORMAT_SIZE], left[FORMAT_SIZE], rest[FORMAT_SIZE + 8] = "";
    char read[2 * FORMAT_SIZE + 16];
    bool bytes = strcmp(at->unit, "bytes") == 0;
    if (bytes) {
        format_bytes(done, sizeof done, at->done);
        format_bytes(total, sizeof total, at->total);
    } else {
        snprintf(done, sizeof done, "%llu", (unsigned long long)at->done);
        snprintf(total, sizeof total, "%llu %s", (unsigned long long)at->total, at->unit);
    }
    if (still >= 0)
        snprintf(rest, sizeof rest, ", %s left", format_duration(left, sizeof left, still));
    progress_bytes(read, sizeof read, at);
    int first = at->what[0] >= 'a' && at->what[0] <= 'z' ? at->what[0] - 'a' + 'A' : at->what[0];
    snprintf(out, size, "%c%s: %s of %s%s%s%s", first, at->what[0] ? at->what + 1 : "", done, total, *read ? ", " : "",
             read, rest);
    return out;
}

void progress_show(struct progress *progress, const struct moe_progress *at)
{
    if (!progress->out || at->total == 0)
        return;
    uint64_t now = format_clock_ns();
    if (strcmp(progress->what, at->what) != 0) {
        snprintf(progress->what, sizeof progress->what, "%s", at->what);
        progress->began_ns = now;
        progress->eta.known = false;
        progress->shown_ns = now; // what is over in a tenth of a second is never shown
        return;
    }
    double seconds = (double)(now - progress->began_ns) / 1e9;
    double left = progress_steady(&progress->eta, progress_seconds_left(at, seconds), seconds);
    if (now - progress->shown_ns < 100000000 || (progress->plain && progress->columns > 0))
        return;
    progress->shown_ns = now;
    char words[128];
    progress_words(words, sizeof words, at, left);
    int columns = (int)strlen(words);
    if (progress->plain)
        fprintf(progress->out, "%s\n", words);
    else
        fprintf(progress->out, "\r%s%*s", words, columns < progress->columns ? progress->columns - columns : 0, "");
    progress->columns = columns;
    fflush(progress->out);
}

void progress_take(void *progress, const struct moe_progress *at)
{
    progress_show(progress, at);
}

void progress_clear(struct progress *progress)
{
    if (progress->out && progress->columns > 0 && !progress->plain) {
        fprintf(progress->out, "\r%*s\r", progress->columns, "");
        fflush(progress->out);
    }
    progress->columns = 0;
    progress->what[0] = 0;
}
