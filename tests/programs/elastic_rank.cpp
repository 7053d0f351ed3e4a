// A rank of a small training in lockstep::elastic_loop, on four virtual shards.
//   elastic_rank [fuse|accelerate|twice] STEPS [RANK STEP PLACE]...
// With fuse its updates are fused; with accelerate they are those of an Accelerator; with twice it asks for a second
// loop, which elastic_loop refuses.
// Rank RANK of the start kills itself in step STEP at PLACE: start (of the step), shard (in its last shard), gradients
// (it has them, and has not updated), writing (in a fused update, at its first weight) or update (it has updated). If
// PLACE is say, it prints "in step" and the step's number instead, once, in its first step from STEP on; if it is slow,
// the steps from STEP on take longer while there are fewer than RANK ranks, so that others have time to join. If PLACE
// is tell, each process prints process=PID in its first step from STEP on, whatever RANK. Rank 0 of the end prints the
// bits of weights and optimizer as a number, and how many ranks there were.
#include <signal.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/models/mlp.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/elastic_loop.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/memory/die_at_first_write.h"

namespace {

struct Death {
  std::string rank;
  std::int64_t step = 0;
  std::string place;
  bool was_said = false;
};
std::vector<Death> deaths;

// The time that a step takes until the ranks are complete: of a process that joins, most passes before it asks.
constexpr std::chrono::milliseconds kSlowStep{10};

void maybe_wait(std::int64_t step, int ranks) {
  for (const Death& each : deaths) {
    if (each.place == "slow" && step >= each.step && ranks < std::stoi(each.rank)) {
      std::this_thread::sleep_for(kSlowStep);
    }
  }
}

void maybe_say(std::int64_t step) {
  for (Death& each : deaths) {
    const bool tells = each.place == "tell", says = each.place == "say" && each.rank == std::getenv("RANK");
    if (each.was_said || step < each.step || !(tells || says)) continue;
    if (tells) std::printf("process=%d\n", static_cast<int>(::getpid()));
    if (says) std::printf("in step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
    each.was_said = true;
  }
}

bool dies_at(std::int64_t step, const std::string& place) {
  if (std::getenv("LOCKSTEP_MEMBER") != nullptr) return false;  // it took a lost rank's place
  return std::any_of(deaths.begin(), deaths.end(), [&](const Death& death) {
    return death.rank == std::getenv("RANK") && death.step == step && death.place == place;
  });
}

void maybe_die(std::int64_t step, const std::string& place) {
  if (dies_at(step, place)) ::raise(SIGKILL);
}

std::uint64_t mixed(std::uint64_t hash, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().contiguous();
  const auto* const bytes = static_cast<const unsigned char*>(plain.data_ptr());
  for (std::size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  return hash;
}

// With buffers, which a forward changes before the step is made.
struct Net : torch::nn::Module {
  Net() : norm(register_module("norm", torch::nn::BatchNorm1d(8))) {
    lockstep::MlpOptions sizes;
    sizes.features = 8;
    sizes.hidden = {16};
    sizes.classes = 3;
    mlp = register_module("mlp", lockstep::Mlp(sizes));
  }
  at::Tensor forward(const at::Tensor& x) { return mlp->forward(norm->forward(x)); }

  torch::nn::BatchNorm1d norm;
  lockstep::Mlp mlp{nullptr};
};

// The steps of one group. A wrapper is `forward`, what runs the shards of an update, `backward`, and the optimizer's
// step.
struct Wrapper {
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<void(std::int64_t step, const std::function<void(std::int64_t shard)>& body)> run_shards;
  std::function<void(const at::Tensor& loss)> backward;
  std::function<void()> step;
  std::int64_t last_shard = 0;  // of this rank
};

void make_steps(lockstep::ElasticSteps& now, const Wrapper& wrapper, const at::Tensor& first_weight,
                std::int64_t& made) {
  while (now.next()) {
    const std::int64_t step = now.step();
    maybe_say(step);
    maybe_wait(step, now.group()->world_size());
    maybe_die(step, "start");
    wrapper.run_shards(step, [&](std::int64_t shard) {
      if (shard == wrapper.last_shard) maybe_die(step, "shard");
      const at::Tensor numbers = torch::arange(step * 4 + shard, step * 4 + shard + 16).fmod(7).view({2, 8});
      const at::Tensor labels = torch::tensor({(step + shard) % 3, (step * shard) % 3}, torch::kLong);
      wrapper.backward(torch::nn::functional::cross_entropy(wrapper.forward(numbers.to(torch::kFloat)), labels));
    });
    maybe_die(step, "gradients");
    if (dies_at(step, "writing")) lockstep::die_at_first_write(first_weight);
    wrapper.step();
    ++made;
    maybe_die(step, "update");
  }
}

lockstep::DistributedDataParallelOptions on_shards(const lockstep::ElasticSteps& now) {
  lockstep::DistributedDataParallelOptions options;
  options.process_group = now.group();
  options.virtual_shards = 4;
  return options;
}

void make_steps_of_accelerator(lockstep::ElasticSteps& now, const std::shared_ptr<Net>& model,
                               lockstep::Adam& optimizer, std::int64_t& made) {
  lockstep::AcceleratorOptions options;
  options.cpu = true;
  options.ddp = on_shards(now);
  lockstep::Accelerator accelerator(options);
  auto prepared = accelerator.prepare(model, optimizer);
  auto& net = std::get<0>(prepared);
  auto& steps = std::get<1>(prepared);
  const Wrapper wrapper{[&](const at::Tensor& x) { return net(x); },
                        [&](std::int64_t step, const std::function<void(std::int64_t)>& body) {
                          accelerator.run_shards(net, static_cast<std::uint64_t>(step), body);
                        },
                        [&](const at::Tensor& loss) { accelerator.backward(loss); }, [&] { steps.step(); },
                        net.ddp().shards().end - 1};
  make_steps(now, wrapper, model->parameters().front(), made);
}

void make_steps_of_ddp(lockstep::ElasticSteps& now, const std::shared_ptr<Net>& model, lockstep::Adam& optimizer,
                       bool fuses, std::int64_t& made) {
  lockstep::DistributedDataParallel ddp(model, on_shards(now));
  if (fuses && ddp.fuse(optimizer) != lockstep::FuseMode::SharedWeights) {
    throw std::runtime_error("not fused: " + ddp.fuse_reason());
  }
  const Wrapper wrapper{[&](const at::Tensor& x) { return ddp(x); },
                        [&](std::int64_t step, const std::function<void(std::int64_t)>& body) {
                          ddp.run_shards(static_cast<std::uint64_t>(step), body);
                        },
                        [](const at::Tensor& loss) { loss.backward(); }, [&] { optimizer.step(); },
                        ddp.shards().end - 1};
  make_steps(now, wrapper, model->parameters().front(), made);
}

int run(std::int64_t steps, const std::string& how) {
  torch::manual_seed(1);
  const auto model = std::make_shared<Net>();
  lockstep::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  std::int64_t made = 0;  // what no tensor holds
  int most_ranks = 0, least_ranks = 100;
  lockstep::ElasticState state;
  state.tensors = model->parameters();
  for (const at::Tensor& buffer : model->buffers()) state.tensors.push_back(buffer);
  state.optimizers = {&optimizer};
  state.save = [&] { return std::to_string(made); };
  state.load = [&](const std::string& bytes) { made = std::stoll(bytes); };
  int last_rank = -1;
  lockstep::elastic_loop(steps, state, [&](lockstep::ElasticSteps& now) {
    most_ranks = std::max(most_ranks, now.group()->world_size());
    least_ranks = std::min(least_ranks, now.group()->world_size());
    last_rank = now.group()->rank();
    if (how == "accelerate") return make_steps_of_accelerator(now, model, optimizer, made);
    make_steps_of_ddp(now, model, optimizer, how == "fuse", made);
  });
  if (how == "twice") lockstep::elastic_loop(steps, state, [](lockstep::ElasticSteps&) {});
  if (made != steps) throw std::runtime_error("made " + std::to_string(made) + " updates");
  std::uint64_t hash = 14695981039346656037ULL;
  for (const at::Tensor& tensor : state.tensors) hash = mixed(hash, tensor);
  lockstep::NamedParameters names;
  for (const auto& parameter : model->named_parameters()) names.emplace_back(parameter.key(), parameter.value());
  for (const auto& [name, of_parameter] : optimizer.named_state(names)) {
    for (const auto& [kind, tensor] : of_parameter.tensors) hash = mixed(hash, tensor);
  }
  if (last_rank == 0) {
    std::printf("bits %016llx, ranks %d to %d\n", static_cast<unsigned long long>(hash), least_ranks, most_ranks);
  }
  lockstep::destroy_process_group();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::string how = count > 2 && std::isdigit(words[1][0]) == 0 ? words[1] : "";
    const int first = how.empty() ? 1 : 2;
    for (int i = first + 1; i + 2 < count; i += 3) {
      deaths.push_back({words[i], std::stoll(words[i + 1]), words[i + 2]});
    }
    return run(std::stoll(words[first]), how);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
