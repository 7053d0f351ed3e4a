#include "lockstep/parallel/local_sgd.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/agreement/tensor_digest.h"
#include "lockstep/parallel/hooks/same_settings.h"

namespace lockstep {
namespace {

class PostLocalSGDHook : public CommunicationHook {
 public:
  explicit PostLocalSGDHook(PostLocalSGDOptions options) : options_(std::move(options)) {}

  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    is_global_ = step_ < options_.start_localSGD_iter;
    if (bucket.is_last) ++step_;
    if (is_global_) return communicator.all_reduce_async(bucket.buffer, ReduceOp::Avg);
    if (subgroup_ == nullptr) return nullptr;
    return subgroup_->all_reduce_async(bucket.buffer, ReduceOp::Avg);
  }
  bool synchronizes() const override { return is_global_ || subgroup_ != nullptr; }
  bool allows_join() const override { return false; }

  void attach(Communicator& communicator) override {
    require_same_settings(communicator, "post_local_sgd_hook",
                          {fmt::format("start_localSGD_iter {}", options_.start_localSGD_iter),
                           fmt::format("post_local_gradient_allreduce {}", options_.post_local_gradient_allreduce)});
    if (!options_.post_local_gradient_allreduce) return;
    if (!options_.subgroup && !communicator.membership().on_one_host()) {
      options_.subgroup = communicator.split(first_of_host(communicator.membership()));
    }
    subgroup_ = options_.subgroup ? options_.subgroup.get() : &communicator;
  }

  HookState state() const override { return {{"step", at::full({1}, step_, at::kLong)}}; }
  void load_state(const HookState& state) override {
    HookState rest = state;
    const at::Tensor step = take_out(rest, "step");
    if (!step.defined() || !rest.empty()) refuse_hook_state("post_local_sgd", "it is not a number of steps alone");
    step_ = step.item<std::int64_t>();
  }

 private:
  // The lowest rank on this rank's host.
  static int first_of_host(const Membership& membership) {
    const auto first = std::find_if(membership.peers.begin(), membership.peers.end(),
                                    [&](const Peer& peer) { return peer.host_id == membership.self().host_id; });
    return static_cast<int>(first - membership.peers.begin());
  }

  PostLocalSGDOptions options_;
  Communicator* subgroup_ = nullptr;  // null: after the first steps, no gradients are averaged
  std::int64_t step_ = 0;
  bool is_global_ = true;  // this step averages over all ranks
};

// Averages the tensors of each dtype in one message.
void average(std::vector<at::Tensor> tensors, Communicator& group) {
  while (!tensors.empty()) {
    const at::ScalarType dtype = tensors.front().scalar_type();
    const auto others = std::stable_partition(tensors.begin(), tensors.end(),
                                              [&](const at::Tensor& tensor) { return tensor.scalar_type() == dtype; });
    std::vector<at::Tensor> flat;
    for (auto it = tensors.begin(); it != others; ++it) flat.push_back(it->reshape({-1}));
    at::Tensor message = at::cat(flat);
    group.all_reduce(message, ReduceOp::Avg);
    std::int64_t offset = 0;
    for (auto it = tensors.begin(); it != others; ++it) {
      it->copy_(message.narrow(0, offset, it->numel()).view(it->sizes()));
      offset += it->numel();
    }
    tensors.erase(tensors.begin(), others);
  }
}

void require_setting(bool holds, const char* where, const std::string& what, const std::string& fix) {
  if (!holds) throw Error(what, where, fix);
}

}  // namespace

std::unique_ptr<CommunicationHook> post_local_sgd_hook(const PostLocalSGDOptions& options) {
  require_setting(options.start_localSGD_iter >= 0, "post_local_sgd_hook",
                  fmt::format("start_localSGD_iter is {}", options.start_localSGD_iter), "set it to 0 or more");
  return std::make_unique<PostLocalSGDHook>(options);
}

PeriodicModelAverager::PeriodicModelAverager(std::int64_t period, std::int64_t warmup_steps,
                                             std::shared_ptr<Communicator> group)
    : period_(period), warmup_steps_(warmup_steps), group_(group ? std::move(group) : default_group()) {
  require_setting(period >= 1, "PeriodicModelAverager", fmt::format("period is {}", period), "set it to 1 or more");
  require_setting(warmup_steps >= 0, "PeriodicModelAverager", fmt::format("warmup_steps is {}", warmup_steps),
                  "set it to 0 or more");
}

