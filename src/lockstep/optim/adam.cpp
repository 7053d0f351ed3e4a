#include "lockstep/optim/adam.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/update/update_rule.h"

namespace lockstep {
namespace {

template <typename Options>
Options checked(const Options& options) {
  const auto refuse = [](const std::string& name, double value, const char* fix) {
    throw Error(fmt::format("{} is {}", name, value), "Adam", fix);
  };
  const auto [beta1, beta2] = options.betas();
  if (!(options.lr() >= 0)) refuse("lr", options.lr(), "set it to 0 or more");
  if (!(options.eps() >= 0)) refuse("eps", options.eps(), "set it to 0 or more");
  if (!(beta1 >= 0 && beta1 < 1)) refuse("the first beta", beta1, "set it to 0 or more and below 1");
  if (!(beta2 >= 0 && beta2 < 1)) refuse("the second beta", beta2, "set it to 0 or more and below 1");
  if (!(options.weight_decay() >= 0)) refuse("weight_decay", options.weight_decay(), "set it to 0 or more");
  return options;
}

template <typename T, bool kDecoupled, typename Options>
void run_kernel(const Options& options, const UpdateRun& run, const GradientSource& gradient, std::size_t begin,
                std::size_t end) {
  AdamPass<T> pass;
  pass.param = reinterpret_cast<const T*>(run.param);
  pass.param_out = reinterpret_cast<T*>(run.param_out);
  pass.exp_avg = reinterpret_cast<T*>(run.buffers[0]);
  pass.exp_avg_sq = reinterpret_cast<T*>(run.buffers[1]);
  pass.max_exp_avg_sq = options.amsgrad() ? reinterpret_cast<T*>(run.buffers[2]) : nullptr;
  pass.step = run.step;
  pass.undo = run.undo;
  if constexpr (std::is_same_v<T, float>) pass.copy = run.copy;
  pass.gradient = gradient;
  const auto [beta1, beta2] = options.betas();
  pass.hyper = {options.lr(), beta1, beta2, options.eps(), options.weight_decay()};
  if (kDecoupled) {
    adamw_step(pass, begin, end);
  } else {
    adam_step(pass, begin, end);
  }
}

/// The code that Adam and AdamW share: everything except the place of the weight decay.
template <typename Torch, typename AdamOptions, typename State, bool kDecoupled>
class AdamRule final : public TorchRule<Torch, AdamOptions, State> {
 public:
  using Options = UpdateRule::Options;
  using TorchState = UpdateRule::TorchState;
  using OptionValues = UpdateRule::OptionValues;

  std::size_t num_buffers(const Options& options) const override { return of(options).amsgrad() ? 3 : 2; }

  const char* buffer_name(std::size_t index) const override {
    constexpr const char* kNames[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return index < 3 ? kNames[index] : nullptr;
  }

  void update_run(const Options& options, const UpdateRun& run, const GradientSource& gradient, std::size_t begin,
                  std::size_t end) const override {
    if (run.type == ElementType::Double) {
      run_kernel<double, kDecoupled>(of(options), run, gradient, begin, end);
    } else {
      run_kernel<float, kDecoupled>(of(options), run, gradient, begin, end);
    }
  }

  void update_tensors(const Options& options, const TensorUpdate& update) const override {
    const AdamOptions& o = of(options);
    const auto [beta1, beta2] = o.betas();
    std::vector<at::Tensor> g = update.gradients;
    if (o.weight_decay() != 0 && !kDecoupled) g = at::_foreach_add(g, update.parameters, o.weight_decay());
    if (o.weight_decay() != 0 && kDecoupled) at::_foreach_mul_(update.parameters, 1 - o.lr() * o.weight_decay());
    const auto& [exp_avg, exp_avg_sq, max_exp_avg_sq] = update.buffers;
    at::_foreach_mul_(exp_avg, beta1);
    at::_foreach_add_(exp_avg, g, 1 - beta1);
    at::_foreach_mul_(exp_avg_sq, beta2);
    at::_foreach_addcmul_(exp_avg_sq, g, g, 1 - beta2);
    for (std::size_t i = 0; o.amsgrad() && i < max_exp_avg_sq.size(); ++i) {
      at::Tensor largest = max_exp_avg_sq[i];
      at::maximum_out(largest, largest, exp_avg_sq[i]);
    }
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(update.step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(update.step));
    const std::vector<at::Tensor> denominators = at::_foreach_sqrt(o.amsgrad() ? max_exp_avg_sq : exp_avg_sq);
    at::_foreach_div_(denominators, std::sqrt(correction2));
    at::_foreach_add_(denominators, o.eps());
    at::_foreach_addcdiv_(update.parameters, exp_avg, denominators, -(o.lr() / correction1));
  }

  OptionValues option_values(const Options& options) const override {
    const AdamOptions& o = of(options);
    const auto [beta1, beta2] = o.betas();
    return {{"lr", o.lr()},
            {"beta1", beta1},
            {"beta2", beta2},
            {"eps", o.eps()},
            {"weight_decay", o.weight_decay()},
            {"amsgrad", o.amsgrad() ? 1 : 0}};
  }

  void set_option_values(Options& options, const OptionValues& values) const override {
    AdamOptions set(values.at("lr"));
    set.betas(std::make_tuple(values.at("beta1"), values.at("beta2"))).eps(values.at("eps"));
    set.weight_decay(values.at("weight_decay")).amsgrad(values.at("amsgrad") != 0);
    static_cast<AdamOptions&>(options) = checked(set);
  }

  std::unique_ptr<TorchState> make_torch_state(const StateBuffers& buffers, std::int64_t step) const override {
    auto state = std::make_unique<State>();
    state->step(step);
    state->exp_avg(buffers[0]);
    state->exp_avg_sq(buffers[1]);
    state->max_exp_avg_sq(buffers[2]);
    return state;
  }

  void read_torch_state(const TorchState& state, StateBuffers& buffers, std::int64_t& step) const override {
    const auto& given = static_cast<const State&>(state);
    buffers = {given.exp_avg(), given.exp_avg_sq(), given.max_exp_avg_sq()};
    step = given.step();
  }

  void set_torch_step(TorchState& state, std::int64_t step) const override { static_cast<State&>(state).step(step); }

 private:
  static const AdamOptions& of(const Options& options) { return static_cast<const AdamOptions&>(options); }
};

using PlainAdamRule = AdamRule<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState, false>;
using AdamWRule = AdamRule<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState, true>;

}  // namespace

Adam::Adam(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults)
    : FlatOptimizer(std::move(param_groups), std::make_unique<Options>(checked(defaults)),
                    std::make_unique<PlainAdamRule>()) {}

Adam::Adam(std::vector<at::Tensor> parameters, Options defaults)
    : Adam(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, std::move(defaults)) {}

AdamW::AdamW(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults)
    : FlatOptimizer(std::move(param_groups), std::make_unique<Options>(checked(defaults)),
                    std::make_unique<AdamWRule>()) {}

AdamW::AdamW(std::vector<at::Tensor> parameters, Options defaults)
    : AdamW(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, std::move(defaults)) {}

}  // namespace lockstep
