#pragma once

#include <functional>
#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

/// Makes one rank's mesh; `Mesh::connect` then makes the connections. The mesh must call `on_failure` if an operation
/// fails by itself, in its thread, before the memory is given up and connections break.
using MakeMesh = std::function<std::unique_ptr<Mesh>(const Membership& membership, Deadline deadline,
                                                     std::function<void(const MeshError&)> on_failure)>;

/// Connects an engine of this name over a mesh. Collective. @throws Error  if a member does not arrive
std::unique_ptr<Communicator> make_mesh_communicator(Membership membership, const char* engine, const MakeMesh& make);

}  // namespace lockstep
