// Communicator::carrier: the choice of an engine for tensors on another kind of device.
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/communicator_state.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/subgroup.h"

namespace lockstep {

Communicator& Communicator::carrier(c10::Device device) {
  const bool is_known = device.is_cpu() || device.is_cuda();  // `check` refuses other devices
  if (!is_known || device.type() == device_type()) return *this;
  if (state_->origin != nullptr) return *state_->origin;
  const std::lock_guard<std::mutex> making(state_->making_companion);
  if (!state_->companion) {
    throw_if_dead();
    c10::OptionalDeviceGuard current;  // device engines connect on the current device
    if (!device.is_cpu()) current.reset_device(device);
    std::vector<int> all(static_cast<std::size_t>(world_size()));
    std::iota(all.begin(), all.end(), 0);
    const std::string kind = lower_case(c10::DeviceTypeName(device.type()));
    Membership members = subgroup(membership_, all, kind);
    members.join_timeout.reset();  // ranks reach their first call on such a device at very different times
    auto companion = make_companion(std::move(members), device);
    companion->state_->origin = this;
    if (rank() == 0) log_info("tensors on {} use engine {}, others use {}", kind, companion->engine(), engine());
    const std::lock_guard<std::mutex> lock(state_->mutex);  // `abort` may read it
    state_->companion = std::move(companion);
  }
  return *state_->companion;
}

Communicator& Communicator::carrier_of(const Request& request) {
  const at::Tensor& tensor = request.in.defined() ? request.in : request.out;
  return tensor.defined() ? carrier(tensor.device()) : *this;
}

}  // namespace lockstep
