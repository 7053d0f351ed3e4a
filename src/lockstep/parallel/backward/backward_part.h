#pragma once

#include <cstddef>

#include "lockstep/parallel/backward/backward_flags.h"

namespace lockstep {

/// One feature of a synchronised backward. Each moment has an empty default. The parts are called in the order of
/// `make_backward_parts`, under the reducer's lock, by the threads of autograd's engine.
///
///   a backward              begins ─▶ ends ─▶ FLAGS ─▶ check ─▶ restored ─▶ meets(true)
///   slices are added up     begins ─▶ ends ─▶ FLAGS ─▶ check
///   a rank without inputs   joins ──▶ ends ─▶ FLAGS ─▶ check ─▶ meets(false)
///
/// If the fused update has all buckets, there are no flags, and neither `ends` nor `check` is called: UpdateAgreement
/// carries such facts.
class BackwardPart {
 public:
  virtual ~BackwardPart() = default;
  /// Before a backward: parameters got other memory of the same shape and type (torch::load), so many of each kind.
  virtual void moved(std::size_t /*dense*/, std::size_t /*sparse*/) {}
  /// Removes gradients that lie in no bucket.
  virtual void drops() {}

  virtual void begins(BackwardFlags& /*mine*/) {}
  virtual void joins() {}
  /// All gradients are there, and the flags leave. Not collective.
  virtual void ends(BackwardFlags& /*mine*/) {}
  /// What all ranks know. Collective only on the way to a warning or an Error, which all ranks throw alike.
  virtual void check(const BackwardFlags& /*all*/) {}
  /// The averages are in `grad`.
  virtual void restored() {}
  /// For messages of the part's own. Not called if ranks' models may differ. Collective.
  /// @param has_inputs  false: this rank has none left, and no gradients
  virtual void meets(bool /*has_inputs*/) {}
};

}  // namespace lockstep
