// SPDX-License-Identifier: GPL-3.0-or-later
// --predict-log: how every predictor of experts would have done, a JSON line a token and one of sums at the end. Under
// its name from the beginning, with whole lines at any time.
#ifndef MOECHAT_APP_DRIVER_PREDICT_LOG_H
#define MOECHAT_APP_DRIVER_PREDICT_LOG_H

#include <stdio.h>

#include "engine/moe.h"

struct predict_log {
    FILE *out;
    uint64_t tokens;
    struct moe_prediction sums[MOE_PREDICTORS];
};
int predict_log_open(struct predict_log *log, const char *path, struct moe_err *err);
void predict_log_take(void *log, uint32_t position, const struct moe_prediction *predictions); // a moe_predictions_fn
// False, and said on standard error: something was not written. Zeros and NULL files are fine.
bool predict_log_close(struct predict_log *log);

#endif
