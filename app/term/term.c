// SPDX-License-Identifier: GPL-3.0-or-later
// Signals, and the terminal's settings.
#include "app/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <ncursesw/curses.h>
#include <ncursesw/term.h>
#undef columns // a macro of the latter

#include "app/util/report.h"

enum { N_SIGNALS = 65, LOOK_SECONDS = 5, TICK_MS = 50 };

static struct {
    volatile sig_atomic_t came[N_SIGNALS];
    volatile time_t came_at;     // the last that was the first of its kind, in seconds
    volatile sig_atomic_t asked; // the last of those that end us after LOOK_SECONDS
    int pipe[2];
    bool interactive;
    bool saved; // `original` holds what the terminal was
    volatile sig_atomic_t is_raw, takes_pastes;
    bool keys;        // no key is a signal
    bool taken;       // it was raw before, or is
    size_t early;     // bytes that waited then, and are not read yet
    bool never_stops; // who started us ignores SIGTSTP
    bool holds_quit;
    struct termios original, ours; // ours: while it is raw
    // What term_keep_signals brings back.
    struct sigaction kept[N_SIGNALS];
    bool keeps[N_SIGNALS];
    char reset[256];
    volatile sig_atomic_t reset_length;
} term = {.pipe = {-1, -1}};

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

const int term_stops[TERM_STOPS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void leave_raw(int when);

// Nobody looked at the signal: we may hang.
static void end_by(int number)
{
    if (term.is_raw)
        leave_raw(TCSANOW);
    signal(number, SIG_DFL);
    raise(number);
}

static void on_alarm(int number)
{
    (void)number;
    end_by(term.asked);
}

static void on_signal(int number)
{
    int kept = errno;
    bool again = term.came[number];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    // timeout(1) tells the process and then its group.
    if (again && (number == SIGQUIT || (!term.interactive && (number == SIGINT || now.tv_sec - term.came_at > 1))))
        end_by(number);
    if (!again)
        term.came_at = now.tv_sec;
    term.came[number] = 1;
    if (term.interactive && (number == SIGTERM || number == SIGHUP || number == SIGQUIT)) {
        term.asked = number;
        alarm(LOOK_SECONDS);
        signal(SIGTTIN, SIG_IGN); // we end in the background of a terminal, too
        signal(SIGTTOU, SIG_IGN);
    }
    if (write(term.pipe[1], "", 1) < 0) {
        // Full: a wake-up is on its way already.
    }
    errno = kept;
}

// Nobody stops for us: in here the process stops, and the clock with it.
static void on_stop(int number)
{
    int kept = errno;
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, number);
    signal(number, SIG_DFL);
    moe_clock_stop();
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &stop, &before);
    moe_clock_go_on();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &term.kept[number], NULL);
    errno = kept;
}

static void catch_with(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    term.kept[number] = action;
    term.keeps[number] = true;
}

// Those that end a process with a fault, or a wish to see one.
static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGSYS, SIGTRAP};
enum { N_FATAL = sizeof fatal / sizeof fatal[0] };

static void mask_quit(int how)
{
    sigset_t quit;
    sigemptyset(&quit);
    sigaddset(&quit, SIGQUIT);
    pthread_sigmask(how, &quit, NULL);
}

void term_keep_signals(void)
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (term.keeps[i])
            sigaction(i, &term.kept[i], NULL);
    if (!term.holds_quit)
        return;
    mask_quit(SIG_UNBLOCK); // it is heeded here
    mask_quit(SIG_BLOCK);
}

void term_hold_quit(void)
{
    term.holds_quit = true;
    mask_quit(SIG_BLOCK);
}

void term_let_quit(void)
{
    term_keep_signals();
    term.holds_quit = false;
    mask_quit(SIG_UNBLOCK);
}

int term_patience(int wait_ms)
{
    return term.holds_quit && (wait_ms < 0 || wait_ms > TICK_MS) ? TICK_MS : wait_ms;
}

