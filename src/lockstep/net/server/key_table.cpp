#include "lockstep/net/server/key_table.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

std::string printable_key(const std::string& key) {
  constexpr std::size_t kShown = 120;
  std::string text;
  for (const char c : key.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return key.size() > kShown ? text + "..." : text;
}

void check_limits(const std::string& key, const std::string& value, const std::string& where) {
  if (key.empty() || key.size() > KeyTable::kMaxKeyBytes) {
    throw Error(fmt::format("a key of {} bytes (\"{}\") was set; keys have 1 to {} bytes", key.size(),
                            printable_key(key), KeyTable::kMaxKeyBytes),
                where, "use a shorter key");
  }
  if (value.size() > KeyTable::kMaxValueBytes) {
    throw Error(fmt::format("the value of key \"{}\" has {} bytes, more than {}", printable_key(key), value.size(),
                            KeyTable::kMaxValueBytes),
                where, "send large data through a collective; the store is for addresses and small facts");
  }
}

void KeyTable::set(const std::string& key, std::string value) {
  check_limits(key, value, where_);
  const auto old = values_.find(key);
  const std::size_t freed = old == values_.end() ? 0 : key.size() + old->second.size();
  const std::size_t total_bytes = total_bytes_ - freed + key.size() + value.size();
  if (total_bytes > kMaxTotalBytes) {
    throw Error(fmt::format("key \"{}\" does not fit: the store would hold {} bytes, more than {}", printable_key(key),
                            total_bytes, kMaxTotalBytes),
                where_, "delete keys that nobody reads any more");
  }
  total_bytes_ = total_bytes;
  values_.insert_or_assign(key, std::move(value));
}

const std::string* KeyTable::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::int64_t KeyTable::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  if (const std::string* text = find(key)) {
    const char* end = text->data() + text->size();
    const auto [stop, status] = std::from_chars(text->data(), end, sum);
    if (status != std::errc() || stop != end) {
      throw Error(fmt::format("cannot add {} to key \"{}\": its value of {} bytes is not a whole number", delta,
                              printable_key(key), text->size()),
                  where_, "use different keys for numbers and other values");
    }
  }
  if (__builtin_add_overflow(sum, delta, &sum)) {
    throw Error(fmt::format("adding {} to key \"{}\" leaves the range of 64 bits", delta, printable_key(key)), where_,
                "add smaller numbers");
  }
  set(key, std::to_string(sum));
  return sum;
}

std::string KeyTable::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const std::string* value = find(key);
  if (value != nullptr ? *value == expected : expected.empty()) {
    set(key, desired);
    return desired;
  }
  return value != nullptr ? *value : std::string();
}

bool KeyTable::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  total_bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return true;
}

void KeyTable::erase_all(const std::string& prefix) {
  const auto first = values_.lower_bound(prefix);
  auto last = first;
  for (; last != values_.end() && last->first.compare(0, prefix.size(), prefix) == 0; ++last) {
    total_bytes_ -= last->first.size() + last->second.size();
  }
  values_.erase(first, last);
}

}  // namespace lockstep
