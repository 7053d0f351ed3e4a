#include "lockstep/sentence/sentence_training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <algorithm>

#include "lockstep/comm/process_group.h"
#include "lockstep/sentence/contrastive_loss.h"

namespace lockstep {
namespace {

std::shared_ptr<Communicator> group_of(const SentenceLossOptions& options) {
  if (options.process_group || !is_initialized()) return options.process_group;
  return default_group();
}

}  // namespace

LossSum sentence_loss(const at::Tensor& vectors, const Batch& batch, const SentenceLossOptions& options) {
  if (options.loss == SentenceLoss::Contrastive) {
    ContrastiveLossOptions how;
    how.scale = options.scale;
    if (at::GradMode::is_enabled()) how.process_group = group_of(options);  // ranks evaluate unequal numbers of batches
    return contrastive_loss(vectors, batch_field(batch, "texts", "the contrastive loss"), how);
  }
  const at::Tensor cosines = cosines_of_pairs(vectors);
  const at::Tensor wanted = batch_field(batch, "labels", "the loss of similarities").to(cosines.scalar_type());
  return {(cosines - wanted).square().sum(), at::full({}, cosines.numel(), wanted.options().dtype(at::kLong))};
}

ComputeMetrics retrieval_metrics(double scale) {
  return [scale](const EvalPrediction& evaluation) {
    constexpr std::int64_t kAnchorsAtOnce = 256;
    constexpr std::int64_t kNearest = 10;
    const at::Tensor &vectors = evaluation.predictions, &texts = evaluation.label_ids;
    const std::int64_t count = vectors.size(0);
    double loss = 0, first = 0, among_nearest = 0, reciprocal = 0;
    for (std::int64_t begin = 0; begin < count; begin += kAnchorsAtOnce) {
      const auto [scores, own] =
          contrastive_scores(vectors, texts, begin, std::min(kAnchorsAtOnce, count - begin), scale);
      loss += at::cross_entropy_loss(scores, own, {}, at::Reduction::Sum).item<double>();
      const at::Tensor better = scores.gt(scores.gather(1, own.unsqueeze(1))).sum(1);
      const at::Tensor is_near = better.lt(kNearest);
      first += better.eq(0).sum().item<double>();
      among_nearest += is_near.sum().item<double>();
      reciprocal += is_near.to(at::kDouble).div(better + 1).sum().item<double>();
    }
    const auto all = static_cast<double>(count);
    return Metrics{{"loss", loss / all},
                   {"cosine_accuracy@1", first / all},
                   {"cosine_accuracy@10", among_nearest / all},
                   {"cosine_mrr@10", reciprocal / all}};
  };
}

ComputeMetrics similarity_metrics() {
  return [](const EvalPrediction& evaluation) {
    const at::Tensor cosines = cosines_of_pairs(evaluation.predictions);
    return Metrics{{"pearson_cosine", pearson_correlation(cosines, evaluation.label_ids)},
                   {"spearman_cosine", spearman_correlation(cosines, evaluation.label_ids)}};
  };
}

}  // namespace lockstep
