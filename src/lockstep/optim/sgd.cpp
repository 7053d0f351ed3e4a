#include "lockstep/optim/sgd.h"

#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;
using torch::optim::SGDParamState;

const Sgd::Options& sgd_options(const OptimizerOptions& options) { return static_cast<const Sgd::Options&>(options); }

Sgd::Options checked(const Sgd::Options& options) {
  const auto refuse = [](const std::string& what, const std::string& fix) { throw Error(what, "Sgd", fix); };
  if (!(options.lr() >= 0)) refuse(fmt::format("lr is {}", options.lr()), "set lr to 0 or more");
  if (!(options.momentum() >= 0)) refuse(fmt::format("momentum is {}", options.momentum()), "set it to 0 or more");
  if (!(options.weight_decay() >= 0)) {
    refuse(fmt::format("weight_decay is {}", options.weight_decay()), "set it to 0 or more");
  }
  if (options.nesterov() && (options.momentum() == 0 || options.dampening() != 0)) {
    refuse(fmt::format("nesterov with momentum {} and dampening {}", options.momentum(), options.dampening()),
           "give nesterov a momentum above 0 and no dampening");
  }
  return options;
}

template <typename T>
void run_kernel(const Sgd::Options& options, const UpdateRun& run, const GradientSource& gradient, std::size_t begin,
                std::size_t end) {
  SgdPass<T> pass;
  pass.param = reinterpret_cast<const T*>(run.param);
  pass.param_out = reinterpret_cast<T*>(run.param_out);
  pass.momentum_buffer = reinterpret_cast<T*>(run.buffers[0]);
  pass.first = run.first;
  pass.gradient = gradient;
  pass.hyper = {options.lr(), options.momentum(), options.dampening(), options.weight_decay(), options.nesterov()};
  sgd_step(pass, begin, end);
}

}  // namespace

Sgd::Sgd(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults)
    : FlatOptimizer(std::move(param_groups), std::make_unique<Options>(checked(defaults))) {}

Sgd::Sgd(std::vector<at::Tensor> parameters, Options defaults)
    : Sgd(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, std::move(defaults)) {}

std::size_t Sgd::num_buffers(const OptimizerOptions& options) const {
  return sgd_options(options).momentum() != 0 ? 1 : 0;
}

const char* Sgd::buffer_name(std::size_t index) const { return index == 0 ? "momentum_buffer" : nullptr; }

void Sgd::update_run(const OptimizerOptions& options, const UpdateRun& run, const GradientSource& gradient,
                     std::size_t begin, std::size_t end) const {
  if (run.type == ElementType::Double) {
    run_kernel<double>(sgd_options(options), run, gradient, begin, end);
  } else {
    run_kernel<float>(sgd_options(options), run, gradient, begin, end);
  }
}

void Sgd::update_tensor(const OptimizerOptions& options, at::Tensor& parameter, const at::Tensor& gradient,
                        const Buffers& buffers, std::int64_t, bool first) const {
  const Options& o = sgd_options(options);
  at::Tensor change = gradient;
  if (o.weight_decay() != 0) change = change.add(parameter, o.weight_decay());
  if (o.momentum() != 0) {
    at::Tensor buffer = buffers[0];
    if (first) {
      buffer.copy_(change);
    } else {
      buffer.mul_(o.momentum()).add_(change, 1 - o.dampening());
    }
    change = o.nesterov() ? change.add(buffer, o.momentum()) : buffer;
  }
  parameter.add_(change, -o.lr());
}

std::unique_ptr<OptimizerParamState> Sgd::make_torch_state(const Buffers& buffers, std::int64_t) const {
  auto state = std::make_unique<SGDParamState>();
  state->momentum_buffer(buffers[0]);
  return state;
}

void Sgd::read_torch_state(const OptimizerParamState& state, Buffers& buffers, std::int64_t&) const {
  buffers[0] = static_cast<const SGDParamState&>(state).momentum_buffer();
}

void Sgd::set_torch_step(OptimizerParamState&, std::int64_t) const {}

Sgd::OptionValues Sgd::option_values(const OptimizerOptions& options) const {
  const Options& o = sgd_options(options);
  return {{"lr", o.lr()},
          {"momentum", o.momentum()},
          {"dampening", o.dampening()},
          {"weight_decay", o.weight_decay()},
          {"nesterov", o.nesterov() ? 1 : 0}};
}

void Sgd::set_option_values(OptimizerOptions& options, const OptionValues& values) const {
  Options set(values.at("lr"));
  set.momentum(values.at("momentum")).dampening(values.at("dampening")).weight_decay(values.at("weight_decay"));
  set.nesterov(values.at("nesterov") != 0);
  static_cast<Options&>(options) = checked(set);
}

void Sgd::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::SGD same(param_groups(), sgd_options(defaults()));
  copy_state_to(same);
  same.save(archive);
}

void Sgd::load(torch::serialize::InputArchive& archive) {
  throw_if_sharded("load");
  torch::optim::serialize<SGDParamState, Options>(archive, *this);
  refresh_all_state();
}

}  // namespace lockstep
