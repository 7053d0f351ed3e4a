// Tests that a training with virtual shards has the same bits on every number of ranks, over every engine, fused and
// not, stopped and resumed with other numbers of ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/train/trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::int64_t kShards = 8;

enum class ShardedModel { ConvNet, Bert, Gpt2 };

std::shared_ptr<Model> model_of(ShardedModel kind) {
  torch::manual_seed(11);
  if (kind == ShardedModel::ConvNet) return std::make_shared<ConvNetImpl>();
  if (kind == ShardedModel::Bert) {
    BertConfig config;
    config.vocab_size = 50;
    config.hidden_size = 32;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.intermediate_size = 64;
    config.max_position_embeddings = 16;
    return std::make_shared<BertForSequenceClassificationImpl>(config);
  }
  GPT2Config config;
  config.vocab_size = 50;
  config.n_positions = 16;
  config.n_embd = 32;
  config.n_layer = 2;
  config.n_head = 2;
  return std::make_shared<GPT2LMHeadModelImpl>(config);
}

// 75 samples: 3 updates of 24 in an epoch, and one of 3, in which five of eight shards have none.
std::shared_ptr<const Dataset> samples_for(ShardedModel kind) {
  constexpr std::int64_t kSamples = 75;
  auto generator = at::detail::createCPUGenerator(3);
  if (kind == ShardedModel::ConvNet) {
    const at::Tensor labels = torch::arange(kSamples, torch::kLong).remainder(10);
    const at::Tensor images = torch::rand({kSamples, 1, 28, 28}, generator) + labels.view({-1, 1, 1, 1}) * 0.1;
    return std::make_shared<TensorDataset>(Batch{{"images", images}, {"labels", labels}});
  }
  const at::Tensor ids = torch::randint(1, 50, {kSamples, 12}, generator, torch::kLong);
  if (kind == ShardedModel::Gpt2) return std::make_shared<TensorDataset>(Batch{{"input_ids", ids}, {"labels", ids}});
  return std::make_shared<TensorDataset>(
      Batch{{"input_ids", ids}, {"attention_mask", torch::ones_like(ids)}, {"labels", ids.select(1, 0).remainder(2)}});
}

struct ShardedRun {
  ShardedModel model = ShardedModel::Bert;
  int ranks = 1;
  std::string engine = "thread";
  bool fuse = true;
  std::int64_t max_steps = 6;
  std::string folder;
  std::string resume_from;
  bool bf16 = false;
};

TrainingArguments arguments_of(const ShardedRun& run) {
  TrainingArguments args;
  args.output_dir = run.folder;
  args.virtual_shards = kShards;
  args.per_device_train_batch_size = 3;
  args.per_device_eval_batch_size = 4;
  args.learning_rate = 0.002;
  args.weight_decay = 0.01;
  args.max_steps = run.max_steps;
  args.num_train_epochs = 2;
  args.logging_steps = 1;
  args.eval_strategy = "steps";
  args.eval_steps = 3;
  args.save_strategy = "steps";
  args.save_steps = static_cast<double>(run.max_steps);
  args.lr_scheduler_type = "constant";  // a run that is stopped early does not know the length of the whole one
  args.fuse = run.fuse;
  args.bf16 = run.bf16;
  args.use_cpu = true;
  args.dataloader_num_workers = run.ranks % 2;
  if (!run.resume_from.empty()) args.resume_from_checkpoint = run.resume_from;
  return args;
}

void train_on(const ShardedRun& run, const std::shared_ptr<Model>& model, const std::shared_ptr<Communicator>& group) {
  TrainerOptions options;
  options.model = adapt(model);
  options.train_dataset = options.eval_dataset = samples_for(run.model);
  options.process_group = group;
  options.print = nullptr;
  options.args = arguments_of(run);
  Trainer(options).train();
}

void start_ranks(const ShardedRun& run) {
  // Made once, because ranks that are threads share a generator.
  const std::shared_ptr<Model> model = model_of(run.model);
  if (run.ranks == 1) return train_on(run, model, nullptr);
  const auto body = [&](const Membership& membership) {
    const auto own = std::dynamic_pointer_cast<Model>(model->clone());
    train_on(run, own, make_communicator(run.engine, membership));
  };
  if (run.engine == "shm") {
    run_ranks_as_processes(run.ranks, body);
  } else {
    run_ranks_as_threads(run.ranks, body);
  }
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.contiguous();
  return {static_cast<const char*>(plain.data_ptr()), plain.nbytes()};
}

