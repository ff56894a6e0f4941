// SPDX-License-Identifier: GPL-3.0-or-later
// What a manifest says, worked out for sources without one: folders from the hub and GGUF files, whose
// package->checkpoint is open. Each fills fields of the package that were zero; package_release releases them.
#ifndef MOECHAT_ENGINE_FILES_PACKAGE_FACTS_H
#define MOECHAT_ENGINE_FILES_PACKAGE_FACTS_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// For people, and as model.json may have it: the last part of a path, where it is printable, as far as there is room.
void package_name_after(char name[PACKAGE_NAME], const char *path);
// files: the checkpoint's shards, in their order; and n_layers empty layers.
int package_list_files(struct package *package, struct moe_err *err);
// The tokenizer's file in a folder, if there is one.
int package_find_tokenizer(struct package *package, const char *directory, struct moe_err *err);
// What conversations are bound to: SHA-256 over what package->shape has computed with the tensors, and every tensor's
// name, type and size and some bytes from its middle, for there is no checksum and to read all would take minutes. In
// which shard a tensor is does not matter.
int package_take_fingerprint(struct package *package, struct moe_err *err);
// Of a package, whose manifest's fingerprint is that of its files' checksums alone: makes the settings part of it.
int package_bind_settings(struct package *package, struct moe_err *err);

#endif
