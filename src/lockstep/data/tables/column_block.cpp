#include "lockstep/data/tables/column_block.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>

namespace lockstep {
namespace {

std::int64_t extended(std::uint64_t number, int bits) {
  const int unused = 64 - bits;
  return static_cast<std::int64_t>(number << unused) >> unused;
}

template <typename Number>
Number of_bits(std::uint64_t bits) {
  Number number{};
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

template <typename Number>
void append_fraction(std::string& out, Number number) {
  constexpr double kExact = 1e15;
  const bool is_whole = number == std::floor(number) && std::abs(static_cast<double>(number)) < kExact;
  if (is_whole) {
    fmt::format_to(std::back_inserter(out), "{:.0f}", number);
  } else {
    fmt::format_to(std::back_inserter(out), "{}", number);
  }
}

template <typename Append>
ValueList texts_of(std::size_t count, const Append& append) {
  std::string bytes;
  std::vector<std::size_t> ends;
  ends.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    append(bytes, i);
    ends.push_back(bytes.size());
  }
  ValueList list;
  list.add_own(std::move(bytes), ends);
  return list;
}

}  // namespace

void ValueList::add_own(std::string bytes, const std::vector<std::size_t>& ends) {
  own_ = std::make_shared<const std::string>(std::move(bytes));
  views_.reserve(views_.size() + ends.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    views_.push_back(std::string_view(*own_).substr(begin, end - begin));
    begin = end;
  }
}

std::size_t ValueList::memory_bytes() const {
  return views_.capacity() * sizeof(std::string_view) + (kept_ ? kept_->capacity() : 0) + (own_ ? own_->capacity() : 0);
}

ValueList texts_of_numbers(const std::vector<std::uint64_t>& numbers, int bits, bool is_signed) {
  return texts_of(numbers.size(), [&](std::string& out, std::size_t i) {
    if (is_signed) {
      fmt::format_to(std::back_inserter(out), "{}", extended(numbers[i], bits));
    } else {
      fmt::format_to(std::back_inserter(out), "{}", numbers[i] << (64 - bits) >> (64 - bits));
    }
  });
}

ValueList texts_of_fractions(const std::vector<std::uint64_t>& numbers, int bits) {
  return texts_of(numbers.size(), [&](std::string& out, std::size_t i) {
    if (bits == 32) {
      append_fraction(out, of_bits<float>(numbers[i]));
    } else {
      append_fraction(out, of_bits<double>(numbers[i]));
    }
  });
}

ValueList texts_of_booleans(const std::vector<std::uint32_t>& booleans) {
  ValueList list;
  for (const std::uint32_t value : booleans) list.add_view(value != 0 ? "true" : "false");
  return list;
}

}  // namespace lockstep
