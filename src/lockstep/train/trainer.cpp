#include "lockstep/train/trainer.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/environment_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/train/arguments/environment_arguments.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/autocast_model.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/checks/earlier_results.h"
#include "lockstep/train/checks/same_weights.h"
#include "lockstep/train/checks/trainer_checks.h"
#include "lockstep/train/checks/training_data.h"
#include "lockstep/train/folder/output_folder_lock.h"
#include "lockstep/train/folder/refused_folder.h"
#include "lockstep/train/folder/training_folder.h"
#include "lockstep/train/joined_ranks.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/training_session.h"
#include "lockstep/train/survival/hidden_group.h"
#include "lockstep/train/trainer_context.h"
#include "lockstep/train/weights/model_folder.h"
#include "lockstep/train/weights/model_weights.h"

namespace lockstep {
namespace {

MixedPrecision precision_of(const TrainingArguments& args) {
  return mixed_precision_named(args.bf16 ? "bf16" : args.fp16 ? "fp16" : "no", "training arguments");
}

// Moves the model to this rank's CUDA device, if there is one and the model is not on a CUDA device already.
void place_on_device(TrainableModel& model, bool use_cpu) {
  if (use_cpu || device_of(model).is_cuda()) return;
  const c10::Device device = use_local_device();
  if (!device.is_cpu()) move_to_device(model.tensors(), device);
}

nlohmann::json json_of(const Logs& metrics) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

}  // namespace

struct Trainer::Implementation {
  explicit Implementation(TrainerOptions options) : folder(options.args.output_dir) {
    context.options = std::move(options);
  }
  // Runs `body` on rank 0 while the others wait. They throw what it throws.
  template <typename Body>
  void on_rank_0(const std::string& what, const Body& body) {
    section(
        [&] {
          run_together(context.group, what, [&] {
            if (context.rank() != 0) return;
            // After the training another rank may be the first one than the one that has written so far.
            if (has_trained && context.elastic) context.training_folder->take(OutputFolderLock::Awaited::Any);
            if (has_trained) context.training_folder->keep();
            body();
          });
        },
        [] {});
  }
  // The same, of what is written into output_dir. Without a training here, another process may have one there.
  template <typename Body>
  void write_output(const std::string& what, const Body& body) {
    on_rank_0(what + " in " + context.args().output_dir, [&] {
      TrainingFolder meanwhile(context.args());
      if (!context.training_folder) meanwhile.take(OutputFolderLock::Awaited::SameJob);
      body();
    });
  }
  // A call that the ranks make together, and repeat if one of them is lost meanwhile. @param alone  what a rank does
  // that has missed its end
  void section(const std::function<void()>& body, const std::function<void()>& alone) {
    context.elastic ? context.elastic->section(body, alone) : body();
  }
  // Metrics beside a model that this training has replaced.
  void remove_replaced(const std::string& place) {
    if (!has_trained || !context.starts_over || place != context.args().output_dir) return;
    const std::string line = remove_results_of_replaced_model(place, written_splits);
    if (!line.empty()) context.print(line);
  }
  void evaluate(const std::function<void()>& body) {
    section(body, [&] {
      const HiddenGroup alone(context);
      body();
    });
  }
  LookAt look_at(const std::shared_ptr<const Dataset>& dataset) {
    return evaluated.insert(dataset).second ? LookAt::Many : LookAt::Few;
  }
  // A training needs the model with all weights, or a new one.
  void begin_again() {
    if (context.shards && !context.options.model_init) context.shards->make_whole();
    context.shards.reset();
    if (context.options.model_init) make_model();
  }
  void make_model() {
    TrainerOptions& options = context.options;
    if (options.model_init) {
      torch::manual_seed(static_cast<std::uint64_t>(options.args.seed));
      options.model =
          may_shard_weights(options.args, context.world_size()) ? deferred(options.model_init) : options.model_init();
    }
    check_trainer_model(options);
    place_on_device(*options.model, options.args.use_cpu);
    options.model = with_precision(options.model, context.precision);
  }
  // Rank 0 takes the folder that this training writes into. If it cannot, no rank starts. All stay present there.
  void take_output_folder() {
    if (std::exchange(output_folder_is_taken, true)) return;
    on_rank_0("taking " + context.training_folder->path(),
              [&] { context.training_folder->take(OutputFolderLock::Awaited::SameJob); });
    if (context.rank() != 0) context.training_folder->enter();
  }

