#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/train/early_stopping.h"
#include "lockstep/train/trainer.h"
#include "tests/train/token_task.h"

namespace lockstep {

/// A training of a small net on tokens, which saves checkpoints and may continue from one.
struct StoppedRun {
  const char* name;
  int ranks;
  std::int64_t accumulation;
  std::int64_t saved_step;
  bool group_by_length;
  bool fuse;
  std::int64_t samples = 23;
  std::int64_t batch_size = 2;
  bool shards_gradients = false;
  bool saves_shards = false;
  bool loads_best = false;
  bool shards_weights = false;
  friend std::ostream& operator<<(std::ostream& out, const StoppedRun& run) { return out << run.name; }
};

struct RunEnd {
  at::Tensor weights;
  std::vector<LogEntry> history;
  TrainerState state;
};

// An empty `resume_from` starts from the beginning. Dropout only with one rank, because ranks that are threads share a
// generator.
inline RunEnd train_tokens(const StoppedRun& run, const std::shared_ptr<Communicator>& group, const std::string& folder,
                           const std::string& resume_from, bool allow_world_size_change = false) {
  const auto net = make_token_net(run.ranks == 1 ? 0.3 : 0.0);
  const auto data = std::make_shared<TokenTaskDataset>(run.samples);
  TrainerOptions options;
  options.model = adapt_token_net(net);
  options.train_dataset = data;
  options.eval_dataset = std::make_shared<TokenTaskDataset>(9, 4);
  options.data_collator = pad_tokens;
  options.lengths = data->lengths();
  options.process_group = group;
  options.print = nullptr;
  options.args.output_dir = folder;
  options.args.learning_rate = 0.02;
  options.args.weight_decay = 0.1;
  options.args.num_train_epochs = 3;
  options.args.per_device_train_batch_size = run.batch_size;
  options.args.gradient_accumulation_steps = run.accumulation;
  options.args.group_by_length = run.group_by_length;
  options.args.fuse = run.fuse;
  if (run.shards_gradients) options.args.fsdp = std::vector<std::string>{"shard_grad_op"};
  if (run.shards_weights) options.args.fsdp = std::vector<std::string>{"full_shard"};
  if (run.saves_shards) options.args.fsdp_config = {{"state_dict_type", "SHARDED_STATE_DICT"}};
  options.args.logging_steps = 3;
  options.args.eval_strategy = "epoch";
  options.args.save_strategy = "steps";
  options.args.save_steps = static_cast<double>(run.saved_step);
  options.args.metric_for_best_model = "loss";
  if (run.loads_best) {
    options.args.save_strategy = "epoch";
    options.args.save_total_limit = 1;
    options.args.load_best_model_at_end = true;
  }
  options.args.allow_world_size_change = allow_world_size_change;
  options.callbacks = {std::make_shared<EarlyStoppingCallback>(100)};
  if (!resume_from.empty()) options.args.resume_from_checkpoint = resume_from;
  Trainer trainer(options);
  trainer.train();
  trainer.unshard();
  return {flat_weights(*net), trainer.state().log_history, trainer.state()};
}

}  // namespace lockstep
