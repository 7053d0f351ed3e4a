#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Facts about one step that every rank must learn from all ranks. They are sent behind the gradients of the last
/// bucket and reduced with them, so they need no message of their own. A fact is true if any rank set it.
class BackwardFlags {
 public:
  /// @param counts_updates  there is a number of the update, too
  BackwardFlags(std::size_t parameters, int world_size, bool counts_updates = false);

  /// Number of elements of the flags.
  std::int64_t numel() const { return static_cast<std::int64_t>(values_.size()); }
  void clear();

  /// This rank has a gradient for the parameter.
  void set_contributed(std::size_t parameter) { values_[parameter] = 1; }
  /// This rank got a gradient for the parameter after it had launched the bucket.
  void set_late(std::size_t parameter) { values_[parameters_ + parameter] = 1; }
  /// This rank's parameters got other memory, and perhaps other values, since the last step.
  void set_moved() { values_[moved_at_] = 1; }
  /// Bits that must be equal on all ranks that set them.
  void set_bits(std::uint32_t bits) { write_bits(bits_at(), kBits, bits); }
  /// A number of which averages of earlier backwards this rank has put aside: equal on all ranks that say it.
  void set_put_aside(std::uint32_t which) { write_bits(aside_at(), kBits, which); }
  /// The number of the module whose backward it is: equal on all ranks.
  void set_module(int number) { write_bits(module_at(), kModuleBits, static_cast<std::uint64_t>(number)); }
  /// A number of the parameters that are frozen: equal on all ranks that say it.
  void set_frozen(std::uint64_t number) { write_bits(frozen_at(), kFrozenBits, number); }
  /// How many batches this rank has left out: should be equal on all ranks that say it.
  void set_left_out(std::uint64_t number) { write_bits(left_out_at(), kLeftOutBits, number); }
  /// A number of the update that must be equal on all ranks.
  void set_update(std::uint64_t update) { write_bits(update_at(), kUpdateBits, update); }
  /// This rank has run out of inputs.
  void set_joined(int rank) { values_[2 * parameters_ + static_cast<std::size_t>(rank)] = 1; }

  bool contributed(std::size_t parameter) const { return values_[parameter] > 0; }
  bool late(std::size_t parameter) const { return values_[parameters_ + parameter] > 0; }
  bool joined(int rank) const { return values_[2 * parameters_ + static_cast<std::size_t>(rank)] > 0; }
  bool moved() const { return values_[moved_at_] > 0; }
  /// The bits that are not equal on all ranks that set them.
  std::uint32_t differing_bits() const { return static_cast<std::uint32_t>(differing_bits(bits_at(), kBits)); }
  bool put_aside_differs() const { return differing_bits(aside_at(), kBits) != 0; }
  bool modules_differ() const { return differing_bits(module_at(), kModuleBits) != 0; }
  bool frozen_differs() const { return differing_bits(frozen_at(), kFrozenBits) != 0; }
  bool left_out_differs() const { return differing_bits(left_out_at(), kLeftOutBits) != 0; }
  bool updates_differ() const { return differing_bits(update_at(), kUpdateBits) != 0; }
  bool any_late() const;

  /// Copies the flags into `memory` [numel()], of a floating-point dtype, before its sum or average over the ranks.
  void write(at::Tensor memory) const;
  /// Reads the flags back after the reduction.
  void read(const at::Tensor& memory);

 private:
  static constexpr std::size_t kBits = 32;
  static constexpr std::size_t kModuleBits = 8;
  static constexpr std::size_t kFrozenBits = 16;
  static constexpr std::size_t kLeftOutBits = 4;
  static constexpr std::size_t kUpdateBits = 64;

  std::size_t bits_at() const { return moved_at_ + 1; }
  std::size_t aside_at() const { return bits_at() + 2 * kBits; }
  std::size_t module_at() const { return aside_at() + 2 * kBits; }
  std::size_t frozen_at() const { return module_at() + 2 * kModuleBits; }
  std::size_t left_out_at() const { return frozen_at() + 2 * kFrozenBits; }
  std::size_t update_at() const { return left_out_at() + 2 * kLeftOutBits; }
  void write_bits(std::size_t at, std::size_t count, std::uint64_t bits);
  std::uint64_t differing_bits(std::size_t at, std::size_t count) const;

  std::size_t parameters_;
  std::size_t moved_at_;
  // contributed, late, joined, moved; for each bit, also of what follows them: a rank has it, a rank has it not
  std::vector<float> values_;
};

}  // namespace lockstep
