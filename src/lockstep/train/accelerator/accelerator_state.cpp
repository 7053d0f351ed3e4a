#include "lockstep/train/accelerator/accelerator_state.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/generators.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/train/accelerator/scheduler_state.h"

namespace lockstep {
namespace {

constexpr const char* kSummaryFile = "accelerator.json";
constexpr const char* kRates = "learning_rates";  // by optimizer and group: LibTorch's archives do not restore options
constexpr const char* kWindow = "window";         // position, length, backwards since the last update
constexpr const char* kGradient = "gradient.";    // followed by the parameter's name

// Index 0 has the plain name, as in Accelerate's files.
std::string indexed(const std::string& name, std::size_t index, const std::string& ending) {
  return index == 0 ? name + ending : fmt::format("{}_{}{}", name, index, ending);
}
std::string torch_optimizer_file(std::size_t index) { return indexed("optimizer", index, ".pt"); }
std::string scheduler_file(std::size_t index) { return indexed("scheduler", index, ".json"); }
std::string object_file(std::size_t index) { return fmt::format("custom_checkpoint_{}.bin", index); }
std::string loader_name(std::size_t index) { return fmt::format("loader_{}", index); }

std::vector<double> rates_of(torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void set_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  for (std::size_t i = 0; i < rates.size() && i < optimizer.param_groups().size(); ++i) {
    optimizer.param_groups()[i].options().set_lr(rates[i]);
  }
}

[[noreturn]] void refuse_state(const Checkpoint& checkpoint, const std::string& what) {
  throw Error(what, checkpoint.path(),
              "prepare and register the same objects in the same order as the run that saved it, before load_state");
}

}  // namespace

NamedTensors tensors_to_save(const ModuleTensors& module) {
  NamedTensors tensors;
  for (const NamedTensor& parameter : module.parameters) tensors.emplace_back(parameter.name, parameter.tensor);
  for (const NamedTensor& buffer : module.buffers()) tensors.emplace_back(buffer.name, buffer.tensor);
  return tensors;
}

// The parameters of all models. Names of further models start with the model's number.
NamedParameters AcceleratorState::parameter_names() const {
  NamedParameters names;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const std::string prefix = i == 0 ? "" : fmt::format("model_{}.", i);
    for (const NamedTensor& parameter : models_[i]().parameters) {
      names.emplace_back(prefix + parameter.name, parameter.tensor);
    }
  }
  return names;
}

// In the order of the parameters: a model may lie on several devices.
std::vector<int> AcceleratorState::cuda_devices() const {
  std::vector<int> devices;
  for (const auto& [name, parameter] : parameter_names()) {
    if (!parameter.is_cuda()) continue;
    const auto device = static_cast<int>(parameter.get_device());
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

// An incomplete window has gradients of this rank that no update has used yet.
NamedTensors AcceleratorState::gradients_of_open_window() const {
  const GradientAccumulation& accumulation = update_->accumulation;
  if (accumulation.position() == 0) return {};
  for (const auto& wrapper : wrappers_) {
    if (!wrapper().fused_step().has_sent_gradients()) continue;
    throw Error("gradients of the open window were sent to the ranks that update them, and grad only stands for them",
                "Accelerator, save_state", "save after the update, or fuse with stage 1");
  }
  NamedTensors tensors{
      {kWindow, torch::tensor({accumulation.position(), accumulation.window(), update_->open_backwards}, at::kLong)}};
  for (const auto& [name, parameter] : parameter_names()) {
    if (parameter.grad().defined()) tensors.emplace_back(kGradient + name, parameter.grad());
  }
  return tensors;
}

nlohmann::json AcceleratorState::counts() const {
  return {{"models", models_.size()},
          {"optimizers", optimizers_.size()},
          {"schedulers", schedulers_.size()},
          {"loaders", loaders_.size()},
          {"registered objects", objects_.size()}};
}

void AcceleratorState::take_over_from(int rank, Communicator& group) {
  if (group.world_size() == 1) return;
  const bool is_source = group.rank() == rank;
  const auto bring = [&](const std::string& mine) { return broadcast_text(group, is_source ? mine : "", rank); };
  for (torch::optim::LRScheduler* scheduler : schedulers_) {
    const std::string state = bring(scheduler_state(*scheduler));
    if (!is_source) load_scheduler_state(*scheduler, state, "join_uneven_inputs");
  }
  if (update_->scaler) {
    const std::string state = bring(scaler_json(update_->scaler->state()));
    if (!is_source) update_->scaler->load_state(parse_scaler(state, "join_uneven_inputs"));
  }
}

std::vector<NamedTensors> AcceleratorState::weights() const {
  std::vector<NamedTensors> all;
  for (const auto& tensors : models_) all.push_back(tensors_to_save(tensors()));
  return all;
}

CheckpointContent AcceleratorState::content(std::int64_t iteration, bool is_main) const {
  CheckpointContent content;
  content.step = iteration;
  const NamedParameters names = parameter_names();
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    OptimizerContent& kept = i == 0 ? content.optimizer : content.further_optimizers.emplace_back();
    const auto* flat = dynamic_cast<const FlatOptimizer*>(optimizers_[i]);
    if (flat != nullptr) {
      kept = {flat->named_state(names), flat->is_sharded(), flat->group_options()};
    } else if (is_main) {
      content.files[torch_optimizer_file(i)] = detail::archive_bytes(*optimizers_[i]);
    }
  }
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (const auto loader = loaders_[i].lock()) content.samplers[loader_name(i)] = loader->state();
  }
  content.generators = Generators(cuda_devices()).state();
  content.rank_tensors = gradients_of_open_window();
  for (auto& entry : state_of_this_replica()) content.rank_tensors.push_back(std::move(entry));
  if (!is_main) return content;
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    content.files[scheduler_file(i)] = scheduler_state(*schedulers_[i]);
  }
  for (std::size_t i = 0; i < objects_.size(); ++i) content.files[object_file(i)] = objects_[i].state();
  if (update_->scaler) content.files[kScalerFile] = scaler_json(update_->scaler->state());
  nlohmann::json summary = counts();
  for (torch::optim::Optimizer* optimizer : optimizers_) summary[kRates].push_back(rates_of(*optimizer));
  content.files[kSummaryFile] = summary.dump(2) + "\n";
  return content;
}