// SHA-256 over weights, buffers and the optimizer's state, and over what was logged.
struct RunHash {
  std::string weights, state, logs;
  friend bool operator==(const RunHash& a, const RunHash& b) {
    return a.weights == b.weights && a.state == b.state && a.logs == b.logs;
  }
  friend std::ostream& operator<<(std::ostream& out, const RunHash& hash) {
    return out << hash.weights << " " << hash.state << " " << hash.logs;
  }
};

std::string logs_of(const TrainerState& state) {
  std::string text;
  for (const LogEntry& entry : state.log_history) {
    for (const auto& [name, value] : entry.values) {
      const bool is_time = name.find("runtime") != std::string::npos || name.find("per_second") != std::string::npos;
      if (!is_time) text += fmt::format("{} {} {:a}\n", entry.step, name, value);
    }
  }
  return text;
}

RunHash hash_of(const std::string& checkpoint_folder) {
  const Checkpoint checkpoint(checkpoint_folder);
  Sha256 weights, state, logs;
  weights.update_sized(read_file(checkpoint_folder + "/model.safetensors"));
  for (const auto& [name, values] : checkpoint.optimizer().state) {
    state.update_sized(name + std::to_string(values.step));
    for (const auto& [kind, tensor] : values.tensors) state.update_sized(kind + bytes_of(tensor));
  }
  logs.update_sized(logs_of(checkpoint.trainer_state()));
  return {weights.hex(), state.hex(), logs.hex()};
}

RunHash train_whole(ShardedRun run) {
  const TemporaryFolder folder;
  run.folder = folder.path();
  start_ranks(run);
  return hash_of(folder / ("checkpoint-" + std::to_string(run.max_steps)));
}

std::string name_of_model(const ::testing::TestParamInfo<ShardedModel>& test) {
  constexpr const char* kNames[] = {"ConvNet", "Bert", "Gpt2"};
  return kNames[static_cast<int>(test.param)];
}

class TrainingOnShards : public ::testing::TestWithParam<ShardedModel> {};

TEST_P(TrainingOnShards, HaveOneHashOnAnyNumberOfRanks) {
  ShardedRun run;
  run.model = GetParam();
  const RunHash want = train_whole(run);
  for (const bool fuse : {true, false}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, fuse " + std::to_string(fuse));
      run.ranks = ranks;
      run.fuse = fuse;
      EXPECT_EQ(train_whole(run), want);
    }
  }
  run.model = GetParam();
  run.max_steps = 5;
  EXPECT_FALSE(train_whole(run).weights == want.weights);  // hashes can differ
}

TEST_P(TrainingOnShards, HaveOneHashOverAnyEngine) {
  ShardedRun run;
  run.model = GetParam();
  const RunHash want = train_whole(run);
  run.ranks = 3;
  for (const char* engine : {"shm", "tcp", "gloo"}) {
    SCOPED_TRACE(engine);
    run.engine = engine;
    EXPECT_EQ(train_whole(run), want);
  }
}

TEST_P(TrainingOnShards, ResumeWithOtherNumbersOfRanks) {
  ShardedRun run;
  run.model = GetParam();
  run.max_steps = 7;  // the fourth update of an epoch is short
  const RunHash want = train_whole(run);
  const TemporaryFolder folder;
  run.folder = folder.path();
  const int ranks[] = {2, 1, 3};
  const std::int64_t ends[] = {2, 4, 7};  // within an epoch, and at its end
  for (std::size_t i = 0; i < 3; ++i) {
    run.ranks = ranks[i];
    run.max_steps = ends[i];
    start_ranks(run);
    run.resume_from = "true";
  }
  const RunHash got = hash_of(folder / "checkpoint-7");
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.state, want.state);
}

TEST_P(TrainingOnShards, HaveOneHashInBf16) {
  ShardedRun run;
  run.model = GetParam();
  run.bf16 = true;
  run.max_steps = 3;
  const RunHash want = train_whole(run);
  for (const int ranks : {2, 3}) {
    run.ranks = ranks;
    EXPECT_EQ(train_whole(run), want) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainingOnShards,
                         ::testing::Values(ShardedModel::ConvNet, ShardedModel::Bert, ShardedModel::Gpt2),
                         name_of_model);

}  // namespace
}  // namespace lockstep