static bool in_background(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);
    return group >= 0 && group != getpgrp();
}

// Or what whoever has the terminal now made of it: shells set their own when a job stops.
static bool has_our_settings(void)
{
    struct termios now;
    const struct termios *ours = &term.ours;
    return tcgetattr(STDIN_FILENO, &now) == 0 && now.c_iflag == ours->c_iflag && now.c_oflag == ours->c_oflag &&
           now.c_lflag == ours->c_lflag && memcmp(now.c_cc, ours->c_cc, sizeof now.c_cc) == 0;
}

// Only calls that a signal handler may make. A terminal that takes nothing is not waited for, nor one that is
// another's.
static void leave_raw(int when)
{
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &stop, &before); // else it would stop us in the background
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1) {
        when = TCSANOW;
        term.reset_length = term.takes_pastes = 0;
    }
    if (term.reset_length && write(STDOUT_FILENO, term.reset, (size_t)term.reset_length) < 0) {
        // The terminal is gone; nothing to tell it.
    }
    if (term.takes_pastes && write(STDOUT_FILENO, paste_off, sizeof paste_off - 1) < 0) {
        // As above.
    }
    if (!in_background() || has_our_settings())
        tcsetattr(STDIN_FILENO, when, &term.original);
    term.takes_pastes = 0;
    term.reset_length = 0;
    term.is_raw = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_fatal(int number)
{
    if (term.is_raw)
        leave_raw(TCSANOW);
    raise(number); // SA_RESETHAND has brought the usual end back
}

// What it does, if nobody noted that yet.
static void note(int number)
{
    if (!term.keeps[number])
        term.keeps[number] = sigaction(number, NULL, &term.kept[number]) == 0;
}

// By who started us, as nohup, background jobs of old shells and trap '' do; it stays so.
static bool is_ignored(int number)
{
    note(number);
    return term.keeps[number] && term.kept[number].sa_handler == SIG_IGN;
}

void term_note_signals(void)
{
    for (int i = 0; i < N_FATAL; i++)
        note(fatal[i]);
}

// Whoever started us may have left some blocked, or its children's ends ignored, which nobody could wait for then.
static void take_signals(const int *ours, size_t count)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    for (size_t i = 0; i < count; i++)
        sigaddset(&wanted, ours[i]);
    sigaddset(&wanted, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
    signal(SIGCHLD, SIG_DFL);
}

int term_catch_signals(bool interactive)
{
    term.interactive = interactive;
    if (pipe(term.pipe) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(term.pipe[i], F_SETFD, FD_CLOEXEC);
        fcntl(term.pipe[i], F_SETFL, O_NONBLOCK);
    }
    term_note_signals();
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
    for (size_t i = 0; i < (interactive ? 7u : 4u); i++) {
        if (!is_ignored(ours[i]))
            // A chat waits in poll, which ends all the same; its writes must not end half-way. run's reads must end.
            catch_with(ours[i], on_signal, interactive ? SA_RESTART : 0);
        else if (ours[i] == SIGTSTP)
            term.never_stops = true;
    }
    struct sigaction stop;
    if (!interactive && sigaction(SIGTSTP, NULL, &stop) == 0 && stop.sa_handler != SIG_IGN)
        catch_with(SIGTSTP, on_stop, SA_RESTART);
    if (interactive)
        catch_with(SIGALRM, on_alarm, SA_RESTART);
    catch_with(SIGPIPE, SIG_IGN, 0);
    take_signals(ours, sizeof ours / sizeof ours[0]);
    return term.pipe[0];
}

void term_drain(void)
{
    char bytes[64];
    while (read(term.pipe[0], bytes, sizeof bytes) > 0) {
    }
}

bool term_signal_came(int signal_number)
{
    if (!term_signal_pending(signal_number))
        return false;
    term.came[signal_number] = 0;
    return true;
}

