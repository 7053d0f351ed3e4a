#include "lockstep/models/loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// Checks labels on the CPU only: on another device the check would have to wait.
void check_range(const at::Tensor& labels, std::int64_t classes, const std::string& where) {
  if (!labels.device().is_cpu()) return;
  const at::Tensor flat = labels.contiguous();
  const std::int64_t* label = flat.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (label[i] == kIgnoreIndex || (label[i] >= 0 && label[i] < classes)) continue;
    throw Error(fmt::format("label {} of row {} is outside the head: it has {} classes, 0 to {}", label[i], i, classes,
                            classes - 1),
                where, "give the model as many labels as the data has (num_labels), or map the labels of the data");
  }
}

}  // namespace

LossSum cross_entropy_sum(const at::Tensor& scores, const at::Tensor& labels, const std::string& model,
                          double smoothing) {
  const std::string where = "loss of " + model + ", field \"labels\"";
  if (scores.dim() != 2 || labels.dim() != 1 || labels.size(0) != scores.size(0)) {
    throw Error("labels of shape " + shape_text(labels) + " do not fit scores of shape " + shape_text(scores), where,
                "give one class number for each row of scores");
  }
  if (labels.scalar_type() != at::kLong) {
    throw Error(fmt::format("labels are {}, not int64", c10::toString(labels.scalar_type())), where,
                "convert the labels to int64 class numbers");
  }
  check_range(labels, scores.size(1), where);
  const at::Tensor sum = at::cross_entropy_loss(scores, labels, {}, at::Reduction::Sum, kIgnoreIndex, smoothing);
  return {sum, labels.ne(kIgnoreIndex).sum()};
}

}  // namespace lockstep
