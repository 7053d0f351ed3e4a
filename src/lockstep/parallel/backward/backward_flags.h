#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Facts about one step that every rank must learn from all ranks. They are sent behind the gradients of the last
/// bucket and reduced with them, so they need no message of their own. A fact is true if any rank says it.
///
/// Each part of a backward claims facts of its own, alike on all ranks. The order of the claims is the layout.
class BackwardFlags {
 public:
  /// True if any rank says so.
  struct Any {
    std::size_t at = 0;
  };
  /// A number that should be equal on all ranks that say one.
  struct Equal {
    std::size_t at = 0;
    std::size_t bits = 0;  ///< the lowest ones of the number, which are compared
  };

  BackwardFlags(std::size_t parameters, int world_size);

  Any claim_any();
  Equal claim_equal(std::size_t bits);
  /// Number of elements of the flags.
  std::int64_t numel() const { return static_cast<std::int64_t>(values_.size()); }
  void clear();

  void say(Any fact) { values_[fact.at] = 1; }
  void say(Equal fact, std::uint64_t number);
  bool is_said(Any fact) const { return values_[fact.at] > 0; }
  /// The bits that are not equal on all ranks that say a number.
  std::uint64_t differing_bits(Equal fact) const;
  bool differs(Equal fact) const { return differing_bits(fact) != 0; }

  /// This rank has a gradient for the parameter.
  void set_contributed(std::size_t parameter) { values_[parameter] = 1; }
  /// This rank got a gradient for the parameter after it had launched the bucket.
  void set_late(std::size_t parameter) { values_[parameters_ + parameter] = 1; }
  /// This rank has run out of inputs.
  void set_joined(int rank) { values_[2 * parameters_ + static_cast<std::size_t>(rank)] = 1; }
  bool contributed(std::size_t parameter) const { return values_[parameter] > 0; }
  bool late(std::size_t parameter) const { return values_[parameters_ + parameter] > 0; }
  bool any_late() const;
  bool joined(int rank) const { return values_[2 * parameters_ + static_cast<std::size_t>(rank)] > 0; }
  /// By rank: it has inputs.
  std::vector<bool> active_ranks() const;

  /// Copies the flags into `memory` [numel()], of a floating-point dtype, before its sum or average over the ranks.
  void write(at::Tensor memory) const;
  /// Reads the flags back after the reduction.
  void read(const at::Tensor& memory);

 private:
  std::size_t parameters_;
  int world_size_;
  // contributed, late, joined, and what was claimed. A number has two elements for each bit: a rank has it, a rank has
  // it not.
  std::vector<float> values_;
};

}  // namespace lockstep
