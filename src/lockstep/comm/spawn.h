#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

struct SpawnOptions {
  std::string engine;                         ///< empty: the fastest that connects threads
  std::chrono::milliseconds timeout{60'000};  ///< of each collective
};

/// Runs `body` on `world_size` ranks, each a thread of this process with a communicator that connects them, and returns
/// when all have ended. The threads share the cores: each sets LibTorch's intra-op threads to its part.
///
/// @throws whatever the first rank to fail threw; the group is aborted then, so the others end too
/// @throws Error  if `world_size` is not positive or the engine cannot connect threads
void spawn_threads(int world_size, const std::function<void(const std::shared_ptr<Communicator>&)>& body,
                   SpawnOptions options = {});

}  // namespace lockstep
