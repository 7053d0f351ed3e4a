#include "lockstep/comm/hierarchical/host_parts.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/subgroup.h"

namespace lockstep {
namespace {

/// The parts give up later than the whole group, which knows all ranks and reports better who is late.
constexpr std::chrono::seconds kRearGuard{5};

std::string engine_between_hosts(const Membership& membership) {
  if (const auto wanted = env_string("LOCKSTEP_INTER_HOST_ENGINE")) {
    if (*wanted == "tcp" || *wanted == "gloo" || *wanted == "mpi") return *wanted;
    throw Error(fmt::format("LOCKSTEP_INTER_HOST_ENGINE is \"{}\"", *wanted), membership.where(),
                "set it to tcp, gloo or mpi, or unset it");
  }
  return "tcp";
}

Membership part_of(const Membership& whole, const std::vector<int>& ranks, const std::string& name) {
  Membership part = subgroup(whole, ranks, name);
  part.rear_guard = kRearGuard;
  return part;
}

}  // namespace

HostParts::HostParts(const Membership& membership) : layout(membership) {
  const std::string between = engine_between_hosts(membership);
  local = make_communicator("", part_of(membership, layout.here(), fmt::format("host{}", layout.host)));
  std::vector<int> all(static_cast<std::size_t>(membership.world_size));
  std::iota(all.begin(), all.end(), 0);
  flat = make_communicator(between, part_of(membership, all, "flat"));
  if (layout.place < layout.lanes) {
    lane =
        make_communicator(between, part_of(membership, layout.lane(layout.place), fmt::format("lane{}", layout.place)));
  }
  if (membership.rank == 0) {
    log_info("hierarchical: {} hosts, {} lanes; {} inside a host, {} between hosts", layout.host_count(), layout.lanes,
             local->engine(), between);
  }
}

void HostParts::break_connections() noexcept {
  for (Communicator* part : {lane.get(), flat.get(), local.get()}) {
    if (part == nullptr) continue;
    try {
      part->abort("the whole group ended");
    } catch (const std::exception& error) {
      log_warning("{}", error.what());
    }
  }
}

}  // namespace lockstep
