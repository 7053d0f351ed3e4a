#include "lockstep/net/store/job_store.h"

#include <utility>

#include "lockstep/base/log.h"

namespace lockstep {

JobStore::JobStore(std::shared_ptr<StoreServer> server, std::shared_ptr<Store> client, const std::string& prefix,
                   std::function<void()> on_finish)
    : PrefixStore(std::move(client), prefix), server_(std::move(server)), on_finish_(std::move(on_finish)) {}

void JobStore::finish(Deadline deadline) {
  underlying()->finish(deadline);
  if (server_ && !server_->wait_until_left(deadline)) {
    log_warning("the store at {} ends while other ranks still use it", server_->address().text());
  }
  if (on_finish_) std::exchange(on_finish_, nullptr)();
}

}  // namespace lockstep
