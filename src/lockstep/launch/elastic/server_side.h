#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/launch/elastic/endpoint_watch.h"
#include "lockstep/launch/elastic/host_state.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/wait_notice.h"
#include "lockstep/launch/plan.h"

namespace lockstep {

/// Where a job's rendezvous is: the launcher that can listen on the endpoint serves the store and the coordinator. If
/// it is lost, the next host of the generation does, at an address that all know beforehand.
class ServerSide {
 public:
  /// @param plan, state  outlive this object
  ServerSide(const LaunchPlan& plan, std::string secret, HostState& state)
      : plan_(plan), secret_(std::move(secret)), state_(state) {}

  /// Serves, or connects to the launcher that does. @throws Error, TimeoutError  if both fail
  void serve_or_find(WaitNotice& notice);
  /// The host that serves is lost. @return  false if the job ends
  bool take_over(const std::string& cause);
  /// The job's other hosts have another one that serves, which has found this launcher at the endpoint.
  void move_to(const SocketAddress& address);

 private:
  Coordinator::Times times() const;
  /// How this launcher's client connects. @param other  whether another host serves
  StoreClientOptions client_options(bool other) const;
  void hold_standby();
  std::shared_ptr<StoreClient> serve_next(const Coordinator::Takeover& takeover);
  std::shared_ptr<StoreClient> find_next(const Generation::Host& host);
  void resume(const std::shared_ptr<StoreClient>& client);

  const LaunchPlan& plan_;
  const std::string secret_;
  HostState& state_;
  std::optional<HeldPort> standby_port_;
  std::unique_ptr<EndpointWatch> endpoint_watch_;
};

}  // namespace lockstep
