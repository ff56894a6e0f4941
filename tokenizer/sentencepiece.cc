// SPDX-License-Identifier: GPL-3.0-or-later
// The SentencePiece library behind C functions.
#include "tokenizer/sentencepiece.h"

#include <exception>
#include <memory>
#include <new>
#include <vector>

#include <sentencepiece_processor.h>

#include "tokenizer/tok_err.h"

struct pieces {
    sentencepiece::SentencePieceProcessor processor;
};

int sentencepiece_open(const char *file, size_t length, const char *path, struct pieces **pieces, struct tok_err *err)
{
    try {
        std::unique_ptr<struct pieces> made(new struct pieces);
        auto status = made->processor.LoadFromSerializedProto(absl::string_view(file, length));
        if (!status.ok())
            return tok_fail(err, TOK_FORMAT, "%.300s: damaged SentencePiece model (%.100s): fetch the file again", path,
                            status.message());
        *pieces = made.release();
        return TOK_OK;
    } catch (const std::bad_alloc &) {
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    } catch (const std::exception &thrown) {
        return tok_fail(err, TOK_FORMAT, "%.300s: damaged SentencePiece model (%.100s): fetch the file again", path,
                        thrown.what());
    }
}

void sentencepiece_close(struct pieces *pieces)
{
    delete pieces;
}

uint32_t sentencepiece_vocab_size(const struct pieces *pieces)
{
    return static_cast<uint32_t>(pieces->processor.GetPieceSize());
}

int sentencepiece_encode(const struct pieces *pieces, const char *text, size_t length, struct tok_ids *list,
                         struct tok_err *err)
{
    try {
        std::vector<int> ids;
        auto status = pieces->processor.Encode(absl::string_view(text, length), &ids);
        if (!status.ok())
            return tok_fail(err, TOK_FORMAT, "SentencePiece could not encode the text: %.200s", status.message());
        size_t before = list->count;
        for (int id : ids) {
            int failed = tok_ids_append(list, id, err);
            if (failed) {
                list->count = before;
                return failed;
            }
        }
        return TOK_OK;
    } catch (const std::bad_alloc &) {
        return tok_fail(err, TOK_NO_MEMORY, "out of memory for a text of %zu bytes", length);
    } catch (const std::exception &thrown) {
        return tok_fail(err, TOK_FORMAT, "SentencePiece could not encode the text: %.200s", thrown.what());
    }
}
