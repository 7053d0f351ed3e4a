#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;  ///< numeric address of this host to which connections are bound
  /// Called if an operation fails by itself, in its thread, before the memory is given up and connections break.
  std::function<void(const MeshError&)> on_failure;
};

/// A mesh over Gloo's TCP transport. This header does not include Gloo either.
/// @throws Error  if the address cannot be bound
std::unique_ptr<Mesh> make_gloo_mesh(const GlooMeshOptions& options);

}  // namespace lockstep

/// The implementation's entry point, with C linkage so that it can be found by name in a module. The caller owns the
/// result.
extern "C" lockstep::Mesh* lockstep_make_gloo_mesh(const lockstep::GlooMeshOptions* options);
