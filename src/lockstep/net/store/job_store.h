#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/prefix_store.h"

namespace lockstep {

/// The store of one rank's membership: a client, and the server too on the rank that serves the job.
class JobStore : public PrefixStore {
 public:
  /// @param server  null if another process serves
  /// @param client  a StoreClient, or a store above it
  /// @param on_finish  called at the end of `finish`; must not throw. May be empty
  JobStore(std::shared_ptr<StoreServer> server, std::shared_ptr<Store> client, const std::string& prefix,
           std::function<void()> on_finish);

  /// Leaves. If this rank serves, waits until all others have left or are lost, or until the deadline passes.
  void finish(Deadline deadline) override;

 private:
  std::shared_ptr<StoreServer> server_;  // declared before the client, so that it is destroyed last
  std::function<void()> on_finish_;
};

}  // namespace lockstep
