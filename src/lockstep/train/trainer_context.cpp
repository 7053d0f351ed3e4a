#include "lockstep/train/trainer_context.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/tensor/tensors_of.h"
#include "lockstep/train/callbacks/training_about.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/gradient_engine.h"

namespace lockstep {
namespace {

// In training, batch statistics of each rank follow its own batches. The saved model is rank 0's, so rank 0's
// statistics are evaluated.
void take_buffers_of_rank_0(TrainableModel& model, Communicator& group) {
  broadcast_coalesced(group, tensors_of(model.tensors().buffers()), 0);
}

double per_second(double amount, double seconds) { return rounded(seconds > 0 ? amount / seconds : 0, 3); }

}  // namespace

std::string TrainerContext::where() const {
  return fmt::format("rank {} of {}, step {}", rank(), world_size(), state.global_step);
}

bool TrainerContext::is_first_of_host() const {
  if (!group) return true;
  const Membership& membership = group->membership();
  const auto before = membership.peers.begin() + membership.rank;
  const auto is_here = [&](const Peer& peer) { return peer.host_id == membership.self().host_id; };
  return std::none_of(membership.peers.begin(), before, is_here);
}

void TrainerContext::notify(Event event, const Logs* logs, const std::string& folder) {
  TrainerEvent seen{args(), state, control, logs, folder, 0, 0};
  if (flow) ((*flow).*event)(seen);
  for (const auto& callback : options.callbacks) ((*callback).*event)(seen);
}

void TrainerContext::notify_begin() {
  TrainerEvent seen{args(), state, control, nullptr, "", 0, 0};
  nlohmann::json about;
  if (state.is_world_process_zero) {
    about = training_about(*this);
    seen.about = &about;
  }
  if (flow) flow->on_train_begin(seen);
  for (const auto& callback : options.callbacks) callback->on_train_begin(seen);
}

void TrainerContext::notify_prediction_step(std::int64_t done, std::int64_t batches) {
  TrainerEvent seen{args(), state, control, nullptr, "", done, batches};
  for (const auto& callback : options.callbacks) callback->on_prediction_step(seen);
}

void TrainerContext::agree_on_control(bool* further) {
  if (world_size() == 1) return;
  bool unused = false;
  const std::array<bool*, 6> flags{&control.should_training_stop, &control.should_epoch_stop,
                                   &control.should_save,          &control.should_evaluate,
                                   &control.should_log,           further != nullptr ? further : &unused};
  at::Tensor values = torch::zeros({static_cast<std::int64_t>(flags.size())}, torch::kInt);
  auto* value = values.data_ptr<int>();
  for (std::size_t i = 0; i < flags.size(); ++i) value[i] = *flags[i] ? 1 : 0;
  group->all_reduce(values, ReduceOp::Max);
  for (std::size_t i = 0; i < flags.size(); ++i) *flags[i] = value[i] != 0;
}

void TrainerContext::keep_callback_states(const TrainerControl& seen) {
  const nlohmann::json flags{{"should_training_stop", seen.should_training_stop},
                             {"should_epoch_stop", seen.should_epoch_stop},
                             {"should_save", seen.should_save},
                             {"should_evaluate", seen.should_evaluate},
                             {"should_log", seen.should_log}};
  state.stateful_callbacks["TrainerControl"] =
      nlohmann::json{{"args", flags}, {"attributes", nlohmann::json::object()}}.dump();
  keep_states_of_callbacks();
}

void TrainerContext::keep_states_of_callbacks() {
  for (const auto& callback : options.callbacks) {
    if (!callback->name().empty()) state.stateful_callbacks[callback->name()] = callback->state();
  }
}

void TrainerContext::load_callback_states() const {
  for (const auto& callback : options.callbacks) {
    const auto kept = state.stateful_callbacks.find(callback->name());
    if (kept != state.stateful_callbacks.end()) callback->load_state(kept->second);
  }
}

void TrainerContext::log(Logs logs) {
  logs.emplace_back("epoch", state.epoch);
  LogEntry entry;
  entry.step = state.global_step;
  for (const auto& [name, value] : logs) entry.values[name] = value;
  state.log_history.push_back(std::move(entry));
  notify(&TrainerCallback::on_log, &logs);
}

void TrainerContext::print(const std::string& line) const {
  if (rank() == 0 && options.print) options.print(line);
}

EvaluationResult TrainerContext::evaluate(const std::shared_ptr<const Dataset>& dataset, const std::string& prefix,
                                          Event event, Logs& metrics) {
  EvaluationOptions how;
  how.batch_size = args().per_device_eval_batch_size;
  how.collate = options.data_collator;
  how.num_workers = static_cast<int>(args().dataloader_num_workers);
  how.label_smoothing_factor = args().label_smoothing_factor;
  how.virtual_shards = args().virtual_shards;
  const bool is_prediction = event == &TrainerCallback::on_predict;
  how.keep_predictions = is_prediction || (options.compute_metrics && !args().prediction_loss_only);
  how.on_batch = [this](std::int64_t done, std::int64_t batches) { notify_prediction_step(done, batches); };
  const ParallelChoice choice = choose_engine(args(), *options.model, group.get(), is_rank);
  if (choice.kind == EngineKind::DataParallel) how.replicas = replica_devices(choice, *options.model);
  how.shards = shards.get();
  if (world_size() > 1 && args().virtual_shards == 0) take_buffers_of_rank_0(*options.model, *group);
  EvaluationResult result = evaluate_dataset(*options.model, dataset, how, group);

  Metrics computed;
  if (options.compute_metrics && result.has_labels && !args().prediction_loss_only) {
    computed = options.compute_metrics({result.predictions, result.label_ids, result.loss});
  }
  if (result.has_labels) {
    const auto loss = computed.extract("loss");
    metrics.emplace_back(prefix + "_loss", loss ? loss.mapped() : result.loss);
  }
  for (const auto& [name, value] : computed) {
    metrics.emplace_back(name.rfind(prefix + "_", 0) == 0 ? name : prefix + "_" + name, value);
  }
  metrics.emplace_back(prefix + "_runtime", rounded(result.runtime_s, 4));
  metrics.emplace_back(prefix + "_samples_per_second",
                       per_second(static_cast<double>(result.samples), result.runtime_s));
  metrics.emplace_back(prefix + "_steps_per_second", per_second(static_cast<double>(result.steps), result.runtime_s));
  other_time_s += result.runtime_s;
  if (!is_prediction) log(metrics);
  notify(event, &metrics);
  return result;
}

}  // namespace lockstep
