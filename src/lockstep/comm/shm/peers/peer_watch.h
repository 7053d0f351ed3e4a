#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep::shm {

struct LostPeer {
  int rank = 0;
  std::string cause;  ///< "its process ended"
};

/// Notices ranks that end without a message.
class PeerWatch {
 public:
  virtual ~PeerWatch() = default;
  /// The ranks that are gone. Cheap enough to be called a hundred times a second. Does not block.
  virtual std::vector<LostPeer> lost() = 0;
};

}  // namespace lockstep::shm
