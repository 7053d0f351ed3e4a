#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/optim/update/fused_segment.h"

namespace lockstep {

/// One feature of a fused update: what it adds to moments that exist anyway. The update calls each moment of all parts,
/// in the order in which they were made.
///
///   an agreement   look ─▶ (gradients are collected) ─▶ ONE MESSAGE ─▶ check ─▶ take_up ─▶ (gradients are reduced)
///   a step         an agreement ─▶ (norm) ─▶ for each bucket: targets ─▶ (the kernel; weights are sent)
///                    ─▶ for each bucket that messages bring: received ─▶ weights_are_here ─▶ ended
///
/// A step has one agreement, clipping before it two more. A part knows the others by UpdateContext alone.
class UpdatePart {
 public:
  UpdatePart() = default;
  virtual ~UpdatePart() = default;
  UpdatePart(const UpdatePart&) = delete;
  UpdatePart& operator=(const UpdatePart&) = delete;

  /// What this rank has to say: into slots of the agreement, or into the faults. The agreement has this rank's request,
  /// or knows that it has run out of inputs. Not collective.
  virtual void look() {}
  /// Throws AgreedError if the ranks cannot do together what they ask for. All ranks throw at the same place. Changes
  /// nothing. Collective only on the way to an Error, or to a warning.
  virtual void check() {}
  /// Acts on what all ranks know. Collective, or not, alike on all ranks. May throw AgreedError.
  virtual void take_up() {}
  /// Adds to what the kernel writes in its pass over a bucket. @param bucket  its place in the context's list
  virtual void targets(std::size_t, SegmentUpdate&) {}
  /// Weights that other ranks have updated have arrived in this bucket.
  virtual void received(std::size_t) {}
  /// All weights are up to date on this rank. Collective, or not, alike on all ranks.
  virtual void weights_are_here() {}
  /// The update is made, or left out on all ranks.
  virtual void ended() {}
};

/// The parts of an update. The last one goes first, for each may use what those before it own.
class PartList {
 public:
  PartList() = default;
  ~PartList() { clear(); }
  PartList(const PartList&) = delete;
  PartList& operator=(const PartList&) = delete;

  template <typename Part, typename... Arguments>
  Part& add(Arguments&&... arguments) {
    auto part = std::make_unique<Part>(std::forward<Arguments>(arguments)...);
    Part& result = *part;
    parts_.push_back(std::move(part));
    return result;
  }
  /// Takes this part away before the others.
  void remove(const UpdatePart& part) {
    parts_.erase(std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.get() == &part; }));
  }
  void clear() {
    while (!parts_.empty()) parts_.pop_back();
  }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }

 private:
  std::vector<std::unique_ptr<UpdatePart>> parts_;
};

}  // namespace lockstep
