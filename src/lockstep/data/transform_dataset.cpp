#include "lockstep/data/transform_dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

TransformDataset::TransformDataset(std::shared_ptr<const Dataset> dataset, Transform transform)
    : dataset_(std::move(dataset)), transform_(std::move(transform)) {
  if (!dataset_ || !transform_) {
    throw Error("the dataset or the function that changes its samples is missing", "TransformDataset", "give both");
  }
}

Example TransformDataset::do_get(std::int64_t index) const {
  Example example;
  for (auto& [name, tensor] : do_get_batch({index})) example[name] = tensor.select(0, 0);
  return example;
}

Batch TransformDataset::do_get_batch(at::IntArrayRef indices) const {
  Batch batch = transform_(dataset_->get_batch(indices));
  const std::int64_t count = batch_size(batch);
  if (count != static_cast<std::int64_t>(indices.size())) {
    throw Error(fmt::format("the transform returned {} samples for {}", count, indices.size()), "TransformDataset",
                "return as many samples as came in, in the same order");
  }
  return batch;
}

bool TransformDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  return dataset_->write_digests(indices, digests);
}

}  // namespace lockstep
