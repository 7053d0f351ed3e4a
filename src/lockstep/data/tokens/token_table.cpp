#include "lockstep/data/tokens/token_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The file consists of the tokens, padded to 8 bytes, the samples' ends, the labels if there are any, and this struct.
// Everything is in the machine's byte order, which the magic number shows.
struct TokenFileEnd {
  std::uint64_t magic;
  std::uint64_t num_samples;
  std::uint64_t num_tokens;
  std::uint64_t flags;
  std::array<char, 64> key;     // hexadecimal
  std::array<char, 64> digest;  // of everything before it, hexadecimal
};
static_assert(sizeof(TokenFileEnd) == 160);

constexpr std::uint64_t kTokenFileMagic = 0x31304c4254534b4c;  // changes with the layout
constexpr std::uint64_t kLabelsFlag = 1;
constexpr std::uint64_t kTypesFlag = 2;
constexpr std::size_t kFlushTokens = std::size_t{1} << 18;

template <typename T>
std::string_view bytes_of(const T* first, std::size_t count) {
  return {reinterpret_cast<const char*>(first), count * sizeof(T)};
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error("the token file " + what, path, "delete it: it is made again from the texts");
}

std::array<char, 64> hex_digits(const std::string& hex) {
  std::array<char, 64> digits{};
  std::copy_n(hex.begin(), std::min(hex.size(), digits.size()), digits.begin());
  return digits;
}

// Bytes of the sections before the end; nothing if the struct does not describe a valid size.
std::optional<std::size_t> body_bytes(const TokenFileEnd& end, std::size_t file_bytes) {
  const std::uint64_t most = file_bytes / sizeof(std::uint32_t);
  if (end.num_tokens > most || end.num_samples > most || end.flags > (kLabelsFlag | kTypesFlag)) return std::nullopt;
  const std::uint64_t columns = end.flags & kLabelsFlag ? 2 : 1;
  return (end.num_tokens + 1) / 2 * 8 + end.num_samples * columns * 8;
}

}  // namespace

TokenTable::Sample TokenTable::sample(std::int64_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  const std::uint64_t end = ends_[index];
  require_whole();
  return {tokens_ + begin, static_cast<std::int64_t>(end - begin)};
}

TokenTable TokenTable::open(const std::string& path, const std::string& key) {
  auto file = std::make_shared<FileBytes>(FileBytes::open_raw(path));
  const std::string_view all = file->view();
  TokenFileEnd end{};
  if (all.size() < sizeof end) damaged(path, fmt::format("has {} bytes, too few", all.size()));
  const std::string_view body = all.substr(0, all.size() - sizeof end);
  std::memcpy(&end, all.data() + body.size(), sizeof end);
  if (end.magic != kTokenFileMagic) damaged(path, "is not a token file of this version, or was cut short");
  if (body_bytes(end, all.size()) != body.size()) damaged(path, "has other sizes than it says");
  if (end.key != hex_digits(key)) damaged(path, "is of other texts, another tokenizer or other options");
  if (end.digest != hex_digits(sha256_hex(all.substr(0, all.size() - sizeof end.digest)))) {
    damaged(path, "was altered since it was written");
  }
  TokenTable table;
  table.size_ = static_cast<std::int64_t>(end.num_samples);
  table.num_tokens_ = static_cast<std::int64_t>(end.num_tokens);
  table.has_token_types_ = (end.flags & kTypesFlag) != 0;
  table.tokens_ = reinterpret_cast<const std::uint32_t*>(body.data());
  table.ends_ = reinterpret_cast<const std::uint64_t*>(body.data() + (end.num_tokens + 1) / 2 * 8);
  if ((end.flags & kLabelsFlag) != 0) {
    table.labels_ = reinterpret_cast<const std::int64_t*>(table.ends_ + end.num_samples);
  }
  for (std::uint64_t i = 0, last = 0; i < end.num_samples; last = table.ends_[i++]) {
    if (table.ends_[i] < last || table.ends_[i] > end.num_tokens) damaged(path, "has samples that overlap");
  }
  file->require_whole();
  file->expect_random_access();
  table.file_ = std::move(file);
  return table;
}

TokenTableWriter::TokenTableWriter(std::string path, std::string key)
    : path_(std::move(path)),
      key_(std::move(key)),
      file_(path_.empty() ? nullptr : std::make_unique<AtomicFile>(path_)) {}

void TokenTableWriter::add(const Encoding& encoding, std::optional<std::int64_t> label) {
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const bool second = encoding.token_type_ids[i] != 0;
    has_token_types_ = has_token_types_ || second;
    tokens_.push_back(static_cast<std::uint32_t>(encoding.ids[i]) | (second ? TokenTable::kTypeBit : 0));
  }
  num_tokens_ += encoding.ids.size();
  ends_.push_back(num_tokens_);
  if (label) labels_.push_back(*label);
  if (file_ && tokens_.size() >= kFlushTokens) flush();
}

void TokenTableWriter::flush() {
  const std::string_view bytes = bytes_of(tokens_.data(), tokens_.size());
  file_->write(bytes);
  digest_.update(bytes);
  tokens_.clear();
}

TokenTable TokenTableWriter::finish() {
  if (!file_) {
    struct Memory {
      std::vector<std::uint32_t> tokens;
      std::vector<std::uint64_t> ends;
      std::vector<std::int64_t> labels;
    };
    auto memory = std::make_shared<Memory>(Memory{std::move(tokens_), std::move(ends_), std::move(labels_)});
    TokenTable table;
    table.tokens_ = memory->tokens.data();
    table.ends_ = memory->ends.data();
    table.labels_ = memory->labels.empty() ? nullptr : memory->labels.data();
    table.size_ = static_cast<std::int64_t>(memory->ends.size());
    table.num_tokens_ = static_cast<std::int64_t>(num_tokens_);
    table.has_token_types_ = has_token_types_;
    table.memory_ = std::move(memory);
    return table;
  }
  if (num_tokens_ % 2 != 0) tokens_.push_back(0);
  flush();
  TokenFileEnd end{kTokenFileMagic, ends_.size(), num_tokens_, 0, hex_digits(key_), {}};
  end.flags = (labels_.empty() ? 0 : kLabelsFlag) | (has_token_types_ ? kTypesFlag : 0);
  for (const std::string_view part : {bytes_of(ends_.data(), ends_.size()), bytes_of(labels_.data(), labels_.size()),
                                      bytes_of(&end, 1).substr(0, offsetof(TokenFileEnd, digest))}) {
    file_->write(part);
    digest_.update(part);
  }
  end.digest = hex_digits(digest_.hex());
  file_->write({end.digest.data(), end.digest.size()});
  file_->commit();
  return TokenTable::open(path_, key_);
}

}  // namespace lockstep
