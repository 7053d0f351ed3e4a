#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep {

/// The keys and values of a store, with the store's rules and limits, but without waits and without locks.
///
/// The limits keep one faulty rank from filling the memory of the process that serves all ranks.
class KeyTable {
 public:
  static constexpr std::size_t kMaxKeyBytes = 4096;
  static constexpr std::size_t kMaxValueBytes = std::size_t{8} << 20;
  static constexpr std::size_t kMaxTotalBytes = std::size_t{512} << 20;

  /// @param where  named in errors: "store at tcp:127.0.0.1:29500"
  explicit KeyTable(std::string where) : where_(std::move(where)) {}

  /// @throws Error  if a key, a value or all of them together exceed the limits
  void set(const std::string& key, std::string value);
  /// Null if `key` is not set. Valid until the next change.
  const std::string* find(const std::string& key) const;
  /// @throws Error  if the value is not a decimal number, or the sum does not fit 64 bits
  std::int64_t add(const std::string& key, std::int64_t delta);
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  bool erase(const std::string& key);
  /// Removes every key that starts with `prefix`.
  void erase_all(const std::string& prefix);
  std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }

 private:
  std::string where_;
  std::map<std::string, std::string> values_;
  std::size_t total_bytes_ = 0;  // of keys and values
};

/// @throws Error  if `key` or `value` exceeds the limits of a KeyTable
void check_limits(const std::string& key, const std::string& value, const std::string& where);

/// `key` in a form for messages: printable, and cut if it is long.
std::string printable_key(const std::string& key);

}  // namespace lockstep
