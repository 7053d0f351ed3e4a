#include "lockstep/parallel/sync_batch_norm.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/sibling_group.h"

namespace lockstep {
namespace {

thread_local int without_samples = 0;

// All dimensions except the channels.
std::vector<std::int64_t> sample_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

// Types of 16 bits keep 3 digits: a mean far from zero would lose all that distinguishes the samples.
at::ScalarType computed_type(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

at::Tensor to_compute(const at::Tensor& values) { return values.to(computed_type(values.scalar_type())); }

// [channels], reshaped to broadcast over the input, in the type in which it is computed.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = values.numel();
  return values.to(computed_type(input.scalar_type())).view(sizes);
}

struct BatchMoments {
  at::Tensor mean, variance;  // [channels] fp64, over all ranks
  double count = 0;           // values per channel, on all ranks
};

// Sends one message: each rank's mean and its sum of squares around it. They are combined as Chan, Golub and LeVeque
// (1979) do, which loses no digits if the mean is large.
BatchMoments moments_of_all(const at::Tensor& input, Communicator& group) {
  const std::int64_t channels = input.size(1);
  const double count = without_samples > 0 ? 0 : static_cast<double>(input.numel()) / static_cast<double>(channels);
  const auto numbers = at::TensorOptions().dtype(at::kDouble).device(input.device());
  at::Tensor own = at::zeros({2 * channels + 1}, numbers);
  own[2 * channels] = count;
  if (count > 0) {
    const auto dims = sample_dims(input);
    const at::Tensor mean = input.mean(dims, false, at::kDouble);
    own.narrow(0, 0, channels).copy_(mean);
    const at::Tensor centred = to_compute(input) - per_channel(mean, input);
    own.narrow(0, channels, channels).copy_(centred.square().sum(dims, false, at::kDouble));
  }
  at::Tensor all = at::empty({group.world_size() * own.numel()}, numbers);
  group.all_gather(all, own);
  all = all.view({group.world_size(), own.numel()});
  const at::Tensor counts = all.select(1, 2 * channels).unsqueeze(1), means = all.narrow(1, 0, channels);
  BatchMoments result;
  result.count = counts.sum().item<double>();
  result.mean = means.mul(counts).sum(0) / result.count;
  const at::Tensor between = (means - result.mean).square().mul(counts).sum(0);
  result.variance = (all.narrow(1, channels, channels).sum(0) + between) / result.count;
  return result;
}

class SyncBatchNormFunction : public torch::autograd::Function<SyncBatchNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, double count, Communicator* group) {
    const at::Tensor normal = (to_compute(input) - per_channel(mean, input)) * per_channel(inverse_deviation, input);
    context->save_for_backward({normal.to(input.scalar_type()), weight, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["counts"] = without_samples == 0;
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);  // lives as long as the ranks' group
    at::Tensor output = normal;
    if (weight.defined()) output = output * per_channel(weight, input) + per_channel(bias, input);
    return output.to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::ScalarType type = saved[0].scalar_type();  // of the input
    const at::Tensor normal = to_compute(saved[0]), &weight = saved[1], &inverse_deviation = saved[2];
    const double count = context->saved_data["count"].toDouble();
    auto* group = reinterpret_cast<Communicator*>(context->saved_data["group"].toInt());
    const at::Tensor gradient = to_compute(gradients[0]);
    const auto dims = sample_dims(normal);
    const std::int64_t channels = normal.size(1);
    const bool counts = context->saved_data["counts"].toBool();
    const at::Tensor nothing = at::zeros({channels}, normal.options().dtype(at::kDouble));
    const at::Tensor own_bias = counts ? gradient.sum(dims, false, at::kDouble) : nothing;
    const at::Tensor own_weight = counts ? (gradient * normal).sum(dims, false, at::kDouble) : nothing;
    at::Tensor sums = at::cat({own_bias, own_weight});
    group->all_reduce(sums, ReduceOp::Sum);
    sums.div_(count);
    at::Tensor scale = inverse_deviation;
    if (weight.defined()) scale = scale * weight.to(at::kDouble);
    const at::Tensor of_input = !counts ? at::zeros_like(normal)
                                        : (gradient - per_channel(sums.narrow(0, 0, channels), normal) -
                                           normal * per_channel(sums.narrow(0, channels, channels), normal)) *
                                              per_channel(scale, normal);
    const auto as_parameter = [&](const at::Tensor& sum) {
      return weight.defined() ? sum.to(weight.scalar_type()) : at::Tensor();
    };
    return {of_input.to(type), as_parameter(own_weight), as_parameter(own_bias), {}, {}, {}, {}};
  }
};

}  // namespace

