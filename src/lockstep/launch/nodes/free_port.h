#pragma once

#include <cstdint>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A TCP port that is unused on this host now, on any address. Nothing listens there afterwards.
/// @throws Error  if no port is left
std::uint16_t free_port();

/// A free port that stays free while this object lives. It is bound without a listener, so the kernel does not hand it
/// out to programs that ask for any port. A program that asks for it by number gets it if it sets SO_REUSEADDR, as
/// servers of PyTorch and NCCL do.
class HeldPort {
 public:
  /// @throws Error  if no port is left
  HeldPort();
  std::uint16_t number() const { return number_; }

 private:
  UniqueFd fd_;
  std::uint16_t number_ = 0;
};

/// @throws Error  if another process listens on `port` of this host, or this user may not listen there
void check_port_is_free(std::uint16_t port);

}  // namespace lockstep
