// SPDX-License-Identifier: GPL-3.0-or-later
// The line that is being edited, as readline draws it. UI thread only; readline is initialised.
#ifndef MOECHAT_APP_TERM_DRAWN_H
#define MOECHAT_APP_TERM_DRAWN_H

// In the place of rl_redisplay, which shows C0 as ^X but hands everything else to the terminal: C1 and what turns or
// hides text is drawn in its visible form (sanitize.h). The line itself stays as it is. What belongs to an emoji is
// left to the terminal.
void drawn_line(void);

#endif
