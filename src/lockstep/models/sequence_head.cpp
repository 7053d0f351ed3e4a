#include "lockstep/detail/models/sequence_head.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::pair<const char*, ProblemType> kProblemTypes[] = {
    {"regression", ProblemType::Regression},
    {"single_label_classification", ProblemType::SingleLabel},
    {"multi_label_classification", ProblemType::MultiLabel}};

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
  // Two labels without names are the default, which Hugging Face leaves out, as of models without such a head.
  if (head.labels != SequenceHead().labels || json.contains("id2label")) {
    json["id2label"] = id2label;
    json["label2id"] = label2id;
  }
  for (const auto& [name, type] : kProblemTypes) {
    if (head.problem_type == type) json["problem_type"] = name;
  }
}

}  // namespace lockstep
