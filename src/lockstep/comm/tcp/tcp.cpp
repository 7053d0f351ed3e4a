#include "lockstep/comm/tcp/tcp.h"

#include <utility>

#include "lockstep/comm/mesh/bring_up/bind_address.h"
#include "lockstep/comm/mesh/bring_up/reachability.h"
#include "lockstep/comm/mesh/mesh_communicator.h"
#include "lockstep/comm/tcp/tcp_mesh.h"
#include "lockstep/net/peers/job_key.h"

namespace lockstep {

std::unique_ptr<Communicator> make_tcp_communicator(Membership membership) {
  const MakeMesh make = [](const Membership& members, Deadline deadline,
                           std::function<void(const MeshError&)> on_failure) {
    TcpMeshOptions options;
    options.rank = members.rank;
    options.size = members.world_size;
    options.address = mesh_bind_address(members, "tcp", deadline);
    options.job_key = job_key(*members.store);
    options.group = members.group;
    options.deadline = deadline;
    options.on_failure = std::move(on_failure);
    TcpMeshPlace place = make_tcp_mesh(options);
    check_reachable(members, place.listens_at, deadline);
    return std::move(place.mesh);
  };
  return make_mesh_communicator(std::move(membership), "tcp", make);
}

}  // namespace lockstep
