#include "lockstep/elastic/loop_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cstddef>

namespace lockstep {
namespace {

std::vector<ComparedData> compared(const std::vector<std::shared_ptr<const Dataset>>& data) {
  std::vector<ComparedData> all;
  for (std::size_t i = 0; i < data.size(); ++i) all.push_back({fmt::format("ElasticState::data[{}]", i), data[i]});
  return all;
}

}  // namespace

LoopData::LoopData(const std::vector<std::shared_ptr<const Dataset>>& data) : data_(compared(data)) {}

std::optional<LoopData::Refusal> LoopData::compare(Communicator& ranks, std::int64_t position) const {
  const int size = ranks.world_size();
  if (size == 1) return std::nullopt;
  const at::Tensor mine = at::tensor({data_.number(), position}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor all = at::empty({2 * size}, mine.options());
  ranks.all_gather(all, mine);
  const auto* const numbers = all.data_ptr<std::int64_t>();
  const auto has_state = [&](int rank) { return numbers[2 * rank + 1] >= 0; };
  int equal = 0, reference = 0;
  for (int rank = 0; rank < size; ++rank) equal += numbers[2 * rank] == numbers[0] ? 1 : 0;
  if (equal == size) return std::nullopt;
  while (reference + 1 < size && !has_state(reference)) ++reference;
  const auto found = data_.first_difference(ranks, reference);
  if (!found) return std::nullopt;
  bool concerns_all = false;
  for (int rank = 0; rank < size; ++rank) {
    concerns_all = concerns_all || (found->all[static_cast<std::size_t>(rank)] && has_state(rank));
  }
  if (concerns_all) {
    return Refusal{"the ranks have not read the same data; " + found->text, found->where,
                   "give all ranks the same files: ElasticState::data is what they read"};
  }
  if (!found->all[static_cast<std::size_t>(ranks.rank())]) return std::nullopt;
  return Refusal{
      "this process cannot take a lost rank's place, because it has not read what the others train on; " + found->text,
      found->where,
      "leave files as they are while a job trains: with the file of the job's start a process can join. "
      "The others continue without this one"};
}

}  // namespace lockstep
