// SPDX-License-Identifier: GPL-3.0-or-later
// The process and its terminal: signals as something to poll for, raw mode, and a terminal that is as it was however we
// end. The only state of the process lives here (and readline's in prompt.c). UI thread only.
#ifndef MOECHAT_APP_TERM_TERM_H
#define MOECHAT_APP_TERM_TERM_H

#include <stdbool.h>
#include <stdint.h>

#include "app/options/talk_settings.h"

// Catches what asks us to end (term_stops), ignores SIGPIPE (writes fail with EPIPE instead); with `interactive` also
// SIGWINCH, SIGTSTP and SIGCONT; without it SIGTSTP stops the process and its clock. Returns a descriptor that is
// readable when a signal has come, -1 on failure. A second SIGQUIT that comes before anybody has looked at the first
// ends the process at once, with the terminal as it was; without `interactive` so do a second SIGINT and, two seconds
// later, SIGTERM and SIGHUP; with it a SIGTERM, SIGHUP or SIGQUIT that is not heeded for five seconds
// (term_stop_heeded), as where a terminal takes no more output; these end it in the background of its terminal, too,
// which stops nothing from then on. What whoever started us ignores stays ignored, here and
// in all of the below.
enum { TERM_STOPS = 4 };
extern const int term_stops[TERM_STOPS]; // SIGINT, SIGTERM, SIGHUP, SIGQUIT
int term_catch_signals(bool interactive);
// Has `signal_number` come since the last call? Never blocks.
bool term_signal_came(int signal_number);
bool term_signal_pending(int signal_number); // the same, without taking note
// What asked us to end, and was taken note of, is being done: it need not be in five seconds.
void term_stop_heeded(void);
// Empties the descriptor; call before asking term_signal_came.
void term_drain(void);
// The exit status that goes with one of term_stops; 0 for anything else.
int term_exit_status(int signal_number);
// What each signal does is once more what it was when they were caught, or what was asked for since: drivers bring
// handlers of their own while they load, which swallow a first SIGQUIT, and SIGABRT before ours restores the terminal.
void term_keep_signals(void);
// While a driver loads: SIGQUIT, which its handlers take and forget, waits for the next term_keep_signals, at most
// term_patience of what is waited for otherwise (in milliseconds; -1: for ever).
void term_hold_quit(void);
void term_let_quit(void); // it is loaded
int term_patience(int wait_ms);
void term_note_signals(void); // what they do before a driver loads, where term_catch_signals comes later or not at all
// Gives term_stops back their usual, deadly meaning.
void term_release_signals(void);
// The same while what there is is saved, but for SIGTERM and SIGHUP: a shell whose terminal closes, and timeout(1),
// send these twice within moments.
void term_hurry_signals(void);

// Remembers the settings that term_restore and a fatal signal bring back: of the first call. False: not a terminal.
bool term_remember(void);
// Keys one by one and unechoed, Enter told from Ctrl-J, no flow control, Ctrl-C still a signal; with `pastes` the
// terminal marks what is pasted. False: not a terminal.
bool term_raw(bool pastes);
// The same with marked pastes, and Ctrl-C, Ctrl-Z and Ctrl-\ are keys like others: a signal would reach all who run in
// the foreground with us, such as a script's shell, which then ends.
bool term_raw_keys(void);
// read(2) of the terminal, by whoever reads keys: an end of a line that waited when it was taken over is Enter, which
// the terminal made a Ctrl-J as it does for lines that it edits itself.
ssize_t term_read(int terminal, char *bytes, size_t size);
int term_signal_of(char key); // that a key would send if it were none: SIGINT, SIGTSTP, SIGQUIT; 0: it is a key
void term_restore(void);      // harmless when nothing was changed, or another has set the terminal since
// What brings a screen that is drawn on back to lines, written before anything else when the terminal is restored, also
// by a fatal signal and at exit. At most 255 bytes count; "": nothing.
void term_set_reset(const char *sequence);
// Stops the process as Ctrl-Z does, with its clock (moe_clock_ns); returns when both go on and the terminal is ours, in
// raw mode again if it was; or as term_await does.
void term_suspend(void);
// Stops the process as long as it is in the background of its terminal, as one that writes its settings there is
// stopped. False: SIGTERM, SIGHUP or SIGQUIT came meanwhile, and the terminal is still another's: leave it alone.
bool term_await(void);
bool term_is_anothers(void); // we are in the background of our terminal

// Ends the process at once, with everything written and the terminal as it was: for when a thread still runs that
// exit() would pull the ground from under. A status of STATUS_DONE becomes a failure if output is lost.
_Noreturn void term_leave(int status);

bool term_size(int *rows, int *columns); // of standard output; false: unknown
// Sides that a full screen has at most: curses counts in shorts, and every cell of it is kept.
enum { TERM_MOST_CELLS = 4096 };
bool term_is_vast(void);      // standard output is a terminal with a longer side than that
int term_columns(void);       // of standard output, 80 when it is no terminal or says nothing
uint64_t term_clock_ms(void); // that keys and frames go by
bool term_is_dumb(void);      // TERM is unset, empty or "dumb"
// False: this terminal has no addressable cursor, or none at all is known by its name.
bool term_is_described(void); // by terminfo
bool term_places_cursor(void);
// Whether standard output is to be coloured, COLOR_AUTO: on a terminal that is not dumb, unless
// NO_COLOR is set.
bool term_wants_color(enum color color);

#endif
