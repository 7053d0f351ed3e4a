#pragma once

#include <cstddef>

#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_pass.h"

namespace lockstep {

/// Each rank updates what it owns, by its optimizer.
class PlainPass final : public UpdatePass {
 public:
  /// What is given must outlive this object.
  explicit PlainPass(UpdateContext& context) : context_(context) {}

  void run(std::size_t bucket, const SegmentUpdate& update) override {
    context_.optimizer.update_segment(bucket, update);
  }
  NamedState whole_state(const NamedParameters& names) const override {
    return gather_optimizer_state(*context_.communicator, context_.optimizer, names);
  }

 private:
  UpdateContext& context_;
};

}  // namespace lockstep
