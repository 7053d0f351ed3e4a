#include "lockstep/train/loop/training_parts.h"

#include <memory>

#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/grouped_shard_sampler.h"

namespace lockstep {
namespace {

std::shared_ptr<Sampler> training_sampler(const TrainerContext& context, const TrainingPlan& plan) {
  const TrainingArguments& args = context.args();
  const auto seed = static_cast<std::uint64_t>(args.data_seed.value_or(args.seed));
  if (args.group_by_length) {
    LengthGroupedSamplerOptions options;
    options.batch_size = plan.global_batch_size;
    options.num_replicas = context.world_size();
    options.rank = context.rank();
    options.seed = seed;
    return std::make_shared<GroupedShardSampler>(context.options.lengths, options);
  }
  ExactDistributedSamplerOptions options;
  options.num_replicas = context.world_size();
  options.rank = context.rank();
  options.shuffle = true;
  options.seed = seed;
  return std::make_shared<ExactDistributedSampler>(plan.samples, options);
}

DataLoader training_loader(const TrainerContext& context, const TrainingPlan& plan) {
  const TrainingArguments& args = context.args();
  DataLoaderOptions reading;
  reading.batch_size = plan.rank_batch_size;
  reading.num_workers = static_cast<int>(args.dataloader_num_workers);
  reading.prefetch_factor = static_cast<int>(args.dataloader_prefetch_factor.value_or(2));
  reading.collate = context.options.data_collator;
  reading.pin_memory = device_of(*context.options.model).is_cuda();
  return DataLoader(context.options.train_dataset, reading, training_sampler(context, plan));
}

}  // namespace

TrainingParts::TrainingParts(TrainerContext& context, std::int64_t replicas)
    : plan(make_training_plan(context.args(), context.options.train_dataset->size(), context.world_size(), replicas)),
      updater(context.args(), plan, *context.options.model, context.precision.scales_loss()),
      progress(training_loader(context, plan), plan),
      best(context) {}

}  // namespace lockstep
