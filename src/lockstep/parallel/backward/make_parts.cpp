#include "lockstep/parallel/backward/make_parts.h"

#include "lockstep/parallel/backward/join_averages.h"
#include "lockstep/parallel/backward/same_place.h"
#include "lockstep/parallel/backward/same_weights.h"
#include "lockstep/parallel/backward/sparse_gradients.h"

namespace lockstep {

std::vector<NamedTensor> trained_of(const ReducerParameters& parameters) {
  std::vector<NamedTensor> trained = parameters.dense;
  trained.insert(trained.end(), parameters.sparse.begin(), parameters.sparse.end());
  return trained;
}

std::vector<std::unique_ptr<BackwardPart>> make_backward_parts(const BackwardParties& of,
                                                               const ReducerParameters& parameters, int module,
                                                               bool adds_slices) {
  BackwardContext& context = of.context;
  std::vector<std::unique_ptr<BackwardPart>> parts;
  parts.push_back(std::make_unique<SameModule>(context, module));
  parts.push_back(std::make_unique<SameFrozen>(context, trained_of(parameters)));
  if (adds_slices) {
    parts.push_back(std::make_unique<SameUpdate>(context));
  } else {
    parts.push_back(std::make_unique<SameBatches>(context));
    parts.push_back(std::make_unique<JoinAverages>(context, of.buckets, of.is_kept));
  }
  parts.push_back(std::make_unique<SameLoadedWeights>(context, parameters.dense));
  parts.push_back(std::make_unique<SameReplicas>(context, of.replicas));
  if (!parameters.sparse.empty()) parts.push_back(std::make_unique<SparseGradients>(context, parameters.sparse));
  return parts;
}

}  // namespace lockstep