SyncBatchNormWithoutSamples::SyncBatchNormWithoutSamples() { ++without_samples; }
SyncBatchNormWithoutSamples::~SyncBatchNormWithoutSamples() { --without_samples; }

SyncBatchNormImpl::SyncBatchNormImpl(SyncBatchNormOptions module_options) : options(std::move(module_options)) {
  const auto require = [](bool holds, const std::string& what, const std::string& fix) {
    if (!holds) throw Error(what, "SyncBatchNorm", fix);
  };
  require(options.num_features >= 1, fmt::format("num_features is {}", options.num_features), "set it to 1 or more");
  require(options.eps >= 0, fmt::format("eps is {}", options.eps), "set it to 0 or more");
  reset();
}

void SyncBatchNormImpl::reset() {
  if (options.affine) {
    weight = register_parameter("weight", at::ones({options.num_features}));
    bias = register_parameter("bias", at::zeros({options.num_features}));
  }
  if (options.track_running_stats) {
    running_mean = register_buffer("running_mean", at::zeros({options.num_features}));
    running_var = register_buffer("running_var", at::ones({options.num_features}));
    num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  }
}

std::shared_ptr<Communicator> SyncBatchNormImpl::group() const {
  if (options.process_group) return options.process_group;
  return is_initialized() ? default_group() : nullptr;
}

Communicator& SyncBatchNormImpl::own_group(const std::shared_ptr<Communicator>& ranks) {
  if (!own_group_ || ranks_.lock() != ranks) {
    own_group_ = sibling_group(ranks);
    ranks_ = ranks;
  }
  return *own_group_;
}

double SyncBatchNormImpl::batch_share() const {
  if (options.momentum) return *options.momentum;
  const std::int64_t batches = options.track_running_stats ? num_batches_tracked.item<std::int64_t>() : 0;
  return batches > 0 ? 1 / static_cast<double>(batches) : 1;
}

void SyncBatchNormImpl::track(const at::Tensor& mean, const at::Tensor& variance, double count) {
  if (!options.track_running_stats) return;
  const at::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
  const double share = batch_share();
  const auto follow = [share](at::Tensor& average, const at::Tensor& value) {
    const at::Tensor computed = to_compute(average);  // the average itself, unless it has 16 bits
    average.copy_(computed.lerp_(value.to(computed.scalar_type()), share));
  };
  follow(running_mean, mean);
  follow(running_var, variance * (count / (count - 1)));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  const auto refuse_input = [&](const std::string& what) {
    throw Error(what, "SyncBatchNorm",
                fmt::format("give [n, {0}] or [n, {0}, ...] with several values per channel", options.num_features));
  };
  if (input.dim() < 2 || input.size(1) != options.num_features) {
    refuse_input(
        fmt::format("the input is {}, num_features is {}", fmt::join(input.sizes(), " x "), options.num_features));
  }
  const bool by_batch = is_training() || !options.track_running_stats;
  const auto ranks = group();
  if (!is_training() || !ranks || ranks->world_size() == 1) {
    if (is_training() && options.track_running_stats) num_batches_tracked.add_(1);
    return at::batch_norm(input, weight, bias, running_mean, running_var, by_batch, batch_share(), options.eps, false);
  }
  Communicator& messages = own_group(ranks);
  BatchMoments moments;
  {
    const at::NoGradGuard no_grad;
    moments = moments_of_all(input, messages);
  }
  if (moments.count <= 1) refuse_input("all ranks together have one value per channel");
  track(moments.mean, moments.variance, moments.count);
  return SyncBatchNormFunction::apply(input, weight, bias, moments.mean, (moments.variance + options.eps).rsqrt(),
                                      moments.count, &messages);
}

}  // namespace lockstep
