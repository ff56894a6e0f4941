// SPDX-License-Identifier: GPL-3.0-or-later
// What makes two conversions the same one: the source's files as they are now, and everything that the plan decided.
#ifndef MOECHAT_ENGINE_CONVERT_PLAN_KEY_H
#define MOECHAT_ENGINE_CONVERT_PLAN_KEY_H

#include "engine/convert/plan.h"

// SHA-256 in hex.
int plan_key(const struct plan *plan, char key[65], struct moe_err *err);

#endif
