#include "tests/simulation/fiber.h"

#include <cxxabi.h>

#include <cstring>
#include <utility>

namespace lockstep::simulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kMostSpareStacks = 32;

Fiber* running = nullptr;
std::vector<std::unique_ptr<std::byte[]>> spare_stacks;

std::unique_ptr<std::byte[]> take_stack() {
  if (spare_stacks.empty()) return std::unique_ptr<std::byte[]>(new std::byte[kStackBytes]);
  auto stack = std::move(spare_stacks.back());
  spare_stacks.pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  ::getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  ::makecontext(&context_, &Fiber::enter, 0);
}

Fiber::~Fiber() {
  if (spare_stacks.size() < kMostSpareStacks) spare_stacks.push_back(std::move(stack_));
}

// The Itanium C++ ABI lays these two fields out, and lets a runtime append others.
void Fiber::exchange_with_thread(Exceptions& kept) {
  auto* const of_thread = abi::__cxa_get_globals();
  Exceptions before;
  std::memcpy(&before, static_cast<const void*>(of_thread), sizeof(before));
  std::memcpy(static_cast<void*>(of_thread), &kept, sizeof(kept));
  kept = before;
}

void Fiber::resume() {
  caller_fiber_ = std::exchange(running, this);
  exchange_with_thread(exceptions_);
  ::swapcontext(&caller_, &context_);
  exchange_with_thread(exceptions_);
  running = caller_fiber_;
}

void Fiber::pause() {
  Fiber* const self = running;
  ::swapcontext(&self->context_, &self->caller_);
}

void Fiber::enter() {
  Fiber* const self = running;
  self->body_();
  self->has_ended_ = true;
  pause();
}

}  // namespace lockstep::simulation
