#pragma once

#include <memory>
#include <utility>

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// While it lives, the context is that of one process which is not the first of its job.
class HiddenGroup {
 public:
  explicit HiddenGroup(TrainerContext& context)
      : context_(context), rank_(context.rank()), group_(std::move(context.group)) {
    context_.group = nullptr;
    context_.rank_alone = rank_;
  }
  ~HiddenGroup() {
    context_.group = std::move(group_);
    context_.rank_alone = 0;
  }
  HiddenGroup(const HiddenGroup&) = delete;
  HiddenGroup& operator=(const HiddenGroup&) = delete;

 private:
  TrainerContext& context_;
  int rank_;
  std::shared_ptr<Communicator> group_;
};

}  // namespace lockstep
