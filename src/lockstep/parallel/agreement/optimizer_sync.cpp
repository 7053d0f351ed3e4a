#include "lockstep/parallel/agreement/optimizer_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <string>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/optim/optimizer_registry.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNotSent = -1;

// Sends one optimizer's state from the root: [parameters][steps, and for each kind of tensor 1 if it exists].
class StateJourney {
 public:
  StateJourney(Communicator& communicator, FlatOptimizer& optimizer, int root)
      : communicator_(communicator),
        optimizer_(optimizer),
        root_(root),
        names_(numbered_parameters(optimizer)),
        kinds_(optimizer.state_names()),
        state_(optimizer.named_state(names_)) {}

  void make() {
    const auto rows = static_cast<std::int64_t>(names_.size());
    header_ = at::full({rows * columns()}, kNotSent, at::TensorOptions().dtype(at::kLong));
    if (is_root()) fill_header();
    communicator_.broadcast(header_, root_);
    std::vector<at::Tensor> tensors;
    for (std::size_t row = 0; row < names_.size(); ++row) {
      if (is_covered(row)) continue;
      if (!is_root()) make_room(row);
      add_tensors(row, tensors);
    }
    broadcast_coalesced(communicator_, tensors, root_);
    if (!is_root()) optimizer_.load_named_state(names_, state_);
  }

 private:
  bool is_root() const { return communicator_.rank() == root_; }
  std::int64_t columns() const { return static_cast<std::int64_t>(1 + kinds_.size()); }
  std::int64_t* entry(std::size_t row) {
    return header_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(row) * columns();
  }
  // Each rank owns a part of what a fused update updates.
  bool is_covered(std::size_t row) const {
    const StepDelegate* delegate = optimizer_.step_delegate();
    return delegate != nullptr && delegate->covers(names_[row].second);
  }

  void fill_header() {
    for (std::size_t row = 0; row < names_.size(); ++row) {
      const auto found = state_.find(names_[row].first);
      if (found == state_.end() || is_covered(row)) continue;
      entry(row)[0] = found->second.step;
      for (std::size_t k = 0; k < kinds_.size(); ++k) entry(row)[1 + k] = found->second.tensors.count(kinds_[k]) != 0;
    }
  }

  // Removes this rank's state of the row, to be replaced by the root's.
  void make_room(std::size_t row) {
    const auto& [name, parameter] = names_[row];
    state_.erase(name);
    if (entry(row)[0] == kNotSent) return;
    ParameterState state;
    state.sizes = parameter.sizes().vec();
    state.end = parameter.numel();
    state.step = entry(row)[0];
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      if (entry(row)[1 + k] == 1) state.tensors[kinds_[k]] = at::empty_like(parameter.detach());
    }
    state_.emplace(name, std::move(state));
  }

  void add_tensors(std::size_t row, std::vector<at::Tensor>& tensors) {
    const auto found = state_.find(names_[row].first);
    if (found == state_.end()) return;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const auto tensor = found->second.tensors.find(kinds_[k]);
      if (tensor != found->second.tensors.end()) tensors.push_back(tensor->second);
    }
  }

  Communicator& communicator_;
  FlatOptimizer& optimizer_;
  const int root_;
  const NamedParameters names_;
  const std::vector<std::string> kinds_;
  NamedState state_;
  at::Tensor header_;
};

std::string group_key(std::size_t group) { return fmt::format("lockstep_group_{}", group); }

// LibTorch's archives of optimizers do not restore options, so each group's options are written beside the state.
std::string torch_optimizer_bytes(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  const auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    groups[i].options().serialize(options);
    archive.write(group_key(i), options);
  }
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load_torch_optimizer(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  archive.load_from(stream);
  optimizer.load(archive);
  auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(group_key(i), options);
    groups[i].options().serialize(options);
  }
}

std::string first_line_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// The root's message begins with one of these: the state follows, or the reason why there is no state.
constexpr char kState = 's', kProblem = 'p';

std::string state_message(const torch::optim::Optimizer& optimizer) {
  try {
    return kState + torch_optimizer_bytes(optimizer);
  } catch (const std::exception& error) {
    return kProblem + first_line_of(error);
  }
}

Error unsendable_state(const Communicator& communicator, const std::string& problem) {
  return Error("the state of an optimizer in JoinOptions::optimizers " + problem,
               communicator.membership().where() + ", join",
               "use one that LibTorch saves and loads (SGD, Adam, AdamW, RMSprop, Adagrad; not LBFGS), or one of "
               "Lockstep's; or give all ranks the same number of steps, without join");
}

}  // namespace

// Sent as one row of numbers, because all ranks have the same groups.
void broadcast_group_options(Communicator& communicator, FlatOptimizer& optimizer, int root) {
  auto groups = optimizer.group_options();
  std::int64_t count = 0;
  for (const auto& group : groups) count += static_cast<std::int64_t>(group.size());
  at::Tensor numbers = at::full({count}, 0, at::TensorOptions().dtype(at::kDouble));
  double* next = numbers.data_ptr<double>();
  for (const auto& group : groups) {
    for (const auto& option : group) *next++ = option.second;
  }
  communicator.broadcast(numbers, root);
  next = numbers.data_ptr<double>();
  for (auto& group : groups) {
    for (auto& option : group) option.second = *next++;
  }
  if (communicator.rank() != root) optimizer.load_group_options(groups);
}

void broadcast_optimizer(Communicator& communicator, torch::optim::Optimizer& optimizer, int root) {
  if (communicator.world_size() == 1) return;
  const at::NoGradGuard no_grad;
  if (auto* flat = dynamic_cast<FlatOptimizer*>(&optimizer)) {
    StateJourney(communicator, *flat, root).make();
    broadcast_group_options(communicator, *flat, root);
    return;
  }
  const bool is_root = communicator.rank() == root;
  const std::string message = broadcast_text(communicator, is_root ? state_message(optimizer) : "", root);
  if (message.front() == kProblem) {
    throw unsendable_state(communicator, fmt::format("cannot be saved on rank {}: {}", root, message.substr(1)));
  }
  std::string outcome = "its state";
  try {
    if (!is_root) load_torch_optimizer(optimizer, message.substr(1));
  } catch (const std::exception& error) {
    outcome = first_line_of(error);
  }
  const auto difference = first_difference(communicator, {outcome});
  if (difference) throw unsendable_state(communicator, "cannot be loaded: " + difference->text());
}

std::vector<torch::optim::Optimizer*> optimizers_of(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<torch::optim::Optimizer*>& given) {
  std::vector<torch::optim::Optimizer*> result;
  for (FlatOptimizer* optimizer : optimizer_registry::find(parameters)) result.push_back(optimizer);
  for (torch::optim::Optimizer* optimizer : given) {
    if (std::find(result.begin(), result.end(), optimizer) == result.end()) result.push_back(optimizer);
  }
  return result;
}

const NamedTensor* first_without_optimizer(const std::vector<NamedTensor>& parameters,
                                           const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::unordered_set<const c10::TensorImpl*> updated;
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) updated.insert(parameter.unsafeGetTensorImpl());
    }
  }
  for (const NamedTensor& entry : parameters) {
    if (entry.tensor.requires_grad() && updated.count(entry.tensor.unsafeGetTensorImpl()) == 0) return &entry;
  }
  return nullptr;
}

}  // namespace lockstep