void PeriodicModelAverager::average_parameters(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  const std::int64_t step = step_++;
  if (step < warmup_steps_ || (step - warmup_steps_) % period_ != 0) return;
  // Averages of ranks that are at different steps have one shape.
  require_same_settings(*group_, "PeriodicModelAverager",
                        {fmt::format("period {}", period_), fmt::format("warmup_steps {}", warmup_steps_),
                         fmt::format("{} steps before this average", step)});
  average(parameters, *group_);
}

void PeriodicModelAverager::load_state_dict(const std::string& text) {
  std::istringstream stream(text);
  std::int64_t step = -1;
  stream >> step;
  require_setting(!stream.fail() && stream.eof() && step >= 0, "PeriodicModelAverager",
                  fmt::format("its state is not a number of steps: \"{}\"", text), "load what its state_dict gave");
  step_ = step;
}

DiLoCo::DiLoCo(std::vector<at::Tensor> parameters, DiLoCoOptions options, std::shared_ptr<Communicator> group)
    : parameters_(std::move(parameters)), options_(options), group_(group ? std::move(group) : default_group()) {
  require_setting(options.sync_every >= 1, "DiLoCo", fmt::format("sync_every is {}", options.sync_every),
                  "set it to 1 or more");
  require_setting(options.outer_lr > 0, "DiLoCo", fmt::format("outer_lr is {}", options.outer_lr), "set it above 0");
  require_setting(options.outer_momentum >= 0 && options.outer_momentum < 1, "DiLoCo",
                  fmt::format("outer_momentum is {}", options.outer_momentum), "set it to 0 or more and below 1");
  const at::NoGradGuard no_grad;
  require_same_settings(
      *group_, "DiLoCo",
      {fmt::format("sync_every {}", options.sync_every), fmt::format("outer_lr {}", options.outer_lr),
       fmt::format("outer_momentum {}", options.outer_momentum), fmt::format("{} parameters", parameters_.size())});
  for (const at::Tensor& parameter : parameters_) {
    met_at_.push_back(parameter.clone());
    momentum_.push_back(at::zeros_like(parameter));
  }
  if (const auto difference = find_tensor_difference(*group_, parameters_)) {
    throw Error(fmt::format("parameter {} of {} differs between rank 0 and rank {}", difference->index,
                            parameters_.size(), difference->rank),
                group_->membership().where() + ", DiLoCo",
                "construct DiLoCo after DistributedDataParallel, which makes the ranks' weights equal, and before the "
                "first step");
  }
}

std::string DiLoCo::state_dict() const {
  torch::serialize::OutputArchive archive;
  archive.write("steps", at::full({1}, steps_, at::kLong));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    archive.write(fmt::format("met_at_{}", i), met_at_[i]);
    archive.write(fmt::format("momentum_{}", i), momentum_[i]);
  }
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void DiLoCo::load_state_dict(const std::string& bytes) {
  const at::NoGradGuard no_grad;
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  archive.load_from(stream);
  at::Tensor steps;
  bool fits = archive.try_read("steps", steps);
  std::vector<at::Tensor> met_at(parameters_.size()), momentum(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size() && fits; ++i) {
    fits = archive.try_read(fmt::format("met_at_{}", i), met_at[i]) &&
           archive.try_read(fmt::format("momentum_{}", i), momentum[i]) &&
           met_at[i].sizes() == parameters_[i].sizes() && momentum[i].sizes() == parameters_[i].sizes();
  }
  at::Tensor beyond;
  fits = fits && !archive.try_read(fmt::format("met_at_{}", parameters_.size()), beyond);
  require_setting(fits, "DiLoCo", "the state is not that of these parameters",
                  "load what state_dict of the same model gave");
  steps_ = steps.item<std::int64_t>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    met_at_[i].copy_(met_at[i]);
    momentum_[i].copy_(momentum[i]);
  }
}

bool DiLoCo::step() {
  if (++steps_ % options_.sync_every != 0) return false;
  meet();
  return true;
}

void DiLoCo::meet() {
  const at::NoGradGuard no_grad;
  require_same_settings(*group_, "DiLoCo", {fmt::format("{} steps when the ranks meet", steps_)});
  average(parameters_, *group_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor moved = met_at_[i] - parameters_[i];  // the outer gradient points back
    momentum_[i].mul_(options_.outer_momentum).add_(moved);
    met_at_[i].sub_(moved.add_(momentum_[i], options_.outer_momentum), options_.outer_lr);
    parameters_[i].copy_(met_at_[i]);
  }
}

}  // namespace lockstep