bool term_signal_pending(int signal_number)
{
    return term.came[signal_number];
}

void term_stop_heeded(void)
{
    if (term.asked && !term.came[term.asked])
        alarm(0);
}

int term_exit_status(int signal_number)
{
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (signal_number == term_stops[i])
            return 128 + signal_number;
    return 0;
}

static void release_signal(int number)
{
    bool restores = number == SIGQUIT && term.is_raw;
    if (!is_ignored(number))
        catch_with(number, restores ? on_fatal : SIG_DFL, restores ? (int)SA_RESETHAND : 0);
}

void term_release_signals(void)
{
    term_let_quit();
    for (size_t i = 0; i < TERM_STOPS; i++)
        release_signal(term_stops[i]);
}

void term_hurry_signals(void)
{
    term_let_quit();
    catch_with(SIGTERM, SIG_IGN, 0); // at no moment deadly: the second may come at any
    catch_with(SIGHUP, SIG_IGN, 0);
    release_signal(SIGINT);
    release_signal(SIGQUIT);
    alarm(0); // one more may have come just before
}

static bool set_raw(bool pastes)
{
    struct termios raw = term.original;
    raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IXON | IXOFF);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_lflag |= NOFLSH; // Ctrl-C stops an answer and keeps what was typed meanwhile
    if (term.keys)
        raw.c_lflag &= ~(tcflag_t)ISIG;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) // what is on its way out is none of it; after Ctrl-S it would wait
        return false;
    tcgetattr(STDIN_FILENO, &term.ours);
    int waits;
    if (!term.taken && term.original.c_iflag & ICRNL && ioctl(STDIN_FILENO, FIONREAD, &waits) == 0)
        term.early = (size_t)waits;
    term.taken = true;
    term.is_raw = 1;
    term.takes_pastes = pastes && !term_is_dumb() && write(STDOUT_FILENO, paste_on, sizeof paste_on - 1) > 0;
    return true;
}

bool term_remember(void)
{
    if (term.saved)
        return true;
    if (tcgetattr(STDIN_FILENO, &term.original) != 0)
        return false;
    term.saved = true;
    atexit(term_restore);
    for (int i = 0; i < N_FATAL; i++)
        // A first SIGQUIT only asks.
        if (!is_ignored(fatal[i]) && term.kept[fatal[i]].sa_handler != on_signal)
            catch_with(fatal[i], on_fatal, (int)SA_RESETHAND);
    return true;
}

ssize_t term_read(int terminal, char *bytes, size_t size)
{
    ssize_t got = read(terminal, bytes, size);
    for (ssize_t i = 0; i < got && term.early > 0; i++, term.early--)
        if (bytes[i] == '\n')
            bytes[i] = '\r';
    return got;
}

int term_signal_of(char key)
{
    static const struct {
        int control, number;
    } signals[] = {{VINTR, SIGINT}, {VSUSP, SIGTSTP}, {VQUIT, SIGQUIT}};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0] && term.keys && term.is_raw; i++) {
        cc_t sends = term.original.c_cc[signals[i].control];
        if (sends != _POSIX_VDISABLE && sends == (cc_t)key)
            return signals[i].number;
    }
    return 0;
}

void term_restore(void)
{
    if (term.is_raw)
        leave_raw(TCSADRAIN);
}

void term_leave(int status)
{
    status = report_flush(status);
    fflush(stderr);
    term_restore();
    _exit(status);
}

