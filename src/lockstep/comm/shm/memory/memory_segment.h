#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep::shm {

/// Pages mapped into this process; unmapped by the destructor.
class Mapping {
 public:
  /// Maps `bytes` of the file behind `fd`, shared. @param offset  a multiple of the page size
  /// @throws Error  with the cause
  static std::shared_ptr<Mapping> of_file(int fd, std::size_t bytes, std::size_t offset = 0);
  /// New zeroed memory of this process only, for ranks that are threads of it. @throws Error  with the cause
  static std::shared_ptr<Mapping> anonymous(std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Replaces a part by private pages with equal content, at the same address: other processes can no longer write
  /// there. `offset` and `bytes` are multiples of the page size. Returns false if memory is short.
  bool make_private(std::size_t offset, std::size_t bytes) noexcept;

 private:
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::size_t bytes_;
};

/// A memory file of `bytes`, zeroed. Its size is sealed: no process can shrink it while another reads it.
/// @throws Error  with the cause
UniqueFd create_segment(std::size_t bytes);

/// Allocates the pages of a part of the file, so that no later access can fail for lack of memory (SIGBUS).
/// @throws Error  if memory is short, naming what was requested and what is left
void reserve_pages(int fd, std::size_t offset, std::size_t bytes);

/// Checks a file that another process has sent: it must have this size, belong to this user, and be sealed, so that no
/// process can shrink it while this rank uses it. @throws Error  if not
void check_segment(int fd, std::size_t bytes);

std::size_t page_bytes();
/// `bytes` rounded up to whole pages. @throws Error  if that overflows
std::size_t whole_pages(std::size_t bytes);

}  // namespace lockstep::shm
