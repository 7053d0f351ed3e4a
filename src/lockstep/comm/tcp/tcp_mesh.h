#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

struct TcpMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;                    ///< numeric address of this host where the others connect
  std::string job_key;                    ///< see net/peers/job_key.h
  std::string group;                      ///< equal on every rank, unique in the job
  Deadline deadline = Deadline::never();  ///< for listening
  /// Called if an operation fails by itself, in its thread, before the memory is given up and connections break.
  std::function<void(const MeshError&)> on_failure;
};

/// A mesh of TCP connections of our own.
struct TcpMeshPlace {
  std::unique_ptr<Mesh> mesh;
  std::string listens_at;  ///< "tcp:10.0.0.1:40113", until all have connected
};

/// @throws Error  if the address cannot be bound
TcpMeshPlace make_tcp_mesh(const TcpMeshOptions& options);

}  // namespace lockstep
