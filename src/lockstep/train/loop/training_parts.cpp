#include "lockstep/train/loop/training_parts.h"

#include <memory>
#include <vector>

#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/grouped_shard_sampler.h"
#include "lockstep/train/slices/gathered_outputs.h"

namespace lockstep {
namespace {

std::shared_ptr<Sampler> training_sampler(const TrainerContext& context, const TrainingPlan& plan,
                                          const SampleShares& shares, std::int64_t index) {
  const TrainingArguments& args = context.args();
  const auto seed = static_cast<std::uint64_t>(args.data_seed.value_or(args.seed));
  if (args.group_by_length) {
    LengthGroupedSamplerOptions options;
    options.batch_size = plan.global_batch_size;
    options.num_replicas = shares.all;
    options.rank = index;
    options.seed = seed;
    return std::make_shared<GroupedShardSampler>(context.options.lengths, options);
  }
  ExactDistributedSamplerOptions options;
  options.num_replicas = shares.all;
  options.rank = index;
  options.shuffle = true;
  options.seed = seed;
  return std::make_shared<ExactDistributedSampler>(plan.samples, options);
}

}  // namespace

std::vector<DataLoader> training_loaders(const TrainerContext& context, const TrainingPlan& plan) {
  const TrainingArguments& args = context.args();
  DataLoaderOptions reading;
  reading.batch_size = plan.rank_batch_size;
  const SampleShares shares = shares_of_rank(args.virtual_shards, context.group.get());
  const std::int64_t count = shares.own.size();
  reading.num_workers = static_cast<int>((args.dataloader_num_workers + count - 1) / count);
  reading.prefetch_factor = static_cast<int>(args.dataloader_prefetch_factor.value_or(2));
  reading.collate = context.options.data_collator;
  reading.pin_memory = device_of(*context.options.model).is_cuda();
  std::vector<DataLoader> loaders;
  for (std::int64_t index = shares.own.begin; index < shares.own.end; ++index) {
    loaders.emplace_back(context.options.train_dataset, reading, training_sampler(context, plan, shares, index));
  }
  return loaders;
}

TrainingParts::TrainingParts(TrainerContext& context, std::int64_t replicas)
    : plan(make_training_plan(context.args(), context.options.train_dataset->size(), context.world_size(), replicas)),
      updater(context.args(), plan, *context.options.model, context.precision.scales_loss()),
      progress(training_loaders(context, plan), plan),
      best(context),
      data(context) {}

}  // namespace lockstep
