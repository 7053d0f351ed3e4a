#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// Waits until each of `ranks` has set its key, which is `prefix` and its number.
/// @throws Error         where one of the group was lost meanwhile
/// @throws TimeoutError  naming those that did not come
void wait_for_ranks(const Membership& membership, const std::vector<int>& ranks, const std::string& prefix,
                    Deadline deadline);

/// Tells the others where this rank can be reached, and learns where they are.
/// @return  by rank, what `Mesh::connect` takes; empty for this rank
/// @throws Error         where a rank was lost meanwhile
/// @throws TimeoutError  naming the ranks that did not come
std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline);

}  // namespace lockstep
