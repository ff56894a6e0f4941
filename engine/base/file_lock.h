// SPDX-License-Identifier: GPL-3.0-or-later
// Who may read a model's file while a conversion takes pieces out of it: nobody. Readers share a file (flock), `convert
// --consume` has it alone; both locks last until the descriptor is closed.
#ifndef MOECHAT_ENGINE_BASE_FILE_LOCK_H
#define MOECHAT_ENGINE_BASE_FILE_LOCK_H

#include "engine/moe.h"

// MOE_BAD_ARGUMENT, with the process's number where the system tells it: the file is being consumed (its cause says so
// then), or somebody who is no moechat keeps it locked. A file system without locks is read without: there,
// file_lock_alone fails.
int file_lock_shared(int fd, const char *path, struct moe_err *err);
// MOE_BAD_ARGUMENT likewise: somebody reads or consumes it; MOE_IO: it cannot be locked.
int file_lock_alone(int fd, const char *path, struct moe_err *err);

#endif
