// Tests a Trainer whose weights are in shards from the beginning of a training to its end and after it: nothing differs
// from a Trainer whose ranks have all weights, and no rank needs all of them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/train/trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/token_task.h"

namespace lockstep {
namespace {

using Ranks = std::shared_ptr<Communicator>;

// On ranks that share no memory.
void on_two_ranks(const std::function<void(const Ranks&)>& body, int ranks = 2) {
  SpawnOptions how;
  how.engine = "tcp";
  spawn_threads(ranks, body, how);
}

TrainerOptions sharded_options(const Ranks& group, const std::string& folder, const std::string& fsdp) {
  TrainerOptions options;
  options.train_dataset = std::make_shared<TokenTaskDataset>(12);
  options.eval_dataset = std::make_shared<TokenTaskDataset>(7, 5);
  options.data_collator = pad_tokens;
  options.process_group = group;
  options.print = nullptr;
  options.args.output_dir = folder;
  options.args.fsdp = std::vector<std::string>{fsdp};
  options.args.per_device_train_batch_size = 2;
  options.args.per_device_eval_batch_size = 1;
  options.args.learning_rate = 0.05;
  options.args.num_train_epochs = 2;
  options.args.logging_steps = 1;
  options.args.save_strategy = "no";
  return options;
}

// What a program gets of a Trainer after its training.
struct AfterTraining {
  std::vector<Logs> evaluations;
  std::vector<at::Tensor> predictions;
  std::string file;
  at::Tensor weights;
};

double loss_in(const Logs& logs) {
  for (const auto& [name, value] : logs) {
    if (name == "eval_loss") return value;
  }
  return -1;
}

AfterTraining train_and_use(const std::string& fsdp, int ranks) {
  const TemporaryFolder folder;
  AfterTraining result;
  on_two_ranks(
      [&](const Ranks& group) {
        const auto net = make_token_net();
        TrainerOptions options = sharded_options(group, folder.path(), fsdp);
        options.model = adapt_token_net(net);
        options.args.eval_strategy = "epoch";
        Trainer trainer(options);
        trainer.train();
        AfterTraining own;
        // Ranks have equally many batches, another number, or none.
        for (const std::int64_t samples : {6, 7, 2, 1}) {
          const auto data = std::make_shared<TokenTaskDataset>(samples, 9);
          own.evaluations.push_back(trainer.evaluate(data));
          own.predictions.push_back(trainer.predict(data).predictions);
        }
        trainer.save_model();
        own.evaluations.push_back(trainer.evaluate());
        own.file = read_file(folder / "model.safetensors");
        trainer.unshard();
        own.weights = flat_weights(*net);
        trainer.reshard();
        if (group->rank() == 0) result = own;
        group->barrier();
      },
      ranks);
  return result;
}

TEST(TrainerInShards, EvaluatesPredictsAndSavesAsOneWithAllWeights) {
  for (const int ranks : {2, 3}) {
    const AfterTraining want = train_and_use("shard_grad_op", ranks);
    const AfterTraining got = train_and_use("full_shard", ranks);
    ASSERT_EQ(got.evaluations.size(), want.evaluations.size());
    for (std::size_t i = 0; i < want.evaluations.size(); ++i) {
      if (i == 3) continue;  // the only sample has no label
      EXPECT_GT(loss_in(want.evaluations[i]), 0);
      EXPECT_EQ(loss_in(got.evaluations[i]), loss_in(want.evaluations[i])) << i << " " << ranks;
    }
    for (std::size_t i = 0; i < want.predictions.size(); ++i) {
      EXPECT_TRUE(torch::equal(got.predictions[i], want.predictions[i])) << i << " " << ranks;
    }
    EXPECT_TRUE(got.file == want.file) << "model.safetensors";
    EXPECT_TRUE(torch::equal(got.weights, want.weights));
  }
}

TEST(TrainerInShards, NamesTheWeightThatAProgramReadsAndLetsItRead) {
  const TemporaryFolder folder;
  on_two_ranks([&](const Ranks& group) {
    const auto net = make_token_net();
    {
      TrainerOptions options = sharded_options(group, folder.path(), "full_shard");
      options.model = adapt_token_net(net);
      Trainer trainer(options);
      trainer.train();
      try {
        (void)net->head->weight.sum();
        ADD_FAILURE() << "a share was taken for the weight";
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("weight \"head.weight\" was read outside of forward and backward"), std::string::npos)
            << text;
        EXPECT_NE(text.find("unshard() of what fuse or fully_shard returned, or of the Trainer"), std::string::npos)
            << text;
      }
      EXPECT_GT(loss_in(trainer.evaluate()), 0) << "the error has ended nothing";
      trainer.unshard();
    }
    EXPECT_TRUE(torch::isfinite(flat_weights(*net)).all().item<bool>()) << "after the Trainer";
  });
}

TEST(TrainerInShards, TrainsAgain) {
  std::vector<at::Tensor> ends;
  for (const char* fsdp : {"shard_grad_op", "full_shard"}) {
    const TemporaryFolder folder;
    on_two_ranks([&](const Ranks& group) {
      const auto net = make_token_net();
      TrainerOptions options = sharded_options(group, folder.path(), fsdp);
      options.model = adapt_token_net(net);
      Trainer trainer(options);
      trainer.train();
      trainer.train();
      trainer.unshard();
      if (group->rank() == 0) ends.push_back(flat_weights(*net));
      group->barrier();
    });
  }
  EXPECT_TRUE(torch::equal(ends[0], ends[1]));
}

// Checkpoints in each form, the best of which is loaded into shards; saved by one number of ranks, loaded by another.
TEST(TrainerInShards, LoadsTheBestModelAndResumes) {
  for (const int form : {0, 1, 2, 3}) {
    const bool in_parts = form / 2 == 1, in_background = form % 2 == 1;
    SCOPED_TRACE(std::string(in_parts ? "in parts" : "whole") + (in_background ? ", in the background" : ""));
    std::vector<at::Tensor> ends;
    std::vector<std::string> files;
    for (const char* fsdp : {"shard_grad_op", "full_shard"}) {
      const TemporaryFolder folder;
      const auto train = [&](int ranks, std::int64_t epochs, const std::string& from) {
        on_two_ranks(
            [&](const Ranks& group) {
              const auto net = make_token_net();
              TrainerOptions options = sharded_options(group, folder.path(), fsdp);
              options.model = adapt_token_net(net);
              options.args.num_train_epochs = static_cast<double>(epochs);
              options.args.learning_rate = 0.5;  // so that the last is not the best
              options.args.lr_scheduler_type = "constant";
              options.args.eval_strategy = options.args.save_strategy = "epoch";
              options.args.load_best_model_at_end = true;
              options.args.save_in_background = in_background;
              if (in_parts) options.args.fsdp_config = {{"state_dict_type", "SHARDED_STATE_DICT"}};
              if (!from.empty()) options.args.resume_from_checkpoint = from;
              options.args.allow_world_size_change = true;
              Trainer trainer(options);
              trainer.train();
              trainer.save_model();
              trainer.unshard();
              if (group->rank() == 0) ends.push_back(flat_weights(*net));
              group->barrier();
            },
            ranks);
        files.push_back(read_file(folder / "model.safetensors"));
      };
      train(2, 2, "");
      train(3, 4, folder / "checkpoint-6");
      train(3, 4, "true");  // complete already
      const bool has_parts = std::filesystem::exists(folder / "checkpoint-6/model_shard-00001-of-00002.safetensors");
      EXPECT_EQ(has_parts, in_parts);
      EXPECT_EQ(std::filesystem::exists(folder / "checkpoint-6/model.safetensors"), !in_parts);
    }
    ASSERT_EQ(ends.size(), 6);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(torch::equal(ends[i], ends[i + 3])) << i;
      EXPECT_TRUE(files[i] == files[i + 3]) << i;
    }
  }
}

