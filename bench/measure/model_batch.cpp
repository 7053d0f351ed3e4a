#include "bench/measure/model_batch.h"

#include <ATen/Functions.h>

namespace lockstep {

bool is_classifier(const ConfigFile& config) { return config.text({"model_type"}, "") == "bert"; }

Batch make_model_batch(const ConfigFile& config, std::int64_t size, std::int64_t length) {
  const auto range = [](std::int64_t n) { return at::arange(n, at::kLong); };
  constexpr std::int64_t kAny = std::int64_t{1} << 31;
  const std::int64_t vocab_size = config.integer({"vocab_size"}, is_classifier(config) ? 30522 : 50257, 1, kAny);
  const auto num_labels = static_cast<std::int64_t>(config.labels().size());
  Batch batch;
  batch["input_ids"] = (range(size * length).view({size, length}) * 7919 + 1000).remainder(vocab_size);
  const at::Tensor lengths = length - (range(size) * length).div(4 * size, "floor");
  batch["attention_mask"] = (range(length).unsqueeze(0) < lengths.unsqueeze(1)).to(at::kLong);
  batch["labels"] = is_classifier(config) ? range(size).remainder(num_labels > 0 ? num_labels : 2)
                                          : batch["input_ids"].masked_fill(batch["attention_mask"].eq(0), -100);
  return batch;
}

}  // namespace lockstep
