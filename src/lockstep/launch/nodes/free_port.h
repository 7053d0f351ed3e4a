#pragma once

#include <cstdint>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A TCP port that nobody uses on this host now, on any address. Nothing listens there afterwards.
/// @throws Error  if the kernel has none left
std::uint16_t free_port();

/// A free port that stays free while this lives: it is bound, and nobody listens, so the kernel gives it to nobody who
/// asks for any. Who asks for it by number gets it, if he sets SO_REUSEADDR, as servers of PyTorch and NCCL do.
class HeldPort {
 public:
  /// @throws Error  if the kernel has none left
  HeldPort();
  std::uint16_t number() const { return number_; }

 private:
  UniqueFd fd_;
  std::uint16_t number_ = 0;
};

/// @throws Error  if somebody listens on `port` of this host, or this user may not
void check_port_is_free(std::uint16_t port);

}  // namespace lockstep