TEST(TrainerInShards, NamesAWeightThatIsNotANumber) {
  const TemporaryFolder folder;
  on_two_ranks([&](const Ranks& group) {
    TrainerOptions options = sharded_options(group, folder.path(), "full_shard");
    options.model = adapt_token_net(make_token_net());
    options.args.learning_rate = 1e30;
    options.args.optim = "sgd";
    options.args.max_grad_norm = 0;
    Trainer trainer(options);
    try {
      trainer.train();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the weights contain NaN or infinity (first in "), std::string::npos)
          << error.what();
    }
  });
}

// A model that is large enough for its weights to be deferred.
std::shared_ptr<Model> small_bert() {
  ModelOptions small;
  small.num_labels = 2;
  small.vocab_size = 600;
  small.dropout = 0;
  return make_model("bert-tiny", small);
}

std::shared_ptr<const Dataset> small_texts() {
  auto generator = at::detail::createCPUGenerator(4);
  const at::Tensor ids = torch::randint(1, 600, {16, 12}, generator, torch::kLong);
  return std::make_shared<TensorDataset>(Batch{{"input_ids", ids},
                                               {"attention_mask", torch::ones({16, 12}, torch::kLong)},
                                               {"labels", ids.select(1, 0).gt(300).to(torch::kLong)}});
}

enum class Built { AtOnce, Deferred, ByTrainer };

TEST(TrainerInShards, TakesADeferredModelOrMakesOneAndNothingDiffers) {
  for (const char* engine : {"tcp", "shm"}) {
    std::vector<std::string> files;
    for (const Built how : {Built::AtOnce, Built::Deferred, Built::ByTrainer}) {
      const TemporaryFolder folder;
      run_ranks_as_processes(2, [&](const Membership& membership) {
        TrainerOptions options = sharded_options(make_communicator(engine, membership), folder.path(), "full_shard");
        options.data_collator = {};
        options.train_dataset = options.eval_dataset = small_texts();
        options.args.eval_on_start = true;
        torch::manual_seed(static_cast<std::uint64_t>(options.args.seed));
        std::shared_ptr<Model> model;
        if (how == Built::AtOnce) model = small_bert();
        if (how == Built::Deferred) model = deferred(small_bert);
        if (how == Built::ByTrainer) {
          options.model_init = [] { return adapt(small_bert()); };
        } else {
          options.model = adapt(model);
        }
        Trainer trainer(options);
        for (const NamedTensor& parameter : trainer.model().tensors().parameters) {
          if (parameter.tensor.nbytes() < (64 << 10)) continue;
          EXPECT_EQ(parameter.tensor.has_storage(), how == Built::AtOnce) << parameter.name;
        }
        trainer.train();
        trainer.save_model();
      });
      files.push_back(read_file(folder / "model.safetensors"));
    }
    EXPECT_TRUE(files[1] == files[0]) << engine;
    EXPECT_TRUE(files[2] == files[0]) << engine;
  }
}

TEST(ModelInit, IsCalledForEachTrainingAndNotBesideAModel) {
  const TemporaryFolder folder;
  TrainerOptions options = sharded_options(nullptr, folder.path(), "false");
  std::vector<std::shared_ptr<TokenNetImpl>> made;
  options.model_init = [&] {
    made.push_back(std::make_shared<TokenNetImpl>());  // drawn
    return adapt_token_net(made.back());
  };
  Trainer trainer(options);
  ASSERT_EQ(made.size(), 1);
  trainer.train();
  EXPECT_EQ(made.size(), 1);
  trainer.train();
  ASSERT_EQ(made.size(), 2);
  EXPECT_TRUE(torch::equal(flat_weights(*made[0]), flat_weights(*made[1]))) << "each begins with the seed";
  options.model = adapt_token_net(make_token_net());
  EXPECT_THROW(Trainer both(options), UsageError);
  options.model = nullptr;
  options.model_init = [] { return std::shared_ptr<TrainableModel>(); };
  EXPECT_THROW(Trainer none(options), UsageError);
}

}  // namespace
}  // namespace lockstep
