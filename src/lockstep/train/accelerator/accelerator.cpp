#include "lockstep/train/accelerator.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <set>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/reducer/bucket_layout.h"
#include "lockstep/train/accelerator/accelerator_state.h"
#include "lockstep/train/accelerator/same_loader.h"
#include "lockstep/train/accelerator/self_launch.h"
#include "lockstep/train/batch_device.h"

namespace lockstep {
namespace {

constexpr const char* kHere = "Accelerator";

MixedPrecision chosen_precision(const AcceleratorOptions& options) {
  const MixedPrecision precision =
      mixed_precision_named(options.mixed_precision.empty() ? env_string("ACCELERATE_MIXED_PRECISION").value_or("no")
                                                            : options.mixed_precision,
                            kHere);
  if (!torch::cuda::is_available()) check_mixed_precision(precision, c10::DeviceType::CPU, kHere);
  return precision;
}

std::int64_t accumulation_of(const AcceleratorOptions& options) {
  const std::int64_t steps = options.gradient_accumulation_steps != 0
                                 ? options.gradient_accumulation_steps
                                 : env_int("ACCELERATE_GRADIENT_ACCUMULATION_STEPS").value_or(1);
  if (steps < 1) {
    throw Error(fmt::format("gradient_accumulation_steps is {}", steps), kHere, "use 1 or more");
  }
  return steps;
}

}  // namespace

Accelerator::Accelerator(AcceleratorOptions options)
    : options_(std::move(options)),
      precision_(chosen_precision(options_)),
      state_(std::make_shared<UpdateState>(accumulation_of(options_))),
      kept_(std::make_shared<AcceleratorState>(state_)) {
  options_.log_with = tracker_names(options_.log_with);
  if (!options_.fsdp_plugin) options_.fsdp_plugin = fsdp_plugin_of_environment();
  if (precision_.scales_loss()) state_->scaler.emplace(options_.grad_scaler);
  if (!options_.ddp.process_group && !is_initialized()) {
    adopt_launcher_environment();
    become_launcher_if_configured();
    ProcessGroupOptions how;
    if (!env_string("WORLD_SIZE") && !env_string("RANK")) {
      how.world_size = 1;
      how.rank = 0;
    }
    init_process_group(how);
    owns_group_ = true;
  }
  const auto joined = options_.ddp.process_group ? options_.ddp.process_group : default_group();
  const bool may_use_cuda = !options_.cpu && env_string("ACCELERATE_USE_CPU").value_or("false") != "true";
  join(joined, may_use_cuda ? use_local_device() : c10::Device(c10::kCPU));
}

Accelerator::Accelerator(Accelerator&&) noexcept = default;
Accelerator& Accelerator::operator=(Accelerator&&) noexcept = default;
Accelerator::~Accelerator() = default;

std::int64_t Accelerator::gradient_accumulation_steps() const { return state_->accumulation.steps(); }

bool Accelerator::sync_gradients() const { return state_->accumulation.is_last(); }

bool Accelerator::optimizer_step_was_skipped() const { return !state_->left.empty(); }

void Accelerator::keep(std::function<ModuleTensors()> tensors, std::function<DistributedDataParallelBase&()> ddp) {
  kept_->add_model(std::move(tensors), std::move(ddp));
}

void Accelerator::keep(torch::optim::Optimizer& optimizer) { kept_->add_optimizer(optimizer); }

void Accelerator::keep(torch::optim::LRScheduler& scheduler) { kept_->add_scheduler(scheduler); }

void Accelerator::keep(Checkpointable object) { kept_->add_object(std::move(object)); }

const std::vector<torch::optim::Optimizer*>& Accelerator::prepared_optimizers() const { return kept_->optimizers(); }

void Accelerator::take_over_from(int rank) { kept_->take_over_from(rank, process_group()); }

void Accelerator::place(const ModuleTensors& tensors) const {
  if (options_.device_placement) move_to_device(tensors, device());
}

LoaderShare Accelerator::loader_share() const {
  Features features;
  if (options_.ddp.virtual_shards != 0) features.add(Feature::VirtualShards);
  features.add(Feature::PreparedLoader).require_together(kHere);
  LoaderShare share;
  share.rank = process_index();
  share.world_size = num_processes();
  share.even_batches = options_.even_batches;
  share.split_batches = options_.split_batches;
  if (options_.device_placement) share.device = device();
  return share;
}

// A torch::data loader does not report how many batches are left, so gradient accumulation must look ahead for its end.
std::int64_t Accelerator::batches_to_read_ahead() const {
  return options_.sync_with_dataloader && gradient_accumulation_steps() > 1 ? gradient_accumulation_steps() : 0;
}

PreparedLoader Accelerator::prepare_loader(const DataLoader& loader) {
  const LoaderShare share = loader_share();
  require_same_loader(process_group(), fmt::format("the prepared loader {}, counted from 0", kept_->loader_count()),
                      loader.dataset(), share, loader_settings(loader));
  PreparedLoader prepared(loader, share, loaders_);
  kept_->add_loader(prepared);
  return prepared;
}

DistributedDataParallelOptions Accelerator::ddp_options() const {
  DistributedDataParallelOptions options = options_.ddp;
  options.process_group = group();
  // Slots are as long as buckets.
  if (options_.fsdp_plugin && options.bucket_cap_mb == 0) {
    options.bucket_cap_mb = static_cast<double>(BucketCaps::of_shares().other_bytes >> 20);
  }
  return options;
}

void Accelerator::begin_micro_batch() {
  const bool ends_with_loader = options_.sync_with_dataloader && loaders_->innermost() != nullptr;
  state_->accumulation.begin(ends_with_loader ? loaders_->innermost()->batches_left : -1);
}

void Accelerator::check_slices_alone() const {
  if (gradient_accumulation_steps() == 1) return;
  Features features;
  features.add(Feature::VirtualShards, "run_shards");
  features.add(Feature::Accumulation, fmt::format("gradient_accumulation_steps {}", gradient_accumulation_steps()));
  features.require_together(kHere);
}

void Accelerator::share_out() {
  if (options_.fsdp_plugin) kept_->share_out(*options_.fsdp_plugin);
}

void Accelerator::backward(const at::Tensor& loss) {
  if (options_.fsdp_plugin) kept_->require_shared_out();
  ++state_->open_backwards;
  const std::int64_t window = state_->accumulation.window();
  const at::Tensor part = window > 1 ? loss / window : loss;
  (state_->scaler ? state_->scaler->scale(part) : part).backward();
}

// Unscales the optimizers that have any of `parameters`; null: all optimizers.
void Accelerator::unscale_gradients_of(const std::vector<at::Tensor>* parameters) {
  if (!state_->scaler || !sync_gradients()) return;
  std::set<const c10::TensorImpl*> wanted;
  if (parameters != nullptr) {
    for (const at::Tensor& parameter : *parameters) wanted.insert(parameter.unsafeGetTensorImpl());
  }
  for (torch::optim::Optimizer* optimizer : kept_->optimizers()) {
    bool is_meant = parameters == nullptr;
    for (const auto& group : optimizer->param_groups()) {
      for (const at::Tensor& each : group.params()) is_meant |= wanted.count(each.unsafeGetTensorImpl()) != 0;
    }
    if (is_meant && !state_->scaler->is_unscaled(*optimizer)) state_->scaler->unscale_(*optimizer);
  }
}

double Accelerator::clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type) {
  if (!sync_gradients()) return 0;
  unscale_gradients_of(&parameters);
  return lockstep::clip_grad_norm_(parameters, max_norm, norm_type);
}

