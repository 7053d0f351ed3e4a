#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Waits until each of `ranks` has set its key, which is `prefix` and its number.
/// @throws Error  if a rank of the group was lost meanwhile, or another one has found that the group fails
/// @throws TimeoutError  naming the ranks that did not arrive
void wait_for_ranks(const Membership& membership, const std::vector<int>& ranks, const std::string& prefix,
                    Deadline deadline);

/// Publishes the addresses of this rank, and reads the others' addresses.
/// @return  by rank, what `Mesh::connect` takes; empty for this rank
/// @throws Error  if a rank was lost meanwhile
/// @throws TimeoutError  naming the ranks that did not arrive
std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline);

/// The end of a group's start. A rank that leaves breaks its connections, which would end the start of a rank that is
/// still connecting.
/// @throws Error  if a rank was lost meanwhile, or failed to connect
/// @throws TimeoutError  naming the ranks that have not connected
void wait_until_all_connected(const Membership& membership, Deadline deadline);

}  // namespace lockstep