void AcceleratorState::check_counts(const Checkpoint& checkpoint) const {
  if (!checkpoint.has_file(kSummaryFile)) {
    throw Error(checkpoint.path() + " was not written by save_state", checkpoint.path(),
                "give a folder that Accelerator::save_state wrote; a Trainer's is for --resume-from-checkpoint");
  }
  const auto saved = nlohmann::json::parse(checkpoint.file(kSummaryFile), nullptr, false);
  const nlohmann::json here = counts();
  for (const auto& [kind, count] : here.items()) {
    const auto there = saved.is_object() ? saved.value(kind, nlohmann::json(0)) : nlohmann::json(0);
    if (there == count) continue;
    refuse_state(checkpoint,
                 fmt::format("the checkpoint has {} {}, but here there are {}", there.dump(), kind, count.dump()));
  }
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const bool is_flat = dynamic_cast<const FlatOptimizer*>(optimizers_[i]) != nullptr;
    if (checkpoint.has_file(torch_optimizer_file(i)) != is_flat) continue;
    refuse_state(
        checkpoint,
        fmt::format(
            "optimizer {} is one of Lockstep's here but was one of LibTorch's when saved, or the other way round", i));
  }
}

void AcceleratorState::load_optimizer(std::size_t index, const Checkpoint& checkpoint) {
  auto* flat = dynamic_cast<FlatOptimizer*>(optimizers_[index]);
  if (flat == nullptr) {
    detail::load_archive_bytes(*optimizers_[index], checkpoint.file(torch_optimizer_file(index)));
    const auto summary = nlohmann::json::parse(checkpoint.file(kSummaryFile));
    set_rates(*optimizers_[index], summary.at(kRates).at(index).get<std::vector<double>>());
    return;
  }
  const Checkpoint::OptimizerParts saved = checkpoint.optimizer_parts(index);
  flat->load_named_state(parameter_names(), saved.states);
  flat->load_group_options(saved.groups);
}

void AcceleratorState::load_window(const NamedTensors& saved) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  const auto window = by_name.find(kWindow);
  const bool is_open = window != by_name.end();
  update_->accumulation.go_on(is_open ? window->second[0].item<std::int64_t>() : 0,
                              is_open ? window->second[1].item<std::int64_t>() : 1);
  update_->open_backwards = is_open ? window->second[2].item<std::int64_t>() : 0;
  update_->left.clear();
  for (const auto& [name, parameter] : parameter_names()) {
    const auto gradient = by_name.find(kGradient + name);
    if (gradient == by_name.end()) continue;
    // What stands for a gradient that was set to zero cannot be written.
    if (!parameter.grad().defined() || !parameter.grad().is_non_overlapping_and_dense()) {
      parameter.mutable_grad() = gradient->second.to(parameter.device(), parameter.scalar_type(), false, /*copy=*/true);
    } else {
      parameter.grad().copy_(gradient->second);
    }
  }
}

void AcceleratorState::drop_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameter_names()) {
    if (parameter.grad().defined()) parameter.grad().zero_();
  }
}

// All ranks write at once: where a fused optimizer's ranks share the weights, each to a copy of its own, which the next
// step compares. Gradients that wait belong to weights that are replaced.
void AcceleratorState::load_weights(const Checkpoint& checkpoint, const std::vector<NamedTensors>& weights) {
  drop_gradients();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].empty()) continue;
    if (!wrappers_[i]().fused_step().weight_parts().empty()) {
      load_shards(checkpoint, i, weights[i]);
      continue;
    }
    wrappers_[i]().fused_step().own_weights();
    checkpoint.load_weights(weights[i], i);
  }
}

void AcceleratorState::load(const Checkpoint& checkpoint, const ResumeState& own,
                            const std::vector<NamedTensors>& weights) {
  check_counts(checkpoint);
  load_weights(checkpoint, weights);
  for (std::size_t i = 0; i < optimizers_.size(); ++i) load_optimizer(i, checkpoint);
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    load_scheduler_state(*schedulers_[i], checkpoint.file(scheduler_file(i)),
                         checkpoint.path() + "/" + scheduler_file(i));
  }
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    const auto position = own.samplers.find(loader_name(i));
    const auto loader = loaders_[i].lock();
    if (loader && position != own.samplers.end()) loader->load_state(position->second);
  }
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    objects_[i].load_state(checkpoint.file(object_file(i)), checkpoint.path() + "/" + object_file(i));
  }
  if (update_->scaler && checkpoint.has_file(kScalerFile)) {
    update_->scaler->load_state(parse_scaler(checkpoint.file(kScalerFile), checkpoint.path() + "/" + kScalerFile));
  }
  load_window(own.rank_tensors);
  if (!own.is_remapped) load_replica(own.rank_tensors);
  if (!own.generators.empty()) Generators(cuda_devices()).load_state(own.generators);
}

}  // namespace lockstep
