#include "lockstep/train/metrics_log_callback.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/processor/process_memory.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/seeing/metrics_log.h"
#include "lockstep/train/phase_clock.h"

namespace lockstep {
namespace {

void add_memory(nlohmann::json& values) {
  const ProcessMemory memory = process_memory();
  if (memory.resident == 0) return;
  values["resident_bytes"] = memory.resident;
  values["peak_resident_bytes"] = memory.peak_resident;
}

}  // namespace

MetricsLogCallback::MetricsLogCallback(int world_size, std::int64_t samples_per_step)
    : world_size_(world_size), samples_per_step_(samples_per_step), clock_(std::make_unique<PhaseClock>()) {}

MetricsLogCallback::~MetricsLogCallback() = default;

void MetricsLogCallback::on_train_begin(TrainerEvent& event) {
  if (!event.state.is_world_process_zero) return;
  if (world_size_ == 0) world_size_ = is_initialized() ? get_world_size() : 1;
  if (samples_per_step_ == 0) {
    const std::int64_t shares = event.args.virtual_shards > 0 ? event.args.virtual_shards : world_size_;
    samples_per_step_ = event.args.per_device_train_batch_size * event.args.gradient_accumulation_steps * shares *
                        std::max<std::int64_t>(1, event.args.replicas);
  }
  create_folders(event.args.output_dir);
  open_log(event);
  has_ended_ = false;
  last_step_ = event.state.global_step;
  nlohmann::json values{{"max_steps", event.state.max_steps},
                        {"num_train_epochs", event.state.num_train_epochs},
                        {"world_size", world_size_},
                        {"samples_per_step", samples_per_step_},
                        {"arguments", to_json(event.args)}};
  if (event.about != nullptr) values["about"] = *event.about;
  log_->write("start", event.state.global_step, values);
  clock_->start();
}

void MetricsLogCallback::on_step_begin(TrainerEvent&) { clock_->end("data"); }
void MetricsLogCallback::on_pre_optimizer_step(TrainerEvent&) { clock_->end("compute"); }
void MetricsLogCallback::on_optimizer_step(TrainerEvent&) { clock_->end("optimizer"); }
void MetricsLogCallback::on_step_end(TrainerEvent&) { clock_->end("optimizer"); }
void MetricsLogCallback::on_evaluate(TrainerEvent&) { clock_->end("evaluate"); }

void MetricsLogCallback::on_save(TrainerEvent& event) {
  clock_->end("save");
  if (log_) log_->write("save", event.state.global_step, {{"folder", event.folder}});
}

void MetricsLogCallback::open_log(const TrainerEvent& event) {
  log_ = std::make_unique<MetricsLog>(event.args.output_dir + "/metrics.jsonl");
}

// Also what is evaluated after the training, such as the best model; by another rank, if the first one is lost then.
void MetricsLogCallback::on_log(TrainerEvent& event) {
  if (event.logs == nullptr) return;
  const bool writes_later = has_ended_ && event.state.is_world_process_zero;
  if (!log_ && writes_later) open_log(event);
  if (!log_) return;
  nlohmann::json values = nlohmann::json::object();
  for (const auto& [name, value] : *event.logs) values[name] = value;
  log_->write("log", event.state.global_step, values);
  if (event.state.global_step > last_step_) write_phases(event.state.global_step);
}

void MetricsLogCallback::write_phases(std::int64_t step) {
  double all_s = 0, training_s = 0;
  nlohmann::json values = nlohmann::json::object();
  for (const auto& [phase, seconds] : clock_->take()) {
    values[phase + "_s"] = seconds;
    all_s += seconds;
    if (phase != "evaluate" && phase != "save") training_s += seconds;
  }
  const auto steps = static_cast<double>(step - last_step_);
  last_step_ = step;
  values["elapsed_s"] = all_s;
  if (training_s > 0) {
    values["steps_per_second"] = steps / training_s;
    if (samples_per_step_ > 0)
      values["samples_per_second"] = steps * static_cast<double>(samples_per_step_) / training_s;
  }
  add_memory(values);
  log_->write("phases", step, values);
}

void MetricsLogCallback::on_train_end(TrainerEvent& event) {
  has_ended_ = true;
  if (!log_) return;
  if (event.state.global_step > last_step_) write_phases(event.state.global_step);
  log_->write("end", event.state.global_step, nlohmann::json::object());
}

}  // namespace lockstep
