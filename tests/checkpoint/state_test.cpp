// Tests the small files of a checkpoint: trainer_state.json, scheduler.json, generators, positions for another world
// size.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/generators.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/detail/checkpoint/trainer_state.h"

namespace lockstep {
namespace {

// A shortened file of Hugging Face's Trainer.
constexpr const char* kTheirState = R"({
  "best_global_step": 32,
  "best_metric": 0.44,
  "best_model_checkpoint": "test_trainer/checkpoint-32",
  "epoch": 2.0,
  "eval_steps": 500,
  "global_step": 32,
  "is_hyper_param_search": false,
  "is_local_process_zero": true,
  "is_world_process_zero": true,
  "log_history": [
    {"epoch": 1.0, "eval_f1": 0.25, "eval_loss": 1.5, "step": 16},
    {"epoch": 2.0, "grad_norm": 5.125, "learning_rate": 1.6875e-05, "loss": 1.6094, "step": 32}
  ],
  "logging_steps": 500,
  "max_steps": 64,
  "num_input_tokens_seen": 0,
  "num_train_epochs": 4,
  "save_steps": 500,
  "stateful_callbacks": {
    "EarlyStoppingCallback": {"args": {"early_stopping_patience": 3}, "attributes": {"early_stopping_patience_counter": 1}},
    "TrainerControl": {"args": {"should_save": true}, "attributes": {}}
  },
  "total_flos": 263111055360000.0,
  "train_batch_size": 32,
  "trial_name": null,
  "trial_params": null
})";

TEST(TrainerStateFile, IsReadAndWrittenInTheFieldsOfHuggingFace) {
  const TrainerState state = parse_trainer_state(kTheirState, "file");
  EXPECT_EQ(state.best_global_step, 32);
  EXPECT_EQ(state.best_metric, 0.44);
  EXPECT_EQ(state.best_model_checkpoint, "test_trainer/checkpoint-32");
  EXPECT_EQ(state.max_steps, 64);
  EXPECT_EQ(state.num_train_epochs, 4);
  EXPECT_EQ(state.train_batch_size, 32);
  ASSERT_EQ(state.log_history.size(), 2u);
  EXPECT_EQ(state.log_history[1].step, 32);
  EXPECT_EQ(state.log_history[1].values.at("loss"), 1.6094);
  EXPECT_EQ(state.log_history[1].values.count("step"), 0u);
  EXPECT_EQ(nlohmann::json::parse(trainer_state_json(state)), nlohmann::json::parse(kTheirState));
  EXPECT_EQ(trainer_state_json(state).substr(0, 27), "{\n  \"best_global_step\": 32,");
  EXPECT_EQ(trainer_state_json(state).back(), '\n');
}

