// What the outputs of a sequence classifier mean, and their loss.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/sequence_head.h"
#include "lockstep/models/loss.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {
namespace {

ProblemType problem_type(const SequenceHead& head, const at::Tensor& labels) {
  if (head.problem_type) return *head.problem_type;
  if (head.num_labels() == 1) return ProblemType::Regression;
  return at::isIntegralType(labels.scalar_type(), false) ? ProblemType::SingleLabel : ProblemType::MultiLabel;
}

void check_scores(const at::Tensor& scores, const at::Tensor& labels, const std::string& model) {
  if (labels.sizes() == scores.sizes()) return;
  throw Error(fmt::format("labels of shape [{}] do not fit scores of shape [{}]", fmt::join(labels.sizes(), ", "),
                          fmt::join(scores.sizes(), ", ")),
              "loss of " + model + ", field \"labels\"", "give one number for each output of each row");
}

}  // namespace

at::Tensor shown_scores(const SequenceHead& head, const at::Tensor& outputs) {
  if (head.problem_type == ProblemType::Regression) return outputs;
  if (head.problem_type == ProblemType::MultiLabel || head.num_labels() == 1) return at::sigmoid(outputs);
  return at::softmax(outputs, -1);
}

LossSum sequence_loss(const SequenceHead& head, const at::Tensor& scores, const at::Tensor& labels,
                      const std::string& model) {
  const ProblemType type = problem_type(head, labels);
  if (type == ProblemType::SingleLabel) return cross_entropy_sum(scores, labels.reshape({-1}), model);
  const bool is_flat = head.num_labels() == 1 && labels.dim() == 1;
  const at::Tensor shaped = is_flat ? labels.unsqueeze(1) : labels;
  check_scores(scores, shaped, model);
  const at::Tensor target = shaped.to(scores.scalar_type());
  const at::Tensor sum = type == ProblemType::Regression
                             ? at::mse_loss(scores, target, at::Reduction::Sum)
                             : at::binary_cross_entropy_with_logits(scores, target, {}, {}, at::Reduction::Sum);
  return {sum, at::scalar_tensor(scores.numel(), at::TensorOptions().dtype(at::kLong).device(scores.device()))};
}

}  // namespace lockstep
