#include "lockstep/launch/elastic/endpoint_watch.h"

#include <chrono>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/elastic/coordinator_service.h"
#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {
namespace {

// Shorter than a launcher that was just started waits for others (last_call_timeout).
constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr std::chrono::milliseconds kToAnswer{2000};

}  // namespace

EndpointWatch::EndpointWatch(SocketAddress endpoint, std::string secret, HostEntry self, SocketAddress now)
    : endpoint_(std::move(endpoint)), secret_(std::move(secret)), self_(std::move(self)), now_(std::move(now)) {
  const SignalsBlocked blocked;
  thread_ = start_thread("watches the endpoint", [this] { watch(); });
}

EndpointWatch::~EndpointWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void EndpointWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kBetweenLooks, [this] { return stopping_; })) {
    lock.unlock();
    try {
      look();
    } catch (const Error& error) {
      log_info("at the job's endpoint: {}", error.happened());
    }
    lock.lock();
  }
}

void EndpointWatch::look() {
  if (!connect_once(endpoint_, secret_.empty(), Deadline::after(kToAnswer)).fd) return;
  StoreClient client(endpoint_, secret_, Deadline::after(kToAnswer));
  const HostEntry there = check_sign(client, self_);
  const bool is_of_this_job = !difference(self_, there);
  if (is_of_this_job && there.id != told_) {
    HostReport report;
    report.kind = HostReport::Kind::Moved;
    report.text = now_.text();
    client.push(kReportQueue, to_text(report));
    told_ = there.id;
  }
  client.finish(Deadline::after(kToAnswer));
}

}  // namespace lockstep