void term_set_reset(const char *sequence)
{
    size_t length = strlen(sequence);
    if (length >= sizeof term.reset)
        length = sizeof term.reset - 1;
    term.reset_length = 0;
    memcpy(term.reset, sequence, length);
    term.reset_length = (sig_atomic_t)length;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_asked_to_end(void)
{
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (term_stops[i] != SIGINT && term_signal_pending(term_stops[i]))
            return true;
    return false;
}

bool term_is_anothers(void)
{
    return in_background();
}

// Whoever ends us sends SIGCONT after it, as timeout(1) does, and only once: coming between a look at what was asked
// and the stop, it would find us running, and nobody would wake us then. So the stop is asked for first, and held:
// SIGCONT takes it back.
static void stop_unless_asked_to_end(void)
{
    sigset_t held, before, pending;
    sigemptyset(&held);
    sigaddset(&held, SIGTTOU);
    for (size_t i = 0; i < TERM_STOPS; i++)
        sigaddset(&held, term_stops[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    kill(0, SIGTTOU);
    bool ends = is_asked_to_end();
    sigpending(&pending);
    for (size_t i = 0; i < TERM_STOPS; i++)
        ends |= term_stops[i] != SIGINT && sigismember(&pending, term_stops[i]) == 1;
    if (ends)
        signal(SIGTTOU, SIG_IGN); // forgets the one that is held
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool term_await(void)
{
    while (in_background()) {
        if (is_asked_to_end())
            return false;
        term.came[SIGCONT] = 0;
        moe_clock_stop();
        stop_unless_asked_to_end();
        moe_clock_go_on();
        if (!term_signal_pending(SIGCONT))
            poll(NULL, 0, TICK_MS); // another thread may take it
        if (!term_signal_pending(SIGCONT))
            return !is_asked_to_end(); // nothing stops us, as where no shell would continue us: reading will tell
    }
    return true;
}

static bool take_raw(bool keys, bool pastes)
{
    term.keys = keys;
    if (!term_remember())
        return false;
    if (term.is_raw)
        return true;
    term_await(); // else setting it stops us, in a way that whoever ends us may miss
    return set_raw(pastes);
}

bool term_raw(bool pastes)
{
    return take_raw(false, pastes);
}

bool term_raw_keys(void)
{
    return take_raw(true, true);
}

void term_suspend(void)
{
    bool was_raw = term.is_raw, pastes = term.takes_pastes;
    if (term.never_stops)
        return;
    term_restore();
    catch_with(SIGTSTP, SIG_DFL, 0);
    moe_clock_stop();
    kill(0, SIGTSTP); // as the terminal does: a script's shell that waits for us stops, too, and its job is seen to
    moe_clock_go_on();
    catch_with(SIGTSTP, on_signal, 0);
    if (term_await() && was_raw)
        set_raw(pastes);
}

bool term_size(int *rows, int *columns)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
        return false;
    *rows = size.ws_row;
    *columns = size.ws_col;
    return true;
}

bool term_is_vast(void)
{
    int rows, columns;
    return term_size(&rows, &columns) && (rows > TERM_MOST_CELLS || columns > TERM_MOST_CELLS);
}

int term_columns(void)
{
    int rows, columns;
    return term_size(&rows, &columns) ? columns : 80;
}

uint64_t term_clock_ms(void)
{
    return clock_ns() / 1000000;
}

bool term_is_dumb(void)
{
    const char *name = getenv("TERM");
    return !name || !*name || strcmp(name, "dumb") == 0;
}

bool term_is_described(void)
{
    char *name = getenv("TERM");
    int error;
    if (!name || setupterm(name, STDOUT_FILENO, &error) != OK)
        return false;
    del_curterm(cur_term);
    return true;
}

bool term_places_cursor(void)
{
    char *name = getenv("TERM");
    int error;
    if (!name || setupterm(name, STDOUT_FILENO, &error) != OK)
        return false;
    char wanted[] = "cup"; // newterm would not ask for it
    const char *move = tigetstr(wanted);
    bool possible = move && move != (const char *)-1;
    del_curterm(cur_term);
    return possible;
}

bool term_wants_color(enum color color)
{
    const char *no_color = getenv("NO_COLOR");
    if (color != COLOR_AUTO)
        return color == COLOR_ALWAYS;
    return isatty(STDOUT_FILENO) && !term_is_dumb() && !(no_color && *no_color);
}
