#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// Tells the others where this rank can be reached, and learns where they are.
/// @return  by rank, what `Mesh::connect` takes; empty for this rank
/// @throws Error         where a rank was lost meanwhile
/// @throws TimeoutError  naming the ranks that did not come
std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline);

}  // namespace lockstep
