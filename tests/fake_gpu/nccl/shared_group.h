#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_gpu {

constexpr std::size_t kSlotBytes = 256 << 10;
constexpr int kMostRanks = 64;

/// What one rank sends to another, in pieces of at most kSlotBytes.
struct Box {
  std::atomic<std::uint64_t> written, read;
  char data[kSlotBytes];
};

/// Shared memory of a communicator's ranks: a slot for each, and a box for each pair.
class SharedGroup {
 public:
  struct Header {
    std::atomic<int> joined;
    std::atomic<std::uint64_t> arrived;  // how often a rank came to a meeting
    std::atomic<int> device[kMostRanks];
  };

  /// @return false if there is no such memory
  bool open(const std::string& name, int size);
  /// Takes the name away, so that no file stays.
  void remove_name();

  Header& header() { return *reinterpret_cast<Header*>(base_); }
  char* slot(int rank) { return base_ + kHeaderBytes + static_cast<std::size_t>(rank) * kSlotBytes; }
  Box& box(int from, int to);

 private:
  static constexpr std::size_t kHeaderBytes = 4096;
  std::string name_;
  int size_ = 0;
  char* base_ = nullptr;
};

}  // namespace fake_gpu
