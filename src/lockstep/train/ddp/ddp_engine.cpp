#include "lockstep/train/ddp/ddp_engine.h"

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/reducer/bucket_layout.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/ddp/adapted_ddp.h"
#include "lockstep/train/weights/weight_shards.h"

namespace lockstep {
namespace {

Batch without_samples(const Batch& batch) {
  Batch none;
  for (const auto& [name, tensor] : batch) none[name] = tensor.narrow(0, 0, 0);
  return none;
}

bool meets_ranks_in_forward(TrainableModel& model) {
  const auto module = model.module();
  if (!module) return false;
  for (const auto& part : module->modules()) {
    if (part->as<SyncBatchNorm>() != nullptr) return true;
  }
  return false;
}

// Keeps step with the other ranks when this rank has no samples.
class UnevenDdp : public AdaptedDdp {
 public:
  using AdaptedDdp::AdaptedDdp;

  // Starts the averaging by a gradient of zeros for one parameter; this rank contributes no gradient for the others.
  // The parameter is one that batches reach, so that parameters which no rank uses stay without a gradient.
  void backward_of_nothing() {
    const InForward in_forward(*this);
    if (!reached_.defined() || !reached_.requires_grad())
      reached_ = first_parameter([](const at::Tensor&) { return true; });
    const at::Tensor output = reached_.view_as(reached_);
    watch_output(output);
    output.backward(at::zeros_like(output));
  }
  void note_reached() {
    if (reached_.defined()) return;
    reached_ = first_parameter([](const at::Tensor& parameter) { return parameter.grad().defined(); });
  }

 private:
  template <typename Predicate>
  at::Tensor first_parameter(const Predicate& is_meant) {
    for (const NamedTensor& parameter : model().tensors().parameters) {
      if (parameter.tensor.requires_grad() && is_meant(parameter.tensor)) return parameter.tensor;
    }
    return {};
  }

  at::Tensor reached_;  // a parameter that got a gradient from a batch
};

class DdpEngine : public GradientEngine, public WeightShards {
 public:
  DdpEngine(const std::shared_ptr<TrainableModel>& model, double label_smoothing_factor,
            DistributedDataParallelOptions options, bool fuse, const Sharding& sharding)
      : GradientEngine(model, label_smoothing_factor),
        meets_in_forward_(meets_ranks_in_forward(*model)),
        ddp_(model, std::move(options)),
        wants_fuse_(fuse),
        fsdp_(fsdp_name(sharding)),
        stage_(sharding.stage()) {
    static_cast<ShardingOptions&>(how_) = sharding;
  }

  LossSum run(const Batch& batch, const MicroBatch& how) override {
    if (how.is_last) return forward_backward(batch, how);
    const auto no_sync = ddp_.no_sync();
    return forward_backward(batch, how);
  }

  void run_without_samples(const std::function<Batch()>& stand_in, const MicroBatch& how) override {
    std::optional<DistributedDataParallelBase::NoSync> no_sync;
    if (!how.is_last) no_sync.emplace(ddp_.no_sync());
    const bool meets_in_loss = model().meets_ranks_in_loss();
    if (meets_in_loss || meets_in_forward_) {
      const SyncBatchNormWithoutSamples count_nothing;
      const Batch batch = stand_in();
      const at::Tensor output = ddp_.forward(batch);
      if (meets_in_loss) {
        backward_scaled(loss_of(output.narrow(0, 0, 0), without_samples(batch)).sum, how);
      } else {
        output.backward(at::zeros_like(output));
      }
    } else if (how.is_last) {
      ddp_.backward_of_nothing();
    }
  }

  // The gradients are averages over the ranks.
  double gradient_factor(std::int64_t count) const override {
    return count == 0 ? 0 : world_size_ / static_cast<double>(count);
  }

  std::string fuse(FlatOptimizer& optimizer) override {
    if (!wants_fuse_) return "";
    fused_ = ddp_.fuse(optimizer, how_);
    const FuseMode mode = fused_.mode();
    if (mode == FuseMode::Off && stage_ > 1) {
      throw Error(fmt::format("fsdp {} is not possible: {}", fsdp_, fused_.reason()),
                  ddp_.process_group().membership().where(), "leave fsdp out");
    }
    if (mode == FuseMode::Off) return "";
    shards_weights_ = fused_.peak_weight_bytes() > 0;
    // A rank without samples takes part in gathering.
    meets_in_forward_ = meets_in_forward_ || shards_weights_;
    if (shards_weights_) return std::string(to_string(mode)) + ", sharded gradients and weights";
    return std::string(to_string(mode)) + (stage_ > 1 ? " and sharded gradients" : "");
  }

  void unfuse() override { fused_.unfuse(); }

  WeightShards* weight_shards() override { return shards_weights_ ? this : nullptr; }
  at::Tensor evaluate(const Batch& batch) override { return ddp_.forward(batch); }
  TensorParts parts() override { return fused_.weight_parts(); }
  void write_parts(const std::function<void(const TensorParts&)>& write) override { fused_.write_weight_parts(write); }
  void unshard() override { fused_.unshard(); }
  void reshard() override { fused_.reshard(); }
  void make_whole() override { fused_.unfuse_weights(); }

  double waited_s() const override { return ddp_.last_step().waited_s; }

  void finish() override {
    if (!shards_weights_) fused_.unfuse_weights();
  }

 private:
  LossSum forward_backward(const Batch& batch, const MicroBatch& how) {
    const LossSum result = loss_of(ddp_.forward(batch), batch);
    backward_scaled(result.sum, how);
    ddp_.note_reached();
    return {result.sum.detach(), result.count};
  }

  bool meets_in_forward_;
  UnevenDdp ddp_;
  FusedStep fused_;  // ddp_'s
  bool wants_fuse_;
  const char* fsdp_;  // its name
  int stage_;
  bool shards_weights_ = false;
  FuseOptions how_;
  double world_size_ = ddp_.process_group().world_size();
};

}  // namespace

std::unique_ptr<GradientEngine> make_ddp_engine(const TrainingArguments& args,
                                                const std::shared_ptr<TrainableModel>& model,
                                                const std::shared_ptr<Communicator>& group) {
  const Sharding sharding = sharding_of(args, "training arguments");
  DistributedDataParallelOptions options;
  options.process_group = group;
  if (args.bf16) options.compute_dtype = at::kBFloat16;
  // Slots are as long as buckets: small ones take little memory, which can stay in the processor's cache.
  if (sharding.stage() > 1) options.bucket_cap_mb = static_cast<double>(BucketCaps::of_shares().other_bytes >> 20);
  if (args.ddp_bucket_cap_mb) options.bucket_cap_mb = *args.ddp_bucket_cap_mb;
  if (args.ddp_broadcast_buffers) options.broadcast_buffers = *args.ddp_broadcast_buffers;
  return std::make_unique<DdpEngine>(model, args.label_smoothing_factor, std::move(options), args.fuse, sharding);
}

}  // namespace lockstep
