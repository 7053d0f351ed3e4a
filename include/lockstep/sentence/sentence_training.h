#pragma once

#include <memory>
#include <utility>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/metrics.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// What the vectors of texts learn from a batch of SentenceCollator.
enum class SentenceLoss {
  Contrastive,      ///< anchor, positive and perhaps negatives: contrastive_loss over the texts of all ranks
  CosineSimilarity  ///< two texts and a number in "labels": (cosine - number)², as CosineSimilarityLoss
};

struct SentenceLossOptions {
  SentenceLoss loss = SentenceLoss::Contrastive;
  double scale = 20;  ///< of contrastive_loss
  /// The ranks of the Trainer; null: the group of init_process_group, if there is one.
  std::shared_ptr<Communicator> process_group{};
};

/// The loss of vectors [size, texts of each sample, hidden_size]. A contrastive batch is that of all ranks, one for
/// each micro-batch; without gradients, as in an evaluation, it is this rank's alone.
/// @throws Error  if the batch has no "texts" or no "labels", or shapes do not fit
LossSum sentence_loss(const at::Tensor& vectors, const Batch& batch, const SentenceLossOptions& options);

/// The network of a Trainer, from a SentenceEncoder or another module whose forward makes such vectors of a batch.
template <typename Encoder>
std::shared_ptr<AdaptedModule<Encoder>> adapt_sentence_encoder(std::shared_ptr<Encoder> encoder,
                                                               const SentenceLossOptions& options = {}) {
  auto adapted = adapt(
      std::move(encoder), [](Encoder& each, const Batch& batch) { return each.forward(batch); },
      [options](const at::Tensor& vectors, const Batch& batch) { return sentence_loss(vectors, batch, options); });
  adapted->set_meets_ranks_in_loss(options.loss == SentenceLoss::Contrastive);
  return adapted;
}

/// How well each anchor finds its own positive among all positives and negatives of the evaluation:
/// "cosine_accuracy@1", "cosine_accuracy@10" and "cosine_mrr@10", named as sentence-transformers'
/// InformationRetrievalEvaluator names them; and "loss", contrastive_loss over all of them, which depends neither on
/// batches nor on ranks. Texts that are equal to one of the pair are left out, as in the loss.
ComputeMetrics retrieval_metrics(double scale = 20);

/// "pearson_cosine" and "spearman_cosine": correlations of the pairs' cosines with the labels.
ComputeMetrics similarity_metrics();

}  // namespace lockstep
