#include "lockstep/optim/sgd.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/update/update_rule.h"

namespace lockstep {
namespace {

SGD::Options checked_sgd(const SGD::Options& options) {
  const auto refuse = [](const std::string& what, const std::string& fix) { throw Error(what, "SGD", fix); };
  if (!(options.lr() >= 0)) refuse(fmt::format("lr is {}", options.lr()), "set lr to 0 or more");
  if (!(options.momentum() >= 0)) refuse(fmt::format("momentum is {}", options.momentum()), "set it to 0 or more");
  if (!(options.weight_decay() >= 0)) {
    refuse(fmt::format("weight_decay is {}", options.weight_decay()), "set it to 0 or more");
  }
  if (options.nesterov() && (options.momentum() == 0 || options.dampening() != 0)) {
    refuse(fmt::format("nesterov cannot be combined with momentum {} and dampening {}", options.momentum(),
                       options.dampening()),
           "give nesterov a momentum above 0 and no dampening");
  }
  return options;
}

template <typename T>
void run_sgd_kernel(const SGD::Options& options, const UpdateRun& run, const GradientSource& gradient,
                    std::size_t begin, std::size_t end) {
  SgdPass<T> pass;
  pass.param = reinterpret_cast<const T*>(run.param);
  pass.param_out = reinterpret_cast<T*>(run.param_out);
  pass.momentum_buffer = reinterpret_cast<T*>(run.buffers[0]);
  pass.first = run.first;
  pass.undo = run.undo;
  if constexpr (std::is_same_v<T, float>) pass.copy = run.copy;
  pass.gradient = gradient;
  pass.hyper = {options.lr(), options.momentum(), options.dampening(), options.weight_decay(), options.nesterov()};
  sgd_step(pass, begin, end);
}

class SgdRule final : public TorchRule<torch::optim::SGD, SGD::Options, torch::optim::SGDParamState> {
 public:
  std::size_t num_buffers(const Options& options) const override { return of(options).momentum() != 0 ? 1 : 0; }

  const char* buffer_name(std::size_t index) const override { return index == 0 ? "momentum_buffer" : nullptr; }

  void update_run(const Options& options, const UpdateRun& run, const GradientSource& gradient, std::size_t begin,
                  std::size_t end) const override {
    if (run.type == ElementType::Double) {
      run_sgd_kernel<double>(of(options), run, gradient, begin, end);
    } else {
      run_sgd_kernel<float>(of(options), run, gradient, begin, end);
    }
  }

  void update_tensors(const Options& options, const TensorUpdate& update) const override {
    const SGD::Options& o = of(options);
    std::vector<at::Tensor> change = update.gradients;
    if (o.weight_decay() != 0) change = at::_foreach_add(change, update.parameters, o.weight_decay());
    if (o.momentum() != 0) {
      const std::vector<at::Tensor>& buffers = update.buffers[0];
      for (std::size_t i = 0; update.first && i < buffers.size(); ++i) at::Tensor(buffers[i]).copy_(change[i]);
      if (!update.first) {
        at::_foreach_mul_(buffers, o.momentum());
        at::_foreach_add_(buffers, change, 1 - o.dampening());
      }
      change = o.nesterov() ? at::_foreach_add(change, buffers, o.momentum()) : buffers;
    }
    at::_foreach_add_(update.parameters, change, -o.lr());
  }

  OptionValues option_values(const Options& options) const override {
    const SGD::Options& o = of(options);
    return {{"lr", o.lr()},
            {"momentum", o.momentum()},
            {"dampening", o.dampening()},
            {"weight_decay", o.weight_decay()},
            {"nesterov", o.nesterov() ? 1 : 0}};
  }

  void set_option_values(Options& options, const OptionValues& values) const override {
    SGD::Options set(values.at("lr"));
    set.momentum(values.at("momentum")).dampening(values.at("dampening")).weight_decay(values.at("weight_decay"));
    set.nesterov(values.at("nesterov") != 0);
    static_cast<SGD::Options&>(options) = checked_sgd(set);
  }

  std::unique_ptr<TorchState> make_torch_state(const StateBuffers& buffers, std::int64_t) const override {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(buffers[0]);
    return state;
  }

  void read_torch_state(const TorchState& state, StateBuffers& buffers, std::int64_t&) const override {
    buffers[0] = static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer();
  }

  void set_torch_step(TorchState&, std::int64_t) const override {}

 private:
  static const SGD::Options& of(const Options& options) { return static_cast<const SGD::Options&>(options); }
};

}  // namespace

SGD::SGD(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults)
    : FlatOptimizer(std::move(param_groups), std::make_unique<Options>(checked_sgd(defaults)),
                    std::make_unique<SgdRule>()) {}

SGD::SGD(std::vector<at::Tensor> parameters, Options defaults)
    : SGD(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, std::move(defaults)) {}

}  // namespace lockstep
