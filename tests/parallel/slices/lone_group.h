#pragma once

#include <memory>
#include <utility>

#include "lockstep/comm/factory.h"

namespace lockstep {

/// A group of one rank, without a store.
inline std::shared_ptr<Communicator> lone_group() {
  Membership alone;
  alone.peers.emplace_back();
  return make_communicator("", std::move(alone));
}

}  // namespace lockstep
