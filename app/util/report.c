// SPDX-License-Identifier: GPL-3.0-or-later
// Writes to standard error: sentences with escapes made visible, progress on one line.
#include "app/util/report.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "app/util/format.h"
#include "app/util/sanitize.h"

void report_text(FILE *out, const char *text, size_t length)
{
    struct sanitize state = {0};
    char shown[SANITIZE_ROOM(256)];
    for (size_t at = 0; at < length; at += 256) {
        size_t part = length - at < 256 ? length - at : 256;
        fwrite(shown, 1, sanitize_push(&state, text + at, part, shown), out);
    }
    fwrite(shown, 1, sanitize_flush(&state, shown), out);
}

void report(const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    fputs("moechat: ", stderr);
    report_text(stderr, text, strlen(text));
    fputc('\n', stderr);
}

char *progress_words(char *out, size_t size, const struct progress_figures *figures)
{
    char done[FORMAT_SIZE], total[FORMAT_SIZE], left[FORMAT_SIZE], rest[FORMAT_SIZE + 8] = "";
    char size_read[FORMAT_SIZE], read[FORMAT_SIZE + 8] = "";
    bool bytes = strcmp(figures->unit, "bytes") == 0;
    if (bytes) {
        format_bytes(done, sizeof done, figures->done);
        format_bytes(total, sizeof total, figures->total);
    } else {
        snprintf(done, sizeof done, "%llu", (unsigned long long)figures->done);
        snprintf(total, sizeof total, "%llu %s", (unsigned long long)figures->total, figures->unit);
    }
    // Before half a second an estimate would only flicker.
    if (figures->seconds >= 0.5 && figures->done > 0 && figures->done < figures->total) {
        double share = (double)(figures->total - figures->done) / (double)figures->done;
        double seconds = figures->seconds_left > 0 ? figures->seconds_left : figures->seconds * share;
        snprintf(rest, sizeof rest, ", %s left", format_duration(left, sizeof left, seconds));
    }
    if (figures->bytes_read)
        snprintf(read, sizeof read, ", %s read", format_bytes(size_read, sizeof size_read, figures->bytes_read));
    int first = figures->what[0] >= 'a' && figures->what[0] <= 'z' ? figures->what[0] - 'a' + 'A' : figures->what[0];
    snprintf(out, size, "%c%s: %s of %s%s%s", first, figures->what[0] ? figures->what + 1 : "", done, total, read,
             rest);
    return out;
}

void progress_show_figures(struct progress *progress, const struct progress_figures *figures)
{
    if (!progress->out || figures->total == 0)
        return;
    uint64_t now = format_clock_ns();
    if (strcmp(progress->what, figures->what) != 0) {
        snprintf(progress->what, sizeof progress->what, "%s", figures->what);
        progress->began_ns = now;
        progress->shown_ns = now; // what is over in a tenth of a second is never shown
        return;
    }
    if (now - progress->shown_ns < 100000000 || (progress->plain && progress->columns > 0))
        return;
    progress->shown_ns = now;
    char words[128];
    struct progress_figures timed = *figures;
    timed.seconds = (double)(now - progress->began_ns) / 1e9;
    progress_words(words, sizeof words, &timed);
    int columns = (int)strlen(words);
    if (progress->plain)
        fprintf(progress->out, "%s\n", words);
    else
        fprintf(progress->out, "\r%s%*s", words, columns < progress->columns ? progress->columns - columns : 0, "");
    progress->columns = columns;
    fflush(progress->out);
}

void progress_show(struct progress *progress, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    progress_show_figures(progress,
                          &(struct progress_figures){.what = what, .unit = unit, .done = done, .total = total});
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
