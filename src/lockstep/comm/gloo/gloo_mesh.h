#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;  ///< numeric, of this host: what connections are bound to
  /// Called where an operation fails by itself, in its thread, before the memory is given up and connections break.
  std::function<void(const MeshError&)> on_failure;
};

/// A mesh over Gloo's TCP transport. This header is free of Gloo, too.
/// @throws Error  where the address cannot be bound
std::unique_ptr<Mesh> make_gloo_mesh(const GlooMeshOptions& options);

}  // namespace lockstep

/// The implementation's entry, C so that a module's can be found by name. The caller owns the result.
extern "C" lockstep::Mesh* lockstep_make_gloo_mesh(const lockstep::GlooMeshOptions* options);
