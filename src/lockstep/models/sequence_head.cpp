#include "lockstep/detail/models/sequence_head.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/models/loss.h"

namespace lockstep {
namespace {

constexpr std::pair<const char*, ProblemType> kProblemTypes[] = {
    {"regression", ProblemType::Regression},
    {"single_label_classification", ProblemType::SingleLabel},
    {"multi_label_classification", ProblemType::MultiLabel}};

ProblemType problem_type(const SequenceHead& head, const at::Tensor& labels) {
  if (head.problem_type) return *head.problem_type;
  if (head.num_labels() == 1) return ProblemType::Regression;
  return at::isIntegralType(labels.scalar_type(), false) ? ProblemType::SingleLabel : ProblemType::MultiLabel;
}

void check_shape(const at::Tensor& scores, const at::Tensor& labels, const std::string& model) {
  if (labels.sizes() == scores.sizes()) return;
  throw Error(fmt::format("labels of shape [{}] do not fit scores of shape [{}]", fmt::join(labels.sizes(), ", "),
                          fmt::join(scores.sizes(), ", ")),
              "loss of " + model + ", field \"labels\"", "give one number for each output of each row");
}

}  // namespace

void SequenceHead::set_num_labels(std::int64_t count) {
  labels.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = fmt::format("LABEL_{}", i);
}

ProblemType parse_problem_type(const std::string& name) {
  for (const auto& [known, type] : kProblemTypes) {
    if (name == known) return type;
  }
  throw Error("there is no problem type \"" + name + "\"", "LoadOptions::problem_type",
              "give regression, single_label_classification or multi_label_classification");
}

at::Tensor shown_scores(const SequenceHead& head, const at::Tensor& outputs) {
  if (head.problem_type == ProblemType::Regression) return outputs;
  if (head.problem_type == ProblemType::MultiLabel || head.num_labels() == 1) return at::sigmoid(outputs);
  return at::softmax(outputs, -1);
}

SequenceHead read_sequence_head(const ConfigFile& file) {
  SequenceHead head;
  std::vector<std::string> labels = file.labels();
  if (!labels.empty()) head.labels = std::move(labels);
  if (!file.has("problem_type")) return head;
  const std::string name = file.text({"problem_type"}, "");
  for (const auto& [known, type] : kProblemTypes) {
    if (name == known) head.problem_type = type;
  }
  if (!head.problem_type) {
    file.refuse("problem_type", "is \"" + name + "\"",
                "give regression, single_label_classification or multi_label_classification");
  }
  return head;
}

void write_sequence_head(const SequenceHead& head, nlohmann::json& json) {
  nlohmann::json id2label = nlohmann::json::object(), label2id = nlohmann::json::object();
  for (std::size_t i = 0; i < head.labels.size(); ++i) {
    id2label[std::to_string(i)] = head.labels[i];
    label2id[head.labels[i]] = i;
  }
  json.erase("num_labels");  // Hugging Face derives it from id2label
  json.erase("_num_labels");
  json["id2label"] = id2label;
  json["label2id"] = label2id;
  for (const auto& [name, type] : kProblemTypes) {
    if (head.problem_type == type) json["problem_type"] = name;
  }
}

LossSum sequence_loss(const SequenceHead& head, const at::Tensor& scores, const at::Tensor& labels,
                      const std::string& model) {
  const ProblemType type = problem_type(head, labels);
  if (type == ProblemType::SingleLabel) return cross_entropy_sum(scores, labels.reshape({-1}), model);
  const bool is_flat = head.num_labels() == 1 && labels.dim() == 1;
  const at::Tensor shaped = is_flat ? labels.unsqueeze(1) : labels;
  check_shape(scores, shaped, model);
  const at::Tensor target = shaped.to(scores.scalar_type());
  const at::Tensor sum = type == ProblemType::Regression
                             ? at::mse_loss(scores, target, at::Reduction::Sum)
                             : at::binary_cross_entropy_with_logits(scores, target, {}, {}, at::Reduction::Sum);
  return {sum, at::scalar_tensor(scores.numel(), at::TensorOptions().dtype(at::kLong).device(scores.device()))};
}

}  // namespace lockstep
