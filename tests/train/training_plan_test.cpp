#include "lockstep/train/loop/training_plan.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TrainingArguments plan_arguments(std::int64_t batch, std::int64_t accumulation, double epochs) {
  TrainingArguments args;
  args.per_device_train_batch_size = batch;
  args.gradient_accumulation_steps = accumulation;
  args.num_train_epochs = epochs;
  return args;
}

TEST(TrainingPlan, ThousandSamplesOnTwoRanks) {
  const TrainingPlan plan = make_training_plan(plan_arguments(32, 1, 4), 1000, 2, 1);
  EXPECT_EQ(plan.global_batch_size, 64);
  EXPECT_EQ(plan.updates_per_epoch, 16);
  EXPECT_EQ(plan.max_steps, 64);
  EXPECT_EQ(plan.num_epochs, 4);
  EXPECT_EQ(plan.last_update_samples, 1000 - 15 * 64);
}

// The notebook's run: 3267 rows, two replicas of batch 32, accumulation 32.
TEST(TrainingPlan, TheShortTailOfAccumulationIsAnUpdate) {
  const TrainingPlan plan = make_training_plan(plan_arguments(32, 32, 3), 3267, 1, 2);
  EXPECT_EQ(plan.micro_batches_per_epoch, 52);
  EXPECT_EQ(plan.updates_per_epoch, 2);
  EXPECT_EQ(plan.last_micro_batches, 20);
  EXPECT_EQ(plan.last_update_samples, 3267 - 32 * 64);
  EXPECT_EQ(plan.max_steps, 6);
}

TEST(TrainingPlan, RanksAndAccumulationOfOneProductMakeTheSameUpdates) {
  for (const std::int64_t samples : {1, 5, 11, 12, 13, 100}) {
    const TrainingPlan one = make_training_plan(plan_arguments(2, 6, 3), samples, 1, 1);
    const TrainingPlan ranks = make_training_plan(plan_arguments(2, 2, 3), samples, 3, 1);
    EXPECT_EQ(one.updates_per_epoch, ranks.updates_per_epoch) << samples;
    EXPECT_EQ(one.last_update_samples, ranks.last_update_samples) << samples;
  }
}

TEST(TrainingPlan, DropLastDropsAndPartsOfEpochsCount) {
  TrainingArguments args = plan_arguments(4, 2, 1.5);
  args.dataloader_drop_last = true;
  args.warmup_ratio = 0.1;
  args.save_steps = 0.5;
  const TrainingPlan plan = make_training_plan(args, 50, 2, 1);
  EXPECT_EQ(plan.micro_batches_per_epoch, 6);
  EXPECT_EQ(plan.dropped_samples, 2);
  EXPECT_EQ(plan.updates_per_epoch, 3);
  EXPECT_EQ(plan.max_steps, 5);
  EXPECT_EQ(plan.warmup_steps, 1);
  EXPECT_EQ(plan.save_steps, 3);
  EXPECT_THROW(make_training_plan(args, 7, 2, 1), UsageError);
  EXPECT_THROW(make_training_plan(args, 0, 2, 1), UsageError);
}

}  // namespace
}  // namespace lockstep
