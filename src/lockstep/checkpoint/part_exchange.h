#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The ranks' communication during one save, through the job's store: rank 0 opens the folder, each rank gives the
/// manifest of its part, rank 0 announces the end. Each message is a text or a failure; reading a failure throws it.
/// Not thread-safe. Every wait ends soon after a rank is lost, or `timeout` after the last sign that ranks are writing.
class PartExchange {
 public:
  /// @param prefix  of this save's keys, equal on all ranks
  /// @param membership  must outlive this object
  /// @param timeout  longest wait for a rank that does not write (`LongWork`)
  PartExchange(const Membership& membership, std::string prefix, std::chrono::milliseconds timeout);

  void open(const std::string& text) { set("open", text); }  ///< rank 0
  std::string wait_until_open() { return wait_for("open", 0); }
  void give_part(const std::string& text);
  /// Rank 0: the other ranks' parts, from rank 1 on. @throws Error  naming the rank that failed or was lost
  std::vector<std::string> collect_parts();
  void end() { set("end", ""); }  ///< rank 0
  void wait_until_end() { wait_for("end", 0); }
  /// Throws the failure that rank 0 has reported, if it has; on rank 0, another rank's.
  void throw_if_failed();
  /// Whether rank 0 has reported a failure: nobody publishes this save any more. False if the store is gone.
  bool has_rank_0_failed() const noexcept;

  /// Reports this rank's failure to the others. Does not throw, because the failure itself is more important.
  void fail(const std::string& reason) noexcept;
  /// Rank 0: removes the keys of a save that every rank has finished.
  static void forget(const Membership& membership, const std::string& prefix) noexcept;

 private:
  void set(const std::string& key, const std::string& text);
  std::string wait_for(const std::string& key, int from);
  std::string text_of(const std::string& message, int from) const;
  void throw_if_lost(const std::string& key) const;

  const Membership& membership_;
  std::string prefix_;
  Deadline deadline_;
};

}  // namespace lockstep
