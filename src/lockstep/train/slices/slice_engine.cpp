#include "lockstep/train/slices/slice_engine.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/single.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/train/ddp/adapted_ddp.h"

namespace lockstep {
namespace {

class SliceEngine : public GradientEngine {
 public:
  SliceEngine(const std::shared_ptr<TrainableModel>& model, double label_smoothing_factor,
              DistributedDataParallelOptions options, bool fuse)
      : GradientEngine(model, label_smoothing_factor),
        slices_(static_cast<double>(options.virtual_shards)),
        ddp_(model, std::move(options)),
        wants_fuse_(fuse) {}

  void run_slices(std::uint64_t update, const std::function<void(std::int64_t)>& body) override {
    ddp_.run_shards(update, body);
  }

  LossSum run(const Batch& batch, const MicroBatch& how) override {
    const LossSum result = loss_of(ddp_.forward(batch), batch);
    backward_scaled(result.sum, how);
    return {result.sum.detach(), result.count};
  }

  // The gradients are averages over the slices.
  double gradient_factor(std::int64_t count) const override {
    return count == 0 ? 0 : slices_ / static_cast<double>(count);
  }

  std::string fuse(FlatOptimizer& optimizer) override {
    if (!wants_fuse_) return "";
    fused_ = ddp_.fuse(optimizer);
    const FuseMode mode = fused_.mode();
    return mode == FuseMode::Off ? "" : to_string(mode);
  }

  double waited_s() const override { return ddp_.last_step().waited_s; }
  void finish() override { fused_.unfuse_weights(); }

 private:
  double slices_;
  AdaptedDdp ddp_;
  FusedStep fused_;  // ddp_'s
  bool wants_fuse_;
};

std::shared_ptr<Communicator> group_of_one() {
  Membership alone;
  alone.peers.emplace_back();
  return make_single_communicator(std::move(alone));
}

void check_model(TrainableModel& model) {
  Features features;
  features.add(Feature::VirtualShards, "virtual_shards");
  if (model.meets_ranks_in_loss()) features.add(Feature::LossOverRanks);
  if (const auto module = model.module()) {
    for (const auto& part : module->modules()) {
      if (part->as<SyncBatchNorm>() != nullptr) features.add(Feature::SyncBatchNorm);
    }
  }
  features.require_together<UsageError>("training arguments");
}

}  // namespace

std::unique_ptr<GradientEngine> make_slice_engine(const TrainingArguments& args,
                                                  const std::shared_ptr<TrainableModel>& model,
                                                  const std::shared_ptr<Communicator>& group, bool are_level) {
  check_model(*model);
  DistributedDataParallelOptions options;
  options.process_group = group ? group : group_of_one();
  options.virtual_shards = args.virtual_shards;
  options.init_sync = !are_level;
  if (args.bf16) options.compute_dtype = at::kBFloat16;
  if (args.ddp_bucket_cap_mb) options.bucket_cap_mb = *args.ddp_bucket_cap_mb;
  if (args.ddp_broadcast_buffers) options.broadcast_buffers = *args.ddp_broadcast_buffers;
  return std::make_unique<SliceEngine>(model, args.label_smoothing_factor, std::move(options), args.fuse);
}

}  // namespace lockstep
