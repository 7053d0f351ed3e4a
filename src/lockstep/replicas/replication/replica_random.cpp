#include "lockstep/replicas/replication/replica_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "lockstep/tensor/dispatch_keys.h"

namespace lockstep {
namespace {

thread_local at::Generator* replica_generator = nullptr;
thread_local ReplicaSeed* replica_seed = nullptr;

bool takes_generator(const c10::Argument& argument) {
  const auto optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// Passes the replica's generator if the caller passed none.
void draw_from_replica(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  bool is_on_cpu = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    if (value.isTensor() && value.toTensor().defined()) is_on_cpu = is_on_cpu && value.toTensor().device().is_cpu();
    if (value.isDevice()) is_on_cpu = is_on_cpu && value.toDevice().is_cpu();
  }
  for (std::size_t i = 0; is_on_cpu && i < arguments.size(); ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    if (!value.isNone() || !takes_generator(arguments[i])) continue;
    replica_seed->draw();
    value = *replica_generator;
  }
  const c10::impl::ExcludeDispatchKeyGuard pass(kReplicaKey);
  op.callBoxed(stack);
}

bool draws(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), takes_generator);
}

// LibTorch has no generator per thread, but its dispatcher can intercept operators: those with a generator argument.
void install_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    const MakeFunction make = [] { return torch::CppFunction::makeFromBoxedFunction<&draw_from_replica>(); };
    call_before_operations(kReplicaKey, make, &draws);
  });
}

}  // namespace

ReplicaSeed::ReplicaSeed(std::vector<ReplicaRandom>& replicas, std::size_t count) : replicas_(replicas), count_(count) {
  install_kernels();
  replicas_.resize(std::max(replicas_.size(), count_));
}

ReplicaSeed::ReplicaSeed(std::vector<ReplicaRandom>& replicas, std::size_t count, std::uint64_t number)
    : replicas_(replicas), count_(count), number_(number) {
  install_kernels();
  replicas_.resize(std::max(replicas_.size(), count_));
}

void ReplicaSeed::draw() {
  std::call_once(once_, [this] {
    std::uint64_t number = number_.value_or(0);
    if (!number_) {
      const auto process_generator = at::detail::getDefaultCPUGenerator();
      auto* generator = at::check_generator<at::CPUGeneratorImpl>(process_generator);
      const std::lock_guard<std::mutex> lock(generator->mutex_);
      number = generator->random64();
    }
    RandomStream seeds(number);
    for (std::size_t i = 0; i < count_; ++i) {
      ReplicaRandom& replica = replicas_[i];
      replica.stream = RandomStream(seeds.next());
      if (!replica.generator.defined()) replica.generator = at::detail::createCPUGenerator();
      replica.generator.set_current_seed(seeds.next());
    }
  });
}

ReplicaRandomGuard::ReplicaRandomGuard(ReplicaRandom& random, ReplicaSeed& seed, bool trains)
    : stream_(trains ? &random.stream : current_random_stream()),
      before_(replica_generator),
      seed_before_(replica_seed),
      key_(kReplicaKey) {
  replica_generator = &random.generator;
  replica_seed = &seed;
}

ReplicaRandomGuard::~ReplicaRandomGuard() {
  replica_generator = before_;
  replica_seed = seed_before_;
}

}  // namespace lockstep
