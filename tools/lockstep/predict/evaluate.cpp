// `lockstep evaluate`: computes metrics of a saved model on a file.
#include "lockstep/base/environment.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/train/folder/training_folder.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/training_flags.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/flags/model_folder.h"
#include "tools/lockstep/train/training_run.h"

namespace lockstep {
namespace {

// The training arguments that an evaluation uses.
const std::vector<std::string> kOfEvaluation{"output_dir",
                                             "per_device_eval_batch_size",
                                             "bf16",
                                             "fp16",
                                             "prediction_loss_only",
                                             "seed",
                                             "dataloader_num_workers",
                                             "parallel_mode",
                                             "replicas",
                                             "ddp_backend",
                                             "ddp_timeout",
                                             "disable_tqdm"};

class Evaluate : public Subcommand {
 public:
  void add(CLI::App& app) override {
    task_.add(app, false);
    training_.add(app, kOfEvaluation);
    app.add_flag("--save", save_, "write eval_results.json into --output-dir");
    show_examples(app,
                  {"lockstep evaluate --task text-classification --model reviews --validation-file "
                   "data/reviews-test.csv --label-column division",
                   "lockstep run --nproc-per-node 2 lockstep evaluate --task language-modeling --model gpt2-folder "
                   "--validation-file corpus.txt"});
  }

  int run(const CommandStreams& streams) override {
    if (task_.task.empty()) task_.task = task_of_folder(task_.model);
    const TrainingArguments args = training_.arguments();
    evaluate(args, streams);
    if (is_initialized()) destroy_process_group();
    return 0;
  }

 private:
  void evaluate(const TrainingArguments& args, const CommandStreams& streams) const {
    // Before the evaluation, which takes long: a training may write there.
    adopt_launcher_environment();
    TrainingFolder saved(args);
    if (save_ && env_int("RANK").value_or(0) == 0) saved.take(OutputFolderLock::Awaited::SameJob);
    const TrainingTask task = make_training_task(task_, args);
    // An epoch that no training has: a model does better at words that were masked when it learned the text.
    if (task.set_epoch) task.set_epoch(-1);
    TrainerOptions options = trainer_options(task, args, streams);
    const PrintLine print = options.print;
    options.eval_dataset = task.eval;
    options.eval_file = task_.validation_file;
    options.print_logs = false;
    if (shows_bar(args, streams)) {
      options.callbacks.push_back(std::make_shared<ProgressCallback>(PrintLine(), bars_on(streams)));
    }
    Trainer trainer(options);
    print_notes(task, trainer, print);
    Logs metrics = trainer.evaluate();
    metrics.pop_back();  // the epoch, which an evaluation does not have
    trainer.log_metrics("eval", metrics);
    if (save_) trainer.save_metrics("eval", metrics);
  }

  TaskFlags task_;
  TrainingFlags training_;
  bool save_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_evaluate() { return std::make_unique<Evaluate>(); }

}  // namespace lockstep
