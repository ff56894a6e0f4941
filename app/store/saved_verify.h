// SPDX-License-Identifier: GPL-3.0-or-later
// Compares what a session's files hold with what its manifest names, without a lock: a chat may save meanwhile.
#ifndef MOECHAT_APP_STORE_SAVED_VERIFY_H
#define MOECHAT_APP_STORE_SAVED_VERIFY_H

#include "app/store/saved.h"

struct saved_verdict {
    size_t n_parts, n_records, n_states;
    uint64_t row_bytes, state_bytes; // as the list has them (store.h)
    uint64_t dead_bytes;             // of both, which no branch needs; 0 while somebody has it open, who may be saving
    struct bytes wrong;              // sentences, a 0 behind each; to be released. Empty: all is well
};
// Reads a record back, see moe_record_verify.
typedef int saved_check(const struct moe_record_io *io, const struct moe_record *record, struct moe_err *err);
// What is not as the manifest says is looked at again when another manifest is there by then, a few times.
enum store_code saved_verify(const struct store *store, const char *name, saved_check *check,
                             struct saved_verdict *verdict, struct store_error *error);

#endif
