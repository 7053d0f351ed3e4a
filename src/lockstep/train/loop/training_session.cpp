#include "lockstep/train/loop/training_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/callbacks/default_flow.h"
#include "lockstep/train/grouped_shard_sampler.h"
#include "lockstep/train/loop/startup_advice.h"

namespace lockstep {
namespace {

std::int64_t trainable_numbers(TrainableModel& model) {
  std::int64_t numbers = 0;
  for (const NamedTensor& parameter : model.tensors().parameters) {
    if (parameter.tensor.requires_grad()) numbers += parameter.tensor.numel();
  }
  return numbers;
}

NamedParameters names_of(TrainableModel& model) {
  NamedParameters names;
  for (const NamedTensor& parameter : model.tensors().parameters) names.emplace_back(parameter.name, parameter.tensor);
  return names;
}

Batch batch_of_first_sample(const Dataset& dataset, const Collate& collate) {
  if (!collate) return dataset.get_batch({0});
  return collate({dataset.get(0)});
}

int cuda_index(c10::Device device) { return device.is_cuda() ? device.index() : -1; }

}  // namespace

TrainingSession::TrainingSession(TrainerContext& context)
    : context_(context),
      args_(context.args()),
      model_(context.options.model),
      device_(device_of(*model_)),
      choice_(choose_engine(args_, *model_, context.group.get())),
      plan_(make_training_plan(args_, context.options.train_dataset->size(), context.world_size(), choice_.replicas)),
      names_(names_of(*model_)),
      generators_(cuda_index(device_)) {
  make_state();
}

TrainingSession::~TrainingSession() { context_.flow = nullptr; }

std::shared_ptr<Sampler> TrainingSession::make_sampler() const {
  const auto seed = static_cast<std::uint64_t>(args_.data_seed.value_or(args_.seed));
  if (args_.group_by_length) {
    LengthGroupedSamplerOptions options;
    options.batch_size = plan_.global_batch_size;
    options.num_replicas = context_.world_size();
    options.rank = context_.rank();
    options.seed = seed;
    return std::make_shared<GroupedShardSampler>(context_.options.lengths, options);
  }
  ExactDistributedSamplerOptions options;
  options.num_replicas = context_.world_size();
  options.rank = context_.rank();
  options.shuffle = true;
  options.seed = seed;
  return std::make_shared<ExactDistributedSampler>(plan_.samples, options);
}

void TrainingSession::make_state() {
  TrainerState& state = context_.state;
  state = TrainerState();
  state.max_steps = plan_.max_steps;
  state.num_train_epochs = plan_.num_epochs;
  state.logging_steps = plan_.logging_steps;
  state.eval_steps = plan_.eval_steps;
  state.save_steps = plan_.save_steps;
  state.train_batch_size = plan_.rank_batch_size;
  state.is_world_process_zero = context_.rank() == 0;
  state.is_local_process_zero = !context_.group || context_.group->membership().self().local_rank == 0;
  context_.control = TrainerControl();
  context_.other_time_s = 0;

  loss_ = [model = model_, factor = args_.label_smoothing_factor](const at::Tensor& output, const Batch& batch) {
    return factor > 0 ? model->smoothed_loss(output, batch, factor) : model->loss(output, batch);
  };
  optimizer_ = make_training_optimizer(args_, *model_);
  schedule_ = std::make_unique<TrainingSchedule>(args_, plan_, *optimizer_);
  if (context_.precision.scales_loss()) scaler_.emplace();
  sampler_ = make_sampler();
  DataLoaderOptions reading;
  reading.batch_size = plan_.rank_batch_size;
  reading.num_workers = static_cast<int>(args_.dataloader_num_workers);
  reading.prefetch_factor = static_cast<int>(args_.dataloader_prefetch_factor.value_or(2));
  reading.collate = context_.options.data_collator;
  reading.pin_memory = device_.is_cuda();
  loader_ = std::make_unique<DataLoader>(context_.options.train_dataset, reading, sampler_);
  if (args_.enable_jit_checkpoint) signal_ = std::make_unique<StopSignal>();
}

TrainOutput TrainingSession::run() {
  const auto start = std::chrono::steady_clock::now();
  // Dropout differs from rank to rank.
  torch::manual_seed(static_cast<std::uint64_t>(args_.seed) + static_cast<std::uint64_t>(context_.rank()));
  resume();
  if (!taken_up_.empty() && context_.state.global_step >= plan_.max_steps) return end_at_once();
  engine_ = make_gradient_engine(choice_, args_, model_, context_.group);
  const std::string fused = engine_->fuse(*optimizer_);
  if (!fused.empty()) choice_.text += ", fused update with " + fused;
  const bool has_eval = context_.options.eval_dataset != nullptr;
  StartupAdvice advice = startup_advice(args_, plan_, choice_, trainable_numbers(*model_), has_eval);
  if (context_.precision.autocast) advice.facts.push_back("Mixed precision = " + context_.precision.name());
  for (const auto* more : {&context_.options.warnings, &changes_}) {
    advice.warnings.insert(advice.warnings.end(), more->begin(), more->end());
  }
  context_.print(advice.text());

  context_.flow = std::make_shared<DefaultFlowCallback>(plan_);
  model_->set_training(true);
  first_step_ = context_.state.global_step;
  context_.notify(&TrainerCallback::on_train_begin);
  if (args_.eval_on_start && has_eval) evaluate(Evaluate::ToLook);
  while (!stops()) run_epoch();
  return finish(seconds_since(start));
}

void TrainingSession::run_epoch() {
  SamplerState where = sampler_->state();
  where.epoch = epoch_;
  where.position = std::min(position_, sampler_->size());
  sampler_->load_state(where);
  if (context_.options.set_epoch) context_.options.set_epoch(epoch_);
  context_.control.should_epoch_stop = false;
  context_.notify(&TrainerCallback::on_epoch_begin);

  DataLoader::Iterator batches = loader_->begin();
  more_ = false;
  while (micro_batch_ < plan_.micro_batches_per_epoch && !stops() && !context_.control.should_epoch_stop) {
    run_update(batches, std::min(plan_.accumulation, plan_.micro_batches_per_epoch - micro_batch_));
  }
  if (stop_was_asked_) return;
  context_.notify(&TrainerCallback::on_epoch_end);
  context_.agree_on_control();
  epoch_ended_ = true;
  log_evaluate_save();
  epoch_ended_ = false;
  ++epoch_;
  micro_batch_ = 0;
  position_ = 0;
}

void TrainingSession::run_update(DataLoader::Iterator& batches, std::int64_t window) {
  context_.notify(&TrainerCallback::on_step_begin);
  UpdateTotals totals = accumulate(batches, window);
  reduce(totals);
  context_.notify(&TrainerCallback::on_pre_optimizer_step);
  const bool is_updated = step_optimizer(totals);
  require_sound_weights(totals);
  context_.notify(&TrainerCallback::on_optimizer_step);
  if (is_updated) schedule_->step();

  TrainerState& state = context_.state;
  ++state.global_step;
  state.epoch = static_cast<double>(epoch_) +
                static_cast<double>(micro_batch_) / static_cast<double>(plan_.micro_batches_per_epoch);
  state.total_flos += totals.operations;
  note_loss(totals);
  context_.notify(&TrainerCallback::on_step_end);
  if (stop_was_asked_) {
    context_.control.should_save = args_.save_strategy != "no" || args_.enable_jit_checkpoint;
    context_.control.should_training_stop = true;
  }
  context_.agree_on_control();
  log_evaluate_save();
}

void TrainingSession::note_loss(const UpdateTotals& totals) {
  samples_of_session_ += totals.samples;
  if (totals.count == 0) return;  // no sample of this update had a label
  const double mean = totals.loss / static_cast<double>(totals.count);
  if (args_.logging_nan_inf_filter && !std::isfinite(mean)) return;
  loss_since_log_ += mean;
  ++steps_since_log_;
  loss_of_session_ += mean;
  ++losses_of_session_;
}

// Nothing if this rank has no batch left while others, whose share is one sample larger, have one more.
std::optional<Batch> TrainingSession::next_batch(DataLoader::Iterator& batches) {
  if (more_) ++batches;
  more_ = batches != loader_->end();
  if (!more_) return std::nullopt;
  const std::int64_t size = batch_size(*batches);
  position_ += size;
  return std::move(*batches);
}

TrainingSession::UpdateTotals TrainingSession::accumulate(DataLoader::Iterator& batches, std::int64_t window) {
  const auto stand_in = [this] {
    const TrainerOptions& options = context_.options;
    return on_device(batch_of_first_sample(*options.train_dataset, options.data_collator), device_);
  };
  UpdateTotals totals;
  for (std::int64_t i = 0; i < window; ++i) {
    GradientEngine::Pass pass;
    pass.is_last = i + 1 == window;
    if (scaler_) pass.loss_scale = scaler_->get_scale();
    if (const std::optional<Batch> read = next_batch(batches)) {
      const Batch batch = on_device(*read, device_);
      const LossSum loss = engine_->accumulate(batch, loss_, pass);
      totals.loss += loss.sum.item<double>();
      totals.count += loss.count.item<std::int64_t>();
      totals.samples += batch_size(batch);
      totals.operations += model_->floating_point_ops(batch);
    } else {
      engine_->accumulate_nothing(stand_in, pass);
    }
    ++micro_batch_;
    if (!pass.is_last) context_.notify(&TrainerCallback::on_substep_end);
  }
  return totals;
}

void TrainingSession::reduce(UpdateTotals& totals) {
  const double own_loss = totals.loss;
  bool stop = signal_ && signal_->received();
  if (context_.world_size() > 1) {
    at::Tensor sums = torch::tensor({totals.loss, static_cast<double>(totals.count),
                                     static_cast<double>(totals.samples), stop ? 1.0 : 0.0, totals.operations},
                                    torch::kDouble);
    context_.group->all_reduce(sums);
    const auto* sum = sums.data_ptr<double>();
    totals.loss = sum[0];
    totals.count = static_cast<std::int64_t>(sum[1]);
    totals.samples = static_cast<std::int64_t>(sum[2]);
    stop = sum[3] != 0;
    totals.operations = sum[4];
  }
  stop_was_asked_ = stop_was_asked_ || stop;
  const bool is_number = std::isfinite(totals.loss);
  if (!is_number && last_was_number_) report_no_number(own_loss);
  last_was_number_ = is_number;
}

// Reported once, when it first happens: on which ranks, and in which update.
void TrainingSession::report_no_number(double own_loss) {
  at::Tensor all = torch::full({context_.world_size()}, own_loss, torch::kDouble);
  if (context_.world_size() > 1) context_.group->all_gather(all, torch::full({1}, own_loss, torch::kDouble));
  std::vector<int> ranks;
  for (int rank = 0; rank < context_.world_size(); ++rank) {
    if (!std::isfinite(all[rank].item<double>())) ranks.push_back(rank);
  }
  if (context_.rank() != 0) return;
  log_warning(
      "the loss is NaN or infinite in step {} on rank {}: lower learning_rate or max_grad_norm, "
      "or look at the data of this step",
      context_.state.global_step + 1, fmt::join(ranks, ", "));
}

// A weight that is NaN or infinite never recovers: to continue is useless, and each further checkpoint would replace a
// good one. All ranks hold equal weights and decide alike.
void TrainingSession::require_sound_weights(const UpdateTotals& totals) {
  const bool is_suspect = !std::isfinite(totals.loss) || (!scaler_ && !std::isfinite(last_norm_));
  if (!args_.stop_on_nan || !is_suspect) return;
  const torch::NoGradGuard no_grad;
  for (const NamedTensor& parameter : model_->tensors().parameters) {
    if (!parameter.tensor.is_floating_point() || at::isfinite(parameter.tensor).all().item<bool>()) continue;
    if (writer_) writer_->wait();
    throw Error(
        fmt::format("the weights contain NaN or infinity (first in {})", parameter.name),
        fmt::format("step {}, rank {} of {}", context_.state.global_step + 1, context_.rank(), context_.world_size()),
        "lower learning_rate, set max_grad_norm or warmup_steps, look at the data of this step; checkpoints of "
        "earlier steps are whole. --stop-on-nan false continues regardless");
  }
}

// False if fp16 skipped the update, because its scaled gradients held an infinity or NaN.
bool TrainingSession::step_optimizer(const UpdateTotals& totals) {
  StepOptions options;
  // The norm is measured even without clipping, because it is logged.
  options.max_norm = args_.max_grad_norm > 0 ? args_.max_grad_norm : std::numeric_limits<double>::infinity();
  options.gradient_factor = engine_->gradient_factor(totals.count);
  options.zero_grad = true;
  last_learning_rate_ = schedule_->learning_rate();
  const StepResult result = scaler_ ? scaler_->step(*optimizer_, options) : optimizer_->step_with(options);
  if (scaler_) scaler_->update();
  last_norm_ = result.norm;
  return !result.skipped;
}

}  // namespace lockstep
