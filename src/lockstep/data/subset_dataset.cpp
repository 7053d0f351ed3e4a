#include "lockstep/data/subset_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/permutation.h"

namespace lockstep {

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  if (!dataset_) throw Error("there is no dataset to take samples from", "SubsetDataset", "give a dataset");
  const std::int64_t count = dataset_->size();
  for (const std::int64_t index : indices_) {
    if (index >= 0 && index < count) continue;
    throw Error(fmt::format("there is no sample {} in a dataset of {} samples", index, count), "SubsetDataset",
                "give indices from 0 to size() - 1");
  }
}

Example SubsetDataset::do_get(std::int64_t index) const { return dataset_->get(indices_[index]); }

Batch SubsetDataset::do_get_batch(at::IntArrayRef indices) const {
  std::vector<std::int64_t> inner;
  inner.reserve(indices.size());
  for (const std::int64_t index : indices) inner.push_back(indices_[index]);
  return dataset_->get_batch(inner);
}

bool SubsetDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  std::vector<std::int64_t> inner;
  inner.reserve(indices.size());
  for (const std::int64_t index : indices) inner.push_back(indices_[index]);
  return dataset_->write_digests(inner, digests);
}

std::vector<std::shared_ptr<const Dataset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                         const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  if (!dataset) throw Error("there is no dataset to split", "random_split", "give a dataset");
  std::int64_t left = dataset->size();
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > left) left = -1;
    if (left < 0) break;
    left -= size;
  }
  if (left != 0) {
    throw Error(fmt::format("parts of [{}] samples do not make up {} samples", fmt::join(sizes, ", "), dataset->size()),
                "random_split", "give sizes that are not negative and add up to the dataset's size");
  }
  const at::Tensor order = random_permutation(dataset->size(), seed);
  std::vector<std::shared_ptr<const Dataset>> parts;
  const auto* from = order.data_ptr<std::int64_t>();
  for (const std::int64_t size : sizes) {
    parts.push_back(std::make_shared<SubsetDataset>(dataset, std::vector<std::int64_t>(from, from + size)));
    from += size;
  }
  return parts;
}

}  // namespace lockstep
