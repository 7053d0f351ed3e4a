#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

struct ContrastiveLossOptions {
  double scale = 20;  ///< factor of the cosine: 1 / temperature
  /// The loss tells each pair from the pairs of all its ranks, so all ranks call it together, also those without pairs
  /// (n = 0), and so does backward: see functional.h. Null: from the pairs of this call alone.
  std::shared_ptr<Communicator> process_group;
};

/// For each anchor, the cross entropy of telling its own positive from all other positives and negatives, by the cosine
/// of their vectors (InfoNCE; van den Oord et al., 2018, arXiv:1807.03748). Under DistributedDataParallel, the gradient
/// of Σsum / Σcount over all ranks is that of one process with all pairs. As sentence-transformers'
/// MultipleNegativesRankingLoss with gather_across_devices, but for equal texts: those are nobody's negatives.
///
/// @param vectors  [n, k, size]: n anchors, each with its positive and k - 2 texts that are unlike it
/// @param texts  [n, k] int64, equal numbers for equal texts, as SentenceCollator makes them. A text that is also in
/// the pair itself is not a negative of it, nor is the positive of an equal anchor. Undefined: all texts differ
/// @throws Error  if shapes do not fit, or the scale is not positive
LossSum contrastive_loss(const at::Tensor& vectors, const at::Tensor& texts,
                         const ContrastiveLossOptions& options = {});

/// What contrastive_loss compares for some anchors.
struct ContrastiveScores {
  at::Tensor scores;  ///< [anchors, candidates]: scale times cosine; -infinity for texts that are not negatives
  at::Tensor own;     ///< [anchors] int64: the column of each anchor's own positive
};
/// The scores of the anchors `begin` to `begin + count` against the texts of all rows, in this process alone.
/// @param vectors, texts  as above
ContrastiveScores contrastive_scores(const at::Tensor& vectors, const at::Tensor& texts, std::int64_t begin,
                                     std::int64_t count, double scale = 20);

/// The cosines of pairs of vectors. @param vectors  [n, 2, size] @return  [n]
at::Tensor cosines_of_pairs(const at::Tensor& vectors);

}  // namespace lockstep