  RefusedFolder folder;  // above the context, which holds the folder's locks
  TrainerContext context;
  bool has_trained = false;
  bool output_folder_is_taken = false;
  std::set<std::string> written_splits;                                 // for which this Trainer has saved metrics
  std::set<std::weak_ptr<const Dataset>, std::owner_less<>> evaluated;  // or predicted
};

Trainer::Trainer(TrainerOptions options) {
  require_readable_environment();
  check_kernels();
  adopt_environment(options.args);
  check_trainer_options(options);
  implementation_ = std::make_unique<Implementation>(std::move(options));
  TrainerContext& context = implementation_->context;
  context.precision = precision_of(context.args());
  if (context.options.model) check_trainer_model(context.options);  // before the ranks meet
  join_ranks(context);
  implementation_->make_model();
  context.state.is_world_process_zero = context.rank() == 0;
  if (context.options.print_logs) {
    context.options.callbacks.push_back(std::make_shared<PrinterCallback>(context.options.print));
  }
  context.notify(&TrainerCallback::on_init_end);
}

Trainer::~Trainer() {
  if (implementation_) leave_ranks(implementation_->context);
}

TrainOutput Trainer::train() {
  TrainerContext& context = implementation_->context;
  if (!context.options.train_dataset) {
    throw UsageError("train() needs training data", "Trainer", "give TrainerOptions::train_dataset");
  }
  if (context.args().group_by_length &&
      static_cast<std::int64_t>(context.options.lengths.size()) != context.options.train_dataset->size()) {
    throw UsageError(fmt::format("group_by_length needs one length for each sample, but there are {} for {} samples",
                                 context.options.lengths.size(), context.options.train_dataset->size()),
                     "Trainer", "give TrainerOptions::lengths, or leave group_by_length out");
  }
  if (context.elastic && context.elastic->has_finished()) {
    throw UsageError("a Trainer with survive_lost_ranks can train only once", context.where(),
                     "start a job for each training");
  }
  if (!context.training_folder) context.training_folder = std::make_shared<TrainingFolder>(context.args());
  if (context.elastic && context.elastic->is_joining()) {
    context.training_folder->enter();
    context.elastic->join();
  } else {
    implementation_->take_output_folder();
  }
  if (std::exchange(implementation_->has_trained, true)) implementation_->begin_again();
  try {
    return TrainingSession(context).run();
  } catch (...) {
    implementation_->folder.note_refusal();
    throw;
  }
}

Logs Trainer::evaluate(std::shared_ptr<const Dataset> dataset, const std::string& metric_key_prefix) {
  TrainerContext& context = implementation_->context;
  if (!dataset) dataset = context.options.eval_dataset;
  if (!dataset) throw UsageError("evaluate() needs data", "Trainer", "give TrainerOptions::eval_dataset");
  Logs metrics;
  const TrainingData data(context, dataset, implementation_->look_at(dataset));
  implementation_->evaluate([&] {
    metrics.clear();
    data.require_on_all(context.group);
    if (!implementation_->has_trained) require_same_weights(context);
    context.evaluate(dataset, metric_key_prefix, &TrainerCallback::on_evaluate, metrics);
  });
  metrics.emplace_back("epoch", context.state.epoch);
  return metrics;
}

PredictionOutput Trainer::predict(const std::shared_ptr<const Dataset>& dataset, const std::string& metric_key_prefix) {
  if (!dataset) throw UsageError("predict() needs data", "Trainer", "give a dataset");
  PredictionOutput output;
  EvaluationResult result;
  const TrainingData data(implementation_->context, dataset, implementation_->look_at(dataset));
  implementation_->evaluate([&] {
    output.metrics.clear();
    data.require_on_all(implementation_->context.group);
    if (!implementation_->has_trained) require_same_weights(implementation_->context);
    result =
        implementation_->context.evaluate(dataset, metric_key_prefix, &TrainerCallback::on_predict, output.metrics);
  });
  output.predictions = result.predictions;
  output.label_ids = result.label_ids;
  return output;
}

void Trainer::unshard() {
  if (implementation_->context.shards) implementation_->context.shards->unshard();
}

void Trainer::reshard() {
  if (implementation_->context.shards) implementation_->context.shards->reshard();
}

void Trainer::save_model(const std::string& folder) {
  const std::string place = folder.empty() ? args().output_dir : folder;
  const std::string what = "saving the model in " + place;
  TrainerContext& context = implementation_->context;
  if (!context.shards) {
    return implementation_->on_rank_0(what, [&] {
      ModelFolder files(model(), place);
      write_safetensors(files.weights_path(), weights_of(model()));
      files.commit();
      implementation_->remove_replaced(place);
    });
  }
  std::unique_ptr<ModelFolder> files;  // on rank 0
  implementation_->on_rank_0(what, [&] { files = std::make_unique<ModelFolder>(model(), place); });
  ModelWeights(context).save(place + "/model.safetensors", [&] {
    files->commit();
    implementation_->remove_replaced(place);
  });
}

void Trainer::log_metrics(const std::string& split, const Logs& metrics) {
  implementation_->context.print(metrics_text(split, metrics));
}

void Trainer::save_metrics(const std::string& split, const Logs& metrics) {
  implementation_->context.keeps_results = !implementation_->has_trained;
  implementation_->written_splits.insert(split);
  implementation_->write_output("saving the metrics", [&] {
    const std::string folder = args().output_dir;
    create_folders(folder);
    write_file_atomically(folder + "/" + split + "_results.json", json_of(metrics).dump(4) + "\n");
    const std::string all_path = folder + "/" + kCombinedResults;
    nlohmann::json all = nlohmann::json::object();
    if (std::filesystem::exists(all_path)) {
      all = nlohmann::json::parse(read_file(all_path), nullptr, false);
      if (!all.is_object()) all = nlohmann::json::object();
    }
    all.update(json_of(metrics));
    write_file_atomically(all_path, all.dump(4) + "\n");
  });
}

void Trainer::save_state() {
  implementation_->write_output("saving the state", [&] {
    create_folders(args().output_dir);
    write_file_atomically(args().output_dir + "/trainer_state.json", trainer_state_json(state()));
  });
}

void Trainer::add_callback(std::shared_ptr<TrainerCallback> callback) {
  if (!callback) throw UsageError("a callback is null", "Trainer", "give a callback");
  implementation_->context.options.callbacks.push_back(std::move(callback));
}

void Trainer::remove_callback(const TrainerCallback* callback) {
  auto& callbacks = implementation_->context.options.callbacks;
  callbacks.erase(
      std::remove_if(callbacks.begin(), callbacks.end(), [&](const auto& each) { return each.get() == callback; }),
      callbacks.end());
}

const TrainerState& Trainer::state() const { return implementation_->context.state; }
const TrainingArguments& Trainer::args() const { return implementation_->context.options.args; }
TrainableModel& Trainer::model() { return *implementation_->context.options.model; }
int Trainer::rank() const { return implementation_->context.rank(); }
int Trainer::world_size() const { return implementation_->context.world_size(); }

}  // namespace lockstep
