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
  Deadline deadline = Deadline::never();             ///< of MPI's own start, at the first mesh of a process
  std::function<void(const MeshError&)> on_failure;  ///< as MakeMesh says
};

/// A mesh over MPI's messages between two ranks. MPI is started at the first one and ended with the process. This
/// header is free of MPI.
/// @throws Error  where no mpirun (or another starter that speaks PMI) started this process, or MPI does not come up
std::unique_ptr<Mesh> make_mpi_mesh(const MpiMeshOptions& options);

/// Makes `text` that of rank 0 of MPI's world on every rank: for ranks that know nothing of each other yet. Collective.
/// @throws Error  as make_mpi_mesh does
void tell_by_mpi(std::string& text, Deadline deadline);

}  // namespace lockstep

/// The module's entries. The caller owns the result.
extern "C" lockstep::Mesh* lockstep_make_mpi_mesh(const lockstep::MpiMeshOptions* options);
extern "C" void lockstep_tell_by_mpi(std::string* text, const lockstep::Deadline* deadline);
