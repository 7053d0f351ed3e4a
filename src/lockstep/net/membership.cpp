#include "lockstep/net/membership.h"

#include <fmt/format.h>

namespace lockstep {

std::string Membership::where() const {
  const auto index = static_cast<std::size_t>(rank);
  const std::string host = index < peers.size() ? " on " + peers[index].host : std::string();
  const std::string named = group == "default" ? std::string() : ", group " + group;
  return fmt::format("rank {} of {}{}{}", rank, world_size, host, named);
}

}  // namespace lockstep
