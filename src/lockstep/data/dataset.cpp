#include "lockstep/data/dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void check_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw Error(fmt::format("there is no sample {} in a dataset of {} samples", index, size), "Dataset::get",
              "ask for indices from 0 to size() - 1; check that the sampler was made for this dataset");
}

}  // namespace

Example Dataset::get(std::int64_t index) const {
  check_index(index, size());
  return do_get(index);
}

Batch Dataset::get_batch(at::IntArrayRef indices) const {
  const std::int64_t count = size();
  for (const std::int64_t index : indices) check_index(index, count);
  return do_get_batch(indices);
}

bool Dataset::write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  const std::int64_t count = size();
  for (const std::int64_t index : indices) check_index(index, count);
  return do_write_digests(indices, digests);
}

bool Dataset::do_write_digests(at::IntArrayRef /*indices*/, std::uint64_t* /*digests*/) const { return false; }

Batch Dataset::do_get_batch(at::IntArrayRef indices) const {
  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (const std::int64_t index : indices) examples.push_back(do_get(index));
  return stack_examples(examples);
}

}  // namespace lockstep
