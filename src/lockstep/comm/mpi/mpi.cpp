#include "lockstep/comm/mpi/mpi.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/mesh/bring_up/bring_up.h"
#include "lockstep/comm/mesh/bring_up/strangers.h"
#include "lockstep/comm/mesh/engine_module.h"
#include "lockstep/comm/mesh/mesh_communicator.h"
#include "lockstep/comm/mpi/mpi_mesh.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/host_address.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {

namespace {

/// How long MPI's own start may take, if the group's timeout is shorter.
constexpr std::chrono::milliseconds kStart{60'000};

// Open MPI's plug-ins look up its names in the program's own scope, so RTLD_GLOBAL is needed. Its dependencies (hwloc,
// libevent) are not libraries of LibTorch.
template <typename Function>
Function* mpi_module_entry(const char* name) {
  return reinterpret_cast<Function*>(load_engine_module(
      LOCKSTEP_MPI_MODULE_NAME, LOCKSTEP_MPI_MODULE_BUILT, name, RTLD_NOW | RTLD_GLOBAL,
      "keep " LOCKSTEP_MPI_MODULE_NAME " beside the program or in ../lib, and install the MPI that it was built with"));
}

}  // namespace

std::unique_ptr<Mesh> make_mpi_mesh(const MpiMeshOptions& options) {
  static auto* const make = mpi_module_entry<decltype(lockstep_make_mpi_mesh)>("lockstep_make_mpi_mesh");
  return std::unique_ptr<Mesh>(make(&options));
}

void tell_by_mpi(std::string& text, Deadline deadline) {
  static auto* const tell = mpi_module_entry<decltype(lockstep_tell_by_mpi)>("lockstep_tell_by_mpi");
  tell(&text, &deadline);
}

std::unique_ptr<Communicator> make_mpi_communicator(Membership membership) {
  const MakeMesh make = [](const Membership& members, Deadline deadline,
                           std::function<void(const MeshError&)> on_failure) {
    MpiMeshOptions options;
    options.rank = members.rank;
    options.size = members.world_size;
    options.group = members.group;
    warn_of_strangers(members, "mpi", "MPI's ports");
    // The store names the ranks that do not arrive; MPI could only wait.
    const char* const prefix = "mpi/starts/";
    members.store->set(prefix + std::to_string(members.rank), "1");
    std::vector<int> all(static_cast<std::size_t>(members.world_size));
    std::iota(all.begin(), all.end(), 0);
    wait_for_ranks(members, all, prefix, deadline);
    options.deadline = Deadline::after(std::max(kStart, deadline.remaining()));
    options.on_failure = std::move(on_failure);
    return make_mpi_mesh(options);
  };
  return make_mesh_communicator(std::move(membership), "mpi", make);
}

void meet_by_mpi(Deadline deadline) {
  if (encryption_is_demanded()) {
    throw Error("LOCKSTEP_ENCRYPT asks for encryption, but MPI would send the job's secret in clear text", host_name(),
                "give all ranks MASTER_ADDR, MASTER_PORT and LOCKSTEP_SECRET (mpirun -x)");
  }
  std::string text;
  if (env_int("RANK").value_or(-1) == 0) {
    const SocketAddress address = SocketAddress::tcp(address_for_other_hosts(deadline), 0);
    std::string secret = secret_from_environment();
    if (secret.empty()) secret = make_secret();
    // A port that is free now. Another program may take it before the store does; the store then reports that.
    text = listen_at(address, deadline).address.text() + ' ' + secret;
  }
  tell_by_mpi(text, deadline);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) {
    throw Error("rank 0 did not publish its address", "this process group, over MPI",
                "call init_process_group on rank 0 in the same way, or set MASTER_ADDR and MASTER_PORT");
  }
  const SocketAddress address = SocketAddress::parse(text.substr(0, space));
  ::setenv("MASTER_ADDR", address.host.c_str(), 1);
  ::setenv("MASTER_PORT", std::to_string(address.port).c_str(), 1);
  ::setenv("LOCKSTEP_SECRET", text.substr(space + 1).c_str(), 1);
}

}  // namespace lockstep
