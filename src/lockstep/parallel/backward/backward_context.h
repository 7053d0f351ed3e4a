#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/parallel/step_statistics.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/replica_watch.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/backward/backward_flags.h"
#include "lockstep/parallel/backward/bucket_reduction.h"
#include "lockstep/parallel/reducer/backward_trace.h"
#include "lockstep/parallel/reducer/join_period.h"

namespace lockstep {

/// What the parts of a backward say in its flags. The order is their layout, which must not change: it decides where
/// engines cut the last bucket's message, and with that the bits of some sums. So each fact is claimed, whether its
/// part is there or not.
struct BackwardFacts {
  /// @param counts_updates  there is a number of the update, too
  BackwardFacts(BackwardFlags& flags, bool counts_updates)
      : moved(flags.claim_any()),
        replicas(flags.claim_equal(32)),
        put_aside(flags.claim_equal(32)),
        module(flags.claim_equal(8)),
        frozen(flags.claim_equal(16)),
        left_out(flags.claim_equal(4)),
        update(flags.claim_equal(counts_updates ? 64 : 0)) {}

  BackwardFlags::Any moved;  ///< a rank's parameters got other memory, and perhaps other values, since the last step
  BackwardFlags::Equal replicas, put_aside, module, frozen, left_out, update;
};

/// A module's parameters, by how their gradients are averaged.
struct ReducerParameters {
  std::vector<NamedTensor> dense;   ///< in buckets; "the parameters" of a reducer are these
  std::vector<NamedTensor> sparse;  ///< row by row, at the end of backward
  std::vector<NamedTensor> frozen;  ///< require no gradient
};

/// All that require a gradient, beginning with the dense ones.
std::vector<NamedTensor> trained_of(const ReducerParameters& parameters);

/// What a backward and its parts share. A part reads it, and claims nothing: its fact is in `facts`.
struct BackwardContext {
  BackwardContext(std::shared_ptr<Communicator> group, const ReducerParameters& parameters, bool counts_updates);
  /// What `replicas` sees, for the message that leaves. Nothing while ranks join, because a rank without inputs has
  /// older weights.
  std::optional<std::uint32_t> look_at_replicas();

  std::shared_ptr<Communicator> communicator;
  BackwardFlags flags;
  BackwardFacts facts;
  JoinPeriod join;
  std::unique_ptr<BucketReduction> reduction;
  ReplicaWatch replicas;  ///< watches all parameters but those in buckets that a fused update keeps
  /// A fused update keeps all buckets: nothing is sent in backward that could carry flags.
  bool all_kept = false;
  StepStatistics statistics;
  StepCounter place;
  std::shared_ptr<BackwardTrace> trace;
  int module = 0;            ///< its number, which is equal on all ranks: WrappedModule::number
  std::uint64_t update = 0;  ///< whose slices are added up, by the number that run_shards was given
  /// Synchronised forwards whose outputs are gone without a backward through them. Outputs may be destroyed by other
  /// threads, and after the reducer.
  std::shared_ptr<std::atomic<std::uint64_t>> unused_forwards = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace lockstep
