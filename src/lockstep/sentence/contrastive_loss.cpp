#include "lockstep/sentence/contrastive_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/parallel/functional.h"

namespace lockstep {
namespace {

constexpr double kLeastNorm = 1e-12;  // PyTorch's, in normalize

// Vectors of length 1, at least in fp32.
at::Tensor unit(const at::Tensor& vectors) {
  const at::Tensor wide = vectors.scalar_type() == at::kDouble ? vectors : vectors.to(at::kFloat);
  return wide / wide.norm(2, {-1}, /*keepdim=*/true).clamp_min(kLeastNorm);
}

void check_arguments(const at::Tensor& vectors, const at::Tensor& texts, double scale) {
  const auto refuse = [](const std::string& problem, const char* fix) {
    throw Error(problem, "contrastive loss", fix);
  };
  if (vectors.dim() != 3 || vectors.size(1) < 2) {
    refuse(fmt::format("vectors cannot have the shape [{}]", fmt::join(vectors.sizes(), ", ")),
           "give [pairs, texts of each, size], with two texts or more");
  }
  if (texts.defined() && (texts.scalar_type() != at::kLong || texts.sizes() != vectors.sizes().slice(0, 2))) {
    refuse(fmt::format("numbers of texts of shape [{}] do not fit vectors cannot have the shape [{}]",
                       fmt::join(texts.sizes(), ", "), fmt::join(vectors.sizes(), ", ")),
           "give an int64 for each text");
  }
  if (!(scale > 0)) refuse(fmt::format("a scale of {}", scale), "give a positive one; 20 is usual");
}

// Some anchors, and all texts that each is compared with.
struct Comparison {
  at::Tensor anchors;        // [n, size], of length 1
  at::Tensor texts;          // [n, k]; undefined: all texts differ
  at::Tensor candidates;     // [rows, k - 1, size], of length 1
  at::Tensor all_texts;      // [rows, k]
  std::int64_t first_row{};  // the row of the first anchor
};

// Which candidates are not negatives of which anchor: [n, candidates].
at::Tensor excluded_candidates(const Comparison& of, const at::Tensor& own) {
  const at::Tensor candidates = of.all_texts.slice(1, 1).flatten().unsqueeze(0);
  const at::Tensor anchors = of.texts.select(1, 0).unsqueeze(1), positives = of.texts.select(1, 1).unsqueeze(1);
  at::Tensor excluded = candidates.eq(anchors).logical_or_(candidates.eq(positives));
  at::Tensor of_positives = excluded.view({of.texts.size(0), of.all_texts.size(0), -1}).select(2, 0);
  of_positives.logical_or_(of.all_texts.select(1, 0).unsqueeze(0).eq(anchors));
  return excluded.scatter_(1, own.unsqueeze(1), false);
}

ContrastiveScores scores_of(const Comparison& of, double scale) {
  const std::int64_t count = of.anchors.size(0);
  const auto numbers = at::TensorOptions().dtype(at::kLong).device(of.anchors.device());
  ContrastiveScores result;
  result.own = (at::arange(count, numbers) + of.first_row) * of.candidates.size(1);
  result.scores = of.anchors.matmul(of.candidates.flatten(0, 1).t()) * scale;
  if (!of.texts.defined() || count == 0) return result;
  result.scores =
      result.scores.masked_fill(excluded_candidates(of, result.own), -std::numeric_limits<double>::infinity());
  return result;
}

// The candidates of all ranks.
void gather_candidates(const std::shared_ptr<Communicator>& group, Comparison& of) {
  const std::int64_t rank = group->rank();
  const auto numbers = at::TensorOptions().dtype(at::kLong).device(of.anchors.device());
  at::Tensor about = at::full({of.anchors.size(0), 1}, rank, numbers);
  if (of.texts.defined()) about = at::cat({about, of.texts}, 1);
  about = functional::all_gather(group, about);
  of.first_row = about.select(1, 0).lt(rank).sum().item<std::int64_t>();
  if (of.texts.defined()) of.all_texts = about.slice(1, 1);
  of.candidates = functional::all_gather(group, of.candidates);
}

}  // namespace

ContrastiveScores contrastive_scores(const at::Tensor& vectors, const at::Tensor& texts, std::int64_t begin,
                                     std::int64_t count, double scale) {
  check_arguments(vectors, texts, scale);
  const at::Tensor units = unit(vectors);
  return scores_of({units.select(1, 0).narrow(0, begin, count), texts.defined() ? texts.narrow(0, begin, count) : texts,
                    units.slice(1, 1), texts, begin},
                   scale);
}

LossSum contrastive_loss(const at::Tensor& vectors, const at::Tensor& texts, const ContrastiveLossOptions& options) {
  check_arguments(vectors, texts, options.scale);
  const at::Tensor units = unit(vectors);
  Comparison compared{units.select(1, 0), texts, units.slice(1, 1), texts, 0};
  if (options.process_group && options.process_group->world_size() > 1) {
    gather_candidates(options.process_group, compared);
  }
  const auto [scores, own] = scores_of(compared, options.scale);
  const at::Tensor pairs = at::full({}, vectors.size(0), own.options());
  if (vectors.size(0) == 0) return {scores.sum(), pairs};  // this rank still takes part in backward
  return {at::cross_entropy_loss(scores, own, {}, at::Reduction::Sum), pairs};
}

at::Tensor cosines_of_pairs(const at::Tensor& vectors) {
  if (vectors.dim() != 3 || vectors.size(1) != 2) {
    throw Error(fmt::format("vectors cannot have the shape [{}]", fmt::join(vectors.sizes(), ", ")), "cosines of pairs",
                "give [pairs, 2, size]");
  }
  const at::Tensor units = unit(vectors);
  return (units.select(1, 0) * units.select(1, 1)).sum(-1);
}

}  // namespace lockstep
