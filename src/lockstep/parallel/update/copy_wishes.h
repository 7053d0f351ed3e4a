#pragma once

#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// What both kinds of bf16 copies agree on: whether a forward of any rank has asked for a copy that does not exist.
class CopyWishes {
 public:
  /// What is given must outlive this object.
  explicit CopyWishes(UpdateContext& context)
      : agreement_(context.agreement), communicator_(*context.communicator), wanted_(agreement_.any()) {}

  /// In `look`. @param are_wanted  a forward of this rank has asked
  void say(bool are_wanted) {
    if (are_wanted) agreement_.say(wanted_);
  }
  /// In `take_up`: whether one of any rank has.
  bool any() const { return agreement_.said(wanted_); }
  /// No forward has ever asked: rank 0 logs that, once.
  void note_unused();

 private:
  UpdateAgreement& agreement_;
  const Communicator& communicator_;
  const AnySlot wanted_;
  bool has_noted_ = false;
};

}  // namespace lockstep
