#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/launch/elastic/coordinator.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// The queues in the job's store for reports, and for the orders to a host.
constexpr const char* kReportQueue = "launcher/reports";
std::string order_queue(const std::string& host);

/// Runs the coordinator in its own thread, in the process of the store that carries its reports and orders.
class CoordinatorService {
 public:
  /// @param server  must outlive this object
  /// @param takeover  set if the job had another coordinator before
  CoordinatorService(StoreServer& server, const std::string& secret, const HostEntry& job,
                     const Coordinator::Times& times, std::optional<Coordinator::Takeover> takeover = std::nullopt);
  ~CoordinatorService();
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  /// Waits until every host has left or is lost. @return  false if that is not so at the deadline
  bool wait_until_left(Deadline deadline);
  /// Ends such a wait, and all later ones, at once.
  void stop_waiting();

 private:
  void serve();
  void wait_for_report(std::int64_t& number);
  void send_orders();
  void give_up(const std::string& cause);

  StoreServer& server_;
  StoreClient client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Coordinator coordinator_;
  std::optional<HeldPort> port_;  // of the newest generation, for its programs; only the serving thread uses it
  bool waits_no_more_ = false;
  std::thread thread_;
};

}  // namespace lockstep
