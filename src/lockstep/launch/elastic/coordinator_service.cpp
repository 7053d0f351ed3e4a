#include "lockstep/launch/elastic/coordinator_service.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};

}  // namespace

std::string order_queue(const std::string& host) { return "launcher/orders/" + host; }

CoordinatorService::CoordinatorService(StoreServer& server, const std::string& secret, const HostEntry& job,
                                       const Coordinator::Times& times, std::optional<Coordinator::Takeover> takeover)
    : server_(server),
      client_(server.address(), secret, Deadline::after(kConnectTimeout)),
      coordinator_(job, times, Deadline::Clock::now(), std::move(takeover)) {
  const SignalsBlocked blocked;
  thread_ = start_thread("serves the rendezvous", [this] { serve(); });
}

CoordinatorService::~CoordinatorService() {
  client_.finish(Deadline::after(kConnectTimeout));  // ends the thread's wait
  thread_.join();
}

bool CoordinatorService::wait_until_left(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (coordinator_.has_hosts()) {
    if (deadline.passed() || waits_no_more_) return false;
    changed_.wait_for(lock, deadline.remaining());
  }
  return true;
}

void CoordinatorService::stop_waiting() {
  {
    const std::lock_guard lock(mutex_);
    waits_no_more_ = true;
  }
  changed_.notify_all();
}

void CoordinatorService::serve() {
  try {
    for (std::int64_t number = 1;;) {
      wait_for_report(number);
      send_orders();
      changed_.notify_all();
    }
  } catch (const StoreLostError&) {  // this object is being destroyed
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

// Ends the job, so that no host is left waiting.
void CoordinatorService::give_up(const std::string& cause) {
  log_warning("the rendezvous has ended: {}", cause);
  try {
    {
      const std::lock_guard lock(mutex_);
      coordinator_.give_up("the rendezvous has ended: " + cause);
    }
    send_orders();
  } catch (const std::exception&) {
    // The hosts notice that the store ends.
  }
}

// Waits for a report, or until something is due.
void CoordinatorService::wait_for_report(std::int64_t& number) {
  std::optional<Coordinator::Time> due;
  {
    const std::lock_guard lock(mutex_);
    due = coordinator_.next_time();
  }
  const auto now = Deadline::Clock::now();
  const Deadline deadline =
      due ? Deadline::after(std::chrono::ceil<std::chrono::milliseconds>(std::max(*due, now) - now))
          : Deadline::never();
  const std::string key = std::string(kReportQueue) + "/" + std::to_string(number);
  std::string text;
  try {
    text = client_.get(key, deadline);
  } catch (const TimeoutError&) {
    const std::lock_guard lock(mutex_);
    return coordinator_.act_on_time(Deadline::Clock::now());
  }
  client_.delete_key(key);
  ++number;
  try {
    const HostReport report = parse_report(text);
    const std::lock_guard lock(mutex_);
    coordinator_.take(report, Deadline::Clock::now());
  } catch (const Error& error) {
    log_warning("{}", error.happened());  // its sender gets no answer
  }
}

void CoordinatorService::send_orders() {
  std::vector<std::pair<std::string, HostOrder>> orders;
  std::vector<Coordinator::LostMembers> all_lost;
  {
    const std::lock_guard lock(mutex_);
    orders = coordinator_.take_orders();
    all_lost = coordinator_.take_lost();
  }
  for (const Coordinator::LostMembers& lost : all_lost) {
    for (const int member : lost.members) {
      server_.mark_lost(lost.generation - 1, LostRank{member, lost.name, lost.cause});
    }
  }
  bool has_port = false;  // all these orders begin one generation
  const auto continued = std::find_if(orders.begin(), orders.end(),
                                      [](const auto& each) { return each.second.kind == HostOrder::Kind::Continue; });
  if (continued != orders.end()) {
    server_.resume_generation(continued->second.generation.number - 1);
    port_.emplace();
  }
  for (auto& [host, order] : orders) {
    if (order.kind == HostOrder::Kind::Begin && order.generation.first_member >= 0) {
      order.generation.master_port = port_->number();
    } else if (order.kind == HostOrder::Kind::Begin) {
      server_.forget_generations_before(order.generation.number - 1);
      if (!std::exchange(has_port, true)) port_.emplace();
      order.generation.master_port = port_->number();
    }
    client_.push(order_queue(host), to_text(order));
  }
}

}  // namespace lockstep
