// Compares trainings step by step with those of Hugging Face's Trainer on the same models and data: losses, norms,
// rates, evaluations, the order of events, trainer_state.json. See huggingface/trainer_runs.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lockstep/comm/spawn.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/huggingface/huggingface_facts.h"

namespace lockstep {
namespace {

using Facts = nlohmann::json;

const Facts& recorded_trainings() {
  static const Facts facts = huggingface_facts("trainer_runs");
  return facts;
}

// Texts with the labels that the script assigned.
class RecordedTexts : public Dataset {
 public:
  RecordedTexts(const std::string& model, std::int64_t samples, int seed) {
    for (const Facts& data : recorded_trainings().at("data")) {
      if (data.at("model") == model && data.at("samples") == samples && data.at("seed") == seed)
        rows_ = data.at("rows");
    }
    EXPECT_EQ(static_cast<std::int64_t>(rows_.size()), samples);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }

 private:
  static at::Tensor numbers(const Facts& values) {
    return values.is_array() ? torch::tensor(values.get<std::vector<std::int64_t>>(), torch::kLong)
                             : torch::tensor(values.get<std::int64_t>(), torch::kLong);
  }
  Example do_get(std::int64_t index) const override {
    const Facts& row = rows_.at(static_cast<std::size_t>(index));
    return {{"input_ids", numbers(row.at("input_ids"))}, {"labels", numbers(row.at("labels"))}};
  }
  Facts rows_;
};

Batch pad_recorded_texts(std::vector<Example> rows) {
  std::vector<at::Tensor> ids, masks, labels;
  for (const Example& row : rows) {
    ids.push_back(row.at("input_ids"));
    masks.push_back(torch::ones_like(row.at("input_ids")));
    labels.push_back(row.at("labels"));
  }
  const auto padded = [](const std::vector<at::Tensor>& parts, double fill) {
    return torch::nn::utils::rnn::pad_sequence(parts, true, fill);
  };
  const bool of_tokens = labels.front().dim() == 1;
  return {{"input_ids", padded(ids, 0)},
          {"attention_mask", padded(masks, 0)},
          {"labels", of_tokens ? padded(labels, -100) : torch::stack(labels)}};
}

// A fixture's model without dropout.
std::shared_ptr<TrainableModel> recorded_model(const std::string& name) {
  const TemporaryFolder folder;
  const std::string fixture = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/models/fixtures/" + name;
  auto config = Facts::parse(read_file(fixture + "/config.json"));
  for (const char* rate :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    if (config.contains(rate)) config[rate] = 0.0;
  }
  std::ofstream(folder / "config.json") << config;
  std::filesystem::copy_file(fixture + "/model.safetensors", folder / "model.safetensors");
  const auto task = name == "gpt2-lm" ? TextTask::CausalLanguageModel : TextTask::SequenceClassification;
  return adapt(load_pretrained_model(folder.path(), task).model);
}

class EventsWithSteps : public TrainerCallback {
 public:
  Facts events = Facts::array();
  void on_init_end(TrainerEvent& e) override { add("init_end", e); }
  void on_train_begin(TrainerEvent& e) override { add("train_begin", e); }
  void on_train_end(TrainerEvent& e) override { add("train_end", e); }
  void on_epoch_begin(TrainerEvent& e) override { add("epoch_begin", e); }
  void on_epoch_end(TrainerEvent& e) override { add("epoch_end", e); }
  void on_step_begin(TrainerEvent& e) override { add("step_begin", e); }
  void on_substep_end(TrainerEvent& e) override { add("substep_end", e); }
  void on_pre_optimizer_step(TrainerEvent& e) override { add("pre_optimizer_step", e); }
  void on_optimizer_step(TrainerEvent& e) override { add("optimizer_step", e); }
  void on_step_end(TrainerEvent& e) override { add("step_end", e); }
  void on_evaluate(TrainerEvent& e) override { add("evaluate", e); }
  void on_predict(TrainerEvent& e) override { add("predict", e); }
  void on_save(TrainerEvent& e) override { add("save", e); }
  void on_log(TrainerEvent& e) override { add("log", e); }
  void on_prediction_step(TrainerEvent& e) override { add("prediction_step", e); }

