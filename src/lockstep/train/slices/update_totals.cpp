#include "lockstep/train/slices/update_totals.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "lockstep/base/signals.h"
#include "lockstep/parallel/slices/tree_sum.h"

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

// If ranks received different ones, the first of these counts: a person before a batch system.
constexpr std::size_t kRequestsOfPersons = 3;
constexpr std::array<int, kRequestsOfPersons + kWarningSignals.size()> kByRank = [] {
  std::array<int, kRequestsOfPersons + kWarningSignals.size()> all{SIGINT, SIGTERM, SIGHUP};
  for (std::size_t i = 0; i < kWarningSignals.size(); ++i) all[kRequestsOfPersons + i] = kWarningSignals[i];
  return all;
}();
constexpr auto kSignalNumbers = static_cast<std::int64_t>(kByRank.size());
constexpr std::int64_t kSignalRows = (kSignalNumbers + kTotalNumbers - 1) / kTotalNumbers;  // rows of totals

// One number for each signal: how many ranks received it.
at::Tensor numbers_of_signal(int signal) {
  at::Tensor numbers = torch::zeros({kSignalNumbers}, torch::kDouble);
  auto* const number = numbers.data_ptr<double>();
  for (std::size_t i = 0; i < kByRank.size(); ++i) number[i] = signal == kByRank[i] ? 1 : 0;
  return numbers;
}

int signal_of(const at::Tensor& sums) {
  const at::Tensor plain = sums.contiguous();
  const auto* const number = plain.data_ptr<double>();
  const auto* const first = std::find_if(number, number + kSignalNumbers, [](double ranks) { return ranks != 0; });
  return first == number + kSignalNumbers ? 0 : kByRank[static_cast<std::size_t>(first - number)];
}

}  // namespace

PartOfUpdate add_over_ranks(const PartOfUpdate& own, Communicator* group) {
  if (group == nullptr || group->world_size() == 1) return own;
  const at::Tensor sums = torch::cat({numbers_of(own.totals), numbers_of_signal(own.stop_signal)});
  group->all_reduce(sums);
  PartOfUpdate result;
  result.totals = totals_of(sums);
  result.stop_signal = signal_of(sums.narrow(0, kTotalNumbers, kSignalNumbers));
  return result;
}

PartOfUpdate add_over_slices(const PartOfUpdate& own, const SliceTree& tree, Communicator* group) {
  const int world_size = group == nullptr ? 1 : group->world_size();
  const std::int64_t longest = tree.run(0, world_size).size();
  const at::Tensor mine = torch::zeros({longest + kSignalRows, kTotalNumbers}, torch::kDouble);
  for (std::size_t i = 0; i < own.slices.size(); ++i) {
    mine[static_cast<std::int64_t>(i)].copy_(numbers_of(own.slices[i]));
  }
  const auto signals_in = [longest](const at::Tensor& rows) {
    return rows.narrow(0, longest, kSignalRows).flatten().narrow(0, 0, kSignalNumbers);
  };
  signals_in(mine).copy_(numbers_of_signal(own.stop_signal));
  at::Tensor all = mine.unsqueeze(0);
  if (world_size > 1) {
    all = torch::empty({world_size, longest + kSignalRows, kTotalNumbers}, torch::kDouble);
    group->all_gather(all, mine);
  }
  std::vector<at::Tensor> rows;
  at::Tensor signals = torch::zeros({kSignalNumbers}, torch::kDouble);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::int64_t i = 0; i < tree.run(rank, world_size).size(); ++i) rows.push_back(all[rank][i]);
    signals += signals_in(all[rank]);
  }
  PartOfUpdate result;
  result.totals = totals_of(sum_of_rows(tree, rows));
  result.stop_signal = signal_of(signals);
  return result;
}

}  // namespace lockstep
