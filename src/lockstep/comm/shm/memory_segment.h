#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/unique_fd.h"

namespace lockstep::shm {

/// Pages mapped into this process; unmapped when the object goes.
class Mapping {
 public:
  /// Maps all `bytes` of the file behind `fd`, shared. @throws Error  with the cause
  static std::shared_ptr<Mapping> of_file(int fd, std::size_t bytes);
  /// Fresh zeroed memory of this process alone, for ranks that are its threads. @throws Error  with the cause
  static std::shared_ptr<Mapping> anonymous(std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Puts private pages with the same content in place of a part, at the same address: other processes can no longer
  /// write there. `offset` and `bytes` are multiples of the page size. Returns false where memory is short.
  bool make_private(std::size_t offset, std::size_t bytes) noexcept;

 private:
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::size_t bytes_;
};

/// How another process of the same user finds a memory file: it has no name anywhere, so there is nothing to squat on
/// and nothing to leave behind, and no socket that a stranger could connect to.
struct SegmentAddress {
  pid_t pid = 0;             ///< the process that created it
  int fd = -1;               ///< and the descriptor that it holds open until all have come
  std::uint64_t device = 0;  ///< what fstat must say of it
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
};

/// A memory file of `bytes`, zeroed. Its size is sealed: nobody can shrink it under a reader's feet.
/// @throws Error  with the cause
UniqueFd create_segment(std::size_t bytes);

/// Allocates the pages of a part of the file, so that no later access can fail for lack of memory (SIGBUS).
/// @throws Error  where memory is short, naming what was asked for and what is left
void reserve_pages(int fd, std::size_t offset, std::size_t bytes);

SegmentAddress address_of(int fd);

/// Opens the file at `address` through /proc, after checking owner, identity, size and seals.
/// @throws Error  if it is not there, not the file meant, or not sealed
UniqueFd open_segment(const SegmentAddress& address);

std::size_t page_bytes();
/// `bytes` rounded up to whole pages. @throws Error  if that overflows
std::size_t whole_pages(std::size_t bytes);

}  // namespace lockstep::shm
