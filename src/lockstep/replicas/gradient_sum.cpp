#include "lockstep/replicas/gradient_sum.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "lockstep/replicas/device_sum.h"

namespace lockstep {
namespace {

// A piece of the target stays in a core's cache while all sources are added to it.
constexpr std::int64_t kPieceElements = std::int64_t{1} << 15;

bool is_plain_memory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
}

bool can_cut(const GradientSum& sum) {
  return !sum.is_shared && is_plain_memory(sum.target) &&
         std::all_of(sum.sources.begin(), sum.sources.end(), [&](const at::Tensor& source) {
           return is_plain_memory(source) && source.scalar_type() == sum.target.scalar_type() &&
                  source.numel() == sum.target.numel();
         });
}

void add_piece(GradientSum& sum, std::int64_t begin, std::int64_t end) {
  at::Tensor target = sum.target.view({-1});
  for (std::int64_t at = begin; at < end; at += kPieceElements) {
    const std::int64_t count = std::min(kPieceElements, end - at);
    at::Tensor piece = target.narrow(0, at, count);
    for (const at::Tensor& source : sum.sources) piece.add_(source.view({-1}).narrow(0, at, count));
  }
}

void add_whole(GradientSum& sum) {
  for (const at::Tensor& source : sum.sources) {
    if (sum.is_shared || sum.target.layout() != at::kStrided) {
      sum.target = sum.target + source;
      sum.is_shared = false;
    } else {
      sum.target.add_(source);
    }
  }
}

struct SumTask {
  GradientSum* sum;
  std::int64_t numel;
  bool is_cut;  // divided among members; else one member adds all of it
};

// Adds this member's share: elements [begin, end) of all tensors in a row. A tensor that cannot be cut belongs to the
// member that has its first element.
void add_share(const std::vector<SumTask>& tasks, std::int64_t begin, std::int64_t end) {
  const at::NoGradGuard no_grad;
  std::int64_t position = 0;
  for (const SumTask& task : tasks) {
    const std::int64_t from = std::max(begin, position) - position;
    const std::int64_t to = std::min(end, position + task.numel) - position;
    position += task.numel;
    if (from >= to) continue;
    if (task.is_cut) {
      add_piece(*task.sum, from, to);
    } else if (from == 0) {
      add_whole(*task.sum);
    }
  }
}

using Key = std::pair<std::string, at::ScalarType>;

// Copies sources from devices other than their target's, one copy per device and dtype.
void bring_sources_over(std::vector<GradientSum>& sums) {
  std::map<Key, std::vector<std::pair<at::Tensor*, c10::Device>>> groups;
  for (GradientSum& sum : sums) {
    for (at::Tensor& source : sum.sources) {
      if (source.device() == sum.device) continue;
      groups[{source.device().str() + sum.device.str(), source.scalar_type()}].emplace_back(&source, sum.device);
    }
  }
  for (auto& [key, group] : groups) {
    std::vector<at::Tensor> flat;
    for (const auto& [source, device] : group) flat.push_back(source->reshape({-1}));
    const at::Tensor moved = at::cat(flat).to(group.front().second);
    std::int64_t position = 0;
    for (auto& [source, device] : group) {
      const std::int64_t numel = source->numel();
      *source = moved.narrow(0, position, numel).view(source->sizes());
      position += numel;
    }
  }
}

// The sums that need additions; a single gradient already is its sum.
std::vector<SumTask> tasks_of(std::vector<GradientSum>& sums) {
  std::vector<SumTask> tasks;
  for (GradientSum& sum : sums) {
    if (!sum.target.defined() && !sum.sources.empty()) {
      sum.target = std::move(sum.sources.front());
      sum.sources.erase(sum.sources.begin());
      sum.is_shared = false;
    }
    if (!sum.sources.empty()) tasks.push_back({&sum, sum.target.numel(), can_cut(sum)});
  }
  return tasks;
}

}  // namespace

std::int64_t add_gradients(WorkerThreads& team, std::vector<GradientSum>& sums) {
  const at::NoGradGuard no_grad;
  std::int64_t bytes = 0;
  for (const GradientSum& sum : sums) {
    for (const at::Tensor& source : sum.sources) {
      bytes += static_cast<std::int64_t>(source.numel()) * static_cast<std::int64_t>(source.element_size());
    }
  }
  if (std::any_of(sums.begin(), sums.end(), [](const GradientSum& sum) { return !sum.device.is_cpu(); })) {
    add_on_device(sums);
    return bytes;
  }
  bring_sources_over(sums);
  const std::vector<SumTask> tasks = tasks_of(sums);
  std::int64_t elements = 0;
  for (const SumTask& task : tasks) elements += task.numel;
  const auto members = static_cast<std::int64_t>(team.members());
  std::vector<std::exception_ptr> failures(team.members());
  team.run(team.members(), [&](std::size_t member) {
    const auto k = static_cast<std::int64_t>(member);
    try {
      add_share(tasks, elements * k / members, elements * (k + 1) / members);
    } catch (...) {
      failures[member] = std::current_exception();
    }
  });
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return bytes;
}

}  // namespace lockstep
