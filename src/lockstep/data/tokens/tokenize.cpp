// Texts to token ids, through the cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/base/log.h"
#include "lockstep/data/files/file_lock.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/data/tokens/token_table.h"

namespace lockstep {
namespace {

// To be changed if equal texts, tokenizer and options give other tokens than before.
constexpr const char* kTokensVersion = "lockstep tokens 1";

constexpr std::int64_t kRowsAtATime = 4096;
constexpr double kLongestWait_s = 365.0 * 24 * 3600;  // the limit of Deadline

class RowEncoder {
 public:
  RowEncoder(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options)
      : rows_(rows), tokenizer_(tokenizer), threads_(options.threads), truncates_(options.truncation) {
    check(options);
    most_tokens_ = options.max_length ? options.max_length : tokenizer.model_max_length();
    encode_.add_special_tokens = options.add_special_tokens;
    if (options.append_eos) eos_ = tokenizer.eos_id();
    if (most_tokens_ && options.truncation) {
      encode_.truncation = Truncation{*most_tokens_ - (eos_ ? 1 : 0), options.strategy, options.truncation_side};
    }
  }

  // Appends all rows to `writer`.
  void write(TokenTableWriter& writer) const {
    for (std::int64_t first = 0; first < rows_.size(); first += kRowsAtATime) {
      std::vector<TextRow> batch;
      for (std::int64_t i = first; i < std::min(first + kRowsAtATime, rows_.size()); ++i) batch.push_back(rows_.get(i));
      std::vector<Encoding> encodings = encode(batch, first);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        finish(encodings[i], first + static_cast<std::int64_t>(i));
        writer.add(encodings[i], batch[i].label);
      }
    }
  }

 private:
  void check(const TokenizeOptions& options) const {
    const auto refuse = [](const std::string& what, const char* fix) { throw Error(what, "tokenize", fix); };
    if (rows_.size() == 0) refuse("there are no rows to tokenize", "give a dataset with rows");
    if (rows_.fields().size() > 2) {
      refuse(fmt::format("rows of {} texts", rows_.fields().size()), "read one column with texts, or two for pairs");
    }
    if (options.max_length && *options.max_length < 1) {
      refuse(fmt::format("max_length {} is not positive", *options.max_length), "give the positions of the model");
    }
    if (!(options.cache_timeout_s > 0)) {
      refuse(fmt::format("cache_timeout_s {} is not positive", options.cache_timeout_s),
             "give the longest wait for another process in seconds");
    }
    if (options.append_eos && !tokenizer_.eos_id()) {
      refuse("an end-of-text token was asked for, but the tokenizer has none", "leave append_eos off");
    }
  }

  std::vector<Encoding> encode(const std::vector<TextRow>& batch, std::int64_t first) const {
    try {
      if (rows_.fields().size() == 1) {
        std::vector<std::string_view> texts;
        for (const TextRow& row : batch) texts.emplace_back(row.texts[0]);
        return tokenizer_.encode_batch(texts, encode_, threads_);
      }
      std::vector<std::pair<std::string_view, std::string_view>> pairs;
      for (const TextRow& row : batch) pairs.emplace_back(row.texts[0], row.texts[1]);
      return tokenizer_.encode_pair_batch(pairs, encode_, threads_);
    } catch (const Error&) {
      for (std::size_t i = 0; i < batch.size(); ++i) encode_one(batch[i], first + static_cast<std::int64_t>(i));
      throw;
    }
  }

  // Adds the row's location to an error that the batch threw without one.
  void encode_one(const TextRow& row, std::int64_t index) const {
    try {
      if (row.texts.size() == 1) {
        tokenizer_.encode(row.texts[0], encode_);
      } else {
        tokenizer_.encode_pair(row.texts[0], row.texts[1], encode_);
      }
    } catch (const Error& error) {
      throw Error(error.happened(), rows_.where(index), error.fix());
    }
  }

