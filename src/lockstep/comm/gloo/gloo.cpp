#include "lockstep/comm/gloo/gloo.h"

#include <utility>

#include "lockstep/comm/gloo/gloo_mesh.h"
#include "lockstep/comm/mesh/bring_up/bind_address.h"
#include "lockstep/comm/mesh/bring_up/reachability.h"
#include "lockstep/comm/mesh/bring_up/strangers.h"
#include "lockstep/comm/mesh/mesh_communicator.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {

std::unique_ptr<Communicator> make_gloo_communicator(Membership membership) {
  const MakeMesh make = [](const Membership& members, Deadline deadline,
                           std::function<void(const MeshError&)> on_failure) {
    GlooMeshOptions options;
    options.rank = members.rank;
    options.size = members.world_size;
    options.address = mesh_bind_address(members, "gloo", deadline);
    if (!members.on_one_network()) {
      // Each connection of Gloo is a port that takes the first who connects, and believes what it sends.
      warn_of_strangers(members, "gloo", options.address);
      const Listener listener = listen_at(SocketAddress::tcp(options.address, 0), deadline);  // until all have tried
      check_reachable(members, listener.address.text(), deadline);
    }
    options.on_failure = std::move(on_failure);
    return make_gloo_mesh(options);
  };
  return make_mesh_communicator(std::move(membership), "gloo", make);
}

}  // namespace lockstep
