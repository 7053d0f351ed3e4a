#pragma once

#include <functional>
#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

/// Makes one rank's mesh; the connections themselves follow by `Mesh::connect`. `on_failure` is to be called where an
/// operation fails by itself, in its thread, before the memory is given up and connections break.
using MakeMesh = std::function<std::unique_ptr<Mesh>(const Membership& membership, Deadline deadline,
                                                     std::function<void(const MeshError&)> on_failure)>;

/// Brings up an engine of this name over a mesh. Collective. @throws Error  where a member does not come
std::unique_ptr<Communicator> make_mesh_communicator(Membership membership, const char* engine, const MakeMesh& make);

}  // namespace lockstep