  void finish(Encoding& encoding, std::int64_t index) const {
    if (eos_) {
      encoding.ids.push_back(*eos_);
      encoding.token_type_ids.push_back(encoding.token_type_ids.empty() ? 0 : encoding.token_type_ids.back());
    }
    const auto count = static_cast<std::int64_t>(encoding.ids.size());
    if (count == 0) {
      throw Error(fmt::format("the text \"{}\" has no tokens", rows_.fields()[0]), rows_.where(index),
                  "leave rows without text out, or add special tokens");
    }
    if (!most_tokens_ || count <= *most_tokens_) return;
    throw Error(fmt::format("the row has {} tokens, but at most {} are allowed", count, *most_tokens_),
                rows_.where(index),
                truncates_ ? "raise max_length above the number of special tokens"
                           : "set `truncation` to shorten such texts, or raise max_length up to the model's positions");
  }

  const TextDataset& rows_;
  const Tokenizer& tokenizer_;
  int threads_;
  bool truncates_;
  std::optional<std::int64_t> most_tokens_;
  std::optional<TokenId> eos_;
  EncodeOptions encode_;
};

std::string cache_key(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options) {
  Sha256 digest;
  digest.update_sized(kTokensVersion);
  digest.update_sized(rows.digest());
  digest.update_sized(tokenizer.to_json());
  digest.update_number(options.add_special_tokens ? 1 : 0);
  digest.update_number(options.append_eos ? 1 : 0);
  digest.update_number(options.max_length.value_or(tokenizer.model_max_length().value_or(-1)));
  digest.update_number(options.truncation ? 1 : 0);
  digest.update_number(static_cast<int>(options.strategy));
  digest.update_number(static_cast<int>(options.truncation_side.value_or(SequenceSide::Right)));
  return digest.hex();
}

std::string path_of_key(const std::string& dir, const std::string& key) {
  return (std::filesystem::path(dir) / ("tokens-" + key.substr(0, 32) + ".bin")).string();
}

// The table of a file that exists and is complete. @param log_damage  log why an existing file is not used
std::optional<TokenTable> open_cached(const std::string& path, const std::string& key, bool log_damage) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    return TokenTable::open(path, key);
  } catch (const Error& error) {
    if (log_damage) log_warning("{}: {}; making it again", error.where(), error.happened());
    return std::nullopt;
  }
}

TokenTable tokenize_to(const std::string& path, const std::string& key, const RowEncoder& encoder) {
  TokenTableWriter writer(path, key);
  encoder.write(writer);
  return writer.finish();
}

TokenTable tokenize_cached(const std::string& path, const std::string& key, const RowEncoder& encoder,
                           double timeout_s) {
  if (auto cached = open_cached(path, key, /*log_damage=*/false)) return std::move(*cached);
  const auto timeout = std::chrono::duration<double>(std::min(timeout_s, kLongestWait_s));
  const FileLock lock(path + ".lock", Deadline::after(std::chrono::ceil<std::chrono::milliseconds>(timeout)));
  // Another process may have been faster.
  if (auto cached = open_cached(path, key, /*log_damage=*/true)) return std::move(*cached);
  return tokenize_to(path, key, encoder);
}

}  // namespace

std::string token_cache_path(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options) {
  return path_of_key(options.cache_dir, cache_key(rows, tokenizer, options));
}

std::shared_ptr<const TokenizedDataset> tokenize(const TextDataset& rows, const Tokenizer& tokenizer,
                                                 const TokenizeOptions& options) {
  const RowEncoder encoder(rows, tokenizer, options);
  if (options.cache_dir.empty()) return std::make_shared<TokenizedDataset>(tokenize_to("", "", encoder));
  std::error_code error;
  std::filesystem::create_directories(options.cache_dir, error);
  if (error) {
    throw Error("cannot make the folder: " + error.message(), options.cache_dir, "check the path and its permissions");
  }
  const std::string key = cache_key(rows, tokenizer, options);
  const std::string path = path_of_key(options.cache_dir, key);
  return std::make_shared<TokenizedDataset>(tokenize_cached(path, key, encoder, options.cache_timeout_s));
}

}  // namespace lockstep
