#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fused/agreement/update_agreement.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/fused_faults.h"
#include "lockstep/parallel/fused/fused_watch.h"
#include "lockstep/parallel/fused/gradients/fused_gradients.h"
#include "lockstep/parallel/fused/gradients/stand_ins.h"
#include "lockstep/parallel/fused/memory/fused_memory.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/update/update_norm.h"
#include "lockstep/parallel/update/update_pass.h"
#include "lockstep/parallel/update/weight_place.h"

namespace lockstep {

/// Weights that programs have written between two updates.
struct WeightChanges {
  std::vector<std::uint8_t> here, anywhere;  ///< by parameter: not 0 if this rank has noticed it, or any

  static constexpr std::uint8_t kMoved = 255;  ///< to other memory, by the program
  static constexpr std::uint8_t kOwned = 254;  ///< written in memory of this rank; other values are a WeightWrite

  bool any() const { return !anywhere.empty(); }
  void clear() {
    here.clear();
    anywhere.clear();
  }
};

/// What the parts of one fused update share. Whoever makes the update fills it from top to bottom; `end` takes back
/// what exists only while the update is in force.
struct UpdateContext {
  UpdateContext(FlatOptimizer& its_optimizer, Reducer& its_reducer, std::shared_ptr<Communicator> ranks)
      : optimizer(its_optimizer),
        reducer(its_reducer),
        backward(its_reducer.backward().context()),
        gradients(its_reducer.backward().buckets()),
        communicator(std::move(ranks)),
        agreement(gradients.num_parameters(), communicator->world_size()) {}

  void start_watching(std::vector<at::Tensor> parameters) {
    stand_ins.emplace(parameters);
    watch.emplace(std::move(parameters), *stand_ins);
    faults.emplace(gradients, buckets, *watch, *communicator);
  }
  /// What waits for an update will not be part of one.
  void drop_gradients() {
    if (watch->is_waiting()) watch->drop_gradients();
    own_gradients->drop();
  }
  void end() {
    own_gradients = nullptr;
    weights.reset();
    faults.reset();
    watch.reset();
    stand_ins.reset();
    memory.reset();
  }

  FlatOptimizer& optimizer;  ///< may go before the update does, which is in force no longer then
  Reducer& reducer;
  BackwardContext& backward;  ///< of the reducer
  GradientBuckets& gradients;
  const std::shared_ptr<Communicator> communicator;
  std::vector<FusedBucket> buckets;
  std::unordered_map<const c10::TensorImpl*, std::size_t> covered;  ///< index of each fused parameter in `gradients`
  UpdatePlan plan;
  UpdateAgreement agreement;
  // While the update is in force:
  std::unique_ptr<FusedMemory> memory;
  std::optional<StandIns> stand_ins;  ///< of the fused parameters' gradients
  std::optional<FusedWatch> watch;    ///< of the fused parameters
  std::unique_ptr<UpdateNorm> norm;
  WeightChanges changes;  ///< in this agreement
  std::unique_ptr<WeightPlace> weights;
  FusedGradients* own_gradients = nullptr;  ///< this rank's, which are a part
  std::optional<FusedFaults> faults;        ///< what is wrong with them: parts add to it, and the update throws
  /// Outlives the rest: after a failure, it decides how the ranks continue.
  std::unique_ptr<UpdatePass> pass;
};

}  // namespace lockstep
