#include "lockstep/data/padding_collator.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 31;

[[noreturn]] void refuse(const std::string& what, std::size_t sample, const std::string& fix) {
  throw Error(what, fmt::format("sample {} of the batch", sample), fix);
}

// Renames each sample's label to the one name that models use.
void rename_labels(Example& example, std::size_t sample) {
  for (const char* name : {"label", "label_ids"}) {
    const auto found = example.find(name);
    if (found == example.end()) continue;
    if (!example.emplace("labels", found->second).second) {
      refuse(fmt::format("the sample has both \"labels\" and \"{}\"", name), sample, "leave one of them out");
    }
    example.erase(found);
  }
}

void check_fields(const Example& first, const Example& example, std::size_t sample) {
  const bool alike = std::equal(first.begin(), first.end(), example.begin(), example.end(),
                                [](const auto& a, const auto& b) { return a.first == b.first; });
  if (!alike)
    refuse("the sample has other fields than the first of the batch", sample, "give all samples the same fields");
}

const at::Tensor& ids_of(const Example& example, std::size_t sample) {
  const auto ids = example.find("input_ids");
  if (ids == example.end() || !ids->second.defined() || ids->second.dim() != 1 ||
      ids->second.scalar_type() != at::kLong) {
    refuse("the sample has no \"input_ids\" [length] of int64", sample, "collate samples of a TokenizedDataset");
  }
  return ids->second;
}

// Copies sequences [n] of one field into [batch, length].
at::Tensor padded(const std::vector<Example>& examples, const std::string& name, std::int64_t length,
                  std::int64_t filler, SequenceSide side) {
  at::Tensor batch = at::full({static_cast<std::int64_t>(examples.size()), length}, filler, at::kLong);
  auto* row = batch.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < examples.size(); ++i, row += length) {
    const at::Tensor& values = examples[i].at(name);
    const std::int64_t tokens = ids_of(examples[i], i).numel();
    if (values.dim() != 1 || values.numel() != tokens || values.scalar_type() != at::kLong) {
      refuse(fmt::format("the field \"{}\" is {} [{}], but there are {} input_ids", name,
                         c10::toString(values.scalar_type()), fmt::join(values.sizes(), ", "), tokens),
             i, "give it one int64 per token");
    }
    const at::Tensor source = values.contiguous();
    std::copy_n(source.data_ptr<std::int64_t>(), tokens, row + (side == SequenceSide::Left ? length - tokens : 0));
  }
  return batch;
}

}  // namespace

DataCollatorWithPadding::DataCollatorWithPadding(const Tokenizer& tokenizer, const Padding& padding)
    : pad_id_(tokenizer.pad_id().value_or(-1)), padding_(padding) {
  if (pad_id_ < 0) {
    throw Error("the tokenizer has no padding token", "DataCollatorWithPadding",
                "call set_pad_token first; GPT-2 is usually padded with \"<|endoftext|>\"");
  }
  if (padding.max_length < 0 || padding.max_length >= kLongestSequence || padding.multiple_of < 0 ||
      padding.multiple_of >= kLongestSequence) {
    throw Error(fmt::format("cannot pad to max_length {} and multiple_of {}", padding.max_length, padding.multiple_of),
                "DataCollatorWithPadding", "give lengths from 0 to 2^31 - 1");
  }
}

Batch DataCollatorWithPadding::operator()(std::vector<Example> examples) const {
  if (examples.empty()) {
    throw Error("there are no samples to collate", "DataCollatorWithPadding", "ask for a batch of at least one sample");
  }
  for (std::size_t i = 0; i < examples.size(); ++i) {
    rename_labels(examples[i], i);
    at::Tensor& mask = examples[i]["attention_mask"];
    if (!mask.defined()) mask = at::ones_like(ids_of(examples[i], i));
    check_fields(examples[0], examples[i], i);
  }
  std::map<std::string, std::int64_t> fillers{
      {"input_ids", pad_id_}, {"attention_mask", 0}, {"token_type_ids", 0}, {"special_tokens_mask", 1}};
  const auto labels = examples[0].find("labels");
  const bool is_of_tokens =
      labels != examples[0].end() && labels->second.dim() == 1 && !labels->second.is_floating_point();
  if (is_of_tokens) fillers["labels"] = kIgnoredLabel;

  const std::int64_t length = padded_length(examples);
  Batch batch;
  for (const auto& [name, filler] : fillers) {
    if (examples[0].count(name) != 0) batch[name] = padded(examples, name, length, filler, padding_.side);
  }
  for (const auto& padded_field : batch) {
    for (Example& example : examples) example.erase(padded_field.first);
  }
  if (!examples[0].empty()) batch.merge(stack_examples(examples));
  return batch;
}

std::int64_t DataCollatorWithPadding::padded_length(const std::vector<Example>& examples) const {
  std::int64_t length = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) length = std::max(length, ids_of(examples[i], i).numel());
  if (padding_.mode == PaddingMode::MaxLength) {
    if (length > padding_.max_length) {
      throw Error(fmt::format("a sample has {} tokens, but the batch has {}", length, padding_.max_length),
                  "DataCollatorWithPadding", "truncate when tokenizing, or raise max_length");
    }
    length = padding_.max_length;
  }
  if (padding_.multiple_of == 0) return length;
  return (length + padding_.multiple_of - 1) / padding_.multiple_of * padding_.multiple_of;
}

}  // namespace lockstep
