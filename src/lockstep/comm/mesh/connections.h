#pragma once

#include <vector>

namespace lockstep {

/// The part of a group's message carrier that the group's supervisor uses.
class Connections {
 public:
  virtual ~Connections() = default;
  /// Whether `lost_peers` notices ended connections; otherwise only the store knows of lost ranks.
  virtual bool sees_losses() const = 0;
  /// Peers whose connection has ended, in the order of their ends; empty after `break_connections`. Does not wait.
  virtual std::vector<int> lost_peers() = 0;
  /// Ends all connections and wakes every thread that waits on them, here and, if they notice it, on the other ranks.
  /// From any thread.
  virtual void break_connections() noexcept = 0;
};

}  // namespace lockstep
