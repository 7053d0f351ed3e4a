// `lockstep train`: trains or fine-tunes a model on files.
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/base/signals.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/trace.h"
#include "lockstep/train/joined_ranks.h"
#include "lockstep/train/metrics_log_callback.h"
#include "lockstep/train/tensorboard_callback.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/training_flags.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/train/training_run.h"

namespace lockstep {
namespace {

class Train : public Subcommand {
 public:
  void add(CLI::App& app) override {
    task_.add(app, true);
    training_.add(app);
    app.add_option("--trace", trace_file_,
                   "file for a trace of some steps of all ranks, which rank 0 writes; ui.perfetto.dev shows it");
    app.add_option("--trace-steps", trace_steps_, "steps to trace, FIRST-LAST, counted from 1")
        ->capture_default_str()
        ->needs("--trace");
    show_examples(
        app, {"lockstep run --nproc-per-node 2 lockstep train --task text-classification --model bert-tiny "
              "--tokenizer data/reviews-vocab --train-file data/reviews.csv --validation-file "
              "data/reviews-test.csv --label-column division --learning-rate 1e-3 --eval-strategy epoch "
              "--output-dir reviews",
              "lockstep train --task language-modeling --model gpt2-folder --train-file corpus.txt --max-steps 100",
              "lockstep train --task image-classification --model convnet --train-file mnist/ --validation-file "
              "mnist/ --learning-rate 1e-3",
              "lockstep run --nproc-per-node 2 lockstep train --task text-classification --model bert-tiny "
              "--tokenizer data/reviews-vocab --train-file data/reviews.csv --label-column division --max-steps 20 "
              "--output-dir reviews --trace trace.json --trace-steps 10-15",
              "lockstep train --config args.json --task tabular-classification --model mlp --train-file "
              "KDDTrain+.txt"});
  }

  int run(const CommandStreams& streams) override {
    const TrainingArguments args = training_.arguments();
    if (!args.enable_jit_checkpoint) let_warning_signals_through();  // nothing waits for them
    const int code = run_with(args, streams);
    if (is_initialized()) destroy_process_group();
    return code;
  }

 private:
  int run_with(const TrainingArguments& args, const CommandStreams& streams) const {
    check_number_of_ranks(args);  // before the data is read
    torch::manual_seed(static_cast<std::uint64_t>(args.seed));
    TrainingTask task = make_training_task(task_, args);
    TrainerOptions options = trainer_options(task, args, streams);
    const PrintLine print = options.print;
    options.train_dataset = task.train;
    options.eval_dataset = task.eval;
    options.lengths = task.lengths;
    options.train_file = task_.train_file;
    options.eval_file = task_.validation_file;
    options.set_epoch = task.set_epoch;
    options.print_logs = false;
    options.callbacks.push_back(std::make_shared<MetricsLogCallback>());
    const auto reports = [&](const char* name) {
      return std::find(args.report_to.begin(), args.report_to.end(), name) != args.report_to.end();
    };
    if (reports("tensorboard") || reports("all")) options.callbacks.push_back(std::make_shared<TensorBoardCallback>());
    options.callbacks.push_back(outlook_callback(args, streams));
    options.callbacks.push_back(log_callback(args, streams));

    if (!trace_file_.empty() && args.survive_lost_ranks) {
      throw UsageError("--trace cannot be combined with --survive-lost-ranks", "lockstep train",
                       "leave one of them out: a trace needs the ranks that it began with");
    }
    Trainer trainer(options);
    std::unique_ptr<Trace> trace;
    if (!trace_file_.empty()) trace = std::make_unique<Trace>(trace_options(trace_file_, trace_steps_));
    print_notes(task, trainer, print);
    if (trainer.is_world_process_zero()) create_folders(args.output_dir);
    TrainOutput output = trainer.train();
    if (trace) {
      if (const std::string summary = trace->finish(); !summary.empty()) print(summary);
    }
    if (output.stopped_by_signal != 0) {
      if (trainer.is_world_process_zero()) {
        print(fmt::format("Stopped by signal {} ({}) after step {}. Continue with --resume-from-checkpoint true.",
                          output.received_signal, signal_name(output.received_signal), output.global_step));
      }
      return 128 + output.stopped_by_signal;
    }
    const bool has_trained = output.already_complete.empty();
    if (!has_trained && !ends_an_interrupted_run(trainer, output.already_complete)) {
      if (trainer.is_world_process_zero()) {
        print(args.output_dir + " was not changed. To use the weights of " + output.already_complete +
              ", load that folder.");
      }
      return 0;
    }
    trainer.save_model();
    if (has_trained) {
      trainer.log_metrics("train", output.metrics);
      trainer.save_metrics("train", output.metrics);
    }
    if (task.eval) {
      const Logs metrics = trainer.evaluate();
      trainer.log_metrics("eval", metrics);
      trainer.save_metrics("eval", metrics);
    }
    trainer.save_state();
    if (trainer.is_world_process_zero()) {
      print("Model saved in " + args.output_dir + ".");
      show_report_command(args.output_dir, streams);
    }
    return 0;
  }

  // Nothing was left to train. The run that wrote the last checkpoint may have been interrupted before it saved the
  // model, so the model is saved now. But a checkpoint with more steps than requested, or one that is not the newest,
  // must not replace the result of the training.
  static bool ends_an_interrupted_run(const Trainer& trainer, const std::string& checkpoint) {
    if (trainer.state().global_step != trainer.state().max_steps) return false;
    const auto all = OutputFolder(real_file_system(), trainer.args().output_dir).entries(/*with_foreign=*/false);
    std::error_code ignored;
    return !all.empty() && std::filesystem::equivalent(all.front().path, checkpoint, ignored);
  }

  TaskFlags task_;
  std::string trace_file_;
  std::string trace_steps_ = kDefaultTraceSteps;
  TrainingFlags training_;
};

}  // namespace

std::unique_ptr<Subcommand> make_train() { return std::make_unique<Train>(); }

}  // namespace lockstep
