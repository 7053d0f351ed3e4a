#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {

/// Memory that operations borrow and return: fresh pages cost more than a reduction. Thread-safe.
class ScratchMemory {
 public:
  /// Borrowed for as long as this object lives.
  class Loan {
   public:
    Loan(ScratchMemory& owner, std::size_t bytes) : owner_(owner), memory_(owner.take(bytes)) {}
    ~Loan() { owner_.give(std::move(memory_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    std::byte* data() { return memory_.data(); }

   private:
    ScratchMemory& owner_;
    std::vector<std::byte> memory_;
  };

 private:
  std::vector<std::byte> take(std::size_t bytes) {
    std::vector<std::byte> memory;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // Sorted by size: the smallest that is large enough, else the largest, which grows.
      auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& each) { return each.size() >= bytes; });
      if (found == free_.end() && !free_.empty()) --found;
      if (found != free_.end()) {
        memory = std::move(*found);
        free_.erase(found);
      }
    }
    if (memory.size() < bytes) {
      memory.clear();  // its content need not be copied
      memory.resize(bytes);
    }
    return memory;
  }

  void give(std::vector<std::byte> memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place =
        std::find_if(free_.begin(), free_.end(), [&](const auto& each) { return each.size() >= memory.size(); });
    free_.insert(place, std::move(memory));
  }

  std::mutex mutex_;
  std::vector<std::vector<std::byte>> free_;
};

}  // namespace lockstep
