#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// Appends values to a text, bit for bit, for FieldReader in another process of the same program: numbers, texts,
/// vectors, maps, optionals, and structs with a function `list_fields(fields, value)`, which calls `fields` with their
/// members and so serves both directions.
class FieldWriter {
 public:
  template <typename... Values>
  void operator()(Values&... values) {
    (put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      list_fields(*this, value);
    }
  }
  void count(std::size_t value) {
    const std::uint64_t number = value;
    put(number);
  }
  void put(const std::string& text) {
    count(text.size());
    bytes_ += text;
  }
  void put(std::string& text) { put(std::as_const(text)); }
  template <typename T>
  void put(std::vector<T>& values) {
    count(values.size());
    for (auto& each : values) put(each);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    count(values.size());
    for (const auto& each : values) put(each);
  }
  template <typename K, typename T>
  void put(const std::map<K, T>& values) {
    count(values.size());
    for (const auto& [key, value] : values) {
      put(key);
      put(value);
    }
  }
  template <typename K, typename T>
  void put(std::map<K, T>& values) {
    put(std::as_const(values));
  }
  template <typename T>
  void put(std::optional<T>& value) {
    const bool is_there = value.has_value();
    put(is_there);
    if (is_there) put(*value);
  }

  std::string bytes_;
};

/// Reads what FieldWriter has written. All members throw Error if the bytes end early.
class FieldReader {
 public:
  /// @param what  the bytes are, for errors
  FieldReader(std::string_view bytes, const char* what) : rest_(bytes), what_(what) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  bool is_at_end() const { return rest_.empty(); }
  /// Call it after the last value. @throws Error  if bytes remain
  void end() const {
    if (!rest_.empty()) fail("has bytes behind its end");
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(std::string(what_) + " " + problem, what_,
                "run one version of the program on all ranks, and in all starts of a job");
  }
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) fail("ends early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = take(1).front() != 0;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    } else {
      list_fields(*this, value);
    }
  }
  // The values that follow take a byte or more each.
  std::size_t count() {
    std::uint64_t number = 0;
    get(number);
    if (number > rest_.size()) fail("ends early");
    return number;
  }
  void get(std::string& text) { text = take(count()); }
  template <typename T>
  void get(std::vector<T>& values) {
    values.resize(count());
    for (T& each : values) get(each);
  }
  template <typename K, typename T>
  void get(std::map<K, T>& values) {
    values.clear();
    for (std::size_t left = count(); left > 0; --left) {
      K key;
      get(key);
      get(values[std::move(key)]);
    }
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool is_there = false;
    get(is_there);
    if (!is_there) return value.reset();
    get(value.emplace());
  }

  std::string_view rest_;
  const char* what_;
};

}  // namespace lockstep
