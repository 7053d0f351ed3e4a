#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Values as texts: numbers as JSON writes them, booleans as "true" and "false".
class ValueList {
 public:
  /// The memory of texts that are views; null: they are views of a mapped file.
  void keep(std::shared_ptr<const std::string> bytes) { kept_ = std::move(bytes); }
  void add_view(std::string_view text) { views_.push_back(text); }
  /// Adds texts that lie one after the other in `bytes`, each ending at one of `ends`.
  void add_own(std::string bytes, const std::vector<std::size_t>& ends);

  std::size_t size() const { return views_.size(); }
  std::string_view operator[](std::size_t i) const { return views_[i]; }
  std::size_t memory_bytes() const;

 private:
  std::vector<std::string_view> views_;
  std::shared_ptr<const std::string> kept_;
  std::shared_ptr<const std::string> own_;
};

/// The values of consecutive rows of a column. Equal values may be stored once.
class ColumnBlock {
 public:
  static constexpr std::uint32_t kNull = 0xFFFFFFFFU;

  ColumnBlock() = default;
  /// @param entries  for each row, the place of its value in `values`, or kNull
  ColumnBlock(std::vector<std::uint32_t> entries, std::shared_ptr<const ValueList> values)
      : entries_(std::move(entries)), values_(std::move(values)) {}

  std::size_t rows() const { return entries_.size(); }
  /// Nothing for null. The text is valid as long as the block.
  std::optional<std::string_view> value(std::size_t row) const {
    if (entries_[row] == kNull) return std::nullopt;
    return (*values_)[entries_[row]];
  }
  /// The place of a row's value in `values()`, or kNull.
  std::uint32_t entry(std::size_t row) const { return entries_[row]; }
  const std::shared_ptr<const ValueList>& values() const { return values_; }
  std::size_t memory_bytes() const { return entries_.capacity() * sizeof(std::uint32_t) + values_->memory_bytes(); }

 private:
  std::vector<std::uint32_t> entries_;
  std::shared_ptr<const ValueList> values_;
};

/// Whole numbers, each in the lowest `bits` of an element, as texts.
ValueList texts_of_numbers(const std::vector<std::uint64_t>& numbers, int bits, bool is_signed);
/// Numbers of 32 or 64 bits by IEEE 754. A whole one has no point: 2, not 2.0.
ValueList texts_of_fractions(const std::vector<std::uint64_t>& numbers, int bits);
ValueList texts_of_booleans(const std::vector<std::uint32_t>& booleans);

}  // namespace lockstep
