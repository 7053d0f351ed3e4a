#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/detail/data/text/encoding.h"

namespace lockstep {

/// Token ids, token types and labels of many samples, one after the other: in memory, or in a mapped file that may be
/// larger than memory. Immutable; copies share the data.
class TokenTable {
 public:
  /// One sample's tokens: the id in the lower 31 bits, the token type (0 or 1) in the highest.
  struct Sample {
    const std::uint32_t* tokens;
    std::int64_t count;
  };
  static constexpr std::uint32_t kTypeBit = std::uint32_t{1} << 31;

  std::int64_t size() const { return size_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  bool has_labels() const { return labels_ != nullptr; }
  bool has_token_types() const { return has_token_types_; }
  /// @param index  in [0, size())
  /// @throws Error  if the file was shortened
  Sample sample(std::int64_t index) const;
  std::int64_t label(std::int64_t index) const { return labels_[index]; }
  /// For after a sample's tokens and label were read. @throws Error  if the file was shortened
  void require_whole() const {
    if (file_) file_->require_whole();
  }

  /// Opens a file that a TokenTableWriter wrote. Every byte is verified.
  /// @throws Error  with path and cause: missing, shortened, altered, or written for another key
  static TokenTable open(const std::string& path, const std::string& key);

 private:
  friend class TokenTableWriter;
  TokenTable() = default;

  std::shared_ptr<const FileBytes> file_;  // null: in memory
  std::shared_ptr<const void> memory_;     // null: in a file. One of the two owns what the pointers point to
  const std::uint32_t* tokens_ = nullptr;
  const std::uint64_t* ends_ = nullptr;  // of each sample, in tokens
  const std::int64_t* labels_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t num_tokens_ = 0;
  bool has_token_types_ = false;
};

/// Makes a TokenTable sample by sample. If it writes a file, memory holds 16 bytes per sample, and no tokens.
class TokenTableWriter {
 public:
  /// @param path  of the file, which appears when it is complete; empty: in memory
  /// @param key  `TokenTable::open` must be called with it
  TokenTableWriter(std::string path, std::string key);

  /// Appends a sample. Either all samples have labels or none has.
  void add(const Encoding& encoding, std::optional<std::int64_t> label);
  /// @throws Error  if the file cannot be written
  TokenTable finish();

 private:
  void flush();

  std::string path_;
  std::string key_;
  std::unique_ptr<AtomicFile> file_;  // null: in memory
  Sha256 digest_;
  std::vector<std::uint32_t> tokens_;  // not yet in the file
  std::vector<std::uint64_t> ends_;
  std::vector<std::int64_t> labels_;
  std::uint64_t num_tokens_ = 0;
  bool has_token_types_ = false;
};

}  // namespace lockstep