 private:
  void add(const std::string& name, const TrainerEvent& e) {
    events.push_back(name + " " + std::to_string(e.state.global_step));
  }
};

// A training in the format in which the script records it.
Facts training_like(const Facts& recorded, const std::shared_ptr<Communicator>& group, const std::string& folder) {
  const std::string name = recorded.at("model");
  auto recorder = std::make_shared<EventsWithSteps>();
  TrainerOptions options;
  options.model = recorded_model(name);
  options.train_dataset = std::make_shared<RecordedTexts>(name, recorded.at("samples"), 7);
  options.eval_dataset = std::make_shared<RecordedTexts>(name, 16, 8);
  options.data_collator = pad_recorded_texts;
  options.process_group = group;
  options.print = nullptr;
  options.callbacks = {recorder};
  const int patience = recorded.at("patience");
  if (patience > 0) options.callbacks.push_back(std::make_shared<EarlyStoppingCallback>(patience));
  for (const auto& [key, value] : recorded.at("args").items()) set_training_argument(options.args, key, value, "test");
  options.args.output_dir = folder;
  Trainer trainer(options);
  const TrainOutput output = trainer.train();
  trainer.save_state();

  Facts state = Facts::parse(read_file(folder + "/trainer_state.json"));
  Facts history = state.at("log_history");
  for (Facts& entry : history) {
    for (auto value = entry.begin(); value != entry.end();) {
      const bool is_time =
          value.key().find("runtime") != std::string::npos || value.key().find("per_second") != std::string::npos;
      value = is_time ? entry.erase(value) : std::next(value);
    }
  }
  state.erase("log_history");
  if (state.at("best_model_checkpoint").is_string()) {
    state["best_model_checkpoint"] =
        std::filesystem::path(state["best_model_checkpoint"].get<std::string>()).filename();
  }
  std::vector<std::string> checkpoints;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string each = entry.path().filename();
    if (each.rfind("checkpoint-", 0) == 0) checkpoints.push_back(each);
  }
  std::sort(checkpoints.begin(), checkpoints.end());
  return {{"global_step", output.global_step},
          {"log_history", history},
          {"events", recorder->events},
          {"state", state},
          {"checkpoints", checkpoints}};
}

void expect_history(const Facts& got, const Facts& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size()) << got.dump(1);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string where = "entry " + std::to_string(i) + " of step " + want[i].at("step").dump();
    for (const auto& [key, value] : got[i].items()) EXPECT_TRUE(want[i].contains(key)) << where << ": " << key << value;
    for (const auto& [key, value] : want[i].items()) {
      ASSERT_TRUE(got[i].contains(key)) << where << ": " << key;
      const auto number = value.get<double>();
      const bool is_exact = key == "step" || key == "epoch" || key == "learning_rate" || key == "total_flos";
      EXPECT_NEAR(got[i].at(key).get<double>(), number,
                  (is_exact ? 1e-12 : tolerance) * std::max(1.0, std::abs(number)))
          << where << ": " << key;
    }
  }
}

// Compares the callbacks' state, except for Lockstep's additions and for flags that Hugging Face's Trainer does not
// clear.
void expect_state(Facts got, Facts want) {
  EXPECT_NEAR(got.at("epoch").get<double>(), want.at("epoch").get<double>(), 1e-12);
  if (want.at("best_metric").is_number()) {
    EXPECT_NEAR(got.at("best_metric").get<double>(), want.at("best_metric").get<double>(), 2e-3);
  }
  const Facts callbacks = got.at("stateful_callbacks");
  for (const auto& [name, recorded] : want.at("stateful_callbacks").items()) {
    ASSERT_TRUE(callbacks.contains(name)) << callbacks;
    const Facts& own = callbacks.at(name);
    for (const auto& [key, value] : recorded.at("args").items()) {
      ASSERT_TRUE(own.at("args").contains(key)) << own;
      if (name != "TrainerControl") {
        EXPECT_EQ(own.at("args").at(key), value) << key;
      }
    }
    for (const auto& [key, value] : recorded.at("attributes").items()) {
      EXPECT_EQ(own.at("attributes").at(key), value) << key;
    }
  }
  for (const char* key : {"epoch", "best_metric", "stateful_callbacks"}) {
    got.erase(key);
    want.erase(key);
  }
  EXPECT_EQ(got, want);
}

class HuggingFaceTrainer : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceTrainer, DidTheSame) {
  Facts want;
  for (const Facts& each : recorded_trainings().at("runs")) {
    if (each.at("name") == GetParam()) want = each;
  }
  Facts got;
  const TemporaryFolder folder;
  const int ranks = want.at("ranks");
  if (ranks == 1) {
    got = training_like(want, nullptr, folder.path());
  } else {
    spawn_threads(ranks, [&](const std::shared_ptr<Communicator>& group) {
      const Facts of_rank = training_like(want, group, folder.path());
      if (group->rank() == 0) got = of_rank;
    });
  }
  EXPECT_EQ(got.at("global_step"), want.at("global_step"));
  if (ranks > 1) {  // Hugging Face's ranks pad their shares, and get other samples
    got.at("log_history").back().erase("total_flos");
    want.at("log_history").back().erase("total_flos");
  }
  // bf16 rounds to 8 bits, at places that differ between versions of LibTorch.
  expect_history(got.at("log_history"), want.at("log_history"), GetParam() == "bf16" ? 0.05 : 2e-3);
  if (want.contains("events")) {
    EXPECT_EQ(got.at("events"), want.at("events"));
  }
  if (!want.contains("state")) return;
  expect_state(got.at("state"), want.at("state"));
  EXPECT_EQ(got.at("checkpoints"), want.at("checkpoints"));
}

std::vector<std::string> names_of_recorded_trainings() {
  std::vector<std::string> names;
  for (const Facts& each : recorded_trainings().at("runs")) names.push_back(each.at("name"));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Runs, HuggingFaceTrainer, ::testing::ValuesIn(names_of_recorded_trainings()),
                         [](const auto& test) { return test.param; });

TEST(HuggingFaceTrainer, RecordedTrainingsAreThoseOfToday) { expect_facts_of_today("trainer_runs"); }

}  // namespace
}  // namespace lockstep
