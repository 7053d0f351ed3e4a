// Step equality: several ranks, and several replicas of one process, end with the weights of one.
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/data_parallel.h"
#include "tools/lockstep/doctor/doctor_job.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSteps = 5;
constexpr std::int64_t kRows = 4;    // of each rank or replica
constexpr double kTolerance = 1e-4;  // fp32, in another order

struct DoctorNet : torch::nn::Cloneable<DoctorNet> {
  DoctorNet() { DoctorNet::reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(16, 32));
    last = register_module("last", torch::nn::Linear(32, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

struct NamedOptimizer {
  const char* name;
  MakeOptimizer make;
};

std::vector<NamedOptimizer> optimizers_to_compare() {
  return {{"torch::optim::SGD",
           [](const auto& weights) {
             return std::make_unique<torch::optim::SGD>(weights, torch::optim::SGDOptions(0.1).momentum(0.9));
           }},
          {"lockstep::AdamW",
           [](const auto& weights) { return std::make_unique<AdamW>(weights, torch::optim::AdamWOptions(1e-2)); }}};
}

std::shared_ptr<DoctorNet> same_net_everywhere(c10::Device device) {
  torch::manual_seed(11);
  auto net = std::make_shared<DoctorNet>();
  net->to(device);
  return net;
}

at::Tensor rows_of_step(int step, std::int64_t rows) {
  return at::arange(rows * 16, at::kFloat).add(step).sin().view({rows, 16});
}

using Forward = std::function<at::Tensor(const at::Tensor&)>;

void train_steps(torch::optim::Optimizer& optimizer, const Forward& forward, c10::Device device, std::int64_t rows,
                 std::int64_t begin, std::int64_t count) {
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    forward(rows_of_step(step, rows).narrow(0, begin, count).to(device)).square().mean().backward();
    optimizer.step();
  }
}

double difference_from_one(const DoctorNet& net, const MakeOptimizer& make, c10::Device device, std::int64_t rows) {
  const auto alone = same_net_everywhere(device);
  const auto optimizer = make(alone->parameters());
  train_steps(
      *optimizer, [&](const at::Tensor& x) { return alone->forward(x); }, device, rows, 0, rows);
  const auto got = net.parameters();
  const auto want = alone->parameters();
  std::vector<at::Tensor> largest;  // a tensor's maximum is NaN if an element is, and std::max would lose it
  for (std::size_t i = 0; i < want.size(); ++i) largest.push_back((got[i] - want[i]).abs().max());
  return at::stack(largest).max().item<double>();
}

void require_equal(double difference, const std::string& what, const std::string& where) {
  if (difference <= kTolerance) return;
  throw Error(fmt::format("{} ends with weights that differ by {:.1e} from those of one process", what, difference),
              where, "do not train with it on this host; report it, with the file that --output writes");
}

}  // namespace

Json equality_part(const DoctorPlace& /*place*/) {
  init_process_group();
  const c10::Device device = use_local_device();
  Json figures = Json::object();
  for (const NamedOptimizer& each : optimizers_to_compare()) {
    const auto net = same_net_everywhere(device);
    DistributedDataParallel<std::shared_ptr<DoctorNet>> ddp(net);
    const auto optimizer = each.make(net->parameters());
    const std::int64_t rows = kRows * get_world_size();
    train_steps(
        *optimizer, [&](const at::Tensor& x) { return ddp(x); }, device, rows, kRows * get_rank(), kRows);
    const double difference = difference_from_one(*net, each.make, device, rows);
    require_equal(difference, std::string("DistributedDataParallel with ") + each.name,
                  default_group()->membership().where());
    figures[each.name] = difference;
  }
  return figures;
}

Json replicas_part(const DoctorPlace& /*place*/) {
  const std::vector<ReplicaDevice> devices{ReplicaDevice(0), ReplicaDevice(1)};
  const c10::Device device = devices.front().tensor_device();
  Json figures = Json::object();
  for (const NamedOptimizer& each : optimizers_to_compare()) {
    const auto net = same_net_everywhere(device);
    DataParallel<std::shared_ptr<DoctorNet>> replicas(net, devices);
    const auto optimizer = each.make(net->parameters());
    const std::int64_t rows = 2 * kRows;
    train_steps(
        *optimizer, [&](const at::Tensor& x) { return replicas(x); }, device, rows, 0, rows);
    const double difference = difference_from_one(*net, each.make, device, rows);
    require_equal(difference, std::string("DataParallel with ") + each.name, device.str());
    figures[each.name] = difference;
  }
  return figures;
}

StepFigures check_equality(const DoctorOptions& options) {
  StepFigures found;
  const int ranks = options.ranks_of_jobs();
  found.figures["ranks"] = run_part_on_ranks("equality", ranks, options);
  if (!options.has_devices() || options.cuda.devices.size() > 1) {
    found.figures["replicas"] = run_part("replicas", options);
  }
  found.line = fmt::format("after {} steps of SGD and AdamW, {} ranks differ from one by {:.0e} at most", kSteps, ranks,
                           std::max(found.figures["ranks"]["torch::optim::SGD"].get<double>(),
                                    found.figures["ranks"]["lockstep::AdamW"].get<double>()));
  return found;
}

}  // namespace lockstep
