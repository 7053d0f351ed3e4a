#include "lockstep/data/language_modeling_collator.h"

#include <ATen/ops/full_like.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/images/split_mix.h"

namespace lockstep {
namespace {

// A number from 0 (included) to 1 (excluded).
double uniform(SplitMix& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

std::uint64_t mixed(std::uint64_t state, std::int64_t number) {
  return SplitMix(state ^ static_cast<std::uint64_t>(number)).next();
}

void check_probabilities(const LanguageModelingOptions& options) {
  const auto is_share = [](double share) { return share >= 0 && share <= 1; };
  if (is_share(options.mlm_probability) && is_share(options.mask_probability) && is_share(options.random_probability) &&
      options.mask_probability + options.random_probability <= 1 + 1e-12) {
    return;
  }
  throw Error(fmt::format("mlm_probability {}, mask_probability {} and random_probability {} cannot be used together",
                          options.mlm_probability, options.mask_probability, options.random_probability),
              "DataCollatorForLanguageModeling",
              "give numbers from 0 to 1; mask_probability and random_probability add up to at most 1");
}

}  // namespace

DataCollatorForLanguageModeling::DataCollatorForLanguageModeling(const Tokenizer& tokenizer,
                                                                 const LanguageModelingOptions& options)
    : pad_(tokenizer, options.padding),
      options_(options),
      vocab_size_(tokenizer.vocab_size()),
      epoch_(std::make_shared<std::atomic<std::int64_t>>(0)) {
  if (!options.mlm) return;
  check_probabilities(options);
  if (!tokenizer.mask_id()) {
    throw Error("the tokenizer has no mask token", "DataCollatorForLanguageModeling",
                "train a causal model (mlm = false), or use a tokenizer that has one");
  }
  mask_id_ = *tokenizer.mask_id();
  for (const auto& id : {tokenizer.unk_id(), tokenizer.pad_id(), tokenizer.cls_id(), tokenizer.sep_id(),
                         tokenizer.mask_id(), tokenizer.bos_id(), tokenizer.eos_id()}) {
    if (id) special_ids_.insert(*id);
  }
}

Batch DataCollatorForLanguageModeling::operator()(std::vector<Example> examples) const {
  for (Example& example : examples) {
    for (const char* name : {"labels", "label", "label_ids"}) example.erase(name);
  }
  Batch batch = pad_(std::move(examples));
  at::Tensor& ids = batch["input_ids"];
  const at::Tensor& attention = batch["attention_mask"];
  at::Tensor labels = at::full_like(ids, kIgnoredLabel);
  const auto special_mask = batch.find("special_tokens_mask");
  const std::int64_t length = ids.size(1);
  for (std::int64_t row = 0; row < ids.size(0); ++row) {
    auto* const row_ids = ids.data_ptr<std::int64_t>() + row * length;
    auto* const row_labels = labels.data_ptr<std::int64_t>() + row * length;
    const auto* const row_attention = attention.data_ptr<std::int64_t>() + row * length;
    if (options_.mlm) {
      mask(row_ids, row_labels, row_attention,
           special_mask == batch.end() ? nullptr : special_mask->second.data_ptr<std::int64_t>() + row * length,
           length);
      continue;
    }
    for (std::int64_t i = 0; i < length; ++i) {
      if (row_attention[i] != 0) row_labels[i] = row_ids[i];
    }
  }
  batch["labels"] = std::move(labels);
  batch.erase("special_tokens_mask");
  return batch;
}

void DataCollatorForLanguageModeling::mask(std::int64_t* ids, std::int64_t* labels, const std::int64_t* attention,
                                           const std::int64_t* special, std::int64_t count) const {
  // Padding draws no numbers, so a sample's masks do not depend on the batch around it.
  std::uint64_t state = mixed(mixed(0, static_cast<std::int64_t>(options_.seed)), epoch_->load());
  for (std::int64_t i = 0; i < count; ++i) {
    if (attention[i] != 0) state = mixed(state, ids[i]);
  }
  SplitMix random(state);
  for (std::int64_t i = 0; i < count; ++i) {
    if (attention[i] == 0) continue;
    const bool chosen = uniform(random) < options_.mlm_probability;
    const double what = uniform(random);
    const std::uint64_t other = random.next() % static_cast<std::uint64_t>(vocab_size_);
    if (!chosen || (special != nullptr ? special[i] != 0 : special_ids_.count(ids[i]) != 0)) continue;
    labels[i] = ids[i];
    if (what < options_.mask_probability) {
      ids[i] = mask_id_;
    } else if (what < options_.mask_probability + options_.random_probability) {
      ids[i] = static_cast<std::int64_t>(other);
    }
  }
}

}  // namespace lockstep
