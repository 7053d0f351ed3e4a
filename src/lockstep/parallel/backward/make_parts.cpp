#include "lockstep/parallel/backward/make_parts.h"

#include "lockstep/parallel/backward/join_averages.h"
#include "lockstep/parallel/backward/same_place.h"
#include "lockstep/parallel/backward/same_weights.h"
#include "lockstep/parallel/backward/sparse_gradients.h"

namespace lockstep {

std::vector<std::unique_ptr<BackwardPart>> make_backward_parts(BackwardContext& context, BucketQueue& queue,
                                                               const ReducerParameters& parameters, bool adds_slices) {
  std::vector<std::unique_ptr<BackwardPart>> parts;
  parts.push_back(std::make_unique<SameModule>(context));
  parts.push_back(std::make_unique<SameFrozen>(context, trained_of(parameters)));
  if (adds_slices) {
    parts.push_back(std::make_unique<SameUpdate>(context));
  } else {
    parts.push_back(std::make_unique<SameBatches>(context));
    parts.push_back(std::make_unique<JoinAverages>(context, queue));
  }
  parts.push_back(std::make_unique<SameLoadedWeights>(context, parameters.dense));
  parts.push_back(std::make_unique<SameReplicas>(context));
  if (!parameters.sparse.empty()) parts.push_back(std::make_unique<SparseGradients>(context, parameters.sparse));
  return parts;
}

}  // namespace lockstep
