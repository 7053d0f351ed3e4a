#include "lockstep/data/text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/data/text/tokenizer_core.h"

namespace lockstep {
namespace {

/// Texts that a thread takes at a time: enough to make taking them cheap, few enough to divide the work evenly.
constexpr std::size_t kTextsAtATime = 32;

constexpr std::int64_t kLongestPadding = std::int64_t{1} << 31;

/// Runs `encode_one(i, scratch)` for each i below `count` on several threads. If several fail, the exception of the
/// lowest i is thrown.
void for_each_text(const text::TokenizerCore& core, std::size_t count, int threads,
                   const std::function<void(std::size_t, text::EncoderScratch&)>& encode_one) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed_at{count};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    const text::TokenizerCore::Lease lease(core);
    for (std::size_t first; (first = next.fetch_add(kTextsAtATime)) < count;) {
      for (std::size_t i = first; i < std::min(first + kTextsAtATime, count); ++i) {
        if (i > failed_at.load()) return;
        try {
          encode_one(i, lease.scratch());
        } catch (...) {
          const std::lock_guard<std::mutex> lock(mutex);
          if (i < failed_at.load()) {
            failed_at = i;
            failure = std::current_exception();
          }
          return;
        }
      }
    }
  };
  const std::size_t useful = (count + kTextsAtATime - 1) / kTextsAtATime;
  const std::size_t wanted = static_cast<std::size_t>(threads > 0 ? threads : available_cores());
  std::vector<std::thread> others;
  struct JoinAll {
    std::vector<std::thread>& threads;
    ~JoinAll() {
      for (std::thread& thread : threads) thread.join();
    }
  };
  {
    const JoinAll join{others};
    for (std::size_t i = 1; i < std::min(wanted, useful); ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

[[noreturn]] void rethrow_for_text(const Error& error, std::size_t index) {
  throw Error(error.happened(), error.where() + ", text " + std::to_string(index) + " of the batch", error.fix());
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const text::TokenizerCore> core)
    : core_(std::move(core)),
      special_(core_->document().special),
      model_max_length_(core_->document().model_max_length) {
  defaults_.truncation = core_->truncation();
  if (core_->padding()) defaults_.padding = core_->padding()->padding;
}

SequenceSide Tokenizer::truncation_side() const {
  if (const auto& declared = core_->document().truncation_side) return *declared;
  if (const auto& truncation = core_->truncation(); truncation && truncation->side) return *truncation->side;
  return SequenceSide::Right;
}

EncodeOptions Tokenizer::completed(EncodeOptions options) const {
  if (options.truncation && !options.truncation->side) options.truncation->side = truncation_side();
  return options;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& asked) const {
  const EncodeOptions options = completed(asked);
  Encoding encoding;
  {
    const text::TokenizerCore::Lease lease(*core_);
    encoding = core_->encode(text, nullptr, options, lease.scratch());
  }
  pad(options, &encoding, 1);
  return encoding;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, const EncodeOptions& asked) const {
  const EncodeOptions options = completed(asked);
  Encoding encoding;
  {
    const text::TokenizerCore::Lease lease(*core_);
    encoding = core_->encode(first, &second, options, lease.scratch());
  }
  pad(options, &encoding, 1);
  return encoding;
}

std::vector<Encoding> Tokenizer::encode_batch(const std::vector<std::string_view>& texts, const EncodeOptions& asked,
                                              int threads) const {
  const EncodeOptions options = completed(asked);
  std::vector<Encoding> encodings(texts.size());
  for_each_text(*core_, texts.size(), threads, [&](std::size_t i, text::EncoderScratch& scratch) {
    try {
      encodings[i] = core_->encode(texts[i], nullptr, options, scratch);
    } catch (const Error& error) {
      rethrow_for_text(error, i);
    }
  });
  pad(options, encodings.data(), encodings.size());
  return encodings;
}

std::vector<Encoding> Tokenizer::encode_pair_batch(
    const std::vector<std::pair<std::string_view, std::string_view>>& pairs, const EncodeOptions& asked,
    int threads) const {
  const EncodeOptions options = completed(asked);
  std::vector<Encoding> encodings(pairs.size());
  for_each_text(*core_, pairs.size(), threads, [&](std::size_t i, text::EncoderScratch& scratch) {
    try {
      encodings[i] = core_->encode(pairs[i].first, &pairs[i].second, options, scratch);
    } catch (const Error& error) {
      rethrow_for_text(error, i);
    }
  });
  pad(options, encodings.data(), encodings.size());
  return encodings;
}

void Tokenizer::pad(const EncodeOptions& options, Encoding* encodings, std::size_t count) const {
  if (!options.padding) return;
  const Padding& padding = *options.padding;
  if (padding.max_length < 0 || padding.multiple_of < 0 || padding.max_length >= kLongestPadding ||
      padding.multiple_of >= kLongestPadding) {
    throw Error("cannot pad to max_length " + std::to_string(padding.max_length) + ", multiple_of " +
                    std::to_string(padding.multiple_of),
                "tokenizer", "give lengths from 0 to 2^31 - 1");
  }
  text::PadToken token;
  if (core_->padding() && !special_.pad) {
    token = core_->padding()->token;
  } else if (const auto id = pad_id()) {
    token.id = *id;
    if (core_->padding()) token.type_id = core_->padding()->token.type_id;
  } else {
    throw Error("padding is asked for, but the tokenizer has no padding token", "tokenizer",
                "call set_pad_token first; GPT-2 is usually padded with \"<|endoftext|>\"");
  }
  text::pad(padding, token, options.offsets, encodings, count);
}

void Tokenizer::append_ids(std::string_view text, std::vector<TokenId>& ids) const {
  const text::TokenizerCore::Lease lease(*core_);
  text::EncoderScratch& scratch = lease.scratch();
  scratch.ids.clear();
  scratch.spans.clear();
  core_->append(text, false, scratch);
  ids.insert(ids.end(), scratch.ids.data(), scratch.ids.data() + scratch.ids.size());
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids, const DecodeOptions& options) const {
  return core_->decode(ids, options);
}

std::int64_t Tokenizer::vocab_size() const { return core_->id_limit(); }

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  return find_token(core_->document(), std::string(token));
}

std::string Tokenizer::id_to_token(TokenId id) const {
  if (const std::string* token = core_->token(id)) return *token;
  throw Error("id " + std::to_string(id) + " is not in the vocabulary, whose ids end at " +
                  std::to_string(core_->id_limit() - 1),
              "tokenizer", "use ids of this tokenizer");
}

std::optional<TokenId> Tokenizer::id_of(const std::optional<std::string>& token) const {
  return token ? token_to_id(*token) : std::nullopt;
}

void Tokenizer::set_pad_token(const std::string& token) {
  if (!token_to_id(token)) {
    throw Error("the padding token '" + token + "' is not in the vocabulary", "tokenizer",
                "name a token that the vocabulary has");
  }
  special_.pad = token;
}

void Tokenizer::set_model_max_length(std::int64_t tokens) {
  if (tokens < 1) {
    throw Error("model_max_length " + std::to_string(tokens), "tokenizer", "give a positive number of tokens");
  }
  model_max_length_ = tokens;
}

namespace text {

Tokenizer make_tokenizer(TokenizerDocument document) { return TokenizerCore::make_tokenizer(std::move(document)); }

}  // namespace text
}  // namespace lockstep