TEST(TrainerStateFile, KeepsNumbersThatAreNone) {
  TrainerState state;
  state.best_metric = std::numeric_limits<double>::infinity();
  state.log_history = {{1, {{"loss", std::nan("")}, {"grad_norm", -std::numeric_limits<double>::infinity()}}}};
  const TrainerState back = parse_trainer_state(trainer_state_json(state), "file");
  EXPECT_TRUE(std::isnan(back.log_history[0].values.at("loss")));
  EXPECT_EQ(back.log_history[0].values.at("grad_norm"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(back.best_metric, state.best_metric);
  EXPECT_FALSE(back.best_global_step);
}

TEST(TrainerStateFile, RefusesOtherTypesAndPassesOverWhatItDoesNotKnow) {
  EXPECT_EQ(parse_trainer_state(R"({"global_step": 3, "new_field": [1], "eval_steps": 0.1})", "f").global_step, 3);
  for (const char* text : {"", "[]", R"({"global_step": "3"})", R"({"log_history": {}})", R"({"log_history": [1]})",
                           R"({"is_world_process_zero": 1})", R"({"best_model_checkpoint": 4})",
                           R"({"stateful_callbacks": []})", R"({"best_metric": []})"}) {
    EXPECT_THROW(parse_trainer_state(text, "file"), Error) << text;
  }
}

// C++ does not define what an integer gets that cannot hold the number.
TEST(TrainerStateFile, TakesWholeNumbersThatFit) {
  EXPECT_EQ(parse_trainer_state(R"({"eval_steps": 500.0})", "file").eval_steps, 500);
  for (const char* number : {"1e300", "-1e300", "1e19", "18446744073709551615", "2.5"}) {
    const std::string text = std::string(R"({"global_step": )") + number + "}";
    EXPECT_THROW(parse_trainer_state(text, "file"), Error) << text;
  }
}

TEST(ScheduleFile, BringsStatesBackToTheBit) {
  const LambdaLR::State lambda{41, {0.1, 5e-5 / 3, std::nextafter(1e-3, 1)}};
  const LambdaLR::State lambda_back = parse_lambda_lr(schedule_json(lambda), "file");
  EXPECT_EQ(lambda_back.last_step, 41);
  EXPECT_EQ(lambda_back.initial_lrs, lambda.initial_lrs);
  for (const double best :
       {1.0 / 3, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    const auto plateau = parse_plateau(schedule_json(ReduceLROnPlateau::State{best, 3, 1}), "file");
    EXPECT_EQ(plateau.best, best);
    EXPECT_EQ(plateau.num_bad_epochs, 3);
    EXPECT_EQ(plateau.cooldown_counter, 1);
  }
  const auto scaler = parse_scaler(scaler_json({65536.0 / 3, 17}), "file");
  EXPECT_EQ(scaler.scale, 65536.0 / 3);
  EXPECT_EQ(scaler.growth_tracker, 17);
}

TEST(ScheduleFile, RefusesTheStateOfAnotherKind) {
  const std::string lambda = schedule_json(LambdaLR::State{1, {0.1}});
  EXPECT_THROW(parse_plateau(lambda, "file"), Error);
  EXPECT_THROW(parse_scaler(lambda, "file"), Error);
  for (const char* text :
       {"", "{}", R"({"type": "LambdaLR"})", R"({"type": "LambdaLR", "last_step": "x", "base_lrs": []})"}) {
    EXPECT_THROW(parse_lambda_lr(text, "file"), Error) << text;
  }
}

TEST(ScheduleFile, TakesWholeNumbersThatFit) {
  EXPECT_EQ(parse_scaler(R"({"type": "GradScaler", "scale": 2, "growth_tracker": 7.0})", "file").growth_tracker, 7);
  for (const std::string number : {"1e300", "2147483648", "-2147483649", "0.5"}) {
    EXPECT_THROW(parse_scaler(R"({"type": "GradScaler", "scale": 2, "growth_tracker": )" + number + "}", "file"),
                 Error);
    EXPECT_THROW(parse_plateau(R"({"type": "ReduceLROnPlateau", "best": 1, "num_bad_epochs": 0, "cooldown_counter": )" +
                                   number + "}",
                               "file"),
                 Error);
  }
  EXPECT_THROW(parse_lambda_lr(R"({"type": "LambdaLR", "last_step": 1e300, "base_lrs": []})", "file"), Error);
}

TEST(GeneratorState, GoesOnWhereItStood) {
  std::mt19937_64 own(5);
  Generators generators;
  generators.add(
      "own",
      [&] {
        std::ostringstream out;
        out << own;
        return out.str();
      },
      [&](const std::string& bytes) { std::istringstream(bytes) >> own; });
  torch::manual_seed(11);
  torch::randn({3});  // an odd number: the generator keeps the second half of a pair
  (void)own();
  const NamedTensors state = generators.state();
  const torch::Tensor first = torch::randn({5});
  const auto next = own();
  torch::rand({100});
  (void)own();
  generators.load_state(state);
  EXPECT_TRUE(torch::equal(torch::randn({5}), first));
  EXPECT_EQ(own(), next);
}

TEST(GeneratorState, NamesWhatIsMissingOrWrong) {
  Generators generators;
  EXPECT_THROW(generators.add(
                   "cpu", [] { return ""; }, [](const std::string&) {}),
               Error);
  EXPECT_THROW(generators.load_state({}), Error);
  EXPECT_THROW(generators.load_state({{"cpu", torch::zeros({3}, torch::kByte)}}), Error);
}

struct RemapCase {
  const char* name;
  std::vector<std::int64_t> positions;  // by rank
  std::int64_t dataset_size;
  std::int64_t num_replicas;
  std::int64_t position;
  std::int64_t repeated;
  friend std::ostream& operator<<(std::ostream& out, const RemapCase& c) { return out << c.name; }
};

class Remap : public ::testing::TestWithParam<RemapCase> {};

TEST_P(Remap, GoesOnAfterWhatAllRanksHadTaken) {
  const RemapCase& c = GetParam();
  std::vector<SamplerState> saved;
  for (const std::int64_t position : c.positions) {
    saved.push_back({9, 4, position, c.dataset_size, static_cast<std::int64_t>(c.positions.size())});
  }
  std::int64_t repeated = -1;
  const SamplerState state = remap_sampler(saved, c.num_replicas, repeated);
  EXPECT_EQ(state.position, c.position);
  EXPECT_EQ(repeated, c.repeated);
  EXPECT_EQ(state.num_replicas, c.num_replicas);
  EXPECT_EQ(state.seed, 9u);
  EXPECT_EQ(state.epoch, 4);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Remap,
    ::testing::Values(RemapCase{"start", {0, 0}, 100, 3, 0, 0}, RemapCase{"two_to_four", {8, 8}, 100, 4, 4, 0},
                      RemapCase{"four_to_two", {8, 8, 8, 8}, 100, 2, 16, 0},
                      RemapCase{"does_not_divide", {8, 8}, 100, 3, 5, 1}, RemapCase{"to_one", {7, 7, 7}, 100, 1, 21, 0},
                      RemapCase{"padded_end", {2, 2, 2, 2}, 5, 2, 2, 1}, RemapCase{"exact_tail", {4, 3}, 7, 3, 2, 1}),
    [](const auto& test) { return test.param.name; });

TEST(Remap, RefusesRanksOfDifferentEpochs) {
  std::int64_t repeated = 0;
  EXPECT_THROW(remap_sampler({{1, 0, 4, 10, 2}, {1, 1, 4, 10, 2}}, 3, repeated), Error);
  EXPECT_THROW(remap_sampler({}, 3, repeated), Error);
}

TEST(TensorsChecksum, SeesEveryDifference) {
  const torch::Tensor a = torch::zeros({2, 3});
  const std::string sum = tensors_checksum({{"a", a}});
  EXPECT_EQ(sum.size(), 64u);
  EXPECT_EQ(tensors_checksum({{"a", a.clone()}}), sum);
  EXPECT_NE(tensors_checksum({{"b", a}}), sum);
  EXPECT_NE(tensors_checksum({{"a", a.reshape({3, 2})}}), sum);
  EXPECT_NE(tensors_checksum({{"a", a.to(torch::kInt)}}), sum);
  torch::Tensor negative = a.clone();
  negative[1][2] = -0.0;
  EXPECT_NE(tensors_checksum({{"a", negative}}), sum);
}

}  // namespace
}  // namespace lockstep
