#include "lockstep/comm/mesh/bring_up/nccl_interface.h"

#include <cstdlib>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/mesh/bring_up/bind_address.h"

namespace lockstep {

void name_interface_for_nccl(const Membership& membership, Deadline deadline) {
  if (membership.on_one_network()) return;
  try {
    const std::string interface = interface_of(mesh_bind_address(membership, "nccl", deadline));
    if (interface == "unknown") return;
    ::setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), /*overwrite=*/0);  // "=": exactly this name
  } catch (const TimeoutError&) {
    throw;
  } catch (const Error& error) {
    log_debug("NCCL chooses its interface by itself: {}", error.happened());
  }
}

}  // namespace lockstep
