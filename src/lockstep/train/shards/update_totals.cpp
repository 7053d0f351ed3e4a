#include "lockstep/train/shards/update_totals.h"

#include <torch/types.h>

#include <csignal>

#include "lockstep/parallel/shards/tree_sum.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTotalNumbers = 4;

at::Tensor numbers_of(const UpdateTotals& totals) {
  return torch::tensor(
      {totals.loss, static_cast<double>(totals.count), static_cast<double>(totals.samples), totals.operations},
      torch::kDouble);
}

UpdateTotals totals_of(const at::Tensor& numbers) {
  const at::Tensor plain = numbers.contiguous();
  const auto* const number = plain.data_ptr<double>();
  return {number[0], static_cast<std::int64_t>(number[1]), static_cast<std::int64_t>(number[2]), number[3]};
}

at::Tensor numbers_of_signal(int signal) {
  return torch::tensor({signal != 0 ? 1.0 : 0.0, signal == SIGINT ? 1.0 : 0.0}, torch::kDouble);
}

int signal_of(const at::Tensor& sums) {
  if (sums[0].item<double>() == 0) return 0;
  return sums[1].item<double>() != 0 ? SIGINT : SIGTERM;
}

}  // namespace

PartOfUpdate add_over_ranks(const PartOfUpdate& own, Communicator* group) {
  if (group == nullptr || group->world_size() == 1) return own;
  const at::Tensor sums = torch::cat({numbers_of(own.totals), numbers_of_signal(own.stop_signal)});
  group->all_reduce(sums);
  PartOfUpdate result;
  result.totals = totals_of(sums);
  result.stop_signal = signal_of(sums.narrow(0, kTotalNumbers, 2));
  return result;
}

PartOfUpdate add_over_shards(const PartOfUpdate& own, const ShardTree& tree, Communicator* group) {
  const int world_size = group == nullptr ? 1 : group->world_size();
  const std::int64_t longest = tree.run(0, world_size).size();
  const at::Tensor mine = torch::zeros({longest + 1, kTotalNumbers}, torch::kDouble);
  for (std::size_t i = 0; i < own.shards.size(); ++i) {
    mine[static_cast<std::int64_t>(i)].copy_(numbers_of(own.shards[i]));
  }
  mine[longest].narrow(0, 0, 2).copy_(numbers_of_signal(own.stop_signal));
  at::Tensor all = mine.unsqueeze(0);
  if (world_size > 1) {
    all = torch::empty({world_size, longest + 1, kTotalNumbers}, torch::kDouble);
    group->all_gather(all, mine);
  }
  std::vector<at::Tensor> rows;
  at::Tensor signals = torch::zeros({2}, torch::kDouble);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::int64_t i = 0; i < tree.run(rank, world_size).size(); ++i) rows.push_back(all[rank][i]);
    signals += all[rank][longest].narrow(0, 0, 2);
  }
  PartOfUpdate result;
  result.totals = totals_of(sum_of_rows(tree, rows));
  result.stop_signal = signal_of(signals);
  return result;
}

}  // namespace lockstep