void Accelerator::clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  if (!sync_gradients()) return;
  unscale_gradients_of(&parameters);
  lockstep::clip_grad_value_(parameters, clip_value);
}

Autocast Accelerator::autocast() const { return Autocast(device().type(), precision_.dtype, precision_.autocast); }

bool Accelerator::check_trigger() {
  at::Tensor flag = at::full({1}, trigger_ ? 1 : 0, at::kInt);
  process_group().all_reduce(flag, ReduceOp::Max);
  const bool is_set = flag.item<int>() != 0;
  if (is_set) trigger_ = false;
  return is_set;
}

void Accelerator::init_trackers(const std::string& project_name, const nlohmann::json& config) {
  const ProjectConfiguration& project = options_.project_config;
  const std::string folder = project.logging_dir.empty() ? project.project_dir : project.logging_dir;
  if (options_.log_with.empty()) {
    throw Error("init_trackers was called, but log_with names no tracker", kHere, "set AcceleratorOptions::log_with");
  }
  if (folder.empty()) {
    throw Error(fmt::format("logging with {} requires a logging_dir", options_.log_with.front()), kHere,
                "set project_config.logging_dir or project_dir");
  }
  if (!is_main_process()) return;
  for (const std::string& name : options_.log_with) {
    trackers_.push_back(make_tracker(name, folder + "/" + project_name));
    if (config.is_object() && !config.empty()) trackers_.back()->store_init_configuration(config);
  }
}

Tracker& Accelerator::get_tracker(const std::string& name) {
  const auto found =
      std::find_if(trackers_.begin(), trackers_.end(), [&](const auto& tracker) { return tracker->name() == name; });
  if (found != trackers_.end()) return **found;
  const auto& known = options_.log_with;
  if (!is_main_process() && std::find(known.begin(), known.end(), name) != known.end()) return silent_tracker();
  throw Error(fmt::format("there is no tracker '{}'", name), kHere, "call init_trackers, and name it in log_with");
}

void Accelerator::log(const Logs& values, std::int64_t step) {
  const std::int64_t at = step < 0 ? next_log_step_ : step;
  next_log_step_ = at + 1;
  for (const auto& tracker : trackers_) tracker->log(values, at);
}

void Accelerator::free_memory() {
  if (writer_) writer_->wait();
  writer_.reset();
  kept_ = std::make_shared<AcceleratorState>(state_);
  state_->accumulation.go_on(0, 1);
}

void Accelerator::end_training() {
  for (const auto& tracker : trackers_) tracker->finish();
  trackers_.clear();
  free_memory();
  leave();
  if (std::exchange(owns_group_, false)) destroy_process_group();
}

void set_seed(std::uint64_t seed, bool device_specific) {
  const int rank = is_initialized() ? get_rank() : 0;
  torch::manual_seed(seed + (device_specific ? static_cast<std::uint64_t>(rank) : 0));
}

}  // namespace lockstep
