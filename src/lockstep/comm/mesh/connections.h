#pragma once

#include <vector>

namespace lockstep {

/// What a group's supervisor needs of that which carries its messages.
class Connections {
 public:
  virtual ~Connections() = default;
  /// Whether `lost_peers` sees connections end; else only the store knows of lost ranks.
  virtual bool sees_losses() const = 0;
  /// Peers whose connection has ended, those that ended first; empty after `break_connections`. Does not wait.
  virtual std::vector<int> lost_peers() = 0;
  /// Ends all connections and wakes everybody who waits on them, here and, where they see it, on the other ranks. From
  /// any thread.
  virtual void break_connections() noexcept = 0;
};

}  // namespace lockstep
