#include "lockstep/train/loop/startup_advice.h"

#include <gtest/gtest.h>

#include "lockstep/base/processor/core_count.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "tests/train/token_task.h"

namespace lockstep {
namespace {

struct Surprise {
  const char* name;
  std::function<void(TrainingArguments&)> change;
  std::int64_t samples;
  const char* said;  ///< empty: nothing
  friend std::ostream& operator<<(std::ostream& out, const Surprise& surprise) { return out << surprise.name; }
};
class StartupAdviceTable : public ::testing::TestWithParam<Surprise> {};

TEST_P(StartupAdviceTable, WarnsOfWhatWillSurpriseAlone) {
  TrainingArguments args;
  args.logging_steps = 1;
  args.per_device_train_batch_size = 4;
  GetParam().change(args);
  const TrainingPlan plan = make_training_plan(args, GetParam().samples, 1, 1);
  const StartupAdvice advice = startup_advice(args, plan, {EngineKind::Single, 1, "one process"}, 10, false);
  std::string warnings;
  for (const std::string& warning : advice.warnings) {
    if (warning.find("BLAS") == std::string::npos) warnings += warning + "\n";
  }
  if (*GetParam().said == '\0') {
    EXPECT_EQ(warnings, "");
  } else {
    EXPECT_NE(warnings.find(GetParam().said), std::string::npos) << warnings;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, StartupAdviceTable,
    ::testing::Values(Surprise{"plain", [](TrainingArguments&) {}, 30, ""},
                      Surprise{"logs_too_late", [](TrainingArguments& args) { args.logging_steps = 1000; }, 30,
                               "logging_steps (1000) > total steps (24)"},
                      Surprise{"dropped", [](TrainingArguments& args) { args.dataloader_drop_last = true; }, 30,
                               "leaves out 2 of 30 samples"},
                      Surprise{"tail", [](TrainingArguments& args) { args.gradient_accumulation_steps = 3; }, 30,
                               "accumulates 2 micro-batches, not 3"},
                      Surprise{"one_update", [](TrainingArguments& args) { args.gradient_accumulation_steps = 100; },
                               30, "more than the 8 micro-batches"},
                      Surprise{"warmup", [](TrainingArguments& args) { args.warmup_steps = 24; }, 30, "never reaches"}),
    [](const auto& test) { return test.param.name; });

TEST(StartupAdvice, SaysTheArithmetic) {
  TrainingArguments args;
  args.per_device_train_batch_size = 32;
  args.gradient_accumulation_steps = 2;
  const TrainingPlan plan = make_training_plan(args, 1000, 2, 1);
  const std::string text =
      startup_advice(args, plan, {EngineKind::DistributedDataParallel, 1, "DDP"}, 12345, false).text();
  EXPECT_NE(text.find("Total train batch size = 32 per device x 2 ranks x 2 accumulated = 128 samples"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Steps per epoch = 8, the last one of 104 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("Number of trainable parameters = 12345"), std::string::npos);
}

TEST(ParallelMode, OfOneProcessNamesTheWayToMoreRanksUnlessOneWasChosen) {
  const auto model = adapt_token_net(std::make_shared<TokenNetImpl>());
  const auto text_of = [&](const std::string& mode, std::int64_t replicas, bool is_rank = false) {
    TrainingArguments args;
    args.parallel_mode = mode;
    args.replicas = replicas;
    return choose_engine(args, *model, nullptr, is_rank).text;
  };
  const std::string way =
      "; `lockstep run --nproc-per-node " + std::to_string(compute_cores()) + "` before the command";
  EXPECT_EQ(text_of("auto", 0).find(way) != std::string::npos, compute_cores() > 1) << text_of("auto", 0);
  EXPECT_EQ(text_of("single", 0), "one process, one replica");
  EXPECT_EQ(text_of("auto", 1), "one process, one replica");
  EXPECT_EQ(text_of("auto", 0, true), "one process, one replica");
}

}  // namespace
}  // namespace lockstep
