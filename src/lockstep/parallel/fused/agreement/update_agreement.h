#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// A rank's request for the gradients.
struct UpdateRequest {
  enum class Kind { Update, Norm, Scale };
  Kind kind = Kind::Update;
  StepOptions options;                  ///< for Update
  ClipOptions clip;                     ///< for Norm
  double factor = 1;                    ///< for Scale
  std::uint64_t selection = 0;          ///< identifies the parameters of Norm and Scale
  std::vector<std::size_t> parameters;  ///< these parameters' indices. Not sent
};

/// A fact that some rank says: where it is among the bytes of the agreement.
struct AnySlot {
  std::size_t at = 0;
};

/// A value that must be equal on all ranks that say one: where it is, with its complement behind it. The maxima of both
/// over all ranks are complements of each other only if all values are equal.
template <typename Value>
struct EqualSlot {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::size_t at = 0;
};

/// What every rank must learn from all ranks before a fused update: which ranks have a gradient for which parameter,
/// which have run out of inputs, whether all have the same request, whether writes were found that are forbidden, and
/// what each part of the update has to say in slots of its own. One small message: the largest of each byte.
class UpdateAgreement {
 public:
  UpdateAgreement(std::size_t parameters, int world_size);

  /// Slots for a part of the update. Call it before the first `exchange`, in the same order on all ranks.
  AnySlot any() { return {claim(1)}; }
  template <typename Value>
  EqualSlot<Value> equal() {
    return {claim(2 * sizeof(Value))};
  }

  void clear();
  /// [parameters]: 1 if this rank (after the exchange: any rank) has a gradient.
  std::vector<std::uint8_t>& contributed() { return contributed_; }
  const std::vector<std::uint8_t>& contributed() const { return contributed_; }
  void set_request(const UpdateRequest& request);
  /// This rank has run out of inputs and follows the others' request.
  void set_joined(int rank) { joined_[static_cast<std::size_t>(rank)] = 1; }
  /// This rank has found a fault.
  void set_faulty() { say(faulty_); }
  void say(AnySlot slot) { slots_[slot.at] = 1; }
  template <typename Value>
  void say(EqualSlot<Value> slot, const Value& value) {
    write(slot.at, &value, sizeof(value));
  }

  /// Collective. When it returns, every rank has entered: what each rank wrote before, the others may read.
  void exchange(Communicator& communicator);

  /// What all ranks have, or this one, if they differ. Indices of parameters are there if this rank has a request.
  const UpdateRequest& request() const { return request_; }
  /// Whether this rank has a request.
  bool has_request() const { return has_request_; }
  bool requests_differ() const { return differs(request_slot_); }
  bool faulty() const { return said(faulty_); }  ///< on any rank
  /// Whether any rank says so.
  bool said(AnySlot slot) const { return slots_[slot.at] != 0; }
  /// The value of the ranks that say one.
  template <typename Value>
  std::optional<Value> value(EqualSlot<Value> slot) const {
    if (!is_written(slot.at, sizeof(Value))) return std::nullopt;
    Value value;
    std::memcpy(&value, &slots_[slot.at], sizeof(value));
    return value;
  }
  template <typename Value>
  bool differs(EqualSlot<Value> slot) const {
    for (std::size_t i = 0; i < sizeof(Value); ++i) {
      if (differs(slot.at + i, sizeof(Value))) return true;
    }
    return false;
  }
  /// All bits of the bytes in which the ranks that say a value differ.
  template <typename Value>
  Value differing_bytes(EqualSlot<Value> slot) const {
    static_assert(std::is_unsigned_v<Value>);
    Value bits = 0;
    for (std::size_t i = 0; i < sizeof(Value); ++i) {
      if (differs(slot.at + i, sizeof(Value))) bits |= static_cast<Value>(Value{0xff} << (8 * i));
    }
    return bits;
  }
  /// By rank: it has inputs.
  std::vector<bool> active() const;
  bool joined(int rank) const { return joined_[static_cast<std::size_t>(rank)] != 0; }
  int active_ranks() const;  ///< number of ranks that have inputs
  int lowest_active_rank() const;

 private:
  using RequestNumbers = std::array<double, 11>;

  static RequestNumbers numbers_of(const UpdateRequest& request);
  static UpdateRequest request_of(const RequestNumbers& numbers);
  std::size_t claim(std::size_t bytes);
  void write(std::size_t at, const void* value, std::size_t size);
  bool is_written(std::size_t at, std::size_t size) const;
  /// Whether ranks wrote different values for a byte, whose complement is `distance` bytes behind it. Zeros on ranks
  /// that wrote nothing do not count.
  bool differs(std::size_t at, std::size_t distance) const;

  std::vector<std::uint8_t> contributed_;
  std::vector<std::uint8_t> joined_;
  std::vector<std::uint8_t> slots_;
  at::Tensor message_;  // made by the first exchange
  EqualSlot<RequestNumbers> request_slot_;
  AnySlot faulty_;
  bool has_request_ = false;
  UpdateRequest request_;
};

}  // namespace lockstep
