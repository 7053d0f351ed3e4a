// One rank of `lockstep bench trainer --overhead`: the same updates by Trainer and by a bare loop around
// DistributedDataParallel, in turn, on the same batches. Rank 0 prints one JSON object.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "bench/workers/run_worker.h"
#include "bench/workers/workers.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/loop/training_optimizer.h"
#include "lockstep/train/trainer.h"

namespace ls = lockstep;

namespace lockstep::trainer_worker {
namespace {

struct Arguments {
  std::string model, train_file, text_column, label_column, output_dir;
  std::int64_t max_length = 64, batch = 8, steps = 50;
  int rounds = 5;
  double learning_rate = 5e-4;
};

using Clock = std::chrono::steady_clock;

// The time of each update. The first one includes the start of the training, and does not count.
class StepTimes {
 public:
  void note() {
    const auto now = Clock::now();
    if (last_ != Clock::time_point()) ms_.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
    last_ = now;
  }
  const std::vector<double>& ms() const { return ms_; }

 private:
  Clock::time_point last_;
  std::vector<double> ms_;
};

class TimesCallback : public ls::TrainerCallback {
 public:
  void on_step_end(ls::TrainerEvent&) override { times.note(); }
  StepTimes times;
};

struct Work {
  ls::Tokenizer tokenizer;
  std::shared_ptr<const ls::TokenizedDataset> dataset;
};

Work read_work(const Arguments& args) {
  ls::TextFileOptions columns;
  columns.texts = {args.text_column};
  columns.label = args.label_column;
  Work work{ls::load_tokenizer(args.model), nullptr};
  ls::TokenizeOptions options;
  options.truncation = true;
  options.max_length = args.max_length;
  work.dataset = ls::tokenize(*ls::open_text_file(args.train_file, columns), work.tokenizer, options);
  return work;
}

ls::TrainingArguments training_arguments(const Arguments& args) {
  ls::TrainingArguments training;
  training.output_dir = args.output_dir;
  training.per_device_train_batch_size = args.batch;
  training.max_steps = args.steps;
  training.learning_rate = args.learning_rate;
  training.save_strategy = "no";
  training.logging_strategy = "no";
  return training;
}

std::shared_ptr<ls::Model> load(const Arguments& args) {
  return ls::load_pretrained_model(args.model, ls::TextTask::SequenceClassification).model;
}

std::vector<double> train_by_trainer(const Arguments& args, const Work& work) {
  const auto callback = std::make_shared<TimesCallback>();
  ls::TrainerOptions options;
  options.model = ls::adapt<ls::Model>(load(args));
  options.args = training_arguments(args);
  options.train_dataset = work.dataset;
  options.data_collator = ls::DataCollatorWithPadding(work.tokenizer);
  options.callbacks.push_back(callback);
  options.print = {};
  ls::Trainer(options).train();
  return callback->times.ms();
}

// A program without Trainer, which does in each update the same optimizer step, clipping and schedule, and no more.
std::vector<double> train_by_loop(const Arguments& args, const Work& work) {
  const ls::TrainingArguments training = training_arguments(args);
  const auto model = load(args);
  torch::manual_seed(static_cast<std::uint64_t>(training.seed) + static_cast<std::uint64_t>(ls::get_rank()));
  ls::ExactDistributedSamplerOptions share;
  share.num_replicas = ls::get_world_size();
  share.rank = ls::get_rank();
  share.shuffle = true;
  share.seed = static_cast<std::uint64_t>(training.seed);
  auto sampler = std::make_shared<ls::ExactDistributedSampler>(work.dataset->size(), share);
  ls::DataLoaderOptions reading;
  reading.batch_size = args.batch;
  reading.collate = ls::DataCollatorWithPadding(work.tokenizer);
  ls::DataLoader loader(work.dataset, reading, sampler);
  ls::DistributedDataParallel ddp(model);
  const auto adapted = ls::adapt<ls::Model>(model);
  const auto optimizer = ls::make_training_optimizer(training, *adapted);
  ls::LambdaLR schedule(
      *optimizer, [&](std::int64_t step) { return 1 - static_cast<double>(step) / static_cast<double>(args.steps); });
  ddp.fuse(*optimizer);
  ls::StepOptions step;
  step.max_norm = training.max_grad_norm;
  step.zero_grad = true;
  model->train();
  StepTimes times;
  std::int64_t done = 0;
  for (std::int64_t epoch = 0; done < args.steps; ++epoch) {
    sampler->set_epoch(epoch);
    for (const ls::Batch& batch : loader) {
      model->loss(ddp(batch), batch).mean().backward();
      optimizer->step_with(step);
      schedule.step();
      times.note();
      if (++done == args.steps) break;
    }
  }
  return times.ms();
}

// The shortest time of each update over all rounds, added up: other load on the machine only increases times.
class Quickest {
 public:
  void add(const std::vector<double>& ms) {
    if (ms_.empty()) ms_ = ms;
    for (std::size_t i = 0; i < ms_.size(); ++i) ms_[i] = std::min(ms_[i], ms[i]);
    double sum = 0;
    for (const double each : ms) sum += each;
    rounds_.push_back(sum / static_cast<double>(ms.size()));
  }
  double mean_ms() const {
    double sum = 0;
    for (const double ms : ms_) sum += ms;
    return sum / static_cast<double>(ms_.size());
  }
  std::string rounds() const {
    std::string text;
    for (const double ms : rounds_) text += (text.empty() ? "" : ", ") + std::to_string(ms);
    return text;
  }

 private:
  std::vector<double> ms_;
  std::vector<double> rounds_;
};

void run(const Arguments& args) {
  ls::init_process_group();
  const Work work = read_work(args);
  Quickest trainer;
  Quickest loop;
  for (int round = 0; round < args.rounds; ++round) {
    loop.add(train_by_loop(args, work));
    trainer.add(train_by_trainer(args, work));
  }
  if (ls::get_rank() == 0) {
    std::printf("{\"trainer_ms\": %.6f, \"loop_ms\": %.6f, \"trainer_rounds_ms\": [%s], \"loop_rounds_ms\": [%s]}\n",
                trainer.mean_ms(), loop.mean_ms(), trainer.rounds().c_str(), loop.rounds().c_str());
  }
  ls::destroy_process_group();
}

}  // namespace
}  // namespace lockstep::trainer_worker

int lockstep::run_trainer_worker(int argc, char** argv) {
  using namespace trainer_worker;
  Arguments args;
  CLI::App app("One rank of `lockstep bench trainer --overhead`.");
  app.add_option("--model", args.model)->required();
  app.add_option("--train-file", args.train_file)->required();
  app.add_option("--text-column", args.text_column)->required();
  app.add_option("--label-column", args.label_column)->required();
  app.add_option("--output-dir", args.output_dir)->required();
  app.add_option("--max-length", args.max_length);
  app.add_option("--batch", args.batch);
  app.add_option("--steps", args.steps)->check(CLI::Range(2, 1000000));
  app.add_option("--rounds", args.rounds);
  app.add_option("--learning-rate", args.learning_rate);
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
