#include "lockstep/parallel/local_sgd.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {
namespace {

class PostLocalSGDHook : public CommunicationHook {
 public:
  explicit PostLocalSGDHook(PostLocalSGDOptions options) : options_(std::move(options)) {}

  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    is_global_ = step_ < options_.start_localSGD_iter;
    if (bucket.is_last) ++step_;
    if (is_global_) return communicator.all_reduce_async(bucket.buffer, ReduceOp::Avg);
    if (!in_subgroup()) return nullptr;
    return options_.subgroup->all_reduce_async(bucket.buffer, ReduceOp::Avg);
  }
  bool synchronizes() const override { return is_global_ || in_subgroup(); }
  bool allows_join() const override { return false; }

 private:
  bool in_subgroup() const { return options_.subgroup && options_.post_local_gradient_allreduce; }

  PostLocalSGDOptions options_;
  std::int64_t step_ = 0;
  bool is_global_ = true;  // in this step
};

// Each dtype's tensors in one message.
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
  if (step >= warmup_steps_ && (step - warmup_steps_) % period_ == 0) average(parameters, *group_);
}

DiLoCo::DiLoCo(std::vector<at::Tensor> parameters, DiLoCoOptions options, std::shared_ptr<Communicator> group)
    : parameters_(std::move(parameters)), options_(options), group_(group ? std::move(group) : default_group()) {
  require_setting(options.sync_every >= 1, "DiLoCo", fmt::format("sync_every is {}", options.sync_every),
                  "set it to 1 or more");
  require_setting(options.outer_lr > 0, "DiLoCo", fmt::format("outer_lr is {}", options.outer_lr), "set it above 0");
  require_setting(options.outer_momentum >= 0 && options.outer_momentum < 1, "DiLoCo",
                  fmt::format("outer_momentum is {}", options.outer_momentum), "set it to 0 or more and below 1");
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) {
    met_at_.push_back(parameter.clone());
    momentum_.push_back(at::zeros_like(parameter));
  }
}

bool DiLoCo::step() {
  if (++steps_ % options_.sync_every != 0) return false;
  meet();
  return true;
}

void DiLoCo::meet() {
  const at::NoGradGuard no_grad;
  average(parameters_, *group_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor moved = met_at_[i] - parameters_[i];  // the outer gradient points back
    momentum_[i].mul_(options_.outer_momentum).add_(moved);
    met_at_[i].sub_(moved.add_(momentum_[i], options_.outer_momentum), options_.outer_lr);
    parameters_[i].copy_(met_at_[i]);
  }
}

}  // namespace lockstep
