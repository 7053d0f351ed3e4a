#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// Ids that are being made. Unlike a vector it neither zeroes new memory nor checks each append: the caller reserves
/// room once per block of text.
class IdBuffer {
 public:
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  const TokenId* data() const { return ids_.get(); }

  /// Makes room for `count` more and returns where they start; call `set_end` with the end of the ids written.
  TokenId* reserve(std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    return ids_.get() + size_;
  }
  void set_end(const TokenId* end) { size_ = static_cast<std::size_t>(end - ids_.get()); }

  void append(const TokenId* ids, std::size_t count) {
    TokenId* at = reserve(count);
    std::copy(ids, ids + count, at);
    size_ += count;
  }

 private:
  void grow(std::size_t least) {
    const std::size_t capacity = std::max(least, capacity_ + capacity_ / 2 + 1024);
    std::unique_ptr<TokenId[]> bigger(new TokenId[capacity]);
    if (size_ != 0) std::memcpy(bigger.get(), ids_.get(), size_ * sizeof(TokenId));
    ids_ = std::move(bigger);
    capacity_ = capacity;
  }

  std::unique_ptr<TokenId[]> ids_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace lockstep::text
