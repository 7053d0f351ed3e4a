#include "lockstep/elastic/step_end.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <map>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/agreement/options_number.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {
namespace {

// What each rank says: that it is at a step's end, which one, whether a process waits, and a number of the options.
constexpr std::int64_t kIsStepEnd = 0x5f3c91e2a7d04b68, kNumbers = 4;

using Options = std::map<std::string, double>;

// By parameter group. Of LibTorch's own optimizers, the learning rate, if they have one.
std::vector<Options> options_of(torch::optim::Optimizer& optimizer) {
  if (const auto* const flat = dynamic_cast<const FlatOptimizer*>(&optimizer)) return flat->group_options();
  std::vector<Options> result;
  for (auto& group : optimizer.param_groups()) {
    try {
      result.push_back({{"lr", group.options().get_lr()}});
    } catch (const c10::Error&) {
      result.emplace_back();
    }
  }
  return result;
}

std::int64_t number_of_options(const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::uint64_t number = optimizers.size();
  for (torch::optim::Optimizer* const optimizer : optimizers) mix_options(number, options_of(*optimizer));
  return static_cast<std::int64_t>(number);
}

std::vector<std::string> lines_of_options(const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const auto groups = options_of(*optimizers[i]);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (const auto& [name, value] : groups[group]) {
        lines.push_back(fmt::format("{} {} in parameter group {} of optimizer {}", name, value, group, i));
      }
    }
  }
  return lines;
}

}  // namespace

StepEnd meet_at_end(Communicator& ranks, std::int64_t steps, bool waits,
                    const std::vector<torch::optim::Optimizer*>& optimizers) {
  StepEnd result;
  result.waits = waits;
  if (ranks.world_size() == 1) return result;
  const at::Tensor mine = at::tensor({kIsStepEnd, steps, std::int64_t{waits ? 1 : 0}, number_of_options(optimizers)},
                                     at::TensorOptions().dtype(at::kLong));
  const at::Tensor all = at::empty({kNumbers * ranks.world_size()}, mine.options());
  ranks.all_gather(all, mine);
  const auto* const numbers = all.data_ptr<std::int64_t>();
  bool options_differ = false;
  for (int rank = 0; rank < ranks.world_size(); ++rank) {
    const std::int64_t* const theirs = numbers + kNumbers * rank;
    result.waits = result.waits || theirs[2] != 0;
    options_differ = options_differ || theirs[3] != numbers[3];
    if (theirs[0] == kIsStepEnd && theirs[1] == numbers[1]) continue;
    result.fix =
        "make the same exchanges in each step on every rank: a step that returns early on one rank, as for a "
        "batch without samples, must do its part all the same";
    result.problem =
        theirs[0] != kIsStepEnd
            ? fmt::format("rank {} is in another exchange, and rank {} at the end of step {}", rank, ranks.rank(),
                          steps - 1)
            : fmt::format("rank 0 has made {} steps, and rank {} has made {}", numbers[1], rank, theirs[1]);
    return result;
  }
  if (!options_differ) return result;
  const auto difference = first_difference(ranks, lines_of_options(optimizers));
  result.problem = fmt::format("the ranks' optimizers have different options after step {}: {}", steps - 1,
                               difference ? difference->text() : "other bits of an option");
  result.fix =
      "let ElasticState have all that they follow from, such as a schedule: a process that takes a lost rank's "
      "place knows what is there";
  return result;
}

}  // namespace lockstep
