#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The properties of one gradient that decide about its bucket.
struct GradientSize {
  std::int64_t bytes = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

/// Upper bounds of buckets, of each dtype. A larger gradient gets a bucket of its own.
struct BucketCaps {
  std::int64_t first_bytes = std::int64_t{1} << 20;   ///< of the first bucket: small, so that sending starts early
  std::int64_t other_bytes = std::int64_t{25} << 20;  ///< of each bucket after it

  /// Between hosts the link is the bottleneck: small buckets keep it busy while backward fills the next ones. Buckets
  /// smaller than these lose more to the latency of each all-reduce than they gain.
  static constexpr BucketCaps between_hosts() { return {std::int64_t{1} << 20, std::int64_t{2} << 20}; }

  /// If gradients are shared out, a rank has memory for a few buckets: small ones take little.
  static constexpr BucketCaps of_shares() { return {std::int64_t{2} << 20, std::int64_t{2} << 20}; }
};

/// Gradients that are sent in one all-reduce.
struct BucketLayout {
  std::vector<std::size_t> params;  ///< indices into the replica's parameter list, in sending order
  std::int64_t bytes = 0;           ///< sum of the gradients' sizes
};

/// Groups gradients into buckets of one dtype each, last parameter first.
///
/// Backward computes gradients in about the reverse of registration order, so the first bucket fills while most of
/// backward still runs, and its all-reduce overlaps the rest (Li et al., 2020, arXiv:2006.15704, section 3.2). Buckets
/// are ordered by the time at which they fill up.
///
/// @param gradients  in registration order
/// @return  every index exactly once; equal on all ranks, because it depends only on the arguments
/// @throws Error  if a cap is not positive
std::vector<BucketLayout> make_buckets(const std::vector<GradientSize>& gradients, const BucketCaps& caps);

}  // namespace lockstep
