#include "lockstep/comm/gloo/gloo.h"

#include <utility>

#include "lockstep/comm/gloo/bind_address.h"
#include "lockstep/comm/gloo/gloo_mesh.h"
#include "lockstep/comm/gloo/reachability.h"
#include "lockstep/comm/mesh/mesh_communicator.h"

namespace lockstep {

std::unique_ptr<Communicator> make_gloo_communicator(Membership membership) {
  const MakeMesh make = [](const Membership& members, Deadline deadline,
                           std::function<void(const MeshError&)> on_failure) {
    GlooMeshOptions options;
    options.rank = members.rank;
    options.size = members.world_size;
    options.address = gloo_bind_address(members, deadline);
    check_reachable(members, options.address, deadline);
    options.on_failure = std::move(on_failure);
    return make_gloo_mesh(options);
  };
  return make_mesh_communicator(std::move(membership), "gloo", make);
}

}  // namespace lockstep
