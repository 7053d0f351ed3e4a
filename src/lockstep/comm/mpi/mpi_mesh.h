#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

struct MpiMeshOptions {
  int rank = 0;
  int size = 1;
  std::string group;                                 ///< keeps the messages of groups apart
  Deadline deadline = Deadline::never();             ///< for the start of MPI itself, at the first mesh of a process
  std::function<void(const MeshError&)> on_failure;  ///< see MakeMesh
};

/// A mesh over MPI's messages between two ranks. MPI starts with the first mesh and ends with the process. This header
/// does not include MPI.
/// @throws Error  if no mpirun (or another starter that speaks PMI) started this process, or MPI does not start
std::unique_ptr<Mesh> make_mpi_mesh(const MpiMeshOptions& options);

/// Sets `text` on every rank to the `text` of rank 0 of MPI's world: for ranks that know nothing of each other yet.
/// Collective.
/// @throws Error  as make_mpi_mesh
void tell_by_mpi(std::string& text, Deadline deadline);

}  // namespace lockstep

/// The module's entry points. The caller owns the result.
extern "C" lockstep::Mesh* lockstep_make_mpi_mesh(const lockstep::MpiMeshOptions* options);
extern "C" void lockstep_tell_by_mpi(std::string* text, const lockstep::Deadline* deadline);
