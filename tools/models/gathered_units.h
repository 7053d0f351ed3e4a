#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/reducer/bucket_layout.h"

namespace lockstep {

/// By unit, the bytes of a part: the unit's weights alone, those of which forwards read bf16 copies in bf16. 0: it has
/// no such weights, and is gathered by its buckets.
/// @param bytes  of each parameter, fp32
/// @param units  as below
/// @param has_copy  by parameter; empty: none has a copy
std::vector<std::int64_t> unit_parts(const std::vector<std::int64_t>& bytes, const std::vector<std::size_t>& units,
                                     const std::vector<bool>& has_copy);

/// What stage 3 gathers when it computes with a unit: its part, or whole buckets, all that have any of its weights.
class GatheredUnits {
 public:
  /// @param units  by parameter, in registration order: the unit that it belongs to, 0 if it is outside of all. Empty:
  /// all are outside.
  /// @param parts  unit_parts; empty if units have no parts
  GatheredUnits(const std::vector<BucketLayout>& buckets, const std::vector<std::size_t>& units,
                std::vector<std::int64_t> parts = {});

  /// The units' numbers, as forward is taken to run them: in the order of their first parameters.
  const std::vector<std::size_t>& order() const { return order_; }
  /// The bytes of each message that brings weights outside of units.
  std::vector<std::int64_t> outside() const;
  /// The bytes of each message that must be gathered for the unit at `place` of the order while the one at `neighbour`,
  /// and what is outside of units, is here already.
  std::vector<std::int64_t> beside(std::size_t place, std::size_t neighbour) const;
  /// The most that is here at a time: what is outside of units, and two neighbours.
  std::int64_t most_bytes() const;

 private:
  bool has(std::size_t unit, std::size_t bucket) const { return has_[unit][bucket]; }
  std::int64_t part(std::size_t unit) const { return unit < parts_.size() ? parts_[unit] : 0; }
  /// Whether the unit brings this bucket.
  bool brings(std::size_t unit, std::size_t bucket) const { return part(unit) == 0 && has(unit, bucket); }

  std::vector<std::int64_t> bytes_;     // by bucket
  std::vector<std::vector<bool>> has_;  // by unit and bucket; [0] is what is outside
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> parts_;  // by unit
};

}  // namespace lockstep
